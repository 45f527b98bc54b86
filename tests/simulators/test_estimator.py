"""Any estimator of Qiskit as an engine: values, counts of jobs and shots, and failures."""

import gc
import math
import sys
import types
import weakref

import numpy as np
import pytest
from hypothesis import given, strategies as st
from qiskit import QuantumCircuit, qpy
from qiskit.circuit import Parameter
from qiskit.exceptions import QiskitError
from qiskit.primitives import (
    BackendEstimatorV2,
    BaseEstimatorV2,
    BasePrimitiveJob,
    StatevectorEstimator,
)
from qiskit.providers import BackendV2, Options
from qiskit.providers.fake_provider import GenericBackendV2
from qiskit_aer import AerSimulator
from qiskit_aer.primitives import EstimatorV2 as AerEstimator

from qml.circuits.gates import FIXED
from qml.circuits.paulis import Pauli
from qml.circuits.program import AngleMap, Expectation, Fixed, Probabilities, Program, Rotation
from qml.errors import ConfigError, EngineError, JobError, UnknownNameError
from qml.kinds import EstimatorConfig, ReferenceConfig
from qml.simulators.base import JobEngine
from qml.simulators.estimators import compilation, engine as pub_engine, jobs
from qml.simulators.estimators.factory import EstimatorEngine
from qml.simulators.registry import engine

X0, Y0, Z0, Z1, ZZ, XX = (
    Pauli(1, 0),
    Pauli(1, 1),
    Pauli(0, 1),
    Pauli(0, 2),
    Pauli(0, 3),
    Pauli(3, 0),
)


class Spy(StatevectorEstimator):
    """Remembers what it was sent."""

    def __init__(self, **options):
        super().__init__(**options)
        self.sent = []

    def run(self, pubs, *, precision=None):
        pubs = list(pubs)
        self.sent.append((pubs, precision))
        return super().run(pubs, precision=precision)


class Machine(BackendV2):
    """Five noiseless qubits; remembers the shots of every circuit."""

    def __init__(self):
        super().__init__(name="five")
        self._target = GenericBackendV2(5, seed=1).target
        self.ran = []

    @property
    def target(self):
        return self._target

    @property
    def max_circuits(self):
        return 300

    @classmethod
    def _default_options(cls):
        return Options()

    def run(self, run_input, **options):
        self.ran += [(circuit, options["shots"]) for circuit in run_input]
        return AerSimulator().run(run_input, **options)


class RemoteJob(BasePrimitiveJob):
    """A job that is not of this process: states come one by one, then a result or an error."""

    def __init__(self, states, result):
        super().__init__("remote-1")
        self._states, self._result = iter(states), result
        self._state = None

    def status(self):
        self._state = next(self._states, self._state)
        return self._state

    def metrics(self):
        queue = {"QUEUED": 3, "RUNNING": None}
        times = {"created": "2026-01-01T00:00:00Z", "running": "2026-01-01T00:01:30Z"}
        return {"position_in_queue": queue.get(self._state), "timestamps": times}

    def result(self):
        if isinstance(self._result, Exception):
            raise self._result
        return self._result

    def done(self):
        return self._state == "DONE"

    def running(self):
        return self._state == "RUNNING"

    def cancelled(self):
        return self._state == "CANCELLED"

    def in_final_state(self):
        return self._state in ("DONE", "ERROR", "CANCELLED")

    def cancel(self):
        raise NotImplementedError


class Answering(BaseEstimatorV2):
    """Sends what it is told to."""

    def __init__(self, answer):
        self.answer = answer

    def run(self, pubs, *, precision=None):
        found = self.answer(list(pubs), precision)
        if isinstance(found, Exception):
            raise found
        return found


@pytest.fixture
def made(monkeypatch):
    """An engine by what its factory does; the factory is the user's, in a module of his own."""

    def make(factory, **keys):
        module = types.ModuleType("laboratory")
        module.factory = factory
        monkeypatch.setitem(sys.modules, "laboratory", module)
        return EstimatorEngine(EstimatorConfig(factory="laboratory:factory", **keys))

    return make


def program_of(num_qubits, operations, outputs, slots):
    none = np.zeros(0, np.int32)
    angles = AngleMap(0, none, none, np.zeros(0), np.zeros(slots))
    return Program(num_qubits, tuple(operations), tuple(outputs), angles)


def output(*paulis):
    return Expectation(paulis, (1.0,) * len(paulis))


def random_program(seed):
    """Twelve slots, so that names sort otherwise than numbers; one is used by nothing."""
    rng = np.random.default_rng(seed)
    n = int(rng.integers(1, 5))
    operations = []
    for slot in rng.permutation(11):
        operations.append(Rotation(pauli(rng, n), int(slot)))
        name = str(rng.choice([name for name, matrix in FIXED.items() if len(matrix) <= 1 << n]))
        width = len(FIXED[name]).bit_length() - 1
        operations.append(Fixed(name, tuple(map(int, rng.permutation(n)[:width])), FIXED[name]))
    strings = tuple({Pauli(0, 0), pauli(rng, n), pauli(rng, n)})
    outputs = [
        Expectation(strings, tuple(rng.normal(size=len(strings)).tolist())),
        Probabilities(tuple(map(int, rng.permutation(n)[: rng.integers(1, n + 1)]))),
        Expectation((), ()),
        output(pauli(rng, n)),
    ]
    return program_of(n, operations, outputs, 12)


def pauli(rng, n):
    return Pauli(int(rng.integers(1 << n)), int(rng.integers(1 << n)))


def everything(program):
    return np.ones(program.num_outputs, np.bool_)


def evaluated(runner, program, angles, seed=0, outputs=None):
    outputs = everything(program) if outputs is None else outputs
    return runner.expval(program, angles, outputs=outputs, seed=seed)


def reference(program, angles):
    return evaluated(engine(ReferenceConfig()), program, angles).values


COSINE = program_of(1, [Rotation(Pauli(1, 0), 0)], [output(Z0)], 1)
TWO = program_of(
    2, [Rotation(Pauli(1, 0), 0), Rotation(Pauli(2, 0), 1)], [output(Z0), output(Z1)], 2
)


@pytest.mark.parametrize("estimator", [StatevectorEstimator, AerEstimator])
@given(seed=st.integers(0, 2**32 - 1), rows=st.integers(1, 3))
def test_exact_values_are_those_of_the_reference(estimator, seed, rows):
    module = types.ModuleType("qml_test_estimators")
    module.factory = lambda: estimator()
    sys.modules[module.__name__] = module
    try:
        runner = EstimatorEngine(EstimatorConfig(factory="qml_test_estimators:factory"))
    finally:
        del sys.modules[module.__name__]
    program = random_program(seed)
    angles = np.random.default_rng(seed).uniform(-7, 7, size=(rows, 12))
    found = evaluated(runner, program, angles)
    np.testing.assert_allclose(found.values, reference(program, angles), rtol=0, atol=1e-10)
    assert (found.shots, runner.cost(program, rows, everything(program)).shots) == (0, 0)


def test_a_request_is_one_job_of_one_pub_and_a_program_is_compiled_once(made, monkeypatch):
    spy = Spy()
    runner = made(lambda: spy)
    assert isinstance(runner, JobEngine)
    passes = runner._passes
    transpiled = []
    monkeypatch.setattr(
        runner,
        "_passes",
        types.SimpleNamespace(run=lambda c: transpiled.append(c) or passes.run(c)),
    )
    for rows in (1, 7, 64):
        evaluated(runner, TWO, np.ones((rows, 2)))
        evaluated(runner, TWO, np.ones((rows, 2)), outputs=np.array([False, True]))
    assert [len(pubs) for pubs, _ in spy.sent] == [1] * 6
    assert (len(transpiled), runner.transpilations) == (1, 1)


def test_only_wanted_outputs_are_sent_and_the_others_are_zero(made):
    spy = Spy()
    runner = made(lambda: spy)
    found = evaluated(runner, TWO, np.array([[0.3, 0.4]]), outputs=np.array([False, True]))
    np.testing.assert_allclose(found.values, [[0.0, np.cos(0.4)]], atol=1e-12)
    (((pub,), _),) = spy.sent
    assert [dict(one) for one in pub[1].ravel()] == [{"ZI": 1.0}]


def test_constants_are_not_sent(made):
    spy = Spy()
    runner = made(lambda: spy, shots=10)
    program = program_of(1, [], [Expectation((Pauli(0, 0),), (0.7,)), Expectation((), ())], 0)
    found = evaluated(runner, program, np.zeros((3, 0)))
    np.testing.assert_array_equal(found.values, [[0.7, 0.0]] * 3)
    assert (found.jobs, found.shots, spy.sent) == (0, 0, [])
    assert runner.cost(program, 3, everything(program)).jobs == 0


def test_a_program_without_slots_is_measured_anew_in_every_row(made):
    plus = Fixed("h", (0,), FIXED["h"])
    program = program_of(1, [plus], [output(Z0), output(X0)], 0)
    exact = evaluated(made(lambda: StatevectorEstimator()), program, np.zeros((3, 0)))
    np.testing.assert_allclose(exact.values, [[0, 1]] * 3, atol=1e-12)
    machine = Machine()
    sampled = made(lambda: BackendEstimatorV2(backend=machine), shots=100)
    found = evaluated(sampled, program, np.zeros((20, 0)))
    assert [shots for _, shots in machine.ran] == [100] * 40
    assert len(set(found.values[:, 0])) > 5
    np.testing.assert_array_equal(found.values[:, 1], 1)


@given(st.integers(1, 2**31 - 1))
def test_the_precision_stands_for_exactly_so_many_shots(shots):
    precision = pub_engine.precision_of(shots)
    assert math.ceil(1 / precision**2) == shots
    assert precision == pytest.approx(1 / math.sqrt(shots), rel=1e-9)


@pytest.mark.parametrize("shots", [1, 77, 1000])
def test_shots_are_those_that_the_machine_ran(made, shots):
    machine = Machine()
    runner = made(lambda: BackendEstimatorV2(backend=machine), shots=shots)
    program = program_of(2, TWO.operations, [output(ZZ, XX), output(Z0), output(X0)], 2)
    found = evaluated(runner, program, np.ones((5, 2)))
    cost = runner.cost(program, 5, everything(program))
    # ZZ and Z are measured together, XX and X are.
    assert [count for _, count in machine.ran] == [shots] * 10
    assert found.shots == cost.shots == 10 * shots
    assert (cost.circuits, cost.jobs, found.jobs) == (10, 1, 1)


def test_weighted_shots_are_the_same_total_and_follow_the_coefficients(made):
    program = program_of(2, TWO.operations, [Expectation((Z0, X0), (7.0, 1.0))], 2)
    machine = Machine()
    runner = made(lambda: BackendEstimatorV2(backend=machine), shots=1000, allocation="weighted")
    found = evaluated(runner, program, np.zeros((3, 2)))
    assert found.shots == sum(shots for _, shots in machine.ran) == 2 * 1000 * 3
    # What is measured in X ends in a gate that a measurement in Z needs not.
    lengths = [circuit.size() for circuit, _ in machine.ran]
    # 16 parts for two groups: 14 and 2 of them for each of three rows.
    assert [lengths.count(n) for n in sorted({*lengths})] == [42, 6]


def seeded(seed):
    return BackendEstimatorV2(backend=Machine(), options={"seed_simulator": seed})


@pytest.mark.slow
def test_weighted_shots_make_an_uneven_sum_more_exact(made):
    program = program_of(2, TWO.operations, [Expectation((Z0, X0), (15.0, 1.0))], 2)
    angles = np.tile([np.pi / 2, 0.0], (400, 1))
    spread = {}
    for allocation in ("uniform", "weighted"):
        runner = made(seeded, shots=128, allocation=allocation)
        spread[allocation] = evaluated(runner, program, angles, seed=987654321).values.std()
    uniform = np.sqrt((15**2 + 1) / 128)
    weighted = np.sqrt(15**2 / (15 * 16) + 1 / 16)
    np.testing.assert_allclose(spread["uniform"], uniform, rtol=4 / np.sqrt(800))
    np.testing.assert_allclose(spread["weighted"], weighted, rtol=4 / np.sqrt(800))


def test_shots_that_cannot_be_weighted_are_refused_with_a_number_that_can(made):
    with pytest.raises(ConfigError, match="1009 has no divisor from 2 to 8. Take 1016"):
        made(lambda: StatevectorEstimator(), shots=1009, allocation="weighted")


def test_a_factory_with_a_seed_gets_that_of_the_request(made):
    runner = made(lambda seed: StatevectorEstimator(seed=seed), shots=100)
    angles = np.full((6, 1), 1.2)
    one, same, other = (evaluated(runner, COSINE, angles, seed).values for seed in (5, 5, 6))
    np.testing.assert_array_equal(one, same)
    assert len({*one[:, 0], *other[:, 0]}) == 12


def test_a_seed_among_the_options_is_the_users(made):
    seeds = []
    runner = made(
        lambda seed: seeds.append(seed) or StatevectorEstimator(seed=seed),
        shots=100,
        options={"seed": 7},
    )
    evaluated(runner, COSINE, np.ones((1, 1)), seed=3)
    assert seeds == [7]


def test_an_estimator_without_exact_values_needs_shots(made):
    runner = made(lambda: BackendEstimatorV2(backend=Machine()))
    said = "of exact values, as 'shots' is left out, was refused: ValueError: .* larger than 0"
    with pytest.raises(EngineError, match=said) as caught:
        evaluated(runner, COSINE, np.ones((1, 1)))
    assert not isinstance(caught.value, JobError)  # to send it again would not help


@pytest.mark.parametrize("shots", [None, 100])
def test_what_an_estimator_refuses_is_told_in_its_words_and_no_cause_is_made_up(made, shots):
    error = ValueError("observables on more than 3 qubits are not for this machine")
    runner = made(lambda: Answering(lambda pubs, precision: error), shots=shots)
    with pytest.raises(EngineError) as caught:
        evaluated(runner, COSINE, np.ones((1, 1)))
    asked = "of 100 shots" if shots else "of exact values, as 'shots' is left out"
    assert str(caught.value) == (
        f"a job for Answering, {asked}, was refused: ValueError: observables on more than 3 qubits "
        "are not for this machine"
    )
    assert caught.value.__cause__ is error


def test_an_estimator_of_aer_that_lacks_memory_says_so_once(made):
    chain = [Rotation(Pauli(1 << q, 0), 0) for q in range(40)]
    wide = program_of(40, chain, [output(Pauli(0, (1 << 40) - 1))], 1)
    with pytest.raises(EngineError) as caught:
        evaluated(made(lambda: AerEstimator()), wide, np.ones((1, 1)))
    assert not isinstance(caught.value, JobError)
    assert str(caught.value).count("the statevector of a circuit needs 16.0 TiB") == 1
    assert "ERROR" not in str(caught.value) and "use fewer qubits" in str(caught.value)


def test_values_are_not_lost_where_the_time_in_the_queue_cannot_be_told(monkeypatch):
    job = RemoteJob(["DONE"], None)
    assert jobs.seconds_queued(job) == 90.0
    monkeypatch.setattr(RemoteJob, "metrics", lambda self: (_ for _ in ()).throw(OSError("gone")))
    assert jobs.seconds_queued(job) is None


def test_circuits_wider_than_the_machine_are_refused_before_anything_is_compiled(made):
    runner = made(lambda: BackendEstimatorV2(backend=Machine()), shots=10)
    with pytest.raises(EngineError, match="has 6 qubits, five has 5"):
        runner.check(program_of(6, [], [output(Z0)], 0))
    assert runner.transpilations == 0


def test_the_limits_are_the_machines_unless_the_configuration_has_one(made):
    program = program_of(1, COSINE.operations, [output(Z0), output(X0), output(Y0)], 1)
    factory = lambda: BackendEstimatorV2(backend=Machine())
    assert made(factory, shots=10).limit(program, everything(program)) == 300 // 3
    assert made(factory, shots=10, max_rows=7).limit(program, everything(program)) == 7
    unlimited = made(lambda: StatevectorEstimator())
    assert unlimited.limit(program, everything(program)) == pub_engine.UNLIMITED


def test_finished_jobs_are_forgotten(made):
    found = []

    class Weak(StatevectorEstimator):
        def run(self, pubs, *, precision=None):
            job = super().run(pubs, precision=precision)
            found.append(weakref.ref(job))
            return job

    runner = made(lambda: Weak())
    for _ in range(3):
        evaluated(runner, COSINE, np.ones((1, 1)))
    gc.collect()
    assert [one() for one in found] == [None] * 3


def test_a_job_of_another_process_is_collected_by_its_id(made):
    kept = {}

    class Service(Spy):
        def run(self, pubs, *, precision=None):
            job = super().run(pubs, precision=precision)
            kept[job.job_id()] = job
            return job

        def job(self, job_id):
            return kept.get(job_id)

    first, second = made(lambda: Service()), made(lambda: Service())
    options = {"outputs": everything(TWO)}
    name = first.submit(TWO, np.array([[0.3, 0.4]]), seed=0, tag="t", **options)
    found = second.collect(name, TWO, 1, report=lambda status: None, **options)
    np.testing.assert_allclose(found.values, np.cos([[0.3, 0.4]]), atol=1e-12)
    assert second._estimator.sent == []
    with pytest.raises(JobError, match="job gone is not known to Service"):
        second.collect("gone", TWO, 1, report=lambda status: None, **options)
    assert second.find("t") is None


def test_states_and_places_in_the_queue_are_reported_once_each(made, monkeypatch):
    monkeypatch.setattr(jobs, "FIRST_PAUSE", 0.0)
    result = StatevectorEstimator().run([(QuantumCircuit(1), [[["Z"]]])]).result()
    states = ["QUEUED", "QUEUED", "QUEUED", "RUNNING", "RUNNING", "DONE"]
    runner = made(lambda: Answering(lambda pubs, precision: RemoteJob(states, result)))
    seen = []
    options = {"outputs": everything(COSINE)}
    job = runner.submit(COSINE, np.zeros((1, 1)), seed=0, tag="t", **options)
    found = runner.collect(job, COSINE, 1, report=seen.append, **options)
    assert [(one.state, one.position) for one in seen] == [
        ("QUEUED", 3),
        ("RUNNING", None),
        ("DONE", None),
    ]
    assert (found.queued, found.values[0, 0]) == (90.0, 1.0)


def test_a_job_in_this_process_reports_its_end(made):
    runner, seen = made(lambda: StatevectorEstimator()), []
    options = {"outputs": everything(COSINE)}
    job = runner.submit(COSINE, np.zeros((1, 1)), seed=0, tag="t", **options)
    runner.collect(job, COSINE, 1, report=seen.append, **options)
    assert seen[-1].state == "DONE"
    assert {one.job for one in seen} == {job}


@pytest.mark.parametrize(
    ("error", "kind", "text"),
    [
        (QiskitError("Error code 9999; the fridge is warm"), JobError, "the fridge is warm"),
        (ConnectionError("no route"), JobError, "no route"),
        (RuntimeError("out of memory"), JobError, "out of memory"),
        (ValueError("The 0-th pub", "is wrong"), EngineError, "The 0-th pub is wrong"),
    ],
)
def test_what_the_estimator_says_of_a_failure_is_kept(made, error, kind, text):
    submitting = made(lambda: Answering(lambda pubs, precision: error), shots=10)
    failing = made(lambda: Answering(lambda pubs, precision: RemoteJob(["ERROR"], error)), shots=10)
    for runner in (submitting, failing):
        with pytest.raises(EngineError, match=text) as caught:
            evaluated(runner, COSINE, np.zeros((1, 1)))
        assert type(caught.value) is kind


def test_a_cancelled_job_is_not_one_to_send_again(made):
    runner = made(lambda: Answering(lambda pubs, precision: RemoteJob(["CANCELLED"], None)))
    with pytest.raises(EngineError, match="remote-1 was cancelled") as caught:
        evaluated(runner, COSINE, np.zeros((1, 1)))
    assert not isinstance(caught.value, JobError)


@pytest.mark.parametrize(
    ("evs", "stds", "text"),
    [
        ([[[np.nan]]], [[[0.1]]], "1 of 1 expectation values NaN or infinite"),
        ([[[0.5]]], [[[np.inf]]], "1 of 1 standard errors NaN or infinite"),
        ([0.5], [0.1], r"shape \(1,\), and \(1, 1, 1\) were asked for"),
    ],
)
def test_values_that_cannot_be_relied_on_are_errors(made, evs, stds, text):
    data = types.SimpleNamespace(evs=np.array(evs), stds=np.array(stds))
    result = [types.SimpleNamespace(data=data)]
    runner = made(lambda: Answering(lambda pubs, precision: RemoteJob(["DONE"], result)))
    with pytest.raises(EngineError, match=text):
        evaluated(runner, COSINE, np.zeros((1, 1)))


def test_circuits_are_compiled_for_the_machine_of_the_estimator(made):
    machine = GenericBackendV2(5, basis_gates=["cz", "rz", "sx"], seed=1)
    by_property = made(lambda: BackendEstimatorV2(backend=machine), shots=10)

    class ByMethod(StatevectorEstimator):
        def mode(self):
            return machine

    by_method = made(lambda: ByMethod())
    bell = [Fixed("h", (0,), FIXED["h"]), Fixed("cx", (0, 1), FIXED["cx"])]
    program = program_of(2, bell, [output(ZZ)], 0)
    for runner in (by_property, by_method):
        circuit = runner._compiled(program).circuit
        assert circuit.num_qubits == 5
        assert set(circuit.count_ops()) <= {"cz", "rz", "sx"}
        assert runner.device == machine.name
    simulated = made(lambda: StatevectorEstimator())
    assert (simulated._compiled(program).circuit.num_qubits, simulated.device) == (
        2,
        "StatevectorEstimator",
    )


def test_a_circuit_that_loses_a_parameter_on_its_way_is_not_sent(monkeypatch):
    circuit = QuantumCircuit(1)
    circuit.rx(Parameter("slot0"), 0)
    compilation.refuse_altered(circuit)
    monkeypatch.setattr(qpy, "load", lambda stream: [QuantumCircuit(1)])
    with pytest.raises(EngineError, match=r"1 parameters, and 0 after.*differing: slot0"):
        compilation.refuse_altered(circuit)


@pytest.mark.parametrize(
    ("place", "options", "kind", "text"),
    [
        ("laboratory_of_nobody:make", {}, ConfigError, "No module named 'laboratory_of_nobody'"),
        ("laboratory:factori", {}, UnknownNameError, "did you mean 'factory'"),
        ("laboratory:factory", {"levl": 1}, ConfigError, r"levl.*It takes \(level=0\)"),
        ("laboratory:factory", {"level": 5}, ConfigError, "returned a int"),
    ],
)
def test_a_factory_that_makes_no_estimator_is_refused(monkeypatch, place, options, kind, text):
    module = types.ModuleType("laboratory")
    module.factory = lambda level=0: level
    monkeypatch.setitem(sys.modules, "laboratory", module)
    with pytest.raises(kind, match=text):
        EstimatorEngine(EstimatorConfig(factory=place, options=options))


class Odd(Exception):
    """Of a kind that nobody foresees."""


def test_what_a_factory_raises_is_told_as_its_fault(made):
    for error in (KeyError("LAB_TOKEN"), Odd("no lab"), ImportError("no driver"), OSError("gone")):
        with pytest.raises(EngineError) as caught:
            made(lambda error=error: (_ for _ in ()).throw(error))
        assert str(caught.value).startswith(
            f"factory = 'laboratory:factory' made no estimator: {type(error).__name__}: {error}. "
        )
        assert "Mend the function, or change 'options'" in str(caught.value)
        assert caught.value.__cause__ is error and not isinstance(caught.value, JobError)


def test_so_is_what_its_module_raises_when_it_is_imported(tmp_path, monkeypatch):
    (tmp_path / "laboratory_on_fire.py").write_text("raise OverflowError('smoke')")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ConfigError, match="cannot be imported: OverflowError: smoke") as caught:
        EstimatorEngine(EstimatorConfig(factory="laboratory_on_fire:make"))
    assert isinstance(caught.value.__cause__, OverflowError)


def test_a_factory_that_does_not_say_what_it_takes_is_refused(made):
    with pytest.raises(ConfigError, match="'builtins:dict' does not say what it takes: ValueError"):
        EstimatorEngine(EstimatorConfig(factory="builtins:dict"))


def test_an_estimator_that_cannot_say_where_it_runs_is_told(made):
    class Nowhere(Spy):
        @property
        def backend(self):
            raise Odd("no place")

    with pytest.raises(EngineError, match="cannot say where it runs: Odd: no place"):
        made(Nowhere)


def test_what_an_estimator_raises_of_any_kind_is_ours_and_not_sent_again(made):
    error = Odd("the fridge")
    submitting = made(lambda: Answering(lambda pubs, precision: error), shots=10)
    failing = made(lambda: Answering(lambda pubs, precision: RemoteJob(["ERROR"], error)), shots=10)
    for runner in (submitting, failing):
        with pytest.raises(EngineError, match="Odd: the fridge") as caught:
            evaluated(runner, COSINE, np.zeros((1, 1)))
        assert caught.value.__cause__ is error and not isinstance(caught.value, JobError)


@pytest.mark.parametrize(
    "error", [MemoryError("512 TiB"), QiskitError("ERROR: Insufficient memory to run circuit")]
)
def test_what_does_not_fit_the_memory_is_not_sent_again(error):
    with pytest.raises(EngineError, match="does not fit the memory") as caught, jobs.failures("x"):
        raise error
    assert not isinstance(caught.value, JobError)
