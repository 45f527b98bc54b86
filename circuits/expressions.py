"""Angle expressions: Qiskit's symbols in, an affine form or a SymPy formula out.

Only their structure is read here. Their derivatives are taken by JAX (qml.circuits.binding), since
releases of Qiskit differentiate powers wrongly (Qiskit/qiskit#16260).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

import sympy
from qiskit.circuit import Parameter, ParameterExpression
from sympy.parsing.sympy_parser import parse_expr

from qml.errors import TracingError

# What Qiskit prints that SymPy names otherwise.
_FUNCTIONS = {"conj": sympy.conjugate, "abs": sympy.Abs}


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
        return Affine((), (), _real(angle))
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
    # The text, since `sympify()` of a number to a symbolic power returns NotImplemented.
    form = _form(str(angle.subs(local)), len(symbols))
    if isinstance(form, str):
        return Nonlinear(form, where)
    linear, constant = form
    kept = [(a, c) for a, c in zip(where, linear, strict=True) if c != 0]
    return Affine(tuple(a for a, _ in kept), tuple(c for _, c in kept), constant)


@lru_cache(maxsize=4096)
def _form(text: str, count: int) -> tuple[tuple[float, ...], float] | str:
    """(coefficients, constant) of an affine expression in a0..., else its canonical text."""
    symbols = {f"a{j}": sympy.Symbol(f"a{j}", real=True) for j in range(count)}
    expression = parse_expr(text, local_dict={**_FUNCTIONS, **symbols})
    terms = sympy.expand(expression).as_coefficients_dict()
    constant = terms.pop(sympy.S.One, 0)
    if not set(terms) <= set(symbols.values()):
        return str(sympy.srepr(expression))
    return tuple(_real(terms.get(s, 0)) for s in symbols.values()), _real(constant)


def parse(text: str) -> sympy.Expr:
    """The SymPy expression of a Formula's text."""
    return parse_expr(text)


def _real(value: complex) -> float:
    number = complex(value)
    if number.imag != 0:
        raise TracingError(f"an angle must be real, found the number {number}.")
    return number.real
