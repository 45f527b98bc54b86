"""The 2x2 matrix of a step in every lane, what it does to a pair of rows, and its gradient.

A matrix u is an array (8 V): the real and imaginary parts of u00, u01, u10, u11, V lanes each. Its
derivative along a tangent of the slots, du, has the same form.
"""

from __future__ import annotations

from typing import Any, Final

from numba import njit

from qml.simulators.statevector.rows import lanes, parity

Array = Any

OPTIONS: Final[dict[str, Any]] = {
    "error_model": "numpy",
    "boundscheck": False,
    "cache": True,
    "nogil": True,
    "fastmath": {"contract", "nsz"},
}
"""Of every compiled function of this engine."""

# Columns of a step: kind; the masks of X' (x, z) and Z' (r), each split into a row part and a lane
# part; the power of i in X', the sign of Z', the highest bit of the row part of x; the factors.
KIND, X_ROW, X_LANE, Z_ROW, Z_LANE, PHASE, R_ROW, R_LANE, NEGATIVE, PIVOT, FIRST, LAST, SLOTS = (
    range(13)
)
# Columns of a factor.
AXIS, SLOT = range(2)


@njit(**OPTIONS)  # type: ignore[untyped-decorator]
def load_matrix(
    step: Array, factors: Array, constants: Array, c: Array, s: Array, u: Array
) -> None:
    """u of a step, from cos and sin of half the angle of every slot, (K * V) each."""
    set_identity(u)
    for f in range(step[FIRST], step[LAST]):
        multiply(factors[f], constants[f], c, s, u)


@njit(**OPTIONS)  # type: ignore[untyped-decorator]
def load_tangent(
    step: Array, factors: Array, constants: Array, c: Array, s: Array, t: Array, u: Array, du: Array
) -> None:
    """u and du of a step, for half the tangent of every slot, t (K * V)."""
    set_identity(u)
    du[:] = 0
    for f in range(step[FIRST], step[LAST]):
        multiply_tangent(factors[f], constants[f], c, s, t, u, du)


@njit(**OPTIONS)  # type: ignore[untyped-decorator]
def set_identity(u: Array) -> None:
    V = lanes(u)
    u[:] = 0
    for v in range(V):
        u[v] = 1
        u[6 * V + v] = 1


@njit(**OPTIONS)  # type: ignore[untyped-decorator]
def multiply(factor: Array, constant: Array, c: Array, s: Array, u: Array) -> None:
    """u <- R u."""
    slot = factor[SLOT]
    if slot < 0:
        multiply_constant(constant, u)
    else:
        rotate(factor[AXIS], slot, c, s, u)


@njit(**OPTIONS)  # type: ignore[untyped-decorator]
def multiply_tangent(
    factor: Array, constant: Array, c: Array, s: Array, t: Array, u: Array, du: Array
) -> None:
    """du <- R du + dR u, u <- R u; dR is t times the rotation by pi more."""
    slot = factor[SLOT]
    if slot < 0:
        multiply_constant(constant, u)
        multiply_constant(constant, du)
        return
    axis = factor[AXIS]
    V = lanes(u)
    k = slot * V
    for column in range(0, 4 * V, 2 * V):
        for v in range(column, column + V):
            m = k + v - column
            a, b, x, y = u[v], u[V + v], u[4 * V + v], u[5 * V + v]
            da, db, dx, dy = du[v], du[V + v], du[4 * V + v], du[5 * V + v]
            da, db, dx, dy = rotated(axis, c[m], s[m], da, db, dx, dy)
            pa, pb, px, py = rotated(axis, -s[m] * t[m], c[m] * t[m], a, b, x, y)
            du[v], du[V + v], du[4 * V + v], du[5 * V + v] = da + pa, db + pb, dx + px, dy + py
            a, b, x, y = rotated(axis, c[m], s[m], a, b, x, y)
            u[v], u[V + v], u[4 * V + v], u[5 * V + v] = a, b, x, y


@njit(**OPTIONS)  # type: ignore[untyped-decorator]
def rotate(axis: int, slot: int, c: Array, s: Array, u: Array) -> None:
    V = lanes(u)
    k = slot * V
    for column in range(0, 4 * V, 2 * V):
        for v in range(column, column + V):
            m = k + v - column
            a, b, x, y = u[v], u[V + v], u[4 * V + v], u[5 * V + v]
            a, b, x, y = rotated(axis, c[m], s[m], a, b, x, y)
            u[v], u[V + v], u[4 * V + v], u[5 * V + v] = a, b, x, y


@njit(**OPTIONS)  # type: ignore[untyped-decorator]
def rotated(
    axis: int, c: float, s: float, a: float, b: float, x: float, y: float
) -> tuple[float, float, float, float]:
    """(c - i s P) (a + i b, x + i y) for P = X, Y, Z."""
    if axis == 0:
        return c * a + s * y, c * b - s * x, c * x + s * b, c * y - s * a
    if axis == 1:
        return c * a - s * x, c * b - s * y, c * x + s * a, c * y + s * b
    return c * a + s * b, c * b - s * a, c * x - s * y, c * y + s * x


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
def pair_coefficients(step: Array, u: Array, inverse: bool, coefficients: Array) -> None:
    """d0, o0, o1, d1 of a pair whose first row j has pivot bit 0, by the parities of j.

    (4 * 8 V): variant 2 b + s is for b = |j & r| plus the sign of Z' and s = |j & z|, row parts
    only. With the lane parts, b says which row is the logical 0; X' takes it to the other one with
    the factor i^phase (-1)^s of the logical-0 row.
    """
    V = lanes(u)
    both = parity(step[X_ROW] & step[Z_ROW]) ^ parity(step[X_LANE] & step[Z_LANE])
    power = step[PHASE]
    for variant in range(4):
        # Without a mask in the rows, no row is of the variant.
        if variant & 1 and step[Z_ROW] == 0:
            continue
        for v in range(V):
            b = (variant >> 1) ^ parity(v & step[R_LANE])
            sign = 1 - 2 * ((variant & 1) ^ parity(v & step[Z_LANE]) ^ (b & both))
            d0r, d0i, d1r, d1i = u[v], u[V + v], u[6 * V + v], u[7 * V + v]
            ar, ai, br, bi = u[2 * V + v], u[3 * V + v], u[4 * V + v], u[5 * V + v]
            if inverse:
                d0i, d1i = -d0i, -d1i
                ar, ai, br, bi = br, -bi, ar, -ai
            if power == 1:
                ar, ai, br, bi = ai, -ar, -bi, br
            elif power == 2:
                ar, ai, br, bi = -ar, -ai, -br, -bi
            elif power == 3:
                ar, ai, br, bi = -ai, ar, bi, -br
            if b:
                d0r, d0i, d1r, d1i = d1r, d1i, d0r, d0i
                ar, ai, br, bi = br, bi, ar, ai
            o = variant * 8 * V + v
            coefficients[o], coefficients[o + V] = d0r, d0i
            coefficients[o + 2 * V], coefficients[o + 3 * V] = sign * ar, sign * ai
            coefficients[o + 4 * V], coefficients[o + 5 * V] = sign * br, sign * bi
            coefficients[o + 6 * V], coefficients[o + 7 * V] = d1r, d1i


@njit(**OPTIONS)  # type: ignore[untyped-decorator]
def logical_overlap(step: Array, sums: Array, offset: int, w: Array) -> None:
    """w (3 V) = Im <lambda| X', Y', Z' |psi>, from the sums of each variant (4 * n V)."""
    V = lanes(sums)
    stride = len(sums) // 4
    both = parity(step[X_ROW] & step[Z_ROW]) ^ parity(step[X_LANE] & step[Z_LANE])
    power = step[PHASE]
    # Within one row every pair is met twice.
    scale = 0.5 if step[X_ROW] == 0 else 1.0
    w[:] = 0
    for variant in range(4):
        for v in range(V):
            b = (variant >> 1) ^ parity(v & step[R_LANE])
            sign = 1 - 2 * ((variant & 1) ^ parity(v & step[Z_LANE]) ^ (b & both))
            o = variant * stride + offset * V + v
            x, y, z = sums[o], sums[o + V], sums[o + 2 * V]
            if b:
                y, z = -y, -z
            if power == 1:
                x, y = y, -x
            elif power == 2:
                x, y = -x, -y
            elif power == 3:
                x, y = -y, x
            w[v] += scale * sign * x
            w[V + v] += scale * sign * y
            w[2 * V + v] += scale * z


@njit(**OPTIONS)  # type: ignore[untyped-decorator]
def add_gradient(
    step: Array, factors: Array, constants: Array, c: Array, s: Array, w: Array, u: Array, g: Array
) -> None:
    """g (K * V) = dE/da of every slot of the step: w along the axis of the factor.

    With A the factors before it, Im <lambda| A+ P A |psi> for the states before the step.
    """
    V = lanes(u)
    set_identity(u)
    for f in range(step[FIRST], step[LAST]):
        axis, slot = factors[f, AXIS], factors[f, SLOT]
        if slot >= 0:
            for v in range(V):
                x, y, z = components(axis, u, u, v)
                g[slot * V + v] = x * w[v] + y * w[V + v] + z * w[2 * V + v]
        multiply(factors[f], constants[f], c, s, u)


@njit(**OPTIONS)  # type: ignore[untyped-decorator]
def add_gradient_tangent(
    step: Array,
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
        axis, slot = factors[f, AXIS], factors[f, SLOT]
        if slot >= 0:
            for v in range(V):
                x, y, z = components(axis, u, u, v)
                total = x * dw[v] + y * dw[V + v] + z * dw[2 * V + v]
                x, y, z = components(axis, du, u, v)
                total += x * w[v] + y * w[V + v] + z * w[2 * V + v]
                x, y, z = components(axis, u, du, v)
                g[slot * V + v] = total + x * w[v] + y * w[V + v] + z * w[2 * V + v]
        multiply_tangent(factors[f], constants[f], c, s, t, u, du)


@njit(**OPTIONS)  # type: ignore[untyped-decorator]
def components(axis: int, left: Array, right: Array, v: int) -> tuple[float, float, float]:
    """x, y, z of x X + y Y + z Z = A+ P B in lane v; bilinear, so that it has a derivative."""
    V = lanes(left)
    ar, ai, cr, ci = left[v], left[V + v], left[4 * V + v], left[5 * V + v]
    er, ei, fr, fi = right[v], right[V + v], right[2 * V + v], right[3 * V + v]
    gr, gi, hr, hi = right[4 * V + v], right[5 * V + v], right[6 * V + v], right[7 * V + v]
    if axis == 2:
        z = ar * er + ai * ei - cr * gr - ci * gi
        x = ar * fr + ai * fi - cr * hr - ci * hi
        y = (cr * hi - ci * hr) - (ar * fi - ai * fr)
    elif axis == 0:
        z = ar * gr + ai * gi + cr * er + ci * ei
        x = ar * hr + ai * hi + cr * fr + ci * fi
        y = -(ar * hi - ai * hr) - (cr * fi - ci * fr)
    else:
        z = (ar * gi - ai * gr) - (cr * ei - ci * er)
        x = (ar * hi - ai * hr) - (cr * fi - ci * fr)
        y = (ar * hr + ai * hi) - (cr * fr + ci * fi)
    return x, y, z


@njit(**OPTIONS)  # type: ignore[untyped-decorator]
def phase_coefficients(
    step: Array, factors: Array, constants: Array, c: Array, s: Array, inverse: bool, e: Array
) -> None:
    """e (2 * 2 V): cos - i sign sin of a DIAGONAL step, for rows of |j & r| = 0 and 1."""
    V = lanes(e)
    slot = factors[step[FIRST], SLOT]
    constant = constants[step[FIRST]]
    for variant in range(2):
        o = variant * 2 * V
        for v in range(V):
            cosine, sine = constant[0], -constant[1]
            if slot >= 0:
                cosine, sine = c[slot * V + v], s[slot * V + v]
            odd = variant ^ step[NEGATIVE] ^ parity(v & step[R_LANE]) ^ inverse
            e[o + v], e[o + V + v] = cosine, sine * (2 * odd - 1)


@njit(**OPTIONS)  # type: ignore[untyped-decorator]
def phase_derivatives(
    step: Array, factors: Array, t: Array, inverse: bool, e: Array, d: Array
) -> None:
    """d = de along the tangent: -i sign t e, where the inverse is the rotation back."""
    V = lanes(e)
    slot = factors[step[FIRST], SLOT]
    if slot < 0:
        d[:] = 0
        return
    for variant in range(2):
        o = variant * 2 * V
        for v in range(V):
            odd = variant ^ step[NEGATIVE] ^ parity(v & step[R_LANE]) ^ inverse
            rate = t[slot * V + v] * (1 - 2 * odd)
            d[o + v], d[o + V + v] = rate * e[o + V + v], -rate * e[o + v]
