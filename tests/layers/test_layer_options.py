"""What a layer can be told: several inputs or none, copies, functions of outputs."""

import inspect
import json

import keras
import numpy as np
import pytest

import qml
from qml.errors import ArgumentError, ConfigError, KernelNameError, ShapeError
from qml.execution import recorded
from qml.layers import QuantumLayer

to_numpy = keras.ops.convert_to_numpy
RNG = np.random.default_rng(3)


@qml.qkernel(qubits=2, name="test_layer_options.driven")
def driven(qc, x, field, w, scale=2.0):
    """cos(x0 + w0 + scale field), cos(x1 w1)"""
    qc.rx(x[0] + w[0] + scale * field, 0)
    qc.rx(x[1] * w[1], 1)
    return [qml.Z(0), qml.Z(1)]


def formula(x, field, w, scale=2.0):
    first = np.cos(x[..., 0] + w[..., 0] + scale * field)
    return np.stack([first, np.cos(x[..., 1] * w[..., 1])], axis=-1)


@qml.qkernel(qubits=1, name="test_layer_options.single")
def single(qc, x, w):
    qc.rx(x[0] + w, 0)
    return qml.Z(0)


@qml.qkernel(qubits=2, name="test_layer_options.prepared")
def prepared(qc, w):
    """cos(w0), cos(w0) cos(w1)"""
    qc.rx(w[0], 0)
    qc.rx(w[1], 1)
    return [qml.Z(0), qml.Z(0) @ qml.Z(1)]


AXES = {"x": 1, "field": 0}
X = RNG.normal(size=(5, 2)).astype("float32")
FIELD = RNG.normal(size=5).astype("float32")
INPUTS = {"x": X, "field": FIELD}


def driven_layer(**options):
    return QuantumLayer(driven, {"w": (2,)}, data_axes=AXES, backend="reference", **options)


# Several inputs.


def test_several_inputs_are_given_by_name_in_any_order():
    layer = driven_layer()
    with recorded() as runs:
        found = to_numpy(layer({"field": FIELD, "x": X}))
    (w,) = (to_numpy(v) for v in layer.trainable_variables)
    np.testing.assert_allclose(found, formula(X, FIELD, w), atol=1e-6)
    assert [(run.primitive, run.rows) for run in runs] == [("expval", 5)]


def test_inputs_have_any_number_of_batch_axes_together():
    layer = driven_layer()
    x, field = RNG.normal(size=(2, 3, 2)), RNG.normal(size=(2, 3))
    found = to_numpy(layer({"x": x, "field": field}))
    (w,) = (to_numpy(v) for v in layer.trainable_variables)
    assert found.shape == (2, 3, 2)
    np.testing.assert_allclose(found, formula(x, field, w), atol=1e-6)


def test_an_argument_with_a_default_is_an_input_only_if_named():
    scaled = QuantumLayer(driven, {"w": (2,)}, data_axes=AXES | {"scale": 0}, initializer="zeros")
    scale = np.array([0.0, 1.0, 2.0, 3.0, -1.0], "float32")
    found = to_numpy(scaled(INPUTS | {"scale": scale}))
    np.testing.assert_allclose(found, formula(X, FIELD, np.zeros(2), scale), atol=1e-6)
    plain = driven_layer(initializer="zeros")
    with pytest.raises(ArgumentError, match="names 'x', 'field', got 'x', 'field', 'scale' by nam"):
        plain(INPUTS | {"scale": scale})


def test_one_input_may_be_given_by_name_too():
    layer = QuantumLayer(single, {"w": ()})
    np.testing.assert_array_equal(to_numpy(layer({"x": X[:, :1]})), to_numpy(layer(X[:, :1])))


@pytest.mark.parametrize(
    "inputs", [X, [X, FIELD], {"x": X}, {"x": X, "feild": FIELD}, None], ids=type
)
def test_inputs_that_are_not_those_of_the_kernel_are_refused(inputs):
    with pytest.raises(ArgumentError, match="expected as a dict with the names 'x', 'field', got"):
        driven_layer()(inputs)


def test_batches_of_other_sizes_are_refused():
    for layer in (driven_layer(), driven_layer()):
        with pytest.raises(ShapeError, match=r"those of 'x' are \(5,\), .* 'field' are \(4,\)"):
            layer({"x": X, "field": FIELD[:4]})
    layer(INPUTS)
    with pytest.raises(ShapeError, match=r"those of 'x' are \(5,\), .* 'field' are \(5, 1\)"):
        layer({"x": X, "field": FIELD[:, None]})


def two_inputs(layer):
    inputs = {
        name: keras.Input(shape, name=name) for name, shape in {"x": (2,), "field": ()}.items()
    }
    front = keras.layers.Dense(2, "tanh")(inputs["x"])
    outputs = keras.layers.Dense(1)(layer({"x": front, "field": inputs["field"]}))
    return keras.Model(inputs, outputs)


def test_a_functional_model_of_several_inputs_trains_saves_and_is_cloned(tmp_path):
    model = two_inputs(driven_layer(units=2))
    model.compile("adam", "mse")
    before = [v.numpy() for v in model.trainable_variables]
    model.fit(INPUTS, np.ones((5, 1)), batch_size=2, verbose=0)
    after = [v.numpy() for v in model.trainable_variables]
    assert all(np.any(a != b) for a, b in zip(before, after, strict=True))
    model.save(tmp_path / "model.keras")
    again = keras.saving.load_model(tmp_path / "model.keras")
    np.testing.assert_array_equal(
        again.predict(INPUTS, verbose=0), model.predict(INPUTS, verbose=0)
    )
    clone = keras.models.clone_model(model)
    assert clone.output_shape == (None, 1) and clone.count_params() == model.count_params()


def test_every_input_has_its_gradient(gradient):
    layer = driven_layer(dtype="float64", initializer="zeros")
    slope = gradient(lambda f: keras.ops.sum(layer({"x": X.astype("float64"), "field": f})))
    field = FIELD.astype("float64")
    np.testing.assert_allclose(to_numpy(slope(field)), -2 * np.sin(X[:, 0] + 2 * field), atol=1e-6)


@pytest.mark.parametrize("masked", [["x"], ["field"], ["x", "field"]], ids=str)
def test_a_sample_is_masked_where_any_of_its_inputs_is(masked):
    masks = {"x": [[True, False], [True, True]], "field": [[False, True], [True, True]]}
    inputs = {"x": RNG.normal(size=(2, 2, 2)), "field": RNG.normal(size=(2, 2))}
    inputs = {name: keras.ops.cast(array, "float32") for name, array in inputs.items()}
    for name in masked:
        mask = keras.ops.convert_to_tensor(masks[name])
        keras.src.backend.set_keras_mask(inputs[name], mask)
    found = keras.src.backend.get_keras_mask(driven_layer()(inputs))
    np.testing.assert_array_equal(to_numpy(found), np.all([masks[n] for n in masked], axis=0))


# No inputs.


def test_a_kernel_without_data_is_called_without_inputs(weight_gradient):
    layer = QuantumLayer(prepared, {"w": (2,)})
    values = to_numpy(layer())
    (w,) = (v.numpy() for v in layer.trainable_variables)
    expected = [np.cos(w[0]), np.cos(w[0]) * np.cos(w[1])]
    np.testing.assert_allclose(values, expected, atol=1e-6)
    (g,) = weight_gradient(layer, lambda: keras.ops.sum(layer()))
    slopes = [-np.sin(w[0]) * (1 + np.cos(w[1])), -np.cos(w[0]) * np.sin(w[1])]
    np.testing.assert_allclose(g, slopes, atol=1e-6)
    assert layer.compute_output_shape() == (2,)
    with pytest.raises(ArgumentError, match="has no argument for data, .* without any"):
        layer(X)


class Prepared(keras.Model):
    """The features weighted by the state of a circuit that reads no data."""

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.weighting = QuantumLayer(prepared, {"w": (2,)}, units=2)

    def call(self, x):
        return keras.ops.matmul(x, keras.ops.reshape(self.weighting(), (2, 2)))


def test_a_model_with_a_kernel_without_data_trains_and_keeps_its_weights(tmp_path):
    model = Prepared()
    model.compile(keras.optimizers.SGD(0.1), "mse")
    losses = model.fit(X, 0.5 * X, epochs=5, verbose=0).history["loss"]
    assert losses[-1] < losses[0]
    model.save_weights(tmp_path / "model.weights.h5")
    again = Prepared()
    again(X)
    again.load_weights(tmp_path / "model.weights.h5")
    np.testing.assert_array_equal(to_numpy(again(X)), to_numpy(model(X)))


# Copies.


def test_copies_have_weights_of_their_own_and_outputs_one_after_the_other():
    layer = driven_layer(units=3)
    with recorded() as runs:
        found = to_numpy(layer(INPUTS))
    (w,) = (v.numpy() for v in layer.trainable_variables)
    assert w.shape == (3, 2) and layer.count_params() == 6 and layer.units == 3
    expected = np.concatenate([formula(X, FIELD, w[i]) for i in range(3)], axis=-1)
    np.testing.assert_allclose(found, expected, atol=1e-6)
    assert len(np.unique(w)) == 6
    assert [(run.primitive, run.rows) for run in runs] == [("expval", 15)]
    assert layer.compute_output_shape({"x": (None, 2), "field": (None,)}) == (None, 6)


def test_a_step_of_copies_is_one_request_forward_and_one_backward():
    model = keras.Sequential(
        [keras.Input((1,)), QuantumLayer(single, {"w": ()}, units=4, backend="reference")]
    )
    model.compile("sgd", "mse")
    with recorded() as runs:
        model.train_on_batch(X[:, :1], np.ones((5, 4)))
    assert [run.primitive for run in runs] == ["expval", "expval_vjp"]


def test_copies_that_draw_do_not_draw_alike():
    backend = {"kind": "aer", "shots": 200}
    layer = QuantumLayer(single, {"w": ()}, units=8, backend=backend, initializer="zeros")
    values = to_numpy(layer(np.full((1, 1), 1.2)))
    assert len(np.unique(values)) > 3
    np.testing.assert_allclose(values.mean(), np.cos(1.2), atol=5 / np.sqrt(1600))


@pytest.mark.parametrize("units", [0, -1, 2.0, True, "2"])
def test_units_that_are_no_count_are_refused(units):
    with pytest.raises(ArgumentError, match="units counts copies"):
        QuantumLayer(single, {"w": ()}, units=units)


# Functions of the outputs.


@keras.saving.register_keras_serializable("test_layer_options")
def contrast(values):
    """(..., 2) -> (..., 1)"""
    return values[..., :1] * values[..., 1:] - 1


def test_an_activation_is_applied_to_the_outputs_and_saved_by_name():
    layer = driven_layer(activation="softmax", initializer="ones")
    weighed = np.exp(formula(X, FIELD, np.ones(2)))
    expected = weighed / weighed.sum(axis=-1, keepdims=True)
    np.testing.assert_allclose(to_numpy(layer(INPUTS)), expected, atol=1e-6)
    assert layer.get_config()["activation"] == "softmax"


def test_a_function_of_expectation_values_is_part_of_the_model(tmp_path):
    layer = driven_layer(activation=contrast, initializer="ones")
    expected = np.prod(formula(X, FIELD, np.ones(2)), axis=-1, keepdims=True) - 1
    np.testing.assert_allclose(to_numpy(layer(INPUTS)), expected, atol=1e-6)
    assert layer.compute_output_shape({"x": (None, 2), "field": (None,)}) == (None, 1)
    model = two_inputs(driven_layer(activation=contrast))
    model.save(tmp_path / "model.keras")
    again = keras.saving.load_model(tmp_path / "model.keras")
    assert again.layers[-2].get_config()["activation"] == layer.get_config()["activation"]
    np.testing.assert_array_equal(
        again.predict(INPUTS, verbose=0), model.predict(INPUTS, verbose=0)
    )


def test_a_lambda_works_and_is_not_saved():
    layer = QuantumLayer(single, {"w": ()}, activation=lambda values: 2 * values)
    plain = QuantumLayer(single, {"w": ()}, initializer="zeros")
    layer.build((None, 1))
    layer.set_weights([np.zeros(())])
    np.testing.assert_allclose(to_numpy(layer(X[:, :1])), 2 * to_numpy(plain(X[:, :1])), rtol=1e-6)
    with pytest.raises(ArgumentError, match="activation is a lambda, .* a name by def"):
        layer.get_config()


HOSTILE = [
    {"module": "os", "class_name": "function", "config": "system", "registered_name": "function"},
    {"module": "os", "class_name": "system", "config": {"command": "true"}},
    {
        "class_name": "__lambda__",
        "config": {"value": "4wEAAAA=", "defaults": None, "closure": None},
    },
]


@pytest.mark.parametrize("hostile", HOSTILE)
@pytest.mark.parametrize("place", ["activation", "initializer", "regularizer", "constraint"])
def test_a_configuration_that_names_foreign_code_is_refused(place, hostile):
    config = QuantumLayer(single, {"w": ()}).get_config()
    for given in (hostile, {"w": hostile}):
        with pytest.raises((TypeError, ValueError)):
            QuantumLayer.from_config(config | {place: given})


# What Keras asks of every layer.

LAYERS = {
    "single": (lambda: QuantumLayer(single, {"w": ()}), (2, 1), 1, 1),
    "copies": (lambda: QuantumLayer(single, {"w": ()}, units=3), (2, 4, 1), 3, 3),
    "several inputs": (driven_layer, {"x": (2, 2), "field": (2,)}, 2, 2),
    "activation": (lambda: driven_layer(activation=contrast), {"x": (2, 2), "field": (2,)}, 2, 1),
    "double": (lambda: QuantumLayer(single, {"w": ()}, dtype="float64"), (2, 1), 1, 1),
}


def arrays(shapes):
    if isinstance(shapes, dict):
        return {name: RNG.normal(size=shape) for name, shape in shapes.items()}
    return RNG.normal(size=shapes)


@pytest.mark.parametrize("name", LAYERS)
def test_shapes_dtypes_counts_copies_and_a_training_step_are_as_of_any_layer(name):
    make, shapes, weights, outputs = LAYERS[name]
    layer, inputs = make(), arrays(shapes)
    x = to_numpy(layer(inputs))
    leading = (shapes["x"] if isinstance(shapes, dict) else shapes)[:-1]
    assert x.shape == (*leading, outputs) == tuple(layer.compute_output_shape(shapes))
    assert x.dtype == layer.compute_dtype
    assert layer.count_params() == weights
    assert len(layer.trainable_variables) == 1
    assert [v.dtype for v in layer.trainable_variables] == [layer.variable_dtype]
    config = json.loads(json.dumps(layer.get_config()))
    assert set(inspect.signature(QuantumLayer).parameters) - {"kwargs", "gradient"} <= set(config)
    again = QuantumLayer.from_config(config)
    again.build(shapes)
    again.set_weights(layer.get_weights())
    assert again.get_config() == layer.get_config()
    np.testing.assert_array_equal(to_numpy(again(inputs)), x)
    symbols = keras.tree.map_structure(lambda a: keras.Input(batch_shape=a.shape), inputs)
    symbolic = make()(symbols)
    assert symbolic.shape == x.shape and symbolic.dtype == x.dtype
    trained = keras.Sequential([layer]) if not isinstance(shapes, dict) else Wrapped(layer)
    trained.compile(keras.optimizers.SGD(0.5), "mse")
    before = [v.numpy() for v in layer.trainable_variables]
    trained.train_on_batch(inputs, np.zeros(x.shape))
    moved = [np.any(v.numpy() != w) for v, w in zip(layer.trainable_variables, before, strict=True)]
    assert moved == [True]


class Wrapped(keras.Model):
    def __init__(self, layer):
        super().__init__()
        self.inner = layer

    def call(self, inputs):
        return self.inner(inputs)


def test_a_summary_lists_the_layer_its_shape_and_its_weights():
    lines = []
    two_inputs(driven_layer(units=3, name="drive")).summary(print_fn=lines.append)
    text = "\n".join(lines)
    row = next(line for line in text.splitlines() if "drive" in line)
    assert "(None, 6)" in row and " 6 " in row


def test_a_drawing_of_a_model_shows_the_layer_and_its_shapes():
    pytest.importorskip("pydot", reason="Keras draws with pydot")
    graph = keras.utils.model_to_dot(two_inputs(driven_layer(units=3)), show_shapes=True)
    text = graph.to_string()
    assert "QuantumLayer" in text and "(None, 6)" in text


def test_a_configuration_for_other_arguments_is_refused():
    layer = driven_layer()
    layer(INPUTS)
    config = layer.get_config()
    for samples, error in (
        ({"x": [2]}, KernelNameError),
        ({"x": [2], "y": []}, ConfigError),
        ({"x": [3], "field": [1]}, ConfigError),
    ):
        with pytest.raises(error, match="writes another circuit|the file was changed"):
            QuantumLayer.from_config(config | {"sample_shapes": samples})
