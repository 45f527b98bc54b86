"""Rotations in every lane at once: products of 2x2 matrices, and the derivatives by their angles.

A matrix u is an array (8 V) as in qml.simulators.statevector.matrices; c and s are cos and sin of
half of every factor's angle, and t half its tangent; the lanes of a factor begin at k.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba.extending import intrinsic

from qml.simulators.statevector.rows import Emitter, Row, row_signature, vector_code

Value = Any
Column = tuple[Row, Row]
X, Y, Z = range(3)
_intrinsic: Any = intrinsic  # numba's own type has no room for the arguments
_START = ir.Constant(ir.IntType(64), 0)


def _columns(e: Emitter, u: Value) -> list[Column]:
    """The columns of a matrix."""
    return [(e.row(u, _START, 2 * k), e.row(u, _START, 4 + 2 * k)) for k in range(2)]


def _put(e: Emitter, columns: list[Column], u: Value) -> None:
    for k, column in enumerate(columns):
        for row, (real, imaginary) in enumerate(column):
            e.store(real, u, _START, 4 * row + 2 * k)
            e.store(imaginary, u, _START, 4 * row + 2 * k + 1)


def _identity(e: Emitter) -> list[Column]:
    """The columns of 1, which the compiler multiplies by for nothing."""
    zero, one = (ir.Constant(e.vector, [float(x)] * e.lanes) for x in (0, 1))
    return [((one, zero), (zero, zero)), ((zero, zero), (one, zero))]


def _scaled(e: Emitter, factor: Value, x: Row) -> Row:
    return e.mul(factor, x[0]), e.mul(factor, x[1])


def _minus_i(e: Emitter, x: Row) -> Row:
    return x[1], e.b.fneg(x[0])


def _negative(e: Emitter, x: Row) -> Row:
    return e.b.fneg(x[0]), e.b.fneg(x[1])


def _pauli(e: Emitter, axis: int, column: Column) -> Column:
    """P (a, b)."""
    a, b = column
    if axis == X:
        return b, a
    if axis == Y:
        return _minus_i(e, b), _negative(e, _minus_i(e, a))
    return a, _negative(e, b)


def _rotated(e: Emitter, axis: int, c: Value, s: Value, column: Column) -> Column:
    """(c - i s P) (a, b)."""
    turned = (_minus_i(e, x) for x in _pauli(e, axis, column))
    new = [e.plus(_scaled(e, c, x), _scaled(e, s, y)) for x, y in zip(column, turned, strict=True)]
    return new[0], new[1]


def _begin(axis: int) -> Any:
    """u = R."""

    def emit(e: Emitter) -> None:
        k = e.arguments[3]
        c, s = e.load(e.data(1), k), e.load(e.data(2), k)
        _put(e, [_rotated(e, axis, c, s, column) for column in _identity(e)], e.data(0))

    return vector_code(emit)


def _begin_tangent(axis: int) -> Any:
    """u = R, du = dR."""

    def emit(e: Emitter) -> None:
        k = e.arguments[5]
        c, s, t = (e.load(e.data(i), k) for i in (2, 3, 4))
        dc, ds = e.b.fneg(e.mul(s, t)), e.mul(c, t)
        _put(e, [_rotated(e, axis, c, s, column) for column in _identity(e)], e.data(0))
        _put(e, [_rotated(e, axis, dc, ds, column) for column in _identity(e)], e.data(1))

    return vector_code(emit)


def _rotate(axis: int) -> Any:
    """u <- R u."""

    def emit(e: Emitter) -> None:
        u, k = e.data(0), e.arguments[3]
        c, s = e.load(e.data(1), k), e.load(e.data(2), k)
        _put(e, [_rotated(e, axis, c, s, column) for column in _columns(e, u)], u)

    return vector_code(emit)


def _rotate_tangent(axis: int) -> Any:
    """du <- R du + dR u, u <- R u; dR is t times the rotation by pi more."""

    def emit(e: Emitter) -> None:
        u, du, k = e.data(0), e.data(1), e.arguments[5]
        c, s, t = (e.load(e.data(i), k) for i in (2, 3, 4))
        dc, ds = e.b.fneg(e.mul(s, t)), e.mul(c, t)
        columns, slopes = _columns(e, u), _columns(e, du)
        moved = [_rotated(e, axis, c, s, column) for column in slopes]
        added = [_rotated(e, axis, dc, ds, column) for column in columns]
        total = [
            (e.plus(a[0], b[0]), e.plus(a[1], b[1])) for a, b in zip(moved, added, strict=True)
        ]
        _put(e, [_rotated(e, axis, c, s, column) for column in columns], u)
        _put(e, total, du)

    return vector_code(emit)


def _components(e: Emitter, axis: int, left: list[Column], right: list[Column]) -> list[Value]:
    """x, y, z of x X + y Y + z Z = A+ P B; bilinear, so that it has a derivative."""
    a, b = left[0]
    p, q = (_pauli(e, axis, column) for column in right)
    x = e.add(e.real(a, q[0]), e.real(b, q[1]))
    y = e.b.fneg(e.add(e.imag(a, q[0]), e.imag(b, q[1])))
    z = e.add(e.real(a, p[0]), e.real(b, p[1]))
    return [x, y, z]


def _dot(e: Emitter, components: list[Value], w: Value) -> Value:
    """x w[0] + y w[1] + z w[2]."""
    x, y, z = (e.mul(x, e.load(w, _START, i)) for i, x in enumerate(components))
    return e.add(e.add(x, y), z)


def _slope(axis: int) -> Any:
    """g[k:] = w along u+ P u."""

    def emit(e: Emitter) -> None:
        u = _columns(e, e.data(0))
        total = _dot(e, _components(e, axis, u, u), e.data(1))
        e.store(total, e.data(2), e.arguments[3])

    return vector_code(emit)


def _slope_tangent(axis: int) -> Any:
    """The derivative of what `_slope` gives."""

    def emit(e: Emitter) -> None:
        u, du = _columns(e, e.data(0)), _columns(e, e.data(1))
        w, dw = e.data(2), e.data(3)
        turned = _dot(e, _components(e, axis, u, u), dw)
        left = _dot(e, _components(e, axis, du, u), w)
        right = _dot(e, _components(e, axis, u, du), w)
        e.store(e.add(turned, e.add(left, right)), e.data(4), e.arguments[5])

    return vector_code(emit)


@_intrinsic
def set_constant(typing, u, constants, row):  # type: ignore[no-untyped-def]
    """u = the matrix of row `row` of constants (C, 8), in every lane."""

    def emit(e: Emitter) -> None:
        for i, part in enumerate(_constant(e, e.data(1), e.arguments[2])):
            e.store(part, e.data(0), _START, i)

    return row_signature([u, constants, row]), vector_code(emit)


@_intrinsic
def apply_constant(typing, u, constants, row):  # type: ignore[no-untyped-def]
    """u <- M u, M the matrix of row `row` of constants (C, 8)."""

    def emit(e: Emitter) -> None:
        parts, u = _constant(e, e.data(1), e.arguments[2]), e.data(0)
        m = list(zip(parts[::2], parts[1::2], strict=True))
        new = []
        for a, b in _columns(e, u):
            upper = e.plus(e.times(m[0], a), e.times(m[1], b))
            new.append((upper, e.plus(e.times(m[2], a), e.times(m[3], b))))
        _put(e, new, u)

    return row_signature([u, constants, row]), vector_code(emit)


def _constant(e: Emitter, constants: Value, row: Value) -> list[Value]:
    """The eight numbers of a row of constants, each in every lane."""
    first = e.b.mul(row, ir.Constant(ir.IntType(64), 8))
    places = (e.b.add(first, ir.Constant(ir.IntType(64), i)) for i in range(8))
    return [e.splat(e.b.load(e.b.gep(constants, [place]))) for place in places]


@_intrinsic
def set_lanes(typing, target, k, source, axis):  # type: ignore[no-untyped-def]
    """V lanes of target from k = the vector number `axis` of source."""

    def emit(e: Emitter) -> None:
        first = e.b.mul(e.arguments[3], ir.Constant(ir.IntType(64), e.lanes))
        e.store(e.load(e.data(2), first), e.data(0), e.arguments[1])

    return row_signature([target, k, source, axis]), vector_code(emit)


@_intrinsic
def begin_x(typing, u, c, s, k):  # type: ignore[no-untyped-def]
    return row_signature([u, c, s, k]), _begin(X)


@_intrinsic
def begin_x_tangent(typing, u, du, c, s, t, k):  # type: ignore[no-untyped-def]
    return row_signature([u, du, c, s, t, k]), _begin_tangent(X)


@_intrinsic
def begin_y(typing, u, c, s, k):  # type: ignore[no-untyped-def]
    return row_signature([u, c, s, k]), _begin(Y)


@_intrinsic
def begin_y_tangent(typing, u, du, c, s, t, k):  # type: ignore[no-untyped-def]
    return row_signature([u, du, c, s, t, k]), _begin_tangent(Y)


@_intrinsic
def begin_z(typing, u, c, s, k):  # type: ignore[no-untyped-def]
    return row_signature([u, c, s, k]), _begin(Z)


@_intrinsic
def begin_z_tangent(typing, u, du, c, s, t, k):  # type: ignore[no-untyped-def]
    return row_signature([u, du, c, s, t, k]), _begin_tangent(Z)


@_intrinsic
def rotate_x(typing, u, c, s, k):  # type: ignore[no-untyped-def]
    return row_signature([u, c, s, k]), _rotate(X)


@_intrinsic
def rotate_x_tangent(typing, u, du, c, s, t, k):  # type: ignore[no-untyped-def]
    return row_signature([u, du, c, s, t, k]), _rotate_tangent(X)


@_intrinsic
def slope_x(typing, u, w, g, k):  # type: ignore[no-untyped-def]
    return row_signature([u, w, g, k]), _slope(X)


@_intrinsic
def slope_x_tangent(typing, u, du, w, dw, g, k):  # type: ignore[no-untyped-def]
    return row_signature([u, du, w, dw, g, k]), _slope_tangent(X)


@_intrinsic
def rotate_y(typing, u, c, s, k):  # type: ignore[no-untyped-def]
    return row_signature([u, c, s, k]), _rotate(Y)


@_intrinsic
def rotate_y_tangent(typing, u, du, c, s, t, k):  # type: ignore[no-untyped-def]
    return row_signature([u, du, c, s, t, k]), _rotate_tangent(Y)


@_intrinsic
def slope_y(typing, u, w, g, k):  # type: ignore[no-untyped-def]
    return row_signature([u, w, g, k]), _slope(Y)


@_intrinsic
def slope_y_tangent(typing, u, du, w, dw, g, k):  # type: ignore[no-untyped-def]
    return row_signature([u, du, w, dw, g, k]), _slope_tangent(Y)


@_intrinsic
def rotate_z(typing, u, c, s, k):  # type: ignore[no-untyped-def]
    return row_signature([u, c, s, k]), _rotate(Z)


@_intrinsic
def rotate_z_tangent(typing, u, du, c, s, t, k):  # type: ignore[no-untyped-def]
    return row_signature([u, du, c, s, t, k]), _rotate_tangent(Z)


@_intrinsic
def slope_z(typing, u, w, g, k):  # type: ignore[no-untyped-def]
    return row_signature([u, w, g, k]), _slope(Z)


@_intrinsic
def slope_z_tangent(typing, u, du, w, dw, g, k):  # type: ignore[no-untyped-def]
    return row_signature([u, du, w, dw, g, k]), _slope_tangent(Z)
