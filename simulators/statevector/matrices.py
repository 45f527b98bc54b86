"""The 2x2 matrix of a step in every lane, what it does to a pair of rows, and its gradient.

A matrix u is an array (8 V): the real and imaginary parts of u00, u01, u10, u11, V lanes each. Its
derivative along a tangent of the slots, du, has the same form.
"""

from __future__ import annotations

from typing import Any, Final

from numba import njit

from qml.simulators.statevector.coefficients import (
    add_overlaps,
    set_pair,
    set_phase_slopes,
    set_phases,
)
from qml.simulators.statevector.compiler import OPTIONS
from qml.simulators.statevector.rotations import (
    apply_constant,
    begin_x,
    begin_x_tangent,
    begin_y,
    begin_y_tangent,
    begin_z,
    begin_z_tangent,
    rotate_x,
    rotate_x_tangent,
    rotate_y,
    rotate_y_tangent,
    rotate_z,
    rotate_z_tangent,
    set_constant,
    set_lanes,
    slope_x,
    slope_x_tangent,
    slope_y,
    slope_y_tangent,
    slope_z,
    slope_z_tangent,
)
from qml.simulators.statevector.rows import lanes, parity

Array = Any

# Columns of a step: kind; the masks of X' (x, z) and Z' (r), each split into a row part and a lane
# part; the power of i in X', the sign of Z', the highest bit of the row part of x; the factors, and
# how many have a slot. In a tile (see `tiles`) the row parts are masks of the row in the tile, and
# the outer parts are masks of the tile's first row in the state.
KIND, X_ROW, X_LANE, Z_ROW, Z_LANE, PHASE, R_ROW, R_LANE, NEGATIVE, PIVOT, FIRST, LAST, SLOTS = (
    range(13)
)
Z_OUTER, R_OUTER = 13, 14
STEP_COLUMNS: Final = 15
# Columns of a factor; a negative slot is -1 - the row of its constant.
AXIS, SLOT = range(2)
# Columns of a group: its steps, the bits of a tile (0: the whole state), its first basis vector,
# its factors. Arrays of angles hold V lanes for each of these factors, `origin` the first of them.
FIRST_STEP, LAST_STEP, BITS, BASIS, ORIGIN, END = range(6)
GROUP_COLUMNS: Final = 6


@njit(**OPTIONS)  # type: ignore[untyped-decorator]
def load_matrix(
    step: Array, origin: int, factors: Array, constants: Array, c: Array, s: Array, u: Array
) -> None:
    """u of a step, from cos and sin of half the angle of every factor."""
    begin(factors[step[FIRST]], constants, c, s, (step[FIRST] - origin) * lanes(u), u)
    for f in range(step[FIRST] + 1, step[LAST]):
        multiply(factors[f], constants, c, s, (f - origin) * lanes(u), u)


@njit(**OPTIONS)  # type: ignore[untyped-decorator]
def load_tangent(
    step: Array,
    origin: int,
    factors: Array,
    constants: Array,
    c: Array,
    s: Array,
    t: Array,
    u: Array,
    du: Array,
) -> None:
    """u and du of a step, for half the tangent t of every factor."""
    V = lanes(u)
    begin_tangent(factors[step[FIRST]], constants, c, s, t, (step[FIRST] - origin) * V, u, du)
    for f in range(step[FIRST] + 1, step[LAST]):
        multiply_tangent(factors[f], constants, c, s, t, (f - origin) * V, u, du)


@njit(**OPTIONS)  # type: ignore[untyped-decorator]
def begin(factor: Array, constants: Array, c: Array, s: Array, k: int, u: Array) -> None:
    """u = R, for a factor whose lanes begin at k."""
    if factor[SLOT] < 0:
        set_constant(u, constants, -1 - factor[SLOT])
    elif factor[AXIS] == 0:
        begin_x(u, c, s, k)
    elif factor[AXIS] == 1:
        begin_y(u, c, s, k)
    else:
        begin_z(u, c, s, k)


@njit(**OPTIONS)  # type: ignore[untyped-decorator]
def begin_tangent(
    factor: Array, constants: Array, c: Array, s: Array, t: Array, k: int, u: Array, du: Array
) -> None:
    """u = R, du = dR."""
    if factor[SLOT] < 0:
        set_constant(u, constants, -1 - factor[SLOT])
        du[:] = 0
    elif factor[AXIS] == 0:
        begin_x_tangent(u, du, c, s, t, k)
    elif factor[AXIS] == 1:
        begin_y_tangent(u, du, c, s, t, k)
    else:
        begin_z_tangent(u, du, c, s, t, k)


@njit(**OPTIONS)  # type: ignore[untyped-decorator]
def multiply(factor: Array, constants: Array, c: Array, s: Array, k: int, u: Array) -> None:
    """u <- R u, for a factor whose lanes begin at k."""
    if factor[SLOT] < 0:
        apply_constant(u, constants, -1 - factor[SLOT])
    elif factor[AXIS] == 0:
        rotate_x(u, c, s, k)
    elif factor[AXIS] == 1:
        rotate_y(u, c, s, k)
    else:
        rotate_z(u, c, s, k)


@njit(**OPTIONS)  # type: ignore[untyped-decorator]
def multiply_tangent(
    factor: Array, constants: Array, c: Array, s: Array, t: Array, k: int, u: Array, du: Array
) -> None:
    """du <- R du + dR u, u <- R u."""
    if factor[SLOT] < 0:
        apply_constant(u, constants, -1 - factor[SLOT])
        apply_constant(du, constants, -1 - factor[SLOT])
    elif factor[AXIS] == 0:
        rotate_x_tangent(u, du, c, s, t, k)
    elif factor[AXIS] == 1:
        rotate_y_tangent(u, du, c, s, t, k)
    else:
        rotate_z_tangent(u, du, c, s, t, k)


@njit(**OPTIONS)  # type: ignore[untyped-decorator]
def occurs(step: Array, variant: int) -> bool:
    """Whether any pair of a PAIR step is of the variant; see `pair_coefficients`."""
    if variant & 1 and step[Z_ROW] | step[Z_OUTER] == 0:
        return False
    # The first row of a pair has pivot bit 0, whatever Z' says of that bit.
    pivot = step[X_ROW] & (1 << step[PIVOT])
    fixed = (step[R_ROW] & ~pivot) | step[R_OUTER] == 0
    same: bool = variant >> 1 == step[NEGATIVE]
    return same or not fixed


@njit(**OPTIONS)  # type: ignore[untyped-decorator]
def both_masks(step: Array) -> int:
    """|x & z| modulo 2 of X', row and lane parts: its sign in one row of a pair for the other."""
    both: int = parity(step[X_ROW] & step[Z_ROW]) ^ parity(step[X_LANE] & step[Z_LANE])
    return both


@njit(**OPTIONS)  # type: ignore[untyped-decorator]
def pair_coefficients(step: Array, u: Array, inverse: int, coefficients: Array, at: int) -> None:
    """d0, o0, o1, d1 of a pair whose first row j has pivot bit 0, by the parities of j.

    (4 * 8 V from `at`): variant 2 b + s is for b = |j & r| plus the sign of Z' and s = |j & z|, row
    and outer parts. With the lane parts, b says which row is the logical 0; X' takes it to the
    other one with the factor i^phase (-1)^s of the logical-0 row.
    """
    V = lanes(u)
    both = both_masks(step)
    for variant in range(4):
        if occurs(step, variant):
            set_pair(
                u,
                variant,
                step[R_LANE],
                step[Z_LANE],
                both,
                step[PHASE],
                inverse,
                coefficients,
                at + variant * 8 * V,
            )


@njit(**OPTIONS)  # type: ignore[untyped-decorator]
def logical_overlap(step: Array, sums: Array, stride: int, at: int, w: Array) -> None:
    """w (3 V) = Im <lambda| X', Y', Z' |psi>, from the sums of variant n at sums[at + n stride]."""
    both = both_masks(step)
    w[:] = 0
    for variant in range(4):
        if occurs(step, variant):
            add_overlaps(
                sums,
                at + variant * stride,
                variant,
                step[R_LANE],
                step[Z_LANE],
                both,
                step[PHASE],
                int(step[X_ROW] == 0),
                w,
            )


@njit(**OPTIONS)  # type: ignore[untyped-decorator]
def add_gradient(
    step: Array,
    origin: int,
    factors: Array,
    constants: Array,
    c: Array,
    s: Array,
    w: Array,
    u: Array,
    g: Array,
) -> None:
    """g = dE/da of every factor of the step that has a slot: w along its axis.

    With A the factors before it, Im <lambda| A+ P A |psi> for the states before the step.
    """
    V = lanes(u)
    for f in range(step[FIRST], step[LAST]):
        axis, k = factors[f, AXIS], (f - origin) * V
        if factors[f, SLOT] >= 0:
            if f == step[FIRST]:
                set_lanes(g, k, w, axis)
            elif axis == 0:
                slope_x(u, w, g, k)
            elif axis == 1:
                slope_y(u, w, g, k)
            else:
                slope_z(u, w, g, k)
        if f + 1 == step[LAST]:
            return
        if f == step[FIRST]:
            begin(factors[f], constants, c, s, k, u)
        else:
            multiply(factors[f], constants, c, s, k, u)


@njit(**OPTIONS)  # type: ignore[untyped-decorator]
def add_gradient_tangent(
    step: Array,
    origin: int,
    factors: Array,
    constants: Array,
    c: Array,
    s: Array,
    t: Array,
    w: Array,
    dw: Array,
    u: Array,
    du: Array,
    g: Array,
) -> None:
    """The derivative of what `add_gradient` gives, along the tangent."""
    V = lanes(u)
    for f in range(step[FIRST], step[LAST]):
        axis, k = factors[f, AXIS], (f - origin) * V
        if factors[f, SLOT] >= 0:
            if f == step[FIRST]:
                set_lanes(g, k, dw, axis)
            elif axis == 0:
                slope_x_tangent(u, du, w, dw, g, k)
            elif axis == 1:
                slope_y_tangent(u, du, w, dw, g, k)
            else:
                slope_z_tangent(u, du, w, dw, g, k)
        if f + 1 == step[LAST]:
            return
        if f == step[FIRST]:
            begin_tangent(factors[f], constants, c, s, t, k, u, du)
        else:
            multiply_tangent(factors[f], constants, c, s, t, k, u, du)


@njit(**OPTIONS)  # type: ignore[untyped-decorator]
def phase_coefficients(
    step: Array,
    origin: int,
    factors: Array,
    constants: Array,
    c: Array,
    s: Array,
    inverse: int,
    e: Array,
    at: int,
) -> None:
    """e (2 * 2 V from `at`): cos - i sign sin of a DIAGONAL step, for rows of |j & r| = 0 and 1.

    Where the factor has no slot, c and s are set here.
    """
    V = lanes(e)
    slot, k = factors[step[FIRST], SLOT], (step[FIRST] - origin) * V
    if slot < 0:
        c[k : k + V] = constants[-1 - slot, 0]
        s[k : k + V] = -constants[-1 - slot, 1]
    set_phases(c, s, k, step[R_LANE], step[NEGATIVE] ^ inverse, e, at)


@njit(**OPTIONS)  # type: ignore[untyped-decorator]
def phase_derivatives(
    step: Array, origin: int, factors: Array, t: Array, inverse: int, e: Array, d: Array, at: int
) -> None:
    """d = de along the tangent: -i sign t e, where the inverse is the rotation back."""
    V = lanes(e)
    k = (step[FIRST] - origin) * V
    if factors[step[FIRST], SLOT] < 0:
        d[at : at + 4 * V] = 0
    else:
        set_phase_slopes(t, k, step[R_LANE], step[NEGATIVE] ^ inverse, e, d, at)
