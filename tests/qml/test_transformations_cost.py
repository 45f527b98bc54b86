"""What a transformation costs: requests, rows and traces, whatever the nesting."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import qml
from qml import qkernel
from qml.execution import recorded
from qml.kinds import KINDS
from qml.simulators.registry import engine

SEEN = ["aer", "reference"]
"""Engines of which every request is seen, from compiled code too."""

SLOTS, OUTPUTS = 4, 2


@qkernel(qubits=2)
def kernel(qc, x, w):
    """2 inputs, 2 weights, each the angle of one slot, and 2 outputs."""
    qc.ry(x[0], 0)
    qc.rx(w[0], 1)
    qc.cx(0, 1)
    qc.ry(x[1], 1)
    qc.rz(w[1], 0)
    qc.cx(1, 0)
    return [qml.Z(0), qml.X(1) @ qml.Y(0)]


@pytest.fixture
def rows(request, monkeypatch):
    """The rows of angles (R, K) that the engine evaluates, in a list of arrays."""
    runner = engine(KINDS[request.getfixturevalue("kind")]())
    seen, evaluate = [], runner.expval

    def spied(program, angles, **keywords):
        seen.append(np.array(angles))
        return evaluate(program, angles, **keywords)

    monkeypatch.setattr(runner, "expval", spied)
    return seen


def nested(f):
    """The function over a batch (3, 5, 4) of inputs and weights, by three maps over mixed axes."""
    inner = jax.vmap(f, (0, None))
    middle = jax.vmap(inner, (None, 1), 1)
    return jax.vmap(middle, (0, None))


RNG = np.random.default_rng(0)
X = jnp.asarray(RNG.normal(size=(3, 5, 2)))
W = jnp.asarray(RNG.normal(size=(2, 4)))
SAMPLES = 3 * 5 * 4

# Rows per sample: the point, two for every slot that varies, and for second orders the point, one
# for every slot, four for every pair.
COSTS = {
    "values": (lambda f: f, {"expval": 1}),
    "jacrev": (lambda f: jax.jacrev(f, (0, 1)), {"expval_vjp": 2 * SLOTS}),
    "jacfwd": (lambda f: jax.jacfwd(f, (0, 1)), {"expval_jvp": 2 * SLOTS}),
    "jacrev of one argument": (lambda f: jax.jacrev(f, 1), {"expval_vjp": 2 * SLOTS}),
    "jacfwd of one argument": (lambda f: jax.jacfwd(f, 1), {"expval_jvp": 4}),
    "value and jacobian": (
        lambda f: lambda x, w: (f(x, w), jax.jacrev(f)(x, w)),
        {"expval": 1, "expval_vjp": 2 * SLOTS},
    ),
    "hessian": (lambda f: jax.hessian(f, (0, 1)), {"expval_hvp": 1 + SLOTS + 4 * 6}),
    "linearize": (lambda f: lambda x, w: jax.linearize(f, x, w)[0], {"expval": 1}),
}


@pytest.mark.parametrize("kind", SEEN)
@pytest.mark.parametrize("name", COSTS)
def test_a_primitive_is_one_request_under_three_maps_and_no_row_is_asked_twice(name, kind, rows):
    transform, expected = COSTS[name]
    step = jax.jit(nested(transform(kernel)))
    with qml.use(kind):
        jax.block_until_ready(step(X, W))
        rows.clear()
        with recorded() as runs:
            jax.block_until_ready(step(X, W))
    assert {run.primitive: run.rows for run in runs} == {
        primitive: SAMPLES * count for primitive, count in expected.items()
    }
    assert len(runs) == len(expected) == len(rows)
    assert all(run.jobs == 1 for run in runs)
    for asked in rows:
        assert len(np.unique(asked.round(9), axis=0)) == len(asked)


@pytest.mark.parametrize("kind", SEEN)
def test_a_checkpoint_asks_for_the_values_once_more_and_for_nothing_else(kind):
    loss = lambda w: jnp.sin(kernel(X[0, 0], w)).sum()
    expected = [["expval", "expval_vjp"], ["expval", "expval", "expval_vjp"]]
    with qml.use(kind):
        for f, primitives in zip((loss, jax.checkpoint(loss)), expected, strict=True):
            step = jax.jit(jax.value_and_grad(f))
            jax.block_until_ready(step(W[:, 0]))
            with recorded() as runs:
                jax.block_until_ready(step(W[:, 0]))
            assert sorted(run.primitive for run in runs) == primitives


@pytest.mark.parametrize("kind", SEEN)
def test_a_loop_asks_as_often_as_it_goes_round(kind):
    more = lambda state: state[0] < 4
    body = lambda state: (state[0] + 1, state[1] + 0.1 * kernel(X[0, 0], state[1]))
    loop = jax.jit(lambda w: jax.lax.while_loop(more, body, (0, w))[1])
    with qml.use(kind):
        jax.block_until_ready(loop(W[:, 0]))
        with recorded() as runs:
            jax.block_until_ready(loop(W[:, 0]))
            jax.block_until_ready(loop(W[:, 1]))
    assert [(run.primitive, run.rows) for run in runs] == 8 * [("expval", 1)]


@pytest.mark.parametrize("kind", SEEN)
def test_the_branch_not_taken_asks_nothing(kind):
    branches = jax.jit(lambda p, w: jax.lax.cond(p, lambda w: kernel(w, w), jnp.sin, w))
    with qml.use(kind):
        for taken in (True, False):
            jax.block_until_ready(branches(taken, W[:, 0]))
            with recorded() as runs:
                jax.block_until_ready(branches(taken, W[:, 0]))
            assert len(runs) == taken


BACKENDS = ["statevector", "xla", "reference", "aer", {"kind": "aer", "shots": 100}]


@pytest.mark.parametrize("backend", BACKENDS, ids=str)
def test_a_jitted_step_is_traced_and_compiled_once_for_the_same_shapes(backend, caplog):
    traces, writes = [], []

    @qkernel(qubits=1)
    def fresh(qc, x, w):
        writes.append(1)
        qc.rx(x * w, 0)
        return qml.Z(0)

    @jax.jit
    def step(x, w, key):
        traces.append(1)
        loss = lambda w: jax.vmap(lambda x: fresh(x, w, key=key))(x).sum()
        value, slope = jax.value_and_grad(loss)(w)
        return value, w - 0.1 * slope

    w, keys = jnp.array(0.4), jax.random.split(jax.random.key(0), 5)
    with qml.use(backend), jax.log_compiles(), caplog.at_level("WARNING", "jax"):
        for i in range(5):
            _, w = jax.block_until_ready(step(X[0, :, 0] + i, w, keys[i]))
        assert len(traces) == len(writes) == 1
        compiled = [
            m for m in caplog.messages if m.startswith("Finished XLA compilation of jit(step)")
        ]
        assert len(compiled) == 1
        step(X[0, :3, 0], w, keys[0])
    assert len(traces) == 2 and len(writes) == 1
