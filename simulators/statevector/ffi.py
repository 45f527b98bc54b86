"""The engine's functions as XLA custom calls: no Python and no interpreter lock under `jit`.

A handler is a C function of XLA's foreign-function interface, compiled by numba: it reads its
buffers from the call frame (jaxlib's xla/ffi/api/c_api.h, version 0) and calls the kernel. It never
raises: shapes and types are fixed when JAX lowers the call.
"""

from __future__ import annotations

import ctypes
import warnings
from collections.abc import Callable
from functools import cache
from typing import Any, Final

import jax
import numpy as np
from numba import cfunc, njit, types

from qml.simulators.statevector import kernels
from qml.simulators.statevector.compiler import CACHE, compiling
from qml.simulators.statevector.symbols import matrix, octets, vector

API_VERSION: Final = (0, 3)
"""What the handlers say they are written for; later minor versions are compatible."""

# Byte offsets in XLA_FFI_CallFrame and what it points to, all after a size and an extension.
_EXTENSION, _ARGUMENTS, _RESULTS = 8, 72, 112
_BUFFER_DATA, _BUFFER_DIMENSIONS = 24, 40
_METADATA_TYPE, _METADATA, _METADATA_VERSION = 1, 24, 8


_WORD: Final = np.zeros(1, np.int64)
_HALF: Final = np.zeros(1, np.int32)


@njit(cache=CACHE)
def word(address: int) -> int:
    """The int64 at an address."""
    value: int = vector(address, 1, _WORD)[0]
    return value


@njit(cache=CACHE)
def argument(frame: int, k: int) -> int:
    """The address of the k-th argument's buffer."""
    return word(word(frame + _ARGUMENTS) + 8 * k)


@njit(cache=CACHE)
def result(frame: int) -> int:
    """The address of the only result's buffer."""
    return word(word(frame + _RESULTS))


@njit(cache=CACHE)
def dimension(buffer: int, axis: int) -> int:
    return word(word(buffer + _BUFFER_DIMENSIONS) + 8 * axis)


@njit(cache=CACHE)
def matrix_shape(buffer: int, axes: int) -> tuple[int, int]:
    """A buffer of that many axes as (rows, columns): all axes but the last are rows."""
    rows = 1
    for axis in range(axes - 1):
        rows *= dimension(buffer, axis)
    return rows, dimension(buffer, axes - 1)


@njit(cache=CACHE)
def bytes_of(buffer: int) -> Any:
    """The bytes in a buffer of one axis."""
    return octets(word(buffer + _BUFFER_DATA), dimension(buffer, 0))


@njit(cache=CACHE)
def answers_metadata(frame: int) -> bool:
    """XLA asks a handler for its API version before the first call, by an extension."""
    extension = word(frame + _EXTENSION)
    if extension == 0 or word(extension + 8) & 0xFFFFFFFF != _METADATA_TYPE:
        return False
    version = word(extension + _METADATA) + _METADATA_VERSION
    numbers = vector(version + 16, 2, _HALF)
    numbers[0], numbers[1] = API_VERSION
    return True


@njit(cache=CACHE)
def rows_of(buffer: int, axes: int, like: Any) -> Any:
    """A buffer as a matrix; see `matrix_shape`."""
    rows, columns = matrix_shape(buffer, axes)
    return matrix(word(buffer + _BUFFER_DATA), rows, columns, like)


@njit(cache=CACHE)
def expval(frame: int, like: Any) -> int:
    if not answers_metadata(frame):
        plan, a = bytes_of(argument(frame, 0)), rows_of(argument(frame, 1), 2, like)
        kernels.expval(plan, a, rows_of(result(frame), 2, like))
    return 0


@njit(cache=CACHE)
def expval_vjp(frame: int, like: Any) -> int:
    if not answers_metadata(frame):
        plan, a = bytes_of(argument(frame, 0)), rows_of(argument(frame, 1), 2, like)
        c = rows_of(argument(frame, 2), 3, like)
        kernels.vjp(plan, a, c, rows_of(result(frame), 3, like))
    return 0


@njit(cache=CACHE)
def expval_jvp(frame: int, like: Any) -> int:
    if not answers_metadata(frame):
        plan, a = bytes_of(argument(frame, 0)), rows_of(argument(frame, 1), 2, like)
        t = rows_of(argument(frame, 2), 3, like)
        kernels.jvp(plan, a, t, rows_of(result(frame), 3, like))
    return 0


@njit(cache=CACHE)
def expval_hvp(frame: int, like: Any) -> int:
    if not answers_metadata(frame):
        plan, a = bytes_of(argument(frame, 0)), rows_of(argument(frame, 1), 2, like)
        t, c = rows_of(argument(frame, 2), 4, like), rows_of(argument(frame, 3), 4, like)
        tangents = dimension(argument(frame, 2), 2)
        kernels.hvp(plan, a, t, c, tangents, rows_of(result(frame), 5, like))
    return 0


# Module-level and without closures, or numba would not find them in its cache.
_F32, _F64 = np.zeros(1, np.float32), np.zeros(1, np.float64)
HANDLERS: Final[dict[str, Callable[[int], int]]] = {}


def _handler(function: Callable[[int], int]) -> Callable[[int], int]:
    HANDLERS[function.__name__] = function
    return function


@_handler
def expval_float32(frame: int) -> int:
    return expval(frame, _F32)


@_handler
def expval_float64(frame: int) -> int:
    return expval(frame, _F64)


@_handler
def expval_vjp_float32(frame: int) -> int:
    return expval_vjp(frame, _F32)


@_handler
def expval_vjp_float64(frame: int) -> int:
    return expval_vjp(frame, _F64)


@_handler
def expval_jvp_float32(frame: int) -> int:
    return expval_jvp(frame, _F32)


@_handler
def expval_jvp_float64(frame: int) -> int:
    return expval_jvp(frame, _F64)


@_handler
def expval_hvp_float32(frame: int) -> int:
    return expval_hvp(frame, _F32)


@_handler
def expval_hvp_float64(frame: int) -> int:
    return expval_hvp(frame, _F64)


def call(primitive: str, plan: Any, shape: tuple[int, ...], a: Any, *operands: Any) -> Any:
    """A primitive as an XLA custom call on JAX arrays; `plan` are packed bytes."""
    result: Any = jax.ShapeDtypeStruct(shape, a.dtype)  # type: ignore[no-untyped-call]
    made: Any = jax.ffi.ffi_call(target(primitive, a.dtype.name), result)
    return made(plan, a, *operands)


@cache
def available() -> bool:
    """Whether XLA takes our handlers; if not, it says so once, with the reason."""
    try:
        target("expval", "float32")
    except (RuntimeError, ValueError) as error:
        warnings.warn(
            f"XLA does not take this library's compiled functions ({error}): code under jax.jit "
            "calls the statevector engine through Python, some 50 microseconds a call slower. "
            "Please report it with the versions of jax and jaxlib.",
            RuntimeWarning,
            stacklevel=2,
        )
        return False
    return True


@cache
def target(primitive: str, dtype: str) -> str:
    """The name of the XLA call target of a primitive in "float32" or "float64"; registers it."""
    name = f"{primitive}_{dtype}"
    kernels.ready(primitive, dtype)
    with compiling():
        handler = cfunc(types.int64(types.int64), cache=CACHE)(HANDLERS[name])
    make = ctypes.pythonapi.PyCapsule_New
    make.restype, make.argtypes = (
        ctypes.py_object,
        [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p],
    )
    capsule = make(handler.address, None, None)
    jax.ffi.register_ffi_target(f"qml_statevector_{name}", capsule, platform="cpu")
    _KEPT.append(handler)
    return f"qml_statevector_{name}"


_KEPT: Final[list[Any]] = []
"""Handlers live as long as the process: XLA holds their addresses."""
