"""What Keras' compile and fit offer, with a quantum layer in the model, on every Keras backend."""

import keras
import numpy as np
import pytest

import qml
from qml.execution import recorded
from qml.layers import QuantumLayer

BACKEND = keras.backend.backend()
SAMPLES, BATCH, EPOCHS = 20, 8, 3  # a last batch of 4
X = np.random.default_rng(8).normal(size=(SAMPLES, 2)).astype("float32")
START = [[[0.9, -0.3], [0.4, 0.7]], [0.1, -0.2], [0.5, -0.8], [[0.6], [-0.5]], [0.2]]
Y = np.cos(X[:, :1])


@qml.qkernel(qubits=2)
def ansatz(qc, x, theta):
    for q in range(2):
        qc.ry(x[q], q)
        qc.rx(theta[q], q)
    qc.cx(0, 1)
    return [qml.Z(0), qml.Z(1)]


def model(**compile_with):
    """The same at every call and on every backend, its weights too."""
    layer = QuantumLayer(ansatz, {"theta": (2,)}, backend="reference", name="quantum")
    made = keras.Sequential(
        [keras.Input((2,)), keras.layers.Dense(2, "tanh"), layer, keras.layers.Dense(1)]
    )
    for variable, start in zip(made.trainable_variables, START, strict=True):
        variable.assign(start)
    made.compile(**{"optimizer": keras.optimizers.SGD(0.3), "loss": "mse"} | compile_with)
    return made


def fit(made, data=(X, Y), epochs=EPOCHS, **options):
    batches = {"batch_size": BATCH} if isinstance(data, tuple) else {}
    data = data if isinstance(data, tuple) else (data,)
    return made.fit(*data, epochs=epochs, shuffle=False, verbose=0, **batches, **options)


@pytest.fixture(scope="module")
def plain():
    """The loss curve without any option, and the weights it ends with."""
    made = model()
    curve = fit(made).history["loss"]
    assert curve[-1] < 0.95 * curve[0]
    return curve, made.get_weights()


def agree(made, curve, plain):
    np.testing.assert_allclose(curve, plain[0], rtol=2e-5)
    for found, expected in zip(made.get_weights(), plain[1], strict=True):
        np.testing.assert_allclose(found, expected, atol=2e-6)


# How steps are compiled.


@pytest.mark.parametrize("options", [{"run_eagerly": True}, {"jit_compile": "auto"}], ids=str)
def test_a_way_to_run_steps_changes_no_result(options, plain):
    made = model(**options)
    agree(made, fit(made).history["loss"], plain)


@pytest.mark.slow
# PyTorch's own, the second where its graph breaks.
@pytest.mark.filterwarnings("ignore:`torch.jit.script:DeprecationWarning")
@pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor:UserWarning")
def test_compiled_steps_change_no_result(plain):
    """On TensorFlow, where the layer cannot be compiled, Keras says that it goes on without."""
    made = model()
    if BACKEND == "tensorflow":
        with pytest.warns(UserWarning, match="doesn't support `jit_compile=True`"):
            made.compile(keras.optimizers.SGD(0.3), "mse", jit_compile=True)
    else:
        made.compile(keras.optimizers.SGD(0.3), "mse", jit_compile=True)
    assert made.jit_compile == (BACKEND != "tensorflow")
    agree(made, fit(made).history["loss"], plain)


@pytest.mark.skipif(BACKEND == "torch", reason="Keras refuses it on its PyTorch backend")
@pytest.mark.parametrize("steps", [2, 3, 5])
def test_several_steps_per_execution_are_the_same_steps(steps, plain):
    made = model(steps_per_execution=steps)
    with recorded() as runs:
        curve = fit(made).history["loss"]
    agree(made, curve, plain)
    rows = [run.rows for run in runs if run.primitive == "expval"]
    assert sorted(rows) == sorted(EPOCHS * [8, 8, 4])


# Where data come from.


def test_the_last_batch_may_be_smaller_and_is_one_request_too():
    made = model()
    with recorded() as runs:
        fit(made, epochs=2)
        made.evaluate(X, Y, batch_size=BATCH, verbose=0)
        made.predict(X, batch_size=BATCH, verbose=0)
    asked = [(run.primitive, run.rows) for run in runs]
    # Four angles at two shifts each for the gradient.
    whole, rest = ([("expval", n), ("expval_vjp", n * 4 * 2)] for n in (8, 4))
    steps = 2 * whole + rest
    values = [("expval", 8), ("expval", 8), ("expval", 4)]
    assert asked == 2 * steps + 2 * values


@pytest.mark.skipif(BACKEND == "torch", reason="PyTorch has loaders of its own")
def test_a_tf_data_pipeline_feeds_a_training(plain):
    tf = pytest.importorskip("tensorflow")
    made = model()
    data = tf.data.Dataset.from_tensor_slices((X, Y)).batch(BATCH).prefetch(1)
    agree(made, fit(made, data).history["loss"], plain)


def test_a_torch_data_loader_feeds_a_training_on_every_backend(plain):
    torch = pytest.importorskip("torch")
    made = model()
    data = torch.utils.data.TensorDataset(torch.tensor(X), torch.tensor(Y))
    loader = torch.utils.data.DataLoader(data, batch_size=BATCH)
    agree(made, fit(made, loader).history["loss"], plain)


def test_a_sequence_of_keras_feeds_a_training(plain):
    class Batches(keras.utils.PyDataset):
        def __len__(self):
            return -(-SAMPLES // BATCH)

        def __getitem__(self, index):
            part = slice(index * BATCH, (index + 1) * BATCH)
            return X[part], Y[part]

    made = model()
    agree(made, fit(made, Batches()).history["loss"], plain)


# Precision.


@pytest.mark.parametrize("policy", ["mixed_float16", "mixed_bfloat16"])
def test_mixed_precision_trains_all_weights_and_leaves_the_angles_single(policy, plain):
    keras.config.set_dtype_policy(policy)
    made = model()
    before = [variable.numpy() for variable in made.trainable_variables]
    curve = fit(made).history["loss"]
    dense, quantum, _ = made.layers
    assert dense.compute_dtype == policy.removeprefix("mixed_")
    assert quantum.compute_dtype == quantum.trainable_variables[0].dtype == "float32"
    np.testing.assert_allclose(curve, plain[0], rtol=0.05)
    pairs = zip(before, made.trainable_variables, strict=True)
    assert all(np.any(a != b.numpy()) for a, b in pairs)


# Callbacks.


def test_callbacks_see_every_batch_and_epoch():
    seen = []
    callback = keras.callbacks.LambdaCallback(
        on_train_batch_end=lambda batch, logs: seen.append(batch),
        on_epoch_end=lambda epoch, logs: seen.append(f"epoch {epoch}"),
    )
    fit(model(), epochs=2, callbacks=[callback])
    assert seen == [0, 1, 2, "epoch 0", 0, 1, 2, "epoch 1"]


def test_early_stopping_stops_and_restores_the_best_weights():
    # A rate at which the loss grows.
    made = model(optimizer=keras.optimizers.SGD(5.0))
    stop = keras.callbacks.EarlyStopping("loss", patience=2, restore_best_weights=True)
    kept = []
    keep = keras.callbacks.LambdaCallback(
        on_epoch_end=lambda epoch, logs: kept.append(made.get_weights())
    )
    curve = fit(made, epochs=30, callbacks=[keep, stop]).history["loss"]
    assert len(curve) == int(np.argmin(curve)) + 1 + 2 < 30
    for found, best in zip(made.get_weights(), kept[int(np.argmin(curve))], strict=True):
        np.testing.assert_array_equal(found, best)


@pytest.mark.parametrize("name", ["best.keras", "best.weights.h5"])
def test_a_checkpoint_holds_the_model_of_the_best_epoch(name, tmp_path):
    made = model()
    weights_only = name.endswith("h5")
    save = keras.callbacks.ModelCheckpoint(
        tmp_path / name, "loss", save_best_only=True, save_weights_only=weights_only
    )
    fit(made, callbacks=[save])
    if weights_only:
        again = model()
        again.load_weights(tmp_path / name)
    else:
        again = keras.saving.load_model(tmp_path / name)
    np.testing.assert_array_equal(again.predict(X, verbose=0), made.predict(X, verbose=0))


# Optimizers.


def test_accumulated_gradients_make_one_step_of_several_batches():
    whole, parts = (
        model(optimizer=keras.optimizers.SGD(0.3, gradient_accumulation_steps=steps))
        for steps in (None, 2)
    )
    start = whole.get_weights()
    whole.fit(X[:16], Y[:16], batch_size=16, shuffle=False, verbose=0)
    parts.train_on_batch(X[:8], Y[:8])
    for found, before in zip(parts.get_weights(), start, strict=True):
        np.testing.assert_array_equal(found, before)
    parts.train_on_batch(X[8:16], Y[8:16])
    for found, expected, before in zip(
        parts.get_weights(), whole.get_weights(), start, strict=True
    ):
        np.testing.assert_allclose(found, expected, atol=1e-6)
        assert np.any(found != before)


def test_a_moving_average_of_the_weights_is_taken_and_used_in_the_end():
    momentum = 0.5
    made = model(optimizer=keras.optimizers.SGD(0.3, use_ema=True, ema_momentum=momentum))
    plain = model()
    average = None  # begins at the weights after the first step
    for _ in range(4):
        plain.train_on_batch(X, Y)
        weights = plain.get_weights()
        pairs = zip(average or weights, weights, strict=True)
        average = [momentum * a + (1 - momentum) * w for a, w in pairs]
    made.fit(X, Y, batch_size=SAMPLES, epochs=4, shuffle=False, verbose=0)
    for found, expected, last in zip(made.get_weights(), average, weights, strict=True):
        np.testing.assert_allclose(found, expected, atol=1e-5)
        if found.dtype == np.float32:  # not the state of random numbers
            assert np.abs(found - last).max() > 1e-4


@pytest.mark.parametrize("options", [{"clipnorm": 1e-3}, {"weight_decay": 0.5}], ids=str)
def test_clipping_and_decay_reach_the_angles(options):
    made, unchanged = model(optimizer=keras.optimizers.SGD(0.3, **options)), model()
    (start,) = made.get_layer("quantum").get_weights()[:1]
    for each in (made, unchanged):
        each.train_on_batch(X, Y)
    found, expected = (
        np.asarray(each.get_layer("quantum").get_weights()[0]) for each in (made, unchanged)
    )
    if "clipnorm" in options:
        np.testing.assert_allclose(np.linalg.norm(found - start), 3e-4, rtol=1e-2)
    else:
        np.testing.assert_allclose(found, expected - 0.3 * 0.5 * start, atol=1e-3)
    assert np.abs(found - expected).max() > 1e-3
