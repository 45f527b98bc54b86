"""JAX functions as TensorFlow operations, differentiable to any order.

The derivative of such an operation consists of operations again, each of a vector-Jacobian product
of the function, so there is no last order. Here TensorFlow calls the JAX function as a host
function; the price: no XLA compilation and no export to a SavedModel, as the function lives in this
process. `qml.layers.native` has the other way.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from functools import cached_property, lru_cache
from itertools import accumulate
from typing import Any, Self

import jax
import jax.numpy as jnp
import numpy as np
import tensorflow as tf
from numpy.typing import NDArray
from tensorflow.python.saved_model import save_context

from qml.errors import EngineError

Function = Callable[..., tuple[Any, ...]]
"""A pure JAX function (key, *arrays) -> tuple of arrays."""


def _itself(function: Function) -> Function:
    return function


class Operation(ABC):
    """The TensorFlow operation of a JAX function of a key and some arrays.

    It runs in eager mode, under `tf.function` and in nested `tf.GradientTape`s, with batch axes of
    unknown size. Nothing is differentiated with respect to the key. `tape.jacobian` works, but runs
    once per output, one after the other: TensorFlow cannot batch such operations.

    Args:
        current: gives the JAX function as of now, always of the same shapes.
        groups: how many arrays it takes, first the points where it is evaluated, then one group of
            cotangents for every order. The derivative is one operation per group, so a graph leaves
            out the requests for groups that it needs no derivative of.
        num_results: how many floating arrays it returns.
        derive: makes what runs of the current function, as a derivative of it; by default itself.
    """

    def __init__(
        self,
        current: Callable[[], Function],
        groups: tuple[int, ...],
        num_results: int = 1,
        derive: Callable[[Function], Function] = _itself,
    ) -> None:
        self._current = current
        self._groups = groups
        self._num_results = num_results
        self._derive = derive

    def __call__(self, key: Any, arrays: Sequence[Any], shapes: Sequence[Any]) -> list[tf.Tensor]:
        """The results, of these static shapes.

        `key` is a tensor, a list of tensors of any dtype, or None; `arrays` are floating.

        Raises:
            EngineError: while TensorFlow writes a SavedModel that could not hold the operation.
        """
        # A custom gradient would want a second set of gradients for a variable.
        tensors = [tf.convert_to_tensor(array) for array in arrays]

        def operation(*arrays: tf.Tensor) -> tuple[list[tf.Tensor], Callable[..., Any]]:
            results = self._results(key, arrays, shapes)
            known = [tf.ensure_shape(r, s) for r, s in zip(results, shapes, strict=True)]
            floating = [result.dtype.is_floating for result in known]

            def gradient(*cotangents: tf.Tensor) -> list[tf.Tensor]:
                self._check_saving()
                given = [c for c, has in zip(cotangents, floating, strict=True) if has]
                operands = [*arrays, *given]
                return [
                    result
                    for part, pullback in zip(self._parts, self._pullbacks, strict=True)
                    for result in pullback(key, operands, [a.shape for a in arrays[part]])
                ]

            return known, gradient

        results: list[tf.Tensor] = tf.custom_gradient(operation)(*tensors)
        return results

    @abstractmethod
    def _results(
        self, key: Any, arrays: Sequence[tf.Tensor], shapes: Sequence[Any]
    ) -> list[tf.Tensor]:
        """The function at tensors, without a derivative."""

    @abstractmethod
    def _check_saving(self) -> None:
        """Raises if TensorFlow is writing a SavedModel, and the operation cannot be in one."""

    @property
    def _parts(self) -> list[slice]:
        """Where each group stands among the arrays."""
        ends = list(accumulate(self._groups))
        return [slice(end - size, end) for size, end in zip(self._groups, ends, strict=True)]

    @cached_property
    def _pullbacks(self) -> list[Self]:
        """(key, *arrays, *cotangents) -> the cotangents of one group of arrays, for each group."""
        return [self._pullback(part) for part in self._parts]

    def _pullback(self, part: slice) -> Self:
        count = sum(self._groups)

        def derive(current: Function) -> Function:
            function = self._derive(current)

            def pullback(key: Any, *operands: Any) -> tuple[Any, ...]:
                arrays, cotangents = operands[:count], operands[count:]

                def along(*moved: Any) -> tuple[Any, ...]:
                    results = function(key, *arrays[: part.start], *moved, *arrays[part.stop :])
                    return tuple(r for r in results if jnp.issubdtype(r.dtype, jnp.floating))

                _, transpose = jax.vjp(along, *arrays[part])
                return tuple(transpose(tuple(cotangents)))

            return pullback

        size = part.stop - part.start
        return type(self)(self._current, (*self._groups, self._num_results), size, derive)


class HostOperation(Operation):
    """An operation that calls the JAX function in this process, through Python.

    Which function that is, is asked at every run: graphs traced before follow a change. All arrays
    and results have one floating dtype.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        # Of the last function only, so that one which was replaced is let go.
        self._compiled = lru_cache(maxsize=1)(lambda function: jax.jit(self._derive(function)))

    def _results(
        self, key: Any, arrays: Sequence[tf.Tensor], shapes: Sequence[Any]
    ) -> list[tf.Tensor]:
        constants = [] if key is None else [key]
        results = tf.numpy_function(
            self._run, [*constants, *arrays], [arrays[0].dtype] * len(shapes), stateful=False
        )
        # In eager mode a single result comes without its list.
        flat: list[tf.Tensor] = tf.nest.flatten(results)
        return flat

    def _run(self, *operands: NDArray[Any]) -> list[NDArray[Any]]:
        """The function on the host, outside of every trace of JAX."""
        split = len(operands) - sum(self._groups)
        key = operands[0] if split else None
        arrays = operands[split:]
        compiled = self._compiled(self._current())
        if arrays[0].dtype == np.float64 and jnp.result_type(float) != np.float64:
            with jax.enable_x64(True):
                return [np.asarray(result) for result in compiled(key, *arrays)]
        return [np.asarray(result) for result in compiled(key, *arrays)]

    def _check_saving(self) -> None:
        """TensorFlow asks for all gradients when it saves; a file that cannot run must not be."""
        if save_context.in_save_context():
            raise EngineError(
                "this function has a quantum layer in it whose circuits run on an engine in this "
                "process, which a SavedModel cannot hold. Export by model.export('folder'), or "
                "set the layer's backend first, qml.layers.set_backend(model, 'xla'), and then "
                "trace the function anew. Or save the model, model.save('model.keras'), and load "
                "it where this library is installed."
            )
