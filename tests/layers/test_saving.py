"""Copies: a layer is its kernel's registered name, its shapes, its backend, and its weights."""

import copy
import json
import pickle

import keras
import numpy as np
import pytest

import qml
from qml.errors import KernelNameError, UnknownNameError
from qml.layers import QuantumLayer, set_backend

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


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda part: pickle.loads(pickle.dumps(part))])
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


@pytest.mark.parametrize("built", [True, False])
def test_a_name_that_came_to_mean_another_circuit_is_not_saved(built):
    layer = QuantumLayer(redefine(1), {})
    if built:
        layer.build((None, 1))
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
    define(arguments, f"qc.rx({arguments[0]}[1], 0)")
    with pytest.raises(KernelNameError, match="replaced by another one"):
        layer.get_config()


def test_a_saved_model_is_not_loaded_with_another_circuit_of_that_name(tmp_path):
    one = keras.Sequential([keras.Input((1,)), QuantumLayer(redefine(1), {})])
    one.save(tmp_path / "model.keras")
    redefine(1)
    x = np.array([[0.3]])
    again = keras.saving.load_model(tmp_path / "model.keras")
    np.testing.assert_array_equal(again.predict(x, verbose=0), one.predict(x, verbose=0))
    redefine(2)
    with pytest.raises(KernelNameError, match=r"redefined' writes another circuit than when"):
        keras.saving.load_model(tmp_path / "model.keras")


def test_a_copy_is_compared_for_the_shapes_it_was_built_for_and_may_get_others():
    layer = QuantumLayer(redefine(1), {})
    assert "digest" not in layer.get_config()
    layer.build((None, 1))
    config = layer.get_config()
    assert config["digest"] == layer.kernel.program(np.zeros(1)).digest
    again = QuantumLayer.from_config(config)
    assert again(np.full((2, 3), 0.3)).shape == (2, 1)
    for samples in ({"x": []}, {"y": [1]}, {}):
        refused = config | {"sample_shapes": samples}
        with pytest.raises(KernelNameError, match="writes another circuit"):
            QuantumLayer.from_config(refused)
