"""Control flow, batches, orders, pytrees and dtypes, on every engine, against closed forms."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from engines import EXACT, PATHS
from jax.experimental import jet
from jax.test_util import check_grads

import qml
from qml import qkernel
from qml.errors import EngineError
from qml.execution import recorded

close = lambda found, expected: np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-9)


@qkernel(qubits=2)
def kernel(qc, x, w):
    qc.ry(x[0] * w[0], 0)
    qc.cx(0, 1)
    qc.rx(x[1] + w[1], 1)
    return [qml.Z(0), qml.Z(1), qml.Z(0) @ qml.Z(1), qml.X(0) @ qml.X(1)]


def closed_form(x, w):
    a, b = x[0] * w[0], x[1] + w[1]
    return jnp.stack([jnp.cos(a), jnp.cos(a) * jnp.cos(b), jnp.cos(b), jnp.sin(a)])


cosine = qkernel(qubits=1)(lambda qc, t: qc.rx(t, 0) and qml.Z(0))

X, W = jnp.array([0.3, -1.2]), jnp.array([0.8, 0.5])
XS = jnp.linspace(-2, 2, 12).reshape(3, 2, 2)
WS = jnp.linspace(-1, 1, 8).reshape(2, 4)


@pytest.fixture(params=PATHS)
def kind(request):
    """The test runs on an engine without shots; its name."""
    with qml.use(EXACT[request.param]):
        yield request.param


# --- every transformation, on every engine


def descent(f):
    """Two steps of gradient descent: (x, w) -> w, losses."""

    def step(w, _):
        loss, slope = jax.value_and_grad(lambda w: f(X, w).sum())(w)
        return w - 0.1 * slope, loss

    return lambda x, w: jax.lax.scan(step, x * w, None, length=2)


def until_small(f):
    """A loop whose length depends on the values of the kernel."""
    more = lambda w: f(X, w)[0] > 0.5
    return lambda w: jax.lax.while_loop(more, lambda w: w + 0.25 * f(X, w)[:2], w)


def with_a_rule_of_its_own(f):
    """A loss whose backward pass is that of the kernel, clipped."""
    loss = jax.custom_vjp(lambda w: f(X, w).sum())
    forward = lambda w: (f(X, w).sum(), w)
    backward = lambda w, g: (jnp.clip(jax.grad(lambda w: f(X, w).sum())(w), -0.5, 0.5) * g,)
    loss.defvjp(forward, backward)
    return loss


def solved(f):
    """The t at which an output is a, differentiated in a through the implicit function theorem."""
    output = lambda t: f(X.at[1].set(t), W)[2]

    def newton(g, t):
        return jax.lax.fori_loop(0, 6, lambda _, t: t - g(t) / jax.grad(g)(t), t)

    tangent = lambda g, y: y / g(jnp.ones_like(y))
    return lambda a: jax.lax.custom_root(lambda t: output(t) - a, jnp.array(0.9), newton, tangent)


def jacobian_of(f):
    return lambda t: jax.jvp(lambda w: f(X, w), (W,), (t,))[1]


TRANSFORMATIONS = {
    "hessian in both arguments": lambda f: jax.hessian(f, (0, 1)),
    "vmap of vmap": lambda f: (
        lambda x, w: jax.vmap(jax.vmap(f, (0, None)), (0, None))(XS * x[None, None], w)
    ),
    "vmap over axes of either argument": lambda f: (
        lambda x, w: jax.vmap(jax.vmap(f, (None, -1)), (1, None), 2)(
            XS[0] * x[None], WS * w[:, None]
        )
    ),
    "vmap of hessian": lambda f: (
        lambda x, w: jax.vmap(jax.hessian(f, 1), (0, None))(XS[0] * x[None], w)
    ),
    "vmap of vmap of grad": lambda f: (
        lambda x, w: jax.vmap(
            jax.vmap(jax.grad(lambda x, w: f(x, w).sum(), 1), (1, None), 1), (0, None)
        )(XS * x[None, None], w)
    ),
    "grad of vmap of jacobian": lambda f: jax.grad(
        lambda x, w: (jax.vmap(jax.jacrev(f), (0, None))(XS[0] * x[None], w) ** 2).sum(), 1
    ),
    "scan": descent,
    "grad through scan": lambda f: jax.grad(lambda x, w: descent(f)(x, w)[1].sum(), 1),
    "while_loop": lambda f: lambda x, w: until_small(f)(x * w),
    "jvp through while_loop": lambda f: (
        lambda x, w: jax.jvp(until_small(f), (x * w,), (jnp.ones_like(w),))
    ),
    "vmap of while_loop": lambda f: lambda x, w: jax.vmap(until_small(f))(XS[0] * x[None]),
    "fori_loop": lambda f: jax.grad(
        lambda x, w: jax.lax.fori_loop(0, 3, lambda _, w: f(x, w)[:2], w).sum(), 1
    ),
    "cond": lambda f: jax.grad(
        lambda x, w: jax.lax.cond(x[0] > 0, f, lambda x, w: 2 * f(w, x), x, w).sum(), (0, 1)
    ),
    "vmap of cond": lambda f: (
        lambda x, w: jax.vmap(lambda y: jax.lax.cond(y[0] > 0, f, lambda x, w: 2 * f(w, x), y, w))(
            XS[0] * x[None]
        )
    ),
    "checkpoint": lambda f: jax.hessian(jax.checkpoint(lambda x, w: jnp.sin(f(x, w)).sum()), 1),
    "checkpoint that saves nothing": lambda f: jax.grad(
        jax.checkpoint(
            lambda x, w: jnp.sin(f(x, f(x, w)[:2])).sum(),
            policy=jax.checkpoint_policies.nothing_saveable,
        ),
        (0, 1),
    ),
    "custom_vjp": lambda f: lambda x, w: jax.value_and_grad(with_a_rule_of_its_own(f))(4 * x * w),
    "custom_root": lambda f: lambda x, w: jax.value_and_grad(solved(f))(w[1]),
    "linearize": lambda f: lambda x, w: jax.linearize(f, x, w)[1](w, x),
    "linear_transpose": lambda f: (
        lambda x, w: jax.linear_transpose(jacobian_of(f), w)(jnp.arange(4.0))
    ),
    "transpose of the transpose": lambda f: (
        lambda x, w: jax.linear_transpose(
            lambda c: jax.linear_transpose(jacobian_of(f), w)(c)[0], jnp.zeros(4)
        )(x)
    ),
}


@pytest.mark.parametrize("name", TRANSFORMATIONS)
def test_a_transformation_gives_what_it_gives_of_the_closed_form(name, kind):
    transform = TRANSFORMATIONS[name]
    expected = jax.jit(transform(closed_form))(X, W)
    jax.tree.map(close, jax.jit(transform(kernel))(X, W), expected)


def test_compiled_ahead_of_time_it_is_the_same_function(kind):
    step = jax.value_and_grad(lambda x, w: (kernel(x, w) ** 2).sum(), (0, 1))
    compiled = jax.jit(step).lower(X, W).compile()
    expected = jax.value_and_grad(lambda x, w: (closed_form(x, w) ** 2).sum(), (0, 1))
    for scale in (1, -2):
        jax.tree.map(close, compiled(scale * X, W), expected(scale * X, W))
    shapes = jax.eval_shape(step, X, W)
    assert jax.tree.map(lambda s: (s.shape, s.dtype), shapes) == jax.tree.map(
        lambda found: (found.shape, found.dtype), compiled(X, W)
    )


# --- noise and shots

NOISY = {"kind": "aer", "noise": "FakeManilaV2"}
SHOTS = 100_000
SAMPLED = {
    "values": lambda f: f,
    "jacfwd": lambda f: jax.jacfwd(f),
    "jacrev": lambda f: jax.jacrev(f),
    "hessian": lambda f: jax.hessian(f),
    "vmap of jacrev": lambda f: lambda p: jax.vmap(jax.jacrev(f))(jnp.stack([p, 2 * p])),
    "linearize": lambda f: lambda p: jax.linearize(f, p)[1](jnp.array([1.0, 0.0])),
    "checkpoint": lambda f: jax.jacrev(jax.checkpoint(f)),
    "map": lambda f: lambda p: jax.lax.map(f, jnp.stack([p, 2 * p])),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", SAMPLED)
def test_a_noisy_device_with_shots_scatters_around_itself_without(name):
    """No entry of any of these has a standard deviation above 1 / sqrt(shots)."""
    rotations = qkernel(qubits=2)(
        lambda qc, p: [qc.ry(p[0], 0), qc.cx(0, 1), qc.rx(p[1], 1)] and [qml.Z(0), qml.Z(1)]
    )
    p = jnp.array([0.4, 1.1])
    transform = SAMPLED[name]
    expected = transform(lambda p: rotations(p, backend=NOISY))(p)
    backend = {**NOISY, "shots": SHOTS}
    draw = jax.jit(lambda p, key: transform(lambda p: rotations(p, key=key, backend=backend))(p))
    first, again, other = (draw(p, jax.random.key(seed)) for seed in (0, 0, 1))
    np.testing.assert_allclose(first, expected, rtol=0, atol=5 / np.sqrt(SHOTS))
    np.testing.assert_array_equal(first, again)
    assert (first != other).any() and (first != expected).any()


def test_a_scan_over_keys_draws_what_calls_with_these_keys_draw():
    keys = jax.random.split(jax.random.key(0), 4)
    draw = lambda key: jax.value_and_grad(lambda t: cosine(t, key=key))(1.0)
    with qml.use({"kind": "aer", "shots": 1000}):
        one_by_one = [draw(key) for key in keys]
        _, scanned = jax.lax.scan(lambda _, key: (None, draw(key)), None, keys)
    np.testing.assert_array_equal(np.transpose(one_by_one), scanned)
    assert len(set(scanned[0].tolist())) > 1 and len(set(scanned[1].tolist())) > 1


# --- any order


@pytest.mark.slow
@pytest.mark.parametrize("derivative", [jax.grad, jax.jacfwd], ids=["reverse", "forward"])
@pytest.mark.parametrize("engine", [kind for kind in PATHS if kind != "xla"])  # that in test_xla
def test_six_derivatives_of_a_rotation_are_those_of_the_cosine(engine, derivative):
    function = lambda t: cosine(t, backend=EXACT[engine])
    for k in range(1, 7):
        function = derivative(function)
        for value in (function(0.3), jax.jit(function)(0.3)):
            np.testing.assert_allclose(value, np.cos(0.3 + k * np.pi / 2), rtol=0, atol=1e-8)


@pytest.mark.full  # each order about doubles the time to compile: 30 s and 60 s
@pytest.mark.parametrize("k", [5, 6])
def test_the_highest_derivatives_in_reverse_of_what_jax_differentiates(k):
    """Up to the fourth: tests/simulators/test_xla.py."""
    function = lambda t: cosine(t, backend="xla")
    for _ in range(k):
        function = jax.grad(function)
    expected = np.cos(0.3 + k * np.pi / 2)
    np.testing.assert_allclose(jax.jit(function)(0.3), expected, rtol=0, atol=1e-8)


PAULIS = "xyz"


def random_kernel(seed):
    """Three rotations about one or two qubits between random entanglers, and two observables."""
    rng = np.random.default_rng(seed)
    ends = [[int(q) for q in rng.permutation(3)[:2]] for _ in range(6)]
    rotations = [("r" + c, "r" + 2 * c)[int(rng.integers(2))] for c in rng.choice(list(PAULIS), 3)]
    rotations = ["rzx" if name == "ryy" else name for name in rotations]
    entanglers = rng.choice(["cx", "cz", "iswap", "ecr"], 3)
    labels = ["".join(rng.choice(list("XYZ"), 3)) for _ in range(2)]

    @qkernel(qubits=3)
    def random(qc, p):
        qc.h([0, 1, 2])
        qc.t([0, 1])
        for angle, name, entangler, (a, b), (c, d) in zip(
            p, rotations, entanglers, ends[:3], ends[3:], strict=True
        ):
            getattr(qc, entangler)(c, d)
            qc.s(a)
            getattr(qc, name)(angle, *([a, b] if len(name) > 2 else [a]))
            qc.h(b)
        return labels

    return random


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(
    "engine",
    # 0.5 to 2 minutes to compile there
    [*(kind for kind in PATHS if kind != "xla"), pytest.param("xla", marks=pytest.mark.full)],
)
def test_three_orders_agree_with_differences_of_the_order_below(engine, seed):
    p = jnp.asarray(np.random.default_rng(seed).uniform(-3, 3, 3))
    random = random_kernel(seed)
    function = jax.jit(lambda p: random(p, backend=EXACT[engine]))
    check_grads(function, (p,), order=3, modes=("fwd", "rev"))


# --- batches of none and of one


@pytest.mark.parametrize("shape", [(0,), (3, 0), (1, 1)], ids=str)
@pytest.mark.parametrize("jit", [lambda f: f, jax.jit], ids=["eager", "jit"])
@pytest.mark.parametrize("engine", PATHS)
def test_a_batch_of_none_asks_nothing_and_one_of_one_keeps_its_axis(shape, jit, engine):
    xs = jnp.broadcast_to(X, (*shape, 2))
    derivatives = [lambda f: f, lambda f: jax.jacrev(f, 1), lambda f: jax.jacfwd(f)]
    derivatives += [lambda f: jax.hessian(f, 1)] if jit is jax.jit else []
    for derivative in derivatives:
        single = jax.jit(derivative(closed_form))(X, W)
        f = derivative(lambda x, w: kernel(x, w, backend=EXACT[engine]))
        for _ in shape:
            f = jax.vmap(f, (0, None))
        with recorded() as runs:
            found = jax.block_until_ready(jit(f)(xs, W))
        close(found, jnp.broadcast_to(single, (*shape, *single.shape)))
        assert found.dtype == single.dtype
        assert runs == [] or 0 not in shape


@pytest.mark.parametrize("size", [0, 1])
@pytest.mark.parametrize("engine", PATHS)
def test_weights_have_a_gradient_from_a_batch_of_none_and_of_one(engine, size):
    xs = X[None][:size]
    slope = lambda f: jax.grad(lambda w: jax.vmap(f, (0, None))(xs, w).sum())
    found = slope(lambda x, w: kernel(x, w, backend=EXACT[engine]))
    close(jax.jit(found)(W), slope(closed_form)(W))
    close(found(W), slope(closed_form)(W))


# --- pytrees


class Weights(NamedTuple):
    first: list
    rest: dict


@qkernel(qubits=3)
def of_a_tree(qc, x, weights):
    qc.ry(x["a"] + weights.first[0], 0)
    for angle in weights.first[1]:
        qc.ry(angle, 1)
    for q, row in enumerate(weights.rest["layers"]):
        qc.ry(row[0] * row[1], q)
    return [qml.Z(q) for q in range(3)]


def of_a_tree_in_closed_form(x, weights):
    sums = [x["a"] + weights.first[0], weights.first[1].sum(), jnp.zeros(())]
    products = [row[0] * row[1] for row in weights.rest["layers"]]
    return jnp.cos(jnp.stack([a + b for a, b in zip(sums, products, strict=True)]))


TREE = (
    {"a": jnp.array(0.3)},
    Weights(
        [jnp.array(0.4), jnp.array([0.2, 0.5])],
        {"layers": [jnp.array([0.1, 2.0]), jnp.array([-0.7, 1.5]), jnp.array([0.9, 0.3])]},
    ),
)
OF_TREES = {
    "nothing": lambda f: f,
    "grad": lambda f: jax.grad(lambda x, w: f(x, w).sum(), (0, 1)),
    "jacrev under jit": lambda f: jax.jit(jax.jacrev(f, 1)),
    "hessian": lambda f: jax.hessian(lambda x, w: f(x, w).sum(), 1),
    "vmap of a leaf alone": lambda f: (
        lambda x, w: jax.vmap(f, ({"a": 0}, Weights([None, None], {"layers": 3 * [None]})))(
            {"a": jnp.stack([x["a"], -x["a"]])}, w
        )
    ),
}


@pytest.mark.parametrize("name", OF_TREES)
def test_trees_of_arrays_go_in_and_derivatives_are_trees_alike(name, kind):
    transform = OF_TREES[name]
    found, expected = transform(of_a_tree)(*TREE), transform(of_a_tree_in_closed_form)(*TREE)
    assert jax.tree.structure(found) == jax.tree.structure(expected)
    jax.tree.map(close, found, expected)


# --- dtypes


def test_a_weakly_typed_number_takes_the_precision_of_the_others(kind):
    single = X.astype(jnp.float32)
    for w in ([0.8, 0.5], [jnp.asarray(0.8), 0.5]):
        weak = [jnp.asarray(value) for value in w]
        assert all(value.weak_type for value in weak)
        f = qkernel(qubits=1)(lambda qc, x, w: qc.rx(x[0] + w[0], 0) and qml.Z(0))
        assert f(single, w).dtype == jax.jit(f)(single, weak).dtype == jnp.float32
        assert f(X, w).dtype == jax.grad(f)(X, weak).dtype == jnp.float64
    found = jax.lax.fori_loop(0, 3, lambda _, t: cosine(t), 0.3)
    close(found, np.cos(np.cos(np.cos(0.3))))


def test_double_precision_may_be_switched_off_and_on_again(kind):
    step = jax.jit(jax.value_and_grad(cosine))
    expected = np.cos(0.3), -np.sin(0.3)
    for double in (True, False, True, False):
        with jax.enable_x64(double):
            for found in (step(0.3), jax.value_and_grad(cosine)(0.3)):
                assert {x.dtype for x in found} == {np.dtype("float64" if double else "float32")}
                np.testing.assert_allclose(found, expected, atol=1e-12 if double else 1e-6)


@pytest.mark.parametrize("engine", PATHS)
def test_taylor_mode_is_refused_with_what_to_do(engine):
    with pytest.raises(EngineError, match=r"jax.experimental.jet.*Nest jax.jvp"):
        jet.jet(lambda t: cosine(t, backend=EXACT[engine]), (0.3,), ((1.0, 0.0),))
