"""Estimates: what a training run costs, for kernels and for Keras models."""

import os

os.environ.setdefault("KERAS_BACKEND", "jax")

import jax
import keras
import numpy as np
import pytest

import qml
from qml import estimate, qkernel
from qml.errors import ArgumentError, EngineError, ShapeError
from qml.execution import recorded


@qkernel(qubits=2)
def kernel(qc, x, w):
    qc.ry(x[0], 0)
    qc.rx(w[0], 1)
    qc.cx(0, 1)
    qc.ry(x[1] * w[1], 1)
    return [qml.Z(0), qml.X(1)]


ARGUMENTS = np.zeros(2), np.zeros(2)
SAMPLED = {"kind": "aer", "shots": 100}


def layer(**keywords):
    return qml.layers.QuantumLayer(kernel, {"w": (2,)}, **keywords)


@pytest.mark.parametrize(
    ("gradient", "rows"), [("parameter_shift", 2 * 3), ("auto", 2 * 3), ("spsa", 2)]
)
def test_a_training_step_of_a_kernel_is_a_value_and_a_gradient(gradient, rows):
    plan = estimate(kernel, *ARGUMENTS, batch=8, backend=SAMPLED, gradient=gradient)
    value, slopes = plan.items
    assert (value.rows, slopes.rows) == (8, 8 * rows)
    assert (plan.shots, plan.jobs) == (100 * 8 * (1 + rows), 2)


def test_values_alone_cost_less():
    plan = estimate(kernel, *ARGUMENTS, batch=8, backend=SAMPLED, training=False)
    assert [item.primitive for item in plan.items] == ["expval"]


@pytest.mark.parametrize("backend", ["statevector", "xla", "reference"])
def test_exact_engines_cost_no_shots(backend):
    plan = estimate(kernel, *ARGUMENTS, batch=4, steps=5, backend=backend)
    assert plan.shots == 0 and plan.steps == 5 and plan.rows >= 8


def test_a_model_costs_what_a_step_of_fit_then_does():
    model = keras.Sequential(
        [keras.Input((2,)), keras.layers.Dense(2), layer(backend=SAMPLED), keras.layers.Dense(1)]
    )
    model.compile("sgd", "mse", run_eagerly=keras.backend.backend() != "jax")
    plan = estimate(model, batch=8)
    # Keras adds a bias to a batch.
    with jax.numpy_rank_promotion("allow"), recorded() as runs:
        model.fit(np.ones((8, 2)), np.ones(8), batch_size=8, epochs=1, verbose=0)
    assert (plan.rows, plan.shots) == (sum(r.rows for r in runs), sum(r.shots for r in runs))


def test_parallel_copies_cost_as_many_times_as_much():
    one, three = layer(backend=SAMPLED), layer(backend=SAMPLED, units=3)
    for made in (one, three):
        made.build((None, 2))
    assert estimate(three, batch=4).rows == 3 * estimate(one, batch=4).rows


def test_every_layer_of_nested_models_counts_once():
    shared = layer(backend=SAMPLED)
    inner = keras.Sequential([keras.Input((2,)), layer(backend=SAMPLED), shared])
    x = keras.Input((3, 2))
    outer = keras.Model(x, keras.layers.TimeDistributed(inner)(x))
    assert len(estimate(outer).items) == len(estimate(inner).items) == 4
    assert len(estimate(shared).items) == 2


@pytest.mark.parametrize(
    ("target", "keywords", "says"),
    [
        (kernel, {"batch": 0}, "batch must be"),
        (kernel, {"batch": True}, "batch must be"),
        (kernel, {"steps": 1.5}, "steps must be"),
        (lambda: layer(), {"backend": "aer"}, "are for kernels"),
        (lambda: keras.layers.Dense(1), {}, "Dense without one"),
        (3, {}, "int without one"),
    ],
)
def test_what_cannot_be_estimated_is_refused(target, keywords, says):
    given = ARGUMENTS if target is kernel else ()
    made = target() if callable(target) and target is not kernel else target
    with pytest.raises(ArgumentError, match=says):
        estimate(made, *given, **keywords)


def test_a_layer_that_is_not_built_says_so():
    with pytest.raises(ShapeError, match="built"):
        estimate(layer())


def test_a_circuit_that_is_too_wide_is_refused_as_in_a_run():
    wide = qkernel(qubits=30)(lambda qc, t: qc.rx(t, 0) and qml.Z(0))
    with pytest.raises(EngineError, match="20 qubits"):
        estimate(wide, 0.5, backend="reference")
