"""Steps in groups that act within tiles: subsets of the rows of a state that fit a core's cache.

A step pairs row j with j ^ x. As long as the x of consecutive steps span no more than `bits`
dimensions over GF(2), they act within each coset of that span, of 2^bits rows. Such a tile is
copied out, all steps of the group are applied to it, and it is copied back, so that a state larger
than the cache is read and written once per group. The tiles of a group are independent: threads
share them.

Row l of a tile is row base ^ (XOR of basis[k] for the bits k of l) of the state, so any parity
|j & m| is |base & m| ^ |l & m'|, with m' made of the parities |basis[k] & m|: a step is the same on
a tile as on the state, with masks in the tile's coordinates.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from qml.simulators.statevector.matrices import (
    KIND,
    PIVOT,
    R_OUTER,
    R_ROW,
    X_ROW,
    Z_OUTER,
    Z_ROW,
)
from qml.simulators.statevector.plan import DENSE

TILE_BITS: Final = 10
"""2^TILE_BITS rows of 128 bytes: two states of a tile in 256 KiB."""

LONGEST: Final = 32
"""Steps in a group on tiles; their coefficients stand side by side, 2 KiB each."""

SHORT: Final = 8
"""Steps in a group on whole states, which share the cache with their coefficients."""


@dataclass
class Span:
    """A subspace of masks.

    Attributes:
        basis: masks that span it, as they came.
        echelon: highest bit -> (mask, the combination of the basis that it is).
    """

    basis: list[int] = field(default_factory=list)
    echelon: dict[int, tuple[int, int]] = field(default_factory=dict)

    def reduced(self, mask: int) -> tuple[int, int]:
        """(what no element of the span can cancel, the combination of the basis that was used)."""
        used = 0
        for pivot in sorted(self.echelon, reverse=True):
            if mask >> pivot & 1:
                vector, combination = self.echelon[pivot]
                mask ^= vector
                used ^= combination
        return mask, used

    def add(self, mask: int) -> None:
        """Takes a mask into the span."""
        rest, used = self.reduced(mask)
        if rest:
            self.echelon[rest.bit_length() - 1] = (rest, used ^ 1 << len(self.basis))
            self.basis.append(mask)

    def local(self, mask: int) -> int:
        """A sign mask in the coordinates of the basis."""
        return sum(((b & mask).bit_count() & 1) << k for k, b in enumerate(self.basis))


@dataclass
class Group:
    """Steps `first` to `last` - 1, on tiles along a span or, without one, on the whole state."""

    first: int
    last: int
    span: Span | None = None


def grouped(steps: Sequence[Sequence[int]], row_bits: int, bits: int) -> list[Group]:
    """The steps of a table in groups; those of a group with a span are to be passed to `localized`.

    Where a tile of 2^bits rows holds the whole state of 2^row_bits rows, nothing is tiled.
    """
    if row_bits <= bits:
        return [Group(i, min(i + SHORT, len(steps))) for i in range(0, len(steps), SHORT)]
    groups: list[Group] = []
    span, first = Span(), 0

    def close(last: int) -> None:
        if last > first:
            for q in range(row_bits):
                if len(span.basis) < bits:
                    span.add(1 << q)
            groups.append(Group(first, last, span))

    for i, step in enumerate(steps):
        if step[KIND] == DENSE:
            close(i)
            groups.append(Group(i, i + 1))
            span, first = Span(), i + 1
            continue
        grows = span.reduced(step[X_ROW])[0] != 0
        if i - first == LONGEST or (grows and len(span.basis) == bits):
            close(i)
            span, first = Span(), i
        span.add(step[X_ROW])
    close(len(steps))
    return groups


def localized(step: Sequence[int], span: Span) -> list[int]:
    """A step with its masks in the coordinates of a tile along a span that holds its x."""
    rest, x = span.reduced(step[X_ROW])
    assert rest == 0
    local = list(step)
    local[X_ROW], local[PIVOT] = x, max(x.bit_length() - 1, 0)
    local[Z_ROW], local[Z_OUTER] = span.local(step[Z_ROW]), step[Z_ROW]
    local[R_ROW], local[R_OUTER] = span.local(step[R_ROW]), step[R_ROW]
    return local
