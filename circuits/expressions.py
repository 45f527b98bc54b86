"""Angle expressions: Qiskit's symbols in, an affine form or a SymPy formula out.

Only their structure is read here. Their derivatives are taken by JAX (qml.circuits.binding), since
releases of Qiskit differentiate powers wrongly (Qiskit/qiskit#16260).
"""

from __future__ import annotations

import cmath
from collections.abc import Mapping
from dataclasses import dataclass

from qiskit.circuit import Parameter, ParameterExpression

from qml.errors import TracingError


@dataclass(frozen=True)
class Affine:
    """sum_i coefficients[i] * v[arguments[i]] + constant."""

    arguments: tuple[int, ...]
    coefficients: tuple[float, ...]
    constant: float


@dataclass(frozen=True)
class Nonlinear:
    """A SymPy expression in a0, a1, ... with aj standing for v[arguments[j]]."""

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
    # Only now: SymPy takes half a second to import, and plain parameters need none of it.
    from qml.circuits.formulas import form

    found = form(angle.subs(local), len(symbols))
    if isinstance(found, str):
        return Nonlinear(found, where)
    linear, constant = found
    kept = [(a, real(c)) for a, c in zip(where, linear, strict=True) if c != 0]
    return Affine(tuple(a for a, _ in kept), tuple(c for _, c in kept), real(constant))


def real(value: complex) -> float:
    """A number as a real one.

    Raises:
        TracingError: it is complex, or not finite.
    """
    number = complex(value)
    if number.imag != 0 or not cmath.isfinite(number):
        raise TracingError(f"an angle must be real and finite, found the number {number}.")
    return number.real
