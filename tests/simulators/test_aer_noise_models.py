"""Noise by parameters and by a noise model in a file: formulas, and what is refused."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from programs import gate, program
from qiskit import QuantumCircuit
from qiskit.quantum_info import DensityMatrix, Operator
from qiskit_aer import AerSimulator
from qiskit_aer.noise import (
    NoiseModel,
    ReadoutError,
    amplitude_damping_error,
    coherent_unitary_error,
    depolarizing_error,
    pauli_error,
    reset_error,
)
from qiskit_ibm_runtime.fake_provider import FakeManilaV2

from qml.circuits.gates import FIXED
from qml.circuits.paulis import Pauli, X, Y, Z
from qml.circuits.program import (
    Fixed,
    Probabilities,
    Program,
    Rotation,
)
from qml.errors import ConfigError, EngineError
from qml.kinds import AerConfig, Noise
from qml.simulators.aer.engine import AerEngine
from qml.simulators.aer.machines import GATES
from qml.simulators.qiskit_circuit import quantum_circuit

Save = Callable[[NoiseModel], str]


def unitary(matrix: Any, *qubits: int) -> Fixed:
    return Fixed("unitary", qubits, np.asarray(matrix, np.complex128))


def values(program: Program, angles: Any = ((),), seed: int = 0, **config: Any) -> np.ndarray:
    """(R, M), all outputs."""
    engine = AerEngine(AerConfig(**config))
    rows = np.asarray(angles, np.float64)
    every = np.ones(program.num_outputs, np.bool_)
    return engine.expval(program, rows, outputs=every, seed=seed).values


@pytest.fixture
def save(tmp_path: Path) -> Save:
    """Writes a model as its users do; the path."""

    def write(model: NoiseModel) -> str:
        path = tmp_path / "noise.json"
        with open(path, "w") as file:
            json.dump(model.to_dict(serializable=True), file)
        return str(path)

    return write


FLIP = program(1, [gate("x", 0)], [Z(0), Probabilities((0,))])
LETTERS = "IXYZ"
MATRICES = dict(zip(LETTERS, (np.eye(2), FIXED["x"], FIXED["y"], FIXED["z"]), strict=True))


def depolarised(rho: np.ndarray, p: float, qubits: tuple[int, ...], width: int) -> np.ndarray:
    """(1 - p) rho + p I/2^n on the qubits, as the mean over all strings of Paulis on them."""
    total = np.zeros_like(rho)
    strings = [""]
    for _ in qubits:
        strings = [one + letter for one in strings for letter in LETTERS]
    for string in strings:
        letters = dict(zip(qubits, string, strict=True))
        pauli = np.eye(1)
        for q in range(width):  # the first is the least significant
            pauli = np.kron(MATRICES[letters.get(q, "I")], pauli)
        total += pauli @ rho @ pauli.conj().T / len(strings)
    return (1 - p) * rho + p * total


# --- parameters


@pytest.mark.parametrize("p", [0.05, 0.4, 1.0])
@pytest.mark.parametrize("flip", [None, 0.1])
def test_a_depolarised_flip_has_the_value_of_the_formula(p: float, flip: float | None) -> None:
    """<Z> = -(1 - p), and every reading is wrong with probability `flip`: times 1 - 2 flip."""
    found = values(FLIP, noise={"depolarizing_1q": p, "readout": flip})[0]
    z = -(1 - p) * (1 - 2 * (flip or 0))
    np.testing.assert_allclose(found, [z, (1 + z) / 2, (1 - z) / 2], atol=1e-12)


def test_a_readout_error_alone_counts_where_no_gate_acts() -> None:
    found = values(program(2, [], [Z(0), Z(0) @ Z(1)]), noise={"readout": 0.1})[0]
    np.testing.assert_allclose(found, [0.8, 0.64], atol=1e-12)


ROTATIONS = [
    Rotation(Pauli(0b01, 0b01), 0),  # Y on qubit 0
    Rotation(Pauli(0b10, 0), 1),  # X on qubit 1
    Rotation(Pauli(0b11, 0b01), 2),  # XY
    Rotation(Pauli(0, 0b11), 3),  # ZZ
]


def test_every_gate_of_the_program_has_one_channel_after_it() -> None:
    """Against the density matrix, channel by channel, in plain NumPy."""
    one, two = 0.07, 0.2
    fixed = [gate("h", 1), gate("cx", 1, 0), gate("swap", 0, 1), gate("t", 0)]
    circuit = program(2, [*ROTATIONS, *fixed], [Z(0), Z(0) @ Z(1), Probabilities((1, 0))])
    angles = np.random.default_rng(0).normal(size=4)
    written, parameters = quantum_circuit(circuit)
    bound = written.assign_parameters(dict(zip(parameters, angles, strict=True)))
    rho = np.diag([1.0, 0, 0, 0]).astype(complex)
    for step in bound.data:
        qubits = tuple(bound.find_bit(q).index for q in step.qubits)
        alone = QuantumCircuit(2)
        alone.append(step.operation, qubits)
        u = Operator(alone).data
        rho = depolarised(u @ rho @ u.conj().T, one if len(qubits) == 1 else two, qubits, 2)
    diagonal = np.diag(rho).real
    # Outcome 2 q1 + q0, and bit j of a block's outcome is that of its qubit j: (1, 0) swaps.
    right = [diagonal @ [1, -1, 1, -1], diagonal @ [1, -1, -1, 1], *diagonal[[0, 2, 1, 3]]]
    found = values(circuit, [angles], noise={"depolarizing_1q": one, "depolarizing_2q": two})[0]
    assert len(bound.data) > len(circuit.operations)  # XY is a ladder: no gate of Qiskit's
    np.testing.assert_allclose(found, right, atol=1e-12)


def test_reading_another_letter_takes_gates_with_noise() -> None:
    """X takes "h", Y takes "sdg" and "h", as documented."""
    p = 0.1
    plus = program(1, [gate("h", 0)], [X(0)])
    plus_i = program(1, [gate("h", 0), gate("s", 0)], [Y(0)])
    noise = {"depolarizing_1q": p}
    np.testing.assert_allclose(values(plus, noise=noise), (1 - p) ** 2, atol=1e-12)
    np.testing.assert_allclose(values(plus_i, noise=noise), (1 - p) ** 4, atol=1e-12)


def test_toffolis_and_matrices_are_written_in_gates_that_have_noise() -> None:
    flips = [gate("x", 0), gate("x", 1)]
    toffoli = program(3, [*flips, gate("ccx", 0, 1, 2)], [Z(2)])
    matrix = unitary(FIXED["ccx"], 0, 1, 2)
    for circuit in (toffoli, program(3, [*flips, matrix], [Z(2)])):
        np.testing.assert_allclose(values(circuit), -1, atol=1e-12)
        engine = AerEngine(AerConfig(noise={"depolarizing_2q": 0.01}))
        compiled = engine._compiled(circuit).circuit
        assert set(compiled.count_ops()) <= {*GATES[1], *GATES[2]}
        assert compiled.count_ops()["cx"] >= 6
        assert -0.99 < values(circuit, noise={"depolarizing_2q": 0.01})[0, 0] < -0.8
    turned = program(1, [unitary(FIXED["x"], 0)], [Z(0)])
    np.testing.assert_allclose(values(turned, noise={"depolarizing_1q": 0.1}), -0.9, atol=1e-12)


def test_nothing_is_cancelled_or_merged() -> None:
    """An X for ten pairs of X, and a rotation by pi for two by pi / 2."""
    p = 0.02
    chain = program(1, [gate("x", 0)] * 21, [Z(0)])
    np.testing.assert_allclose(values(chain, noise={"depolarizing_1q": p}), -((1 - p) ** 21))
    halves = program(1, [Rotation(Pauli(1, 0), 0), Rotation(Pauli(1, 0), 1)], [Z(0)])
    found = values(halves, [[np.pi / 2] * 2], noise={"depolarizing_1q": p})
    np.testing.assert_allclose(found, -((1 - p) ** 2))


@pytest.mark.parametrize("method", ["density_matrix", "statevector"])
def test_samples_scatter_about_the_exact_values(method: str) -> None:
    """Of a density matrix and of trajectories, with errors of gates and of readings."""
    noise = {"depolarizing_1q": 0.1, "depolarizing_2q": 0.2, "readout": 0.05}
    circuit = program(2, [gate("h", 0), gate("cx", 0, 1)], [X(0) @ X(1), Z(0) @ Z(1), Z(0)])
    exact = values(circuit, noise=noise)[0]
    assert np.all(exact[:2] < 0.8)
    repeats, shots = 40, 500
    rows = np.zeros((repeats, 0))
    sampled = values(circuit, rows, noise=noise, shots=shots, method=method)
    deviation = np.abs(sampled.mean(axis=0) - exact)
    assert np.all(deviation < 5 * np.sqrt(1 / (repeats * shots)))
    assert len({*sampled[:, 0]}) > 5


def test_noise_that_touches_no_gate_is_refused_and_zero_noise_is_none() -> None:
    with pytest.raises(
        EngineError, match="'depolarizing_2q': 0.1} would change nothing: .* x on 0"
    ):
        values(FLIP, noise={"depolarizing_2q": 0.1})
    with pytest.raises(EngineError, match="would change nothing"):
        values(FLIP, noise={"depolarizing_2q": 0.1}, shots=10)
    zero = {"depolarizing_1q": 0.0, "readout": 0.0}
    np.testing.assert_array_equal(values(FLIP, noise=zero), [[-1, 0, 1]])


def test_parameters_fit_any_width_and_compile_once() -> None:
    width = 9
    chain = [gate("h", 0), *(gate("cx", q, q + 1) for q in range(width - 1))]
    engine = AerEngine(AerConfig(noise={"depolarizing_2q": 0.01}))
    circuit = program(width, chain, [Z(0) @ Z(width - 1)])
    for _ in range(2):
        found = engine.expval(circuit, np.zeros((1, 0)), outputs=np.ones(1, np.bool_), seed=0)
        # Z..Z of the last qubit goes back through every gate, each of which shrinks it once.
        np.testing.assert_allclose(found.values, 0.99 ** (width - 1), atol=1e-12)
    assert engine.transpilations == 1


# --- files


def every_kind() -> NoiseModel:
    """Channels of Paulis, Kraus operators, unitaries and resets; everywhere and in places."""
    model = NoiseModel()
    model.add_all_qubit_quantum_error(depolarizing_error(0.1, 1), ["x", "h"])
    model.add_quantum_error(amplitude_damping_error(0.3), "x", [1])
    kick = Operator.from_circuit(rotated("rx", 0.4)).data
    model.add_quantum_error(coherent_unitary_error(kick), "h", [0])
    model.add_all_qubit_quantum_error(pauli_error([("XY", 0.1), ("II", 0.9)]), "cx")
    model.add_all_qubit_quantum_error(reset_error(0.1, 0.05), "s")
    model.add_all_qubit_readout_error(ReadoutError([[0.98, 0.02], [0.1, 0.9]]))
    model.add_readout_error(ReadoutError([[0.9, 0.1], [0.3, 0.7]]), [1])
    return model


def rotated(name: str, angle: float) -> QuantumCircuit:
    circuit = QuantumCircuit(1)
    getattr(circuit, name)(angle, 0)
    return circuit


STEPS = [("h", 0), ("x", 1), ("cx", 0, 1), ("s", 1), ("h", 1), ("x", 0), ("h", 0)]


def test_a_model_from_a_file_is_the_model_that_was_written(save: Save) -> None:
    """Against Aer with the object itself: gates from its density matrix, readings by counts."""
    model = every_kind()
    circuit = QuantumCircuit(2)
    for name, *qubits in STEPS:
        getattr(circuit, name)(*qubits)
    saved = circuit.copy()
    saved.save_density_matrix()
    simulator = AerSimulator(method="density_matrix", noise_model=model)
    rho = DensityMatrix(simulator.run(saved).result().data(0)["density_matrix"])
    reading = {0: np.array([[0.98, 0.02], [0.1, 0.9]]), 1: np.array([[0.9, 0.1], [0.3, 0.7]])}
    right = rho.probabilities() @ np.kron(reading[1], reading[0])
    blocks = program(2, [gate(name, *qubits) for name, *qubits in STEPS], [Probabilities((0, 1))])
    noise = {"file": save(model)}
    np.testing.assert_allclose(values(blocks, noise=noise)[0], right, atol=1e-12)
    ideal = values(blocks)[0]
    assert np.abs(ideal - right).max() > 0.05
    sampled = values(blocks, noise=noise, shots=100_000)[0]
    np.testing.assert_allclose(sampled, right, atol=5 * 0.5 / np.sqrt(100_000))
    circuit.measure_all()
    counts = simulator.run(circuit, shots=100_000, seed_simulator=1).result().get_counts()
    theirs = [counts.get(format(outcome, "02b"), 0) / 100_000 for outcome in range(4)]
    np.testing.assert_allclose(theirs, right, atol=5 * 0.5 / np.sqrt(100_000))


def test_a_depolarised_flip_of_a_file_follows_the_formula(save: Save) -> None:
    model = NoiseModel()
    model.add_all_qubit_quantum_error(depolarizing_error(0.1, 1), "x")
    noise = {"file": save(model)}
    np.testing.assert_allclose(values(FLIP, noise=noise)[0, 0], -0.9, atol=1e-12)
    # The rotation is written in exact gates, as the model has errors of X alone.
    mixed = program(1, [gate("x", 0), Rotation(Pauli(1, 1), 0)], [Z(0), X(0)])
    found = values(mixed, [[0.3]], noise=noise)[0]
    np.testing.assert_allclose(found, -0.9 * np.array([np.cos(0.3), np.sin(0.3)]), atol=1e-12)


def test_a_circuit_goes_to_the_noisy_gates_not_around_them(save: Save) -> None:
    """Only "cz" and "u" have errors; "cx" would be a noiseless way out, and so would "rz", "sx"."""
    model = NoiseModel()
    model.add_all_qubit_quantum_error(depolarizing_error(0.1, 2), "cz")
    model.add_all_qubit_quantum_error(depolarizing_error(0.01, 1), "u")
    circuit = program(2, [gate("sx", 0), gate("sx", 0), gate("cx", 0, 1)], [Z(1)])
    engine = AerEngine(AerConfig(noise={"file": save(model)}))
    assert set(engine._compiled(circuit).circuit.count_ops()) == {"cz", "u"}
    assert -0.9 < values(circuit, noise={"file": save(model)})[0, 0] < -0.8


def test_a_machine_in_a_file_routes_circuits_along_its_pairs(save: Save) -> None:
    model = NoiseModel.from_backend(FakeManilaV2())
    noise = {"file": save(model)}
    star = [gate("h", 0), *(gate("cx", 0, q) for q in range(1, 5))]
    circuit = program(5, star, [Z(0) @ Z(4), Z(1) @ Z(3), Z(2)])
    engine = AerEngine(AerConfig(noise=noise))
    compiled = engine._compiled(circuit)
    pairs = {
        tuple(sorted(compiled.circuit.find_bit(q).index for q in step.qubits))
        for step in compiled.circuit.data
        if len(step.qubits) == 2
    }
    assert pairs <= {(0, 1), (1, 2), (2, 3), (3, 4)}
    assert compiled.layout != (0, 1, 2, 3, 4)
    found = values(circuit, noise=noise)[0]
    assert 0.5 < found[0] < 0.95 and 0.5 < found[1] < 0.95 and abs(found[2]) < 0.2
    with pytest.raises(EngineError, match="the circuit has 6 qubits, noise = .* has 5"):
        values(program(6, [gate("h", 0)], [Z(0)]), noise=noise)
    three = program(3, [gate("h", 0), gate("cx", 0, 1), gate("cx", 1, 2)], [Z(0) @ Z(2)])
    assert engine._compiled(three).circuit.num_qubits == 3


def test_errors_of_qubits_that_the_circuit_has_not_are_left_out_unless_they_are_all(
    save: Save,
) -> None:
    model = NoiseModel()
    model.add_quantum_error(depolarizing_error(0.1, 1), "x", [0])
    model.add_quantum_error(depolarizing_error(0.5, 1), "x", [7])
    model.add_readout_error(ReadoutError([[0.5, 0.5], [0.5, 0.5]]), [7])
    np.testing.assert_allclose(values(FLIP, noise={"file": save(model)})[0, 0], -0.9, atol=1e-12)
    elsewhere = program(2, [gate("x", 1)], [Z(1)])
    with pytest.raises(
        EngineError, match=r"noise.json' would change nothing: .* x on 1, .* x on 0"
    ):
        values(elsewhere, noise={"file": save(model)})
    with pytest.raises(EngineError, match="would change nothing"):
        values(FLIP, noise={"file": save(NoiseModel())})


def entry(**changes: Any) -> dict[str, Any]:
    error = depolarizing_error(0.1, 1).to_dict() | {"operations": ["x"]}
    return {"errors": [error | changes]}


READING = {"type": "roerror", "operations": ["measure"]}
TWICE = {"errors": [*entry()["errors"], *entry()["errors"]]}
JOINT = {"errors": [READING | {"probabilities": np.eye(4).tolist(), "gate_qubits": [[0, 1]]}]}
KRAUS = [[{"name": "kraus", "qubits": [0], "params": [[[1, 0], [0, 2]]]}]]


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        ({}, "is no noise model: it must be an object with a list 'errors'"),
        ({"errors": {}}, "is no noise model"),
        ({"errors": [], "version": 2}, "is of another format: there is no key 'version'"),
        ({"errors": [3]}, "entry 0 of 'errors' must be of the type 'qerror' or 'roerror'"),
        ({"errors": [{"type": "qerror2"}]}, "is of another format: entry 0"),
        (entry(scheme="x"), "entry 0 of 'errors', of the type 'qerror', has the key 'scheme'"),
        ({"errors": [{"type": "qerror"}]}, "entry 0 .* the key 'instructions' is missing"),
        (entry(probabilities=[0.5] * 4), "entry 0 .* Probabilities are not normalized"),
        (entry(probabilities=[1.0]), "entry 0 of 'errors' cannot be read"),
        (entry(operations=["cx"]), r"of 1 qubit\(s\) cannot follow 'cx' on 2"),
        (entry(operations=["cnot"]), "has errors of 'cnot', which is no standard gate"),
        (entry(operations=["measure"]), "has a quantum error of 'measure'. Describe it as"),
        (entry(gate_qubits=[[0, 1]]), r"'x' does not act on the qubits \[0, 1\]"),
        (entry(gate_qubits=[[-1]]), "'gate_qubits' must hold lists of different qubits"),
        (entry(gate_qubits=[3]), "entry 0 of 'errors' cannot be read"),
        (entry(instructions=KRAUS, probabilities=[1.0]), "not trace-preserving"),
        (entry(instructions=[[{"name": "rx", "qubits": [0], "params": [1]}]], probabilities=[1]),
         "an error channel of the instruction 'rx' is not known"),
        ({"errors": [READING | {"probabilities": [[1, 1], [0, 1]]}]}, "that sum to 1"),
        (JOINT, "a joint readout error of several qubits"),
        (TWICE, "has more than one error of 'x' on all qubits"),
    ],
)  # fmt: skip
def test_a_file_that_is_no_noise_model_is_refused_with_its_path(
    content: Any, sentence: str, tmp_path: Path
) -> None:
    path = tmp_path / "other.json"
    path.write_text(json.dumps(content))
    with pytest.raises(ConfigError, match=sentence) as caught:
        AerEngine(AerConfig(noise=Noise(file=str(path))))
    assert str(caught.value).startswith(f"{path}: ")


def test_a_gate_of_a_model_that_makes_no_circuit_is_an_error(save: Save) -> None:
    """Pairs that leave a qubit alone."""
    model = NoiseModel()
    for pair in ([0, 1], [2, 3]):
        model.add_quantum_error(depolarizing_error(0.1, 2), "cx", pair)
    circuit = program(4, [gate("h", 0), gate("cx", 0, 3)], [Z(3)])
    with pytest.raises(EngineError, match="Qiskit cannot compile the circuit for this machine"):
        values(circuit, noise={"file": save(model)})
