"""Expectation values of a state, and the observable as an operator on states.

Values and cotangents stand in arrays (M * V), one per output and lane. Where the lanes hold
amplitude bits, the value of an output is the sum of its lanes.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

from qml.simulators.statevector.compiler import OPTIONS
from qml.simulators.statevector.rows import add_overlap, add_product, lanes, parity

Array = Any
# Columns of a measured string, and of a block of probabilities.
X_ROW, X_LANE, Z_ROW, Z_LANE, POWER = range(5)
COLUMN, QUBITS, START = range(3)


@njit(**OPTIONS)  # type: ignore[untyped-decorator]
def observe(readout: Array, left: Array, right: Array, values: Array) -> None:
    """values = Re <left| O |right> for every output O."""
    paulis, weights, coefficients, blocks, block_masks = readout
    V = lanes(left)
    rows = len(left) // (2 * V)
    sums = np.zeros(len(paulis) * V, left.dtype)
    e = np.empty(4 * V, left.dtype)
    p = np.empty(V, left.dtype)
    values[:] = 0
    for t in range(len(paulis)):
        pauli = paulis[t]
        if pauli[X_ROW] | pauli[X_LANE]:
            _string_factors(pauli, e)
            for j in range(rows):
                i = j ^ pauli[X_ROW]
                k = parity(i & pauli[Z_ROW]) * 2 * V
                add_overlap(sums, t * V, left, j * 2 * V, right, i * 2 * V, e, k, pauli[X_LANE])
    buckets = _lane_buckets(blocks, block_masks, V)
    for j in range(rows):
        o = j * 2 * V
        for v in range(V):
            p[v] = left[o + v] * right[o + v] + left[o + V + v] * right[o + V + v]
        for t in range(len(paulis)):
            pauli = paulis[t]
            if pauli[X_ROW] | pauli[X_LANE]:
                continue
            if parity(j & pauli[Z_ROW]):
                for v in range(V):
                    sums[t * V + v] -= p[v]
            else:
                for v in range(V):
                    sums[t * V + v] += p[v]
        for n in range(len(blocks)):
            bucket = _row_bucket(blocks[n], block_masks, j)
            for v in range(V):
                values[(blocks[n, COLUMN] + (bucket ^ buckets[n, v])) * V + v] += p[v]
    for m in range(len(weights)):
        column, t = weights[m]
        for v in range(V):
            sign = _diagonal_sign(paulis[t], v)
            values[column * V + v] += coefficients[m, 0] * sign * sums[t * V + v]


@njit(**OPTIONS)  # type: ignore[untyped-decorator]
def apply_observable(readout: Array, cotangents: Array, psi: Array, lam: Array) -> None:
    """lam = sum_m cotangents[m] O_m psi."""
    paulis, weights, coefficients, blocks, block_masks = readout
    V = lanes(psi)
    rows = len(psi) // (2 * V)
    sums = np.zeros(len(paulis) * V, psi.dtype)
    e = np.empty(4 * V, psi.dtype)
    h = np.empty(V, psi.dtype)
    for m in range(len(weights)):
        column, t = weights[m]
        for v in range(V):
            sign = _diagonal_sign(paulis[t], v)
            sums[t * V + v] += coefficients[m, 0] * sign * cotangents[column * V + v]
    buckets = _lane_buckets(blocks, block_masks, V)
    for j in range(rows):
        o = j * 2 * V
        h[:] = 0
        for t in range(len(paulis)):
            pauli = paulis[t]
            if pauli[X_ROW] | pauli[X_LANE]:
                continue
            if parity(j & pauli[Z_ROW]):
                for v in range(V):
                    h[v] -= sums[t * V + v]
            else:
                for v in range(V):
                    h[v] += sums[t * V + v]
        for n in range(len(blocks)):
            bucket = _row_bucket(blocks[n], block_masks, j)
            for v in range(V):
                h[v] += cotangents[(blocks[n, COLUMN] + (bucket ^ buckets[n, v])) * V + v]
        for v in range(V):
            lam[o + v] = h[v] * psi[o + v]
            lam[o + V + v] = h[v] * psi[o + V + v]
    for t in range(len(paulis)):
        pauli = paulis[t]
        if pauli[X_ROW] | pauli[X_LANE]:
            _string_factors(pauli, e)
            for half in range(0, 4 * V, V):
                for v in range(V):
                    e[half + v] *= sums[t * V + v]
            for j in range(rows):
                i = j ^ pauli[X_ROW]
                k = parity(i & pauli[Z_ROW]) * 2 * V
                add_product(lam, j * 2 * V, psi, i * 2 * V, e, k, pauli[X_LANE])


@njit(**OPTIONS)  # type: ignore[untyped-decorator]
def _string_factors(pauli: Array, e: Array) -> None:
    """e (2 * 2 V): i^k (-1)^|i & z| for source rows of either parity, in the target's lanes."""
    V = lanes(e)
    factor = (1 + 0j, 1j, -1 + 0j, -1j)[pauli[POWER]]
    for odd in range(2):
        for v in range(V):
            sign = 1 - 2 * (odd ^ parity((v ^ pauli[X_LANE]) & pauli[Z_LANE]))
            e[odd * 2 * V + v] = sign * factor.real
            e[odd * 2 * V + V + v] = sign * factor.imag


@njit(**OPTIONS)  # type: ignore[untyped-decorator]
def _diagonal_sign(pauli: Array, v: int) -> int:
    """The sign of lane v for a string of Z alone; other strings have it in their factors."""
    if pauli[X_ROW] | pauli[X_LANE]:
        return 1
    sign: int = 1 - 2 * parity(v & pauli[Z_LANE])
    return sign


@njit(**OPTIONS)  # type: ignore[untyped-decorator]
def _row_bucket(block: Array, masks: Array, j: int) -> int:
    """The part of the outcome that the row decides; signs included."""
    bucket = 0
    for q in range(block[QUBITS]):
        mask = masks[block[START] + q]
        bucket |= (parity(j & mask[0]) ^ mask[2]) << q
    return bucket


@njit(**OPTIONS)  # type: ignore[untyped-decorator]
def _lane_buckets(blocks: Array, masks: Array, V: int) -> Array:
    """(N, V): the part of the outcome that the lane decides."""
    buckets = np.zeros((len(blocks), V), np.int64)
    for n in range(len(blocks)):
        for v in range(V):
            for q in range(blocks[n, QUBITS]):
                buckets[n, v] |= parity(v & masks[blocks[n, START] + q, 1]) << q
    return buckets
