"""Polynomials: a ring, whose elements have the values of the formulas that make them."""

import pytest
from hypothesis import given, strategies as st

from qml.circuits.formulas import evaluate
from qml.circuits.polynomials import LARGEST, Polynomial

A, B = Polynomial.symbol(0), Polynomial.symbol(1)

leaves = st.sampled_from(["a0", "a1", "2", "0.5", "3"])
formulas = st.recursive(
    leaves,
    lambda inner: st.one_of(
        st.tuples(inner, st.sampled_from("+-*"), inner).map(lambda t: f"({t[0]} {t[1]} {t[2]})"),
        inner.map(lambda t: f"(-{t})"),
        inner.map(lambda t: f"{t}**2"),
        inner.map(lambda t: f"{t}/4"),
    ),
    max_leaves=6,
)


def value(polynomial, at):
    total = 0.0
    for monomial, coefficient in polynomial.terms.items():
        for symbol in monomial:
            coefficient *= at[symbol]
        total += coefficient
    return total


@given(formulas)
def test_a_polynomial_has_the_value_of_its_formula(text):
    at = [0.75, -1.25]
    found = Polynomial.of(evaluate(text, [A, B], {}))
    assert value(found, at) == pytest.approx(evaluate(text, at, {}), rel=1e-9, abs=1e-9)
    assert all(list(m) == sorted(m) and c for m, c in found.terms.items())


def test_what_cancels_is_gone():
    assert (A - A).terms == {}
    assert ((A + 1) ** 2 - A**2).terms == {(0,): 2.0, (): 1.0}
    assert (A * B - B * A + 3).terms == {(): 3.0}


@pytest.mark.parametrize(
    "product",
    [
        lambda: 1 / A,
        lambda: A / B,
        lambda: A**0.5,
        lambda: A**-1,
        lambda: A**B,
        lambda: 2.0**A,
        lambda: A ** (LARGEST + 1),
        lambda: (A + B + Polynomial.symbol(2)) ** LARGEST,
    ],
)
def test_what_is_no_polynomial_of_moderate_size_is_refused(product):
    with pytest.raises(ValueError, match=r"no polynomial|too many"):
        product()
