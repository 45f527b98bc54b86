"""The gate table, entry by entry, against Qiskit's matrices."""

import numpy as np
import pytest
from qiskit.circuit.library import get_standard_gate_name_mapping
from qiskit.quantum_info import Pauli as QiskitPauli
from scipy.linalg import expm

from qml.circuits.gates import BASIS, FIXED, IGNORED, ROTATIONS

STANDARD = get_standard_gate_name_mapping()


@pytest.mark.parametrize("name", FIXED)
def test_a_fixed_gate_has_the_matrix_of_qiskit(name):
    np.testing.assert_allclose(FIXED[name], STANDARD[name].to_matrix(), rtol=0, atol=1e-15)


@pytest.mark.parametrize("name", ROTATIONS)
def test_the_rotations_of_a_gate_multiply_to_the_matrix_of_qiskit(name):
    rng = np.random.default_rng(1)
    gate = STANDARD[name]
    for parameters in rng.uniform(-7, 7, size=(5, len(gate.params))):
        expected = type(gate)(*parameters).to_matrix()
        found = np.eye(len(expected))
        for letters, coefficients in ROTATIONS[name]:
            generator = QiskitPauli(letters[::-1]).to_matrix()
            found = expm(-0.5j * np.dot(coefficients, parameters) * generator) @ found
        overlap = np.trace(found.conj().T @ expected) / len(expected)
        np.testing.assert_allclose(abs(overlap), 1, atol=1e-12)
        np.testing.assert_allclose(overlap * found, expected, atol=1e-12)


def test_every_factor_has_a_coefficient_per_parameter_and_a_letter_per_qubit():
    for name, factors in ROTATIONS.items():
        for letters, coefficients in factors:
            assert len(letters) == STANDARD[name].num_qubits
            assert len(coefficients) == len(STANDARD[name].params)


def test_no_entry_of_the_table_can_be_changed():
    for matrix in FIXED.values():
        with pytest.raises(ValueError, match="read-only"):
            matrix[0, 0] = 5


def test_no_name_is_read_in_two_ways():
    assert not ROTATIONS.keys() & FIXED.keys()
    assert not IGNORED & {*ROTATIONS, *FIXED}
    assert {*ROTATIONS, *FIXED, "unitary"} <= {*BASIS}
