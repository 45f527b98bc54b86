"""Training: through the layer, before it, and on its own derivatives; and what that costs."""

import keras
import numpy as np
import pytest

import qml
from qml.execution import recorded
from qml.layers import QuantumLayer

BACKEND = keras.backend.backend()
to_numpy = keras.ops.convert_to_numpy
RNG = np.random.default_rng(5)


@qml.qkernel(qubits=1)
def shifted_cosine(qc, x, w):
    """cos(x + w)"""
    qc.rx(x[0], 0)
    qc.rx(w, 0)
    return qml.Z(0)


@qml.qkernel(qubits=1)
def cosine(qc, x):
    qc.rx(x[0], 0)
    return qml.Z(0)


def loss_curve_by_hand(x, y, a, b, w, c, d, steps, rate):
    """Gradient descent on the mean of (c cos(a x + b + w) + d - y)^2, in NumPy."""
    losses = []
    for _ in range(steps):
        phase = a * x + b + w
        error = c * np.cos(phase) + d - y
        losses.append(np.mean(error**2))
        inner = -2 * error * c * np.sin(phase)
        da, db = np.mean(inner * x), np.mean(inner)
        dc, dd = np.mean(2 * error * np.cos(phase)), np.mean(2 * error)
        a, b, w, c, d = a - rate * da, b - rate * db, w - rate * db, c - rate * dc, d - rate * dd
    return losses


COMPILE = [{}, {"run_eagerly": True}]
if BACKEND == "jax":
    COMPILE.append({"jit_compile": True})


@pytest.mark.parametrize("compile_with", COMPILE, ids=str)
def test_the_loss_curve_is_that_of_the_formula(compile_with):
    """CASES 42 (the same curve on every Keras backend) and 48 (the layer before it trains)."""
    x, y = RNG.normal(size=(2, 16, 1))
    start = 0.7, -0.2, 0.4, 1.3, 0.1
    model = keras.Sequential(
        [
            keras.Input((1,)),
            keras.layers.Dense(1, dtype="float64"),
            QuantumLayer(shifted_cosine, {"w": ()}, dtype="float64"),
            keras.layers.Dense(1, dtype="float64"),
        ]
    )
    model.set_weights([np.reshape(v, s.shape) for v, s in zip(start, model.weights, strict=True)])
    loss = keras.losses.MeanSquaredError(dtype="float64")
    model.compile(keras.optimizers.SGD(0.1), loss, **compile_with)
    history = model.fit(x, y, batch_size=16, epochs=8, verbose=0).history["loss"]
    expected = loss_curve_by_hand(x, y, *start, steps=8, rate=0.1)
    assert expected[-1] < 0.9 * expected[0]
    np.testing.assert_allclose(history, expected, atol=1e-6)
    assert not np.isclose(np.asarray(model.weights[0]), start[0], atol=1e-3)


class Subclassed(keras.Model):
    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.front = keras.layers.Dense(1)
        self.quantum = QuantumLayer(shifted_cosine, {"w": ()})

    def call(self, x):
        return self.quantum(self.front(x))


def functional():
    inputs = keras.Input((1,))
    return keras.Model(
        inputs, QuantumLayer(shifted_cosine, {"w": ()})(keras.layers.Dense(1)(inputs))
    )


@pytest.mark.parametrize("make", [Subclassed, functional])
def test_functional_and_subclassed_models_train_every_weight(make):
    model = make()
    x = RNG.normal(size=(20, 1))
    model.compile("sgd", "mse")
    model.predict(x, verbose=0)
    before = model.get_weights()
    model.fit(x, np.ones((20, 1)), batch_size=8, verbose=0)
    assert np.isfinite(model.evaluate(x, np.ones((20, 1)), verbose=0))
    assert len(before) == 3
    assert all(np.all(a != b) for a, b in zip(before, model.get_weights(), strict=True))


# Derivatives of the model.


def test_the_second_derivative_after_a_classical_layer_is_complete(gradient):
    """CASES 12: with the circuit's Jacobian detached it would be +0.620383."""
    dense = keras.layers.Dense(1, "tanh", dtype="float64")
    dense.build((None, 1))
    dense.set_weights([np.array([[1.7]]), np.array([0.2])])
    model = keras.Sequential([dense, QuantumLayer(cosine, {}, dtype="float64")])
    x = np.array([[0.1]])
    f = lambda x: keras.ops.sum(model(x))
    f1 = gradient(f)
    f2 = gradient(lambda x: keras.ops.sum(f1(x)))
    np.testing.assert_allclose(to_numpy(f2(x)), [[-1.453610]], atol=1e-6)


def test_every_order_is_exact_and_the_special_angle_zero_too(gradient):
    """CASES 14; the orders of cos are known."""
    layer = QuantumLayer(cosine, {}, dtype="float64")
    f = lambda x: keras.ops.sum(layer(x))
    for x in (np.array([[0.0]]), np.array([[0.3], [1.1]])):
        derivative = f
        for expected in (-np.sin(x), -np.cos(x), np.sin(x)):
            slope = gradient(derivative)
            np.testing.assert_allclose(to_numpy(slope(x)), expected, atol=1e-12)
            derivative = lambda x, slope=slope: keras.ops.sum(slope(x))


def test_the_derivative_of_a_force_reaches_the_weights(gradient, weight_gradient):
    """CASES 13: d2E/dx dw = -cos(x + w)."""
    layer = QuantumLayer(shifted_cosine, {"w": ()}, dtype="float64")
    x = np.array([[0.3]])
    layer.build(x.shape)
    layer.set_weights([np.array(0.4)])
    slope = gradient(lambda x: keras.ops.sum(layer(x)))
    (mixed,) = weight_gradient(layer, lambda: keras.ops.sum(slope(x)))
    np.testing.assert_allclose(mixed, -0.764842, atol=1e-6)
    (loss,) = weight_gradient(layer, lambda: keras.ops.sum((-slope(x) - 0.2) ** 2))
    np.testing.assert_allclose(loss, 2 * (np.sin(0.7) - 0.2) * np.cos(0.7), atol=1e-12)


def force_model(gradient, backend=None):
    class Force(keras.Model):
        """-dE/dx of a hybrid energy."""

        def __init__(self, **kwargs):
            super().__init__(**kwargs)
            start = keras.initializers.Constant(0.2)
            self.energy = QuantumLayer(
                shifted_cosine, {"w": ()}, initializer=start, backend=backend
            )

        def build(self, shape):
            self.energy.build(shape)

        def call(self, x):
            return -gradient(lambda x: keras.ops.sum(self.energy(x)))(x)

    return Force()


def test_a_model_of_forces_is_fitted(gradient):
    model = force_model(gradient)
    model.compile(keras.optimizers.SGD(0.5), "mse")
    x = np.linspace(-1, 1, 16)[:, None]
    model.fit(x, np.sin(x + 0.9), batch_size=16, epochs=40, verbose=0)
    np.testing.assert_allclose(model.get_weights()[0], 0.9, atol=1e-3)


# Counts.


@qml.qkernel(qubits=3)
def ten_weights(qc, x, theta):
    for q in range(3):
        qc.rx(x[q], q)
    for i in range(10):
        qc.ry(theta[i], i % 3)
        qc.cx(i % 3, (i + 1) % 3)
    return [qml.Z(q) for q in range(3)]


def test_a_training_step_is_one_request_forward_and_one_backward():
    """CASES 49: batch 8, 10 weights, 3 observables; 13 slots of 2 shifts each."""
    layer = QuantumLayer(ten_weights, {"theta": (10,)}, backend="aer")
    model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(3), layer])
    model.compile("sgd", "mse")
    x, y = RNG.normal(size=(2, 8, 3))
    with recorded() as runs:
        model.train_on_batch(x, y)
    found = [(run.primitive, run.kind, run.rows, run.jobs) for run in runs]
    assert found == [("expval", "aer", 8, 1), ("expval_vjp", "aer", 8 * 13 * 2, 1)]


def test_a_force_step_is_one_request_per_order(gradient):
    """The loss is on dE/dx alone: E itself is not evaluated."""
    model = force_model(gradient, backend="reference")
    model.compile("sgd", "mse")
    x = RNG.normal(size=(8, 1))
    model.predict(x, verbose=0)
    with recorded() as runs:
        model.train_on_batch(x, x)
    found = sorted(run.primitive for run in runs)
    # PyTorch computes as it goes, and cannot know that E itself will not be wanted.
    energy = ["expval"] if BACKEND == "torch" else []
    assert found == [*energy, "expval_hvp", "expval_vjp"]


def test_nothing_is_traced_again_for_a_batch_that_is_smaller():
    """CASES 43: 20 samples in batches of 8 end with 4."""
    traces, calls = [], []

    @qml.qkernel(qubits=1)
    def counted(qc, x, w):
        traces.append(1)
        qc.rx(x[0] + w, 0)
        return qml.Z(0)

    class Counted(QuantumLayer):
        def call(self, inputs):
            calls.append(inputs.shape)
            return super().call(inputs)

    model = keras.Sequential([keras.Input((1,)), Counted(counted, {"w": ()})])
    model.compile("sgd", "mse")
    x = RNG.normal(size=(20, 1))
    model.fit(x, x, batch_size=8, verbose=0)
    first = len(calls)
    model.fit(x, x, batch_size=8, epochs=3, verbose=0)
    if BACKEND == "torch":  # it has no graphs: the layer is called once a step, and once to build
        assert len(calls) == first + 3 * 3 <= 3 + 1 + 3 * 3
    else:
        assert len(calls) == first <= 4
    assert len(traces) == 1
    if BACKEND == "tensorflow":
        model.fit(x[:15], x[:15], batch_size=5, verbose=0)
        assert len(calls) == first
