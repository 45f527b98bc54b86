"""Requests: what reaches an engine, and what is recorded."""

import functools
import threading

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import qml
from qml import execution, qkernel
from qml.circuits.paulis import Pauli
from qml.circuits.program import AngleMap, Expectation, Program, Rotation
from qml.errors import EngineError
from qml.execution import SHIFT_RULES, execute, last_run, recorded
from qml.kinds import AerConfig, ReferenceConfig
from qml.simulators.base import Evaluation

SHOTS = {"kind": "aer", "shots": 500}


@qkernel(qubits=2)
def kernel(qc, x):
    qc.rx(x[0], 0)
    qc.ry(x[1], 1)
    qc.cx(0, 1)
    return [qml.Z(0), qml.X(1)]


X = jnp.array([0.5, 0.8])

SLOTS, OUTPUTS = 2, 3
none = np.zeros(0, np.int32)
PROGRAM = Program(
    1,
    (Rotation(Pauli(1, 0), 0), Rotation(Pauli(0, 1), 1)),
    tuple(Expectation((Pauli(*masks),), (1.0,)) for masks in ((0, 1), (1, 0), (1, 1))),
    AngleMap(0, none, none, np.zeros(0), np.zeros(SLOTS)),
)


@pytest.fixture
def engine(monkeypatch):
    """An engine of ours behind every configuration: it keeps its requests and answers sums."""

    class Engine:
        requests = []

        def expval(self, program, angles, *, outputs, seed):
            self.requests.append((angles.copy(), outputs.copy(), seed))
            values = np.arange(OUTPUTS) + angles.sum(axis=1, keepdims=True)
            return Evaluation(np.where(outputs, values, 0), shots=9, jobs=2, device="lab")

    made = Engine()
    monkeypatch.setattr(execution, "engine", lambda config: made)
    return made


OPERANDS = {
    "expval": (),
    "expval_jvp": (np.ones((4, 1, SLOTS)),),
    "expval_vjp": (np.ones((4, 1, OUTPUTS)),),
    "expval_hvp": (np.ones((4, 1, 1, SLOTS)), np.ones((4, 1, 1, OUTPUTS))),
    "expval_curvature": (np.ones((4, 1, 1, SLOTS)), np.ones((4, 1, 1, SLOTS))),
}


def test_every_derivative_has_a_rule():
    assert {"expval", *SHIFT_RULES} == OPERANDS.keys()


@pytest.mark.parametrize("primitive", OPERANDS)
def test_one_call_is_one_request_and_one_record(engine, primitive):
    with recorded() as runs:
        execute(primitive, PROGRAM, AerConfig(), 1, np.zeros((4, SLOTS)), *OPERANDS[primitive])
    ((angles, outputs, _),) = engine.requests
    (run,) = runs
    assert last_run() is run
    assert run.primitive == primitive and run.kind == "aer" and run.device == "lab"
    assert run.gradient == ("none" if primitive == "expval" else "parameter_shift")
    assert (run.rows, run.jobs, run.shots) == (len(angles), 2, 9) and run.seconds >= 0
    assert outputs.shape == (OUTPUTS,) and outputs.all()


@pytest.mark.parametrize("primitive", OPERANDS)
def test_an_empty_batch_sends_nothing(engine, primitive):
    operands = [operand[:0] for operand in OPERANDS[primitive]]
    with recorded() as runs:
        found = execute(primitive, PROGRAM, AerConfig(), 1, np.zeros((0, SLOTS)), *operands)
    assert len(found) == 0 and runs == [] and engine.requests == []


def test_each_primitive_draws_its_own_noise_from_one_seed(engine):
    def seeds(seed):
        engine.requests.clear()
        for primitive, operands in OPERANDS.items():
            execute(primitive, PROGRAM, AerConfig(), seed, np.zeros((4, SLOTS)), *operands)
        return [seed for *_, seed in engine.requests]

    first = seeds(1)
    assert len(set(first)) == len(OPERANDS)
    assert seeds(1) == first
    assert not set(seeds(2)) & set(first)
    assert all(0 <= seed < 2**32 for seed in first)


@pytest.mark.parametrize("wrong", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("primitive", OPERANDS)
def test_rows_that_are_not_finite_are_nan_and_the_others_right(engine, primitive, wrong):
    a = np.linspace(0, 1, 4 * SLOTS).reshape(4, SLOTS)
    call = lambda a: execute(primitive, PROGRAM, ReferenceConfig(), 1, a, *OPERANDS[primitive])
    expected = call(a)
    assert np.isfinite(expected).all()
    a[2, 1] = wrong
    found = call(a)
    assert np.isnan(found[2]).all()
    np.testing.assert_array_equal(np.delete(found, 2, axis=0), np.delete(expected, 2, axis=0))
    assert all(np.isfinite(angles).all() for angles, *_ in engine.requests)


@pytest.mark.parametrize("primitive", OPERANDS)
def test_rows_that_are_not_finite_never_cost_shots(engine, primitive):
    a = np.zeros((4, SLOTS))
    a[1, 0] = np.nan
    operands = OPERANDS[primitive]
    with pytest.raises(EngineError, match="NaN or infinity; nothing was sent to the 'aer'"):
        execute(primitive, PROGRAM, AerConfig(shots=10), 1, a, *operands)
    assert engine.requests == []
    execute(primitive, PROGRAM, AerConfig(shots=10), 1, np.zeros((4, SLOTS)), *operands)
    assert len(engine.requests) == 1


def test_records_nest_and_end():
    kernel(X)
    with recorded() as outer:
        kernel(X)
        with recorded() as inner:
            kernel(X)
        with recorded() as empty:
            pass
    kernel(X)
    assert (len(outer), len(inner), len(empty)) == (2, 1, 0)
    assert outer[1] is inner[0]


def test_requests_of_other_threads_are_recorded_too():
    with recorded() as runs:
        threads = [threading.Thread(target=kernel, args=(X,)) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert [run.primitive for run in runs] == ["expval"] * 4


def test_a_failed_request_is_not_recorded(monkeypatch):
    class Broken:
        def check(self, program):
            pass

        def expval(self, *arguments, **keywords):
            raise EngineError("out of order")

    with recorded() as runs:
        with monkeypatch.context() as patch:
            patch.setattr(execution, "engine", lambda config: Broken())
            with pytest.raises(EngineError, match="out of order"):
                kernel(X)
        assert runs == []
        kernel(X)
    assert len(runs) == 1


# --- NaN and shots through the whole path


def test_a_nan_in_a_batch_stays_in_its_row():
    x = jnp.array([[0.1, 0.2], [jnp.nan, 0.3], [0.4, 0.5]])
    for f in (jax.vmap(kernel), jax.jit(jax.vmap(kernel)), jax.vmap(jax.jacrev(kernel))):
        found = f(x)
        assert np.isnan(found[1]).all()
        np.testing.assert_array_equal(found[jnp.array([0, 2])], f(x[jnp.array([0, 2])]))


def test_nan_angles_cost_no_shots_and_the_next_call_is_right():
    with qml.use(SHOTS), recorded() as runs:
        with pytest.raises(EngineError, match="1 of 1 rows.*Look for a diverged training step"):
            kernel(X.at[0].set(jnp.nan))
        with pytest.raises(jax.errors.JaxRuntimeError, match="EngineError: 1 of 1 rows"):
            jitted = jax.jit(functools.partial(kernel, key=3))
            jax.block_until_ready(jitted(X.at[0].set(jnp.nan)))
        assert runs == []
        np.testing.assert_allclose(kernel(X)[0], np.cos(0.5), atol=0.2)
