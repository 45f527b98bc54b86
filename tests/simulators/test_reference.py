"""The reference engine beyond what all engines promise: its pieces, and its limit."""

import numpy as np
import pytest
from hypothesis import given, strategies as st
from qiskit.quantum_info import Operator, Pauli as QiskitPauli, Statevector, random_unitary

from qml.circuits.paulis import Pauli
from qml.circuits.program import AngleMap, Expectation, Fixed, Program, Rotation
from qml.errors import EngineError
from qml.kinds import ReferenceConfig
from qml.simulators import reference
from qml.simulators.reference import ReferenceEngine, evolve

none = np.zeros(0, np.int32)


def program_of(num_qubits, *operations, slots=0):
    output = Expectation((Pauli(0, 1),), (1.0,))
    angles = AngleMap(0, none, none, np.zeros(0), np.zeros(slots))
    return Program(num_qubits, operations, (output,), angles)


def prepared(seed, num_qubits):
    """An operation that prepares a random state, and that state."""
    unitary = random_unitary(1 << num_qubits, seed=seed)
    gate = Fixed("unitary", tuple(range(num_qubits)), unitary.data)
    return gate, Statevector(unitary.data[:, 0])


@given(st.integers(0, 2**32 - 1), st.integers(1, 4), st.data())
def test_a_rotation_is_the_exponential_of_its_string(seed, num_qubits, data):
    masks = st.integers(0, (1 << num_qubits) - 1)
    pauli = Pauli(data.draw(masks), data.draw(masks))
    gate, state = prepared(seed, num_qubits)
    angles = np.array([[0.0], [0.3], [-2.0], [np.pi], [11.0]])
    found = evolve(program_of(num_qubits, gate, Rotation(pauli, 0), slots=1), angles)
    string = QiskitPauli(pauli.label(num_qubits)).to_matrix() @ state.data
    for (angle,), row in zip(angles, found, strict=True):
        expected = np.cos(angle / 2) * state.data - 1j * np.sin(angle / 2) * string
        np.testing.assert_allclose(row, expected, rtol=0, atol=1e-12)


@given(st.integers(0, 2**32 - 1), st.integers(1, 4), st.data())
def test_a_gate_acts_on_its_qubits_in_their_order(seed, num_qubits, data):
    qubits = data.draw(st.permutations(range(num_qubits)))
    qubits = tuple(qubits[: data.draw(st.integers(1, num_qubits))])
    gate, state = prepared(seed, num_qubits)
    matrix = random_unitary(1 << len(qubits), seed=seed + 1).data
    found = evolve(program_of(num_qubits, gate, Fixed("unitary", qubits, matrix)), np.zeros((2, 0)))
    expected = state.evolve(Operator(matrix), list(qubits)).data
    np.testing.assert_allclose(found, [expected, expected], rtol=0, atol=1e-12)


def test_states_stay_normalised_over_a_long_circuit():
    rng = np.random.default_rng(0)
    strings = [Pauli(*map(int, rng.integers(16, size=2))) for _ in range(1000)]
    deep = program_of(4, *(Rotation(p, k) for k, p in enumerate(strings)), slots=1000)
    states = evolve(deep, rng.normal(size=(2, 1000)))
    np.testing.assert_allclose(np.linalg.norm(states, axis=1), 1, rtol=0, atol=1e-12)


def test_the_limit_of_qubits_is_an_error_with_a_way_out():
    wide = program_of(reference.MAX_QUBITS + 1)
    with pytest.raises(EngineError, match="at most 20 qubits, the kernel has 21. Use kind = 'aer'"):
        ReferenceEngine(ReferenceConfig()).check(wide)


def test_rows_in_pieces_equal_rows_at_once(monkeypatch):
    program = program_of(2, Rotation(Pauli(1, 1), 0), slots=1)
    angles = np.linspace(0, 7, 100)[:, None]
    call = lambda: ReferenceEngine(ReferenceConfig()).expval(
        program, angles, outputs=np.ones(1, np.bool_), seed=0
    )
    whole = call().values
    np.testing.assert_allclose(whole[:, 0], np.cos(angles[:, 0]), rtol=0, atol=1e-12)
    monkeypatch.setattr(reference, "_CHUNK_AMPLITUDES", 28)  # seven rows at a time
    np.testing.assert_array_equal(call().values, whole)


def test_the_memory_of_cached_strings_does_not_grow_with_the_circuit():
    """Each string's indices and signs are 24 bytes an amplitude."""
    strings = reference._cached_action.cache_parameters()["maxsize"]
    assert strings * 24 * reference._CACHED_AMPLITUDES < 16 * 2**20
