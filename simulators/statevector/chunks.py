"""Chunks of requests as entries (see `symbols`): a sample in every lane, or one in all lanes.

Requests are rows r of a flat batch; request r has the angles r // (requests per row of angles).
Every entry takes its chunk's number, the packed plan, and arrays with their shapes, and fills the
last.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numba import njit
from numba.extending import intrinsic

from qml.simulators.statevector.compiler import OPTIONS
from qml.simulators.statevector.readout import apply_observable, observe
from qml.simulators.statevector.rows import lanes
from qml.simulators.statevector.sweeps import backward, backward_tangent, forward, forward_tangent
from qml.simulators.statevector.symbols import call_of, matrix, octets
from qml.simulators.statevector.tables import LANE_BITS, LOWEST, ROWS, THREADS
from qml.simulators.statevector.words import header, measured

Array = Any
_intrinsic: Any = intrinsic  # numba's own type has no room for the arguments


@njit(**OPTIONS)  # type: ignore[untyped-decorator]
def gathered(cotangents: Array, rows: Array, like: Array) -> Array:
    """(M * V): in lane v the cotangents of row rows[v]."""
    V = lanes(like)
    out = np.empty(cotangents.shape[1] * V, like.dtype)
    for m in range(cotangents.shape[1]):
        for v in range(V):
            out[m * V + v] = cotangents[rows[v], m]
    return out


@njit(**OPTIONS)  # type: ignore[untyped-decorator]
def scatter(values: Array, count: int, whole: bool, out: Array) -> None:
    """Lane v of values (M * V) to row v of out, or the sum of all lanes, if `whole`, to row 0."""
    V = lanes(values)
    for m in range(out.shape[1]):
        if whole:
            total = values[m * V]
            for v in range(1, V):
                total += values[m * V + v]
            out[0, m] = total
        else:
            for v in range(count):
                out[v, m] = values[m * V + v]


@njit(**OPTIONS)  # type: ignore[untyped-decorator]
def requests(plan: Array, out: Array, chunk: int) -> tuple[int, int]:
    """The first request of a chunk, and how many it has."""
    per = 1 if header(plan, LANE_BITS) else lanes(out)
    return chunk * per, min(per, len(out) - chunk * per)


@njit(**OPTIONS)  # type: ignore[untyped-decorator]
def started(plan: Array, count: int, like: Array) -> Array:
    """(count, elements) states: |0...0> in every sample in the first, 0 in the others."""
    states = np.zeros((count, header(plan, ROWS) * 2 * lanes(like)), like.dtype)
    for v in range(1 if header(plan, LANE_BITS) else lanes(like)):
        states[0, v] = 1
    return states


@njit(**OPTIONS)  # type: ignore[untyped-decorator]
def lane_rows(first: int, count: int, whole: bool, like: Array) -> Array:
    """The request in every lane; lanes that are left over repeat the last."""
    V = lanes(like)
    rows = np.empty(V, np.int64)
    for v in range(V):
        rows[v] = first if whole else first + min(v, count - 1)
    return rows


def expval_chunk(
    chunk: int,
    plan_at: int,
    plan_size: int,
    angles_at: int,
    angles_rows: int,
    angles_columns: int,
    out_at: int,
    out_rows: int,
    out_columns: int,
    like: Any,
) -> None:
    plan = octets(plan_at, plan_size)
    angles = matrix(angles_at, angles_rows, angles_columns, like)
    out = matrix(out_at, out_rows, out_columns, like)
    readout = measured(plan, out)
    whole, threads = header(plan, LANE_BITS) > 0, header(plan, THREADS)
    first, count = requests(plan, out, chunk)
    rows = lane_rows(first, count, whole, out)
    values = np.empty(out.shape[1] * lanes(out), out.dtype)
    states = started(plan, 1, out)
    forward(plan, angles, rows, threads, states)
    observe(readout, states[0], states[0], values)
    scatter(values, count, whole, out[first : first + count])


def vjp_chunk(
    chunk: int,
    plan_at: int,
    plan_size: int,
    angles_at: int,
    angles_rows: int,
    angles_columns: int,
    cotangents_at: int,
    cotangents_rows: int,
    cotangents_columns: int,
    out_at: int,
    out_rows: int,
    out_columns: int,
    like: Any,
) -> None:
    plan = octets(plan_at, plan_size)
    angles = matrix(angles_at, angles_rows, angles_columns, like)
    cotangents = matrix(cotangents_at, cotangents_rows, cotangents_columns, like)
    out = matrix(out_at, out_rows, out_columns, like)
    readout = measured(plan, out)
    whole, threads = header(plan, LANE_BITS) > 0, header(plan, THREADS)
    first, count = requests(plan, out, chunk)
    rows = lane_rows(first, count, whole, out)
    at = rows // (len(out) // len(angles))
    states = started(plan, 2, out)
    target = out[first : first + count]
    target[:] = 0
    forward(plan, angles, at, threads, states[:1])
    apply_observable(readout, gathered(cotangents, rows, out), states[0], states[1])
    backward(plan, header(plan, LOWEST), angles, at, threads, states, whole, target)


def jvp_chunk(
    chunk: int,
    plan_at: int,
    plan_size: int,
    angles_at: int,
    angles_rows: int,
    angles_columns: int,
    tangents_at: int,
    tangents_rows: int,
    tangents_columns: int,
    out_at: int,
    out_rows: int,
    out_columns: int,
    like: Any,
) -> None:
    plan = octets(plan_at, plan_size)
    angles = matrix(angles_at, angles_rows, angles_columns, like)
    tangents = matrix(tangents_at, tangents_rows, tangents_columns, like)
    out = matrix(out_at, out_rows, out_columns, like)
    readout = measured(plan, out)
    whole, threads = header(plan, LANE_BITS) > 0, header(plan, THREADS)
    first, count = requests(plan, out, chunk)
    rows = lane_rows(first, count, whole, out)
    at = rows // (len(out) // len(angles))
    values = np.empty(out.shape[1] * lanes(out), out.dtype)
    states = started(plan, 2, out)
    forward_tangent(plan, angles, at, tangents, rows, threads, states)
    observe(readout, states[0], states[1], values)
    values *= 2
    scatter(values, count, whole, out[first : first + count])


def hvp_chunk(
    chunk: int,
    num_tangents: int,
    plan_at: int,
    plan_size: int,
    angles_at: int,
    angles_rows: int,
    angles_columns: int,
    tangents_at: int,
    tangents_rows: int,
    tangents_columns: int,
    cotangents_at: int,
    cotangents_rows: int,
    cotangents_columns: int,
    out_at: int,
    out_rows: int,
    out_columns: int,
    like: Any,
) -> None:
    plan = octets(plan_at, plan_size)
    angles = matrix(angles_at, angles_rows, angles_columns, like)
    tangents = matrix(tangents_at, tangents_rows, tangents_columns, like)
    cotangents = matrix(cotangents_at, cotangents_rows, cotangents_columns, like)
    out = matrix(out_at, out_rows, out_columns, like)
    readout = measured(plan, out)
    whole, threads = header(plan, LANE_BITS) > 0, header(plan, THREADS)
    first, count = requests(plan, out, chunk)
    rows = lane_rows(first, count, whole, out)
    at = rows // (len(out) // len(angles))
    num_cotangents = len(out) // len(tangents)
    tangent_rows = rows // num_cotangents
    cotangent_rows = rows // (num_tangents * num_cotangents) * num_cotangents
    cotangent_rows += rows % num_cotangents
    cot = gathered(cotangents, cotangent_rows, out)
    states = started(plan, 4, out)
    target = out[first : first + count]
    target[:] = 0
    forward_tangent(plan, angles, at, tangents, tangent_rows, threads, states[:2])
    apply_observable(readout, cot, states[0], states[2])
    apply_observable(readout, cot, states[1], states[3])
    lowest = header(plan, LOWEST)
    backward_tangent(
        plan, lowest, angles, at, tangents, tangent_rows, threads, states, whole, target
    )


ENTRIES: Final = {
    expval_chunk: 9,
    vjp_chunk: 12,
    jvp_chunk: 12,
    hvp_chunk: 16,
}
"""The entries, and how many words they take."""


@_intrinsic
def call_expval(typing, chunk, plan, angles, out):  # type: ignore[no-untyped-def]
    return call_of("expval_chunk", [chunk, plan, angles, out])


@_intrinsic
def call_vjp(typing, chunk, plan, angles, cotangents, out):  # type: ignore[no-untyped-def]
    return call_of("vjp_chunk", [chunk, plan, angles, cotangents, out])


@_intrinsic
def call_jvp(typing, chunk, plan, angles, tangents, out):  # type: ignore[no-untyped-def]
    return call_of("jvp_chunk", [chunk, plan, angles, tangents, out])


@_intrinsic
def call_hvp(typing, chunk, num_tangents, plan, angles, tangents, cotangents, out):  # type: ignore[no-untyped-def]
    return call_of("hvp_chunk", [chunk, num_tangents, plan, angles, tangents, cotangents, out])
