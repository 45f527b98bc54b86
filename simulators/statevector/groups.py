"""One group of steps on the whole state or on its tiles, as an entry (see `symbols`).

It takes which sweep it is part of, the packed plan, the number of the group, which worker of how
many calls, and the arrays of qml.simulators.statevector.steps. Workers share the tiles of a group;
a group without tiles has one worker.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numba import njit
from numba.extending import intrinsic

from qml.simulators.statevector.compiler import OPTIONS
from qml.simulators.statevector.matrices import BASIS, BITS, FIRST_STEP, LAST_STEP
from qml.simulators.statevector.rows import copy, lanes
from qml.simulators.statevector.steps import (
    backward_steps,
    backward_tangent_steps,
    forward_steps,
    forward_tangent_steps,
    lower_row,
)
from qml.simulators.statevector.symbols import call_of, matrix, octets, vector
from qml.simulators.statevector.words import unpacked

Array = Any
_intrinsic: Any = intrinsic  # numba's own type has no room for the arguments
FORWARD, FORWARD_TANGENT, BACKWARD, BACKWARD_TANGENT = range(4)


@njit(**OPTIONS)  # type: ignore[untyped-decorator]
def tile_rows(group: Array, basis: Array) -> Array:
    """The rows of the tile that begins at row 0."""
    bits, at = group[BITS], group[BASIS]
    rows = np.zeros(1 << bits, np.int64)
    for k in range(bits):
        for row in range(1 << k):
            rows[(1 << k) + row] = rows[row] ^ basis[at + k, 0]
    return rows


@njit(**OPTIONS)  # type: ignore[untyped-decorator]
def first_row(group: Array, basis: Array, tile: int) -> int:
    """The first row of a tile: its number with a 0 put in at every pivot."""
    row = tile
    for k in range(group[BITS]):
        row = lower_row((1 << basis[group[BASIS] + k, 1]) - 1, row)
    return row


@njit(**OPTIONS)  # type: ignore[untyped-decorator]
def copy_out(states: Array, base: int, rows: Array, tiles: Array) -> None:
    V = lanes(states)
    for n in range(len(states)):
        for row in range(len(rows)):
            copy(states[n], (base ^ rows[row]) * 2 * V, tiles[n], row * 2 * V)


@njit(**OPTIONS)  # type: ignore[untyped-decorator]
def copy_back(tiles: Array, base: int, rows: Array, states: Array) -> None:
    V = lanes(states)
    for n in range(len(states)):
        for row in range(len(rows)):
            copy(tiles[n], row * 2 * V, states[n], (base ^ rows[row]) * 2 * V)


@njit(**OPTIONS)  # type: ignore[untyped-decorator]
def apply_steps(
    sweep: int,
    tables: Array,
    group: Array,
    ed: Array,
    base: int,
    states: Array,
    sums: Array,
) -> None:
    """The steps of a group on rows that begin at row `base` of the state."""
    first, last = group[FIRST_STEP], group[LAST_STEP]
    if sweep == FORWARD:
        forward_steps(tables, first, last, ed, base, states, sums)
    elif sweep == FORWARD_TANGENT:
        forward_tangent_steps(tables, first, last, ed, base, states, sums)
    elif sweep == BACKWARD:
        backward_steps(tables, first, last, ed, base, states, sums)
    else:
        backward_tangent_steps(tables, first, last, ed, base, states, sums)


def group_entry(
    sweep: int,
    plan: int,
    size: int,
    number: int,
    worker: int,
    workers: int,
    ed_at: int,
    orders: int,
    coefficients: int,
    states_at: int,
    count: int,
    elements: int,
    sums_at: int,
    most: int,
    like: Any,
) -> None:
    """See the module."""
    ed = matrix(ed_at, orders, coefficients, like)
    states = matrix(states_at, count, elements, like)
    sums = vector(sums_at, most, like)
    tables = unpacked(octets(plan, size), states)
    group, basis = tables[5][number], tables[6]
    if group[BITS] == 0:
        apply_steps(sweep, tables, group, ed, 0, states, sums)
        return
    rows = tile_rows(group, basis)
    tiles = np.empty((count, len(rows) * 2 * lanes(states)), states.dtype)
    share = elements // tiles.shape[1]
    for tile in range(worker * share // workers, (worker + 1) * share // workers):
        base = first_row(group, basis, tile)
        copy_out(states, base, rows, tiles)
        apply_steps(sweep, tables, group, ed, base, tiles, sums)
        copy_back(tiles, base, rows, states)


ENTRIES: Final = {group_entry: 14}
"""The entry, and how many words it takes."""


@_intrinsic
def call_group(typing, sweep, plan, number, worker, workers, ed, states, sums):  # type: ignore[no-untyped-def]
    arguments = [sweep, plan, number, worker, workers, ed, states, sums]
    return call_of("group_entry", arguments)
