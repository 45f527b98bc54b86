"""Angle expressions: Qiskit's symbols in, an affine form or a SymPy formula out.

Only their structure is read here. Their derivatives are taken by JAX (qml.circuits.binding), since
releases of Qiskit differentiate powers wrongly (Qiskit/qiskit#16260).
"""

from __future__ import annotations

import ast
import cmath
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

from qiskit.circuit import Parameter, ParameterExpression

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
    """The form of an affine expression, else its canonical text."""
    found = _affine(keyed, count)
    if found is None:
        # Only now: SymPy takes a third of a second to import, and most angles need none of it.
        from qml.circuits.formulas import form

        return form(keyed, count)
    return found


def _affine(keyed: Keyed, count: int) -> Form | None:
    """The form of an expression whose text is sums, and products with numbers, if it has its value.

    None for all others.
    """
    if keyed.probe is None:
        return None
    try:
        coefficients, constant = _walk(ast.parse(keyed.text, mode="eval").body, count)
    except (SyntaxError, ValueError, ArithmeticError, RecursionError):
        return None
    which, value = keyed.probe
    terms = [c * place(which, j) for j, c in enumerate(coefficients)]
    close = abs(sum(terms) + constant - value) <= 1e-12 * (1 + abs(constant) + sum(map(abs, terms)))
    return (tuple(coefficients), constant) if close else None


def _walk(node: ast.expr, count: int) -> tuple[list[float], float]:
    """Coefficients and constant of a part of the text; ValueError if it is none of the kind."""
    match node:
        case ast.Constant(value=int() | float() as value):
            return [0.0] * count, float(value)
        case ast.Name(id=name) if name in (names := [f"a{j}" for j in range(count)]):
            return [float(name == other) for other in names], 0.0
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            coefficients, constant = _walk(operand, count)
            return [-c for c in coefficients], -constant
        case ast.BinOp(left=left, op=operation, right=right):
            (a, b), (c, d) = _walk(left, count), _walk(right, count)
            if isinstance(operation, ast.Add | ast.Sub):
                sign = 1 if isinstance(operation, ast.Add) else -1
                return [x + sign * y for x, y in zip(a, c, strict=True)], b + sign * d
            if isinstance(operation, ast.Mult) and not any(a):
                return [b * y for y in c], b * d
            if isinstance(operation, ast.Mult) and not any(c):
                return [x * d for x in a], b * d
            if isinstance(operation, ast.Div) and not any(c):
                return [x / d for x in a], b / d
    raise ValueError


def real(value: complex) -> float:
    """A number as a real one.

    Raises:
        TracingError: it is complex, or not finite.
    """
    number = complex(value)
    if number.imag != 0 or not cmath.isfinite(number):
        raise TracingError(f"an angle must be real and finite, found the number {number}.")
    return number.real
