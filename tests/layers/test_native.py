"""The xla engine as a part of TensorFlow's graphs: compiled by XLA, never stale."""

import keras
import numpy as np
import pytest

import qml
from qml.errors import EngineError
from qml.execution import recorded
from qml.layers import QuantumLayer, set_backend

if keras.backend.backend() != "tensorflow":
    pytest.skip("graphs of TensorFlow, on Keras' TensorFlow backend", allow_module_level=True)

import tensorflow as tf

HOST = {"PyFunc", "PyFuncStateless", "EagerPyFunc"}
"""Operations that call Python."""


@qml.qkernel(qubits=1, name="test_native.wave")
def wave(qc, x, w):
    qc.rx(x[0] + w, 0)
    return qml.Z(0)


@qml.qkernel(qubits=2, name="test_native.entangled")
def entangled(qc, x, y, theta):
    for q in range(2):
        qc.ry(x[q], q)
        qc.rz(theta[q, 0] * y[0], q)
        qc.rx(theta[q, 1], q)
    qc.cx(0, 1)
    return [qml.Z(0), "XY", qml.probs(1)]


def layer(**options):
    return QuantumLayer(wave, {"w": ()}, initializer=keras.initializers.Constant(0.4), **options)


def operations(function):
    """The kinds of operations in a concrete function, and in all functions that it calls."""
    definition = function.graph.as_graph_def()
    nodes = [*definition.node, *(n for f in definition.library.function for n in f.node_def)]
    return {node.op for node in nodes}


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_every_order_is_native_and_right_for_batches_of_any_size(compiled, dtype):
    cosine = layer(backend="xla", dtype=dtype)

    @tf.function(jit_compile=compiled, input_signature=[tf.TensorSpec([None, 1], dtype)])
    def derivatives(x):
        with tf.GradientTape() as third:
            third.watch(x)
            with tf.GradientTape() as second:
                second.watch(x)
                with tf.GradientTape() as first:
                    first.watch(x)
                    value = cosine(x)
                slope = first.gradient(value, x)
            curvature = second.gradient(slope, x)
        by_weight = third.gradient(curvature, cosine.trainable_variables[0].value)
        return value, slope, curvature, by_weight

    tolerance = 1e-6 if dtype == "float32" else 1e-13
    with recorded() as runs:
        for size in (1, 3, 4):
            x = np.linspace(-1, 2, size)[:, None]
            found = derivatives(tf.constant(x, dtype))
            a = x + np.float32(0.4)
            right = np.cos(a), -np.sin(a), -np.cos(a), np.sin(a).sum()
            for one, other in zip(found, right, strict=True):
                np.testing.assert_allclose(one, other, atol=size * tolerance)
    assert runs == []
    kinds = operations(derivatives.get_concrete_function())
    assert "XlaCallModule" in kinds and not kinds & HOST


def test_two_inputs_and_copies_agree_with_another_engine_in_value_and_slope():
    x, y = np.random.default_rng(0).normal(size=(2, 3, 5, 2)).astype("float32")
    made = [
        QuantumLayer(entangled, {"theta": (2, 2)}, units=3, data_axes=1, backend=backend)
        for backend in ("xla", "reference")
    ]
    inputs = {"x": tf.constant(x), "y": tf.constant(y[..., :1])}
    for one in made:
        one.build({"x": (None, None, 2), "y": (None, None, 1)})
    made[0].set_weights(made[1].get_weights())
    found = []
    for one in made:

        @tf.function(jit_compile=one is made[0])
        def both(x, y, one=one):
            with tf.GradientTape() as tape:
                tape.watch([x, y])
                values = one({"x": x, "y": y})
                loss = tf.reduce_sum(values**2)
            return values, tape.gradient(loss, [x, y, one.trainable_variables[0].value])

        specs = [tf.TensorSpec([None, None, 2]), tf.TensorSpec([None, 5, 1])]
        both = both.get_concrete_function(*specs)
        found.append(tf.nest.flatten(both(**inputs)))
    assert found[0][0].shape == (3, 5, 12)
    for one, other in zip(*found, strict=True):
        np.testing.assert_allclose(one, other, atol=1e-5)


X = np.random.default_rng(1).normal(size=(20, 1)).astype("float32")
Y = np.cos(X + 1)


def model(backend, **options):
    made = keras.Sequential([keras.Input((1,)), layer(backend=backend)])
    made.compile(keras.optimizers.SGD(0.1), "mse", **options)
    return made


def losses(made, **options):
    return made.fit(X, Y, batch_size=8, shuffle=False, verbose=0, **options).history["loss"]


@pytest.mark.parametrize("steps", [1, 3])
def test_a_model_trains_compiled_by_xla_as_it_does_on_another_engine(steps):
    native = model("xla", jit_compile=True, steps_per_execution=steps)
    assert native.jit_compile
    other = model("reference")
    with recorded() as runs:
        curve = losses(native, epochs=3)
    assert runs == []
    np.testing.assert_allclose(curve, losses(other, epochs=3), rtol=1e-5)
    np.testing.assert_allclose(native.predict(X, verbose=0), other.predict(X, verbose=0), atol=1e-6)


def kinds(function):
    with recorded() as runs:
        function()
    return {run.kind for run in runs}


NATIVELY = set()
"""Kinds of engines that this process is asked for when graphs run on their own."""


@pytest.mark.parametrize("steps", [1, 2])
def test_a_model_moves_to_the_native_engine_and_back(steps):
    made = model("xla", steps_per_execution=steps)
    calls = [
        lambda: losses(made),
        lambda: made.evaluate(X, Y, verbose=0),
        lambda: made.predict(X, verbose=0),
    ]
    for kind, seen in (("xla", NATIVELY), ("aer", {"aer"}), ("xla", NATIVELY)):
        set_backend(made, kind)
        assert [kinds(call) for call in calls] == 3 * [seen]


def test_a_model_compiled_by_xla_says_that_it_goes_on_without():
    made = model("xla", jit_compile=True)
    losses(made)
    with pytest.warns(UserWarning, match="jit_compile=False"):
        set_backend(made, "reference")
    assert kinds(lambda: losses(made)) == {"reference"}


def test_a_training_moves_from_the_native_engine_in_a_callback():
    made = model("xla")
    move = keras.callbacks.LambdaCallback(on_epoch_end=lambda *_: set_backend(made, "reference"))
    with recorded() as runs:
        curve = losses(made, epochs=2, callbacks=[move])
    assert {run.kind for run in runs} == {"reference"}
    np.testing.assert_allclose(curve, losses(model("reference"), epochs=2), rtol=1e-5)


def plain(cosine):
    return lambda x: cosine(x)


def nested(cosine):
    inner = tf.function(lambda x: cosine(x))
    return lambda x: inner(x)


def compiled_within(cosine):
    inner = tf.function(lambda x: cosine(x), jit_compile=True)
    return lambda x: inner(x)


def traced_by_another(cosine):
    inner = tf.function(lambda x: cosine(x))
    tf.function(lambda x: looping(lambda: inner(x)))(tf.constant(X[:2]))
    return lambda x: inner(x)


def looping(function):
    def body(i, total):
        return i + 1, total + tf.cond(i < 1, function, lambda: tf.zeros((2, 1)))

    return tf.while_loop(lambda i, _: i < 3, body, [0, tf.zeros((2, 1))])[1]


def in_a_loop(cosine):
    return lambda x: looping(lambda: cosine(x))


def called_in_a_loop(cosine):
    inner = tf.function(lambda x: cosine(x))
    inner(tf.constant(X[:2]))
    return lambda x: looping(lambda: inner(x))


WAYS = [plain, nested, compiled_within, traced_by_another, in_a_loop, called_in_a_loop]


@pytest.mark.parametrize("way", WAYS)
def test_a_function_that_holds_the_engine_does_not_run_once_the_layer_has_moved(way):
    cosine = layer(backend="xla")
    function = way(cosine)
    run = tf.function(function)
    x = tf.constant(X[:2])
    before = run(x).numpy()
    np.testing.assert_allclose(before, np.cos(X[:2] + 0.4), atol=1e-6)
    set_backend(cosine, "reference")
    with pytest.raises(EngineError, match="moved to the 'reference' engine.*function anew"):
        run(x)
    set_backend(cosine, "xla")
    np.testing.assert_array_equal(run(x), before)
    if way is not compiled_within:
        set_backend(cosine, "reference")
        np.testing.assert_allclose(tf.function(way(cosine))(x), before, atol=1e-6)


def test_the_model_around_a_part_that_moved_is_told_to_be_compiled_anew():
    inner = keras.Sequential([keras.Input((1,)), layer(backend="xla")])
    outer = keras.Sequential([keras.Input((1,)), inner])
    outer.compile("sgd", "mse")
    losses(outer)
    set_backend(inner, "reference")
    with pytest.raises(EngineError, match="outermost model"):
        losses(outer)
    set_backend(outer, "reference")
    assert kinds(lambda: losses(outer)) == {"reference"}


def test_a_function_traced_on_another_engine_follows_to_this_one():
    cosine = layer(backend="reference")
    run = tf.function(lambda x: cosine(x))
    x = tf.constant(X)
    before = run(x).numpy()
    traces = run.experimental_get_tracing_count()
    set_backend(cosine, "xla")
    np.testing.assert_allclose(run(x), before, atol=1e-6)
    assert run.experimental_get_tracing_count() == traces


def test_another_engine_is_not_compiled_by_xla():
    cosine = layer(backend="aer")
    assert not cosine.supports_jit and layer(backend="xla").supports_jit
    run = tf.function(lambda x: cosine(x), jit_compile=True, autograph=False)
    with pytest.raises(EngineError, match="'aer' engine.*set_backend.model, 'xla'"):
        run(tf.constant(X))


def test_eager_calls_and_a_jacobian_are_right_too():
    cosine = layer(backend="xla")
    x = tf.constant(X[:3])
    with tf.GradientTape(persistent=True) as tape:
        tape.watch(x)
        value = cosine(x)
    jacobian = tf.reshape(tape.jacobian(value, x), (3, 3))
    np.testing.assert_allclose(jacobian, np.diag(-np.sin(X[:3, 0] + 0.4)), atol=1e-6)

    @tf.function
    def in_a_graph(x):
        with tf.GradientTape() as tape:
            tape.watch(x)
            value = cosine(x)
        return tape.jacobian(value, x)

    np.testing.assert_allclose(tf.reshape(in_a_graph(x), (3, 3)), jacobian, atol=1e-6)


def test_a_function_of_the_users_own_is_saved_with_the_engine_in_it(tmp_path):
    cosine = layer(backend="xla")
    x = tf.constant(X[:4])
    cosine(x)
    module = tf.Module()
    module.kept = [variable.value for variable in cosine.variables]
    module.call = tf.function(
        lambda x: cosine(x), input_signature=[tf.TensorSpec([None, 1])], autograph=False
    )
    before = module.call(x).numpy()
    tf.saved_model.save(module, str(tmp_path / "saved"))
    loaded = tf.saved_model.load(str(tmp_path / "saved"))
    np.testing.assert_array_equal(loaded.call(x), before)
