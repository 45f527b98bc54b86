"""Pauli strings and sums, against Qiskit's matrices."""

import numpy as np
import pytest
from hypothesis import given, strategies as st
from qiskit.quantum_info import Pauli as QiskitPauli

from qml.circuits.paulis import Pauli, PauliSum, X, Y, Z
from qml.errors import ObservableError

N = 3
strings = st.text("IXYZ", min_size=N, max_size=N).map(
    lambda label: Pauli.from_letters(label[::-1], range(N))
)
coefficients = st.complex_numbers(max_magnitude=10, allow_nan=False)
sums = st.dictionaries(strings, coefficients, max_size=3).map(PauliSum)


def matrix(operator):
    if isinstance(operator, Pauli):
        return QiskitPauli(operator.label(N)).to_matrix()
    total = np.zeros((2**N, 2**N), complex)
    for pauli, coefficient in operator.terms.items():
        total += coefficient * matrix(pauli)
    return total


@given(strings, strings)
def test_the_product_of_strings_has_the_phase_of_the_matrices(one, other):
    phase, product = one @ other
    np.testing.assert_array_equal(phase * matrix(product), matrix(one) @ matrix(other))


@given(strings)
def test_letters_label_and_support_say_the_same(pauli):
    label = pauli.label(N)
    assert label == "".join(pauli.letter(q) for q in (2, 1, 0))
    assert pauli.support == tuple(q for q in range(N) if label[::-1][q] != "I")
    assert Pauli.from_letters(pauli.letters(pauli.support), pauli.support) == pauli


@given(sums, sums, coefficients)
def test_sums_have_the_algebra_of_operators(one, other, factor):
    a, b, identity = matrix(one), matrix(other), np.eye(2**N)
    close = lambda found, expected: np.testing.assert_allclose(
        matrix(found), expected, rtol=1e-12, atol=1e-12 * (1 + np.abs(expected).max())
    )
    close(one + other, a + b)
    close(one - other, a - b)
    close(-one, -a)
    close(factor * one, factor * a)
    close(one * factor, factor * a)
    close(one + factor, a + factor * identity)
    close(factor - one, factor * identity - a)
    close(one @ other, a @ b)


def test_the_algebra_takes_numbers_of_numpy_too():
    assert (np.float64(0.5) * Z(0)).terms == (0.5 * Z(0)).terms
    assert (Z(0) / np.int64(4)).terms == (0.25 * Z(0)).terms
    assert sum([X(0), Y(1)]).terms == {Pauli(0, 0): 0, **(X(0) + Y(1)).terms}


def test_a_product_with_its_inverse_is_real():
    """Coefficients stay floats, so that a measured product is not refused as complex."""
    square = (X(0) @ Y(0)) @ (Y(0) @ X(0))
    (coefficient,) = square.terms.values()
    assert square.terms.keys() == {Pauli(0, 0)} and coefficient == 1


@pytest.mark.parametrize("wrong", ["Z", None, [1], Z])
def test_what_is_no_number_and_no_sum_is_refused(wrong):
    for combine in (
        lambda: Z(0) + wrong,
        lambda: Z(0) - wrong,
        lambda: Z(0) * wrong,
        lambda: Z(0) @ wrong,
    ):
        with pytest.raises(ObservableError, match="constant coefficients"):
            combine()


def test_two_observables_are_multiplied_by_the_operator_product():
    with pytest.raises(ObservableError, match="multiplied by @"):
        Z(0) * Z(1)
    assert (Z(0) @ Z(1)).terms == {Pauli(0, 3): 1}


def test_any_width_works():
    wide = Z(200) @ X(100)
    assert wide.num_qubits == 201
    (pauli,) = wide.terms
    assert pauli.support == (100, 200) and pauli.letter(100) == "X"
    assert str(wide) == "1.0 * X(100) @ Z(200)"
