"""JAX functions as operations of TensorFlow itself, which need neither JAX nor this library to run.

The function is lowered once, for batches of any size, to StableHLO, which TensorFlow stores in the
graph and compiles. So graphs with it are compiled by XLA as a whole (`jit_compile=True`) and saved.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from functools import cache, lru_cache
from typing import Any, Final, NamedTuple

import jax
import jax.numpy as jnp
import tensorflow as tf
from jax.extend.mlir import serialize_portable_artifact
from tensorflow.compiler.tf2xla.python import xla  # not public; also behind jax2tf

from qml.layers.tensorflow_bridge import Function, Operation

STABLEHLO: Final = "1.9.0"
"""The version of StableHLO that is written. JAX 0.12 by itself writes one that is too new for
TensorFlow 2.21, as it finds out when the operation runs.
"""

PLATFORMS: Final = ("cpu", "cuda", "rocm", "tpu")
"""Where the operation runs, whatever devices there are here."""

Sizes = tuple[int | str, ...]
"""A shape; unknown sizes are symbols."""


class Module(NamedTuple):
    """A lowered function: the StableHLO, the convention of its calls, and what it returns."""

    code: bytes
    convention: int
    dtypes: tuple[Any, ...]
    shapes: tuple[tuple[int | None, ...], ...]


class NativeOperation(Operation):
    """An operation that holds the JAX function as it is when it is traced, lowered to StableHLO.

    An axis of unknown size is as long as all others of unknown size at the same place, and at least
    1. Its derivatives are such operations too. Function and arrays are real: at a complex boundary
    JAX and TensorFlow differ by a conjugation, which nobody would notice.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._module = lru_cache(maxsize=16)(self._lowered)

    def _results(
        self, key: Any, arrays: Sequence[tf.Tensor], shapes: Sequence[Any]
    ) -> list[tf.Tensor]:
        constants = [] if key is None else [tf.convert_to_tensor(k) for k in tf.nest.flatten(key)]
        operands = [*constants, *arrays]
        module = self._module(self._current(), len(constants), types_of(operands))
        results: list[tf.Tensor] = xla.call_module(
            tuple(operands),
            version=module.convention,
            module=module.code,
            Tout=[tf.as_dtype(dtype) for dtype in module.dtypes],
            Sout=[tf.TensorShape(shape) for shape in module.shapes],
            platforms=tuple(platform.upper() for platform in PLATFORMS),
            use_shardy_partitioner=True,
        )
        return results

    def _check_saving(self) -> None:
        """It can be saved."""

    def _lowered(self, function: Function, constants: int, types: tuple[Any, ...]) -> Module:
        derived = self._derive(function)

        def flat(*operands: Any) -> tuple[Any, ...]:
            return derived(list(operands[:constants]) or None, *operands[constants:])

        return lowered(flat, types)


def lowered(function: Callable[..., tuple[Any, ...]], types: tuple[Any, ...]) -> Module:
    """A JAX function of arrays of these (sizes, dtype) as StableHLO of the version pinned here."""
    double = any(dtype == jnp.float64 for _, dtype in types)
    with jax.enable_x64(True) if double else nullcontext():
        # An unused argument is kept: it may be the one that tells the size of the batch.
        jitted = jax.jit(function, keep_unused=True)
        exported = jax.export.export(jitted, platforms=PLATFORMS)(*structures(types))
    code = serialize_portable_artifact(exported.mlir_module(), STABLEHLO, True)
    return Module(
        code,
        exported.calling_convention_version,
        tuple(aval.dtype for aval in exported.out_avals),
        tuple(known(aval.shape) for aval in exported.out_avals),
    )


def structures(types: tuple[Any, ...]) -> list[jax.ShapeDtypeStruct]:
    """Arrays of these (sizes, dtype) for JAX to trace with, symbols of one name being one size."""
    scope = jax.export.SymbolicScope()
    found = []
    for sizes, dtype in types:
        text = ",".join(str(size) for size in sizes)
        shape = jax.export.symbolic_shape(text, scope=scope) if sizes else ()
        found.append(jax.ShapeDtypeStruct(shape, dtype))  # type: ignore[no-untyped-call]
    return found


def known(shape: Sequence[Any]) -> tuple[int | None, ...]:
    """A shape of JAX for TensorFlow, which has no symbols."""
    return tuple(size if isinstance(size, int) else None for size in shape)


def types_of(tensors: Sequence[tf.Tensor]) -> tuple[tuple[Sizes, Any], ...]:
    """The (sizes, dtype) of tensors; an unknown size is named by its place."""
    return tuple(
        (
            tuple(f"b{axis}" if size is None else size for axis, size in enumerate(tensor.shape)),
            tensor.dtype.as_numpy_dtype,
        )
        for tensor in tensors
    )


@cache
def reads_what_jax_writes() -> bool:
    """Whether TensorFlow runs a function of arrays of unknown size as JAX by itself writes it.

    Tried out, because neither tells the versions that it reads or writes.
    """
    exported = jax.export.export(jax.jit(jnp.negative))(*structures(((("b",), jnp.float32),)))
    with tf.init_scope():
        try:
            xla.call_module(
                (tf.zeros((2,)),),
                version=exported.calling_convention_version,
                module=exported.mlir_module_serialized,
                Tout=[tf.float32],
                Sout=[tf.TensorShape((None,))],
                platforms=tuple(platform.upper() for platform in exported.platforms),
                use_shardy_partitioner=True,
            )
        except tf.errors.InvalidArgumentError:
            return False
    return True
