"""Steps applied to the rows of an array: the whole state, or a tile of it.

Names: psi the state, lam the adjoint state H psi, dpsi and dlam their derivatives along a tangent
of the slots. `prepare` makes the coefficients of the steps of a group, 32 V numbers for each in
`e`, and their derivatives in `d`; c and s are cos and sin of half the angle of every factor of the
group, per lane, and half is half its tangent. The functions that apply steps `first` to `last` - 1
are alike: `ed` is (e, d) or (e,), `states` are as they say, and `base` is the row of the whole
state at which they begin.
"""

from __future__ import annotations

from typing import Any

from numba import njit

from qml.simulators.statevector.coefficients import set_difference
from qml.simulators.statevector.compiler import OPTIONS
from qml.simulators.statevector.dense import apply_dense
from qml.simulators.statevector.matrices import (
    FIRST,
    FIRST_STEP,
    KIND,
    LAST_STEP,
    NEGATIVE,
    ORIGIN,
    PIVOT,
    R_LANE,
    R_OUTER,
    R_ROW,
    SLOTS,
    X_LANE,
    X_ROW,
    Z_OUTER,
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
from qml.simulators.statevector.plan import DENSE, DIAGONAL, PAIR
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
def prepare(
    tables: Array, group: Array, c: Array, s: Array, inverse: bool, u: Array, e: Array
) -> None:
    """e of the steps or of their inverses; u (8 V) is overwritten."""
    steps, factors, constants = tables[:3]
    V = lanes(u)
    first, last, origin = group[FIRST_STEP], group[LAST_STEP], group[ORIGIN]
    for i in range(first, last):
        step, at = steps[i], (i - first) * 32 * V
        if step[KIND] == PAIR:
            load_matrix(step, origin, factors, constants, c, s, u)
            pair_coefficients(step, u, int(inverse), e, at)
        elif step[KIND] != DENSE:
            phase_coefficients(step, origin, factors, constants, c, s, int(inverse), e, at)


@njit(**OPTIONS)  # type: ignore[untyped-decorator]
def prepare_tangent(
    tables: Array,
    group: Array,
    c: Array,
    s: Array,
    half: Array,
    inverse: bool,
    u: Array,
    du: Array,
    e: Array,
    d: Array,
) -> None:
    """The same with d, the derivatives of e along the tangent 2 * half (K * V)."""
    steps, factors, constants = tables[:3]
    V = lanes(u)
    first, last, origin = group[FIRST_STEP], group[LAST_STEP], group[ORIGIN]
    for i in range(first, last):
        step, at = steps[i], (i - first) * 32 * V
        if step[KIND] == PAIR:
            load_tangent(step, origin, factors, constants, c, s, half, u, du)
            pair_coefficients(step, u, int(inverse), e, at)
            pair_coefficients(step, du, int(inverse), d, at)
        elif step[KIND] != DENSE:
            phase_coefficients(step, origin, factors, constants, c, s, int(inverse), e, at)
            phase_derivatives(step, origin, factors, half, int(inverse), e, d, at)


@njit(**OPTIONS)  # type: ignore[untyped-decorator]
def lower_row(low: int, t: int) -> int:
    """The t-th row whose pivot bit is 0; `low` are the bits below the pivot."""
    row: int = ((t & ~low) << 1) | (t & low)
    return row


@njit(**OPTIONS)  # type: ignore[untyped-decorator]
def parities(step: Array, base: int) -> tuple[int, int]:
    """What the sign of Z', and the row at which the array begins, add to the parities of a row."""
    r: int = step[NEGATIVE] ^ parity(base & step[R_OUTER])
    z: int = parity(base & step[Z_OUTER])
    return r, z


@njit(**OPTIONS)  # type: ignore[untyped-decorator]
def variant(r_mask: int, z_mask: int, r: int, z: int, j: int) -> int:
    """Which of the four coefficient sets row j takes; see `pair_coefficients`."""
    which: int = 2 * (parity(j & r_mask) ^ r) + (parity(j & z_mask) ^ z)
    return which


@njit(**OPTIONS)  # type: ignore[untyped-decorator]
def apply_pair(step: Array, e: Array, at: int, base: int, psi: Array) -> None:
    """A PAIR step on one state, its coefficients from e[at]."""
    V = lanes(psi)
    rows = len(psi) // (2 * V)
    x, mask, r_mask, z_mask = step[X_ROW], step[X_LANE], step[R_ROW], step[Z_ROW]
    r, z = parities(step, base)
    if x == 0:
        for j in range(rows):
            single(psi, j * 2 * V, e, at + variant(r_mask, z_mask, r, z, j) * 8 * V, mask)
        return
    low = (1 << step[PIVOT]) - 1
    for t in range(rows >> 1):
        j = lower_row(low, t)
        k = at + variant(r_mask, z_mask, r, z, j) * 8 * V
        pair(psi, j * 2 * V, (j ^ x) * 2 * V, e, k, mask)


@njit(**OPTIONS)  # type: ignore[untyped-decorator]
def forward_steps(
    tables: Array, first: int, last: int, ed: Array, base: int, states: Array, sums: Array
) -> None:
    """psi, the only state, through the steps."""
    psi, e = states[0], ed[0]
    steps, _, _, dense_masks, dense_matrices = tables[:5]
    V = lanes(psi)
    rows = len(psi) // (2 * V)
    for i in range(first, last):
        step, at = steps[i], (i - first) * 32 * V
        if step[KIND] == PAIR:
            apply_pair(step, e, at, base, psi)
        elif step[KIND] == DENSE:
            apply_dense(step, dense_masks, dense_matrices, False, psi)
        else:
            r_mask, r = step[R_ROW], parity(base & step[R_OUTER])
            for j in range(rows):
                phase(psi, j * 2 * V, e, at + (parity(j & r_mask) ^ r) * 2 * V)


@njit(**OPTIONS)  # type: ignore[untyped-decorator]
def forward_tangent_steps(
    tables: Array, first: int, last: int, ed: Array, base: int, states: Array, sums: Array
) -> None:
    """psi and dpsi through the steps."""
    psi, dpsi, e, d = states[0], states[1], ed[0], ed[1]
    steps, _, _, dense_masks, dense_matrices = tables[:5]
    V = lanes(psi)
    rows = len(psi) // (2 * V)
    for i in range(first, last):
        step, at = steps[i], (i - first) * 32 * V
        x, mask, r_mask, z_mask = step[X_ROW], step[X_LANE], step[R_ROW], step[Z_ROW]
        r, z = parities(step, base)
        if step[KIND] == DENSE:
            apply_dense(step, dense_masks, dense_matrices, False, psi)
            apply_dense(step, dense_masks, dense_matrices, False, dpsi)
        elif step[KIND] != PAIR:
            r ^= step[NEGATIVE]  # which the coefficients hold
            for j in range(rows):
                k = at + (parity(j & r_mask) ^ r) * 2 * V
                phase_tangent(psi, dpsi, j * 2 * V, e, k, d)
        elif x == 0:
            for j in range(rows):
                k = at + variant(r_mask, z_mask, r, z, j) * 8 * V
                single_tangent(psi, dpsi, j * 2 * V, e, k, d, mask)
        else:
            low = (1 << step[PIVOT]) - 1
            for t in range(rows >> 1):
                j = lower_row(low, t)
                k = at + variant(r_mask, z_mask, r, z, j) * 8 * V
                pair_tangent(psi, dpsi, j * 2 * V, (j ^ x) * 2 * V, e, k, d, mask)


@njit(**OPTIONS)  # type: ignore[untyped-decorator]
def backward_steps(
    tables: Array, first: int, last: int, ed: Array, base: int, states: Array, sums: Array
) -> None:
    """psi and lam back through the steps; the overlaps before each, 12 V, go to `sums`."""
    psi, lam, e = states[0], states[1], ed[0]
    steps, _, _, dense_masks, dense_matrices = tables[:5]
    V = lanes(psi)
    rows = len(psi) // (2 * V)
    for i in range(last - 1, first - 1, -1):
        step, at, to = steps[i], (i - first) * 32 * V, (i - first) * 12 * V
        x, mask, r_mask, z_mask = step[X_ROW], step[X_LANE], step[R_ROW], step[Z_ROW]
        r, z = parities(step, base)
        if step[KIND] == DENSE:
            apply_dense(step, dense_masks, dense_matrices, True, psi)
            apply_dense(step, dense_masks, dense_matrices, True, lam)
        elif step[KIND] != PAIR:
            r ^= step[NEGATIVE]
            for j in range(rows):
                k = (parity(j & r_mask) ^ r) * V
                phase_back(psi, lam, j * 2 * V, e, at + 2 * k, sums, to + k)
        elif step[SLOTS] == 0:
            apply_pair(step, e, at, base, psi)
            apply_pair(step, e, at, base, lam)
        elif x == 0:
            for j in range(rows):
                k = variant(r_mask, z_mask, r, z, j) * V
                single_back(psi, lam, j * 2 * V, e, at + 8 * k, mask, sums, to + 3 * k)
        else:
            low = (1 << step[PIVOT]) - 1
            for t in range(rows >> 1):
                j = lower_row(low, t)
                k = variant(r_mask, z_mask, r, z, j) * V
                i_, j_ = j * 2 * V, (j ^ x) * 2 * V
                pair_back(psi, lam, i_, j_, e, at + 8 * k, mask, sums, to + 3 * k)


@njit(**OPTIONS)  # type: ignore[untyped-decorator]
def backward_tangent_steps(
    tables: Array, first: int, last: int, ed: Array, base: int, states: Array, sums: Array
) -> None:
    """psi, dpsi, lam and dlam back; overlaps and their derivatives, 24 V, go to `sums`."""
    psi, dpsi, lam, dlam = states[0], states[1], states[2], states[3]
    e, d = ed[0], ed[1]
    steps, _, _, dense_masks, dense_matrices = tables[:5]
    V = lanes(psi)
    rows = len(psi) // (2 * V)
    for i in range(last - 1, first - 1, -1):
        step, at, to = steps[i], (i - first) * 32 * V, (i - first) * 24 * V
        x, mask, r_mask, z_mask = step[X_ROW], step[X_LANE], step[R_ROW], step[Z_ROW]
        r, z = parities(step, base)
        if step[KIND] == DENSE:
            for state in (psi, dpsi, lam, dlam):
                apply_dense(step, dense_masks, dense_matrices, True, state)
        elif step[KIND] != PAIR:
            r ^= step[NEGATIVE]
            for j in range(rows):
                k = (parity(j & r_mask) ^ r) * 2 * V
                phase_back_tangent(psi, dpsi, lam, dlam, j * 2 * V, e, at + k, d, sums, to + k)
        elif x == 0:
            for j in range(rows):
                k = variant(r_mask, z_mask, r, z, j) * V
                single_back_tangent(
                    psi, dpsi, lam, dlam, j * 2 * V, e, at + 8 * k, d, mask, sums, to + 6 * k
                )
        else:
            low = (1 << step[PIVOT]) - 1
            for t in range(rows >> 1):
                j = lower_row(low, t)
                k = variant(r_mask, z_mask, r, z, j) * V
                i_, j_ = j * 2 * V, (j ^ x) * 2 * V
                pair_back_tangent(
                    psi, dpsi, lam, dlam, i_, j_, e, at + 8 * k, d, mask, sums, to + 6 * k
                )


@njit(**OPTIONS)  # type: ignore[untyped-decorator]
def gradients(
    tables: Array,
    group: Array,
    c: Array,
    s: Array,
    sums: Array,
    w: Array,
    u: Array,
    g: Array,
) -> None:
    """g = dE/da of every factor of a group that has a slot, from the sums of `backward_steps`.

    w (3 V) and u (8 V) are overwritten.
    """
    steps, factors, constants = tables[:3]
    V = lanes(g)
    first, last, origin = group[FIRST_STEP], group[LAST_STEP], group[ORIGIN]
    for i in range(first, last):
        step, at = steps[i], (i - first) * 12 * V
        if step[KIND] == PAIR and step[SLOTS]:
            logical_overlap(step, sums, 3 * V, at, w)
            add_gradient(step, origin, factors, constants, c, s, w, u, g)
        elif step[KIND] == DIAGONAL:
            k = (step[FIRST] - origin) * V
            set_difference(sums, at, V, step[R_LANE], step[NEGATIVE], g, k)


@njit(**OPTIONS)  # type: ignore[untyped-decorator]
def gradients_tangent(
    tables: Array,
    group: Array,
    c: Array,
    s: Array,
    half: Array,
    sums: Array,
    w: Array,
    dw: Array,
    u: Array,
    du: Array,
    g: Array,
) -> None:
    """The derivatives of what `gradients` gives, from the sums of `backward_tangent_steps`."""
    steps, factors, constants = tables[:3]
    V = lanes(g)
    first, last, origin = group[FIRST_STEP], group[LAST_STEP], group[ORIGIN]
    for i in range(first, last):
        step, at = steps[i], (i - first) * 24 * V
        if step[KIND] == PAIR and step[SLOTS]:
            logical_overlap(step, sums, 6 * V, at, w)
            logical_overlap(step, sums, 6 * V, at + 3 * V, dw)
            add_gradient_tangent(step, origin, factors, constants, c, s, half, w, dw, u, du, g)
        elif step[KIND] == DIAGONAL:
            k = (step[FIRST] - origin) * V
            set_difference(sums, at + V, 2 * V, step[R_LANE], step[NEGATIVE], g, k)
