"""What the layer tests share: derivatives in the language of the Keras backend that runs."""

import keras
import numpy as np
import pytest

BACKEND = keras.backend.backend()


def _jax_gradient(function):
    import jax

    return lambda x: jax.grad(function)(x)


def _tensorflow_gradient(function):
    import tensorflow as tf

    def gradient(x):
        x = tf.convert_to_tensor(x)
        with tf.GradientTape() as tape:
            tape.watch(x)
            value = function(x)
        return tape.gradient(value, x)

    return gradient


def _torch_gradient(function):
    import torch

    def gradient(x):
        x = torch.as_tensor(x)
        # Keras predicts, and tries out shapes, where nothing is recorded.
        with torch.enable_grad():
            if not x.requires_grad:
                x = x.detach().requires_grad_()
            (slope,) = torch.autograd.grad(function(x), x, create_graph=True)
        return slope

    return gradient


@pytest.fixture
def gradient():
    """gradient(f) is f', for a scalar function f of one tensor; it nests."""
    return {
        "jax": _jax_gradient,
        "tensorflow": _tensorflow_gradient,
        "torch": _torch_gradient,
    }[BACKEND]


@pytest.fixture
def weight_gradient():
    """(model, f) -> the gradient of the scalar f() with respect to each trainable weight."""

    def in_jax(model, function):
        import jax

        def loss(values):
            with keras.StatelessScope(zip(model.trainable_variables, values, strict=True)):
                return function()

        return jax.grad(loss)([v.value for v in model.trainable_variables])

    def in_tensorflow(model, function):
        import tensorflow as tf

        with tf.GradientTape() as tape:
            value = function()
        return tape.gradient(value, [v.value for v in model.trainable_variables])

    def in_torch(model, function):
        import torch

        return torch.autograd.grad(function(), [v.value for v in model.trainable_variables])

    compute = {"jax": in_jax, "tensorflow": in_tensorflow, "torch": in_torch}[BACKEND]
    return lambda model, function: [np.asarray(g) for g in compute(model, function)]


@pytest.fixture(autouse=True)
def fresh_keras():
    """Names of layers start anew, and no test leaves a policy behind."""
    policy, floatx = keras.config.dtype_policy(), keras.config.floatx()
    keras.utils.clear_session(free_memory=False)
    keras.utils.set_random_seed(7)
    yield
    keras.config.set_floatx(floatx)
    keras.config.set_dtype_policy(policy)
