"""The re-uploading layer: a QuantumLayer on the library's kernel that keeps its own options."""

import keras
import numpy as np
import pytest
from processes import loaded

import qml
from qml.circuits import library
from qml.errors import ArgumentError, ObservableError, ShapeError
from qml.layers import QuantumLayer, ReuploadingLayer, set_backend

RNG = np.random.default_rng(4)
X = RNG.uniform(-1, 1, (6, 3)).astype("float32")
to_numpy = keras.ops.convert_to_numpy


def test_it_is_the_kernel_of_the_library():
    layer = ReuploadingLayer(qubits=3, depth=2)
    values = to_numpy(layer(X))
    (theta,) = layer.get_weights()
    assert theta.shape == (2, 3, 2) and layer.kernel is library.reuploading(3)
    expected = [np.asarray(library.reuploading(3)(x, theta)) for x in X]
    np.testing.assert_allclose(values, expected, atol=1e-5)


def test_one_layer_of_one_qubit_is_the_cosine_of_the_formula():
    """<Z> of R_Y(x) R_Z(a) R_Y(b) is cos x cos b - sin x cos a sin b."""
    layer = ReuploadingLayer(1)
    layer.build((None, 1))
    layer.set_weights([np.array([[[0.4, 1.1]]])])
    x = X[:, :1]
    expected = np.cos(x) * np.cos(1.1) - np.sin(x) * np.cos(0.4) * np.sin(1.1)
    np.testing.assert_allclose(to_numpy(layer(x)), expected, atol=1e-6)


def test_it_keeps_its_options_in_its_configuration():
    layer = ReuploadingLayer(3, 2, ["ZZI", "IXX"], units=2, backend="reference", name="upload")
    config = layer.get_config()
    assert (config["qubits"], config["depth"]) == (3, 2)
    assert config["observables"] == ["ZZI", "IXX"] and config["units"] == 2
    again = ReuploadingLayer.from_config(config)
    assert type(again) is ReuploadingLayer and again.kernel is layer.kernel
    assert again(X).shape == (6, 4)


@pytest.mark.parametrize("features", [2, 4])
def test_as_many_features_as_qubits_are_needed(features):
    with pytest.raises(ShapeError, match=rf"'x' must have shape \(3,\), but has .*\({features},\)"):
        ReuploadingLayer(3)(np.zeros((5, features)))


def test_options_that_are_none_are_refused_at_once():
    with pytest.raises(ArgumentError, match="qubits must be an integer of at least 1, got 0"):
        ReuploadingLayer(0)
    with pytest.raises(ArgumentError, match="layers must be an integer of at least 1, got 0"):
        ReuploadingLayer(2, depth=0)
    with pytest.raises(ObservableError, match="label 'ZZZ' has 3 letters"):
        ReuploadingLayer(2, observables=["ZZZ"])


def test_another_kernel_or_other_weights_are_not_run_under_its_name():
    other = library.iqp(2)
    for given in ({"kernel": other}, {"kernel": other.name}, {"weights": {"phi": (1,)}}):
        with pytest.raises(ArgumentError, match="runs .*reuploading.* Use a QuantumLayer"):
            ReuploadingLayer(2, **given)


def test_it_moves_with_the_model_it_is_in():
    model = keras.Sequential([keras.Input((3,)), ReuploadingLayer(3, 2), keras.layers.Dense(1)])
    before = model.predict(X, verbose=0)
    set_backend(model, "reference")
    assert isinstance(model.layers[0], QuantumLayer) and model.layers[0].backend.kind == "reference"
    np.testing.assert_allclose(model.predict(X, verbose=0), before, atol=1e-5)


def test_it_learns_a_function_of_its_frequencies():
    x = RNG.uniform(-np.pi, np.pi, (64, 1)).astype("float32")
    y = (np.cos(2 * x) + np.sin(x)) / 2
    losses = []
    for depth in (1, 3):
        keras.utils.set_random_seed(3)
        model = keras.Sequential(
            [keras.Input((1,)), ReuploadingLayer(1, depth), keras.layers.Dense(1)]
        )
        model.compile(keras.optimizers.Adam(0.1), "mse")
        losses.append(model.fit(x, y, batch_size=64, epochs=150, verbose=0).history["loss"][-1])
    # One layer has no second frequency: half of the variance of cos(2x) / 2 at least is left.
    assert losses[0] > 0.05 and losses[1] < 0.01, losses


@pytest.mark.slow
@pytest.mark.parametrize("built", [True, False])
def test_it_loads_in_a_process_that_has_not_made_its_kernel(built, tmp_path):
    layer = ReuploadingLayer(3, 2, name="upload")
    said = "type(layer).__name__, len(layer.weights)"
    model, printed, found = loaded(layer, X, built, tmp_path, said)
    assert printed.split()[0] == "ReuploadingLayer"
    assert found.shape == (6, 3)
    if built:
        np.testing.assert_allclose(found, model.predict(X, verbose=0), atol=1e-6)


def test_its_name_for_keras_is_of_this_package():
    assert keras.saving.get_registered_name(ReuploadingLayer) == "qml>ReuploadingLayer"
    assert qml.layers.ReuploadingLayer is ReuploadingLayer


def test_other_weights_than_those_of_its_depth_are_refused():
    with pytest.raises(ArgumentError, match="weights of its own"):
        ReuploadingLayer(2, depth=1, weights={"theta": (5, 2, 2)})
