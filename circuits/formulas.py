"""Expressions of Qiskit read as SymPy formulas, and compared with Qiskit's own values."""

from __future__ import annotations

import cmath
from functools import lru_cache
from typing import Any, Final

import sympy
from qiskit.circuit import ParameterExpression
from qiskit.circuit.exceptions import CircuitError
from sympy.parsing.sympy_parser import parse_expr

from qml.errors import TracingError

# What Qiskit prints that SymPy names otherwise.
_FUNCTIONS: Final = {"conj": sympy.conjugate, "abs": sympy.Abs}

_PROBES: Final = (0.71803, -0.43517, 3.61771, 0.02931, 24.1937)
"""Where an expression and what was read of it are compared: a_j is probe * (1 + j / 7)."""


def form(expression: ParameterExpression, count: int) -> tuple[tuple[complex, ...], complex] | str:
    """(coefficients, constant) of an affine expression in a0, ..., else its canonical text.

    Raises:
        TracingError: it is not real, or cannot be read.
    """
    # Known by its value too, since Qiskit prints different expressions alike.
    return _form(_Keyed(expression, str(expression), _probed(expression)), count)


class _Keyed:
    """An expression in a0, a1, ..., equal to others of the same text and value."""

    def __init__(
        self, expression: ParameterExpression, text: str, probe: tuple[int, complex] | None
    ) -> None:
        self.expression, self.text, self.probe = expression, text, probe

    def __eq__(self, other: object) -> bool:
        same = isinstance(other, _Keyed)
        return same and (self.text, self.probe) == (other.text, other.probe)  # type: ignore[attr-defined]

    def __hash__(self) -> int:
        return hash(self.text)


@lru_cache(maxsize=4096)
def _form(keyed: _Keyed, count: int) -> tuple[tuple[complex, ...], complex] | str:
    """(coefficients, constant) of an affine expression in a0..., else its canonical text."""
    symbols = [sympy.Symbol(f"a{j}", real=True) for j in range(count)]
    expression = _read(keyed, symbols)
    slopes = [sympy.diff(expression, symbol) for symbol in symbols]
    if not any(slope.free_symbols for slope in slopes):
        constant = expression.subs({symbol: 0 for symbol in symbols})
        return tuple(map(complex, slopes)), complex(constant)
    if expression.has(sympy.I):
        expression = sympy.expand(expression)
    if expression.has(sympy.I):
        raise TracingError(f"an angle must be real and finite, found {keyed.text}.")
    return str(sympy.srepr(expression))


def _read(keyed: _Keyed, symbols: list[sympy.Symbol]) -> sympy.Expr:
    """The expression in SymPy, compared with Qiskit's own value.

    Neither way of reading it is right by itself in Qiskit 2.6: `sympify` returns NotImplemented for
    a number to a symbolic power, and the text lacks brackets in 1/(-(a*b)).
    """
    for read in (_by_sympify, _by_text):
        found = read(keyed)
        if isinstance(found, sympy.Expr):
            found = found.xreplace({sympy.Symbol(s.name): s for s in symbols})
            if keyed.probe is None or _agrees(found, symbols, *keyed.probe):
                return found
    raise TracingError(
        f"the angle {keyed.text} cannot be read from Qiskit's ParameterExpression. Write it "
        "another way, or compute it outside and pass it as an argument."
    )


def _by_sympify(keyed: _Keyed) -> Any:
    try:
        return keyed.expression.sympify()
    except (AttributeError, TypeError, sympy.SympifyError):  # a part of it is NotImplemented
        return None


def _by_text(keyed: _Keyed) -> Any:
    try:
        return parse_expr(keyed.text, local_dict=dict(_FUNCTIONS))
    except SyntaxError:  # complex numbers are printed as 0+1i
        return None


def _probed(expression: ParameterExpression) -> tuple[int, complex] | None:
    """(which probe, value there) at the first probe where it has a value; None if nowhere."""
    for which in range(len(_PROBES)):
        values = {p: _probe(which, int(p.name[1:])) for p in expression.parameters}
        try:
            value = complex(expression.bind(values))
        except (CircuitError, ZeroDivisionError, OverflowError, TypeError):
            continue
        if cmath.isfinite(value):
            return which, value
    return None


def _probe(which: int, argument: int) -> float:
    return _PROBES[which] * (1 + argument / 7)


def _agrees(
    expression: sympy.Expr, symbols: list[sympy.Symbol], which: int, expected: complex
) -> bool:
    values = {s: sympy.Float(_probe(which, j), 30) for j, s in enumerate(symbols)}
    found = complex(expression.evalf(15, subs=values))
    return abs(found - expected) <= 1e-9 * (1 + abs(expected))


def parse(text: str) -> sympy.Expr:
    """The SymPy expression of a Formula's text."""
    return parse_expr(text)
