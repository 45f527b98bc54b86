"""The Keras layer: a kernel with trainable angles, inside any Keras model."""

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence
from typing import Any, Final

import jax
import jax.numpy as jnp
import keras
import numpy as np

from qml.config import EngineConfig, resolve
from qml.errors import ArgumentError, DtypeError, KernelNameError, ShapeError
from qml.kernel import Backend, Kernel, kernels
from qml.layers.batch import BatchedKernel

ON_TENSORFLOW: Final = keras.backend.backend() == "tensorflow"
if ON_TENSORFLOW:
    from qml.layers.tensorflow_bridge import HostOperation

HALF: Final = ("float16", "bfloat16")


@keras.saving.register_keras_serializable("qml")
class QuantumLayer(keras.layers.Layer):
    """A kernel as a layer: (batch, features) -> (batch, outputs).

    The argument of the kernel that is not named in `weights` takes the inputs, one sample at a
    time; inputs with more axes, (..., features), give (..., outputs). There always is an axis of
    outputs, of length 1 for a kernel that returns a single observable.

    The layer computes in its dtype, float32 or float64. Angles in half precision would be wrong in
    the third digit, so under a global policy such as "mixed_float16" this layer alone stays in
    float32; float64 on the JAX backend needs JAX's own double precision switched on.

    The backend is fixed here, once: a later `with qml.use(...)` has no effect on the layer, only
    `set_backend` has. Gradients of any order pass through, to the weights and to the inputs.

    Args:
        kernel: a Kernel, or the name of a registered one.
        weights: name -> shape of every trained argument, angles in radian.
        backend: name, table or configuration; by default the ambient backend, now.
        gradient: the rule for derivatives, instead of the backend's.
        initializer: Keras initializer of every weight; one with an integer seed gives the same
            values to weights of the same shape. By default uniform over the full turn [-pi, pi),
            which prefers no angle, and on few qubits trained better than a start near zero. On many
            qubits and layers gradients vanish at such angles (McClean et al., Nat. Commun. 9, 4812
            (2018)): pass RandomNormal(stddev=0.1) there.
        data_axes: how many last axes of the inputs are one sample.
        **kwargs: name, dtype, trainable, as of every Keras layer.

    Raises:
        UnknownNameError: no kernel or backend has that name.
        ArgumentError: `weights` do not fit the kernel's arguments.
        ShapeError: a weight's shape is no tuple of sizes.
        DtypeError: half precision was asked for this layer.
        ConfigError: the backend cannot be resolved.

    >>> import qml
    >>> @qml.qkernel(qubits=2)
    ... def ansatz(qc, x, theta):
    ...     for q in range(2):
    ...         qc.ry(x[q], q)
    ...         qc.rx(theta[q], q)
    ...     qc.cx(0, 1)
    ...     return [qml.Z(0), qml.Z(1)]
    >>> layer = QuantumLayer(ansatz, weights={"theta": (2,)})
    >>> layer(np.zeros((5, 2))).shape == (5, 2)
    True
    """

    def __init__(
        self,
        kernel: Kernel | str,
        weights: Mapping[str, Sequence[int]],
        backend: Backend = None,
        gradient: str | None = None,
        initializer: Any = None,
        data_axes: int = 1,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        if self.compute_dtype in HALF:
            if kwargs.get("dtype") is not None:
                raise DtypeError(
                    f"{self.name}: dtype {kwargs['dtype']!r} computes in {self.compute_dtype}, "
                    "which is too coarse for angles. Leave dtype out, or pass 'float32'."
                )
            self.dtype_policy = "float32"
        found = kernels[kernel] if isinstance(kernel, str) else kernel
        self._batched = BatchedKernel.of(found, weights, data_axes)
        if initializer is None:
            initializer = keras.initializers.RandomUniform(-np.pi, np.pi)
        self._initializer = keras.initializers.get(initializer)
        self._angles: list[Any] = []
        self._use(resolve(backend), gradient)
        # A variable even where the backend is exact, so that a saved model fits any backend.
        entropy = [self._backend.seed, zlib.crc32(self.name.encode())]
        seed = int(np.random.SeedSequence(entropy).generate_state(1)[0])
        self._seeds = keras.random.SeedGenerator(seed)

    @property
    def kernel(self) -> Kernel:
        return self._batched.kernel

    @property
    def backend(self) -> EngineConfig:
        """The engine this layer runs on; `set_backend` changes it."""
        return self._backend

    def build(self, input_shape: Sequence[int | None]) -> None:
        self._sample = self._batched.sample_shape(input_shape)
        self._batched.trace(self._sample)  # a kernel that cannot be traced is told now
        for name, shape in self._batched.weights:
            # Each with random numbers of its own.
            initializer = self._initializer
            if isinstance(initializer, keras.initializers.Initializer):
                initializer = initializer.clone()
            self._angles.append(self.add_weight(shape=shape, initializer=initializer, name=name))

    def compute_output_shape(self, input_shape: Sequence[int | None]) -> tuple[int | None, ...]:
        sample = self._batched.sample_shape(input_shape)
        batch = tuple(input_shape)[: len(input_shape) - len(sample)]
        return (*batch, self._batched.num_outputs(sample))

    def call(self, inputs: Any) -> Any:
        sample = self._batched.sample_shape(inputs.shape)
        if sample != tuple(self._sample):
            raise ShapeError(
                f"{self.name}: the inputs, given to the argument {self._batched.data!r} of "
                f"{self.kernel.name}, have samples of shape {sample}, but the layer was built for "
                f"{tuple(self._sample)}."
            )
        self._check_precision(inputs)
        batch = keras.ops.cast(inputs, self.compute_dtype)
        angles = [keras.ops.convert_to_tensor(angle) for angle in self._angles]
        shots = getattr(self._backend, "shots", None)
        key = None if shots is None else self._seeds.next()
        if ON_TENSORFLOW:
            shape = self.compute_output_shape(inputs.shape)
            (values,) = self._operation(key, [batch, *angles], [shape])
        else:
            (values,) = self._evaluate(key, batch, *angles)
        return values

    def get_config(self) -> dict[str, Any]:
        """Plain data: the kernel by its registered name, the backend as a table.

        Raises:
            KernelNameError: the name belongs to another kernel by now.
        """
        name = self.kernel.name
        if kernels.get(name) is not self.kernel and not self._same_as(kernels[name]):
            raise KernelNameError(
                f"{self.name}: its kernel {name!r} has since been replaced by another one of that "
                "name, which a copy of the layer would run. Give each a name of its own: "
                "@qkernel(qubits=..., name=...)."
            )
        return {
            **super().get_config(),
            "kernel": name,
            "weights": {name: list(shape) for name, shape in self._batched.weights},
            "backend": self._backend.model_dump(mode="json"),
            "initializer": keras.initializers.serialize(self._initializer),
            "data_axes": self._batched.data_axes,
        }

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> QuantumLayer:
        """The layer that `get_config` describes, with new weights.

        Raises:
            UnknownNameError: no kernel of that name is registered in this process.
        """
        # Not Keras' own, which wraps every error in its own.
        return cls(**config)

    def _use(self, backend: EngineConfig, gradient: str | None) -> None:
        if gradient is not None:
            backend = backend.model_copy(update={"gradient": gradient})
        self._backend = backend
        self._evaluate = self._batched.on(backend)
        if ON_TENSORFLOW:
            self._operation = HostOperation(self._evaluate, (1 + len(self._batched.weights),))
            self.supports_jit = False

    def _check_precision(self, inputs: Any) -> None:
        dtype = keras.backend.standardize_dtype(inputs.dtype)
        if not dtype.startswith(("float", "bfloat", "int", "uint")):
            raise DtypeError(f"{self.name}: the inputs must be real numbers, got {dtype}.")
        if self.compute_dtype in HALF:
            raise DtypeError(
                f"{self.name}: its dtype policy was changed, and now computes in "
                f"{self.compute_dtype}, which is too coarse for angles. Set it to 'float32'."
            )
        single = jnp.result_type(float) != np.float64
        if self.compute_dtype == "float64" and single and not ON_TENSORFLOW:
            raise DtypeError(
                f"{self.name}: float64 on Keras' JAX backend needs JAX's double precision. Call "
                "jax.config.update('jax_enable_x64', True) at the top of the program."
            )

    def _same_as(self, other: Kernel) -> bool:
        """Whether both write the same circuit for the shapes of this layer."""
        if not self.built:
            return False
        batched = self._batched
        theirs = BatchedKernel.of(other, dict(batched.weights), batched.data_axes)
        return theirs.trace(self._sample).program == batched.trace(self._sample).program


def set_backend(model: keras.layers.Layer, backend: Backend, gradient: str | None = None) -> None:
    """Moves every quantum layer of a model, however deep, to another backend.

    What Keras compiled for the model (its train, test and predict functions) is dropped and made
    anew on the next call, and on the JAX backend so is every function that JAX compiled in this
    process. Weights, optimizer and random state stay. Pass the outermost model: on the TensorFlow
    backend another model that shares the layers, or a `tf.function` of your own, keeps what it has
    traced.

    Args:
        model: a model or layer that holds quantum layers, or is one.
        backend: name, table or configuration; None is the ambient backend, now.
        gradient: the rule for derivatives, instead of the backend's.

    Raises:
        ArgumentError: there is no quantum layer in it.
        ConfigError, UnknownNameError: the backend cannot be resolved; nothing has changed then.
    """
    config = resolve(backend)
    parts = list(model._flatten_layers())  # `layers` of a model leaves out those inside of layers
    quantum = [part for part in parts if isinstance(part, QuantumLayer)]
    if not quantum:
        raise ArgumentError(
            f"{model.name!r} has no QuantumLayer whose backend could be set. A model made of "
            "unbuilt parts may hold none yet: call it on data first."
        )
    for layer in quantum:
        layer._use(config, gradient)
    for part in parts:
        if isinstance(part, keras.Model):
            part.train_function = part.test_function = part.predict_function = None
    if not ON_TENSORFLOW:
        # Functions that the user compiled, with the layer inside, would stay on the old backend.
        jax.clear_caches()
