"""Every transformation of JAX: what it gives, against plain JAX, and what it costs."""

import itertools
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from engines import EXACT, PATHS
from jax.test_util import check_grads
from qiskit.quantum_info import Operator, Pauli

import qml
from qml import qkernel
from qml.execution import recorded
from qml.simulators.registry import engine

ROTATIONS = [  # method, qubits, label of the generator
    ("ry", (0,), "IY"),
    ("rx", (1,), "XI"),
    ("rxx", (0, 1), "XX"),
    ("rz", (0,), "IZ"),
    ("ry", (1,), "YI"),
    ("rzx", (0, 1), "XZ"),
    ("rx", (0,), "IX"),
    ("rzz", (0, 1), "ZZ"),
]
OBSERVABLES = ["ZI", "XY", "IX", "YY"]

close = partial(np.testing.assert_allclose, rtol=1e-9, atol=1e-9)


def pair(slots, outputs):
    """(kernel, the same function in plain JAX): (slots,) -> (outputs,), each slot used once."""

    @qkernel(qubits=2)
    def kernel(qc, p):
        for k, (method, qubits, _) in enumerate(ROTATIONS[:slots]):
            getattr(qc, method)(p[k], *qubits)
            qc.cx(0, 1)
        return OBSERVABLES[:outputs]

    cx = jnp.asarray([[1, 0, 0, 0], [0, 0, 0, 1], [0, 0, 1, 0], [0, 1, 0, 0]], complex)
    generators = [jnp.asarray(Operator(Pauli(label)).data) for *_, label in ROTATIONS[:slots]]
    measured = [jnp.asarray(Operator(Pauli(label)).data) for label in OBSERVABLES[:outputs]]

    def oracle(p):
        state = jnp.asarray([1, 0, 0, 0], complex)
        for angle, generator in zip(p, generators, strict=True):
            half = angle / 2
            state = cx @ (jnp.cos(half) * state - 1j * jnp.sin(half) * (generator @ state))
        return jnp.stack([jnp.vdot(state, o @ state).real for o in measured])

    return kernel, oracle


KERNEL, ORACLE = pair(4, 3)
P = jnp.array([0.3, -1.2, 0.8, 2.1])
BATCH = jnp.linspace(-2, 2, 24).reshape(2, 3, 4)


def scanned(f):
    def step(p, _):
        return p + 0.1 * jax.grad(lambda p: f(p).sum())(p), f(p)[0]

    return lambda p: jax.lax.scan(step, p, None, length=3)


def in_argument(i):
    """A function of one argument, the others being constants."""
    return lambda f: lambda p: f(P.at[i].set(p[i]))


TRANSFORMATIONS = {
    "nothing": lambda f: f,
    "grad": lambda f: jax.grad(lambda p: f(p) @ jnp.arange(1.0, 4)),
    "value_and_grad": lambda f: jax.value_and_grad(lambda p: (f(p) ** 2).sum()),
    "jacfwd": jax.jacfwd,
    "jacrev": jax.jacrev,
    "hessian": jax.hessian,
    "jacfwd of jacfwd": lambda f: jax.jacfwd(jax.jacfwd(f)),
    "jacrev of jacfwd": lambda f: jax.jacrev(jax.jacfwd(f)),
    "jacrev of jacrev": lambda f: jax.jacrev(jax.jacrev(f)),
    "hessian of a loss": lambda f: jax.hessian(lambda p: jnp.sin(f(p * p)).sum()),
    "jvp": lambda f: lambda p: jax.jvp(f, (p,), (p[::-1],)),
    "vjp": lambda f: lambda p: jax.vjp(f, p)[1](p[:3]),
    "linearize": lambda f: lambda p: jax.linearize(f, p)[1](p[::-1]),
    "linear transpose": lambda f: (
        lambda p: jax.linear_transpose(lambda t: jax.jvp(f, (p,), (t,))[1], p)(p[:3])
    ),
    "hessian vector product": lambda f: (
        lambda p: jax.jvp(jax.grad(lambda p: f(p).sum()), (p,), (p[::-1],))
    ),
    "vmap": lambda f: lambda p: jax.vmap(f)(BATCH[0] * p[None]),
    "vmap of vmap": lambda f: lambda p: jax.vmap(jax.vmap(f))(BATCH * p[None, None]),
    "vmap over the last axis": lambda f: lambda p: jax.vmap(f, -1, -1)(jnp.outer(p, p[:3])),
    "vmap to another axis": lambda f: lambda p: jax.vmap(f, 0, 1)(BATCH[0] * p[None]),
    "vmap of grad": lambda f: (
        lambda p: jax.vmap(jax.grad(lambda p: f(p).sum()))(BATCH[0] * p[None])
    ),
    "vmap of hessian": lambda f: lambda p: jax.vmap(jax.hessian(f))(BATCH[0] * p[None]),
    "grad of vmap": lambda f: jax.grad(lambda p: (jax.vmap(f)(BATCH[0] * p[None]) ** 2).sum()),
    "hessian of vmap": lambda f: jax.hessian(
        lambda p: (jax.vmap(f)(BATCH[0] * p[None]) ** 2).sum()
    ),
    "jacrev of vmap of jacfwd": lambda f: jax.jacrev(
        lambda p: jax.vmap(jax.jacfwd(f))(BATCH[0] * p[None])
    ),
    "vmap of one argument": lambda f: (
        lambda p: jax.vmap(lambda x: f(jnp.concatenate([x[None], p[1:]])))(p)
    ),
    "hessian in one argument": lambda f: jax.hessian(in_argument(1)(f)),
    "jit inside": lambda f: jax.grad(lambda p: jax.jit(f)(p).sum()),
    "scan of grad": scanned,
    "grad through scan": lambda f: jax.grad(lambda p: scanned(f)(p)[1].sum()),
    "checkpoint": lambda f: jax.hessian(jax.checkpoint(lambda p: f(p).sum())),
    "cond": lambda f: jax.grad(lambda p: jax.lax.cond(p[0] > 0, f, lambda p: 2 * f(p), p).sum()),
    "map": lambda f: lambda p: jax.lax.map(jax.jacrev(f), BATCH[0] * p[None]),
}


@pytest.mark.parametrize("name", TRANSFORMATIONS)
def test_a_transformation_gives_what_it_gives_in_plain_jax(name):
    """By native derivatives, the default, and by the shift rule."""
    transform = TRANSFORMATIONS[name]
    expected = jax.jit(transform(ORACLE))(P)
    for kind in (None, "reference"):
        with qml.use(kind):
            jax.tree.map(close, jax.jit(transform(KERNEL))(P), expected)


@pytest.mark.parametrize("name", ["nothing", "grad", "hessian", "vmap of grad", "scan of grad"])
def test_a_transformation_needs_no_jit(name):
    transform = TRANSFORMATIONS[name]
    jax.tree.map(close, transform(KERNEL)(P), jax.jit(transform(ORACLE))(P))


@pytest.mark.parametrize("kind", PATHS)
@pytest.mark.parametrize("name", ["jacrev", "hessian", "hessian of vmap"])
def test_a_transformation_is_right_on_every_engine(name, kind):
    transform = TRANSFORMATIONS[name]
    with qml.use(EXACT[kind]):
        found = jax.jit(transform(KERNEL))(P)
    jax.tree.map(close, found, jax.jit(transform(ORACLE))(P))


JACOBIANS = {"fwd": jax.jacfwd, "rev": jax.jacrev}


@pytest.mark.parametrize("modes", list(itertools.product(JACOBIANS, repeat=3)), ids="-".join)
def test_the_third_order_is_exact_in_every_mix_of_modes(modes):
    kernel, oracle = pair(3, 2)
    inner, middle, outer = (JACOBIANS[mode] for mode in modes)
    p = jnp.array([0.3, -1.2, 0.8])
    expected = jax.jacfwd(jax.jacfwd(jax.jacfwd(oracle)))(p)
    close(jax.jit(outer(middle(inner(kernel))))(p), expected)


def test_the_fourth_order_is_exact():
    cosine = qkernel(qubits=1)(lambda qc, t: qc.rx(t, 0) and qml.Z(0))
    fourth = jax.grad(jax.grad(jax.grad(jax.grad(cosine))))
    close(fourth(0.4), np.cos(0.4))


def test_second_derivatives_agree_with_finite_differences():
    check_grads(KERNEL, (P,), order=2, modes=("fwd", "rev"), atol=1e-4, rtol=1e-4)


# --- what it costs


def cost(f, *arguments, backend="reference"):
    """(primitive, rows) of every request of a jitted call, on an engine whose requests are seen."""
    jitted = jax.jit(f)
    with qml.use(backend):
        jax.block_until_ready(jitted(*arguments))  # whatever the compilation may do is not counted
        with recorded() as runs:
            jax.block_until_ready(jitted(*arguments))
    return sorted((run.primitive, run.rows) for run in runs)


WIDE, _ = pair(8, 4)
ANGLES = jnp.linspace(0.1, 2, 8)


def test_a_jacobian_asks_for_each_shifted_row_once():
    """4 outputs and 8 slots: 16 rows, not 16 for every output nor for every tangent."""
    assert cost(WIDE, ANGLES) == [("expval", 1)]
    assert cost(jax.jacrev(WIDE), ANGLES) == [("expval_vjp", 16)]
    assert cost(jax.jacfwd(WIDE), ANGLES) == [("expval_jvp", 16)]
    both = lambda p: (WIDE(p), jax.jacrev(WIDE)(p))
    assert cost(both, ANGLES) == [("expval", 1), ("expval_vjp", 16)]


def test_a_hessian_asks_for_each_pair_of_slots_once():
    """4 rows for each of 28 pairs, 1 for each of 8 slots, and the point itself."""
    rows = 4 * 28 + 8 + 1
    for hessian in (jax.hessian, lambda f: jax.jacrev(jax.jacrev(f))):
        assert cost(hessian(WIDE), ANGLES) == [("expval_hvp", rows)]
    forward = cost(jax.jacfwd(jax.jacfwd(WIDE)), ANGLES)
    assert forward == [("expval_curvature", rows)]


def test_a_batch_of_jacobians_is_one_request():
    batch = jnp.stack([ANGLES, -ANGLES, 2 * ANGLES])
    assert cost(jax.vmap(jax.jacrev(WIDE)), batch) == [("expval_vjp", 48)]
    assert cost(jax.vmap(jax.vmap(WIDE)), batch[None]) == [("expval", 3)]


def test_slots_without_a_tangent_cost_no_row():
    single = lambda x: WIDE(ANGLES.at[3].set(x))
    assert cost(jax.jacfwd(single), 0.3) == [("expval_jvp", 2)]


def test_eager_calls_cost_the_same():
    with qml.use("reference"), recorded() as runs:
        jax.jacrev(WIDE)(ANGLES)
    assert sorted((run.primitive, run.rows) for run in runs) == [("expval", 1), ("expval_vjp", 16)]


@qkernel(qubits=3)
def model(qc, x, w):
    """2 inputs, 10 weights, 3 observables."""
    qc.ry(x[0], 0)
    qc.ry(x[1], 1)
    for i in range(9):
        qc.ry(w[i], i % 3)
        if i % 3 == 2:
            qc.cx(0, 1)
            qc.cx(1, 2)
    qc.rx(w[9], 0)
    return [qml.Z(0), qml.Z(1), qml.X(2)]


@pytest.mark.parametrize("kind", ["aer", "reference"])
def test_a_training_step_is_one_request_forward_and_one_backward(kind):
    xs = jnp.linspace(-1, 1, 16).reshape(8, 2)
    loss = lambda w: (jax.vmap(model, (0, None))(xs, w).sum(axis=1) ** 2).mean()
    w = jnp.linspace(0, 1, 10)
    found = cost(jax.value_and_grad(loss), w, backend=kind)
    with qml.use(kind), recorded() as runs:
        jax.value_and_grad(loss)(w)
    assert found == [("expval", 8), ("expval_vjp", 8 * 2 * 12)]
    assert [(run.primitive, run.rows, run.jobs) for run in runs] == [
        ("expval", 8, 1),
        ("expval_vjp", 8 * 2 * 12, 1),
    ]


@pytest.mark.slow
def test_a_hundred_training_steps_on_aer_transpile_once():
    xs = jnp.linspace(-1, 1, 16).reshape(8, 2)
    loss = lambda w: (jax.vmap(model, (0, None))(xs, w).sum(axis=1) ** 2).mean()
    with qml.use({"kind": "aer", "seed": 49}) as config, recorded() as runs:
        step = jax.jit(jax.value_and_grad(loss))
        w = jnp.linspace(0, 1, 10)
        losses = []
        for _ in range(100):
            value, gradient = step(w)
            losses.append(float(value))
            w = w - 0.05 * gradient
    assert losses[-1] < losses[0]
    assert engine(config).transpilations == 1
    assert [run.primitive for run in runs].count("expval") == 100
    assert [run.primitive for run in runs].count("expval_vjp") == 100
    assert sum(run.jobs for run in runs) == 200


# --- seeds


def test_one_batch_of_keys_draws_independently_and_repeats():
    kernel = qkernel(qubits=1)(lambda qc, t: qc.rx(t, 0) and qml.Z(0))
    draw = lambda keys, t: jax.vmap(lambda key, t: kernel(t, key=key), (0, None))(keys, t)
    keys = jax.random.split(jax.random.key(0), 16)
    with qml.use({"kind": "aer", "shots": 1000}), recorded() as runs:
        first, again = draw(keys, 1.0), draw(keys, 1.0)
        other = draw(jax.random.split(jax.random.key(1), 16), 1.0)
        jitted = jax.jit(draw)(keys, 1.0)
    assert [(run.rows, run.shots) for run in runs] == [(16, 16_000)] * 4
    assert len(set(first.tolist())) > 8
    np.testing.assert_array_equal(first, again)
    np.testing.assert_array_equal(first, jitted)
    assert (first != other).any()


def test_every_key_of_a_batch_matters():
    kernel = qkernel(qubits=1)(lambda qc, t: qc.rx(t, 0) and qml.Z(0))
    keys = jax.random.split(jax.random.key(0), 3)
    draw = lambda keys: jax.vmap(lambda key: kernel(1.0, key=key))(keys)
    with qml.use({"kind": "aer", "shots": 1000}):
        first = draw(keys)
        exchanged = draw(keys[jnp.array([1, 0, 2])])
        last_changed = draw(keys.at[2].set(jax.random.key(9)))
    assert (first != exchanged).any()
    assert (first != last_changed).any()
