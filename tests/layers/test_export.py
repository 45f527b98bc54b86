"""Exported models: the same values in a process that has TensorFlow and nothing else of ours."""

import os
import re
import subprocess
import sys
import types

import keras
import numpy as np
import pytest
from processes import without

import qml
from qml.errors import ArgumentError, EngineError
from qml.layers import QuantumLayer

BACKEND = keras.backend.backend()
EXACT = ["statevector", "xla", pytest.param("reference", marks=pytest.mark.full)]
REFUSED = [
    "aer",
    {"kind": "aer", "shots": 100},
    {"kind": "aer", "noise": "FakeManilaV2"},
    {"kind": "pennylane", "device": "default.qubit"},
]

exports = pytest.mark.skipif(BACKEND == "torch", reason="a SavedModel needs Keras on JAX or TF")

# Keras 3.15 with JAX 0.10.
pytestmark = pytest.mark.filterwarnings("ignore:The `native_serialization` parameter is deprecated")

LOADED = (
    without("jax", "jaxlib", "keras", "qiskit", "qiskit_aer", "qml", "numba")
    + """
import numpy as np
import tensorflow as tf

folder, given, found = sys.argv[1:]
model = tf.saved_model.load(folder)
with np.load(given) as file:
    inputs = {name: tf.constant(file[name]) for name in file.files}
floats = {name: x for name, x in inputs.items() if x.dtype.is_floating}
with tf.GradientTape() as tape:
    tape.watch(floats)
    values = model.serve(inputs["x"] if set(inputs) == {"x"} else inputs)
    loss = tf.reduce_sum(values ** 2)
slopes = tape.gradient(loss, floats)
assert not ABSENT & sys.modules.keys()
np.savez(found, values=values, **{f"by_{name}": slope for name, slope in slopes.items()})
"""
)


def elsewhere(folder, **inputs):
    """What an exported model gives in a process without this library, and the slopes of its sum
    of squares by the inputs."""
    given, found = folder / "given.npz", folder / "found.npz"
    np.savez(given, **inputs)
    done = subprocess.run(
        [sys.executable, "-c", LOADED, folder, given, found],
        env=os.environ | {"TF_CPP_MIN_LOG_LEVEL": "2"},
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    with np.load(found) as file:
        return dict(file)


@qml.qkernel(qubits=2, name="test_export.entangled")
def entangled(qc, x, theta):
    for q in range(2):
        qc.ry(x[q], q)
        qc.rz(theta[q, 0] * x[q], q)
        qc.rx(theta[q, 1] ** 2, q)
    qc.cx(0, 1)
    return [qml.Z(0), "XY", qml.probs(1)]


@qml.qkernel(qubits=2, name="test_export.product")
def product(qc, x, y, theta):
    for q in range(2):
        qc.ry(x[q], q)
        qc.rx(y[q, 0] * theta[q], q)
    qc.cx(0, 1)
    return [qml.Z(0), qml.Z(1)]


@keras.saving.register_keras_serializable("test_export")
def centred(values):
    return values - keras.ops.mean(values, axis=-1, keepdims=True)


def small(backend="statevector", **options):
    options = {"units": 3, "activation": centred} | options
    quantum = QuantumLayer(entangled, {"theta": (2, 2)}, backend=backend, **options)
    dense = keras.layers.Dense
    return keras.Sequential([keras.Input((3,)), dense(2, "tanh"), quantum, dense(2)])


def export(model, folder):
    """By Keras, wherever TensorFlow reads what JAX writes; see the tests of our own export."""
    if BACKEND == "jax":
        from qml.layers.native import reads_what_jax_writes

        if not reads_what_jax_writes():
            qml.layers.export(model, folder)
            return
    model.export(folder, verbose=False)


@exports
@pytest.mark.slow
@pytest.mark.parametrize("backend", EXACT)
def test_an_exported_model_runs_where_this_library_is_not(backend, tmp_path, gradient):
    model = small(backend)
    model.compile("sgd", "mse")
    x = np.random.default_rng(0).normal(size=(7, 3)).astype("float32")
    model.fit(x, x[:, :2], verbose=0)
    export(model, tmp_path / "exported")
    found = elsewhere(tmp_path / "exported", x=x)
    np.testing.assert_allclose(found["values"], model.predict(x, verbose=0), atol=1e-6)
    slope = gradient(lambda x: keras.ops.sum(model(x) ** 2))(keras.ops.convert_to_tensor(x))
    np.testing.assert_allclose(found["by_x"], slope, atol=1e-5)
    assert elsewhere(tmp_path / "exported", x=x[:1])["values"].shape == (1, 2)
    # What was exported stays what it was, and so does the layer.
    assert model.layers[1].backend.kind == backend
    np.testing.assert_allclose(model.predict(x, verbose=0), found["values"], atol=1e-6)


@exports
@pytest.mark.slow
def test_several_inputs_are_exported_by_their_names(tmp_path):
    inputs = {"x": keras.Input((2,), name="x"), "y": keras.Input((2, 1), name="y")}
    layer = QuantumLayer(product, {"theta": (2,)}, data_axes={"x": 1, "y": 2})
    model = keras.Model(inputs, layer(inputs))
    rng = np.random.default_rng(1)
    given = {
        name: rng.normal(size=(4, *x.shape[1:])).astype("float32") for name, x in inputs.items()
    }
    export(model, tmp_path / "exported")
    found = elsewhere(tmp_path / "exported", **given)
    np.testing.assert_allclose(found["values"], model.predict(given, verbose=0), atol=1e-6)
    assert found["by_x"].shape == (4, 2) and found["by_y"].shape == (4, 2, 1)


@exports
@pytest.mark.parametrize("backend", REFUSED)
def test_what_cannot_be_exported_says_what_to_do_and_writes_nothing(backend, tmp_path):
    model = small(backend, units=None)
    told = r"cannot be exported.*set_backend\(model, 'statevector'"
    with pytest.raises(EngineError, match=told):
        model.export(tmp_path / "exported", verbose=False)
    assert not (tmp_path / "exported" / "saved_model.pb").exists()
    assert model(np.zeros((1, 3))).shape == (1, 2)


@exports
@pytest.mark.slow
def test_our_own_export_writes_the_same_where_keras_would_write_what_cannot_be_read(
    tmp_path, monkeypatch
):
    if BACKEND == "jax":
        monkeypatch.setattr("qml.layers.native.reads_what_jax_writes", lambda: False)
        with pytest.raises(EngineError, match=r"cannot read.*qml.layers.export\(model, folder\)"):
            small().export(tmp_path / "exported", verbose=False)
    words = keras.Input((3,), dtype="int32")
    embedded = keras.layers.Flatten()(keras.layers.Embedding(5, 2)(words))
    normal = keras.layers.Dense(2)(keras.layers.BatchNormalization()(embedded))
    quantum = QuantumLayer(entangled, {"theta": (2, 2)}, units=2)(normal)
    model = keras.Model(words, quantum)
    qml.layers.export(model, tmp_path / "exported")
    stored = (tmp_path / "exported" / "saved_model.pb").read_bytes()
    assert set(re.findall(rb"StableHLO_v[\d.]+", stored)) == {b"StableHLO_v1.9.0"}
    x = np.random.default_rng(2).integers(0, 5, (6, 3)).astype("int32")
    found = elsewhere(tmp_path / "exported", x=x)
    np.testing.assert_allclose(found["values"], model.predict(x, verbose=0), atol=1e-6)


@exports
def test_our_own_export_asks_for_a_built_model_and_an_exact_engine(tmp_path):
    unbuilt = keras.Sequential([QuantumLayer(entangled, {"theta": (2, 2)})])
    for nothing in (unbuilt, entangled):
        with pytest.raises(ArgumentError, match="takes a built Keras model"):
            qml.layers.export(nothing, tmp_path / "exported")
    with pytest.raises(EngineError, match="'aer' engine cannot be exported"):
        qml.layers.export(small("aer"), tmp_path / "exported")
    assert not (tmp_path / "exported").exists()


@pytest.mark.skipif(BACKEND != "jax", reason="JAX's own way into TensorFlow, on Keras' JAX backend")
def test_this_tensorflow_reads_what_this_jax_writes_if_it_does():
    import jax
    import tensorflow as tf
    from jax.experimental import jax2tf

    from qml.layers.native import reads_what_jax_writes

    double = tf.function(jax2tf.convert(lambda x: x + x, polymorphic_shapes=["(b,)"]))
    spec = tf.TensorSpec((None,))
    try:
        double.get_concrete_function(spec)(tf.ones((3,)))
        readable = True
    except tf.errors.InvalidArgumentError:
        readable = False
    assert reads_what_jax_writes() is readable
    # Found out within a trace of JAX, too, where a layer asks for it.
    reads_what_jax_writes.cache_clear()
    seen = []
    jax.jit(lambda x: seen.append(reads_what_jax_writes()) or x)(1.0)
    assert seen == [readable]


@pytest.mark.skipif(BACKEND != "torch", reason="PyTorch's formats, on Keras' torch backend")
def test_pytorch_formats_say_that_another_keras_backend_exports(tmp_path):
    model = small()
    x = np.zeros((2, 3), "float32")
    before = keras.ops.convert_to_numpy(model(x))
    told = "torch backend.*KERAS_BACKEND=tensorflow or jax"
    with pytest.raises(EngineError, match=told):
        qml.layers.export(model, tmp_path / "exported")
    with pytest.raises(RuntimeError, match=told):  # as Keras wraps it
        model.export(tmp_path / "exported.pt2", format="torch", verbose=False)
    import torch

    with pytest.raises(EngineError, match=told):
        torch.export.export(model, (torch.zeros(2, 3),), strict=False)
    assert list(tmp_path.iterdir()) == []
    np.testing.assert_array_equal(keras.ops.convert_to_numpy(model(x)), before)


def test_a_format_that_has_no_operation_for_the_layer_is_refused(tmp_path):
    model = small()
    told = r"cannot be exported to the format '{}'.*qml.layers.export\(model, folder\)"
    if BACKEND == "tensorflow":
        with pytest.raises(EngineError, match=told.format("litert")):
            model.export(tmp_path / "exported.tflite", format="litert", verbose=False)
    # As its exporter calls a model; it needs packages that need not be here.
    exporter = types.ModuleType("keras.src.export.openvino")
    exec("def called(model, x): return model(x)", exporter.__dict__)
    if BACKEND == "torch":
        told = "torch backend.*KERAS_BACKEND=tensorflow or jax"
    with pytest.raises(EngineError, match=told.format("openvino")):
        exporter.called(model, np.zeros((1, 3), "float32"))
    assert model(np.zeros((1, 3), "float32")).shape == (1, 2)
    assert list(tmp_path.iterdir()) == []
