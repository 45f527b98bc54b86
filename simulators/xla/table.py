"""A Program's operations and observables as tables of numbers, which one loop goes through."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from qml.circuits.paulis import Pauli
from qml.circuits.program import CONSTANT, Expectation, Fixed, Program, Rotation

Ints = NDArray[np.int32]


@dataclass(frozen=True, eq=False)
class Strings:
    """Pauli strings P = i^|x&z| X^x Z^z.

    Attributes:
        x, z: (S,) the masks.
        phase: (S, 2) real and imaginary part of i^|x&z|.
    """

    x: Ints
    z: Ints
    phase: NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Rotations:
    """exp(-i a/2 P), with a the angle of `slot` (R,) plus `offset` (R,).

    A constant rotation has slot K, of an angle that is zero.
    """

    strings: Strings
    slot: Ints
    offset: NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Matrices:
    """Gates with the same number of terms T, on up to k qubits, their U different matrices by rows.

    Row l of a matrix holds `values[., t, l]` in column l ^ flips[., t, l], for t < T, and zeros
    elsewhere: T is 1 for permutations and diagonals, 2^k for a dense matrix.

    Attributes:
        qubits: (G, k) of each gate, the first least significant; where it has fewer, the others
            are qubit n, which is always 0.
        matrix: (G,) which of the U matrices.
        flips: (U, T, 2^k).
        values: (U, T, 2^k, 2) real and imaginary parts.
        inverse_flips, inverse_values: of the inverse matrices.
    """

    qubits: Ints
    matrix: Ints
    flips: Ints
    values: NDArray[np.float64]
    inverse_flips: Ints
    inverse_values: NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Observables:
    """Pauli strings of all outputs: `coefficient` (S,) times <P> counts to output `column` (S,)."""

    strings: Strings
    coefficient: NDArray[np.float64]
    column: Ints


@dataclass(frozen=True, eq=False)
class Table:
    """What the loop over a Program needs.

    The kinds of operations are the rotations, if there are any, and one for each of `matrices`.

    Attributes:
        num_qubits, num_slots, num_outputs: n, K and M.
        rotations: all of them.
        matrices: one for each number of terms that occurs.
        kind, row: (L,) of each operation: which kind, and which of that kind's gates.
        slot: (L,) of each operation, K where it has none.
        first: the number of operations before the first that has a slot.
        diagonal, other: observables that are diagonal, and the others.
        blocks: (first column, qubits) of each block of probabilities.
    """

    num_qubits: int
    num_slots: int
    num_outputs: int
    rotations: Rotations
    matrices: tuple[Matrices, ...]
    kind: Ints
    row: Ints
    slot: Ints
    first: int
    diagonal: Observables
    other: Observables
    blocks: tuple[tuple[int, tuple[int, ...]], ...]


def table(program: Program) -> Table:
    """The Program in tables."""
    slots = program.num_slots
    rotations: list[Rotation] = []
    by_terms: dict[int, list[Fixed]] = {}
    places: list[tuple[int, int]] = []
    for operation in program.operations:
        if isinstance(operation, Rotation):
            places.append((ROTATION, len(rotations)))
            rotations.append(operation)
        else:
            terms = _terms(operation.matrix)
            gates = by_terms.setdefault(terms, [])
            places.append((terms, len(gates)))
            gates.append(operation)
    kinds = [ROTATION] * bool(rotations) + list(by_terms)
    of_rotations = _rotations(rotations, slots)
    slot = np.array(
        [of_rotations.slot[row] if kind == ROTATION else slots for kind, row in places], np.int32
    )
    diagonal, other, blocks = _outputs(program)
    return Table(
        num_qubits=program.num_qubits,
        num_slots=slots,
        num_outputs=program.num_outputs,
        rotations=of_rotations,
        matrices=tuple(
            _matrices(gates, terms, program.num_qubits) for terms, gates in by_terms.items()
        ),
        kind=np.array([kinds.index(kind) for kind, _ in places], np.int32),
        row=np.array([row for _, row in places], np.int32),
        slot=slot,
        first=next((i for i, k in enumerate(slot) if k < slots), len(slot)),
        diagonal=diagonal,
        other=other,
        blocks=blocks,
    )


ROTATION: Final = 0
"""Stands for rotations among the numbers of terms of matrices."""


def _strings(paulis: Sequence[Pauli]) -> Strings:
    phases = [1j ** ((p.x & p.z).bit_count() % 4) for p in paulis]
    return Strings(
        np.array([p.x for p in paulis], np.int32),
        np.array([p.z for p in paulis], np.int32),
        np.array([(phase.real, phase.imag) for phase in phases]).round().reshape(-1, 2),
    )


def _rotations(rotations: Sequence[Rotation], slots: int) -> Rotations:
    constant = np.array([r.slot == CONSTANT for r in rotations], np.bool_)
    return Rotations(
        _strings([r.pauli for r in rotations]),
        np.where(constant, slots, [r.slot for r in rotations]).astype(np.int32),
        np.where(constant, [r.angle for r in rotations], 0.0).astype(np.float64),
    )


def _terms(matrix: NDArray[np.complex128]) -> int:
    """The largest number of entries in any row or column."""
    return int(max(np.count_nonzero(matrix, axis=axis).max() for axis in (0, 1)))


def _matrices(gates: Sequence[Fixed], terms: int, num_qubits: int) -> Matrices:
    width = max(len(gate.qubits) for gate in gates)
    different = {gate.matrix.tobytes(): gate.matrix for gate in gates}
    numbers = {content: number for number, content in enumerate(different)}
    forward = [_by_rows(matrix, terms, 1 << width) for matrix in different.values()]
    backward = [_by_rows(matrix.conj().T, terms, 1 << width) for matrix in different.values()]
    padding = (num_qubits,) * width
    return Matrices(
        np.array([(*gate.qubits, *padding)[:width] for gate in gates], np.int32),
        np.array([numbers[gate.matrix.tobytes()] for gate in gates], np.int32),
        *(np.stack(arrays) for rows in (forward, backward) for arrays in zip(*rows, strict=True)),
    )


def _by_rows(
    matrix: NDArray[np.complex128], terms: int, rows: int
) -> tuple[Ints, NDArray[np.float64]]:
    """(flips (T, rows), values (T, rows, 2)) of a matrix; see Matrices."""
    flips = np.zeros((terms, rows), np.int32)
    values = np.zeros((terms, rows, 2))
    for row, entries in enumerate(matrix):
        (columns,) = np.nonzero(entries)
        flips[: len(columns), row] = columns ^ row
        values[: len(columns), row] = np.stack([entries.real, entries.imag], -1)[columns]
    return flips, values


def _outputs(
    program: Program,
) -> tuple[Observables, Observables, tuple[tuple[int, tuple[int, ...]], ...]]:
    """The diagonal observables, the others, and the blocks of probabilities."""
    terms: list[tuple[Pauli, float, int]] = []
    blocks = []
    column = 0
    for output in program.outputs:
        if isinstance(output, Expectation):
            pairs = zip(output.paulis, output.coefficients, strict=True)
            terms += [(pauli, coefficient, column) for pauli, coefficient in pairs]
        else:
            blocks.append((column, output.qubits))
        column += output.size
    diagonal = _observables([term for term in terms if not term[0].x])
    other = _observables([term for term in terms if term[0].x])
    return diagonal, other, tuple(blocks)


def _observables(terms: Sequence[tuple[Pauli, float, int]]) -> Observables:
    return Observables(
        _strings([pauli for pauli, _, _ in terms]),
        np.array([coefficient for _, coefficient, _ in terms], np.float64),
        np.array([column for _, _, column in terms], np.int32),
    )
