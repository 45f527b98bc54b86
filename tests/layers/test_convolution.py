"""Quanvolution: the geometry is that of Conv2D, the values those of the kernel on every patch."""

import itertools

import jax
import keras
import numpy as np
import pytest
from processes import loaded

import qml
from qml.circuits import library
from qml.errors import ArgumentError, ShapeError
from qml.execution import recorded
from qml.layers import QuantumConv2D, set_backend

RNG = np.random.default_rng(6)
to_numpy = keras.ops.convert_to_numpy


def pixels(count):
    """cos of every feature of a patch."""

    @qml.qkernel(qubits=count)
    def kernel(qc, x):
        for q in range(count):
            qc.rx(x[q], q)
        return [qml.Z(q) for q in range(count)]

    return kernel


def windows(images, size, strides):
    """Of images with channels last, by NumPy: (batch, rows, columns, height, width, channels)."""
    view = np.lib.stride_tricks.sliding_window_view(images, size, axis=(1, 2))
    return view[:, :: strides[0], :: strides[1]].transpose(0, 1, 2, 4, 5, 3)


# Geometry.

GRID = list(itertools.product([1, 2, 3], [1, 2, 3], ["valid", "same"]))


@pytest.mark.parametrize(("size", "stride", "padding"), GRID)
def test_shapes_are_those_of_keras_conv2d(size, stride, padding):
    for height, width, data_format in itertools.product(
        (1, 2, 3, 4, 5, 7), (3, 6), ("channels_last", "channels_first")
    ):
        options = {"strides": (stride, 2), "padding": padding, "data_format": data_format}
        layer = QuantumConv2D((size, 2), kernel=pixels(2 * size), weights={}, **options)
        conv = keras.layers.Conv2D(2 * size, (size, 2), **options)
        for batch in (None, 5):
            shape = (batch, height, width, 1)
            if data_format == "channels_first":
                shape = (batch, 1, height, width)
            if padding == "valid" and height < size:
                with pytest.raises(ValueError):
                    conv.compute_output_shape(shape)
                with pytest.raises(ShapeError, match="height of the images must be at least"):
                    layer.compute_output_shape(shape)
            else:
                assert layer.compute_output_shape(shape) == conv.compute_output_shape(shape)


@pytest.mark.parametrize(("size", "stride", "padding"), GRID)
def test_every_patch_is_where_that_of_keras_conv2d_is(size, stride, padding):
    """A convolution that picks each pixel of a patch out, and a kernel that tells its cosine."""
    channels, options = 2, {"strides": (stride, 1), "padding": padding}
    features = size * 2 * channels
    for height in (3, 4, 5):
        images = RNG.uniform(-1, 1, (2, height, 5, channels)).astype("float32")
        layer = QuantumConv2D(
            (size, 2), kernel=pixels(features), weights={}, channels=channels, **options
        )
        conv = keras.layers.Conv2D(features, (size, 2), use_bias=False, **options)
        conv.build(images.shape)
        conv.set_weights([np.eye(features).reshape(size, 2, channels, features)])
        found = to_numpy(layer(images))
        np.testing.assert_allclose(found, np.cos(to_numpy(conv(images))), atol=1e-5)


def test_channels_first_is_the_same_with_the_axes_moved():
    images = RNG.uniform(-1, 1, (2, 5, 4, 2)).astype("float32")
    options = {"strides": (2, 1), "padding": "same", "channels": 2, "activation": "softmax"}
    last = QuantumConv2D((2, 1), data_format="channels_last", **options)
    first = QuantumConv2D((2, 1), data_format="channels_first", **options)
    moved = images.transpose(0, 3, 1, 2)
    last(images), first(moved)
    first.set_weights(last.get_weights())
    expected = to_numpy(last(images)).transpose(0, 3, 1, 2)
    np.testing.assert_allclose(to_numpy(first(moved)), expected, atol=1e-6)
    np.testing.assert_allclose(expected.sum(axis=1), 1, atol=1e-5)


def test_the_data_format_is_that_of_keras_where_none_is_given():
    assert QuantumConv2D(2).get_config()["data_format"] == "channels_last"
    keras.config.set_image_data_format("channels_first")
    try:
        layer = QuantumConv2D(2)
    finally:
        keras.config.set_image_data_format("channels_last")
    assert layer.compute_output_shape((None, 1, 5, 4)) == (None, 4, 4, 3)


# Values.


def test_the_values_are_those_of_the_kernel_on_every_patch():
    images = RNG.uniform(-1, 1, (2, 5, 4, 1)).astype("float32")
    layer = QuantumConv2D(2, strides=(2, 1), depth=2)
    found = to_numpy(layer(images))
    (theta,) = layer.get_weights()
    assert layer.kernel is library.reuploading(4) and theta.shape == (2, 4, 2)
    patches = windows(images, (2, 2), (2, 1))
    expected = np.zeros((*patches.shape[:3], 4))
    for index in np.ndindex(patches.shape[:3]):
        expected[index] = layer.kernel(patches[index].ravel(), theta)
    assert found.shape == (2, 2, 3, 4)
    np.testing.assert_allclose(found, expected, atol=1e-5)


def test_filters_are_copies_with_weights_of_their_own():
    images = RNG.uniform(-1, 1, (2, 3, 3, 1)).astype("float32")
    kernel = library.iqp(2)
    layer = QuantumConv2D((1, 2), kernel=kernel, units=3)
    found = to_numpy(layer(images))
    fields, couplings = layer.get_weights()
    assert (fields.shape, couplings.shape) == ((3, 1, 2), (3, 1, 1))
    patches = windows(images, (1, 2), (1, 1)).reshape(-1, 2)
    single = [[kernel(p, f, c) for f, c in zip(fields, couplings, strict=True)] for p in patches]
    np.testing.assert_allclose(found.reshape(-1, 6), np.reshape(single, (-1, 6)), atol=1e-5)


def test_whole_numbers_are_images_too():
    images = RNG.integers(0, 4, (2, 3, 3, 1))
    layer = QuantumConv2D(2, padding="same")
    found = to_numpy(layer(images.astype("uint8")))
    np.testing.assert_allclose(found, to_numpy(layer(images.astype("float32"))), atol=1e-6)


def test_all_patches_of_all_images_are_one_request_forward_and_backward(weight_gradient):
    images = RNG.uniform(-1, 1, (3, 4, 5, 1))
    layer = QuantumConv2D(2, depth=1, backend={"kind": "aer", "gradient": "parameter_shift"})
    with recorded() as runs:
        layer(images)
    # 3 images of 3 x 4 patches.
    assert [(run.primitive, run.rows, run.jobs) for run in runs] == [("expval", 36, 1)]
    with recorded() as runs:
        weight_gradient(layer, lambda: keras.ops.sum(layer(images)))
    assert [(run.primitive, run.jobs) for run in runs] == [("expval", 1), ("expval_vjp", 1)]
    assert runs[0].rows == 36
    # Two shifts of each of 8 weights, and of 4 features where these are not known to be constant.
    assert runs[1].rows in (36 * 2 * 8, 36 * 2 * 12)


def test_derivatives_in_the_pixels_are_those_of_the_formula(gradient):
    images = RNG.uniform(-1, 1, (1, 3, 3, 1))
    layer = QuantumConv2D(2, kernel=pixels(4), weights={}, dtype="float64")
    found = to_numpy(gradient(lambda x: keras.ops.sum(layer(x)))(images))
    # How many patches a pixel is in: 1 at corners, 2 at edges, 4 in the middle.
    shared = np.array([[1, 2, 1], [2, 4, 2], [1, 2, 1]])[None, :, :, None]
    np.testing.assert_allclose(found, -shared * np.sin(images), atol=1e-10)


def test_a_frozen_layer_stays_as_it_was_drawn_while_the_others_learn():
    images = RNG.uniform(-1, 1, (8, 4, 4, 1)).astype("float32")
    labels = (images.mean(axis=(1, 2, 3)) > 0).astype("float32")
    layer = QuantumConv2D(2, strides=2, trainable=False)
    model = keras.Sequential(
        [keras.Input((4, 4, 1)), layer, keras.layers.Flatten(), keras.layers.Dense(1)]
    )
    model.compile(keras.optimizers.Adam(0.05), "mse")
    before = [w.copy() for w in model.get_weights()]
    losses = model.fit(images, labels, epochs=10, verbose=0).history["loss"]
    moved = [np.any(a != b) for a, b in zip(before, model.get_weights(), strict=True)]
    assert moved == [False, True, True] and losses[-1] < losses[0]


def test_images_of_any_size_go_through_one_layer():
    layer = QuantumConv2D(2, strides=2)
    symbol = layer(keras.Input((None, None, 1)))
    assert tuple(symbol.shape) == (None, None, None, 4)
    model = keras.Sequential([layer, keras.layers.GlobalAveragePooling2D(), keras.layers.Dense(1)])
    for height, width in ((4, 4), (5, 7), (2, 2)):
        assert model(np.zeros((3, height, width, 1))).shape == (3, 1)


@pytest.mark.skipif(keras.backend.backend() != "tensorflow", reason="of TensorFlow's graphs")
def test_a_graph_for_images_of_any_size_gives_the_same_values():
    import tensorflow as tf

    images = RNG.uniform(-1, 1, (2, 5, 6, 1)).astype("float32")
    for padding in ("valid", "same"):
        layer = QuantumConv2D(2, strides=2 if padding == "valid" else 1, padding=padding)
        expected = to_numpy(layer(images))
        function = tf.function(layer, input_signature=[tf.TensorSpec((None, None, None, 1))])
        np.testing.assert_allclose(to_numpy(function(images)), expected, atol=1e-6)


# What is refused.


def test_images_of_other_axes_or_channels_are_told_what_to_set():
    layer = QuantumConv2D(2, name="quanv")
    with pytest.raises(ShapeError, match=r"quanv: the images must have shape \(batch, height, wid"):
        layer(np.zeros((5, 4, 4)))
    with pytest.raises(ShapeError, match=r"1 channel\(s\).*\(5, 4, 4, 3\). Pass channels=3"):
        layer(np.zeros((5, 4, 4, 3)))
    layer(np.zeros((5, 4, 4, 1)))
    with pytest.raises(ShapeError, match="Pass channels=2"):
        layer(np.zeros((5, 4, 4, 2)))
    with pytest.raises(ShapeError, match="height of the images must be at least .* 2, but is 1"):
        layer(np.zeros((5, 1, 4, 1)))
    first = QuantumConv2D(2, data_format="channels_first")
    with pytest.raises(ShapeError, match=r"\(batch, channels, height, width\).*Pass channels=4"):
        first(np.zeros((5, 4, 4, 1)))


def test_same_padding_with_strides_needs_the_size():
    layer = QuantumConv2D(2, strides=2, padding="same")
    with pytest.raises(ShapeError, match="which is not known. State it"):
        layer(keras.Input((None, 4, 1)))
    assert QuantumConv2D(2, padding="same")(keras.Input((None, 4, 1))).shape == (None, None, 4, 4)


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"kernel_size": 0}, "kernel_size must be an integer of at least 1, got 0"),
        ({"kernel_size": (2, 2, 2)}, "kernel_size must be an integer or two of them"),
        ({"kernel_size": 2.0}, "kernel_size must be"),
        ({"strides": (1, 0)}, "strides must be"),
        ({"strides": "2"}, "strides must be"),
        ({"padding": "sane"}, "padding is 'sane': did you mean 'same'"),
        ({"data_format": "channel_last"}, "data_format is 'channel_last': did you mean"),
        ({"channels": 0}, "channels must be"),
        ({"depth": 0}, "layers must be"),
        ({"kernel": 3}, "made by"),
        ({"kernel": pixels(4)}, "not made by qml.circuits.library"),
        ({"kernel": pixels(4), "weights": {"theta": ()}}, "no argument 'theta'"),
        ({"kernel": library.iqp(4), "weights": {"fields": (1, 4)}}, "2 that are no weights"),
    ],
)
def test_other_options_are_refused_at_once(options, match):
    with pytest.raises(ArgumentError, match=match):
        QuantumConv2D(**{"kernel_size": 2} | options)


def test_a_patch_that_the_kernel_cannot_take_is_named():
    layer = QuantumConv2D(3, kernel=library.reuploading(4))
    with pytest.raises(ShapeError, match=r"'x' must have shape \(4,\), but has shape \(9,\)"):
        layer(np.zeros((2, 5, 5, 1)))


# Copies.


def test_it_moves_to_another_backend():
    images = RNG.uniform(-1, 1, (2, 3, 3, 1))
    layer = QuantumConv2D(2)
    before = to_numpy(layer(images))
    set_backend(layer, "reference")
    with recorded() as runs:
        after = to_numpy(layer(images))
    assert len(runs) == 1
    np.testing.assert_allclose(after, before, atol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("built", [True, pytest.param(False, marks=pytest.mark.full)])
def test_it_loads_in_a_process_that_has_not_made_its_kernel(built, tmp_path):
    images = RNG.uniform(-1, 1, (2, 5, 5, 1)).astype("float32")
    layer = QuantumConv2D(2, strides=(2, 1), kernel=library.matchgate(4), depth=2)
    said = 'type(layer).__name__, layer.get_config()["strides"], layer.kernel.name'
    model, printed, found = loaded(layer, images, built, tmp_path, said)
    assert printed.strip() == f"QuantumConv2D [2, 1] {layer.kernel.name}"
    assert found.shape == (2, 2, 4, 4)
    if built:
        np.testing.assert_allclose(found, model.predict(images, verbose=0), atol=1e-6)


def test_its_name_for_keras_is_of_this_package():
    assert keras.saving.get_registered_name(QuantumConv2D) == "qml>QuantumConv2D"
    assert jax.numpy.shape(QuantumConv2D(1)(np.zeros((2, 3, 3, 1)))) == (2, 3, 3, 1)
