"""The TensorFlow operation of a JAX function, by itself."""

import os
import re
import subprocess
import sys
from pathlib import Path

import keras
import numpy as np
import pytest

import qml
from qml.config import resolve
from qml.layers import QuantumLayer
from qml.layers.batch import BatchedKernel

if keras.backend.backend() != "tensorflow":
    pytest.skip("the bridge serves Keras' TensorFlow backend", allow_module_level=True)

import tensorflow as tf

from qml.layers.tensorflow_bridge import HostOperation

ROOT = Path(__file__).resolve().parents[2]


@qml.qkernel(qubits=1)
def shifted_cosine(qc, x, w):
    qc.rx(x[0], 0)
    qc.rx(w, 0)
    return qml.Z(0)


def cosine(x, w):
    """cos(x + w), (B, 1), through the bridge."""
    function = BatchedKernel.of(shifted_cosine, {"w": ()}, 1).on(resolve("reference"))
    (value,) = HostOperation(lambda: function, (2,))(None, [x, w], [x.shape])
    return value


X = tf.constant([[0.1], [0.2]], tf.float64)
W = tf.constant(0.4, tf.float64)


@pytest.mark.parametrize("graph", [False, True])
def test_nested_tapes_differentiate_in_either_mode(graph):
    def mixed(x, w):
        with tf.GradientTape() as outer:
            outer.watch(w)
            with tf.GradientTape() as inner:
                inner.watch(x)
                value = cosine(x, w)
            slope = inner.gradient(value, x)
        return slope, outer.gradient(slope, w)

    unknown = [tf.TensorSpec([None, 1], tf.float64), tf.TensorSpec([], tf.float64)]
    run = tf.function(mixed, input_signature=unknown) if graph else mixed
    slope, second = run(X, W)
    np.testing.assert_allclose(slope, -np.sin(X + W), atol=1e-14)
    np.testing.assert_allclose(second, -np.sum(np.cos(X + W)), atol=1e-14)


@pytest.mark.parametrize("pfor", [True, False])
def test_a_jacobian_is_diagonal_in_the_batch(pfor):
    """CASES 36."""
    with tf.GradientTape(persistent=True) as tape:
        tape.watch(X)
        value = cosine(X, tf.constant(0.0, tf.float64))
    jacobian = tape.jacobian(value, X, experimental_use_pfor=pfor)
    expected = np.diag([-0.099833, -0.198669])
    np.testing.assert_allclose(tf.reshape(jacobian, (2, 2)), expected, atol=1e-6)


def test_forward_mode_is_the_directional_derivative():
    with tf.autodiff.ForwardAccumulator(X, tf.constant([[1.0], [-2.0]], tf.float64)) as forward:
        value = cosine(X, W)
    np.testing.assert_allclose(forward.jvp(value), -np.sin(X + W) * [[1.0], [-2.0]], atol=1e-14)


def test_the_key_has_no_gradient_and_the_arrays_have():
    config = resolve({"kind": "aer", "shots": 400})
    function = BatchedKernel.of(shifted_cosine, {"w": ()}, 1).on(config)
    key = tf.constant([1, 2], tf.int64)
    with tf.GradientTape() as tape:
        tape.watch([key, X])
        (value,) = HostOperation(lambda: function, (2,))(key, [X, W], [X.shape])
    with_respect_to_key, slope = tape.gradient(value, [key, X])
    assert with_respect_to_key is None
    np.testing.assert_allclose(slope, -np.sin(X + W), atol=0.2)


def test_a_function_of_this_process_is_not_saved_to_a_file_that_could_not_run(tmp_path):
    layer = QuantumLayer(shifted_cosine, {"w": ()}, backend="reference")
    module = tf.Module()
    layer.build((None, 1))
    module.kept = [variable.value for variable in layer.variables]
    module.call = tf.function(lambda x: layer(x), input_signature=[tf.TensorSpec([None, 1])])
    with pytest.raises(ValueError) as caught:
        tf.saved_model.save(module, str(tmp_path / "saved"))
    # TensorFlow wraps what its hook raises.
    assert re.search(r"EngineError: .*set_backend\(model, 'xla'\)", str(caught.value.__cause__))
    assert not (tmp_path / "saved" / "saved_model.pb").exists()
    np.testing.assert_allclose(module.call(np.zeros((1, 1), "float32")), layer(np.zeros((1, 1))))


def run_on_one_core(program, **environment):
    start = "import os; os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})\n"
    return subprocess.run(
        [sys.executable, "-c", start + program],
        cwd=ROOT,
        env=os.environ | environment,
        check=True,
        capture_output=True,
        text=True,
        timeout=300,
    ).stdout.split()


DOUBLE_WITHOUT_X64 = """
import jax, jax.numpy as jnp, keras, numpy as np, qml
from qml.config import resolve
from qml.execution import recorded
from qml.layers.batch import BatchedKernel
from qml.layers.tensorflow_bridge import HostOperation
assert not jax.config.jax_enable_x64
keras.config.set_floatx("float64")  # of the arrays that fit and predict are given
@qml.qkernel(qubits=1)
def cosine(qc, x, w):
    qc.rx(x[0] + w, 0)
    return qml.Z(0)
layer = qml.layers.QuantumLayer(cosine, {"w": ()}, initializer="zeros")
model = keras.Sequential([keras.Input((1,)), layer])
model.compile(keras.optimizers.SGD(0.0), "mse")
x = np.random.default_rng(0).normal(size=(400, 1))
with recorded() as runs:
    model.fit(x, x, batch_size=400, verbose=0)
print(*(run.primitive for run in runs))
print(abs(model.predict(x, verbose=0) - np.cos(x)).max() < 1e-14)

# Products that JAX computes on several threads, and a circuit between them.
evaluate = BatchedKernel.of(cosine, {"w": ()}, 1).on(resolve("reference"))
def through_products(key, x, w):
    (once,) = evaluate(None, jnp.sum(x @ x @ x, axis=1, keepdims=True), w)
    return evaluate(None, jnp.sum(x @ (x * once) @ x, axis=1, keepdims=True), w)
x = np.random.default_rng(0).normal(size=(700, 700)) / 700
(found,) = HostOperation(lambda: through_products, (2,))(None, [x, np.array(0.3)], [(700, 1)])
once = np.cos(np.sum(x @ x @ x, axis=1, keepdims=True) + 0.3)
right = np.cos(np.sum(x @ (x * once) @ x, axis=1, keepdims=True) + 0.3)
print(abs(found.numpy() - right).max() < 1e-13)
"""


REQUESTS = {"statevector": [], "reference": ["expval", "expval_vjp"]}
"""Of a training step, as far as they are seen: the default engine is called by compiled code."""


@pytest.mark.slow
@pytest.mark.parametrize("kind", REQUESTS)
def test_a_double_precision_layer_needs_no_setting_of_jax(kind):
    out = run_on_one_core(DOUBLE_WITHOUT_X64, JAX_ENABLE_X64="0", QML_BACKEND=kind)
    assert out == [*REQUESTS[kind], "True", "True"]


MANY_CALLS = """
import keras, numpy as np, qml
@qml.qkernel(qubits=2)
def ansatz(qc, x, w):
    for q in range(2):
        qc.rx(x[q] + w[q], q)
    qc.cx(0, 1)
    return [qml.Z(0), qml.Z(1)]
model = keras.Sequential([
    keras.Input((300,)), keras.layers.Dense(300, "tanh"), keras.layers.Dense(2),
    qml.layers.QuantumLayer(ansatz, {"w": (2,)}), keras.layers.Dense(1),
])
model.compile("sgd", "mse")
x = np.random.default_rng(0).normal(size=(200 * 16, 300))
model.fit(x, x[:, :1], batch_size=16, verbose=0)
print(model.optimizer.iterations.numpy())
"""


@pytest.mark.slow
@pytest.mark.parametrize("kind", REQUESTS)
def test_two_hundred_steps_on_one_core_do_not_stall(kind):
    assert run_on_one_core(MANY_CALLS, QML_BACKEND=kind) == ["200"]
