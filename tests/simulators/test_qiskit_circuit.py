"""A Program as a Qiskit circuit, against matrices written down here."""

import itertools

import numpy as np
import pytest
from qiskit import QuantumCircuit
from qiskit.quantum_info import Operator, Statevector

from qml.circuits.gates import FIXED
from qml.circuits.paulis import Pauli
from qml.circuits.program import CONSTANT, AngleMap, Fixed, Program, Rotation
from qml.simulators.qiskit_circuit import (
    FROM_Z,
    TO_Z,
    change_basis,
    quantum_circuit,
    sparse_pauli,
)

MATRICES = {
    "I": np.eye(2),
    "X": np.array([[0, 1], [1, 0]]),
    "Y": np.array([[0, -1j], [1j, 0]]),
    "Z": np.diag([1, -1]),
}


def dense(label: str) -> np.ndarray:
    matrix = np.eye(1)
    for letter in label:
        matrix = np.kron(matrix, MATRICES[letter])
    return matrix


def pauli(label: str) -> Pauli:
    return Pauli.from_letters(label[::-1], range(len(label)))


def program(num_qubits: int, operations: list[Rotation | Fixed], num_slots: int) -> Program:
    nothing = np.zeros(0, np.int32)
    angles = AngleMap(0, nothing, nothing, np.zeros(0), np.zeros(num_slots))
    return Program(num_qubits, tuple(operations), (), angles)


def same_up_to_phase(left: np.ndarray, right: np.ndarray) -> bool:
    return abs(abs(np.vdot(left, right)) - len(left)) < 1e-12 * len(left)


@pytest.mark.parametrize("label", ["".join(s) for s in itertools.product("IXYZ", repeat=3)])
def test_a_rotation_is_the_exponential_of_its_string(label: str) -> None:
    circuit, (slot,) = quantum_circuit(program(3, [Rotation(pauli(label), 0)], 1))
    if slot in circuit.parameters:
        circuit = circuit.assign_parameters({slot: 0.7})
    expected = np.cos(0.35) * np.eye(8) - 1j * np.sin(0.35) * dense(label)
    assert same_up_to_phase(Operator(circuit).data, expected)


def test_a_constant_rotation_keeps_its_angle() -> None:
    circuit, parameters = quantum_circuit(
        program(2, [Rotation(pauli("XY"), CONSTANT, -1.3), Rotation(pauli("IY"), CONSTANT, 0.4)], 0)
    )
    assert parameters == ()
    first = np.cos(0.65) * np.eye(4) + 1j * np.sin(0.65) * dense("XY")
    second = np.cos(0.2) * np.eye(4) - 1j * np.sin(0.2) * dense("IY")
    assert same_up_to_phase(Operator(circuit).data, second @ first)


@pytest.mark.parametrize("name", FIXED)
def test_a_fixed_gate_is_the_matrix_of_the_table_on_qubits_in_any_order(name: str) -> None:
    matrix = FIXED[name]
    width = len(matrix).bit_length() - 1
    for qubits in itertools.permutations(range(3), width):
        named, _ = quantum_circuit(program(3, [Fixed(name, qubits, matrix)], 0))
        unitary, _ = quantum_circuit(program(3, [Fixed("unitary", qubits, matrix)], 0))
        expected = np.zeros((8, 8), complex)
        others = [q for q in range(3) if q not in qubits]
        for rest, row, column in itertools.product(
            range(1 << len(others)), range(len(matrix)), range(len(matrix))
        ):
            base = sum((rest >> i & 1) << q for i, q in enumerate(others))
            to = base + sum((row >> i & 1) << q for i, q in enumerate(qubits))
            source = base + sum((column >> i & 1) << q for i, q in enumerate(qubits))
            expected[to, source] = matrix[row, column]
        np.testing.assert_allclose(Operator(named).data, expected, atol=1e-14)
        np.testing.assert_allclose(Operator(unitary).data, expected, atol=1e-14)


def test_operations_act_in_their_order() -> None:
    operations = [Fixed("h", (0,), FIXED["h"]), Fixed("s", (0,), FIXED["s"])]
    circuit, _ = quantum_circuit(program(1, operations, 0))
    np.testing.assert_allclose(Statevector(circuit).data, np.array([1, 1j]) / np.sqrt(2))


def test_every_slot_has_its_own_plain_parameter_used_or_not() -> None:
    rotations: list[Rotation | Fixed] = [Rotation(pauli("XYZ"), k) for k in (10, 2, 0)]
    circuit, parameters = quantum_circuit(program(3, rotations, 12))
    assert len(set(parameters)) == 12
    assert circuit.parameters == {parameters[10], parameters[2], parameters[0]}
    used = [one.params[0] for one in circuit.data if one.name == "rz"]
    assert used == [parameters[10], parameters[2], parameters[0]]


@pytest.mark.parametrize("letter", "XYZ")
def test_a_change_of_basis_turns_the_letter_into_z_and_back(letter: str) -> None:
    there = QuantumCircuit(1)
    change_basis(there, [(letter, 0)], TO_Z)
    matrix = Operator(there).data
    np.testing.assert_allclose(
        matrix @ MATRICES[letter] @ matrix.conj().T, MATRICES["Z"], atol=1e-15
    )
    change_basis(there, [(letter, 0)], FROM_Z)
    np.testing.assert_allclose(Operator(there).data, np.eye(2), atol=1e-15)


def test_a_pauli_sum_covers_all_qubits_and_qubit_0_is_rightmost() -> None:
    total = sparse_pauli([(Pauli(1, 0), 0.5), (Pauli(0, 2), -2.0)], 3)
    expected = 0.5 * dense("IIX") - 2 * dense("IZI")
    np.testing.assert_allclose(total.to_matrix(), expected)


def test_an_empty_pauli_sum_is_zero() -> None:
    np.testing.assert_array_equal(sparse_pauli([], 2).to_matrix(), np.zeros((4, 4)))
