"""A kernel over a batch of data, with named weights: what every front end evaluates."""

from __future__ import annotations

import inspect
import math
import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from qml.circuits.tracing import Trace
from qml.errors import ArgumentError, ShapeError, nearest
from qml.kernel import Kernel
from qml.settings import EngineConfig

Shape = tuple[int, ...]


@dataclass(frozen=True)
class BatchedKernel:
    """One kernel at many samples: (..., *features) -> (..., M), the weights shared by all.

    Attributes:
        kernel: what is evaluated, once per sample.
        data: the name of the argument that differs from sample to sample.
        data_axes: how many last axes of a batch are one sample; all axes before are batch.
        weights: name and shape of each other argument, in the order in which they are passed.
    """

    kernel: Kernel
    data: str
    data_axes: int
    weights: tuple[tuple[str, Shape], ...]

    @classmethod
    def of(
        cls, kernel: Kernel, weights: Mapping[str, Sequence[int]], data_axes: int
    ) -> BatchedKernel:
        """Checks `weights` against the kernel's arguments; the one left over is the data.

        An argument with a default may be left out.

        Raises:
            ArgumentError: `weights` is no mapping of names, a weight is no argument of the kernel,
                not exactly one argument is left for the data, or `data_axes` is no count.
            ShapeError: a weight's shape is no sequence of sizes.
        """
        if not isinstance(weights, Mapping) or not all(isinstance(name, str) for name in weights):
            raise ArgumentError(
                f"{kernel.name}: weights must map the name of each argument that is trained to its "
                f"shape, such as {{'theta': (2, 4)}}, got {weights!r}."
            )
        shapes = tuple((name, _shape(kernel, name, shape)) for name, shape in weights.items())
        named = [p for p in kernel.signature.parameters.values() if p.kind not in _VARIADIC]
        for name in weights:
            if name not in [p.name for p in named]:
                raise ArgumentError(
                    f"{kernel.name}{kernel.signature} has no argument {name!r} to be a weight; "
                    f"{nearest(name, [p.name for p in named])}"
                )
        left = [p.name for p in named if p.name not in weights and p.default is p.empty]
        if len(left) != 1:
            found = ", ".join(map(repr, left)) or "none"
            raise ArgumentError(
                f"{kernel.name}{kernel.signature} with the weights {', '.join(weights) or 'none'} "
                f"must have exactly one argument left for the data, found {found}. Name every "
                "other argument in weights={name: shape}, or give it a default."
            )
        whole = isinstance(data_axes, int | np.integer) and not isinstance(data_axes, bool)
        if not whole or data_axes < 0:
            raise ArgumentError(f"data_axes counts axes, so it cannot be {data_axes!r}.")
        return cls(kernel, left[0], int(data_axes), shapes)

    def sample_shape(self, shape: Sequence[int | None]) -> Shape:
        """The shape of one sample, the last axes of a batch of this shape.

        Raises:
            ShapeError: there are no axes of batch, or a size of the sample is not known.
        """
        axes = len(shape) - self.data_axes
        sizes = [size for size in shape[max(axes, 0) :] if size is not None]
        if axes < 1 or len(sizes) != self.data_axes:
            raise ShapeError(
                f"{self.kernel.name}: the inputs, given to the argument {self.data!r}, must have "
                f"shape (batch, ...) with {self.data_axes} last axes of known size for one sample, "
                f"but have shape {tuple(shape)}. Add the batch axis, state the sizes, or set "
                "data_axes."
            )
        return tuple(sizes)

    def trace(self, sample: Shape) -> Trace:
        """The circuit for samples of this shape; runs nothing.

        Raises:
            TracingError, ObservableError, UnsupportedCircuitError: as `Kernel.trace`.
        """
        symbol = partial(jax.ShapeDtypeStruct, dtype=jnp.float32)
        bound = self._bound(symbol(sample), [symbol(shape) for _, shape in self.weights])
        return self.kernel.trace(*bound.args, **bound.kwargs)

    def num_outputs(self, sample: Shape) -> int:
        """M, for samples of this shape."""
        return math.prod(self.trace(sample).shape)

    def on(self, config: EngineConfig) -> Callable[..., tuple[jax.Array]]:
        """The JAX function f(key, batch, *weights) -> (values,) on this engine.

        `batch` is (..., *features), `values` (..., M), one request for all samples. `key` holds two
        integers of randomness; an exact engine makes no use of it, and may get None. The values
        come in a tuple, because every derivative of f does too.
        """

        def evaluate(key: Any, batch: jax.Array, *weights: jax.Array) -> tuple[jax.Array]:
            words = None if key is None else key.astype(jnp.uint32)

            def sample(features: jax.Array) -> jax.Array:
                bound = self._bound(features, weights)
                values = self.kernel(*bound.args, **bound.kwargs, key=words, backend=config)
                return values.reshape(-1)

            axes = batch.ndim - self.data_axes
            outer, inner = batch.shape[:axes], batch.shape[axes:]
            if axes == 1:
                return (jax.vmap(sample)(batch),)
            values = jax.vmap(sample)(batch.reshape(math.prod(outer), *inner))
            return (values.reshape(*outer, values.shape[-1]),)

        return evaluate

    def _bound(self, data: Any, weights: Sequence[Any]) -> inspect.BoundArguments:
        """By way of the signature, because an argument may be positional-only."""
        given = {self.data: data}
        given.update((name, array) for (name, _), array in zip(self.weights, weights, strict=True))
        order = [name for name in self.kernel.signature.parameters if name in given]
        return inspect.BoundArguments(
            self.kernel.signature,
            {name: given[name] for name in order},
        )


_VARIADIC = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)


def _shape(kernel: Kernel, name: str, shape: Sequence[int]) -> Shape:
    try:
        sizes = tuple(operator.index(size) for size in shape)
    except TypeError:
        sizes = (-1,)
    if any(size < 0 for size in sizes):
        raise ShapeError(
            f"{kernel.name}: the shape of the weight {name!r} must be a tuple of sizes, such as "
            f"(2, 4) or (4,) or (), got {shape!r}."
        )
    return sizes
