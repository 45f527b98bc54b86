"""A packed plan as compiled code reads it; see qml.simulators.statevector.tables.

Tables are seen through their addresses: they live as long as the plan's bytes, which whoever called
holds.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

from qml.simulators.statevector.compiler import OPTIONS
from qml.simulators.statevector.symbols import matrix
from qml.simulators.statevector.tables import FIXED_WORDS, TABLES

Array = Any
WORD = np.zeros(1, np.int64)
STEPS, FACTORS, CONSTANTS, DENSE_MASKS, DENSE_MATRICES, PAULIS, WEIGHTS, COEFFICIENTS = range(8)
BLOCKS, BLOCK_MASKS, GROUPS, BASIS = range(8, len(TABLES))


@njit(**OPTIONS)  # type: ignore[untyped-decorator]
def header(plan: Array, which: int) -> int:
    """A word of the header."""
    word: int = matrix(plan.ctypes.data, 1, FIXED_WORDS, WORD)[0, which]
    return word


@njit(**OPTIONS)  # type: ignore[untyped-decorator]
def table(address: int, which: int, like: Array) -> Array:
    """A table of the plan at an address, in the type of `like`."""
    places = matrix(address + 8 * FIXED_WORDS, len(TABLES), 3, WORD)
    offset, rows, columns = places[which, 0], places[which, 1], places[which, 2]
    return matrix(address + offset, rows, columns, like)


@njit(**OPTIONS)  # type: ignore[untyped-decorator]
def unpacked(plan: Array, like: Array) -> Any:
    """The tables of a sweep: steps, factors, constants, dense masks and matrices, groups, basis."""
    address = plan.ctypes.data
    return (
        table(address, STEPS, WORD),
        table(address, FACTORS, WORD),
        table(address, CONSTANTS, like),
        table(address, DENSE_MASKS, WORD),
        table(address, DENSE_MATRICES, like),
        table(address, GROUPS, WORD),
        table(address, BASIS, WORD),
    )


@njit(**OPTIONS)  # type: ignore[untyped-decorator]
def measured(plan: Array, like: Array) -> Any:
    """The tables of the readout: strings, weights, coefficients, blocks, masks of blocks."""
    address = plan.ctypes.data
    return (
        table(address, PAULIS, WORD),
        table(address, WEIGHTS, WORD),
        table(address, COEFFICIENTS, like),
        table(address, BLOCKS, WORD),
        table(address, BLOCK_MASKS, WORD),
    )
