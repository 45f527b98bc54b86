"""The Aer engine without shots or noise: exact values, one run per request, nothing kept."""

import gc
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st
from programs import gate, program, ry
from qiskit import QuantumCircuit
from qiskit.providers import JobV1
from qiskit.quantum_info import random_unitary
from qiskit.result import Result
from qiskit_aer import AerSimulator
from qiskit_aer.backends import aer_compiler, aer_simulator, aerbackend

from qml.circuits.gates import FIXED
from qml.circuits.paulis import Pauli, PauliSum, X, Y, Z
from qml.circuits.program import (
    CONSTANT,
    Expectation,
    Fixed,
    Probabilities,
    Program,
    Rotation,
    expectation,
)
from qml.errors import DeviceError, EngineError, in_bytes
from qml.kinds import AerConfig
from qml.oracle import expval as oracle
from qml.simulators.aer import engine as engine_module
from qml.simulators.aer.assembled import failure
from qml.simulators.aer.engine import AerEngine
from qml.simulators.aer.requests import LAPS
from qml.simulators.base import Engine, Evaluation

METHODS = ("statevector", "density_matrix", "matrix_product_state")


@pytest.fixture(scope="module", autouse=True, params=[True, False], ids=["assembled", "submitted"])
def assemble(request: pytest.FixtureRequest) -> Iterator[bool]:
    """Every test runs both ways: engines are made with this as the default of `assemble`."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(AerEngine.__init__, "__kwdefaults__", {"assemble": request.param})
        yield request.param


def evaluate(engine: AerEngine, program: Program, angles: Any, seed: int = 0) -> Evaluation:
    rows = np.asarray(angles, np.float64)
    return engine.expval(program, rows, outputs=np.ones(program.num_outputs, np.bool_), seed=seed)


def random_pauli(rng: np.random.Generator, qubits: Sequence[int], weight: int) -> Pauli:
    support = rng.choice(qubits, size=min(weight, len(qubits)), replace=False)
    return Pauli.from_letters(rng.choice(list("XYZ"), size=len(support)), map(int, support))


def random_operations(
    rng: np.random.Generator, qubits: Sequence[int], depth: int
) -> list[Rotation | Fixed]:
    """Rotations of any weight, constants, every gate of the table that fits, and unitaries."""
    fitting = [name for name, matrix in FIXED.items() if len(matrix) <= 1 << len(qubits)]
    operations: list[Rotation | Fixed] = []
    slot = 0
    for _ in range(depth):
        kind = rng.integers(5)
        if kind <= 1:
            operations.append(Rotation(random_pauli(rng, qubits, int(rng.integers(1, 5))), slot))
            slot += 1
        elif kind == 2:
            string = random_pauli(rng, qubits, int(rng.integers(1, 4)))
            operations.append(Rotation(string, CONSTANT, float(rng.normal())))
        else:
            name = str(rng.choice(fitting)) if kind == 3 else "unitary"
            width = len(FIXED[name]) if kind == 3 else 1 << int(rng.integers(1, len(qubits) + 1))
            matrix = FIXED[name] if kind == 3 else random_unitary(width, seed=rng).data
            on = rng.choice(qubits, size=width.bit_length() - 1, replace=False)
            operations.append(Fixed(name, tuple(map(int, on)), matrix))
    return operations


def random_sum(rng: np.random.Generator, qubits: Sequence[int]) -> Expectation:
    terms = {random_pauli(rng, qubits, int(rng.integers(0, 4))): rng.normal() for _ in range(4)}
    return expectation(PauliSum(terms))


@pytest.fixture(scope="module", params=METHODS)
def exact(request: pytest.FixtureRequest, assemble: bool) -> AerEngine:
    engine = AerEngine(AerConfig(method=request.param))
    assert engine.assembled == assemble
    return engine


@given(st.integers(0, 2**32 - 1), st.integers(1, 5), st.sampled_from([1, 2, LAPS + 1]))
def test_values_of_random_circuits_equal_statevector(
    exact: AerEngine, seed: int, num_qubits: int, rows: int
) -> None:
    rng = np.random.default_rng(seed)
    qubits = range(num_qubits)
    block = tuple(map(int, rng.permutation(num_qubits)[: rng.integers(1, num_qubits + 1)]))
    outputs = [random_sum(rng, qubits), Probabilities(block), random_sum(rng, qubits)]
    circuit = program(num_qubits, random_operations(rng, qubits, 15), outputs)
    angles = rng.normal(scale=3, size=(rows, circuit.num_slots))
    found = evaluate(exact, circuit, angles)
    np.testing.assert_allclose(found.values, oracle(circuit, angles), atol=1e-10)
    assert found.values.dtype == np.float64
    assert found.shots == 0


@pytest.mark.slow
def test_values_are_right_where_qubits_idle(exact: AerEngine) -> None:
    rng = np.random.default_rng(30)
    for _ in range(200):
        touched = list(map(int, rng.choice(6, size=3, replace=False)))
        outputs = [Expectation((random_pauli(rng, range(6), int(rng.integers(1, 4))),), (1.0,))]
        circuit = program(6, random_operations(rng, touched, 12), outputs)
        angles = rng.normal(scale=3, size=(1, circuit.num_slots))
        right = oracle(circuit, angles)
        for rows in (1, LAPS + 1):
            found = evaluate(exact, circuit, np.repeat(angles, rows, axis=0)).values
            np.testing.assert_allclose(found, np.repeat(right, rows, axis=0), atol=1e-9)


def test_single_precision_is_honest_to_1e_5() -> None:
    rng = np.random.default_rng(1)
    circuit = program(4, random_operations(rng, range(4), 30), [random_sum(rng, range(4))] * 3)
    angles = rng.normal(size=(5, circuit.num_slots))
    found = evaluate(AerEngine(AerConfig(precision="single")), circuit, angles).values
    error = np.abs(found - oracle(circuit, angles)).max()
    assert 1e-12 < error < 1e-5


@pytest.mark.parametrize("observables", [2, 3])
def test_rows_and_observables_make_a_table(exact: AerEngine, observables: int) -> None:
    outputs = [expectation(o) for o in (Z(0), Z(1), Z(0) @ Z(1))[:observables]]
    angles = np.array([[0.1, 1.0], [0.5, 2.0], [0.9, 3.0]])
    found = evaluate(exact, program(2, [ry(0, 0), ry(1, 1)], outputs), angles).values
    a, b = np.cos(angles).T
    np.testing.assert_allclose(found, np.array([a, b, a * b][:observables]).T, atol=1e-12)


def test_qubit_0_is_the_least_significant_bit(exact: AerEngine) -> None:
    outputs = [Probabilities((0, 1)), Probabilities((1, 0))]
    found = evaluate(exact, program(2, [ry(0, 0), ry(1, 1)], outputs), [[0.5, 2.0]]).values[0]
    right = [0.274058, 0.017868, 0.664733, 0.043340]
    np.testing.assert_allclose(found[:4], right, atol=1e-6)
    np.testing.assert_allclose(found[4:], np.array(right)[[0, 2, 1, 3]], atol=1e-6)
    flipped = program(3, [gate("x", 0)], [expectation(Z(2)), expectation(Z(0))])
    np.testing.assert_allclose(evaluate(exact, flipped, np.zeros((1, 0))).values, [[1, -1]])


def test_a_bell_pair_has_the_non_commuting_values(exact: AerEngine) -> None:
    outputs = [expectation(o) for o in (X(0) @ X(1), Y(0) @ Y(1), Z(0) @ Z(1), Z(0))]
    bell = program(2, [gate("h", 0), gate("cx", 0, 1)], outputs)
    found = evaluate(exact, bell, np.zeros((1, 0))).values
    np.testing.assert_allclose(found, [[1, -1, 1, 0]], atol=1e-12)


def test_a_program_without_slots_answers_every_row(exact: AerEngine) -> None:
    outputs = [expectation(X(0)), Probabilities((0,))]
    found = evaluate(exact, program(1, [gate("h", 0)], outputs), np.zeros((3, 0)))
    np.testing.assert_allclose(found.values, [[1, 0.5, 0.5]] * 3, atol=1e-12)


def test_slots_that_nothing_uses_are_allowed(exact: AerEngine) -> None:
    circuit = program(2, [ry(0, 1), Rotation(Pauli(0, 0), 3)], [expectation(Z(0))])
    found = evaluate(exact, circuit, [[9.0, 0.4, 8.0, 7.0]]).values
    np.testing.assert_allclose(found, [[np.cos(0.4)]], atol=1e-12)


# --- how it runs ---------------------------------------------------------------------------------


class Spy:
    """Records what Aer's own controller answers, whoever calls it."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.answers: list[list[dict[str, Any]]] = []
        self.assembled = 0
        controller, assemble = aer_simulator.aer_controller_execute, aer_compiler.assemble_circuits
        monkeypatch.setattr(
            aer_simulator, "aer_controller_execute", lambda: Spied(controller(), self)
        )

        def assembling(circuits: list[QuantumCircuit], *rest: Any) -> Any:
            self.assembled += len(circuits)
            return assemble(circuits, *rest)

        monkeypatch.setattr(aer_compiler, "assemble_circuits", assembling)
        monkeypatch.setattr(aerbackend, "assemble_circuits", assembling)

    def engine(self, config: AerConfig) -> AerEngine:
        """An engine; what its construction runs is forgotten."""
        engine = AerEngine(config)
        self.answers.clear()
        self.assembled = 0
        return engine

    @property
    def saved(self) -> list[int]:
        """How many values and distributions each run saved, over all rows."""
        return [sum(len(one["data"]) for one in run) for run in self.answers]


class Spied:
    def __init__(self, controller: Any, spy: Spy) -> None:
        self._controller, self._spy = controller, spy

    def __getattr__(self, name: str) -> Any:
        return getattr(self._controller, name)

    def execute(self, *arguments: Any) -> Any:
        found = self._controller.execute(*arguments)
        self._spy.answers.append(found["results"])
        return found


@pytest.fixture
def spy(monkeypatch: pytest.MonkeyPatch) -> Spy:
    return Spy(monkeypatch)


def layers(num_qubits: int, depth: int, outputs: Iterable[PauliSum]) -> Program:
    operations: list[Rotation | Fixed] = []
    for layer in range(depth):
        operations += [ry(q, layer * num_qubits + q) for q in range(num_qubits)]
        operations += [gate("cx", q, (q + 1) % num_qubits) for q in range(num_qubits)]
    return program(num_qubits, operations, map(expectation, outputs))


def test_a_request_is_one_run_and_a_program_one_transpilation(
    spy: Spy, monkeypatch: pytest.MonkeyPatch, assemble: bool
) -> None:
    transpiled = []
    transpile = engine_module.compiled

    def spied(*given: Any, **keys: Any) -> Any:
        transpiled.append(given)
        return transpile(*given, **keys)

    monkeypatch.setattr(engine_module, "compiled", spied)
    engine = spy.engine(AerConfig())
    for step in range(50):
        again = layers(3, 2, [Z(0), Z(1), Z(2)])  # equal, another object
        found = evaluate(engine, again, np.full((8, 6), 0.01 * step))
        assert found.jobs == 1
        mask = np.array([False, True, False])
        engine.expval(again, np.full((20, 6), 0.01), outputs=mask, seed=step)
    assert spy.saved == [8, 20] * 50
    # One for each mask; and the second, at enough rows, in laps too.
    assert spy.assembled == (3 if assemble else 100)
    assert engine.transpilations == len(transpiled) == 1


def test_only_the_outputs_asked_for_are_computed(spy: Spy) -> None:
    outputs = [expectation(Z(0)), Probabilities((1, 0)), expectation(X(1)), expectation(Z(1))]
    circuit = program(2, [ry(0, 0), ry(1, 1)], outputs)
    angles = np.array([[0.3, 0.7], [1.0, 2.0]])
    everything = oracle(circuit, angles)
    mask = np.zeros(7, np.bool_)
    mask[[3, 6]] = True
    found = spy.engine(AerConfig()).expval(circuit, angles, outputs=mask, seed=0)
    np.testing.assert_allclose(found.values, everything * mask, atol=1e-12)
    assert spy.saved == [2]


def test_constants_need_no_run(spy: Spy) -> None:
    outputs = [expectation(PauliSum({Pauli(0, 0): 3.0})), Expectation((), ()), expectation(X(0))]
    circuit = program(1, [ry(0, 0)], outputs)
    engine = spy.engine(AerConfig())
    mask = np.array([True, True, False])
    found = engine.expval(circuit, np.ones((2, 1)), outputs=mask, seed=0)
    np.testing.assert_array_equal(found.values, [[3, 0, 0]] * 2)
    nothing = engine.expval(circuit, np.ones((2, 1)), outputs=np.zeros(3, np.bool_), seed=0)
    np.testing.assert_array_equal(nothing.values, np.zeros((2, 3)))
    assert (found.jobs, nothing.jobs, spy.saved) == (0, 0, [])


def test_a_request_too_large_for_one_run_is_split_and_merged_in_order(
    spy: Spy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine_module, "EXPERIMENTS", 7)
    angles = np.linspace(0, 3, 40).reshape(20, 2)
    found = evaluate(spy.engine(AerConfig()), layers(2, 1, [Z(0), Z(1)]), angles)
    assert found.jobs == 3
    assert spy.saved == [7, 7, 6]
    a, b = np.cos(angles).T
    # cx(0, 1) then cx(1, 0): Z1 becomes Z0 Z1, and then Z0 becomes Z1.
    np.testing.assert_allclose(found.values, np.array([b, a * b]).T, atol=1e-12)


def test_the_least_recently_used_program_is_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine_module, "PROGRAMS", 2)
    monkeypatch.setattr(engine_module, "REQUESTS", 2)
    engine = AerEngine(AerConfig())
    programs = [layers(2, depth, [Z(0)]) for depth in (1, 2, 3)]
    for which in (0, 1, 0, 2, 0, 1):
        evaluate(engine, programs[which], np.ones((1, programs[which].num_slots)))
    assert engine.transpilations == 4  # the last one again


def test_threads_get_their_own_values_and_share_one_transpilation() -> None:
    engine = AerEngine(AerConfig())
    circuit = layers(3, 3, [Z(0), X(1), Z(2) @ Z(1)])
    angles = np.random.default_rng(0).normal(size=(8, LAPS + 5, circuit.num_slots))
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda rows: evaluate(engine, circuit, rows).values, angles))
    for rows, values in zip(angles, found, strict=True):
        np.testing.assert_allclose(values, oracle(circuit, rows), atol=1e-10)
    assert engine.transpilations == 1


def test_no_result_job_or_circuit_outlives_its_request() -> None:
    engine = AerEngine(AerConfig())
    circuit = layers(2, 2, [Z(0), X(1)])

    def alive() -> list[int]:
        for _ in range(2):  # what only a finalizer kept goes with the second
            gc.collect()
        kinds = (Result, JobV1, QuantumCircuit)
        # By type: to ask the lazy modules of other libraries for their class imports what warns.
        found = [type(o) for o in gc.get_objects()]
        return [sum(issubclass(t, kind) for t in found) for kind in kinds]

    evaluate(engine, circuit, np.ones((3, 4)))
    before = alive()
    for step in range(20):
        evaluate(engine, circuit, np.full((3, 4), 0.1 * step))
    assert alive() == before


def test_a_failure_of_aer_is_an_error_and_the_next_request_is_right() -> None:
    engine = AerEngine(AerConfig())
    outputs = [expectation(Z(0))]
    too_wide = program(60, [ry(q, q) for q in range(60)], outputs)
    with pytest.raises(EngineError, match="Aer has too little memory: "):
        evaluate(engine, too_wide, np.ones((1, 60)))
    found = evaluate(engine, program(1, [ry(0, 0)], outputs), [[0.3]]).values
    np.testing.assert_allclose(found, [[np.cos(0.3)]])


def asked_too_much(config: AerConfig, qubits: int) -> str:
    outputs = [expectation(Z(0)), expectation(X(qubits - 1))]
    chain = [ry(q, q) for q in range(qubits)] + [gate("cx", q, q + 1) for q in range(qubits - 1)]
    with pytest.raises(EngineError) as caught:
        evaluate(AerEngine(config), program(qubits, chain, outputs), np.ones((2, qubits)))
    return str(caught.value)


@pytest.mark.parametrize(
    ("keys", "qubits", "needed", "advice"),
    [
        ({}, 40, 16 * 2**40, "method = 'matrix_product_state'"),
        ({"precision": "single"}, 40, 8 * 2**40, "method = 'matrix_product_state'"),
        ({"shots": 10}, 41, 16 * 2**41, "method = 'matrix_product_state'"),
        ({"noise": {"depolarizing_1q": 0.1}}, 20, 16 * 4**20, "method = 'statevector'"),
        ({"method": "density_matrix"}, 22, 16 * 4**22, "method = 'statevector'"),
    ],
)
def test_what_does_not_fit_is_told_once_in_bytes_with_what_to_do(
    keys: dict[str, Any], qubits: int, needed: int, advice: str
) -> None:
    message = asked_too_much(AerConfig(**keys), qubits)
    assert message.count(f"of a circuit needs {in_bytes(needed)}, and ") == 1
    assert advice in message and "Use fewer qubits" in message
    assert "ERROR" not in message and message.lower().count("memory") == 1


def test_what_cannot_be_counted_is_not_told_in_bytes() -> None:
    message = asked_too_much(AerConfig(method="density_matrix"), 60)
    assert "the density matrix of a circuit needs more than can be counted, and" in message


def test_other_failures_of_aer_are_told_once_each() -> None:
    statuses = ["ERROR:  [Experiment 0] bad gate", "ERROR: bad gate", "DONE", "ERROR: bad wire"]
    assert str(failure(statuses)) == (
        "Aer could not run the request: bad gate; bad wire. Choose another 'method', or another "
        "kind of backend."
    )
    assert "it does not say why" in str(failure(["DONE", ""]))


def test_matrix_product_states_reach_70_qubits() -> None:
    outputs = [expectation(Z(0) @ Z(69)), expectation(X(35))]
    ghz = [gate("h", 0), *(gate("cx", q, q + 1) for q in range(69)), ry(35, 0)]
    engine = AerEngine(AerConfig(method="matrix_product_state"))
    found = evaluate(engine, program(70, ghz, outputs), [[0.2]]).values
    np.testing.assert_allclose(found, [[1, 0]], atol=1e-10)


# --- devices -------------------------------------------------------------------------------------


@pytest.fixture
def no_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(AerSimulator, "available_devices", lambda self: ["CPU"])


@pytest.mark.usefixtures("no_gpu")
def test_a_gpu_that_is_not_there_is_an_error() -> None:
    with pytest.raises(DeviceError, match="'GPU' was asked for.*finds CPU.*fallback = 'CPU'"):
        AerEngine(AerConfig(device="GPU"))


@pytest.mark.usefixtures("no_gpu")
def test_a_fallback_runs_on_the_cpu_and_says_so() -> None:
    engine = AerEngine(AerConfig(device="GPU", fallback="CPU"))
    found = evaluate(engine, program(1, [ry(0, 0)], [expectation(Z(0))]), [[0.3]])
    np.testing.assert_allclose(found.values, [[np.cos(0.3)]])
    assert found.device == "CPU"


def test_the_engine_keeps_to_the_protocol() -> None:
    assert isinstance(AerEngine(AerConfig()), Engine)
