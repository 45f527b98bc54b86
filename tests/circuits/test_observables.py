"""What a kernel may return, what it means, and what is refused."""

import numpy as np
import pytest
from qiskit.quantum_info import Operator, Pauli as QiskitPauli, SparsePauliOp

from qml.circuits.observables import measurement, probs
from qml.circuits.paulis import Pauli, PauliSum, X, Y, Z
from qml.circuits.program import Expectation, Probabilities
from qml.errors import ObservableError

ZX = Expectation((Pauli(2, 1),), (1.0,))  # Z on qubit 0, X on qubit 1


@pytest.mark.parametrize("same", [Z(0) @ X(1), "XZ", QiskitPauli("XZ"), SparsePauliOp("XZ")])
def test_every_way_to_write_an_observable_means_the_same(same):
    found = measurement(same, 2)
    assert found.outputs == (ZX,) and found.shape == ()


def test_signs_and_coefficients_are_kept():
    minus = Expectation((Pauli(2, 1),), (-1.0,))
    for same in (-(Z(0) @ X(1)), QiskitPauli("-XZ"), SparsePauliOp("XZ", -1)):
        assert measurement(same, 2).outputs == (minus,)
    total = SparsePauliOp(["XZ", "II", "XZ"], [0.5, -2, 0.25])
    for same in (total, 0.75 * Z(0) @ X(1) - 2):
        assert measurement(same, 2).outputs == (
            Expectation((Pauli(0, 0), Pauli(2, 1)), (-2.0, 0.75)),
        )


def test_the_order_in_which_a_sum_is_written_does_not_matter():
    one, other = Z(0) + 2 * X(1) - Y(2), -Y(2) + Z(0) + 2 * X(1)
    assert measurement(one, 3) == measurement(other, 3)


def test_terms_that_cancel_are_dropped():
    assert measurement(Z(0) - Z(0) + X(0), 1).outputs == measurement("X", 1).outputs
    assert measurement(0 * Z(0), 1).outputs == (Expectation((), ()),)


@pytest.mark.parametrize("make", [list, tuple])
def test_a_list_is_one_axis_and_blocks_stand_in_it(make):
    found = measurement(make([Z(0), probs(1, 0), "YY"]), 2)
    assert found.shape == (6,)
    assert [output.size for output in found.outputs] == [1, 4, 1]
    assert measurement(make([Z(0)]), 2).shape == (1,)
    assert measurement(probs(1), 2).shape == (2,)


@pytest.mark.parametrize(
    "block",
    [probs(0, 2), probs([0, 2]), probs((0, 2)), probs(range(0, 3, 2)), probs(np.array([0, 2]))],
)
def test_qubits_of_a_block_are_named_one_by_one_or_together(block):
    assert block == Probabilities((0, 2))


def test_a_block_without_qubits_is_of_all_and_keeps_its_order():
    assert measurement(probs(), 3).outputs == (Probabilities((0, 1, 2)),)
    assert measurement(probs(2, 0), 3).outputs == (Probabilities((2, 0)),)


@pytest.mark.parametrize(
    ("qubits", "message"),
    [
        ((0, 0), "each qubit once"),
        (([1, 2, 1],), "each qubit once"),
        ((-1,), "integer from 0 on, found -1"),
        ((0.5, 1), "found 0.5"),
        ((True,), "found True"),
        (("01",), "found '0'"),
        ((None, 1), "found None"),
    ],
)
def test_a_block_of_no_qubits_is_refused(qubits, message):
    with pytest.raises(ObservableError, match=message):
        probs(*qubits)


@pytest.mark.parametrize("qubit", [-1, "0", 0.0, None, True])
@pytest.mark.parametrize("observable", [X, Y, Z])
def test_an_observable_on_no_qubit_is_refused(observable, qubit):
    with pytest.raises(ObservableError, match="a qubit is an integer from 0 on"):
        observable(qubit)


@pytest.mark.parametrize(
    ("returned", "message"),
    [
        (None, "returned None"),
        ([], "empty list"),
        ((), "empty tuple"),
        (3, "returned int: 3"),
        ({}, "returned dict"),
        ([[Z(0)]], "returned list"),
        ([Z(0), None], "returned None"),
        (np.array([1.0]), "returned ndarray"),
        (Operator(np.eye(4)), "returned Operator"),
        ("Z", "has 1 letters; the kernel has 2"),
        ("ZZZ", "has 3 letters; the kernel has 2"),
        ("Zz", r"holds \['z'\]"),
        ("", "has 0 letters"),
        (SparsePauliOp("ZZZ"), "3 qubit"),
        (QiskitPauli("Z"), "1 qubit"),
        (Z(2), "needs qubit 2, but the kernel has 2"),
        (probs(0, 2), "needs qubit 2, but the kernel has 2"),
        (1j * Z(0), "complex coefficients"),
        (X(0) @ Y(0), "complex coefficients"),
        (SparsePauliOp("ZZ", 1 + 1e-3j), "complex coefficients"),
        (QiskitPauli("iZZ"), "complex coefficients"),
        (np.nan * Z(0), "not finite"),
        (Z(0) + np.inf, "not finite"),
        (SparsePauliOp("ZZ", np.nan), "complex coefficients|not finite"),
    ],
)
def test_what_cannot_be_measured_is_refused(returned, message):
    with pytest.raises(ObservableError, match=message):
        measurement(returned, 2)


def test_a_sum_that_became_real_is_measured():
    hermitian = (X(0) @ Y(0)) * -1j
    assert measurement(hermitian, 1).outputs == measurement("Z", 1).outputs
    assert isinstance(hermitian, PauliSum)


def test_an_empty_list_of_qubits_is_not_all_of_them():
    with pytest.raises(ObservableError, match=r"empty list of qubits; probs\(\) takes all"):
        probs([])


@pytest.mark.parametrize("wrong", [-1, True, 0.5, "0", None])
def test_what_is_no_qubit_is_refused_by_every_observable(wrong):
    for make in (X, Y, Z, lambda q: probs(0, q)):
        with pytest.raises(ObservableError, match="a qubit is an integer from 0 on"):
            make(wrong)


def test_a_qubit_of_numpy_is_a_qubit():
    assert [Z(q) for q in np.arange(70)][69] == Z(69) and X(np.uint8(9)) == X(9)
