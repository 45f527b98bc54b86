"""Formulas of angles: arithmetic and functions of a0, a1, ..., never run as code."""

from __future__ import annotations

import ast
import cmath
import math
import operator
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any, Final

Functions = Mapping[str, Callable[[Any], Any]]

OPERATORS: Final[dict[type[ast.operator], Callable[[Any, Any], Any]]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.Pow: operator.pow,
}
CONSTANTS: Final = {"pi": math.pi, "E": math.e}


def _sign(z: complex) -> complex:
    return z / abs(z) if z else 0.0


COMPLEX: Final[Functions] = {
    "sin": cmath.sin,
    "cos": cmath.cos,
    "tan": cmath.tan,
    "asin": cmath.asin,
    "acos": cmath.acos,
    "atan": cmath.atan,
    "exp": cmath.exp,
    "log": cmath.log,
    "sqrt": cmath.sqrt,
    "abs": abs,
    "sign": _sign,
    "conj": lambda z: complex(z).conjugate(),
}
"""All functions of the language, of complex numbers."""


def evaluate(text: str, values: Sequence[Any], functions: Functions) -> Any:
    """The formula at a0, a1, ... = values: numbers, arrays, or whatever has the operators.

        >>> evaluate("2*a0 + sin(a1)**2", [3, 0.0], COMPLEX)
        (6+0j)

    Raises:
        ValueError: the text is no formula, or has a function that is not among `functions`.
    """
    try:
        return _value(_tree(text), values, functions)
    except (SyntaxError, RecursionError) as error:
        raise ValueError(f"no formula: {text}") from error


@lru_cache(maxsize=1024)
def _tree(text: str) -> ast.expr:
    return ast.parse(text, mode="eval").body


def _value(node: ast.expr, values: Sequence[Any], functions: Functions) -> Any:
    match node:
        case ast.Constant(value=int() | float() as number) if not isinstance(number, bool):
            return float(number)
        case ast.Name(id=name) if name in CONSTANTS:
            return CONSTANTS[name]
        case ast.Name(id=name) if name[:1] == "a" and name[1:].isdecimal():
            which = int(name[1:])
            if which < len(values):
                return values[which]
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return -_value(operand, values, functions)
        case ast.BinOp(left=left, op=operation, right=right) if type(operation) in OPERATORS:
            a, b = _value(left, values, functions), _value(right, values, functions)
            if isinstance(operation, ast.Pow) and isinstance(b, float) and b.is_integer():
                b = int(b)  # x**2 and its derivatives are exact for x <= 0 too
            return OPERATORS[type(operation)](a, b)
        case ast.Call(func=ast.Name(id=name), args=[argument], keywords=[]) if name in functions:
            return functions[name](_value(argument, values, functions))
    raise ValueError(f"a formula cannot hold {ast.unparse(node)}")
