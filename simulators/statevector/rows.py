"""Rows of lanes as LLVM vectors: the arithmetic inside the sweeps, for numba.

A state is an array of rows, one per amplitude index, each of V real parts and then V imaginary
parts. The V lanes are samples, or the lowest bits of the amplitude index; in the latter case a
partner amplitude can be in another lane, l ^ mask. Plain numba loops over such short rows cost two
to four times as much: every slice brings bounds, alias checks and a scalar remainder.

A pair update is (p, q) <- (d0 p + o0 q, o1 p + d1 q) with complex d0, o0, o1, d1 per lane, eight
vectors in that order; `index` arguments count elements, not rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from llvmlite import ir
from numba import types
from numba.extending import intrinsic
from numba.np.arrayobj import make_array

ROW_BYTES: Final = 64
"""Of the V real parts of a row: one AVX-512 register, two of AVX2, four of NEON or SSE."""

# All but "afn": no approximate functions are meant.
_FLAGS: Final = ("nnan", "ninf", "nsz", "contract", "reassoc", "arcp")
_I32, _I64 = ir.IntType(32), ir.IntType(64)

_intrinsic: Any = intrinsic  # numba's own type has no room for the arguments
Value = Any
Row = tuple[Value, Value]


class Emitter:
    """Vector code on arrays of one precision."""

    def __init__(
        self, context: Any, builder: Any, signature: Any, arguments: Sequence[Any]
    ) -> None:
        self.context, self.b = context, builder
        self.types, self.arguments = signature.args, arguments
        element = next(t.dtype for t in self.types if isinstance(t, types.Array))
        self.align = element.bitwidth // 8
        self.lanes = ROW_BYTES // self.align
        self.vector = ir.VectorType(context.get_value_type(element), self.lanes)

    def data(self, which: int) -> Value:
        made: Any = make_array(self.types[which])  # type: ignore[no-untyped-call]
        array = made(self.context, self.b, self.arguments[which])
        return array.data

    def load(self, data: Value, index: Value, k: int = 0) -> Value:
        value = self.b.load(self._pointer(data, index, k))
        value.align = self.align
        return value

    def store(self, value: Value, data: Value, index: Value, k: int = 0) -> None:
        self.b.store(value, self._pointer(data, index, k)).align = self.align

    def _pointer(self, data: Value, index: Value, k: int) -> Value:
        if k:
            index = self.b.add(index, ir.Constant(_I64, k * self.lanes))
        return self.b.bitcast(self.b.gep(data, [index]), self.vector.as_pointer())

    def row(self, data: Value, index: Value, k: int = 0) -> Row:
        return self.load(data, index, k), self.load(data, index, k + 1)

    def put(self, row: Row, data: Value, index: Value) -> None:
        self.store(row[0], data, index)
        self.store(row[1], data, index, 1)

    def splat(self, value: Value, vector: Any = None) -> Value:
        """A value in every lane of a vector: of the floats of a row, if not of others."""
        b, kind = self.b, vector or self.vector
        nothing, first = ir.Constant(kind, ir.Undefined), ir.Constant(_I32, 0)
        order = ir.Constant(ir.VectorType(_I32, self.lanes), [0] * self.lanes)
        return b.shuffle_vector(b.insert_element(nothing, value, first), nothing, order)

    def add(self, x: Value, y: Value) -> Value:
        return self.b.fadd(x, y, flags=_FLAGS)

    def sub(self, x: Value, y: Value) -> Value:
        return self.b.fsub(x, y, flags=_FLAGS)

    def mul(self, x: Value, y: Value) -> Value:
        return self.b.fmul(x, y, flags=_FLAGS)

    def plus(self, x: Row, y: Row) -> Row:
        return self.add(x[0], y[0]), self.add(x[1], y[1])

    def times(self, x: Row, y: Row) -> Row:
        return (
            self.sub(self.mul(x[0], y[0]), self.mul(x[1], y[1])),
            self.add(self.mul(x[0], y[1]), self.mul(x[1], y[0])),
        )

    def real(self, x: Row, y: Row) -> Value:
        """Re(conj(x) y)."""
        return self.add(self.mul(x[0], y[0]), self.mul(x[1], y[1]))

    def imag(self, x: Row, y: Row) -> Value:
        """Im(conj(x) y)."""
        return self.sub(self.mul(x[0], y[1]), self.mul(x[1], y[0]))

    def accumulate(self, data: Value, index: Value, terms: Sequence[Value]) -> None:
        for k, term in enumerate(terms):
            self.store(self.add(self.load(data, index, k), term), data, index, k)

    def exchanged(self, rows: Sequence[Row], mask: Value) -> list[Row]:
        """The rows with lane l moved to lane l ^ mask, a mask known only at run time."""
        b, before = self.b, self.b.block
        vectors = [vector for row in rows for vector in row]
        cases = [b.function.append_basic_block(f"lanes{k}") for k in range(1, self.lanes)]
        after = b.function.append_basic_block("lanes")
        switch = b.switch(mask, after)
        moved = [(before, vectors)]
        for k, case in enumerate(cases, 1):
            switch.add_case(ir.Constant(mask.type, k), case)
            b.position_at_end(case)
            order = [lane ^ k for lane in range(self.lanes)]
            constant = ir.Constant(ir.VectorType(_I32, self.lanes), order)
            nothing = ir.Constant(self.vector, ir.Undefined)
            moved.append((case, [b.shuffle_vector(v, nothing, constant) for v in vectors]))
            b.branch(after)
        b.position_at_end(after)
        merged = []
        for i in range(len(vectors)):
            phi = b.phi(self.vector)
            for block, values in moved:
                phi.add_incoming(values[i], block)
            merged.append(phi)
        return list(zip(merged[::2], merged[1::2], strict=True))


class _Pairs:
    """Pairs of rows of one or more states under one update."""

    def __init__(self, e: Emitter, i: Value, j: Value | None, mask: Value) -> None:
        self.e, self.i, self.j, self.mask = e, i, j, mask

    def read(self, states: Sequence[Value]) -> list[tuple[Row, Row]]:
        """(p, q) of each state, q in the lanes of p. Without j, both are in the same row."""
        e = self.e
        mine = [e.row(state, self.i) for state in states]
        theirs = mine if self.j is None else [e.row(state, self.j) for state in states]
        return list(zip(mine, e.exchanged(theirs, self.mask), strict=True))

    def updated(self, pairs: Sequence[tuple[Row, Row]], c: Sequence[Row]) -> list[tuple[Row, Row]]:
        e = self.e
        result = []
        for p, q in pairs:
            new_p = e.plus(e.times(c[0], p), e.times(c[1], q))
            new_q = new_p if self.j is None else e.plus(e.times(c[2], p), e.times(c[3], q))
            result.append((new_p, new_q))
        return result

    def write(self, states: Sequence[Value], pairs: Sequence[tuple[Row, Row]]) -> None:
        e = self.e
        for state, (p, _) in zip(states, pairs, strict=True):
            e.put(p, state, self.i)
        if self.j is not None:
            back = e.exchanged([q for _, q in pairs], self.mask)
            for state, row in zip(states, back, strict=True):
                e.put(row, state, self.j)

    def partners(self, pairs: Sequence[tuple[Row, Row]]) -> list[tuple[Row, Row]]:
        """(p, q) with q the partner of p, where `updated` left p in its place."""
        if self.j is not None:
            return list(pairs)
        mine = [p for p, _ in pairs]
        return list(zip(mine, self.e.exchanged(mine, self.mask), strict=True))

    def overlaps(self, left: tuple[Row, Row], right: tuple[Row, Row]) -> list[Value]:
        """What the products conj(left) right add to <X'>, <Y'>, <Z'>, before signs and phases."""
        e = self.e
        (r, s), (p, q) = left, right
        return [
            e.add(e.imag(r, q), e.imag(s, p)),
            e.sub(e.real(s, p), e.real(r, q)),
            e.sub(e.imag(r, p), e.imag(s, q)),
        ]


def _coefficients(e: Emitter, data: Value, index: Value) -> list[Row]:
    return [e.row(data, index, 2 * k) for k in range(4)]


def _derivative(
    e: Emitter,
    moved: Sequence[tuple[Row, Row]],
    sources: Sequence[tuple[Row, Row]],
    pairs: _Pairs,
    d: Sequence[Row],
) -> list[tuple[Row, Row]]:
    """U dpsi + dU psi, from U dpsi (`moved`) and psi (`sources`)."""
    added = pairs.updated(sources, d)
    return [
        (e.plus(a[0], b[0]), a[0] if pairs.j is None else e.plus(a[1], b[1]))
        for a, b in zip(moved, added, strict=True)
    ]


@_intrinsic  # type: ignore[untyped-decorator]
def lanes(typing: Any, array: Any) -> Any:
    """V for the precision of an array."""
    count = ROW_BYTES // (array.dtype.bitwidth // 8)
    return types.int64(array), lambda context, b, signature, arguments: ir.Constant(_I64, count)


@_intrinsic  # type: ignore[untyped-decorator]
def parity(typing: Any, bits: Any) -> Any:
    """The parity of an int64."""

    def codegen(context: Any, b: Any, signature: Any, arguments: Any) -> Value:
        return b.and_(b.ctpop(arguments[0]), ir.Constant(_I64, 1))

    return types.int64(types.int64), codegen


_INDEX = types.int64


def _phase_update(num_states: int, tangent: bool, back: bool) -> Any:
    """Like `_pair_update`, for a row times a complex number per lane."""

    def emit(e: Emitter) -> None:
        arguments = iter(range(len(e.arguments)))
        states = [e.data(next(arguments)) for _ in range(num_states * (1 + tangent))]
        i = e.arguments[next(arguments)]
        coefficients = e.data(next(arguments))
        k = e.arguments[next(arguments)]
        c = e.row(coefficients, k)
        rows = [e.row(state, i) for state in states]
        new = [e.times(c, row) for row in rows]
        if tangent:
            d = e.row(e.data(next(arguments)), k)
            new[1::2] = [
                e.plus(moved, e.times(d, row))
                for moved, row in zip(new[1::2], rows[::2], strict=True)
            ]
        for state, row in zip(states, new, strict=True):
            e.put(row, state, i)
        if not back:
            return
        accumulators = e.data(next(arguments))
        w = e.arguments[next(arguments)]
        if tangent:
            psi, dpsi, lam, dlam = new
            terms = [e.imag(lam, psi), e.add(e.imag(dlam, psi), e.imag(lam, dpsi))]
        else:
            terms = [e.imag(new[1], new[0])]
        e.accumulate(accumulators, w, terms)

    return emit


def _pair_update(num_states: int, tangent: bool, back: bool, one_row: bool) -> Any:
    """An update of `num_states` pairs; with `tangent` each state is followed by its derivative.

    Arguments: the states, the element indices i and (unless `one_row`) j, the coefficients and
    their index, with `tangent` the derivative's coefficients, the lane mask, and with `back` the
    accumulators and their index. `back` states are psi and lambda, and their overlaps are taken
    after the update.
    """

    def emit(e: Emitter) -> None:
        arguments = iter(range(len(e.arguments)))
        states = [e.data(next(arguments)) for _ in range(num_states * (1 + tangent))]
        i = e.arguments[next(arguments)]
        j = None if one_row else e.arguments[next(arguments)]
        coefficients = e.data(next(arguments))
        k = e.arguments[next(arguments)]
        c = _coefficients(e, coefficients, k)
        d = _coefficients(e, e.data(next(arguments)), k) if tangent else []
        pairs = _Pairs(e, i, j, e.arguments[next(arguments)])
        read = pairs.read(states)
        new = pairs.updated(read, c)
        if tangent:
            new[1::2] = _derivative(e, new[1::2], read[::2], pairs, d)
        pairs.write(states, new)
        if not back:
            return
        accumulators = e.data(next(arguments))
        w = e.arguments[next(arguments)]
        new = pairs.partners(new)
        if tangent:
            psi, dpsi, lam, dlam = new
            first = pairs.overlaps(dlam, psi)
            second = pairs.overlaps(lam, dpsi)
            terms = [*pairs.overlaps(lam, psi), *map(e.add, first, second)]
        else:
            terms = pairs.overlaps(new[1], new[0])
        e.accumulate(accumulators, w, terms)

    return emit


def row_signature(arguments: Sequence[Any]) -> Any:
    return types.void(*(a if isinstance(a, types.Array) else _INDEX for a in arguments))


def vector_code(emit: Any) -> Any:
    def codegen(context: Any, b: Any, signature: Any, arguments: Any) -> Value:
        emit(Emitter(context, b, signature, arguments))
        return context.get_dummy_value()

    return codegen


@_intrinsic
def copy(typing, source, i, target, j):  # type: ignore[no-untyped-def]
    """Row j of target = row i of source."""

    def emit(e: Emitter) -> None:
        e.put(e.row(e.data(0), e.arguments[1]), e.data(2), e.arguments[3])

    return row_signature([source, i, target, j]), vector_code(emit)


@_intrinsic
def pair(typing, psi, i, j, c, k, mask):  # type: ignore[no-untyped-def]
    return row_signature([psi, i, j, c, k, mask]), vector_code(_pair_update(1, False, False, False))


@_intrinsic
def single(typing, psi, i, c, k, mask):  # type: ignore[no-untyped-def]
    return row_signature([psi, i, c, k, mask]), vector_code(_pair_update(1, False, False, True))


@_intrinsic
def pair_tangent(typing, psi, dpsi, i, j, c, k, d, mask):  # type: ignore[no-untyped-def]
    arguments = [psi, dpsi, i, j, c, k, d, mask]
    return row_signature(arguments), vector_code(_pair_update(1, True, False, False))


@_intrinsic
def single_tangent(typing, psi, dpsi, i, c, k, d, mask):  # type: ignore[no-untyped-def]
    arguments = [psi, dpsi, i, c, k, d, mask]
    return row_signature(arguments), vector_code(_pair_update(1, True, False, True))


@_intrinsic
def pair_back(typing, psi, lam, i, j, c, k, mask, w, n):  # type: ignore[no-untyped-def]
    arguments = [psi, lam, i, j, c, k, mask, w, n]
    return row_signature(arguments), vector_code(_pair_update(2, False, True, False))


@_intrinsic
def single_back(typing, psi, lam, i, c, k, mask, w, n):  # type: ignore[no-untyped-def]
    arguments = [psi, lam, i, c, k, mask, w, n]
    return row_signature(arguments), vector_code(_pair_update(2, False, True, True))


@_intrinsic
def pair_back_tangent(typing, psi, dpsi, lam, dlam, i, j, c, k, d, mask, w, n):  # type: ignore[no-untyped-def]
    arguments = [psi, dpsi, lam, dlam, i, j, c, k, d, mask, w, n]
    return row_signature(arguments), vector_code(_pair_update(2, True, True, False))


@_intrinsic
def single_back_tangent(typing, psi, dpsi, lam, dlam, i, c, k, d, mask, w, n):  # type: ignore[no-untyped-def]
    arguments = [psi, dpsi, lam, dlam, i, c, k, d, mask, w, n]
    return row_signature(arguments), vector_code(_pair_update(2, True, True, True))


@_intrinsic
def phase(typing, psi, i, c, k):  # type: ignore[no-untyped-def]
    return row_signature([psi, i, c, k]), vector_code(_phase_update(1, False, False))


@_intrinsic
def phase_tangent(typing, psi, dpsi, i, c, k, d):  # type: ignore[no-untyped-def]
    return row_signature([psi, dpsi, i, c, k, d]), vector_code(_phase_update(1, True, False))


@_intrinsic
def phase_back(typing, psi, lam, i, c, k, w, n):  # type: ignore[no-untyped-def]
    return row_signature([psi, lam, i, c, k, w, n]), vector_code(_phase_update(2, False, True))


@_intrinsic
def phase_back_tangent(typing, psi, dpsi, lam, dlam, i, c, k, d, w, n):  # type: ignore[no-untyped-def]
    arguments = [psi, dpsi, lam, dlam, i, c, k, d, w, n]
    return row_signature(arguments), vector_code(_phase_update(2, True, True))


@_intrinsic
def add_product(typing, target, j, source, i, c, k, mask):  # type: ignore[no-untyped-def]
    """Row j of target += c * (row i of source, lanes exchanged)."""

    def emit(e: Emitter) -> None:
        goal, origin, factors = e.data(0), e.data(2), e.data(4)
        j, i, k, mask = (e.arguments[n] for n in (1, 3, 5, 6))
        (row,) = e.exchanged([e.row(origin, i)], mask)
        e.put(e.plus(e.row(goal, j), e.times(e.row(factors, k), row)), goal, j)

    return row_signature([target, j, source, i, c, k, mask]), vector_code(emit)


@_intrinsic
def add_overlap(typing, w, n, left, j, right, i, c, k, mask):  # type: ignore[no-untyped-def]
    """w[n:] += Re(conj(row j of left) * c * (row i of right, lanes exchanged))."""

    def emit(e: Emitter) -> None:
        sums, bra, ket, factors = (e.data(m) for m in (0, 2, 4, 6))
        n, j, i, k, mask = (e.arguments[m] for m in (1, 3, 5, 7, 8))
        (row,) = e.exchanged([e.row(ket, i)], mask)
        term = e.real(e.row(bra, j), e.times(e.row(factors, k), row))
        e.accumulate(sums, n, [term])

    return row_signature([w, n, left, j, right, i, c, k, mask]), vector_code(emit)
