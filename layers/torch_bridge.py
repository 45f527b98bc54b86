"""JAX functions as PyTorch functions, differentiable to any order, under `torch.func` too.

PyTorch calls the JAX function on the host. The derivatives and batched forms of such an operation
are operations again, made by JAX of the same function, so there is no last order. The price: under
`torch.compile` the graph breaks there.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import cached_property, lru_cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import torch
from keras.src.backend.common.symbolic_scope import in_symbolic_scope  # not public
from torch.utils.dlpack import from_dlpack

from qml.errors import carried

Function = Callable[..., tuple[Any, ...]]
"""A pure JAX function (key, *arrays) -> tuple of arrays, all of one floating dtype."""

Derive = Callable[[Function], Function]


def outside_of_graphs(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function, into which `torch.compile` does not read: the graph breaks there."""
    disabled: Callable[..., Any] = torch.compiler.disable(function)  # type: ignore[no-untyped-call]
    return disabled


def _itself(function: Function) -> Function:
    return function


class HostOperation:
    """The PyTorch function of a JAX function of a key and some arrays.

    Nothing is differentiated with respect to the key. Which function that is, is asked at every
    run. Tensors on other devices go to the host and back.

    Args:
        current: gives the JAX function as of now, always of the same shapes.
        groups: how many arrays it takes, in groups; only their sum counts here, as PyTorch tells
            of every array whether its derivative is needed.
        num_results: how many arrays it returns.
        derive: makes what runs of the current function, as a derivative of it; by default itself.
    """

    def __init__(
        self,
        current: Callable[[], Function],
        groups: tuple[int, ...],
        num_results: int = 1,
        derive: Derive = _itself,
    ) -> None:
        self._current = current
        self._count = sum(groups)
        self._num_results = num_results
        self._derive = derive
        # Of the last function only, so that one which was replaced is let go.
        self._compiled = lru_cache(maxsize=1)(lambda function: jax.jit(derive(function)))
        self._mapped = lru_cache(maxsize=16)(self._make_mapped)
        self._pullback = lru_cache(maxsize=16)(self._make_pullback)

    @outside_of_graphs
    def __call__(
        self, key: Any, arrays: Sequence[torch.Tensor], shapes: Sequence[Any] = ()
    ) -> tuple[torch.Tensor, ...]:
        """The results, in the dtype and on the device of the first array.

        Nothing is evaluated where Keras tries out shapes, or on the "meta" device; `shapes` are not
        needed for that.
        """
        results: tuple[torch.Tensor, ...] = self._function.apply(key, *arrays)
        return results

    def run(self, key: Any, arrays: Sequence[torch.Tensor]) -> tuple[torch.Tensor, ...]:
        """The function on plain tensors, nothing recorded.

        Raises:
            QMLError: as the engine raised it, though it came by way of compiled code.
        """
        if in_symbolic_scope() or any(array.is_meta for array in arrays):
            return self._shaped(key, arrays)
        operands = [array.detach().cpu().numpy() for array in arrays]
        words = None if key is None else np.asarray(key.detach().cpu())
        compiled = self._compiled(self._current())
        with _precision(arrays[0]):
            try:
                # Done before anybody can write to the tensors, whose memory JAX may have taken.
                results = jax.block_until_ready(compiled(words, *operands))  # type: ignore[no-untyped-call]
            except jax.errors.JaxRuntimeError as error:
                if (ours := carried(error)) is None:
                    raise
                raise ours from error
        device = arrays[0].device
        return tuple(from_dlpack(result).to(device) for result in results)

    def _shaped(self, key: Any, arrays: Sequence[torch.Tensor]) -> tuple[torch.Tensor, ...]:
        """Zeros of the shapes that `run` would give, and no request: an engine may cost money.

        Keras tries out shapes on the "meta" device, and where any layer fails there, with ones.
        """
        device = "meta" if any(array.is_meta for array in arrays) else arrays[0].device
        dtype = np.dtype(str(arrays[0].dtype).removeprefix("torch."))
        with _precision(arrays[0]):
            words = None if key is None else np.zeros(key.shape, np.int32)
            structs = [np.broadcast_to(np.zeros((), dtype), array.shape) for array in arrays]
            results = jax.eval_shape(self._derive(self._current()), words, *structs)
        return tuple(torch.zeros(r.shape, dtype=arrays[0].dtype, device=device) for r in results)

    @cached_property
    def _function(self) -> Any:
        operation = self

        class Function(torch.autograd.Function):
            @staticmethod
            def forward(key: Any, *arrays: torch.Tensor) -> tuple[torch.Tensor, ...]:
                return operation.run(key, arrays)

            @staticmethod
            def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
                ctx.key, *arrays = inputs
                ctx.save_for_backward(*arrays)
                ctx.save_for_forward(*arrays)

            @staticmethod
            def backward(ctx: Any, *cotangents: torch.Tensor) -> tuple[Any, ...]:
                needed = tuple(ctx.needs_input_grad[1:])
                pullback = operation._pullback(needed)
                results = iter(pullback(ctx.key, [*ctx.saved_tensors, *cotangents]))
                return (None, *(next(results) if need else None for need in needed))

            @staticmethod
            def jvp(ctx: Any, _: Any, *tangents: torch.Tensor | None) -> tuple[torch.Tensor, ...]:
                arrays = ctx.saved_tensors
                given = [
                    torch.zeros_like(array) if tangent is None else tangent
                    for array, tangent in zip(arrays, tangents, strict=True)
                ]
                return operation._pushforward(ctx.key, [*arrays, *given])  # type: ignore[no-any-return]

            @staticmethod
            def vmap(
                info: Any, dims: tuple[int | None, ...], key: Any, *arrays: torch.Tensor
            ) -> tuple[tuple[torch.Tensor, ...], int]:
                results = operation._mapped(dims[1:])(key, arrays)
                return results, 0

        return Function

    def _make_pullback(self, needed: tuple[bool, ...]) -> HostOperation:
        """(key, *arrays, *cotangents) -> the cotangents of the arrays that are needed.

        For others an engine would be asked in vain: a step on forces needs no derivative by the
        cotangents of the energy.
        """
        places = [place for place, need in enumerate(needed) if need]

        def derive(current: Function) -> Function:
            function = self._derive(current)

            def pullback(key: Any, *operands: Any) -> tuple[Any, ...]:
                arrays, cotangents = operands[: self._count], operands[self._count :]

                def along(*moved: Any) -> tuple[Any, ...]:
                    given = list(arrays)
                    for place, array in zip(places, moved, strict=True):
                        given[place] = array
                    return function(key, *given)

                _, transpose = jax.vjp(along, *(arrays[place] for place in places))
                return tuple(transpose(tuple(cotangents)))

            return pullback

        return HostOperation(self._current, (self._count, self._num_results), len(places), derive)

    @cached_property
    def _pushforward(self) -> HostOperation:
        """(key, *arrays, *tangents) -> the tangents of all results."""

        def derive(current: Function) -> Function:
            function = self._derive(current)

            def pushforward(key: Any, *operands: Any) -> tuple[Any, ...]:
                arrays, tangents = operands[: self._count], operands[self._count :]
                return tuple(jax.jvp(lambda *moved: function(key, *moved), arrays, tangents)[1])

            return pushforward

        return HostOperation(self._current, (2 * self._count,), self._num_results, derive)

    def _make_mapped(self, dims: tuple[int | None, ...]) -> HostOperation:
        """The operation over a further axis of the arrays, first in all results."""

        def derive(current: Function) -> Function:
            return jax.vmap(self._derive(current), (None, *dims))

        return HostOperation(self._current, (self._count,), self._num_results, derive)


def _precision(array: torch.Tensor) -> AbstractContextManager[Any]:
    """JAX's double precision, for an array of doubles."""
    double = array.dtype == torch.float64 and jnp.result_type(float) != np.float64
    return jax.enable_x64(True) if double else nullcontext()
