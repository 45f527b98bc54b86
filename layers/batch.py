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
Sizes = tuple[int | None, ...]
"""A shape of which some sizes are not known yet."""


@dataclass(frozen=True)
class BatchedKernel:
    """One kernel at many samples: (..., *features) -> (..., M), the weights shared by all.

    Attributes:
        kernel: what is evaluated, once per sample and copy.
        data: name of each argument that differs from sample to sample, and how many last axes of
            a batch of it are one sample; all axes before are batch, the same for all of them.
            There may be none: then nothing is batched, and the values are (M,).
        weights: name and shape, for one copy, of each other argument, in the order in which they
            are passed.
        units: how many copies of the kernel, each with weights of its own, give their outputs one
            after the other, M = units x outputs, in one request. None is one copy, and no axis
            of copies in the weights.
    """

    kernel: Kernel
    data: tuple[tuple[str, int], ...]
    weights: tuple[tuple[str, Shape], ...]
    units: int | None = None

    @classmethod
    def of(
        cls,
        kernel: Kernel,
        weights: Mapping[str, Sequence[int]],
        data_axes: int | Mapping[str, int] = 1,
        units: int | None = None,
    ) -> BatchedKernel:
        """Checks `weights` against the kernel's arguments; those left over are the data.

        An argument with a default keeps it, unless `data_axes` names it.

        Raises:
            ArgumentError: `weights` is no mapping of names, a weight or a name in `data_axes` is no
                argument of the kernel or both, `data_axes` is no count, `units` is no count or
                there are no weights to tell copies apart, or the kernel has no arguments.
            ShapeError: a weight's shape is no sequence of sizes.
        """
        if not isinstance(weights, Mapping) or not all(isinstance(name, str) for name in weights):
            raise ArgumentError(
                f"{kernel.name}: weights must map the name of each argument that is trained to its "
                f"shape, such as {{'theta': (2, 4)}}, got {weights!r}."
            )
        shapes = tuple((name, _shape(kernel, name, shape)) for name, shape in weights.items())
        named = [p for p in kernel.signature.parameters.values() if p.kind not in _VARIADIC]
        stated = dict(data_axes) if isinstance(data_axes, Mapping) else {}
        for names, role in ((weights, "a weight"), (stated, "data")):
            for name in names:
                if name not in [p.name for p in named]:
                    raise ArgumentError(
                        f"{kernel.name}{kernel.signature} has no argument {name!r} to be {role}; "
                        f"{nearest(str(name), [p.name for p in named])}"
                    )
        if both := sorted(set(weights) & set(stated)):
            raise ArgumentError(
                f"{kernel.name}: {', '.join(map(repr, both))} cannot be a weight and data. Name it "
                "in weights or in data_axes."
            )
        data = tuple(
            (p.name, _axes(kernel, stated.get(p.name, 1) if stated else data_axes))
            for p in named
            if p.name not in weights and (p.default is p.empty or p.name in stated)
        )
        if not data and not shapes:
            raise ArgumentError(
                f"{kernel.name}{kernel.signature} has no arguments that are weights or data."
            )
        if units is not None:
            _check_units(kernel, units, shapes)
            units = int(units)
        return cls(kernel, data, shapes, units)

    def named(self, inputs: Any) -> dict[str, Any]:
        """Inputs, or whatever is said of them, by the arguments that they are given to.

        Args:
            inputs: that of the one argument, or a mapping by name; None where there is no data.

        Raises:
            ArgumentError: they are not one for each argument.
        """
        names = [name for name, _ in self.data]
        if isinstance(inputs, Mapping) and set(inputs) == set(names):
            return {name: inputs[name] for name in names}
        if not names and inputs is None:
            return {}
        if len(names) == 1 and inputs is not None and not isinstance(inputs, Mapping):
            return {names[0]: inputs}
        found = f"a {type(inputs).__name__}"
        if isinstance(inputs, Mapping):
            found = f"{', '.join(map(repr, inputs)) or 'none'} by name"
        if not names:
            raise ArgumentError(
                f"{self.kernel.name}{self.kernel.signature} has no argument for data, but there "
                f"are inputs, {found}. Call the layer without any."
            )
        if len(names) == 1:
            raise ArgumentError(
                f"one array of inputs is expected, given to the argument {names[0]!r} of "
                f"{self.kernel.name}, got {found}."
            )
        raise ArgumentError(
            f"the inputs of {self.kernel.name}{self.kernel.signature} are expected as a dict with "
            f"the names {', '.join(map(repr, names))}, got {found}."
        )

    def split(self, shapes: Mapping[str, Sequence[int | None]]) -> tuple[Sizes, tuple[Shape, ...]]:
        """The shape of the batch, and that of one sample of each argument of data, in order.

        Raises:
            ShapeError: there are no axes of batch, a size of a sample is not known, or two
                arguments have other batches.
        """
        samples, batch, first = [], None, ""
        for name, axes in self.data:
            shape = tuple(shapes[name])
            leading = len(shape) - axes
            sizes = [size for size in shape[max(leading, 0) :] if size is not None]
            if leading < 1 or len(sizes) != axes:
                raise ShapeError(
                    f"{self.kernel.name}: the inputs, given to the argument {name!r}, must have "
                    f"shape (batch, ...) with {axes} last axes of known size for one sample, "
                    f"but have shape {shape}. Add the batch axis, state the sizes, or set "
                    "data_axes."
                )
            samples.append(tuple(sizes))
            if batch is None:
                batch, first = shape[:leading], name
            elif not _agree(batch, shape[:leading]):
                raise ShapeError(
                    f"{self.kernel.name}: the inputs must have the same axes of batch, but those "
                    f"of {first!r} are {batch}, and those of {name!r} are {shape[:leading]}. Set "
                    "data_axes={name: axes} where a sample has not one axis."
                )
            else:
                batch = tuple(b if a is None else a for a, b in zip(batch, shape, strict=False))
        return batch or (), tuple(samples)

    def trace(self, samples: Sequence[Shape]) -> Trace:
        """The circuit for samples of these shapes; runs nothing.

        Raises:
            TracingError, ObservableError, UnsupportedCircuitError: as `Kernel.trace`.
        """
        symbol = partial(jax.ShapeDtypeStruct, dtype=jnp.float32)
        weights = [symbol(shape) for _, shape in self.weights]
        bound = self._bound([symbol(sample) for sample in samples], weights)
        return self.kernel.trace(*bound.args, **bound.kwargs)

    def num_outputs(self, samples: Sequence[Shape]) -> int:
        """M, for samples of these shapes."""
        return math.prod(self.trace(samples).shape) * (self.units or 1)

    def weight_shapes(self) -> dict[str, Shape]:
        """Name and shape of what is passed for each weight: that of all copies."""
        copies = () if self.units is None else (self.units,)
        return {name: (*copies, *shape) for name, shape in self.weights}

    def on(self, config: EngineConfig) -> Callable[..., tuple[jax.Array]]:
        """The JAX function f(key, *batches, *weights) -> (values,) on this engine.

        A batch is (..., *features), `values` (..., M), one request for all samples and copies.
        `key` holds two integers of randomness; an exact engine makes no use of it, and may get
        None. The values come in a tuple, because every derivative of f does too.
        """

        def evaluate(key: Any, *arrays: jax.Array) -> tuple[jax.Array]:
            words = None if key is None else key.astype(jnp.uint32)
            batches, weights = arrays[: len(self.data)], arrays[len(self.data) :]

            def copy(features: Sequence[jax.Array], weights: Sequence[jax.Array]) -> jax.Array:
                bound = self._bound(features, weights)
                values = self.kernel(*bound.args, **bound.kwargs, key=words, backend=config)
                return values.reshape(-1)

            def sample(*features: jax.Array) -> jax.Array:
                if self.units is None:
                    return copy(features, weights)
                return jax.vmap(copy, (None, 0))(features, weights).reshape(-1)

            if not batches:
                return (sample(),)
            axes = batches[0].ndim - self.data[0][1]
            outer = batches[0].shape[:axes]
            if axes == 1:
                return (jax.vmap(sample)(*batches),)
            flat = [batch.reshape(math.prod(outer), *batch.shape[axes:]) for batch in batches]
            values = jax.vmap(sample)(*flat)
            return (values.reshape(*outer, values.shape[-1]),)

        return evaluate

    def _bound(self, data: Sequence[Any], weights: Sequence[Any]) -> inspect.BoundArguments:
        """By way of the signature, because an argument may be positional-only."""
        given = {name: array for (name, _), array in zip(self.data, data, strict=True)}
        given.update((name, array) for (name, _), array in zip(self.weights, weights, strict=True))
        order = [name for name in self.kernel.signature.parameters if name in given]
        return inspect.BoundArguments(
            self.kernel.signature,
            {name: given[name] for name in order},
        )


_VARIADIC = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)


def _is_count(value: Any) -> bool:
    return isinstance(value, int | np.integer) and not isinstance(value, bool)


def _axes(kernel: Kernel, axes: Any) -> int:
    if not _is_count(axes) or axes < 0:
        raise ArgumentError(f"{kernel.name}: data_axes counts axes, so it cannot be {axes!r}.")
    return int(axes)


def _check_units(kernel: Kernel, units: Any, weights: Sequence[Any]) -> None:
    if not _is_count(units) or units < 1:
        raise ArgumentError(
            f"{kernel.name}: units counts copies, so it must be an integer of at least 1, or None, "
            f"got {units!r}."
        )
    if not weights:
        raise ArgumentError(
            f"{kernel.name}: units={units} copies would all be the same, because there are no "
            "weights. Name the arguments that are trained in weights={name: shape}."
        )


def _agree(a: Sizes, b: Sizes) -> bool:
    """Whether two shapes can be the same."""
    pairs = zip(a, b, strict=False)
    return len(a) == len(b) and all(x == y or None in (x, y) for x, y in pairs)


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
