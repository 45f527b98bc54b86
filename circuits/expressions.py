"""Angle expressions: Qiskit's symbols in, an affine form or a formula out.

Only their structure is read here. Their derivatives are taken by JAX (qml.circuits.binding), since
releases of Qiskit differentiate powers wrongly (Qiskit/qiskit#16260).
"""

from __future__ import annotations

import cmath
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

from qiskit.circuit import Parameter, ParameterExpression

from qml.circuits.formulas import COMPLEX, evaluate
from qml.circuits.polynomials import Polynomial
from qml.circuits.probes import Keyed, place
from qml.errors import TracingError


@dataclass(frozen=True)
class Affine:
    """sum_i coefficients[i] * v[arguments[i]] + constant."""

    arguments: tuple[int, ...]
    coefficients: tuple[float, ...]
    constant: float


@dataclass(frozen=True)
class Nonlinear:
    """A formula (qml.circuits.formulas) in a0, a1, ... with aj standing for v[arguments[j]]."""

    text: str
    arguments: tuple[int, ...]


def analyse(
    angle: float | ParameterExpression, index: Mapping[Parameter, int]
) -> Affine | Nonlinear:
    """The angle as a function of the flat arguments v; `index` says where each symbol stands in v.

    Raises:
        TracingError: the angle holds a symbol that is no argument, or is not real.
    """
    if not isinstance(angle, ParameterExpression):
        return Affine((), (), real(angle))
    if isinstance(angle, Parameter) and angle in index:
        return Affine((index[angle],), (1.0,), 0.0)
    unknown = [p.name for p in angle.parameters if p not in index]
    if unknown:
        raise TracingError(
            f"the circuit holds the free parameter(s) {sorted(unknown)}, which are no arguments of "
            "the kernel. Use the kernel's own arguments as angles; a library circuit's parameters "
            "are filled by its assign_parameters(array)."
        )
    symbols = sorted(angle.parameters, key=index.__getitem__)
    # Numbered per expression, so that 2*x(0) and 2*x(7) are one structure, parsed once.
    local = {symbol: Parameter(f"a{j}") for j, symbol in enumerate(symbols)}
    where = tuple(index[symbol] for symbol in symbols)
    found = _form(Keyed(angle.subs(local)), len(symbols))
    if isinstance(found, str):
        return Nonlinear(found, where)
    linear, constant = found
    kept = [(a, real(c)) for a, c in zip(where, linear, strict=True) if c != 0]
    return Affine(tuple(a for a, _ in kept), tuple(c for _, c in kept), real(constant))


Form = tuple[tuple[complex, ...], complex]
"""Coefficients of a0, a1, ... and a constant."""


@lru_cache(maxsize=4096)
def _form(keyed: Keyed, count: int) -> Form | str:
    """The form of an affine expression, else the text of its formula."""
    if _reads(keyed, count):
        affine = _affine(keyed.text, count)
        return keyed.text if affine is None else affine
    # Only now: SymPy takes a third of a second to import, and most angles need none of it.
    from qml.circuits.symbolic import form

    return form(keyed, count)


def _reads(keyed: Keyed, count: int) -> bool:
    """Whether the text, read as a formula, has the value of the expression."""
    if keyed.probe is None:
        return False
    which, value = keyed.probe
    try:
        found = evaluate(keyed.text, [complex(place(which, j)) for j in range(count)], COMPLEX)
    except (ValueError, ArithmeticError):
        return False
    return bool(abs(found - value) <= 1e-12 * (1 + abs(value)))


def _affine(text: str, count: int) -> Form | None:
    """The form of a formula that, multiplied out, is affine; None for all others."""
    try:
        found = evaluate(text, [Polynomial.symbol(j) for j in range(count)], {})
        terms = Polynomial.of(found).terms
    except (ValueError, ArithmeticError):
        return None
    if any(len(monomial) > 1 for monomial in terms):
        return None
    return tuple(terms.get((j,), 0.0) for j in range(count)), terms.get((), 0.0)


def real(value: complex) -> float:
    """A number as a real one.

    Raises:
        TracingError: it is complex, or not finite.
    """
    number = complex(value)
    if number.imag != 0 or not cmath.isfinite(number):
        raise TracingError(f"an angle must be real and finite, found the number {number}.")
    return number.real
