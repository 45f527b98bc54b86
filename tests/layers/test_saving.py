"""Copies: a layer is its circuit, its kernel's name, its shapes, its backend, and its weights."""

import base64
import codecs
import copy
import importlib
import json
import marshal
import multiprocessing
import operator
import os
import pickle
import subprocess
import sys
import zipfile
from pathlib import Path

import cloudpickle
import keras
import numpy as np
import pytest

import qml
from qml.circuits.archive import pack
from qml.errors import ConfigError, KernelNameError, QMLError, UnknownNameError
from qml.kernel import kernels
from qml.layers import QuantumLayer, loading, set_backend

ROOT = Path(qml.__file__).resolve().parents[1]

WEIGHTS = {f"w{i}": () for i in range(12)} | {"theta": (2, 3)}


@qml.qkernel(qubits=2, name="test_saving.ansatz")
def ansatz(qc, x, theta, w0, w1, w2, w3, w4, w5, w6, w7, w8, w9, w10, w11):
    singles = [w0, w1, w2, w3, w4, w5, w6, w7, w8, w9, w10, w11]
    for q in range(2):
        qc.ry(x[q], q)
        for angle in theta[q]:
            qc.rx(angle, q)
            qc.ry(0.3, q)
    qc.cx(0, 1)
    for i, angle in enumerate(singles):
        qc.rx((i + 1) * angle, i % 2)
        qc.rz(0.2, i % 2)
    return [qml.Z(0), "XZ"]


def model():
    layer = QuantumLayer(ansatz, WEIGHTS, backend={"kind": "aer", "seed": 3})
    made = keras.Sequential([keras.Input((2,)), keras.layers.Dense(2), layer])
    made.compile("adam", "mse")
    return made


X = np.random.default_rng(0).normal(size=(5, 2))


def test_a_saved_model_loads_with_its_weights_optimizer_and_backend(tmp_path):
    one = model()
    one.fit(X, X, verbose=0)
    one.save(tmp_path / "model.keras")
    with qml.use("reference"):
        other = keras.saving.load_model(tmp_path / "model.keras")
    assert other.layers[-1].backend == one.layers[-1].backend
    np.testing.assert_array_equal(other.predict(X, verbose=0), one.predict(X, verbose=0))
    histories = [m.fit(X, X, epochs=2, verbose=0).history["loss"] for m in (one, other)]
    np.testing.assert_allclose(*histories, rtol=1e-6)


def test_weights_alone_travel_between_layers_of_one_kernel(tmp_path):
    one, other = model(), model()
    assert not np.allclose(one.predict(X, verbose=0), other.predict(X, verbose=0))
    one.save_weights(tmp_path / "model.weights.h5")
    other.load_weights(tmp_path / "model.weights.h5")
    np.testing.assert_array_equal(other.predict(X, verbose=0), one.predict(X, verbose=0))


def test_a_model_saved_before_it_was_built_loads_unbuilt(tmp_path):
    one = keras.Sequential([QuantumLayer(ansatz, WEIGHTS)])
    with pytest.warns(UserWarning, match="not yet been built"):
        one.save(tmp_path / "model.keras")
    other = keras.saving.load_model(tmp_path / "model.keras")
    assert not other.built
    assert other(X).shape == (5, 2)


def test_a_clone_has_the_same_circuit_and_weights_of_its_own():
    one = model()
    other = keras.models.clone_model(one)
    assert other.layers[-1].kernel is ansatz
    assert not np.allclose(one.predict(X, verbose=0), other.predict(X, verbose=0))
    other.set_weights(one.get_weights())
    np.testing.assert_array_equal(other.predict(X, verbose=0), one.predict(X, verbose=0))


COPIES = {
    "deepcopy": copy.deepcopy,
    "pickle": lambda part: pickle.loads(pickle.dumps(part)),
    "cloudpickle": lambda part: cloudpickle.loads(cloudpickle.dumps(part)),
}


@pytest.mark.parametrize("copied", COPIES.values(), ids=COPIES)
@pytest.mark.parametrize("whole", [True, False], ids=["model", "layer"])
def test_a_copy_computes_the_same_and_trains_by_itself(copied, whole):
    one = model()
    one.fit(X, X, verbose=0)
    part = one if whole else one.layers[-1]
    other = copied(part)
    compute = lambda part: keras.ops.convert_to_numpy(part(X))
    np.testing.assert_array_equal(compute(other), compute(part))
    kept = compute(part)
    for variable in other.trainable_variables:
        variable.assign_add(np.ones(variable.shape))
    np.testing.assert_array_equal(compute(part), kept)
    assert np.abs(compute(other) - kept).max() > 1e-2


def test_the_configuration_is_plain_data_and_round_trips():
    layer = QuantumLayer(ansatz, WEIGHTS, backend="aer", initializer="zeros", dtype="float64")
    set_backend(layer, {"kind": "aer", "shots": 10})
    config = json.loads(json.dumps(layer.get_config()))
    again = QuantumLayer.from_config(config)
    assert again.get_config() == layer.get_config()
    assert list(config["weights"]) == list(WEIGHTS)
    assert config["backend"]["shots"] == 10
    assert again.compute_dtype == "float64"


def test_a_kernel_that_is_not_registered_is_named(tmp_path):
    config = QuantumLayer(ansatz, WEIGHTS).get_config() | {"kernel": "test_saving.anzatz"}
    with pytest.raises(UnknownNameError, match="'test_saving.anzatz'.*'test_saving.ansatz'"):
        QuantumLayer.from_config(config)


def test_a_kernel_of_a_script_that_is_not_this_one_is_told_to_get_a_name():
    with pytest.raises(UnknownNameError, match=r"'__main__.ansatz'.*name only there.*name="):
        QuantumLayer("__main__.ansatz", {})
    with pytest.raises(UnknownNameError) as caught:
        QuantumLayer("elsewhere.ansatz", {})
    assert "script" not in str(caught.value)


def redefine(angle):
    """A kernel of one name for every angle."""

    @qml.qkernel(qubits=1)
    def redefined(qc, x):
        qc.rx(angle * x[0], 0)
        return qml.Z(0)

    return redefined


def test_a_name_that_came_to_mean_another_kernel_is_not_saved_before_the_circuit_is_known():
    layer = QuantumLayer(redefine(1), {})
    redefine(1)
    assert layer.get_config()["kernel"].endswith("redefined")
    redefine(2)
    with pytest.raises(KernelNameError, match="replaced by another one.*a name of its own"):
        layer.get_config()


@pytest.mark.parametrize("arguments", ["x, w", "y", "x"])
def test_a_replacement_that_cannot_take_the_arguments_is_another_kernel(arguments):
    scope = {"qml": qml, "__name__": __name__}

    def define(arguments, body):
        exec(f"def replaced(qc, {arguments}):\n    {body}\n    return qml.Z(0)", scope)
        return qml.qkernel(qubits=1)(scope["replaced"])

    layer = QuantumLayer(define("x", "qc.rx(x[0], 0)"), {})
    layer.build((None, 1))
    config = layer.get_config()
    define(arguments, f"qc.rx({arguments[0]}[1], 0)")
    assert layer.get_config() == config  # as the file holds the circuit itself
    with pytest.raises(KernelNameError, match="does not take the same arguments"):
        QuantumLayer.from_config(config)


def test_a_saved_model_is_not_loaded_with_another_circuit_of_that_name(tmp_path):
    one = keras.Sequential([keras.Input((1,)), QuantumLayer(redefine(1), {})])
    one.save(tmp_path / "model.keras")
    redefine(1)
    x = np.array([[0.3]])
    again = keras.saving.load_model(tmp_path / "model.keras")
    np.testing.assert_array_equal(again.predict(x, verbose=0), one.predict(x, verbose=0))
    redefine(2)
    one.save(tmp_path / "later.keras")
    for file in ("model.keras", "later.keras"):
        with pytest.raises(KernelNameError, match=r"redefined' writes another circuit than when"):
            keras.saving.load_model(tmp_path / file)


def test_a_copy_is_compared_for_the_shapes_it_was_built_for_and_may_get_others():
    layer = QuantumLayer(redefine(1), {})
    assert not {"digest", "circuit"} & layer.get_config().keys()
    layer.build((None, 1))
    config = layer.get_config()
    assert config["digest"] == layer.kernel.program(np.zeros(1)).digest
    again = QuantumLayer.from_config(config)
    assert again(np.full((2, 3), 0.3)).shape == (2, 1)
    for samples, error in (
        ({"x": []}, ConfigError),
        ({"y": [1]}, ConfigError),
        ({}, KernelNameError),
    ):
        with pytest.raises(error, match="the file was changed|writes another circuit"):
            QuantumLayer.from_config(config | {"sample_shapes": samples})


# --- other processes, other Keras backends


@keras.saving.register_keras_serializable("test_saving")
def squared(values):
    return keras.ops.square(values)


@qml.qkernel(qubits=3, name="test_saving.fused")
def fused(qc, image, table, theta, phi, depth=2, entangle=True):
    """Two inputs, defaults that steer Python, angles that are no sums."""
    for _ in range(depth):
        for q in range(3):
            qc.ry(image[0, q] + image[1, q], q)
            qc.rx(theta[q, 0] * table[0] ** 2, q)
            qc.rz(2 * theta[q, 1] + 0.1, q)
        if entangle:
            for q in range(3):
                qc.cx(q, (q + 1) % 3)
    qc.rzz((phi * table[1]).sin(), 0, 2)
    return [qml.Z(0), qml.X(1) @ qml.Y(2) - 0.5 * qml.Z(1), qml.probs(0, 2)]


def large_model():
    image, table = keras.Input((2, 3), name="image"), keras.Input((2,), name="table")
    layer = QuantumLayer(
        fused,
        {"theta": (3, 2), "phi": ()},
        backend={"kind": "statevector", "seed": 5},
        initializer={"theta": keras.initializers.RandomNormal(stddev=0.5, seed=1)},
        data_axes={"image": 2, "table": 1},
        units=2,
        activation="tanh",
        regularizer={"phi": keras.regularizers.L2(0.01)},
        constraint={"theta": keras.constraints.MaxNorm(3.0)},
    )
    values = layer({"image": image, "table": keras.layers.Dense(2)(table)})
    made = keras.Model([image, table], keras.layers.Dense(1)(values))
    made.compile(keras.optimizers.Adam(0.05), "mse")
    return made


DATA = """
import numpy as np
generator = np.random.default_rng(0)
X = [generator.normal(size=(12, 2, 3)), generator.normal(size=(12, 2))]
Y = np.sin(X[0].sum(axis=(1, 2)))[:, None]
"""
PREDICTS = (
    DATA
    + """
import json, sys, keras, qml.layers
model = keras.saving.load_model(sys.argv[1] + "/model.keras", compile=False)
values = model.predict(X, verbose=0)
print(json.dumps({"backend": keras.backend.backend(), "values": values.tolist()}))
"""
)
ELSEWHERE = (
    DATA
    + """
import copy, json, pickle, sys, keras, qml.layers
from pathlib import Path
folder = Path(sys.argv[1])
model = keras.saving.load_model(folder / "model.keras")
values = model.predict(X, verbose=0)
layer = next(part for part in model.layers if isinstance(part, qml.layers.QuantumLayer))

same = {}
for name, copied in {
    "deepcopy": copy.deepcopy(model),
    "pickle": pickle.loads(pickle.dumps(model)),
    "json": keras.models.model_from_json(model.to_json()),
    "clone": keras.models.clone_model(model),
    "layer": None,
}.items():
    if copied is None:
        other = qml.layers.QuantumLayer.from_config(layer.get_config())
        again = qml.layers.QuantumLayer.from_config(other.get_config())
        same[name] = again.get_config() == layer.get_config()
        continue
    copied.set_weights(model.get_weights())
    same[name] = bool(np.array_equal(copied.predict(X, verbose=0), values))
model.save(folder / "again.keras")
again = keras.saving.load_model(folder / "again.keras")
same["saved again"] = bool(np.array_equal(again.predict(X, verbose=0), values))
weights = keras.models.clone_model(model)
weights.load_weights(folder / "model.weights.h5")
same["weights"] = bool(np.array_equal(weights.predict(X, verbose=0), values))

history = model.fit(X, Y, batch_size=4, epochs=3, shuffle=False, verbose=0).history["loss"]
print(json.dumps({
    "backend": keras.backend.backend(),
    "kernels": list(qml.kernels),
    "values": values.tolist(),
    "same": same,
    "steps": int(model.optimizer.iterations),
    "history": history,
    "kernel": layer.kernel.name,
    "digest": layer.program.digest,
    "config": {k: layer.get_config()[k] for k in ("units", "activation", "data_axes", "backend")},
}))
"""
)


def elsewhere(backend, script, *arguments):
    """What a script prints, as JSON, in a process of its own that has not seen this file."""
    environment = os.environ | {"KERAS_BACKEND": backend, "PYTHONPATH": str(ROOT)}
    run = subprocess.run(
        [sys.executable, "-c", script, *map(str, arguments)],
        env=environment,
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert run.returncode == 0, run.stderr[-3000:]
    return json.loads(run.stdout.splitlines()[-1])


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["jax", "tensorflow", "torch"])
def test_a_model_goes_on_in_a_fresh_process_on_any_keras_backend(backend, tmp_path):
    if keras.backend.backend() == "torch" and backend != "torch":
        pytest.skip("Keras 3.15 on PyTorch saves an optimizer that works there alone")
    scope = {}
    exec(DATA, scope)
    x, y = scope["X"], scope["Y"]
    one = large_model()
    fit = {"batch_size": 4, "epochs": 3, "shuffle": False, "verbose": 0}
    one.fit(x, y, **fit)
    one.save(tmp_path / "model.keras")
    one.save_weights(tmp_path / "model.weights.h5")
    values = one.predict(x, verbose=0)
    found = elsewhere(backend, ELSEWHERE, tmp_path)
    assert found["backend"] == backend
    assert "test_saving.fused" not in found["kernels"]
    assert found["kernel"] == "test_saving.fused"
    np.testing.assert_allclose(found["values"], values, atol=2e-6)
    assert all(found["same"].values()), found["same"]
    np.testing.assert_allclose(found["history"], one.fit(x, y, **fit).history["loss"], rtol=1e-4)
    assert found["steps"] == 18
    layer = next(part for part in one.layers if isinstance(part, QuantumLayer))
    assert found["digest"] == layer.program.digest
    assert found["config"] == {
        "units": 2,
        "activation": "tanh",
        "data_axes": {"image": 2, "table": 1},
        "backend": layer.get_config()["backend"],
    }


@pytest.mark.slow
@pytest.mark.skipif(keras.backend.backend() != "torch", reason="the test before says more")
@pytest.mark.parametrize("backend", ["jax", "tensorflow"])
def test_a_model_predicts_the_same_in_a_fresh_process_on_any_keras_backend(backend, tmp_path):
    one = large_model()
    scope = {}
    exec(DATA, scope)
    one.save(tmp_path / "model.keras")
    found = elsewhere(backend, PREDICTS, tmp_path)
    assert found["backend"] == backend
    np.testing.assert_allclose(found["values"], one.predict(scope["X"], verbose=0), atol=2e-6)


@pytest.mark.slow
def test_a_spawned_process_predicts_the_same():
    one = model()
    context = multiprocessing.get_context("spawn")
    predict = operator.methodcaller("predict", X, verbose=0)
    with context.Pool(1, importlib.import_module, ("qml.layers",)) as pool:
        values = pool.apply(predict, (one,))
    np.testing.assert_allclose(values, one.predict(X, verbose=0), atol=1e-6)


def test_a_function_of_the_users_own_is_saved_by_its_registered_name(tmp_path):
    layer = QuantumLayer(ansatz, WEIGHTS, activation=squared)
    one = keras.Sequential([keras.Input((2,)), layer])
    one.save(tmp_path / "model.keras")
    again = keras.saving.load_model(tmp_path / "model.keras")
    np.testing.assert_array_equal(again.predict(X, verbose=0), one.predict(X, verbose=0))


def test_many_saves_write_the_circuit_once(monkeypatch, tmp_path):
    one = model()
    pack.cache_clear()
    for epoch in range(3):
        one.save(tmp_path / f"{epoch}.keras")
    assert pack.cache_info().misses == 1


# --- files that are not ours


def plain_model():
    return keras.Sequential([keras.Input((2,)), QuantumLayer(ansatz, WEIGHTS)])


def tampered(path, change):
    """The file with another configuration, as whoever wrote it can make it."""
    with zipfile.ZipFile(path) as archive:
        parts = {name: archive.read(name) for name in archive.namelist()}
    config = json.loads(parts["config.json"])
    change(config["config"]["layers"][-1]["config"])
    parts["config.json"] = json.dumps(config).encode()
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in parts.items():
            archive.writestr(name, content)
    return path


def payload(*_, **__):
    open("executed", "w").close()  # in the working directory, which is the test's own


CODE = [codecs.encode(marshal.dumps(payload.__code__), "base64").decode(), None, None]
LAMBDA = {"class_name": "__lambda__", "config": {"value": CODE}}
PICKLED = base64.b64encode(pickle.dumps(payload)).decode()
NAMED = {
    "module": "payload_of_a_file",
    "class_name": "function",
    "config": "payload",
    "registered_name": "payload",
}


@pytest.fixture
def module_of_code(tmp_path, monkeypatch):
    """A module, where Python finds it, that leaves a trace when it is imported or called."""
    run = "open('executed', 'w').close()"
    (tmp_path / "payload_of_a_file.py").write_text(f"{run}\ndef payload(*_, **__): {run}")
    monkeypatch.syspath_prepend(tmp_path)


@pytest.mark.parametrize("key", ["activation", "initializer", "regularizer", "constraint"])
@pytest.mark.parametrize("value", [NAMED, LAMBDA, PICKLED], ids=["function", "lambda", "pickle"])
def test_a_file_that_names_code_is_refused_and_nothing_runs(key, value, tmp_path, module_of_code):
    plain_model().save(tmp_path / "model.keras")
    path = tampered(tmp_path / "model.keras", lambda config: config.update({key: value}))
    with pytest.raises((ValueError, TypeError)):
        keras.saving.load_model(path)
    assert not Path("executed").exists()


@pytest.mark.parametrize(
    "backend",
    [
        {"kind": "estimator", "factory": "payload_of_a_file:payload"},
        {"kind": "pennylane", "device": "payload_of_a_file:payload"},
    ],
    ids=["estimator", "pennylane"],
)
def test_a_backend_that_names_a_function_is_not_made_from_a_file(backend, tmp_path, module_of_code):
    plain_model().save(tmp_path / "model.keras")
    path = tampered(tmp_path / "model.keras", lambda config: config.update(backend=backend))
    for load in (
        lambda: keras.saving.load_model(path),
        lambda: keras.models.model_from_json(zipfile.ZipFile(path).read("config.json").decode()),
    ):
        with pytest.raises(ConfigError, match="calls a function.*safe_mode=False.*loading"):
            load()
    assert not Path("executed").exists()
    with loading("statevector"):
        keras.saving.load_model(path)
    assert not Path("executed").exists()


def test_copies_and_trusted_files_keep_a_backend_that_names_a_function(tmp_path, monkeypatch):
    (tmp_path / "trusted.py").write_text(
        "from qiskit.primitives import StatevectorEstimator as E\ndef made(): return E()"
    )
    monkeypatch.syspath_prepend(tmp_path)
    layer = QuantumLayer(ansatz, WEIGHTS, {"kind": "estimator", "factory": "trusted:made"})
    one = keras.Sequential([keras.Input((2,)), layer])
    one.save(tmp_path / "model.keras")
    for again in (
        keras.models.clone_model(one),
        copy.deepcopy(one),
        keras.saving.load_model(tmp_path / "model.keras", safe_mode=False),
    ):
        assert again.layers[-1].backend == layer.backend


def test_the_payloads_would_run_if_they_were_let(tmp_path):
    plain_model().save(tmp_path / "model.keras")
    path = tampered(tmp_path / "model.keras", lambda config: config.update(activation=LAMBDA))
    keras.saving.load_model(path, safe_mode=False)
    assert Path("executed").exists()


@pytest.mark.parametrize("registered", [True, False])
@pytest.mark.parametrize(
    ("changed", "error"),
    [
        ({"circuit": PICKLED}, ConfigError),
        ({"circuit": "UUlTS0lUDA=="}, ConfigError),
        ({"circuit": ["code"]}, ConfigError),
        ({"digest": "0" * 64}, ConfigError),
        (
            {"weights": {name: list(shape) for name, shape in WEIGHTS.items()} | {"theta": [9, 9]}},
            QMLError,
        ),
        ({"kernel": "os.system"}, None),
    ],
)
def test_a_file_whose_circuit_was_changed_is_refused(
    registered, changed, error, tmp_path, monkeypatch
):
    one = plain_model()
    one.save(tmp_path / "model.keras")
    path = tampered(tmp_path / "model.keras", lambda config: config.update(changed))
    if not registered:
        monkeypatch.delitem(kernels._kernels, ansatz.name)
    if error is None:  # the kernel's name is a label alone
        again = keras.saving.load_model(path)
        np.testing.assert_allclose(again.predict(X, verbose=0), one.predict(X, verbose=0))
        return
    with pytest.raises(error):
        keras.saving.load_model(path)


def test_a_file_holds_no_pickle_and_no_code(tmp_path):
    plain_model().save(tmp_path / "model.keras")
    with zipfile.ZipFile(tmp_path / "model.keras") as archive:
        assert {Path(name).suffix for name in archive.namelist()} == {".json", ".h5"}
        config = archive.read("config.json").decode()
    assert "__lambda__" not in config
    assert "pickle" not in config
