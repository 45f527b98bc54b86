"""Compiled functions that call each other by symbol, not by being compiled into each other.

numba compiles what a function calls into that function again, so the code at the end of a chain is
compiled once per link; a symbol ends the chain.

An entry is a Python function of int64 words and, last, a pointer of the precision. `linked`
compiles it and gives its address to LLVM under a name, to which its callers refer, those that come
from numba's cache too. An array travels as its address and its shape.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any, Final

import llvmlite.binding as llvm
import numpy as np
from llvmlite import ir
from numba import carray, cfunc, njit, types  # type: ignore[attr-defined]
from numba.core import cgutils
from numba.extending import intrinsic
from numba.np.arrayobj import make_array

from qml.simulators.statevector.compiler import CACHE

Array = Any
_intrinsic: Any = intrinsic  # numba's own type has no room for the arguments
_KEPT: Final[list[Any]] = []
"""Compiled functions live as long as the process: others hold their addresses."""
OCTETS: Final = np.zeros(1, np.uint8)


@cache
def linked(entry: Callable[..., None], words: int, dtype: str) -> None:
    """Makes an entry of so many words callable by its symbol, in "float32" or "float64"."""
    element = types.float32 if dtype == "float32" else types.float64
    pointer: Any = types.CPointer(element)  # type: ignore[no-untyped-call]
    signature = types.void(*[types.int64] * words, pointer)
    compiled: Any = cfunc(signature, cache=CACHE, nogil=True)(entry)
    llvm.add_symbol(symbol(entry.__name__, dtype), compiled.address)
    _KEPT.append(compiled)


def symbol(name: str, dtype: str) -> str:
    return f"qml_statevector_{name}_{dtype}"


def call_of(name: str, arguments: Any) -> Any:
    """For an intrinsic that calls the entry `name`, whose last argument is an array of floats."""
    signature = types.void(*(a if isinstance(a, types.Array) else types.int64 for a in arguments))
    target = symbol(name, str(arguments[-1].dtype))

    def codegen(context: Any, b: Any, signature: Any, values: Any) -> Any:
        words = []
        for kind, value in zip(signature.args, values, strict=True):
            if isinstance(kind, types.Array):
                array: Any = make_array(kind)(context, b, value)  # type: ignore[no-untyped-call]
                words.append(b.ptrtoint(array.data, ir.IntType(64)))
                words += cgutils.unpack_tuple(b, array.shape, kind.ndim)  # type: ignore[no-untyped-call]
            else:
                words.append(value)
        element = context.get_value_type(signature.args[-1].dtype)
        pointer = element.as_pointer()
        kinds = [word.type for word in words] + [pointer]
        function = cgutils.get_or_insert_function(  # type: ignore[no-untyped-call]
            b.module, ir.FunctionType(ir.VoidType(), kinds), target
        )
        b.call(function, [*words, ir.Constant(pointer, None)])
        return context.get_dummy_value()

    return signature, codegen


@_intrinsic  # type: ignore[untyped-decorator]
def _typed(typing: Any, address: Any, like: Any) -> Any:
    """An address as a pointer like another, or to what an array holds."""
    pointer: Any = like
    if not isinstance(like, types.CPointer):
        pointer = types.CPointer(like.dtype)  # type: ignore[no-untyped-call]

    def codegen(context: Any, b: Any, signature: Any, arguments: Any) -> Any:
        return b.inttoptr(arguments[0], context.get_value_type(pointer))

    return pointer(types.int64, like), codegen


@njit(cache=CACHE)
def vector(address: int, size: int, like: Any) -> Array:
    """The array at an address, of the type of a pointer or an array `like`."""
    return carray(_typed(address, like), size)


@njit(cache=CACHE)
def matrix(address: int, rows: int, columns: int, like: Any) -> Array:
    """The same, (rows, columns)."""
    return carray(_typed(address, like), (rows, columns))


@njit(cache=CACHE)
def octets(address: int, size: int) -> Array:
    """The bytes at an address."""
    return vector(address, size, OCTETS)
