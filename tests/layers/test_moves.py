"""`set_backend`: what was trained, traced and compiled moves, and after an error nothing has."""

import keras
import numpy as np
import pytest

import qml
from qml.errors import ArgumentError, DeviceError, EngineError, UnknownNameError
from qml.execution import recorded
from qml.layers import QuantumLayer, set_backend

BACKEND = keras.backend.backend()
to_numpy = keras.ops.convert_to_numpy
X = np.zeros((2, 1), "float32")


@qml.qkernel(qubits=1, name="test_moves.cosine")
def cosine(qc, x):
    qc.rx(x[0], 0)
    return qml.Z(0)


@qml.qkernel(qubits=1, name="test_moves.shifted_cosine")
def shifted_cosine(qc, x, w):
    qc.rx(x[0], 0)
    qc.rx(w, 0)
    return [qml.Z(0)]


def kinds(function):
    with recorded() as runs:
        function()
    return {run.kind for run in runs}


class Holder(keras.layers.Layer):
    """A layer that is no model and has a quantum layer inside."""

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.inner = QuantumLayer(shifted_cosine, {"w": ()})

    def build(self, shape):
        self.inner.build(shape)

    def call(self, x):
        return self.inner(x)


def test_fit_set_backend_and_predict_run_on_the_backend_asked_for():
    inner = keras.Sequential([keras.Input((1,)), Holder()])
    model = keras.Sequential(
        [keras.Input((1,)), inner, QuantumLayer(cosine, {}), keras.layers.Dense(1)]
    )
    model.compile("sgd", "mse")
    x, y = np.zeros((4, 1)), np.ones((4, 1))
    calls = [
        lambda: model.fit(x, y, verbose=0),
        lambda: model.evaluate(x, y, verbose=0),
        lambda: model.predict(x, verbose=0),
        lambda: model(x),
    ]
    for kind in ("reference", "aer", "reference"):
        set_backend(model, kind)
        assert [kinds(call) for call in calls] == 4 * [{kind}]


def test_set_backend_changes_nothing_when_it_fails():
    layer = QuantumLayer(cosine, {}, backend="reference")
    model = keras.Sequential([keras.Input((1,)), layer])
    with pytest.raises(UnknownNameError):
        set_backend(model, "nowhere")
    assert kinds(lambda: model.predict(X, verbose=0)) == {"reference"}
    with pytest.raises(ArgumentError, match="has no QuantumLayer"):
        set_backend(keras.Sequential([keras.layers.Dense(1)]), "aer")
    for no_layer in (None, cosine, "model"):
        with pytest.raises(ArgumentError, match="takes a Keras model or layer, got"):
            set_backend(no_layer, "aer")


ABSENT = [
    ({"kind": "aer", "device": "GPU"}, DeviceError, "GPU"),
    ({"kind": "aer", "noise": "FakeManillaV2"}, UnknownNameError, "did you mean 'FakeManilaV2'"),
]


@pytest.mark.parametrize(("backend", "error", "message"), ABSENT)
def test_a_backend_that_is_not_there_is_told_before_anything_changes(
    backend, error, message, monkeypatch
):
    monkeypatch.setattr("qml.simulators.aer.engine.AerSimulator.available_devices", cpu_alone)
    with pytest.raises(error, match=message):
        QuantumLayer(cosine, {}, backend=backend)
    layer = QuantumLayer(cosine, {}, backend="reference")
    before = layer.backend
    with pytest.raises(error, match=message):
        set_backend(layer, backend)
    assert layer.backend is before
    assert kinds(lambda: layer(X)) == {"reference"}


def cpu_alone(simulator):
    return ("CPU",)


def test_a_circuit_too_wide_for_the_machine_is_told_before_anything_changes():
    @qml.qkernel(qubits=6)
    def wide(qc, x):
        qc.rx(x[0], 5)
        return qml.Z(5)

    five_qubits = {"kind": "aer", "noise": "FakeManilaV2"}
    with pytest.raises(EngineError, match="6 qubits"):
        QuantumLayer(wide, {}, backend=five_qubits).build((None, 1))
    narrow, layer = QuantumLayer(cosine, {}), QuantumLayer(wide, {})
    model = keras.Sequential([keras.Input((1,)), narrow, layer])
    with pytest.raises(EngineError, match="6 qubits"):
        set_backend(model, five_qubits)
    assert narrow.backend.kind == layer.backend.kind == "statevector"


def compiled(function):
    """As the user would, in the language of the Keras backend."""
    if BACKEND == "jax":
        import jax

        run = jax.jit(function)
        return lambda *args: jax.block_until_ready(run(*args))
    if BACKEND == "torch":
        import torch

        return torch.compile(function, backend="eager")
    import tensorflow as tf

    return tf.function(function, autograph=False)


# PyTorch's own, where its graph breaks.
@pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor:UserWarning")
def test_set_backend_reaches_functions_that_the_user_compiled(gradient):
    layer = QuantumLayer(cosine, {})
    x = keras.ops.convert_to_tensor(X + 0.3)
    slope = gradient(lambda x: keras.ops.sum(layer(x)))
    for function in (lambda x: layer(x), slope, gradient(lambda x: keras.ops.sum(slope(x)))):
        run = compiled(function)
        expected = run(x)
        for kind in ("reference", "aer", "reference"):
            set_backend(layer, kind)
            assert kinds(lambda run=run: run(x)) == {kind}
            np.testing.assert_allclose(to_numpy(run(x)), to_numpy(expected), atol=1e-6)


def test_set_backend_on_a_part_reaches_the_model_that_was_fitted():
    layer = QuantumLayer(shifted_cosine, {"w": ()}, backend="reference")
    inner = keras.Sequential([keras.Input((1,)), layer])
    model = keras.Sequential([keras.Input((1,)), inner])
    model.compile("sgd", "mse")
    fit = lambda: model.fit(X, X, verbose=0)
    assert kinds(fit) == {"reference"}
    for part, kind in ((inner.layers[0], "aer"), (inner, "reference")):
        set_backend(part, kind)
        assert kinds(fit) == kinds(lambda: model.predict(X, verbose=0)) == {kind}


def test_set_backend_from_exact_to_shots_draws_anew_and_back_is_exact():
    model = keras.Sequential([keras.Input((1,)), QuantumLayer(cosine, {}, backend="aer")])
    x = np.full((4, 1), 1.2, "float32")
    runs = [lambda: model.predict(x, verbose=0)]
    if BACKEND == "tensorflow":  # a function of the user's; in JAX it could not hold the state
        function = compiled(lambda x: model(x))
        runs.append(lambda: np.asarray(function(x)))
    for run in runs:
        exact = run()
        set_backend(model, {"kind": "aer", "shots": 50})
        with recorded() as requests:
            drawn = [run(), run()]
        assert [request.shots for request in requests] == [4 * 50, 4 * 50]
        assert not np.array_equal(*drawn)
        np.testing.assert_allclose(np.mean(drawn), np.cos(1.2), atol=5 / np.sqrt(8 * 50))
        set_backend(model, "aer")
        np.testing.assert_array_equal(run(), exact)


SHOTS = {"kind": "aer", "shots": 20, "seed": 1}


@pytest.mark.parametrize(
    ("when", "plan", "kinds_of_steps"),
    [
        ("on_epoch_begin", [None, SHOTS], ["reference", "reference", "aer", "aer"]),
        ("on_train_batch_end", [SHOTS, None, None, None], ["reference", "aer", "aer", "aer"]),
    ],
)
def test_set_backend_in_a_callback_moves_the_training_and_its_seed(when, plan, kinds_of_steps):
    layer = QuantumLayer(shifted_cosine, {"w": ()}, backend="reference")
    model = keras.Sequential([keras.Input((1,)), layer])
    model.compile("sgd", "mse")
    x, moves = np.zeros((4, 1)), iter(plan)

    def move(index, logs=None):
        if (backend := next(moves)) is not None:
            set_backend(model, backend)

    callback = keras.callbacks.LambdaCallback(**{when: move})
    with recorded() as runs:
        model.fit(x, x, batch_size=2, epochs=2, verbose=0, callbacks=[callback])
    steps = [run for run in runs if run.primitive == "expval"]
    assert [run.kind for run in steps] == kinds_of_steps
    made = QuantumLayer(shifted_cosine, {"w": ()}, backend=SHOTS, name=layer.name)
    seed, draws = np.asarray(layer._seeds.state)
    assert seed == np.asarray(made._seeds.state)[0]
    assert draws == kinds_of_steps.count("aer")


def test_set_backend_with_another_seed_draws_as_a_layer_made_with_it():
    def draws(seed, then=None):
        backend = {"kind": "aer", "shots": 40, "seed": seed}
        layer = QuantumLayer(cosine, {}, backend=backend, name="drawing")
        x = np.full((6, 1), 1.2)
        first = np.asarray(layer(x))
        if then is None:
            return [first, np.asarray(layer(x))]
        set_backend(layer, backend | then)
        return np.asarray(layer(x))

    three = draws(3)
    np.testing.assert_array_equal(draws(5, {"seed": 3}), three[0])
    np.testing.assert_array_equal(draws(3, {"threads": 1}), three[1])  # the random state stays
