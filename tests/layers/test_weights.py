"""What Keras does to the weights of a layer: start, penalties, bounds, freezing."""

import json

import keras
import numpy as np
import pytest

import qml
from qml.errors import ArgumentError
from qml.execution import recorded
from qml.layers import QuantumLayer

to_numpy = keras.ops.convert_to_numpy
X = np.random.default_rng(3).normal(size=(5, 2)).astype("float32")


@qml.qkernel(qubits=1, name="test_weights.single")
def single(qc, x, w):
    qc.rx(x[0] + w, 0)
    return qml.Z(0)


def test_penalties_and_bounds_are_of_every_weight_or_by_name():
    @qml.qkernel(qubits=1)
    def two(qc, x, v, w):
        qc.rx(x[0] + v + w, 0)
        return qml.Z(0)

    shapes = {"v": (), "w": ()}
    everywhere = QuantumLayer(two, shapes, initializer="ones", regularizer=keras.regularizers.L2(3))
    by_name = QuantumLayer(
        two,
        shapes,
        initializer={"v": "zeros", "w": keras.initializers.Constant(2.0)},
        regularizer={"w": keras.regularizers.L1(0.5)},
        constraint={"v": "non_neg"},
    )
    for layer, losses in ((everywhere, [3, 3]), (by_name, [1])):
        layer.build((None, 1))
        np.testing.assert_allclose([to_numpy(loss) for loss in layer.losses], losses)
    v, w = by_name.trainable_variables
    assert [v.numpy(), w.numpy()] == [0, 2]
    assert isinstance(v.constraint, keras.constraints.NonNeg) and w.constraint is None
    again = QuantumLayer.from_config(json.loads(json.dumps(by_name.get_config())))
    again.build((None, 1))
    assert again.get_config() == by_name.get_config()
    for name in ("initializer", "regularizer", "constraint"):
        with pytest.raises(
            ArgumentError, match=f"{name}: there is no weight 'u'; .*Valid: 'v', 'w"
        ):
            QuantumLayer(two, shapes, **{name: {"u": None}})


def test_a_penalty_moves_the_angle_and_a_bound_holds_it():
    free, bound = (
        keras.Sequential(
            [
                keras.Input((1,)),
                QuantumLayer(single, {"w": ()}, initializer="ones", regularizer="l2", **options),
            ]
        )
        for options in ({}, {"constraint": keras.constraints.NonNeg()})
    )
    for model in (free, bound):
        model.compile(keras.optimizers.SGD(100.0), lambda y, z: 0 * keras.ops.sum(z))
        model.train_on_batch(X[:, :1], X[:, :1])
    # The slope of 0.01 w^2 is 0.02, and a hundred times that is 2 to go.
    np.testing.assert_allclose(free.get_weights()[0], -1, atol=1e-5)
    assert bound.get_weights()[0] == 0


def test_a_frozen_layer_keeps_its_weights_passes_gradients_and_asks_for_none_in_vain():
    frozen = QuantumLayer(single, {"w": ()}, trainable=False, backend="reference")
    behind = keras.Sequential([keras.Input((1,)), keras.layers.Dense(1), frozen])
    alone = keras.Sequential([keras.Input((1,)), frozen, keras.layers.Dense(1)])
    kept = frozen.get_weights()
    requests = {}
    for name, model in {"behind": behind, "alone": alone}.items():
        model.compile("sgd", "mse")
        before = [v.numpy() for v in model.trainable_variables]
        with recorded() as runs:
            model.train_on_batch(X[:, :1], X[:, 1:])
        assert len(before) == 2
        pairs = zip(before, model.trainable_variables, strict=True)
        assert all(np.any(was != v.numpy()) for was, v in pairs)
        requests[name] = [run.primitive for run in runs]
    np.testing.assert_array_equal(frozen.get_weights()[0], kept[0])
    assert requests == {"behind": ["expval", "expval_vjp"], "alone": ["expval"]}
    assert not QuantumLayer.from_config(frozen.get_config()).trainable
