"""IBM's machines as an engine, on fake devices and on a stand-in for the service.

No account exists where these tests run, so the real service is replaced at its narrowest seam:
`Service` is a QiskitRuntimeService that was given no account, with the few methods that this
library and qiskit-ibm-runtime call on it. Everything else is theirs: its machine is an IBMBackend,
requests are encoded as they are sent, decoded again, and run by their local simulator.
"""

import gc
import json
import os
import subprocess
import sys
import warnings
import weakref
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import qiskit_ibm_runtime
from qiskit.primitives import BasePrimitiveJob
from qiskit.providers.exceptions import QiskitBackendNotFoundError
from qiskit_ibm_runtime import Batch, EstimatorV2, QiskitRuntimeService, Session
from qiskit_ibm_runtime.decoders.defaults import DEFAULT_DECODERS
from qiskit_ibm_runtime.exceptions import IBMRuntimeError, RuntimeJobNotFound
from qiskit_ibm_runtime.executor_estimator import Estimator
from qiskit_ibm_runtime.fake_provider import FakeManilaV2
from qiskit_ibm_runtime.fake_provider.executor.run_quantum_program import run_quantum_program
from qiskit_ibm_runtime.ibm_backend import IBMBackend
from qiskit_ibm_runtime.options_models.simulator import SimulatorOptions
from qiskit_ibm_runtime.quantum_program.params_converters import QUANTUM_PROGRAM_PARAMS_CONVERTERS

import qml
from qml.circuits.gates import FIXED
from qml.circuits.paulis import Pauli
from qml.circuits.program import AngleMap, Expectation, Fixed, Program, Rotation
from qml.errors import (
    ConfigError,
    EngineError,
    JobError,
    MissingDependencyError,
    UnknownNameError,
)
from qml.kinds import AerConfig, RuntimeConfig
from qml.simulators.base import JobEngine
from qml.simulators.estimators import jobs, runtime as runtime_engine
from qml.simulators.estimators.runtime import RuntimeEngine
from qml.simulators.registry import engine

ROOT = Path(qml.__file__).resolve().parents[1]
FAKE = FakeManilaV2()


class Machine(IBMBackend):
    """FakeManilaV2 as a machine of the service."""

    def __init__(self, service):
        super().__init__(FAKE.configuration(), service, None)

    def properties(self, *args, **keys):
        return FAKE.properties()

    @property
    def target(self):
        return FAKE.target

    def check_faulty(self, circuit):
        pass


class ServiceJob(BasePrimitiveJob):
    """Runs what was sent when its result is asked for."""

    def __init__(self, name, inputs, fails):
        super().__init__(name)
        self._inputs, self._fails = inputs, fails

    def status(self):
        return "ERROR" if self._fails else "DONE"

    def metrics(self):
        return {}

    def result(self):
        if self._fails:
            raise IBMRuntimeError("Error code 9999; the fridge is warm")
        converter = QUANTUM_PROGRAM_PARAMS_CONVERTERS[self._inputs["schema_version"]]
        program, _ = converter.decoder(converter.model.model_validate(self._inputs))
        for item in program.items:
            item.samplex.finalize()
        result = run_quantum_program(FAKE, program, SimulatorOptions(seed_simulator=11))
        for decoder in DEFAULT_DECODERS["executor"]:
            if decoder.is_applicable(result):
                result = decoder.decode(result)
        return result

    done = running = cancelled = in_final_state = cancel = lambda self: NotImplemented


class Service(QiskitRuntimeService):
    """See above."""

    made: list[dict] = []
    kept: dict = {}

    def __init__(self, **arguments):
        self.made.append(arguments)
        self.sessions = []
        self.fails = False
        self.payloads = []

    channel = "ibm_quantum_platform"

    def backend(self, name):
        if name != "fake_manila":
            raise QiskitBackendNotFoundError("No backend matches the criteria.")
        return Machine(self)

    def backends(self):
        return [Machine(self)]

    def job(self, job_id):
        if job_id not in self.kept:
            raise RuntimeJobNotFound(f"Job not found: {job_id}")
        return self.kept[job_id][0]

    def jobs(self, limit, job_tags):
        return [job for job, tags in self.kept.values() if {*job_tags} <= {*tags}][:limit]

    def _run(self, program_id, inputs, options, session_id=None, **keys):
        assert program_id == "executor"
        if self.fails == "sending":
            raise IBMRuntimeError("Failed to run program: the line is cut")
        inputs = json.loads(json.dumps(inputs))
        self.payloads.append(len(json.dumps(inputs)))
        job = ServiceJob(f"job-{len(self.kept)}", inputs, self.fails)
        self.kept[job.job_id()] = (job, options["job_tags"])
        self.sessions.append(("job", session_id))
        return job

    def _get_api_client(self, instance=None):
        return SimpleNamespace(create_session=self._create, close_session=self._close)

    def _create(self, backend, instance, max_time, mode):
        self.sessions.append(("open", mode))
        return {"id": f"session-{len(self.sessions)}"}

    def _close(self, session_id):
        self.sessions.append(("close", session_id))


@pytest.fixture
def service(monkeypatch):
    """The service is the stand-in, and the variable IBM_TOKEN holds a token."""
    monkeypatch.setattr(qiskit_ibm_runtime, "QiskitRuntimeService", Service)
    monkeypatch.setattr(Service, "made", [])
    monkeypatch.setattr(Service, "kept", {})
    monkeypatch.setenv("IBM_TOKEN", "hush-hush-4711")


def fake(**keys):
    return RuntimeEngine(
        RuntimeConfig(**{"fake": "FakeManilaV2", "resilience_level": 0, "shots": 1000} | keys)
    )


def real(**keys):
    keys = {"name": "fake_manila", "token_env": "IBM_TOKEN", "resilience_level": 0} | keys
    return RuntimeEngine(RuntimeConfig(**keys))


def program_of(num_qubits, operations, outputs, slots):
    none = np.zeros(0, np.int32)
    angles = AngleMap(0, none, none, np.zeros(0), np.zeros(slots))
    return Program(num_qubits, tuple(operations), tuple(outputs), angles)


def output(*terms):
    return Expectation(tuple(p for p, _ in terms), tuple(c for _, c in terms))


ZZ, XX, YY, ZI = Pauli(0, 3), Pauli(3, 0), Pauli(3, 3), Pauli(0, 1)
BELL = program_of(
    2,
    [Fixed("h", (0,), FIXED["h"]), Fixed("cx", (0, 1), FIXED["cx"]), Rotation(Pauli(1, 0), 0)],
    [output((ZZ, 1.0)), output((XX, 1.0)), output((YY, 1.0)), output((ZI, 1.0), (XX, 0.5))],
    1,
)
ALL = np.ones(4, np.bool_)


def evaluated(runner, angles, seed=123456789, program=BELL, outputs=ALL):
    return runner.expval(program, np.asarray(angles), outputs=outputs, seed=seed)


def collected(runner, job, rows=1):
    return runner.collect(job, BELL, rows, outputs=ALL, report=lambda status: None)


@pytest.mark.parametrize("device", ["FakeManilaV2", "FakeSherbrooke"])
def test_a_fake_device_has_the_noise_of_the_machine(device):
    """The exact noisy values are Aer's own engine's, from density matrices.

    FakeSherbrooke has 127 qubits: only those in use are simulated.
    """
    runner = fake(fake=device, shots=40_000)
    assert isinstance(runner, JobEngine)
    angles = np.array([[0.0], [0.7]])
    found = evaluated(runner, angles)
    noisy = evaluated(engine(AerConfig(noise=device)), angles).values
    # Five standard errors, and a gate more or less where the basis is changed.
    np.testing.assert_allclose(found.values, noisy, rtol=0, atol=5 / 200 + 0.005)
    assert found.values[0, 0] < 0.97
    assert (found.precision, found.queued) == ("double", None)
    assert found.device == runner._machine.name
    assert runner._compiled(BELL).circuit.num_qubits == 2


def test_a_request_is_one_job_of_one_pub(monkeypatch):
    sent = spied(monkeypatch, Estimator, "run")
    runner = fake(shots=100)
    for rows in (1, 5, 5):
        found = evaluated(runner, np.zeros((rows, 1)))
        assert (found.jobs, found.shots) == (1, rows * 3 * 100)  # three bases
    assert [len(pubs) for (_, pubs), _ in sent] == [1, 1, 1]
    assert runner.transpilations == 1


@pytest.mark.parametrize("level", [0, 1])
@pytest.mark.parametrize("allocation", ["uniform", "weighted"])
def test_the_cost_is_what_runs(monkeypatch, level, allocation):
    """By the program that the executor got: mitigation rounds shots up, and calibrates."""
    runner = fake(shots=104, resilience_level=level, allocation=allocation)
    cost = runner.cost(BELL, 3, ALL)
    job = runner.submit(BELL, np.zeros((3, 1)), outputs=ALL, seed=1, tag="")
    ran = runner._jobs[job].inputs
    assert cost.circuits == sum(item.size() for item in ran.items)
    assert cost.shots == ran.shots * cost.circuits == collected(runner, job, 3).shots
    assert (cost.jobs, cost.seconds) == (1, None)
    if level == 0:
        assert cost.shots == 3 * 3 * 104


def test_shots_are_drawn_anew_for_every_seed_and_row():
    runner = fake(shots=500)
    one, same, other = (evaluated(runner, np.zeros((3, 1)), s).values for s in (7, 7, 8))
    np.testing.assert_array_equal(one, same)
    assert len({*one[:, 0], *other[:, 0]}) == 6


def test_angles_are_not_rounded(monkeypatch):
    """Left alone, the local simulator rounds to 1e-5 of a quarter turn."""
    sent = spied(monkeypatch, Estimator, "run")
    evaluated(fake(shots=1), [[0.123456789]])
    (((estimator, _), _),) = sent
    assert estimator.options.simulator.angle_decimals == 12


@pytest.mark.slow
def test_error_bars_that_are_infinite_are_an_error():
    """Extrapolation to zero noise finds no error bar on this device."""
    with pytest.raises(EngineError, match="standard errors NaN or infinite.*resilience_level"):
        evaluated(fake(shots=64, resilience_level=2), [[0.3]])


def test_the_older_estimator_is_used_where_there_is_no_other(monkeypatch):
    monkeypatch.setitem(sys.modules, "qiskit_ibm_runtime.executor_estimator.prepare", None)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        sent = spied(monkeypatch, EstimatorV2, "run")
    runner = fake(shots=1000)
    found = evaluated(runner, [[0.0], [0.0]])
    np.testing.assert_allclose(found.values, [[1, 1, -1, 0.5]] * 2, atol=0.25)
    assert [len(pubs) for (_, pubs), _ in sent] == [1]
    assert found.shots == runner.cost(BELL, 2, ALL).shots == 2 * 3 * 1000
    np.testing.assert_array_equal(found.values, evaluated(runner, [[0.0], [0.0]]).values)
    with pytest.raises(ConfigError, match="resilience_level = 1 has no effect on a fake device"):
        fake(resilience_level=1)


def test_local_jobs_end_with_their_process():
    runner = fake()
    assert runner.find("tag") is None
    with pytest.raises(JobError, match="job 12 is not known to fake_manila"):
        collected(runner, "12")


def test_wide_circuits_and_unknown_devices_are_refused():
    with pytest.raises(EngineError, match="has 6 qubits, fake_manila has 5"):
        fake().check(program_of(6, [], [output((ZI, 1.0))], 0))
    with pytest.raises(UnknownNameError, match="did you mean 'FakeManilaV2'"):
        fake(fake="FakeManila2")


@pytest.mark.parametrize("place", [{"fake": "FakeManilaV2"}, {"name": "ibm_fez"}])
def test_a_missing_package_names_the_extra(monkeypatch, place):
    for name in [*sys.modules]:
        if name.split(".")[0] == "qiskit_ibm_runtime":
            monkeypatch.setitem(sys.modules, name, None)
    monkeypatch.setenv("IBM_TOKEN", "hush-hush-4711")
    token = {} if "fake" in place else {"token_env": "IBM_TOKEN"}
    with pytest.raises(MissingDependencyError, match=r"hybrid-qml\[runtime\]"):
        RuntimeEngine(RuntimeConfig(**place, **token))


def test_the_service_is_made_of_what_the_configuration_says(service):
    assert real(instance="lab").device == "fake_manila"
    assert Service.made == [{"token": "hush-hush-4711", "instance": "lab"}]


@pytest.mark.parametrize("value", [None, ""])
def test_a_missing_token_names_its_variable(service, monkeypatch, value):
    monkeypatch.delenv("IBM_TOKEN")
    if value is not None:
        monkeypatch.setenv("IBM_TOKEN", value)
    with pytest.raises(ConfigError, match="'IBM_TOKEN'.*no environment variable.*or it is empty"):
        real()
    assert Service.made == []


@pytest.mark.parametrize("account", [None, "mine"])
def test_without_an_account_none_is_created(monkeypatch, tmp_path, account):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("QISKIT_IBM_TOKEN", raising=False)
    with pytest.raises(ConfigError, match=r"qiskit-ibm.json does not exist. .*token_env"):
        RuntimeEngine(RuntimeConfig(name="ibm_fez", account=account))
    assert [*tmp_path.iterdir()] == []


def test_a_refusal_of_the_service_is_told_without_the_token(service, monkeypatch):
    def refuse(self, **arguments):
        raise IBMRuntimeError(f"Invalid API key {arguments['token']}")

    monkeypatch.setattr(Service, "__init__", refuse)
    with pytest.raises(EngineError, match="could not be reached.*Invalid API key") as caught:
        real()
    assert "hush-hush" not in str(caught.value)
    assert (caught.value.__cause__, caught.value.__suppress_context__) == (None, True)


def test_an_unknown_machine_lists_those_of_the_account(service):
    with pytest.raises(UnknownNameError, match="'fake_manilla'.*did you mean 'fake_manila'"):
        real(name="fake_manilla")


def test_a_machine_runs_a_job_and_its_tag_finds_it_from_another_process(service):
    runner, other = real(shots=10_000), real(shots=10_000, seed=0, retries=1)
    angles = np.array([[0.0], [0.4]])
    job = runner.submit(BELL, angles, outputs=ALL, seed=1, tag="qml-tag")
    assert runner.find("qml-tag") == other.find("qml-tag") == job
    assert runner.find("qml-other") is None
    mine, theirs = collected(runner, job, 2), collected(other, job, 2)
    np.testing.assert_array_equal(mine.values, theirs.values)
    np.testing.assert_allclose(mine.values[0], [1, 1, -1, 0.5], atol=0.2)
    assert (mine.device, mine.precision) == ("fake_manila", "-")
    with pytest.raises(JobError, match="job missing is not known"):
        collected(other, "missing")


def test_the_time_of_a_machine_is_shots_times_circuit_and_pause(service):
    cost = real(shots=1000).cost(BELL, 10, ALL)
    pause = FAKE.configuration().default_rep_delay
    assert cost.shots == 30_000
    assert 30_000 * pause < cost.seconds < 30_000 * (pause + 10e-6)


def test_a_job_stays_below_the_limits_of_the_service(service, monkeypatch):
    runner = real(shots=4096)
    assert runner.limit(BELL, ALL) == fake(shots=4096).limit(BELL, ALL) == 10_000_000 // 4096 // 3
    assert real(shots=4096, max_rows=5).limit(BELL, ALL) == 5
    monkeypatch.setattr(runtime_engine, "PAYLOAD", 40_000)
    rows = runner.limit(BELL, ALL)
    assert rows == 40_000 // (40 + 3 * 64)
    runner.submit(
        BELL, np.random.default_rng(0).normal(size=(rows, 1)), outputs=ALL, seed=0, tag=""
    )
    assert runner.service.payloads[-1] < 40_000


@pytest.mark.parametrize("fails", ["sending", "running"])
def test_what_the_service_says_of_a_failure_is_kept(service, fails):
    runner = real()
    runner.service.fails = fails
    with pytest.raises(JobError, match="the line is cut|the fridge is warm"):
        evaluated(runner, [[0.0]])


def test_jobs_are_sent_in_no_session_unless_asked(service):
    runner = real()
    evaluated(runner, [[0.0]])
    assert runner.service.sessions == [("job", None)]


@pytest.mark.parametrize(("mode", "name"), [("session", "dedicated"), ("batch", "batch")])
def test_a_session_is_opened_once_and_closed_with_its_engine(service, mode, name):
    runner = real(mode=mode)
    log, gone = runner.service.sessions, weakref.ref(runner)
    assert log == []
    evaluated(runner, [[0.0]])
    evaluated(runner, [[0.1]])
    assert log == [("open", name), ("job", "session-1"), ("job", "session-1")]
    del runner
    gc.collect()
    assert gone() is None
    assert log[3:] == [("close", "session-1")]


@pytest.mark.parametrize("fails", ["sending", "running"])
def test_a_session_is_closed_when_something_fails_and_a_new_one_is_opened(service, fails):
    runner = real(mode="session")
    runner.service.fails = fails
    with pytest.raises(JobError):
        evaluated(runner, [[0.0]])
    log = runner.service.sessions
    assert [event for event, _ in log if event != "job"] == ["open", "close"]
    runner.service.fails = False
    evaluated(runner, [[0.0]])
    runner.close()
    runner.close()
    assert [event for event, _ in log if event != "job"] == ["open", "close"] * 2


def test_a_session_that_cannot_be_closed_is_told_beside_what_failed(service, monkeypatch):
    runner = real(mode="session")
    runner.service.fails = "sending"
    monkeypatch.setattr(Session, "close", lambda _: (_ for _ in ()).throw(IBMRuntimeError("stuck")))
    with pytest.raises(
        JobError, match="the line is cut.*; closing the session failed: IBMRuntimeError: 'stuck'"
    ):
        evaluated(runner, [[0.0]])


def test_an_interrupted_wait_closes_the_session_and_keeps_the_job(service, monkeypatch):
    runner = real(mode="session")
    job = runner.submit(BELL, np.zeros((1, 1)), outputs=ALL, seed=0, tag="")

    def interrupt(*args):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(jobs, "_state", interrupt)
        with pytest.raises(KeyboardInterrupt):
            collected(runner, job)
    assert runner.service.sessions[-1] == ("close", "session-1")
    assert collected(runner, job).jobs == 1


@pytest.mark.parametrize("group", [Session, Batch])
def test_a_session_of_the_users_own_is_left_open(group):
    with group(backend=FAKE) as users:
        evaluated(fake(shots=10, mode="session"), [[0.0]])
        evaluated(fake(shots=10), [[0.0]])
        gc.collect()
        assert users._active


SCRIPT = """
import numpy as np, qiskit_ibm_runtime as runtime
import qml
close = runtime.Session.close
runtime.Session.close = lambda self: (print("closed"), close(self))
@qml.qkernel(qubits=1)
def cosine(qc, t):
    qc.rx(t, 0)
    return qml.Z(0)
table = {"kind": "runtime", "fake": "FakeManilaV2", "mode": "session", "resilience_level": 0}
print("value", float(cosine(0.0, backend=table)) > 0.5)
raise KeyError("of the user's own")
"""


@pytest.mark.slow
def test_a_session_is_closed_when_the_program_ends_by_an_error(tmp_path):
    environment = os.environ | {"PYTHONPATH": str(ROOT), "JAX_PLATFORMS": "cpu"}
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT],
        capture_output=True,
        text=True,
        env=environment,
        cwd=tmp_path,
    )
    assert done.stdout.splitlines() == ["value True", "closed"]
    assert "KeyError" in done.stderr


def spied(monkeypatch, owner, name):
    """((self and positional arguments), keywords) of every call of a method."""
    calls, method = [], getattr(owner, name)

    def spy(*args, **keys):
        args = (args[0], *(list(arg) for arg in args[1:]))
        calls.append((args, keys))
        return method(*args, **keys)

    monkeypatch.setattr(owner, name, spy)
    return calls
