"""Binding a kernel to data and weights: by name, one argument left over."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import qml
from qml.config import resolve
from qml.errors import ArgumentError, ShapeError
from qml.layers.batch import BatchedKernel

REFERENCE = resolve("reference")


@qml.qkernel(qubits=1)
def positional(qc, a, /, z, *, depth=1):
    qc.rx(z[0], 0)
    qc.rz(0.4, 0)
    for _ in range(depth):
        qc.rx(a, 0)
    return qml.Y(0)


def test_names_bind_and_not_their_order_or_place():
    """CASES 9: swapped, the value would be -0.918241."""
    batched = BatchedKernel.of(positional, {"a": ()}, 1)
    (values,) = batched.on(REFERENCE)(None, jnp.array([[0.3]]), jnp.array(1.1))
    assert values.shape == (1, 1)
    np.testing.assert_allclose(values, -0.974868, atol=1e-6)


def test_an_argument_with_a_default_is_left_alone():
    batched = BatchedKernel.of(positional, {"a": ()}, 1)
    assert batched.data == (("z", 1),)
    assert batched.trace([(1,)]).circuit.count_ops()["rx"] == 2


@qml.qkernel(qubits=2)
def pairs(qc, x, w):
    for q in range(2):
        qc.rx(x[q, 0] * w, q)
        qc.ry(x[q, 1], q)
    return [qml.Z(0), qml.Z(1)]


def test_all_axes_before_the_sample_are_batch():
    batched = BatchedKernel.of(pairs, {"w": ()}, 2)
    batch = np.random.default_rng(0).normal(size=(3, 5, 2, 2))
    (values,) = batched.on(REFERENCE)(None, jnp.asarray(batch), jnp.array(0.7))
    expected = np.cos(0.7 * batch[..., 0]) * np.cos(batch[..., 1])
    np.testing.assert_allclose(values, expected, atol=1e-6)


def test_tracing_evaluates_nothing():
    batched = BatchedKernel.of(pairs, {"w": ()}, 2)
    with qml.execution.recorded() as runs:
        assert batched.num_outputs([(2, 2)]) == 2
        jax.eval_shape(
            lambda x, w: batched.on(REFERENCE)(None, x, w), jnp.zeros((4, 2, 2)), jnp.zeros(())
        )
    assert runs == []


@pytest.mark.parametrize(
    ("weights", "error", "message"),
    [
        ({"ww": ()}, ArgumentError, r"no argument 'ww'.*did you mean 'w'"),
        ({"w": 4}, ShapeError, r"the weight 'w' must be a tuple of sizes.*got 4"),
        ({"w": (2, -1)}, ShapeError, r"the weight 'w' must be a tuple of sizes.*got \(2, -1\)"),
        ({"w": "4"}, ShapeError, r"the weight 'w' must be a tuple of sizes"),
        (["w"], ArgumentError, r"weights must map the name .* got \['w'\]"),
        ({1: ()}, ArgumentError, r"weights must map the name .* got \{1: \(\)\}"),
        (None, ArgumentError, r"weights must map the name .* got None"),
    ],
)
def test_weights_that_do_not_fit_are_refused(weights, error, message):
    with pytest.raises(error, match=message):
        BatchedKernel.of(pairs, weights, 1)


@pytest.mark.parametrize("shape", [(), (2,), (2, 2), (None, None, 2), (None, 2, None)])
def test_a_batch_without_batch_axis_or_with_unknown_features_is_refused(shape):
    batched = BatchedKernel.of(pairs, {"w": ()}, 2)
    with pytest.raises(ShapeError, match=r"argument 'x', must have shape \(batch, ...\) with 2"):
        batched.split({"x": shape})


@qml.qkernel(qubits=1)
def variadic(qc, x, *angles, **more):
    qc.rx(x[0], 0)
    return qml.Z(0)


@pytest.mark.parametrize("name", ["angles", "more"])
def test_arguments_that_stand_for_many_are_no_weights(name):
    with pytest.raises(ArgumentError, match=f"no argument '{name}' to be a weight; .*Valid: 'x'"):
        BatchedKernel.of(variadic, {name: (2,)}, 1)
    assert BatchedKernel.of(variadic, {}, 1).data == (("x", 1),)


@pytest.mark.parametrize("data_axes", [-1, 1.0, True, "1", None])
def test_data_axes_that_are_no_count_are_refused(data_axes):
    with pytest.raises(ArgumentError, match="data_axes counts axes"):
        BatchedKernel.of(pairs, {"w": ()}, data_axes)


def test_an_exact_engine_makes_no_use_of_a_key():
    batched = BatchedKernel.of(pairs, {"w": ()}, 2)
    operands = jnp.full((3, 2, 2), 0.4), jnp.array(0.7)
    values = [batched.on(REFERENCE)(key, *operands)[0] for key in (None, jnp.array([1, 2]))]
    np.testing.assert_array_equal(*values)


@qml.qkernel(qubits=2)
def driven(qc, x, field, w, depth=1):
    for _ in range(depth):
        qc.rx(x[0] * w, 0)
        qc.rx(field + w, 1)
    return [qml.Z(0), qml.Z(1)]


def test_several_arguments_of_data_share_a_batch_and_a_request():
    batched = BatchedKernel.of(driven, {"w": ()}, {"x": 1, "field": 0})
    assert batched.data == (("x", 1), ("field", 0))
    x, field = np.random.default_rng(0).normal(size=(2, 3, 5, 1))
    with qml.execution.recorded() as runs:
        (values,) = batched.on(REFERENCE)(None, jnp.asarray(x), field[..., 0], jnp.array(0.7))
    expected = np.stack([np.cos(0.7 * x[..., 0]), np.cos(field[..., 0] + 0.7)], axis=-1)
    np.testing.assert_allclose(values, expected, atol=1e-12)
    assert [run.rows for run in runs] == [15]


def test_a_batch_of_which_one_argument_knows_the_size_has_that_size():
    batched = BatchedKernel.of(driven, {"w": ()}, {"x": 1, "field": 0})
    for x, field, batch in [(None, 4, 4), (4, None, 4), (None, None, None)]:
        assert batched.split({"x": (x, 1), "field": (field,)}) == ((batch,), ((1,), ()))


def test_copies_are_batch_too_and_have_the_first_axis_of_the_weights():
    batched = BatchedKernel.of(pairs, {"w": ()}, 2, units=3)
    assert batched.weight_shapes() == {"w": (3,)} and batched.num_outputs([(2, 2)]) == 6
    batch, w = np.random.default_rng(0).normal(size=(4, 2, 2)), np.array([0.3, 0.7, -1.0])
    with qml.execution.recorded() as runs:
        (values,) = batched.on(REFERENCE)(None, jnp.asarray(batch), jnp.asarray(w))
    expected = np.cos(w[:, None] * batch[:, None, :, 0]) * np.cos(batch[:, None, :, 1])
    np.testing.assert_allclose(values, expected.reshape(4, 6), atol=1e-12)
    assert [run.rows for run in runs] == [12]


def test_without_data_there_is_no_batch():
    batched = BatchedKernel.of(pairs, {"x": (2, 2), "w": ()})
    assert batched.data == () and batched.split({}) == ((), ())
    (values,) = batched.on(REFERENCE)(None, jnp.full((2, 2), 0.4), jnp.array(0.5))
    np.testing.assert_allclose(values, 2 * [np.cos(0.2) * np.cos(0.4)], atol=1e-12)


@qml.qkernel(qubits=1)
def constant(qc, flip=True):
    qc.x(0)
    return qml.Z(0)


@pytest.mark.parametrize(
    ("kernel", "arguments", "message"),
    [
        (driven, ({"w": ()}, {"feild": 0}), "no argument 'feild' to be data; did you mean 'field'"),
        (driven, ({"w": ()}, {"w": 0}), "'w' cannot be a weight and data"),
        (driven, ({"w": ()}, {"x": -1}), "data_axes counts axes, so it cannot be -1"),
        (driven, ({"w": ()}, {"x": "1"}), "data_axes counts axes, so it cannot be '1'"),
        (driven, ({}, 1, 2), "units=2 copies would all be the same"),
        (constant, ({},), "has no arguments that are weights or data"),
    ],
)
def test_arguments_that_do_not_fit_the_kernel_are_refused(kernel, arguments, message):
    with pytest.raises(ArgumentError, match=message):
        BatchedKernel.of(kernel, *arguments)
