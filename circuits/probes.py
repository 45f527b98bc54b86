"""Expressions of Qiskit known by their text and by a value, to compare what was read of them with.

Qiskit prints different expressions alike, and some of them wrongly, so no text is believed alone.
"""

from __future__ import annotations

import cmath
from typing import Final

from qiskit.circuit import ParameterExpression
from qiskit.circuit.exceptions import CircuitError

PROBES: Final = (0.71803, -0.43517, 3.61771, 0.02931, 24.1937)
"""Where an expression and what was read of it are compared: a_j is probe * (1 + j / 7)."""


class Keyed:
    """An expression in a0, a1, ..., equal to others of the same text and value.

    Attributes:
        probe: (which of PROBES, the value there), the first where it has one; None if nowhere.
    """

    def __init__(self, expression: ParameterExpression) -> None:
        self.expression, self.text = expression, str(expression)
        self.probe = _probed(expression)

    def __eq__(self, other: object) -> bool:
        same = isinstance(other, Keyed)
        return same and (self.text, self.probe) == (other.text, other.probe)  # type: ignore[attr-defined]

    def __hash__(self) -> int:
        return hash(self.text)


def _probed(expression: ParameterExpression) -> tuple[int, complex] | None:
    """(which probe, value there) at the first probe where it has a value; None if nowhere."""
    for which in range(len(PROBES)):
        values = {p: place(which, int(p.name[1:])) for p in expression.parameters}
        try:
            value = complex(expression.bind(values))
        except (CircuitError, ZeroDivisionError, OverflowError, TypeError, RuntimeError):
            continue  # Qiskit's RuntimeError: the value is NaN
        if cmath.isfinite(value):
            return which, value
    return None


def place(which: int, argument: int) -> float:
    """Where a probe puts a_argument."""
    return PROBES[which] * (1 + argument / 7)
