"""The Keras layer: a kernel with trainable angles, inside any Keras model."""

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence
from typing import Any, Final

import jax
import jax.numpy as jnp
import keras
import numpy as np

from qml.circuits.program import Program
from qml.config import Backend, resolve
from qml.errors import (
    ArgumentError,
    DtypeError,
    KernelNameError,
    QMLError,
    ShapeError,
    UnknownNameError,
)
from qml.execution import prepare
from qml.kernel import Kernel, kernels
from qml.layers.batch import BatchedKernel
from qml.registry import same
from qml.settings import EngineConfig
from qml.simulators.registry import engine

ON_JAX: Final = keras.backend.backend() == "jax"
ON_TENSORFLOW: Final = keras.backend.backend() == "tensorflow"
if ON_TENSORFLOW:
    from qml.layers.tensorflow_bridge import HostOperation
elif not ON_JAX:
    from qml.layers.torch_bridge import HostOperation  # type: ignore[assignment]

HALF: Final = ("float16", "bfloat16")
FULL: Final = ("float32", "float64")


@keras.saving.register_keras_serializable("qml")
class QuantumLayer(keras.layers.Layer):
    """A kernel as a layer: (batch, features) -> (batch, outputs).

    The argument of the kernel that is not named in `weights` takes the inputs, one sample at a
    time; inputs with more axes, (..., features), give (..., outputs). There always is an axis of
    outputs, of length 1 for a kernel that returns a single observable.

    The layer computes in its dtype, float32 or float64. Angles in half precision would be wrong in
    the third digit, so under a global policy such as "mixed_float16" this layer alone stays in
    float32; float64 on the JAX backend needs JAX's own double precision switched on. A mask is
    handed on, as long as it does not reach into the samples (`data_axes` of at most 1).

    The backend is fixed here, once: a later `with qml.use(...)` has no effect on the layer, only
    `set_backend` has. Gradients of any order pass through, to the weights and to the inputs. A
    backend with shots draws from a state of the layer, like Keras' Dropout: inside a `jax.jit` of
    your own, call the model by its `stateless_call`.

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
        ArgumentError: that is no kernel, or `weights` do not fit its arguments.
        ShapeError: a weight's shape is no tuple of sizes.
        DtypeError: the layer would compute in another dtype than float32 or float64.
        ConfigError: the backend cannot be resolved.
        DeviceError, MissingDependencyError: what the backend needs is not there.

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
        if self.compute_dtype in HALF and kwargs.get("dtype") is None:
            self.dtype_policy = keras.DTypePolicy("float32")
        if self.compute_dtype not in FULL:
            raise DtypeError(
                f"{self.name}: dtype {self.dtype_policy.name!r} computes in {self.compute_dtype}, "
                "which is too coarse for angles. Pass dtype='float32' or 'float64'."
            )
        self._batched = BatchedKernel.of(_kernel(kernel), weights, data_axes)
        # Over one axis more a mask would reach into the samples, and could not be handed on.
        self.supports_masking = data_axes <= 1
        if initializer is None:
            initializer = keras.initializers.RandomUniform(-np.pi, np.pi)
        self._initializer = keras.initializers.get(initializer)
        self._angles: list[Any] = []
        self._backend = _configuration(backend, gradient)
        self._evaluate = self._batched.on(self._backend)
        if not ON_JAX:
            self._operation = HostOperation(
                lambda: self._evaluate, (1 + len(self._batched.weights),)
            )
            self.supports_jit = False
        # A variable even where the backend is exact, so that a saved model fits any backend.
        self._seeds = keras.random.SeedGenerator(self._seed())

    @property
    def kernel(self) -> Kernel:
        return self._batched.kernel

    @property
    def backend(self) -> EngineConfig:
        """The engine this layer runs on; `set_backend` changes it."""
        return self._backend

    @property
    def program(self) -> Program:
        """The lowered circuit of one sample.

        Raises:
            ShapeError: the layer is not built yet, so that the sample's shape is not known.
        """
        if not self.built:
            raise ShapeError(
                f"{self.name}: the circuit is known once the layer is built: call it, or the model "
                "it is in, on a batch, or give the model an Input."
            )
        return self._program

    def __call__(self, inputs: Any, *args: Any, **kwargs: Any) -> Any:
        # Before Keras, which has other errors for what has no shape.
        shape = getattr(inputs, "shape", None)
        if shape is None:
            raise ArgumentError(
                f"{self.name}: one array of inputs is expected, given to the argument "
                f"{self._batched.data!r} of {self.kernel.name}, got a {type(inputs).__name__}. "
                "Concatenate several arrays to one."
            )
        if getattr(shape, "rank", 0) is None:
            raise ShapeError(
                f"{self.name}: the inputs must have a known number of axes, but have shape "
                f"{shape}. State their shape, as by tf.ensure_shape."
            )
        return super().__call__(inputs, *args, **kwargs)

    def build(self, input_shape: Sequence[int | None]) -> None:
        self._sample = self._batched.sample_shape(input_shape)
        # A circuit that cannot be traced, or not run on this backend, is told now.
        self._program = self._batched.trace(self._sample).program
        prepare(self._program, self._backend)
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
        # On TensorFlow in any case: a graph that was traced stays when the backend changes.
        draws = self._backend.draws or ON_TENSORFLOW
        key = self._seeds.next() if draws else None
        if ON_JAX:
            (values,) = self._evaluate(key, batch, *angles)
        else:
            shape = self.compute_output_shape(inputs.shape)
            (values,) = self._operation(key, [batch, *angles], [shape])
        return values

    def get_config(self) -> dict[str, Any]:
        """Plain data: the kernel by its registered name, the backend as a table.

        Once the layer is built also the circuit's digest, and for which shape of a sample.

        Raises:
            KernelNameError: the name belongs to another kernel by now.
        """
        name = self.kernel.name
        other = kernels[name]
        if other is not self.kernel and not self._same_as(other):
            raise KernelNameError(
                f"{self.name}: its kernel {name!r} has since been replaced by another one of that "
                "name, which a copy of the layer would run. Give each a name of its own: "
                "@qkernel(qubits=..., name=...)."
            )
        config = {
            **super().get_config(),
            "kernel": name,
            "weights": {name: list(shape) for name, shape in self._batched.weights},
            "backend": self._backend.model_dump(mode="json"),
            "initializer": keras.initializers.serialize(self._initializer),
            "data_axes": self._batched.data_axes,
        }
        if self.built:
            config |= {"sample_shape": list(self._sample), "digest": self._program.digest}
        return config

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> QuantumLayer:
        """The layer that `get_config` describes, with new weights.

        Raises:
            UnknownNameError: no kernel of that name is registered in this process.
            KernelNameError: it writes another circuit than the one of the layer described.
        """
        # Not Keras' own, which wraps every error in its own.
        config = dict(config)
        sample, digest = config.pop("sample_shape", None), config.pop("digest", None)
        layer = cls(**config)
        if digest is None:
            return layer
        program = layer._written_by(layer.kernel, tuple(sample))
        if program is None or program.digest != digest:
            raise KernelNameError(
                f"{layer.name}: the kernel {layer.kernel.name!r} writes another circuit than when "
                "the layer was saved or copied, so its weights would mean something else. Restore "
                "the kernel as it was, and give the new one a name of its own: "
                "@qkernel(qubits=..., name=...)."
            )
        return layer

    def _use(self, backend: EngineConfig) -> None:
        """Runs on this backend from now on, in whatever was traced before too on TensorFlow."""
        seed, self._backend = self._backend.seed, backend
        self._evaluate = self._batched.on(backend)
        if backend.seed != seed:
            self._seeds.state.assign([self._seed(), 0])

    def _seed(self) -> int:
        """Where the layer's random state starts, other than that of other layers; 31 bits."""
        entropy = [self._backend.seed, zlib.crc32(self.name.encode())]
        return int(np.random.SeedSequence(entropy).generate_state(1)[0] >> 1)

    def _check_precision(self, inputs: Any) -> None:
        if self.compute_dtype not in FULL:
            raise DtypeError(
                f"{self.name}: its dtype policy was changed, and now computes in "
                f"{self.compute_dtype}, which is too coarse for angles. Set it to 'float32'."
            )
        dtype = keras.backend.standardize_dtype(inputs.dtype)
        if not dtype.startswith(("float", "bfloat", "int", "uint")):
            raise DtypeError(f"{self.name}: the inputs must be real numbers, got {dtype}.")
        single = jnp.result_type(float) != np.float64
        if self.compute_dtype == "float64" and single and ON_JAX:
            raise DtypeError(
                f"{self.name}: float64 on Keras' JAX backend needs JAX's double precision. Call "
                "jax.config.update('jax_enable_x64', True) at the top of the program."
            )

    def _same_as(self, other: Kernel) -> bool:
        """Whether both write the same circuit; before the shapes are known, by the same code."""
        if not self.built:
            return same(other, self.kernel)
        return self._written_by(other, tuple(self._sample)) == self._program

    def _written_by(self, kernel: Kernel, sample: tuple[int, ...]) -> Program | None:
        """A kernel's circuit for the arguments of this layer, None where it cannot take them."""
        weights, data_axes = dict(self._batched.weights), self._batched.data_axes
        try:
            return BatchedKernel.of(kernel, weights, data_axes).trace(sample).program
        except QMLError:
            return None


def set_backend(model: keras.layers.Layer, backend: Backend, gradient: str | None = None) -> None:
    """Moves every quantum layer of a model, however deep, to another backend.

    All that was traced or compiled with the layers inside follows, functions of your own too, and
    so does a training in whose callbacks this is called. On the JAX backend, every function that
    JAX compiled in this process is compiled anew for that. Weights and optimizer stay; random state
    too, unless the new backend has another seed: then the layers start as if made with it.

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
    config = _configuration(backend, gradient)
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
    if ON_JAX:
        # Compiled functions with the layer inside, Keras' too, would stay on the old backend.
        jax.clear_caches()


def _kernel(kernel: Kernel | str) -> Kernel:
    if isinstance(kernel, Kernel):
        return kernel
    if not isinstance(kernel, str):
        raise ArgumentError(
            f"kernel must be a function decorated by @qkernel, or the name of one, got {kernel!r}."
        )
    try:
        return kernels[kernel]
    except UnknownNameError as error:
        if not kernel.startswith("__main__."):
            raise
        raise UnknownNameError(
            f"{error} A kernel defined in a script has that name only there: give it a name of its "
            "own, @qkernel(qubits=..., name=...), to load its models elsewhere."
        ) from None


def _configuration(backend: Backend, gradient: str | None) -> EngineConfig:
    """What was asked for, once its engine is there."""
    config = resolve(backend, gradient)
    engine(config)
    return config
