"""The Aer engine with the noise of a machine: never noiseless, exact and sampled alike."""

import sys
from collections.abc import Iterator
from typing import Any

import numpy as np
import psutil
import pytest
from programs import gate, program, ry, rz
from qiskit import QuantumCircuit, transpile
from qiskit.circuit import Measure, Parameter
from qiskit.circuit.library import XGate
from qiskit.quantum_info import SuperOp
from qiskit.transpiler import InstructionProperties, PassManager, Target
from qiskit.transpiler.exceptions import TranspilerError
from qiskit_aer import AerSimulator
from qiskit_aer.noise import depolarizing_error
from qiskit_ibm_runtime.fake_provider import FakeManilaV2

from qml.circuits.paulis import PauliSum, X, Y, Z
from qml.circuits.program import (
    Probabilities,
    Program,
)
from qml.errors import EngineError, MissingDependencyError, UnknownNameError
from qml.kinds import AerConfig
from qml.simulators.aer.compilation import Bindings, with_plain_parameters
from qml.simulators.aer.engine import AerEngine
from qml.simulators.aer.fake_device import patch_of
from qml.simulators.aer.noise import Channel, GateError, Patch
from qml.simulators.base import Evaluation

MANILA = "FakeManilaV2"


@pytest.fixture(scope="module", autouse=True, params=[True, False], ids=["assembled", "submitted"])
def assemble(request: pytest.FixtureRequest) -> Iterator[bool]:
    """Every test runs both ways: engines are made with this as the default of `assemble`."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(AerEngine.__init__, "__kwdefaults__", {"assemble": request.param})
        yield request.param


def evaluate(engine: AerEngine, program: Program, angles: Any, seed: int = 0) -> Evaluation:
    rows = np.asarray(angles, np.float64)
    return engine.expval(program, rows, outputs=np.ones(program.num_outputs, np.bool_), seed=seed)


def ghz(num_qubits: int, *outputs: PauliSum) -> Program:
    chain = [gate("cx", q, q + 1) for q in range(num_qubits - 1)]
    return program(num_qubits, [gate("h", 0), *chain], outputs)


NO_SLOTS = np.zeros((1, 0))
GHZ3 = ghz(3, X(0) @ X(1) @ X(2))
ENTANGLED = program(
    3,
    [
        *(ry(q, q) for q in range(3)),
        gate("cx", 0, 1),
        gate("cx", 1, 2),
        gate("cx", 2, 0),
        *(rz(q, 3 + q) for q in range(3)),
        *(ry(q, 6 + q) for q in range(3)),
    ],
    [
        Z(0),
        X(1) @ Z(0) + 0.5 * Y(2),
        X(0) @ X(1) @ X(2) + 2.0,
        Probabilities((2, 0)),
        Probabilities((0, 1, 2)),
    ],
)
ANGLES = np.random.default_rng(3).normal(size=(3, 9))


@pytest.fixture(scope="module")
def noisy(assemble: bool) -> AerEngine:
    return AerEngine(AerConfig(noise=MANILA))


@pytest.mark.parametrize("shots", [None, 4000])
def test_a_ghz_state_loses_coherence_every_time_and_only_with_noise(shots: int | None) -> None:
    noisy = AerEngine(AerConfig(noise=MANILA, shots=shots))
    clean = AerEngine(AerConfig(shots=shots))
    for seed in range(2):
        assert 0.5 < evaluate(noisy, GHZ3, NO_SLOTS, seed).values[0, 0] < 0.9
        np.testing.assert_allclose(evaluate(clean, GHZ3, NO_SLOTS, seed).values, 1, atol=1e-12)


def test_exact_and_sampled_noise_agree(noisy: AerEngine) -> None:
    """Gate errors, errors of the change of basis and readout errors count in both."""
    repeats, shots = 100, 2000
    exact = evaluate(noisy, ENTANGLED, ANGLES[:1])
    sampling = AerEngine(AerConfig(noise=MANILA, shots=shots))
    sampled = evaluate(sampling, ENTANGLED, np.repeat(ANGLES[:1], repeats, axis=0)).values
    deviation = np.abs(sampled.mean(axis=0) - exact.values[0])
    assert np.all(deviation < 5 * sampled.std(axis=0) / np.sqrt(repeats))
    assert (exact.shots, exact.jobs) == (0, 1)


@pytest.mark.slow
def test_trajectories_agree_with_the_density_matrix(noisy: AerEngine) -> None:
    repeats = 25
    trajectories = AerEngine(AerConfig(noise=MANILA, shots=300, method="statevector"))
    sampled = evaluate(trajectories, ENTANGLED, np.repeat(ANGLES[:1], repeats, axis=0)).values
    deviation = np.abs(sampled.mean(axis=0) - evaluate(noisy, ENTANGLED, ANGLES[:1]).values[0])
    assert np.all(deviation < 5 * sampled.std(axis=0) / np.sqrt(repeats))


def test_the_reduced_machine_is_the_whole_machine(noisy: AerEngine) -> None:
    """Against Aer's own model of all five qubits, measured: <ZZZ> after a state of basis gates."""
    operations = [gate("x", 0), gate("sx", 1), gate("cx", 0, 1), gate("cx", 1, 2)]
    parity = Z(0) @ Z(1) @ Z(2)
    found = evaluate(noisy, program(3, operations, [parity, Z(2)]), NO_SLOTS).values[0]
    layout = noisy._compiled(program(3, operations, [parity, Z(2)]))
    circuit = QuantumCircuit(3, 3)
    for operation in operations:
        getattr(circuit, operation.name)(*operation.qubits)
    circuit.measure(range(3), range(3))
    backend = FakeManilaV2()
    native = transpile(circuit, backend, optimization_level=2, seed_transpiler=0)
    assert layout.circuit.num_qubits == 3 < native.num_qubits
    shots = 400_000
    simulator = AerSimulator.from_backend(backend, method="density_matrix")
    counts = simulator.run(native, shots=shots, seed_simulator=1).result().get_counts()
    signs = [(-1) ** key.count("1") for key in counts], [1 - 2 * int(key[0]) for key in counts]
    right = np.array(signs) @ list(counts.values()) / shots
    np.testing.assert_allclose(found, right, atol=5 / np.sqrt(shots))


def test_readout_errors_count_where_no_gate_acts(noisy: AerEngine) -> None:
    """|0> is read as 1 with the machine's probability, in the exact mode too."""
    outputs = [Z(0), Probabilities((0,))]
    circuit = program(1, [], outputs)
    found = evaluate(noisy, circuit, NO_SLOTS).values[0]
    (physical,) = noisy._machine._passes.run(QuantumCircuit(1)).layout.final_index_layout()
    wrong = FakeManilaV2().target["measure"][(physical,)].error
    assert wrong > 0
    np.testing.assert_allclose(found, [1 - 2 * wrong, 1 - wrong, wrong], atol=1e-12)


class Reading(InstructionProperties):
    """A measurement that errs more often on |1> than on |0>."""

    def __init__(self, prob_meas1_prep0: float, prob_meas0_prep1: float) -> None:
        super().__init__()
        self.prob_meas1_prep0 = prob_meas1_prep0
        self.prob_meas0_prep1 = prob_meas0_prep1


READINGS = {0: Reading(0.01, 0.02), 1: Reading(0.1, 0.3), 2: Reading(0.05, 0.15)}


def three_qubits() -> Target:
    """A machine whose X on qubits 0, 1, 2 has errors 0, 0.02, 0.05."""
    target = Target(num_qubits=3)
    errors = {0: 0.0, 1: 0.02, 2: 0.05}
    flips = {(q,): InstructionProperties(error=error) for q, error in errors.items()}
    target.add_instruction(XGate(), flips)
    target.add_instruction(Measure(), {(q,): reading for q, reading in READINGS.items()})
    return target


@pytest.mark.parametrize("whole", [True, False], ids=["whole", "mixture"])
def test_a_depolarised_flip_and_its_readout_follow_the_formula(whole: bool) -> None:
    """A gate error e is depolarising by p = 2 e; then <Z> is -(1 - p), and each outcome misread."""
    patch = patch_of(three_qubits(), [2, 1], {})
    circuit = QuantumCircuit(2)
    circuit.x([0, 1])
    circuit.save_probabilities([0, 1])
    simulator = AerSimulator(method="density_matrix", noise_model=patch.noise_model(whole=whole))
    true = simulator.run(circuit).result().data(0)["probabilities"]
    z = np.array([[1, -1, 1, -1], [1, 1, -1, -1]])
    np.testing.assert_allclose(z @ true, [-(1 - 0.10), -(1 - 0.04)], atol=1e-12)
    read = patch.misread(true[np.newaxis], (0, 1))[0]
    zeros, ones = np.array([0.05, 0.02]), np.array([0.95, 0.98])
    right = zeros * (1 - 2 * np.array([0.05, 0.1])) - ones * (1 - 2 * np.array([0.15, 0.3]))
    np.testing.assert_allclose(z @ read, right, atol=1e-12)
    circuit.measure_all()
    shots = 100_000
    counts = simulator.run(circuit, shots=shots, seed_simulator=0).result().get_counts()
    sampled = [counts[format(outcome, "02b")] / shots for outcome in range(4)]
    np.testing.assert_allclose(sampled, read, atol=5 * 0.5 / np.sqrt(shots))


def test_confusion_takes_each_qubit_by_its_own_rates() -> None:
    patch = patch_of(three_qubits(), [2, 1, 0], {})
    true = np.random.default_rng(0).dirichlet(np.ones(8), size=2)
    rates = [
        np.array(
            [
                [1 - r.prob_meas1_prep0, r.prob_meas1_prep0],
                [r.prob_meas0_prep1, 1 - r.prob_meas0_prep1],
            ]
        )
        for r in (READINGS[0], READINGS[2], READINGS[1])
    ]
    # Qubits 2, 0, 1 of the patch are 0, 2, 1 of the machine; the first is the least significant.
    whole = np.kron(rates[2], np.kron(rates[1], rates[0]))
    np.testing.assert_allclose(patch.misread(true, (2, 0, 1)), true @ whole, atol=1e-14)


@pytest.mark.parametrize("name", [MANILA, "FakeSherbrooke"])
def test_a_density_matrix_goes_through_each_error_once_and_a_trajectory_draws_one(
    name: str,
) -> None:
    exact, sampled = (
        AerEngine(AerConfig(noise=name, **keys))
        for keys in ({}, {"shots": 9, "method": "statevector"})
    )
    whole, mixed = (engine._compiled(GHZ3).noise_model for engine in (exact, sampled))
    pairs = [
        (whole._local_quantum_errors[gate][at], error)
        for gate, errors in mixed._local_quantum_errors.items()
        for at, error in errors.items()
    ]
    assert {one.size for one, _ in pairs} == {1} and max(many.size for _, many in pairs) > 8
    for one, many in pairs:
        np.testing.assert_allclose(SuperOp(one).data, SuperOp(many).data, rtol=0, atol=1e-12)


def test_what_an_error_does_is_worked_out_once_for_a_machine() -> None:
    engine = AerEngine(AerConfig(noise=MANILA))
    first = engine._compiled(ghz(2, Z(0))).patch
    found = [engine._compiled(ghz(n, Z(0), Z(1))).patch for n in (2, 2, 3)]
    channels = [{id(channel) for channel in patch._noisy.values()} for patch in (first, *found)]
    assert channels[0] == channels[1] and channels[0] & channels[3]


def test_three_qubits_of_127_take_the_memory_of_three() -> None:
    engine = AerEngine(AerConfig(noise="FakeSherbrooke"))
    process = psutil.Process()
    before = process.memory_info().rss
    found = evaluate(engine, GHZ3, NO_SLOTS).values[0, 0]
    assert 0.7 < found < 0.99
    assert engine._compiled(GHZ3).circuit.num_qubits == 3
    assert process.memory_info().rss - before < 200e6


def test_routing_through_other_qubits_keeps_the_values() -> None:
    """A star of five on a line of five: qubits move, observables with them."""
    star = [gate("h", 0), *(gate("cx", 0, q) for q in range(1, 5)), ry(3, 0)]
    outputs = [Z(3), Z(0) @ Z(1), Z(2) @ Z(4), Probabilities((4, 0)), Z(1) @ Z(3)]
    circuit = program(5, star, outputs)
    angles = np.array([[0.0], [np.pi], [1.0]])
    noisy = evaluate(AerEngine(AerConfig(noise=MANILA)), circuit, angles).values
    clean = evaluate(AerEngine(AerConfig()), circuit, angles).values
    assert 0.01 < np.abs(noisy - clean).max() < 0.4
    np.testing.assert_array_equal(np.sign(noisy[:2, 7]), [1, -1])
    assert np.all(noisy[:, 1:3] > 0.6)
    assert np.all(noisy[:, [4, 5]] < 0.2)


def test_a_noisy_program_is_compiled_once_with_plain_angles(noisy: AerEngine) -> None:
    before = noisy.transpilations
    for shift in range(3):
        evaluate(noisy, ENTANGLED, ANGLES + shift)
        noisy.expval(ENTANGLED, ANGLES, outputs=np.arange(ENTANGLED.num_outputs) == 1, seed=0)
    assert noisy.transpilations - before <= 1
    circuit = noisy._compiled(ENTANGLED).circuit
    angles = [p for one in circuit.data for p in one.params if not isinstance(p, float)]
    assert angles
    assert all(isinstance(p, Parameter) for p in angles)
    assert set(circuit.count_ops()) <= {"rz", "sx", "x", "cx"}


def test_affine_expressions_become_parameters_bound_to_their_value() -> None:
    a, b, c = (Parameter(name) for name in "abc")
    circuit = QuantumCircuit(1)
    for angle in (a, 2 * a - b / 4 + 0.5, 0.7, c + np.pi):
        circuit.rz(angle, 0)
    plain, found = with_plain_parameters(circuit, [a, b, c])
    plain_angles = Bindings(found)
    values = np.array([[0.1, 0.2, 0.3], [1.1, -0.4, 0.0]])
    table = dict(zip(plain_angles.parameters, plain_angles.values(values), strict=True))
    for row in range(2):
        assigned = plain.assign_parameters({p: column[row] for p, column in table.items()})
        right = circuit.assign_parameters(dict(zip((a, b, c), values[row], strict=True)))
        np.testing.assert_allclose(
            [one.params[0] for one in assigned.data],
            [float(one.params[0]) for one in right.data],
            rtol=1e-15,
        )
    assert all(isinstance(one.params[0], (Parameter, float)) for one in plain.data)


def test_an_expression_that_is_not_affine_is_refused() -> None:
    a = Parameter("a")
    circuit = QuantumCircuit(1)
    circuit.rz(a**2, 0)
    with pytest.raises(EngineError, match="not affine"):
        with_plain_parameters(circuit, [a])


def test_noise_that_touches_nothing_is_an_error() -> None:
    """Neither by its name nor by its place."""
    errors = [GateError("ecr", (2, 1), Channel(depolarizing_error(0.1, 2)))]
    patch = Patch([1, 2], errors, [], PassManager())
    circuit = QuantumCircuit(2)
    circuit.h(0)
    circuit.ecr(0, 1)
    with pytest.raises(
        EngineError, match="change nothing: .* ecr on 0 1, h on 0, .* of ecr on 1 0"
    ):
        patch.refuse_untouched(circuit, "'FakeElsewhere'")
    circuit.ecr(1, 0)
    patch.refuse_untouched(circuit, "'FakeElsewhere'")


def test_a_circuit_wider_than_the_machine_is_an_error_and_the_next_is_right(
    noisy: AerEngine,
) -> None:
    with pytest.raises(EngineError, match="the circuit has 6 qubits, noise = .* has 5"):
        evaluate(noisy, ghz(6, Z(0)), NO_SLOTS)
    assert 0.5 < evaluate(noisy, GHZ3, NO_SLOTS).values[0, 0] < 0.9


def test_a_machine_qiskit_cannot_compile_for_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(circuit: QuantumCircuit) -> None:
        raise TranspilerError("no way from 14 to 16.")

    engine = AerEngine(AerConfig(noise=MANILA))
    monkeypatch.setattr(engine._machine._passes, "run", fail)
    with pytest.raises(EngineError, match=r"'FakeManilaV2': .* no way from 14 to 16\. Choose"):
        evaluate(engine, GHZ3, NO_SLOTS)


@pytest.mark.parametrize("name", ["FakeManilla", "fakemanilav2", "FakeManilaV3"])
def test_an_unknown_machine_is_an_error_with_the_nearest_name(name: str) -> None:
    with pytest.raises(UnknownNameError, match="did you mean 'FakeManila"):
        AerEngine(AerConfig(noise=name))


def test_noise_without_the_runtime_package_names_the_extra(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "qiskit_ibm_runtime.fake_provider", None)
    with pytest.raises(MissingDependencyError, match=r"hybrid-qml\[runtime\]"):
        AerEngine(AerConfig(noise=MANILA))
