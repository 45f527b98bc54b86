"""Expressions of Qiskit read as SymPy formulas, and compared with Qiskit's own values."""

from __future__ import annotations

from typing import Any, Final

import sympy
from sympy.parsing.sympy_parser import parse_expr

from qml.circuits.probes import Keyed, place
from qml.errors import TracingError

# What Qiskit prints that SymPy names otherwise.
_FUNCTIONS: Final = {"conj": sympy.conjugate, "abs": sympy.Abs}


def form(keyed: Keyed, count: int) -> tuple[tuple[complex, ...], complex] | str:
    """(coefficients, constant) of an affine expression in a0, ..., else its canonical text.

    Raises:
        TracingError: it is not real, or cannot be read.
    """
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


def _read(keyed: Keyed, symbols: list[sympy.Symbol]) -> sympy.Expr:
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


def _by_sympify(keyed: Keyed) -> Any:
    try:
        return keyed.expression.sympify()
    except (AttributeError, TypeError, sympy.SympifyError):  # a part of it is NotImplemented
        return None


def _by_text(keyed: Keyed) -> Any:
    try:
        return parse_expr(keyed.text, local_dict=dict(_FUNCTIONS))
    except SyntaxError:  # complex numbers are printed as 0+1i
        return None


def _agrees(
    expression: sympy.Expr, symbols: list[sympy.Symbol], which: int, expected: complex
) -> bool:
    values = {s: sympy.Float(place(which, j), 30) for j, s in enumerate(symbols)}
    found = complex(expression.evalf(15, subs=values))
    return abs(found - expected) <= 1e-9 * (1 + abs(expected))


def parse(text: str) -> sympy.Expr:
    """The SymPy expression of a Formula's text."""
    return parse_expr(text)
