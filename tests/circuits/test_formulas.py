"""The language of formulas: what it computes, and that text is never run as code."""

import cmath
import math

import pytest

from qml.circuits.formulas import COMPLEX, evaluate


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2*a0 - a1/4", 0.9),
        ("-a0**2", -0.16),
        ("(-a0)**2", 0.16),
        ("a1**(-2)", 1 / 0.16),
        ("a0**a1", 0.4**-0.4),
        ("sin(pi*a0)", math.sin(0.4 * math.pi)),
        ("E**a1", math.exp(-0.4)),
        ("sign(a1)*abs(a1)", -0.4),
        ("log(a1)", cmath.log(-0.4)),
        ("1e-20 + 10000000000000000000000000", 1e25),
    ],
)
def test_formulas_have_their_values(text, expected):
    assert evaluate(text, [0.4, -0.4], COMPLEX) == pytest.approx(expected, rel=1e-15)


@pytest.mark.parametrize(
    "text",
    [
        "__import__('os').getpid()",
        "a0.real",
        "[a0][0]",
        "(lambda: a0)()",
        "a0 if a0 else a0",
        "eval(a0)",
        "sin(a0, a0)",
        "sin(*a0)",
        "'a0'",
        "True",
        "1j*a0",
        "a2",
        "a",
        "x",
        "a0 // 2",
        "a0 +",
        "+".join(["(" * 50 + "a0" + ")" * 50] * 5000),
    ],
    ids=lambda text: text[:20],
)
def test_anything_else_is_refused(text):
    with pytest.raises(ValueError, match="formula"):
        evaluate(text, [0.4, -0.4], COMPLEX)


def test_a_function_that_is_not_offered_is_refused():
    with pytest.raises(ValueError, match="sin"):
        evaluate("sin(a0)", [0.4], {"cos": math.cos})
