"""Whole batches: chunks of requests over the threads. The compiled functions the engine calls.

Every function fills its last argument; see qml.simulators.statevector.chunks. Before a call in a
precision, `ready` must have been called for it.
"""

from __future__ import annotations

from functools import cache
from typing import Any

from numba import njit, prange

from qml.simulators.statevector import chunks, groups
from qml.simulators.statevector.chunks import call_expval, call_hvp, call_jvp, call_vjp
from qml.simulators.statevector.compiler import OPTIONS, compiling, parallel
from qml.simulators.statevector.rows import lanes
from qml.simulators.statevector.symbols import linked
from qml.simulators.statevector.tables import LANE_BITS, WORKERS
from qml.simulators.statevector.words import header

Array = Any


@njit(**OPTIONS)  # type: ignore[untyped-decorator]
def num_chunks(plan: Array, out: Array) -> int:
    """How many chunks the rows of `out` make: of V samples, or of one across the lanes."""
    per = 1 if header(plan, LANE_BITS) else lanes(out)
    chunks: int = (len(out) + per - 1) // per
    return chunks


@njit(**parallel())  # type: ignore[untyped-decorator]
def expval(plan: Array, angles: Array, out: Array) -> None:
    """out (R, M)."""
    count, workers = num_chunks(plan, out), header(plan, WORKERS)
    if workers == 1:
        for chunk in range(count):
            call_expval(chunk, plan, angles, out)
    else:
        for worker in prange(workers):
            for chunk in range(worker, count, workers):
                call_expval(chunk, plan, angles, out)


@njit(**parallel())  # type: ignore[untyped-decorator]
def vjp(plan: Array, angles: Array, cotangents: Array, out: Array) -> None:
    """out (R, K) for cotangents (R, M)."""
    count, workers = num_chunks(plan, out), header(plan, WORKERS)
    if workers == 1:
        for chunk in range(count):
            call_vjp(chunk, plan, angles, cotangents, out)
    else:
        for worker in prange(workers):
            for chunk in range(worker, count, workers):
                call_vjp(chunk, plan, angles, cotangents, out)


@njit(**parallel())  # type: ignore[untyped-decorator]
def jvp(plan: Array, angles: Array, tangents: Array, out: Array) -> None:
    """out (R, M) for tangents (R, K)."""
    count, workers = num_chunks(plan, out), header(plan, WORKERS)
    if workers == 1:
        for chunk in range(count):
            call_jvp(chunk, plan, angles, tangents, out)
    else:
        for worker in prange(workers):
            for chunk in range(worker, count, workers):
                call_jvp(chunk, plan, angles, tangents, out)


@njit(**parallel())  # type: ignore[untyped-decorator]
def hvp(
    plan: Array, angles: Array, tangents: Array, cotangents: Array, num_tangents: int, out: Array
) -> None:
    """out (R, K); per row of angles S * T * C results, S * T tangents, S * C cotangents."""
    count, workers = num_chunks(plan, out), header(plan, WORKERS)
    if workers == 1:
        for chunk in range(count):
            call_hvp(chunk, num_tangents, plan, angles, tangents, cotangents, out)
    else:
        for worker in prange(workers):
            for chunk in range(worker, count, workers):
                call_hvp(chunk, num_tangents, plan, angles, tangents, cotangents, out)


_CHUNKS = {
    "expval": chunks.expval_chunk,
    "expval_vjp": chunks.vjp_chunk,
    "expval_jvp": chunks.jvp_chunk,
    "expval_hvp": chunks.hvp_chunk,
}


@cache
def ready(primitive: str, dtype: str) -> None:
    """Compiles or loads what a primitive calls in "float32" or "float64".

    LLVM ends the process where a symbol is missing, so nothing that calls one is loaded before.
    """
    entry = _CHUNKS[primitive]
    with compiling():
        linked(groups.group_entry, groups.ENTRIES[groups.group_entry], dtype)
        linked(entry, chunks.ENTRIES[entry], dtype)
