"""Without x64, as JAX comes: float32 all the way, and as exact as float32 can be."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from engines import EXACT

import qml
from qml import qkernel


@pytest.fixture(autouse=True, params=EXACT)
def backend(request):
    assert not jax.config.jax_enable_x64, "this folder runs in a process with QML_TEST_X64=0"
    with qml.use(EXACT[request.param]):
        yield


@qkernel(qubits=3)
def kernel(qc, x, w):
    qc.ry(x[0] * x[1], 0)
    qc.crx(x[1], 0, 1)
    qc.rxx(w[0], 1, 2)
    qc.ry(2 * w[1] - x[0], 2)
    qc.cx(2, 0)
    return [qml.Z(0) + 0.5 * qml.X(1), qml.Y(2), qml.probs(0, 2)]


X = np.array([0.3, 1.2])
W = np.array([-0.7, 0.4])


def in_double(f, *arguments):
    """The same in float64; the configuration is changed for this call only."""
    with jax.enable_x64(True):
        return jax.tree.map(np.asarray, jax.jit(f)(*(jnp.asarray(a, float) for a in arguments)))


DERIVATIVES = {
    "value": lambda f: f,
    "jacrev": lambda f: jax.jacrev(f, (0, 1)),
    "jacfwd": lambda f: jax.jacfwd(f, (0, 1)),
    "hessian": lambda f: jax.hessian(f, (0, 1)),
    "third": lambda f: jax.jacfwd(jax.hessian(lambda x, w: f(x, w)[:1]), 1),
}


@pytest.mark.parametrize("name", DERIVATIVES)
def test_single_precision_is_within_1e_5_of_double(name):
    derive = DERIVATIVES[name]
    found = jax.jit(derive(kernel))(jnp.asarray(X), jnp.asarray(W))
    for single, double in zip(
        jax.tree.leaves(found), jax.tree.leaves(in_double(derive(kernel), X, W)), strict=True
    ):
        assert single.dtype == np.float32 and double.dtype == np.float64
        np.testing.assert_allclose(single, double, rtol=0, atol=1e-5)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "int32"])
def test_no_array_is_wider_than_float32(dtype):
    x, w = jnp.ones(2, dtype), jnp.ones(2, dtype)
    for call in (kernel, jax.jit(kernel), lambda x, w: jax.vmap(kernel, (0, None))(x[None], w)):
        assert call(x, w).dtype == np.float32
    if dtype != "int32":
        assert jax.jacrev(kernel)(x, w).dtype == dtype


def test_double_arrays_of_numpy_and_python_numbers_are_single_here():
    assert kernel(X, W).dtype == np.float32
    assert kernel([0.3, 1.2], [-0.7, 0.4]).dtype == np.float32


def test_large_angles_lose_only_their_own_rounding():
    """An angle of 1000 is known to 6e-5 in float32; the shift must not add to that."""
    cosine = qkernel(qubits=1)(lambda qc, t: qc.rx(t, 0) and qml.Z(0))
    t = np.float32(1000.1)
    np.testing.assert_allclose(cosine(t), np.cos(float(t)), atol=1e-6)
    np.testing.assert_allclose(jax.grad(cosine)(t), -np.sin(float(t)), atol=1e-6)
    np.testing.assert_allclose(jax.grad(jax.grad(cosine))(t), -np.cos(float(t)), atol=1e-6)
    third = jax.grad(jax.grad(jax.grad(cosine)))(t)
    np.testing.assert_allclose(third, np.sin(float(t)), atol=1e-6)


def test_training_converges_as_in_double():
    loss = lambda w, x: ((kernel(x, w)[:2] - jnp.asarray([0.5, -0.5], x.dtype)) ** 2).sum()

    def trained(w, x):
        step = lambda w, _: (w - 0.3 * jax.grad(loss)(w, x), loss(w, x))
        return jax.lax.scan(step, w, None, length=20)

    w, losses = jax.jit(trained)(jnp.asarray(W), jnp.asarray(X))
    expected, expected_losses = in_double(trained, W, X)
    assert losses.dtype == np.float32 and losses[-1] < losses[0]
    np.testing.assert_allclose(w, expected, atol=1e-4)
    np.testing.assert_allclose(losses, expected_losses, atol=1e-5)
