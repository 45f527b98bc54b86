"""The layer: shapes, dtypes, names, and errors, whatever the Keras backend."""

import keras
import numpy as np
import pytest

import qml
from qml.errors import (
    ArgumentError,
    ConfigError,
    DtypeError,
    EngineError,
    ShapeError,
    TracingError,
    UnknownNameError,
)
from qml.execution import recorded
from qml.layers import QuantumLayer

BACKEND = keras.backend.backend()
to_numpy = keras.ops.convert_to_numpy


@qml.qkernel(qubits=1, name="cosine")
def cosine(qc, x):
    qc.rx(x[0], 0)
    return qml.Z(0)


@qml.qkernel(qubits=1, name="shifted cosine")
def shifted_cosine(qc, x, w):
    qc.rx(x[0], 0)
    qc.rx(w, 0)
    return [qml.Z(0)]


@qml.qkernel(qubits=2)
def as_list(qc, x):
    qc.ry(x[0], 0)
    qc.ry(x[1], 1)
    return [qml.Z(0), qml.Z(1)]


@qml.qkernel(qubits=2)
def as_tuple(qc, x):
    qc.ry(x[0], 0)
    qc.ry(x[1], 1)
    return qml.Z(0), qml.Z(1)


@qml.qkernel(qubits=2)
def as_single(qc, x):
    qc.ry(x[0], 0)
    qc.ry(x[1], 1)
    return qml.Z(0)


KERNELS = [as_list, as_tuple, as_single]


@pytest.mark.parametrize("kernel", KERNELS, ids=lambda k: k.__name__)
@pytest.mark.parametrize("batch", [(1,), (3,), (0,), (2, 3), (2, 0, 3), (1, 1)])
def test_outputs_are_the_batch_and_one_axis_of_observables(kernel, batch):
    """CASES 37."""
    x = np.random.default_rng(0).normal(size=(*batch, 2)).astype("float32")
    values = np.asarray(QuantumLayer(kernel, {})(x))
    expected = np.cos(x)[..., : 1 if kernel is as_single else 2]
    assert values.shape == expected.shape
    np.testing.assert_allclose(values, expected, atol=1e-6)


def test_an_empty_batch_has_an_empty_and_a_zero_gradient(gradient, weight_gradient):
    layer = QuantumLayer(shifted_cosine, {"w": ()})
    x = np.zeros((0, 1), "float32")
    assert gradient(lambda x: keras.ops.sum(layer(x)))(x).shape == (0, 1)
    (g,) = weight_gradient(layer, lambda: keras.ops.sum(layer(x)))
    assert g.shape == () and g == 0


@pytest.mark.parametrize("data_axes", [0, 2])
def test_a_sample_has_as_many_axes_as_asked_for(data_axes):
    @qml.qkernel(qubits=1)
    def scalar(qc, x):
        qc.rx(x if data_axes == 0 else x[0, 1], 0)
        return qml.Z(0)

    x = np.random.default_rng(0).normal(size=(5,) if data_axes == 0 else (5, 1, 2))
    values = np.asarray(QuantumLayer(scalar, {}, data_axes=data_axes)(x.astype("float32")))
    expected = np.cos(x if data_axes == 0 else x[:, 0, 1])[:, None]
    np.testing.assert_allclose(values, expected, atol=1e-6)


@pytest.mark.parametrize("shape", [(None, 2), (None, None, 2), (7, None, 2)])
def test_symbolic_calls_know_the_outputs_and_evaluate_nothing(shape):
    """CASES 43: what follows the layer can be built."""
    with recorded() as runs:
        inputs = keras.Input(batch_shape=shape)
        hidden = QuantumLayer(as_list, {})(inputs)
        model = keras.Model(inputs, keras.layers.Dense(3)(hidden))
        model.summary(print_fn=lambda line: None)
    assert hidden.shape == (*shape[:-1], 2)
    assert model.output_shape == (*shape[:-1], 3)
    assert runs == []
    x = np.zeros([4 if n is None else n for n in shape], "float32")
    assert model.predict(x, verbose=0).shape == (*x.shape[:-1], 3)


def test_twelve_weights_bind_by_name(weight_gradient):
    """CASES 8: in text order, 10 and 11 would come before 2."""
    names = [f"w{i}" for i in range(12)]
    lines = [f"def many(qc, x, {', '.join(names)}):", *(f"    qc.rx(w{i}, {i})" for i in range(12))]
    lines += ["    return sum(((i + 1) * qml.Z(i) for i in range(1, 12)), qml.Z(0))"]
    scope = {"qml": qml, "__name__": __name__}
    exec("\n".join(lines), scope)
    kernel = qml.qkernel(qubits=12)(scope["many"])
    layer = QuantumLayer(kernel, {name: () for name in reversed(names)})
    layer.build((None, 1))
    for variable in layer.trainable_variables:
        variable.assign(0.1 * (int(variable.name[1:]) + 1))
    x = np.zeros((1, 1), "float32")
    gradients = weight_gradient(layer, lambda: keras.ops.sum(layer(x)))
    found = {v.name: g for v, g in zip(layer.trainable_variables, gradients, strict=True)}
    for name, right in {"w2": -0.886561, "w10": -9.803281, "w11": -11.184469}.items():
        np.testing.assert_allclose(found[name], right, rtol=1e-5)


def test_weights_of_one_shape_start_at_different_values():
    @qml.qkernel(qubits=1)
    def two(qc, x, v, w):
        qc.rx(x[0] + v[0] + w[0], 0)
        return qml.Z(0)

    layer = QuantumLayer(two, {"v": (3,), "w": (3,)})
    layer.build((None, 1))
    v, w = (np.asarray(variable) for variable in layer.trainable_variables)
    assert not np.intersect1d(v, w).size
    assert np.abs([v, w]).max() < np.pi
    constant = QuantumLayer(two, {"v": (3,), "w": (3,)}, initializer="ones")
    constant.build((None, 1))
    assert all(np.all(np.asarray(v) == 1) for v in constant.trainable_variables)


def test_a_registered_name_stands_for_its_kernel():
    layer = QuantumLayer("cosine", {})
    np.testing.assert_allclose(layer(np.array([[0.5]])), [[np.cos(0.5)]], atol=1e-6)
    with pytest.raises(UnknownNameError, match="'cosin'.*did you mean 'cosine'"):
        QuantumLayer("cosin", {})


# Dtypes: CASES 15 and 39.


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64", "int32", "uint8"])
def test_every_real_input_gives_the_dtype_of_the_layer(dtype):
    x = keras.ops.cast(np.array([[1.0], [2.0]]), dtype)
    values = QuantumLayer(cosine, {})(x)
    assert keras.backend.standardize_dtype(values.dtype) == "float32"
    np.testing.assert_allclose(values, np.cos([[1.0], [2.0]]), atol=1e-6)


@pytest.mark.parametrize("dtype", ["bool", "complex64"])
def test_inputs_that_are_no_angles_are_refused(dtype):
    with pytest.raises(DtypeError, match=f"must be real numbers, got {dtype}"):
        QuantumLayer(cosine, {})(np.ones((1, 1), dtype))


def test_integer_inputs_never_lose_the_gradient_of_the_weights(weight_gradient):
    layer = QuantumLayer(shifted_cosine, {"w": ()}, initializer="zeros")
    x = np.full((1, 1), 1, "int32")
    layer.build(x.shape)
    (g,) = weight_gradient(layer, lambda: keras.ops.sum(layer(x)))
    np.testing.assert_allclose(g, -np.sin(1.0), rtol=1e-6)


@pytest.mark.parametrize("policy", ["mixed_float16", "mixed_bfloat16", "float16", "bfloat16"])
def test_half_precision_policies_leave_the_angles_in_single_precision(policy):
    keras.config.set_dtype_policy(policy)
    layer = QuantumLayer(shifted_cosine, {"w": ()})
    x = np.array([[2.7182818]], "float32")
    w = to_numpy(layer(x) * 0 + layer.trainable_variables[0])[0, 0]
    assert layer.compute_dtype == layer.variable_dtype == "float32"
    np.testing.assert_allclose(to_numpy(layer(x)), np.cos(x + w), atol=2e-7)


def test_half_precision_for_the_layer_itself_is_refused():
    with pytest.raises(
        DtypeError, match="'mixed_float16' computes in float16.*Pass dtype='float32'"
    ):
        QuantumLayer(cosine, {}, dtype="mixed_float16")
    layer = QuantumLayer(cosine, {})
    layer.dtype_policy = "bfloat16"
    with pytest.raises(DtypeError, match="computes in bfloat16.*Set it to 'float32'"):
        layer(np.zeros((1, 1)))


@pytest.mark.parametrize("dtype", ["int32", "uint8", "bool", "bfloat16", "float16"])
def test_a_layer_that_would_not_compute_in_single_or_double_precision_is_refused(dtype):
    with pytest.raises(DtypeError, match=f"'{dtype}' computes in {dtype}"):
        QuantumLayer(cosine, {}, dtype=dtype)
    layer = QuantumLayer(cosine, {})
    layer.dtype_policy = dtype
    with pytest.raises(DtypeError, match=f"now computes in {dtype}"):
        layer(np.zeros((1, 1)))


@pytest.mark.parametrize("how", ["floatx", "policy", "argument"])
def test_double_precision_is_double(how, weight_gradient):
    if how == "floatx":
        keras.config.set_floatx("float64")
        keras.config.set_dtype_policy("float64")
    elif how == "policy":
        keras.config.set_dtype_policy("float64")
    dtype = "float64" if how == "argument" else None
    layer = QuantumLayer(shifted_cosine, {"w": ()}, dtype=dtype)
    x = np.array([[0.3]])
    layer.build(x.shape)
    layer.set_weights([np.array(0.4)])
    values = layer(x)
    assert keras.backend.standardize_dtype(values.dtype) == "float64"
    np.testing.assert_allclose(to_numpy(values), np.cos(x + 0.4), atol=1e-15)
    (g,) = weight_gradient(layer, lambda: keras.ops.sum(layer(x)))
    assert g.dtype == np.float64
    np.testing.assert_allclose(g, -np.sin(0.7), atol=1e-15)


def test_the_gradient_in_single_precision_is_that_in_double(weight_gradient):
    rng = np.random.default_rng(1)
    x, w = rng.normal(size=(16, 1)), rng.normal()
    gradients = []
    for dtype in ("float32", "float64"):
        layer = QuantumLayer(shifted_cosine, {"w": ()}, dtype=dtype)
        layer.build(x.shape)
        layer.set_weights([np.array(w)])
        gradients += weight_gradient(layer, lambda layer=layer: keras.ops.mean(layer(x)))
    np.testing.assert_allclose(*gradients, atol=1e-6)


# Bad input.


def test_inputs_of_another_size_than_built_for_are_refused():
    layer = QuantumLayer(as_list, {})
    layer(np.zeros((1, 2)))
    with pytest.raises(ShapeError, match=r"argument 'x' of .* shape \(3,\).* built for \(2,\)"):
        layer(np.zeros((1, 3)))
    np.testing.assert_allclose(layer(np.zeros((1, 2))), [[1, 1]], atol=1e-6)


def test_inputs_without_a_batch_are_refused():
    with pytest.raises(ShapeError, match=r"have shape \(2,\)"):
        QuantumLayer(as_list, {})(np.zeros(2))


def test_a_kernel_that_cannot_be_traced_with_the_features_says_so_when_built():
    with pytest.raises(TracingError, match=r"as_list.* with x: \(1,\)"):
        QuantumLayer(as_list, {}).build((None, 1))


def test_unknown_weights_and_backends_are_refused():
    with pytest.raises(ArgumentError, match="no argument 'v' to be a weight"):
        QuantumLayer(shifted_cosine, {"v": ()})
    with pytest.raises(UnknownNameError, match="'refrence'"):
        QuantumLayer(cosine, {}, backend="refrence")
    with pytest.raises(ConfigError, match="gradient"):
        QuantumLayer(cosine, {}, gradient="parameter-shift")


@pytest.mark.parametrize("kernel", [None, 3, lambda qc, x: qml.Z(0), QuantumLayer])
def test_what_is_no_kernel_is_refused(kernel):
    with pytest.raises(ArgumentError, match=r"kernel must be a function decorated by @qkernel"):
        QuantumLayer(kernel, {})


@pytest.mark.parametrize("built", [True, False])
@pytest.mark.parametrize(
    "inputs",
    [
        [np.zeros((1, 1)), np.zeros((1, 1))],
        {"y": np.zeros((1, 1))},
        {"x": np.zeros((1, 1)), "y": np.zeros((1, 1))},
        {},
        None,
        [[0.1]],
        0.1,
    ],
)
def test_inputs_that_are_not_one_array_are_refused(inputs, built):
    layer = QuantumLayer(cosine, {})
    if built:
        layer.build((None, 1))
    with pytest.raises(ArgumentError, match=r"one array of inputs is expected.* 'x' of cosine"):
        layer(inputs)
    with pytest.raises(ArgumentError, match=r"one array of inputs.*got a list"):
        layer([keras.Input((1,)), keras.Input((1,))])


@pytest.mark.skipif(BACKEND != "tensorflow", reason="TensorFlow alone knows unknown ranks")
@pytest.mark.parametrize("built", [True, False])
def test_inputs_with_an_unknown_number_of_axes_are_refused(built):
    import tensorflow as tf

    layer = QuantumLayer(cosine, {})
    if built:
        layer.build((None, 1))
    with pytest.raises(ShapeError, match="known number of axes, but have shape <unknown>"):
        tf.function(layer.__call__, autograph=False).get_concrete_function(tf.TensorSpec(None))


# Masks.


def test_a_mask_over_the_batch_reaches_the_layer_behind():
    x = np.array([[[1.0], [0.0], [2.0]]], "float32")
    masked = keras.layers.Masking()(x)
    values = QuantumLayer(cosine, {})(masked)
    np.testing.assert_array_equal(keras.src.backend.get_keras_mask(values), [[True, False, True]])
    pooled = keras.layers.GlobalAveragePooling1D()(values)
    np.testing.assert_allclose(pooled, [[(np.cos(1) + np.cos(2)) / 2]], atol=1e-6)


def test_a_mask_that_reaches_into_the_samples_ends_with_a_warning():
    @qml.qkernel(qubits=1)
    def rows(qc, x):
        qc.rx(x[0, 0], 0)
        return qml.Z(0)

    masked = keras.layers.Masking()(np.ones((2, 3, 1), "float32"))
    with pytest.warns(UserWarning, match="does not support masking"):
        values = QuantumLayer(rows, {}, data_axes=2)(masked)
    assert keras.src.backend.get_keras_mask(values) is None


# Which backend runs: DESIGN 12.1.


def kinds(function):
    with recorded() as runs:
        function()
    return {run.kind for run in runs}


X = np.zeros((2, 1), "float32")


def test_the_backend_is_the_argument_else_the_ambient_one_at_construction(monkeypatch):
    assert QuantumLayer(cosine, {}).backend.kind == "statevector"
    monkeypatch.setenv("QML_BACKEND", "aer")
    from_environment = QuantumLayer(cosine, {})
    monkeypatch.delenv("QML_BACKEND")
    with qml.use({"kind": "aer", "seed": 5}):
        from_block = QuantumLayer(cosine, {}, gradient="parameter_shift")
        from_argument = QuantumLayer(cosine, {}, backend="reference")
    assert from_environment.backend.kind == "aer"
    assert from_block.backend.seed == 5 and from_block.backend.gradient == "parameter_shift"
    assert kinds(lambda: from_environment(X)) == kinds(lambda: from_block(X)) == {"aer"}
    assert kinds(lambda: from_argument(X)) == {"reference"}


def test_a_later_use_has_no_effect():
    with qml.use("reference"):
        layer = QuantumLayer(cosine, {})
    with qml.use("aer"):
        assert kinds(lambda: layer(X)) == {"reference"}


# Shots.


def test_shots_draw_anew_at_every_call_and_alike_in_every_program():
    def program():
        keras.utils.clear_session(free_memory=False)
        layer = QuantumLayer(cosine, {}, backend={"kind": "aer", "shots": 50, "seed": 3})
        model = keras.Sequential([keras.Input((1,)), layer])
        x = np.full((4, 1), 1.2)
        return [model.predict(x, verbose=0) for _ in range(3)]

    first, second = program(), program()
    assert not np.array_equal(first[0], first[1]) and not np.array_equal(first[1], first[2])
    np.testing.assert_array_equal(first, second)
    np.testing.assert_allclose(np.mean(first), np.cos(1.2), atol=5 / np.sqrt(12 * 50))


def test_angles_that_are_not_finite_cost_no_shots_and_the_next_call_is_right():
    layer = QuantumLayer(cosine, {}, backend={"kind": "aer", "shots": 1000})
    with recorded() as runs:
        with pytest.raises(Exception, match="NaN or infinity; nothing was sent") as caught:
            np.asarray(layer(np.array([[np.nan]])))
        assert runs == []
        assert isinstance(caught.value, EngineError) or BACKEND == "tensorflow"
        np.testing.assert_allclose(np.asarray(layer(np.array([[0.0]]))), 1.0)
