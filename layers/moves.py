"""Moving the quantum layers of a model from one backend to another."""

from __future__ import annotations

import jax
import keras

from qml.config import Backend
from qml.errors import ArgumentError
from qml.execution import prepare
from qml.layers.keras_layer import ON_JAX, ON_TENSORFLOW, QuantumLayer
from qml.layers.stored import configuration


def set_backend(model: keras.layers.Layer, backend: Backend, gradient: str | None = None) -> None:
    """Moves every quantum layer of a model, however deep, to another backend.

    All that was traced or compiled with the layers inside follows, functions of your own too, and
    so does a training in whose callbacks this is called. On the JAX backend, every function that
    JAX compiled in this process is compiled anew for that. On TensorFlow the xla engine becomes a
    part of a graph: a `tf.function` of yours that was traced on it, and a model around the one
    given, cannot follow, and raise an EngineError when they are called next. Weights and optimizer
    stay; random state too, unless the new backend has another seed: then the layers start as if
    made with it.

    Args:
        model: a model or layer that holds quantum layers, or is one; in a callback the model that
            is trained.
        backend: name, table or configuration; None is the ambient backend, now.
        gradient: the rule for derivatives, instead of the backend's.

    Raises:
        ArgumentError: `model` is no Keras layer or model, or there is no quantum layer in it.
        ConfigError, UnknownNameError: the backend cannot be resolved.
        DeviceError, MissingDependencyError: what it needs is not there.
        EngineError: it cannot run a circuit of the model.

    After an error nothing has changed.
    """
    if not isinstance(model, keras.layers.Layer):
        raise ArgumentError(f"set_backend takes a Keras model or layer, got {model!r}.")
    config = configuration(backend, gradient)
    parts = list(model._flatten_layers())  # `layers` of a model leaves out those inside of layers
    quantum = [part for part in parts if isinstance(part, QuantumLayer)]
    if not quantum:
        raise ArgumentError(
            f"{model.name!r} has no QuantumLayer whose backend could be set. A model made of "
            "unbuilt parts may hold none yet: call it on data first."
        )
    for layer in quantum:
        if layer.built:
            prepare(layer._program, config)
    if ON_JAX and isinstance(model, keras.Model):
        model.jax_state_sync()  # else a training would put the old random state back
    for layer in quantum:
        layer._use(config)
    if ON_TENSORFLOW:
        for part in parts:
            if isinstance(part, keras.Model):
                _compile_anew(part)
    if ON_JAX:
        # Compiled functions with the layer inside, Keras' too, would stay on the old backend.
        jax.clear_caches()  # type: ignore[no-untyped-call]


def _compile_anew(model: keras.Model) -> None:
    """The functions that Keras made of a model, by which it may be training just now.

    Others of TensorFlow follow by themselves, unless they hold the xla engine: see Operations.
    """
    if model.jit_compile:
        model.jit_compile = False  # since TensorFlow's objects do not set what is set
        model.jit_compile = True  # Keras warns, and does without, where a layer cannot any more
    for name in ("train", "test", "predict"):
        if getattr(model, f"{name}_function") is not None:
            getattr(model, f"make_{name}_function")(force=True)
