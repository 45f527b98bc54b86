"""The sweeps over a circuit: states forward, states and gradients backward.

Names: psi the state, lam the adjoint state H psi, dpsi and dlam their derivatives along a tangent
of the slots. Every sweep takes the tables of a plan (qml.simulators.statevector.tables) and
cos, sin of half of every slot's angle, per lane.
"""

from __future__ import annotations

from typing import Any

from numba import njit

from qml.simulators.statevector.blocks import (
    FIRST,
    KIND,
    NEGATIVE,
    OPTIONS,
    PIVOT,
    R_LANE,
    R_ROW,
    SLOT,
    SLOTS,
    X_LANE,
    X_ROW,
    Z_ROW,
    add_gradient,
    add_gradient_tangent,
    load_matrix,
    load_tangent,
    logical_overlap,
    pair_coefficients,
    phase_coefficients,
    phase_derivatives,
)
from qml.simulators.statevector.dense import apply_dense
from qml.simulators.statevector.plan import DENSE, PAIR
from qml.simulators.statevector.rows import (
    lanes,
    pair,
    pair_back,
    pair_back_tangent,
    pair_tangent,
    parity,
    phase,
    phase_back,
    phase_back_tangent,
    phase_tangent,
    single,
    single_back,
    single_back_tangent,
    single_tangent,
)

Array = Any


@njit(**OPTIONS)  # type: ignore[untyped-decorator]
def variant(step: Array, j: int) -> int:
    """Which of the four coefficient sets a row takes."""
    which: int = 2 * (parity(j & step[R_ROW]) ^ step[NEGATIVE]) + parity(j & step[Z_ROW])
    return which


@njit(**OPTIONS)  # type: ignore[untyped-decorator]
def lower_row(step: Array, t: int) -> int:
    """The t-th row whose pivot bit is 0."""
    low = (1 << step[PIVOT]) - 1
    row: int = ((t & ~low) << 1) | (t & low)
    return row


@njit(**OPTIONS)  # type: ignore[untyped-decorator]
def forward(tables: Array, c: Array, s: Array, work: Array, psi: Array) -> None:
    """psi through the circuit."""
    steps, factors, constants, dense_masks, dense_matrices = tables
    V = lanes(psi)
    rows = len(psi) // (2 * V)
    u, e = work[: 8 * V], work[8 * V : 40 * V]
    for step in steps:
        if step[KIND] == DENSE:
            apply_dense(step, dense_masks, dense_matrices, False, psi)
        elif step[KIND] == PAIR:
            load_matrix(step, factors, constants, c, s, u)
            pair_coefficients(step, u, False, e)
            apply_pair(step, e, rows, psi)
        else:
            phase_coefficients(step, factors, constants, c, s, False, e)
            for j in range(rows):
                phase(psi, j * 2 * V, e, parity(j & step[R_ROW]) * 2 * V)


@njit(**OPTIONS)  # type: ignore[untyped-decorator]
def apply_pair(step: Array, e: Array, rows: int, psi: Array) -> None:
    V = lanes(psi)
    x, mask = step[X_ROW], step[X_LANE]
    if x == 0:
        for j in range(rows):
            single(psi, j * 2 * V, e, variant(step, j) * 8 * V, mask)
        return
    for t in range(rows >> 1):
        j = lower_row(step, t)
        pair(psi, j * 2 * V, (j ^ x) * 2 * V, e, variant(step, j) * 8 * V, mask)


@njit(**OPTIONS)  # type: ignore[untyped-decorator]
def forward_tangent(
    tables: Array, c: Array, s: Array, half: Array, work: Array, psi: Array, dpsi: Array
) -> None:
    """psi and its derivative along the tangent 2 * half (K * V) through the circuit."""
    steps, factors, constants, dense_masks, dense_matrices = tables
    V = lanes(psi)
    rows = len(psi) // (2 * V)
    u, e, du, d = work[: 8 * V], work[8 * V : 40 * V], work[40 * V : 48 * V], work[48 * V : 80 * V]
    for step in steps:
        if step[KIND] == DENSE:
            apply_dense(step, dense_masks, dense_matrices, False, psi)
            apply_dense(step, dense_masks, dense_matrices, False, dpsi)
        elif step[KIND] == PAIR:
            load_tangent(step, factors, constants, c, s, half, u, du)
            pair_coefficients(step, u, False, e)
            pair_coefficients(step, du, False, d)
            x, mask = step[X_ROW], step[X_LANE]
            if x == 0:
                for j in range(rows):
                    single_tangent(psi, dpsi, j * 2 * V, e, variant(step, j) * 8 * V, d, mask)
            else:
                for t in range(rows >> 1):
                    j = lower_row(step, t)
                    k = variant(step, j) * 8 * V
                    pair_tangent(psi, dpsi, j * 2 * V, (j ^ x) * 2 * V, e, k, d, mask)
        else:
            phase_coefficients(step, factors, constants, c, s, False, e)
            phase_derivatives(step, factors, half, False, e, d)
            for j in range(rows):
                phase_tangent(psi, dpsi, j * 2 * V, e, parity(j & step[R_ROW]) * 2 * V, d)


@njit(**OPTIONS)  # type: ignore[untyped-decorator]
def backward(
    tables: Array, first: int, c: Array, s: Array, work: Array, psi: Array, lam: Array, g: Array
) -> None:
    """g (K * V) = dE/da of every slot; the steps before `first` have none and are left undone."""
    steps, factors, constants, dense_masks, dense_matrices = tables
    V = lanes(psi)
    rows = len(psi) // (2 * V)
    u, e = work[: 8 * V], work[8 * V : 40 * V]
    w, sums = work[80 * V : 83 * V], work[86 * V : 98 * V]
    for i in range(len(steps) - 1, first - 1, -1):
        step = steps[i]
        if step[KIND] == DENSE:
            apply_dense(step, dense_masks, dense_matrices, True, psi)
            apply_dense(step, dense_masks, dense_matrices, True, lam)
        elif step[KIND] == PAIR:
            load_matrix(step, factors, constants, c, s, u)
            pair_coefficients(step, u, True, e)
            if step[SLOTS] == 0:
                apply_pair(step, e, rows, psi)
                apply_pair(step, e, rows, lam)
                continue
            x, mask = step[X_ROW], step[X_LANE]
            sums[:] = 0
            if x == 0:
                for j in range(rows):
                    k = variant(step, j) * V
                    single_back(psi, lam, j * 2 * V, e, 8 * k, mask, sums, 3 * k)
            else:
                for t in range(rows >> 1):
                    j = lower_row(step, t)
                    k = variant(step, j) * V
                    pair_back(psi, lam, j * 2 * V, (j ^ x) * 2 * V, e, 8 * k, mask, sums, 3 * k)
            logical_overlap(step, sums, 0, w)
            add_gradient(step, factors, constants, c, s, w, u, g)
        else:
            phase_coefficients(step, factors, constants, c, s, True, e)
            sums[:] = 0
            for j in range(rows):
                k = parity(j & step[R_ROW]) * V
                phase_back(psi, lam, j * 2 * V, e, 2 * k, sums, k)
            slot = factors[step[FIRST], SLOT]
            if slot >= 0:
                for v in range(V):
                    sign = 1 - 2 * (step[NEGATIVE] ^ parity(v & step[R_LANE]))
                    g[slot * V + v] = sign * (sums[v] - sums[V + v])


@njit(**OPTIONS)  # type: ignore[untyped-decorator]
def backward_tangent(
    tables: Array,
    first: int,
    c: Array,
    s: Array,
    half: Array,
    work: Array,
    psi: Array,
    dpsi: Array,
    lam: Array,
    dlam: Array,
    g: Array,
) -> None:
    """g (K * V) = the derivative of dE/da along the tangent, a product of the Hessian."""
    steps, factors, constants, dense_masks, dense_matrices = tables
    V = lanes(psi)
    rows = len(psi) // (2 * V)
    u, e, du, d = work[: 8 * V], work[8 * V : 40 * V], work[40 * V : 48 * V], work[48 * V : 80 * V]
    w, dw, sums = work[80 * V : 83 * V], work[83 * V : 86 * V], work[86 * V : 110 * V]
    for i in range(len(steps) - 1, first - 1, -1):
        step = steps[i]
        if step[KIND] == DENSE:
            for state in (psi, dpsi, lam, dlam):
                apply_dense(step, dense_masks, dense_matrices, True, state)
        elif step[KIND] == PAIR:
            load_tangent(step, factors, constants, c, s, half, u, du)
            pair_coefficients(step, u, True, e)
            pair_coefficients(step, du, True, d)
            x, mask = step[X_ROW], step[X_LANE]
            sums[:] = 0
            if x == 0:
                for j in range(rows):
                    k = variant(step, j) * V
                    single_back_tangent(
                        psi, dpsi, lam, dlam, j * 2 * V, e, 8 * k, d, mask, sums, 6 * k
                    )
            else:
                for t in range(rows >> 1):
                    j = lower_row(step, t)
                    k = variant(step, j) * V
                    i_, j_ = j * 2 * V, (j ^ x) * 2 * V
                    pair_back_tangent(psi, dpsi, lam, dlam, i_, j_, e, 8 * k, d, mask, sums, 6 * k)
            if step[SLOTS]:
                logical_overlap(step, sums, 0, w)
                logical_overlap(step, sums, 3, dw)
                add_gradient_tangent(step, factors, constants, c, s, half, w, dw, u, du, g)
        else:
            phase_coefficients(step, factors, constants, c, s, True, e)
            phase_derivatives(step, factors, half, True, e, d)
            sums[:] = 0
            for j in range(rows):
                k = parity(j & step[R_ROW]) * V
                phase_back_tangent(psi, dpsi, lam, dlam, j * 2 * V, e, 2 * k, d, sums, 2 * k)
            slot = factors[step[FIRST], SLOT]
            if slot >= 0:
                for v in range(V):
                    sign = 1 - 2 * (step[NEGATIVE] ^ parity(v & step[R_LANE]))
                    g[slot * V + v] = sign * (sums[V + v] - sums[3 * V + v])
