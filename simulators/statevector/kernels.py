"""Whole batches: chunks of lanes over the threads. The compiled functions the engine calls.

Every function fills its last argument. Requests are rows r of a flat batch; row r has the angles
`r // per_angles`, and tangents and cotangents by the formulas below.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numba import njit, prange

from qml.simulators.statevector.blocks import OPTIONS
from qml.simulators.statevector.readout import apply_observable, observe
from qml.simulators.statevector.rows import lanes
from qml.simulators.statevector.sweeps import backward, backward_tangent, forward, forward_tangent
from qml.simulators.statevector.tables import FIXED_WORDS, HEADER, LANE_BITS, THREADS

Array = Any
PARALLEL = {**OPTIONS, "parallel": True}


@njit(**OPTIONS)  # type: ignore[untyped-decorator]
def cos_sin(angles: Array, first: int, per: int, lane_bits: int, c: Array, s: Array) -> None:
    """cos and sin of half the angles of V requests from `first`, or of one in all lanes."""
    V = lanes(c)
    last = len(angles) - 1
    for k in range(angles.shape[1]):
        row = first // per
        a = 0.5 * angles[row, k]
        cosine, sine = math.cos(a), math.sin(a)
        same = True
        if lane_bits == 0:
            for v in range(1, V):
                same &= angles[min((first + v) // per, last), k] == angles[row, k]
        for v in range(V):
            if not same:
                a = 0.5 * angles[min((first + v) // per, last), k]
                cosine, sine = math.cos(a), math.sin(a)
            c[k * V + v], s[k * V + v] = cosine, sine


@njit(**OPTIONS)  # type: ignore[untyped-decorator]
def spread(
    source: Array, row: int, lane: int, V: int, whole: bool, factor: float, out: Array
) -> None:
    """out[k * V + lane] = factor * source[row, k], in all lanes if `whole`."""
    for k in range(source.shape[1]):
        value = factor * source[row, k]
        if whole:
            for v in range(V):
                out[k * V + v] = value
        else:
            out[k * V + lane] = value


@njit(**OPTIONS)  # type: ignore[untyped-decorator]
def collect(lanes_: Array, V: int, lane: int, whole: bool, out: Array) -> None:
    """out[k] = lanes_[k * V + lane], the sum of all lanes if `whole`."""
    for k in range(len(out)):
        if whole:
            total = lanes_[k * V]
            for v in range(1, V):
                total += lanes_[k * V + v]
            out[k] = total
        else:
            out[k] = lanes_[k * V + lane]


@njit(**OPTIONS)  # type: ignore[untyped-decorator]
def start(psi: Array, lane_bits: int) -> None:
    """|0...0> in every sample."""
    psi[:] = 0
    for v in range(1 if lane_bits else lanes(psi)):
        psi[v] = 1


@njit(**OPTIONS)  # type: ignore[untyped-decorator]
def table(plan: Array, words: Array, which: int, like: Array) -> Array:
    """A table of packed bytes, in the type of `like`."""
    offset, n, m = (
        words[FIXED_WORDS + 3 * which],
        words[FIXED_WORDS + 1 + 3 * which],
        words[FIXED_WORDS + 2 + 3 * which],
    )
    return plan[offset : offset + n * m * like.itemsize].view(like.dtype).reshape((n, m))


@njit(**OPTIONS)  # type: ignore[untyped-decorator]
def unpacked(plan: Array, like: Array) -> Any:
    """(rows, lane bits, first step with a slot, tables of the sweep, tables of the readout)."""
    words = plan[: 8 * HEADER].view(np.int64)
    sweep = (
        table(plan, words, 0, words),
        table(plan, words, 1, words),
        table(plan, words, 2, like),
        table(plan, words, 3, words),
        table(plan, words, 4, like),
    )
    readout = (
        table(plan, words, 5, words),
        table(plan, words, 6, words),
        table(plan, words, 7, like),
        table(plan, words, 8, words),
        table(plan, words, 9, words),
    )
    return words[0], words[1], words[2], sweep, readout


@njit(**OPTIONS)  # type: ignore[untyped-decorator]
def num_chunks(plan: Array, out: Array) -> int:
    """How many chunks of lanes the rows of `out` make."""
    per = 1 if plan[: 8 * HEADER].view(np.int64)[LANE_BITS] else lanes(out)
    chunks: int = (len(out) + per - 1) // per
    return chunks


@njit(**OPTIONS)  # type: ignore[untyped-decorator]
def num_workers(plan: Array, chunks: int) -> int:
    """Over how many threads the chunks are spread, evenly: at least 1."""
    workers: int = max(1, min(chunks, plan[: 8 * HEADER].view(np.int64)[THREADS]))
    return workers


@njit(**OPTIONS)  # type: ignore[untyped-decorator]
def expval_chunk(chunk: int, plan: Array, angles: Array, out: Array) -> None:
    rows, lane_bits, first_step, tables, readout = unpacked(plan, out)
    V = lanes(out)
    step = 1 if lane_bits else V
    whole = lane_bits > 0
    count, outputs = out.shape
    slots = angles.shape[1]
    first = chunk * step
    psi = np.empty(rows * 2 * V, out.dtype)
    c, s = np.empty(slots * V, out.dtype), np.empty(slots * V, out.dtype)
    work, values = np.empty(110 * V, out.dtype), np.empty(outputs * V, out.dtype)
    cos_sin(angles, first, 1, lane_bits, c, s)
    start(psi, lane_bits)
    forward(tables, c, s, work, psi)
    observe(readout, psi, psi, values)
    for v in range(min(step, count - first)):
        collect(values, V, v, whole, out[first + v])


@njit(**PARALLEL)  # type: ignore[untyped-decorator]
def expval(plan: Array, angles: Array, out: Array) -> None:
    """out (R, M)."""
    chunks = num_chunks(plan, out)
    workers = num_workers(plan, chunks)
    if workers == 1:
        for chunk in range(chunks):
            expval_chunk(chunk, plan, angles, out)
    else:
        for worker in prange(workers):
            for chunk in range(worker, chunks, workers):
                expval_chunk(chunk, plan, angles, out)


@njit(**OPTIONS)  # type: ignore[untyped-decorator]
def vjp_chunk(chunk: int, plan: Array, angles: Array, cotangents: Array, out: Array) -> None:
    rows, lane_bits, first_step, tables, readout = unpacked(plan, out)
    V = lanes(out)
    step = 1 if lane_bits else V
    whole = lane_bits > 0
    count, slots = out.shape
    per = count // len(angles)
    first = chunk * step
    used = min(step, count - first)
    psi, lam = np.empty(rows * 2 * V, out.dtype), np.empty(rows * 2 * V, out.dtype)
    c, s = np.empty(slots * V, out.dtype), np.empty(slots * V, out.dtype)
    work = np.empty(110 * V, out.dtype)
    cot = np.zeros(cotangents.shape[1] * V, out.dtype)
    g = np.zeros(slots * V, out.dtype)
    cos_sin(angles, first, per, lane_bits, c, s)
    for v in range(used):
        spread(cotangents, first + v, v, V, whole, 1.0, cot)
    start(psi, lane_bits)
    forward(tables, c, s, work, psi)
    apply_observable(readout, cot, psi, lam)
    backward(tables, first_step, c, s, work, psi, lam, g)
    for v in range(used):
        collect(g, V, v, whole, out[first + v])


@njit(**PARALLEL)  # type: ignore[untyped-decorator]
def vjp(plan: Array, angles: Array, cotangents: Array, out: Array) -> None:
    """out (R, K) for cotangents (R, M)."""
    chunks = num_chunks(plan, out)
    workers = num_workers(plan, chunks)
    if workers == 1:
        for chunk in range(chunks):
            vjp_chunk(chunk, plan, angles, cotangents, out)
    else:
        for worker in prange(workers):
            for chunk in range(worker, chunks, workers):
                vjp_chunk(chunk, plan, angles, cotangents, out)


@njit(**OPTIONS)  # type: ignore[untyped-decorator]
def jvp_chunk(chunk: int, plan: Array, angles: Array, tangents: Array, out: Array) -> None:
    rows, lane_bits, first_step, tables, readout = unpacked(plan, out)
    V = lanes(out)
    step = 1 if lane_bits else V
    whole = lane_bits > 0
    count, outputs = out.shape
    slots = angles.shape[1]
    per = count // len(angles)
    first = chunk * step
    used = min(step, count - first)
    psi, dpsi = np.empty(rows * 2 * V, out.dtype), np.zeros(rows * 2 * V, out.dtype)
    c, s = np.empty(slots * V, out.dtype), np.empty(slots * V, out.dtype)
    half = np.zeros(slots * V, out.dtype)
    work, values = np.empty(110 * V, out.dtype), np.empty(outputs * V, out.dtype)
    cos_sin(angles, first, per, lane_bits, c, s)
    for v in range(used):
        spread(tangents, first + v, v, V, whole, 0.5, half)
    start(psi, lane_bits)
    forward_tangent(tables, c, s, half, work, psi, dpsi)
    observe(readout, psi, dpsi, values)
    for v in range(used):
        collect(values, V, v, whole, out[first + v])
        out[first + v] *= 2


@njit(**PARALLEL)  # type: ignore[untyped-decorator]
def jvp(plan: Array, angles: Array, tangents: Array, out: Array) -> None:
    """out (R, M) for tangents (R, K)."""
    chunks = num_chunks(plan, out)
    workers = num_workers(plan, chunks)
    if workers == 1:
        for chunk in range(chunks):
            jvp_chunk(chunk, plan, angles, tangents, out)
    else:
        for worker in prange(workers):
            for chunk in range(worker, chunks, workers):
                jvp_chunk(chunk, plan, angles, tangents, out)


@njit(**OPTIONS)  # type: ignore[untyped-decorator]
def hvp_chunk(
    chunk: int,
    plan: Array,
    angles: Array,
    tangents: Array,
    cotangents: Array,
    num_tangents: int,
    out: Array,
) -> None:
    rows, lane_bits, first_step, tables, readout = unpacked(plan, out)
    V = lanes(out)
    step = 1 if lane_bits else V
    whole = lane_bits > 0
    count, slots = out.shape
    per = count // len(angles)
    num_cotangents = count // len(tangents)
    first = chunk * step
    used = min(step, count - first)
    psi, dpsi = np.empty(rows * 2 * V, out.dtype), np.zeros(rows * 2 * V, out.dtype)
    lam, dlam = np.empty(rows * 2 * V, out.dtype), np.empty(rows * 2 * V, out.dtype)
    c, s = np.empty(slots * V, out.dtype), np.empty(slots * V, out.dtype)
    half, work = np.zeros(slots * V, out.dtype), np.empty(110 * V, out.dtype)
    cot = np.zeros(cotangents.shape[1] * V, out.dtype)
    g = np.zeros(slots * V, out.dtype)
    cos_sin(angles, first, per, lane_bits, c, s)
    for v in range(used):
        r = first + v
        shared = r // (num_tangents * num_cotangents)
        spread(tangents, r // num_cotangents, v, V, whole, 0.5, half)
        spread(cotangents, shared * num_cotangents + r % num_cotangents, v, V, whole, 1.0, cot)
    start(psi, lane_bits)
    forward_tangent(tables, c, s, half, work, psi, dpsi)
    apply_observable(readout, cot, psi, lam)
    apply_observable(readout, cot, dpsi, dlam)
    backward_tangent(tables, first_step, c, s, half, work, psi, dpsi, lam, dlam, g)
    for v in range(used):
        collect(g, V, v, whole, out[first + v])


@njit(**PARALLEL)  # type: ignore[untyped-decorator]
def hvp(
    plan: Array, angles: Array, tangents: Array, cotangents: Array, num_tangents: int, out: Array
) -> None:
    """out (R, K); per row of angles S * T * C results, S * T tangents, S * C cotangents."""
    chunks = num_chunks(plan, out)
    workers = num_workers(plan, chunks)
    if workers == 1:
        for chunk in range(chunks):
            hvp_chunk(chunk, plan, angles, tangents, cotangents, num_tangents, out)
    else:
        for worker in prange(workers):
            for chunk in range(worker, chunks, workers):
                hvp_chunk(chunk, plan, angles, tangents, cotangents, num_tangents, out)
