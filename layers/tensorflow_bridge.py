"""JAX functions as TensorFlow operations, differentiable to any order.

TensorFlow calls the JAX function as a host function. The derivative of such an operation consists
of operations again, each of a vector-Jacobian product of the function, so there is no last order.
The price: no XLA compilation and no export to a SavedModel, as the function lives in this process.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property, lru_cache
from itertools import accumulate
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import tensorflow as tf
from numpy.typing import NDArray
from tensorflow.python.saved_model import save_context

from qml.errors import EngineError

Function = Callable[..., tuple[Any, ...]]
"""A pure JAX function (key, *arrays) -> tuple of arrays, all of one floating dtype."""


def _itself(function: Function) -> Function:
    return function


class HostOperation:
    """The TensorFlow operation of a JAX function of a key and some arrays.

    It runs in eager mode, under `tf.function` and in nested `tf.GradientTape`s, with batch axes of
    unknown size. Nothing is differentiated with respect to the key. `tape.jacobian` works, but asks
    the engine once per output, one after the other: TensorFlow cannot batch host functions.

    Which function that is, is asked at every run: graphs traced before follow a change.

    Args:
        current: gives the JAX function as of now, always of the same shapes.
        groups: how many arrays it takes, first the points where it is evaluated, then one group of
            cotangents for every order. The derivative is one operation per group, so a graph leaves
            out the requests for groups that it needs no derivative of.
        num_results: how many arrays it returns.
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
        # Of the last function only, so that one which was replaced is let go.
        self._compiled = lru_cache(maxsize=1)(lambda function: jax.jit(derive(function)))

    def __call__(
        self, key: tf.Tensor | None, arrays: Sequence[tf.Tensor], shapes: Sequence[Any]
    ) -> list[tf.Tensor]:
        """The results, of these static shapes, in the dtype of the first array.

        Raises:
            EngineError: while TensorFlow writes a SavedModel.
        """
        constants = [] if key is None else [key]
        # A custom gradient would want a second set of gradients for a variable.
        tensors = [tf.convert_to_tensor(array) for array in arrays]

        def operation(*arrays: tf.Tensor) -> tuple[list[tf.Tensor], Callable[..., Any]]:
            results = tf.numpy_function(
                self._run, [*constants, *arrays], [arrays[0].dtype] * len(shapes), stateful=False
            )
            # In eager mode a single result comes without its list.
            results = tf.nest.flatten(results)
            known = [tf.ensure_shape(r, s) for r, s in zip(results, shapes, strict=True)]

            def gradient(*cotangents: tf.Tensor) -> list[tf.Tensor]:
                _refuse_export()
                operands = [*arrays, *cotangents]
                return [
                    result
                    for part, pullback in zip(self._parts, self._pullbacks, strict=True)
                    for result in pullback(key, operands, [a.shape for a in arrays[part]])
                ]

            return known, gradient

        results: list[tf.Tensor] = tf.custom_gradient(operation)(*tensors)
        return results

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

    @property
    def _parts(self) -> list[slice]:
        """Where each group stands among the arrays."""
        ends = list(accumulate(self._groups))
        return [slice(end - size, end) for size, end in zip(self._groups, ends, strict=True)]

    @cached_property
    def _pullbacks(self) -> list[HostOperation]:
        """(key, *arrays, *cotangents) -> the cotangents of one group of arrays, for each group."""
        return [self._pullback(part) for part in self._parts]

    def _pullback(self, part: slice) -> HostOperation:
        count = sum(self._groups)

        def derive(current: Function) -> Function:
            function = self._derive(current)

            def pullback(key: Any, *operands: Any) -> tuple[Any, ...]:
                arrays, cotangents = operands[:count], operands[count:]

                def along(*moved: Any) -> tuple[Any, ...]:
                    return function(key, *arrays[: part.start], *moved, *arrays[part.stop :])

                _, transpose = jax.vjp(along, *arrays[part])
                return tuple(transpose(tuple(cotangents)))

            return pullback

        size = part.stop - part.start
        return HostOperation(self._current, (*self._groups, self._num_results), size, derive)


def _refuse_export() -> None:
    """TensorFlow asks for all gradients when it writes a SavedModel; a broken one must not be."""
    if save_context.in_save_context():
        raise EngineError(
            "a model with a quantum layer cannot be exported to a SavedModel: its circuits run on "
            "an engine in this process, which the file could not hold. Save the model with "
            "model.save('model.keras') and load it where this library is installed."
        )
