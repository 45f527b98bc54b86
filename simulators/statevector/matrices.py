"""The 2x2 matrix of a step in every lane, what it does to a pair of rows, and its gradient.

A matrix u is an array (8 V): the real and imaginary parts of u00, u01, u10, u11, V lanes each. Its
derivative along a tangent of the slots, du, has the same form.
"""

from __future__ import annotations

from typing import Any, Final

from numba import njit

from qml.simulators.statevector.compiler import OPTIONS
from qml.simulators.statevector.rotations import (
    rotate_x,
    rotate_x_tangent,
    rotate_y,
    rotate_y_tangent,
    rotate_z,
    rotate_z_tangent,
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
    set_identity(u)
    for f in range(step[FIRST], step[LAST]):
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
    set_identity(u)
    du[:] = 0
    for f in range(step[FIRST], step[LAST]):
        multiply_tangent(factors[f], constants, c, s, t, (f - origin) * lanes(u), u, du)


@njit(**OPTIONS)  # type: ignore[untyped-decorator]
def set_identity(u: Array) -> None:
    V = lanes(u)
    u[:] = 0
    for v in range(V):
        u[v] = 1
        u[6 * V + v] = 1


@njit(**OPTIONS)  # type: ignore[untyped-decorator]
def multiply(factor: Array, constants: Array, c: Array, s: Array, k: int, u: Array) -> None:
    """u <- R u, for a factor whose lanes begin at k."""
    if factor[SLOT] < 0:
        multiply_constant(constants[-1 - factor[SLOT]], u)
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
        multiply_constant(constants[-1 - factor[SLOT]], u)
        multiply_constant(constants[-1 - factor[SLOT]], du)
    elif factor[AXIS] == 0:
        rotate_x_tangent(u, du, c, s, t, k)
    elif factor[AXIS] == 1:
        rotate_y_tangent(u, du, c, s, t, k)
    else:
        rotate_z_tangent(u, du, c, s, t, k)


@njit(**OPTIONS)  # type: ignore[untyped-decorator]
def multiply_constant(m: Array, u: Array) -> None:
    V = lanes(u)
    for column in range(0, 4 * V, 2 * V):
        for v in range(column, column + V):
            a, b, x, y = u[v], u[V + v], u[4 * V + v], u[5 * V + v]
            u[v] = m[0] * a - m[1] * b + m[2] * x - m[3] * y
            u[V + v] = m[0] * b + m[1] * a + m[2] * y + m[3] * x
            u[4 * V + v] = m[4] * a - m[5] * b + m[6] * x - m[7] * y
            u[5 * V + v] = m[4] * b + m[5] * a + m[6] * y + m[7] * x


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
def power_of_i(power: int, like: Array) -> tuple[float, float]:
    """Real and imaginary part of i^power."""
    real = (1, 0, -1, 0)[power]
    imaginary = (0, 1, 0, -1)[power]
    return like.dtype.type(real), like.dtype.type(imaginary)


@njit(**OPTIONS)  # type: ignore[untyped-decorator]
def pair_coefficients(step: Array, u: Array, inverse: bool, coefficients: Array) -> None:
    """d0, o0, o1, d1 of a pair whose first row j has pivot bit 0, by the parities of j.

    (4 * 8 V): variant 2 b + s is for b = |j & r| plus the sign of Z' and s = |j & z|, row and outer
    parts. With the lane parts, b says which row is the logical 0; X' takes it to the other one with
    the factor i^phase (-1)^s of the logical-0 row.
    """
    V = lanes(u)
    both = parity(step[X_ROW] & step[Z_ROW]) ^ parity(step[X_LANE] & step[Z_LANE])
    real, imaginary = power_of_i(step[PHASE], u)
    for variant in range(4):
        if not occurs(step, variant):
            continue
        out = coefficients[variant * 8 * V : (variant + 1) * 8 * V]
        b, s = variant >> 1, variant & 1
        if step[R_LANE] | step[Z_LANE] == 0:
            sign = 1 - 2 * (s ^ (b & both))
            for v in range(V):
                _set_pair(u, v, b, sign, inverse, real, imaginary, out)
        else:
            for v in range(V):
                b = (variant >> 1) ^ parity(v & step[R_LANE])
                sign = 1 - 2 * (s ^ parity(v & step[Z_LANE]) ^ (b & both))
                _set_pair(u, v, b, sign, inverse, real, imaginary, out)


@njit(**OPTIONS)  # type: ignore[untyped-decorator]
def _set_pair(
    u: Array,
    v: int,
    b: int,
    sign: int,
    inverse: bool,
    real: float,
    imaginary: float,
    out: Array,
) -> None:
    """One lane: u or its inverse, its off-diagonal times the phase, its rows swapped if b."""
    V = lanes(u)
    conjugate = u.dtype.type(1 - 2 * inverse)
    plus = u.dtype.type(sign)
    turn = u.dtype.type(2 * b - 1) * imaginary
    d0, d1 = 6 * b * V + v, (6 - 6 * b) * V + v
    o0, o1 = (2 + 2 * (b ^ inverse)) * V + v, (4 - 2 * (b ^ inverse)) * V + v
    out[v], out[V + v] = u[d0], conjugate * u[d0 + V]
    x, y = plus * u[o0], plus * conjugate * u[o0 + V]
    out[2 * V + v], out[3 * V + v] = x * real - y * turn, x * turn + y * real
    x, y = plus * u[o1], plus * conjugate * u[o1 + V]
    out[4 * V + v], out[5 * V + v] = x * real + y * turn, y * real - x * turn
    out[6 * V + v], out[7 * V + v] = u[d1], conjugate * u[d1 + V]


@njit(**OPTIONS)  # type: ignore[untyped-decorator]
def logical_overlap(step: Array, sums: Array, offset: int, w: Array) -> None:
    """w (3 V) = Im <lambda| X', Y', Z' |psi>, from the sums of each variant (4 * n V)."""
    V = lanes(sums)
    stride = len(sums) // 4
    both = parity(step[X_ROW] & step[Z_ROW]) ^ parity(step[X_LANE] & step[Z_LANE])
    real, imaginary = power_of_i(step[PHASE], sums)
    # Within one row every pair is met twice.
    scale = sums.dtype.type(0.5 if step[X_ROW] == 0 else 1.0)
    w[:] = 0
    for variant in range(4):
        if not occurs(step, variant):
            continue
        b, s = variant >> 1, variant & 1
        part = sums[variant * stride + offset * V : variant * stride + (offset + 3) * V]
        if step[R_LANE] | step[Z_LANE] == 0:
            sign = 1 - 2 * (s ^ (b & both))
            for v in range(V):
                _add_overlap(part, v, b, sign, scale, real, imaginary, w)
        else:
            for v in range(V):
                b = (variant >> 1) ^ parity(v & step[R_LANE])
                sign = 1 - 2 * (s ^ parity(v & step[Z_LANE]) ^ (b & both))
                _add_overlap(part, v, b, sign, scale, real, imaginary, w)


@njit(**OPTIONS)  # type: ignore[untyped-decorator]
def _add_overlap(
    part: Array, v: int, b: int, sign: int, scale: float, real: float, imaginary: float, w: Array
) -> None:
    V = lanes(part)
    swap = part.dtype.type(1 - 2 * b)
    plus = scale * part.dtype.type(sign)
    x, y, z = part[v], swap * part[V + v], swap * part[2 * V + v]
    w[v] += plus * (x * real + y * imaginary)
    w[V + v] += plus * (y * real - x * imaginary)
    w[2 * V + v] += scale * z


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
    set_identity(u)
    for f in range(step[FIRST], step[LAST]):
        axis, k = factors[f, AXIS], (f - origin) * V
        if factors[f, SLOT] >= 0:
            if axis == 0:
                slope_x(u, w, g, k)
            elif axis == 1:
                slope_y(u, w, g, k)
            else:
                slope_z(u, w, g, k)
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
    set_identity(u)
    du[:] = 0
    for f in range(step[FIRST], step[LAST]):
        axis, k = factors[f, AXIS], (f - origin) * V
        if factors[f, SLOT] >= 0:
            if axis == 0:
                slope_x_tangent(u, du, w, dw, g, k)
            elif axis == 1:
                slope_y_tangent(u, du, w, dw, g, k)
            else:
                slope_z_tangent(u, du, w, dw, g, k)
        multiply_tangent(factors[f], constants, c, s, t, k, u, du)


@njit(**OPTIONS)  # type: ignore[untyped-decorator]
def phase_coefficients(
    step: Array,
    origin: int,
    factors: Array,
    constants: Array,
    c: Array,
    s: Array,
    inverse: bool,
    e: Array,
) -> None:
    """e (2 * 2 V): cos - i sign sin of a DIAGONAL step, for rows of |j & r| = 0 and 1."""
    V = lanes(e)
    slot, k = factors[step[FIRST], SLOT], (step[FIRST] - origin) * V
    for variant in range(2):
        o = variant * 2 * V
        for v in range(V):
            if slot < 0:
                cosine, sine = constants[-1 - slot, 0], -constants[-1 - slot, 1]
            else:
                cosine, sine = c[k + v], s[k + v]
            odd = variant ^ step[NEGATIVE] ^ parity(v & step[R_LANE]) ^ inverse
            e[o + v], e[o + V + v] = cosine, sine * (2 * odd - 1)


@njit(**OPTIONS)  # type: ignore[untyped-decorator]
def phase_derivatives(
    step: Array, origin: int, factors: Array, t: Array, inverse: bool, e: Array, d: Array
) -> None:
    """d = de along the tangent: -i sign t e, where the inverse is the rotation back."""
    V = lanes(e)
    k = (step[FIRST] - origin) * V
    if factors[step[FIRST], SLOT] < 0:
        d[:] = 0
        return
    for variant in range(2):
        o = variant * 2 * V
        for v in range(V):
            odd = variant ^ step[NEGATIVE] ^ parity(v & step[R_LANE]) ^ inverse
            rate = t[k + v] * (1 - 2 * odd)
            d[o + v], d[o + V + v] = rate * e[o + V + v], -rate * e[o + v]
