"""Where the randomness of shots comes from: a key, or a root seed and a counter."""

import functools
import os
import subprocess
import sys
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import qml
from qml import qkernel
from qml.errors import ArgumentError, SeedError
from qml.kinds import KINDS
from qml.seeds import request_seed

SHOTS = {"kind": "aer", "shots": 500}
SPSA = {"kind": "reference", "gradient": "spsa"}


@qkernel(qubits=2)
def kernel(qc, x):
    qc.rx(x[0], 0)
    qc.ry(x[1], 1)
    qc.cx(0, 1)
    return [qml.Z(0), qml.X(1)]


X = jnp.array([0.5, 0.8])


def test_shots_under_jit_need_a_key():
    staged = [
        jax.jit(kernel),
        jax.jit(jax.jacrev(kernel)),
        jax.jacrev(jax.jit(kernel)),
        lambda x: jax.jit(jax.vmap(kernel))(x[None]),
        lambda x: jax.lax.map(kernel, x[None]),
    ]
    eager = [kernel, jax.jacrev(kernel), jax.hessian(kernel), lambda x: jax.vmap(kernel)(x[None])]
    with qml.use(SHOTS):
        for call in staged:
            with pytest.raises(
                SeedError, match="'aer' backend draws.*under jit a kernel needs key="
            ):
                call(X)
        for call in (*eager, jax.jit(functools.partial(kernel, key=0))):
            assert np.isfinite(call(X)).all()


def test_an_exact_backend_needs_no_key():
    np.testing.assert_array_equal(jax.jit(kernel)(X), jax.jit(kernel)(X, key=jax.random.key(0)))


@pytest.mark.parametrize("make", [jax.random.key, jax.random.PRNGKey, int, np.int64, np.uint32])
def test_the_same_key_repeats_and_another_differs(make):
    with qml.use(SHOTS):
        np.testing.assert_array_equal(kernel(X, key=make(1)), kernel(X, key=make(1)))
        assert (kernel(X, key=make(1)) != kernel(X, key=make(2))).any()


def test_a_key_draws_under_jit_what_it_draws_outside():
    jitted = jax.jit(lambda x, key: kernel(x, key=key))
    with qml.use(SHOTS):
        for key in (jax.random.key(1), jax.random.key(2)):
            np.testing.assert_array_equal(jitted(X, key), kernel(X, key=key))


def test_an_integer_key_may_be_an_argument_of_jit():
    jitted = jax.jit(lambda x, key: kernel(x, key=key))
    with qml.use(SHOTS):
        np.testing.assert_array_equal(jitted(X, 1), jitted(X, 1))
        assert (jitted(X, 1) != jitted(X, 2)).any()


def test_calls_without_a_key_differ():
    with qml.use(SHOTS):
        values = {tuple(kernel(X).tolist()) for _ in range(10)}
        gradients = {tuple(jax.jacrev(kernel)(X).ravel().tolist()) for _ in range(5)}
    assert len(values) >= 8 and len(gradients) == 5


@pytest.mark.parametrize("wrong", ["abc", 1.5, [1, 2, 3], jnp.float32(3)])
def test_a_key_of_another_kind_is_refused(wrong):
    with (
        qml.use(SHOTS),
        pytest.raises(ArgumentError, match=r"jax\.random\.key\(0\), or an integer"),
    ):
        kernel(X, key=wrong)


def test_a_value_and_its_gradient_at_one_key_have_different_noise():
    """cos and sin of the same angles: sharing noise would correlate f(a) and f'(a - pi/2)."""
    cosine = qkernel(qubits=1)(lambda qc, t: qc.rx(t, 0) and qml.Z(0))
    with qml.use(SHOTS):
        noise = [
            (
                float(cosine(0.7, key=i)) - np.cos(0.7),
                float(jax.grad(lambda t, i=i: cosine(t, key=i))(0.7)) + np.sin(0.7),
            )
            for i in range(200)
        ]
    assert abs(np.corrcoef(np.array(noise).T)[0, 1]) < 4 / np.sqrt(200)


def test_plus_and_minus_shift_have_different_noise():
    """At t = 0 both shifts have <Z> = 0; noise they share would cancel."""
    cosine = qkernel(qubits=1)(lambda qc, t: qc.rx(t, 0) and qml.Z(0))
    with qml.use(SHOTS):
        gradients = np.array([jax.grad(cosine)(0.0) for _ in range(100)])
    expected = 1 / np.sqrt(2 * 500)  # the mean of two independent samples of 500 shots
    np.testing.assert_allclose(gradients.std(), expected, rtol=4 / np.sqrt(200))


def test_two_backends_do_not_share_their_noise():
    """Comparing them would show the noise of one twice."""
    draws = []
    for threads in (1, 2):
        with qml.use({**SHOTS, "threads": threads}):
            draws.append([kernel(X).tolist() for _ in range(3)])
    assert draws[0] != draws[1]


def test_an_integer_key_may_be_an_argument_of_a_compiled_function():
    drawn = jax.jit(lambda key: kernel(X, key=key))
    with qml.use(SHOTS):
        assert drawn(3).tolist() == drawn(3).tolist() != drawn(4).tolist()


# --- a gradient that draws, on an engine that does not


@pytest.mark.parametrize("kind", ["aer", "reference", "statevector"])
def test_spsa_draws_on_an_exact_engine_too(kind):
    """Another slot is drawn by every call, and values stay exact."""
    with qml.use({"kind": kind, "gradient": "spsa"}):
        values = {tuple(kernel(X).tolist()) for _ in range(5)}
        gradients = [jax.jacrev(kernel)(X) for _ in range(20)]
        assert qml.last_run().shots == 0
    assert len(values) == 1
    # In each row K = 2 times the derivative by the one angle that was drawn, or zero.
    exact = jax.jacrev(kernel)(X)
    for found in gradients:
        twice = np.isclose(found, 2 * exact, atol=1e-6)
        assert (twice | np.isclose(found, 0, atol=1e-6)).all()
    assert len({np.round(found, 5).tobytes() for found in gradients}) > 1


def test_spsa_under_jit_needs_a_key_which_decides_what_is_drawn():
    jitted = jax.jit(lambda x, key: jax.jacrev(kernel)(x, key=key))
    with qml.use(SPSA):
        with pytest.raises(SeedError, match="'reference' backend draws.*under jit a kernel needs"):
            jax.jit(jax.jacrev(kernel))(X)
        drawn = [jitted(X, jax.random.key(i)) for i in range(20)]
        for i, found in enumerate(drawn):
            np.testing.assert_array_equal(jitted(X, jax.random.key(i)), found)
            np.testing.assert_array_equal(jax.jacrev(kernel)(X, key=jax.random.key(i)), found)
    assert len({np.round(found, 5).tobytes() for found in drawn}) > 1


@pytest.mark.parametrize(
    ("kind", "keys"),
    [
        *((kind, {}) for kind in ("aer", "reference", "statevector", "xla")),
        *((kind, {"gradient": "spsa"}) for kind in ("aer", "reference", "statevector")),
        ("aer", {"shots": 5}),
    ],
)
def test_a_seed_is_drawn_where_something_is(kind, keys):
    config = KINDS[kind](**keys)
    seeds = [int(request_seed(config)) for _ in range(4)]
    by_key = [int(request_seed(config, key=i)) for i in range(4)]
    if keys:
        assert len(set(seeds)) == len(set(by_key)) == 4 and 0 not in seeds
        assert by_key == [int(request_seed(config, key=i)) for i in range(4)]
    else:
        assert seeds == by_key == [0] * 4


def test_the_root_seed_of_a_backend_decides_what_is_drawn():
    """Also in another process: a counter begins at 0 with each configuration."""
    script = (
        "from qml.kinds import AerConfig; from qml.seeds import request_seed\n"
        "for seed in (11, 12):\n"
        "    print(*[request_seed(AerConfig(shots=7, seed=seed)) for _ in range(3)])"
    )
    root = str(Path(qml.__file__).parents[1])
    printed = subprocess.run(
        [sys.executable, "-c", script],
        env={**os.environ, "PYTHONPATH": root},
        capture_output=True,
        text=True,
        check=True,
    ).stdout.splitlines()
    here = [
        " ".join(str(request_seed(KINDS["aer"](shots=7, seed=seed))) for _ in range(3))
        for seed in (11, 12)
    ]
    assert printed == here and here[0] != here[1]


def test_samples_with_keys_of_their_own_share_a_seed_that_all_keys_and_their_order_make():
    """A batch of none too."""

    @qml.qkernel(qubits=1)
    def kernel(qc, x):
        qc.rx(x, 0)
        return qml.Z(0)

    sampled = jax.vmap(lambda x, key: kernel(x, key=key, backend={"kind": "aer", "shots": 1000}))
    keys, x = jax.random.split(jax.random.key(0), 4), jnp.full(4, 1.2)
    once, again = sampled(x, keys), sampled(x, keys)
    np.testing.assert_array_equal(once, again)
    for other in (keys[::-1], keys.at[2].set(jax.random.key(9)), keys[jnp.zeros(4, int)]):
        assert (sampled(x, other) != once).any()
    assert len(set(sampled(x, keys[jnp.zeros(4, int)]).tolist())) > 1
    assert sampled(x[:0], keys[:0]).shape == (0,)
    assert jax.jit(jax.vmap(jax.grad(lambda x, key: sampled(x[None], key[None])[0])))(
        x[:0], keys[:0]
    ).shape == (0,)
