"""Expressions of Qiskit whose text is not what they are, read through SymPy.

SymPy takes a third of a second to import, so that this comes last.
"""

from __future__ import annotations

from typing import Any, Final

import sympy
from sympy.parsing.sympy_parser import parse_expr
from sympy.printing.str import StrPrinter

from qml.circuits.probes import Keyed, place
from qml.errors import TracingError


class _Printer(StrPrinter):  # type: ignore[misc]
    """The language of qml.circuits.formulas, numbers with all their digits."""

    def _print_Float(self, expr: sympy.Float) -> str:
        return repr(float(expr))

    def _print_Abs(self, expr: sympy.Abs) -> str:
        return f"abs({self._print(expr.args[0])})"

    def _print_conjugate(self, expr: sympy.conjugate) -> str:
        return f"conj({self._print(expr.args[0])})"


# What Qiskit prints that SymPy names otherwise.
_FUNCTIONS: Final = {"conj": sympy.conjugate, "abs": sympy.Abs}


def form(keyed: Keyed, count: int) -> tuple[tuple[complex, ...], complex] | str:
    """(coefficients, constant) of an affine expression in a0, ..., else the text of its formula.

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
    return str(_Printer().doprint(expression))


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
