"""Angle expressions: Qiskit's symbols in, an affine form or a SymPy formula out.

Only their structure is read here. Their derivatives are taken by JAX (qml.circuits.binding), since
releases of Qiskit differentiate powers wrongly (Qiskit/qiskit#16260).
"""

from __future__ import annotations

import cmath
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

import sympy
from qiskit.circuit import Parameter, ParameterExpression
from qiskit.circuit.exceptions import CircuitError
from sympy.parsing.sympy_parser import parse_expr

from qml.errors import TracingError

# What Qiskit prints that SymPy names otherwise.
_FUNCTIONS: Final = {"conj": sympy.conjugate, "abs": sympy.Abs}

_PROBES: Final = (0.71803, -0.43517, 3.61771, 0.02931, 24.1937)
"""Where an expression and what was read of it are compared: a_j is probe * (1 + j / 7)."""


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
    renamed = angle.subs(local)
    # With a value, since Qiskit prints different expressions alike.
    form = _form(_Keyed(renamed, str(renamed), _probed(renamed, len(symbols))), len(symbols))
    if isinstance(form, str):
        return Nonlinear(form, where)
    linear, constant = form
    kept = [(a, c) for a, c in zip(where, linear, strict=True) if c != 0]
    return Affine(tuple(a for a, _ in kept), tuple(c for _, c in kept), constant)


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
def _form(keyed: _Keyed, count: int) -> tuple[tuple[float, ...], float] | str:
    """(coefficients, constant) of an affine expression in a0..., else its canonical text."""
    symbols = [sympy.Symbol(f"a{j}", real=True) for j in range(count)]
    expression = _read(keyed, symbols)
    slopes = [sympy.diff(expression, symbol) for symbol in symbols]
    if not any(slope.free_symbols for slope in slopes):
        constant = expression.subs({symbol: 0 for symbol in symbols})
        return tuple(map(_real, slopes)), _real(constant)
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


def _probed(expression: ParameterExpression, count: int) -> tuple[int, complex] | None:
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


def _real(value: complex) -> float:
    number = complex(value)
    if number.imag != 0 or not cmath.isfinite(number):
        raise TracingError(f"an angle must be real and finite, found the number {number}.")
    return number.real
