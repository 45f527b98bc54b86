"""The Keras layer: a kernel with trainable angles, inside any Keras model."""

from __future__ import annotations

import functools
import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

import jax.numpy as jnp
import keras
import numpy as np

from qml.circuits import library
from qml.circuits.program import Program
from qml.circuits.stored import StoredKernel
from qml.circuits.templates import PREFIX
from qml.config import Backend
from qml.errors import (
    ArgumentError,
    DtypeError,
    KernelNameError,
    ShapeError,
    UnknownNameError,
)
from qml.execution import prepare
from qml.kernel import Kernel, kernels
from qml.layers.batch import BatchedKernel
from qml.layers.exporting import NATIVE, exported, is_exporting, is_plain
from qml.layers.plain import layer_values
from qml.layers.stored import (
    STORED,
    circuit_config,
    configuration,
    stored_backend,
    stored_kernel,
)
from qml.layers.weights import PerWeight
from qml.registry import same
from qml.settings import EngineConfig

ON_JAX: Final = keras.backend.backend() == "jax"
ON_TENSORFLOW: Final = keras.backend.backend() == "tensorflow"
if ON_TENSORFLOW:
    from qml.layers.operations import Operations
elif not ON_JAX:
    from qml.layers.torch_bridge import HostOperation, outside_of_graphs
if ON_JAX or ON_TENSORFLOW:

    def outside_of_graphs(function: Callable[..., Any]) -> Callable[..., Any]:
        """PyTorch alone would read into functions."""
        return function


HALF: Final = ("float16", "bfloat16")
FULL: Final = ("float32", "float64")


@keras.saving.register_keras_serializable("qml")
class QuantumLayer(keras.layers.Layer):
    """A kernel as a layer: (batch, features) -> (batch, outputs).

    The argument of the kernel that is not named in `weights` takes the inputs, one sample at a
    time; inputs with more axes, (..., features), give (..., outputs). There always is an axis of
    outputs, of length 1 for a kernel that returns a single observable. Where several arguments are
    left, the inputs are a dict with an array for each, by name, all with the same axes of batch;
    where none is, the layer is called without inputs, and gives (outputs,).

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
        initializer: Keras initializer of every weight, or a dict of such by the names of weights;
            one with an integer seed gives the same values to weights of the same shape. By default
            uniform over the full turn [-pi, pi), which prefers no angle, and on few qubits trained
            better than a start near zero. On many qubits and layers gradients vanish at such angles
            (McClean et al., Nat. Commun. 9, 4812 (2018)): pass RandomNormal(stddev=0.1) there.
        data_axes: how many last axes of the inputs are one sample; or a dict that says it for each
            input by name. An argument with a default takes no input, unless that dict names it.
        units: copies of the kernel, each with weights of its own, (units, *shape); the outputs are
            (batch, units * outputs), those of the first copy first, all from one request.
        activation: Keras activation, by name, or a function of the outputs made of keras.ops, which
            keeps the batch: for what is computed from expectation values. To be saved, a function
            of your own must be registered (keras.saving.register_keras_serializable).
        regularizer, constraint: Keras' of every weight, or dicts by the names of weights.
        **kwargs: name, dtype, trainable, activity_regularizer, as of every Keras layer.

    Raises:
        UnknownNameError: no kernel or backend has that name.
        ArgumentError: that is no kernel, or weights, data_axes or units do not fit its arguments.
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
        data_axes: int | Mapping[str, int] = 1,
        units: int | None = None,
        activation: Any = None,
        regularizer: Any = None,
        constraint: Any = None,
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
        self._batched = BatchedKernel.of(_kernel(kernel), weights, data_axes, units)
        self._data_axes = data_axes
        self._activation = keras.activations.get(activation)
        # Over one axis more a mask would reach into the samples, and could not be handed on.
        self.supports_masking = all(axes <= 1 for _, axes in self._batched.data)
        default = keras.initializers.RandomUniform(-np.pi, np.pi)
        names = list(weights)
        self._initializers = PerWeight(
            "initializer", initializer, names, keras.initializers, default
        )
        self._regularizers = PerWeight("regularizer", regularizer, names, keras.regularizers)
        self._constraints = PerWeight("constraint", constraint, names, keras.constraints)
        self._angles: list[Any] = []
        self._backend = configuration(backend, gradient)
        self._evaluate = self._batched.on(self._backend)
        if ON_TENSORFLOW:
            self._operations = Operations(self.name, self._batched, lambda: self._backend)
            self.supports_jit = self._backend.kind == NATIVE
        elif not ON_JAX:
            self._operation = HostOperation(
                lambda: self._evaluate, (len(self._batched.data) + len(names),)
            )
        # A variable even where the backend is exact, so that a saved model fits any backend.
        self._seeds = keras.random.SeedGenerator(self._seed())

    @property
    def kernel(self) -> Kernel:
        return self._batched.kernel

    @property
    def units(self) -> int | None:
        """How many copies of the kernel run on every sample; None is one without that axis."""
        return self._batched.units

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

    @outside_of_graphs
    def __call__(self, inputs: Any = None, *args: Any, **kwargs: Any) -> Any:
        # Before Keras, which has other errors for what has no shape.
        for name, array in self._batched.named(inputs).items():
            shape = getattr(array, "shape", None)
            if shape is None:
                raise ArgumentError(
                    f"{self.name}: one array of inputs is expected, given to the argument {name!r} "
                    f"of {self.kernel.name}, got a {type(array).__name__}. Concatenate several "
                    "arrays to one."
                )
            if getattr(shape, "rank", 0) is None:
                raise ShapeError(
                    f"{self.name}: the inputs, given to the argument {name!r}, must have a known "
                    f"number of axes, but have shape {shape}. State their shape, as by "
                    "tf.ensure_shape."
                )
        return super().__call__(inputs, *args, **kwargs)

    def build(self, input_shape: Any = None) -> None:
        _, self._samples = self._batched.split(self._batched.named(input_shape))
        # A circuit that cannot be traced, or not run on this backend, is told now.
        self._program = self._batched.trace(self._samples).program
        prepare(self._program, self._backend)
        for name, shape in self._batched.weight_shapes().items():
            weight = self.add_weight(
                shape=shape,
                initializer=self._initializers.of(name),
                regularizer=self._regularizers.of(name),
                constraint=self._constraints.of(name),
                name=name,
            )
            self._angles.append(weight)

    def compute_output_shape(self, input_shape: Any = None) -> tuple[int | None, ...]:
        shape = self._values_shape(self._batched.named(input_shape))
        if self._activation is keras.activations.linear:
            return shape
        # What Keras finds out of a function, it tells of a layer.
        layer = keras.layers.Lambda(self._activation, dtype=self.compute_dtype)
        return tuple(layer.compute_output_shape(shape))

    def compute_mask(self, inputs: Any, previous_mask: Any) -> Any:
        masks = [mask for mask in keras.tree.flatten(previous_mask) if mask is not None]
        return functools.reduce(keras.ops.logical_and, masks) if masks else None

    def call(self, inputs: Any = None) -> Any:
        named = self._batched.named(inputs)
        shapes = {name: array.shape for name, array in named.items()}
        _, samples = self._batched.split(shapes)
        for (name, _), sample, built in zip(
            self._batched.data, samples, self._samples, strict=True
        ):
            if sample != tuple(built):
                raise ShapeError(
                    f"{self.name}: the inputs, given to the argument {name!r} of "
                    f"{self.kernel.name}, have samples of shape {sample}, but the layer was built "
                    f"for {tuple(built)}."
                )
        self._check_precision(named.values())
        arrays = [keras.ops.cast(array, self.compute_dtype) for array in named.values()]
        arrays += [keras.ops.convert_to_tensor(angle) for angle in self._angles]
        exporting = is_exporting()
        if exporting and is_plain():
            exported(self.name, self._backend)  # refuses what has other values
            inputs, weights = arrays[: len(named)], arrays[len(named) :]
            by_name = dict(zip(named, inputs, strict=True))
            values = layer_values(self._batched, self._program, by_name, weights)
            return self._activation(values)
        if ON_TENSORFLOW:
            shape = self._values_shape(shapes)
            (values,) = self._operations(self._seeds.next, arrays, shape, exporting)
            return self._activation(values)
        evaluate = self._evaluate
        if exporting:
            evaluate = self._batched.on(exported(self.name, self._backend))
        key = self._seeds.next() if self._backend.draws else None
        (values,) = evaluate(key, *arrays) if ON_JAX else self._operation(key, arrays)
        return self._activation(values)

    def get_config(self) -> dict[str, Any]:
        """Plain data: the kernel by its name, the backend as a table.

        Once the layer is built also the circuit, and for which shape of a sample: a layer made of
        that needs no kernel of the name.

        Raises:
            KernelNameError: the layer is not built, and its kernel's name belongs to another kernel
                by now.
        """
        name = self.kernel.name
        known = self.built or isinstance(self.kernel, StoredKernel)
        if not known and not same(kernels[name], self.kernel):
            raise KernelNameError(
                f"{self.name}: its kernel {name!r} has since been replaced by another one of that "
                "name, which a copy of the layer would run. Give each a name of its own: "
                "@qkernel(qubits=..., name=...)."
            )
        data_axes = self._data_axes
        config = {
            **super().get_config(),
            "kernel": name,
            "weights": {name: list(shape) for name, shape in self._batched.weights},
            "backend": self._backend.model_dump(mode="json"),
            "initializer": self._initializers.get_config(),
            "regularizer": self._regularizers.get_config(),
            "constraint": self._constraints.get_config(),
            "data_axes": dict(data_axes) if isinstance(data_axes, Mapping) else data_axes,
            "units": self._batched.units,
            "activation": self._activation_config(),
        }
        if isinstance(self.kernel, StoredKernel):
            stored = dict(self.kernel.stored.arguments)
            samples = tuple(stored[name] for name, _ in self._batched.data)
        elif self.built:
            samples = self._samples
        else:
            return config
        shapes = zip(self._batched.data, samples, strict=True)
        config["sample_shapes"] = {name: list(shape) for (name, _), shape in shapes}
        return config | circuit_config(self._batched.trace(samples))

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> QuantumLayer:
        """The layer that `get_config` describes, with new weights, on its backend or `loading`'s.

        Raises:
            UnknownNameError: no circuit is stored, and no kernel of that name is registered.
            KernelNameError: the registered one has other values than the stored circuit.
            ConfigError: the stored circuit or the backend cannot be read.
            DeviceError, MissingDependencyError, EngineError: what the backend needs is not there.
        """
        # Not Keras' own, which wraps every error in its own.
        kernel = stored_kernel(config)
        backend = stored_backend(config.get("name", "quantum_layer"), config.get("backend"))
        given = {key: value for key, value in config.items() if key not in STORED}
        return cls(**{**given, "kernel": kernel, "backend": backend})

    def _use(self, backend: EngineConfig) -> None:
        """Runs on this backend from now on, in whatever was traced before too on TensorFlow."""
        seed, self._backend = self._backend.seed, backend
        self._evaluate = self._batched.on(backend)
        if ON_TENSORFLOW:
            self.supports_jit = backend.kind == NATIVE
        if backend.seed != seed:
            self._seeds.state.assign([self._seed(), 0])

    def _seed(self) -> int:
        """Where the layer's random state starts, other than that of other layers; 31 bits."""
        entropy = [self._backend.seed, zlib.crc32(self.name.encode())]
        return int(np.random.SeedSequence(entropy).generate_state(1)[0] >> 1)

    def _values_shape(self, shapes: Mapping[str, Any]) -> tuple[int | None, ...]:
        """Of what the kernel gives for inputs of these shapes."""
        batch, samples = self._batched.split(shapes)
        return (*batch, self._batched.num_outputs(samples))

    def _activation_config(self) -> Any:
        function = self._activation
        if getattr(function, "__name__", "") == "<lambda>":
            raise ArgumentError(
                f"{self.name}: its activation is a lambda, which no file can hold. Give it a name "
                "by def, under @keras.saving.register_keras_serializable()."
            )
        return keras.activations.serialize(function)

    def _check_precision(self, arrays: Iterable[Any]) -> None:
        if self.compute_dtype not in FULL:
            raise DtypeError(
                f"{self.name}: its dtype policy was changed, and now computes in "
                f"{self.compute_dtype}, which is too coarse for angles. Set it to 'float32'."
            )
        for array in arrays:
            dtype = keras.backend.standardize_dtype(array.dtype)
            if not dtype.startswith(("float", "bfloat", "int", "uint")):
                raise DtypeError(f"{self.name}: the inputs must be real numbers, got {dtype}.")
        single = jnp.result_type(float) != np.float64
        if self.compute_dtype == "float64" and single and ON_JAX:
            raise DtypeError(
                f"{self.name}: float64 on Keras' JAX backend needs JAX's double precision. Call "
                "jax.config.update('jax_enable_x64', True) at the top of the program."
            )


def _kernel(kernel: Kernel | str) -> Kernel:
    if isinstance(kernel, Kernel):
        return kernel
    if not isinstance(kernel, str):
        raise ArgumentError(
            f"kernel must be a function decorated by @qkernel, or the name of one, got {kernel!r}."
        )
    try:
        return library.named(kernel) if kernel.startswith(PREFIX) else kernels[kernel]
    except UnknownNameError as error:
        if not kernel.startswith("__main__."):
            raise
        raise UnknownNameError(
            f"{error} A kernel defined in a script has that name only there: give it a name of its "
            "own, @qkernel(qubits=..., name=...), to load its models elsewhere."
        ) from None
