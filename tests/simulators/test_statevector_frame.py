"""Clifford frames, against dense matrices."""

import numpy as np
import pytest
from hypothesis import given, strategies as st

from qml.circuits.gates import FIXED
from qml.circuits.paulis import Pauli
from qml.simulators.statevector.frame import Frame, named_images, pauli_matrix

MONOMIAL = {"x", "y", "z", "s", "sdg", "cx", "cy", "cz", "swap"}


def embedded(matrix, qubits, num_qubits):
    """The gate's matrix on all qubits, entry by entry."""
    size = 1 << num_qubits
    mask = sum(1 << q for q in qubits)
    part = lambda i: sum((i >> q & 1) << k for k, q in enumerate(qubits))
    same = lambda i, j: i & ~mask == j & ~mask
    return np.array(
        [[matrix[part(i), part(j)] * same(i, j) for j in range(size)] for i in range(size)]
    )


def test_the_gates_that_cost_nothing_are_these():
    assert {name for name in FIXED if named_images(name) is not None} == MONOMIAL


@given(
    st.lists(st.tuples(st.sampled_from(sorted(MONOMIAL)), st.permutations(range(3))), max_size=8),
    st.integers(0, 7),
    st.integers(0, 7),
)
def test_a_frame_maps_every_string_as_its_matrices_do(gates, x, z):
    frame, matrix = Frame(3), np.eye(8)
    for name, order in gates:
        qubits = order[: len(FIXED[name]).bit_length() - 1]
        frame.follow(named_images(name), qubits)
        matrix = embedded(FIXED[name], qubits, 3) @ matrix
    sign, image = frame.image(Pauli(x, z))
    expected = matrix.conj().T @ pauli_matrix(Pauli(x, z), 3) @ matrix
    np.testing.assert_allclose(sign * pauli_matrix(image, 3), expected, atol=1e-12)


@pytest.mark.parametrize("name", sorted(set(FIXED) - MONOMIAL))
def test_other_gates_have_no_images(name):
    assert named_images(name) is None
