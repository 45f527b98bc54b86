"""Coefficients of pairs and phases, and overlaps from their sums, in every lane at once, for numba.

Names are those of qml.simulators.statevector.matrices, whose variants and masks these take. Signs
that differ between lanes are flipped sign bits, and rows that are swapped in some lanes are
selected, so that no lane is done on its own.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba.extending import intrinsic

from qml.simulators.statevector.rows import Emitter, Row, row_signature, vector_code

Value = Any
_intrinsic: Any = intrinsic  # numba's own type has no room for the arguments
_START = ir.Constant(ir.IntType(64), 0)
_PARITIES = 0x6996
"""Bit k is the parity of k, for the up to 16 lanes of a row."""


class _Signs:
    """Bits of every lane, 0 or 1, in integers as wide as the floats."""

    def __init__(self, e: Emitter) -> None:
        self.e = e
        self.width = e.align * 8
        self.integer = ir.IntType(self.width)
        self.vector = ir.VectorType(self.integer, e.lanes)

    def constant(self, value: int) -> Value:
        return ir.Constant(self.vector, [value] * self.e.lanes)

    def splat(self, bit: Value) -> Value:
        """The same bit, an int64, in every lane."""
        if self.width < 64:
            bit = self.e.b.trunc(bit, self.integer)
        return self.e.splat(bit, self.vector)

    def parity(self, mask: Value) -> Value:
        """|lane & mask| modulo 2."""
        b = self.e.b
        lanes = ir.Constant(self.vector, list(range(self.e.lanes)))
        which = b.and_(lanes, self.splat(mask))
        return b.and_(b.lshr(self.constant(_PARITIES), which), self.constant(1))

    def flipped(self, x: Value, bits: Value) -> Value:
        """-x where the bit is 1."""
        b = self.e.b
        sign = b.shl(bits, self.constant(self.width - 1))
        return b.bitcast(b.xor(b.bitcast(x, self.vector), sign), self.e.vector)

    def chosen(self, bits: Value, one: Row, zero: Row) -> Row:
        """`one` where the bit is 1, else `zero`."""
        b = self.e.b
        where = b.icmp_unsigned("!=", bits, self.constant(0))
        return b.select(where, one[0], zero[0]), b.select(where, one[1], zero[1])

    def power_of_i(self, power: Value) -> Row:
        """i^power in every lane."""
        b = self.e.b
        one, two = ir.Constant(power.type, 1), ir.Constant(power.type, 2)
        odd = b.and_(power, one)
        real = b.mul(b.sub(one, power), b.sub(one, odd))
        imaginary = b.mul(b.sub(two, power), odd)
        element = self.e.vector.element
        return self.e.splat(b.sitofp(real, element)), self.e.splat(b.sitofp(imaginary, element))

    def variant(self, which: Value, r_lane: Value, z_lane: Value, both: Value) -> Row:
        """b of every lane, and whether X' has a minus sign there."""
        b = self.e.b
        one = ir.Constant(which.type, 1)
        first = b.xor(self.splat(b.lshr(which, one)), self.parity(r_lane))
        odd = b.xor(self.splat(b.and_(which, one)), self.parity(z_lane))
        return first, b.xor(odd, b.and_(first, self.splat(both)))


@_intrinsic
def set_pair(typing, u, which, r_lane, z_lane, both, power, inverse, out, at):  # type: ignore[no-untyped-def]
    """d0, o0, o1, d1 (8 V at out[at]) of a variant, from u or its inverse.

    Rows of u swapped where b is 1, its off-diagonal times the phase of X'.
    """

    def emit(e: Emitter) -> None:
        u, out = e.data(0), e.data(7)
        which, r_lane, z_lane, both, power, inverse = e.arguments[1:7]
        at, signs = e.arguments[8], _Signs(e)
        first, odd = signs.variant(which, r_lane, z_lane, both)
        back = signs.splat(inverse)
        u00, u01, u10, u11 = (
            (real, signs.flipped(imaginary, back))
            for real, imaginary in (e.row(u, _START, 2 * k) for k in range(4))
        )
        real, imaginary = signs.power_of_i(power)
        turn = signs.flipped(imaginary, e.b.xor(first, signs.constant(1)))
        swapped = e.b.xor(first, back)
        o0, o1 = signs.chosen(swapped, u10, u01), signs.chosen(swapped, u01, u10)
        o0, o1 = ((signs.flipped(x, odd), signs.flipped(y, odd)) for x, y in (o0, o1))
        rows = [
            signs.chosen(first, u11, u00),
            e.times((real, turn), o0),
            e.times((real, e.b.fneg(turn)), o1),
            signs.chosen(first, u00, u11),
        ]
        for k, row in enumerate(rows):
            e.store(row[0], out, at, 2 * k)
            e.store(row[1], out, at, 2 * k + 1)

    return row_signature([u, which, r_lane, z_lane, both, power, inverse, out, at]), vector_code(
        emit
    )


@_intrinsic
def add_overlaps(typing, sums, at, which, r_lane, z_lane, both, power, twice, w):  # type: ignore[no-untyped-def]
    """w (3 V) += Im <lambda| X', Y', Z' |psi> from the sums of a variant, 3 V at sums[at].

    With `twice` every pair was met twice.
    """

    def emit(e: Emitter) -> None:
        sums, w = e.data(0), e.data(8)
        at, which, r_lane, z_lane, both, power, twice = e.arguments[1:8]
        signs = _Signs(e)
        first, odd = signs.variant(which, r_lane, z_lane, both)
        element = e.vector.element
        half = e.b.select(
            e.b.icmp_unsigned("!=", twice, ir.Constant(twice.type, 0)),
            ir.Constant(element, 0.5),
            ir.Constant(element, 1.0),
        )
        scale = e.splat(half)
        x, y, z = (e.load(sums, at, k) for k in range(3))
        y, z = signs.flipped(y, first), signs.flipped(z, first)
        real, imaginary = signs.power_of_i(power)
        turned = e.times((real, e.b.fneg(imaginary)), (x, y))
        terms = [*(e.mul(scale, signs.flipped(v, odd)) for v in turned), e.mul(scale, z)]
        e.accumulate(w, _START, terms)

    return row_signature([sums, at, which, r_lane, z_lane, both, power, twice, w]), vector_code(
        emit
    )


@_intrinsic
def set_phases(typing, c, s, k, r_lane, odd, out, at):  # type: ignore[no-untyped-def]
    """cos - i sign sin (2 * 2 V at out[at]) for rows of |j & r| = 0 and 1, c and s from k.

    The sign of lane 0 in the first is minus if `odd`.
    """

    def emit(e: Emitter) -> None:
        k, r_lane, odd, at = (e.arguments[i] for i in (2, 3, 4, 6))
        signs, out = _Signs(e), e.data(5)
        cosine, sine = e.load(e.data(0), k), e.load(e.data(1), k)
        bits = e.b.xor(signs.parity(r_lane), signs.splat(odd))
        plus = signs.flipped(sine, bits)
        for variant, value in enumerate((e.b.fneg(plus), plus)):
            e.store(cosine, out, at, 2 * variant)
            e.store(value, out, at, 2 * variant + 1)

    return row_signature([c, s, k, r_lane, odd, out, at]), vector_code(emit)


@_intrinsic
def set_phase_slopes(typing, t, k, r_lane, odd, phases, out, at):  # type: ignore[no-untyped-def]
    """-i sign t e (2 * 2 V at out[at]) of the phases e that `set_phases` has put at phases[at]."""

    def emit(e: Emitter) -> None:
        k, r_lane, odd, at = (e.arguments[i] for i in (1, 2, 3, 6))
        signs, phases, out = _Signs(e), e.data(4), e.data(5)
        bits = e.b.xor(signs.parity(r_lane), signs.splat(odd))
        rate = signs.flipped(e.load(e.data(0), k), bits)
        for variant in range(2):
            real, imaginary = e.row(phases, at, 2 * variant)
            sign = rate if variant == 0 else e.b.fneg(rate)
            e.store(e.mul(sign, imaginary), out, at, 2 * variant)
            e.store(e.b.fneg(e.mul(sign, real)), out, at, 2 * variant + 1)

    return row_signature([t, k, r_lane, odd, phases, out, at]), vector_code(emit)


@_intrinsic
def set_difference(typing, sums, at, stride, r_lane, odd, g, k):  # type: ignore[no-untyped-def]
    """g (V from k) = the sums at `at` less those `stride` further, with the sign of each lane."""

    def emit(e: Emitter) -> None:
        at, stride, r_lane, odd, k = (e.arguments[i] for i in (1, 2, 3, 4, 6))
        signs, sums = _Signs(e), e.data(0)
        bits = e.b.xor(signs.parity(r_lane), signs.splat(odd))
        difference = e.sub(e.load(sums, at), e.load(sums, e.b.add(at, stride)))
        e.store(signs.flipped(difference, bits), e.data(5), k)

    return row_signature([sums, at, stride, r_lane, odd, g, k]), vector_code(emit)
