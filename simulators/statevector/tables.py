"""A plan packed into bytes: what the compiled code reads, alike from Python and from XLA.

The bytes begin with int64 words: rows of a state, lane bits, the first step with a slot, how many
threads share the samples and how many the tiles of one sample, then offset and shape of every table
in TABLES. XLA would turn int64 operands into int32
where JAX runs in single precision; bytes it leaves alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from qml.circuits.paulis import Pauli
from qml.simulators.statevector.frame import pauli_matrix
from qml.simulators.statevector.matrices import FIRST, GROUP_COLUMNS, KIND, LAST, STEP_COLUMNS
from qml.simulators.statevector.plan import DENSE, DIAGONAL, MATRIX, Factor, Plan, Step
from qml.simulators.statevector.tiles import TILE_BITS, Span, grouped, localized

ROWS, LANE_BITS, LOWEST, WORKERS, THREADS = range(5)
FIXED_WORDS = 5
TABLES = (
    "steps",  # (N, 15) int64: see the columns in qml.simulators.statevector.matrices
    "factors",  # (F, 2) int64: axis; slot, or -1 - the row of its constant
    "constants",  # (C, 8): the different matrices of the factors without a slot
    "dense_masks",  # (5, D) int64: x, z, power of i, Z' mask and sign, lane bits
    "dense_matrices",  # (D * D, 2): real and imaginary parts
    "paulis",  # (T, 5) int64: x row, x lane, z row, z lane, power of i of a measured string
    "weights",  # (W, 2) int64: output column, string
    "coefficients",  # (W, 1)
    "blocks",  # (P, 3) int64: first column, number of qubits, first mask of probabilities
    "block_masks",  # (Q, 3) int64: row mask, lane mask, sign
    "groups",  # (G, 6) int64: see the columns in qml.simulators.statevector.matrices
    "basis",  # (N, 2) int64: a mask of rows; the bits that are 0 in the first row of every tile
)
HEADER = FIXED_WORDS + 3 * len(TABLES)
ALIGNMENT = 64


@dataclass(frozen=True)
class Layout:
    """How a request is spread over lanes and threads.

    Attributes:
        lane_bits: 0 where the lanes of a row hold samples, else how many amplitude bits they hold.
        workers: threads over which the samples are spread.
        threads: threads that share the tiles of one sample; one of both is 1.
        tiled: whether steps act on tiles of a state (qml.simulators.statevector.tiles).
    """

    lane_bits: int
    workers: int
    threads: int
    tiled: bool


def packed(plan: Plan, layout: Layout, dtype: DTypeLike) -> NDArray[np.uint8]:
    """The bytes of a plan for a layout, floats in `dtype`."""
    lane_bits = layout.lane_bits
    lane_mask = (1 << lane_bits) - 1

    def split(mask: int) -> tuple[int, int]:
        return mask >> lane_bits, mask & lane_mask

    steps: list[Sequence[int]] = []
    factors: list[tuple[int, int]] = []
    constants: dict[bytes, int] = {}  # in the order of their rows
    dense_masks: list[tuple[int, int, int, int]] = []
    matrices: list[NDArray[np.complex128]] = []
    entries = 0
    for step in plan.steps:
        if step.kind == DENSE:
            first = len(dense_masks)
            dense_masks += _dense_masks(step)
            matrix = step.factors[0].matrix
            assert matrix is not None
            row = [0] * STEP_COLUMNS
            row[0], row[5], row[10], row[11] = DENSE, entries, first, len(dense_masks)
            steps.append(tuple(row))
            matrices.append(matrix.ravel())
            entries += matrix.size
            continue
        ((sign, x),), ((z_sign, z),) = step.x_images, step.z_images
        first = len(factors)
        for factor in step.factors:
            slot = factor.slot
            if slot < 0:
                slot = -1 - constants.setdefault(_constant(step, factor).tobytes(), len(constants))
            factors.append((factor.axis, slot))
        slots = sum(factor.slot >= 0 for factor in step.factors)
        power = _power(sign, x)
        pivot = max((x.x >> lane_bits).bit_length() - 1, 0)
        negative = int(z_sign < 0)
        masks = (*split(x.x), *split(x.z), power, *split(z.z), negative, pivot)
        steps.append((step.kind, *masks, first, len(factors), slots, 0, 0))
    readout = plan.readout
    block_masks = [
        (*split(z.z), int(sign < 0)) for _, images in readout.blocks for sign, z in images
    ]
    starts = np.cumsum([0, *(len(images) for _, images in readout.blocks)])
    blocks = [
        (column, len(images), start)
        for (column, images), start in zip(readout.blocks, starts, strict=False)
    ]
    matrix_entries = np.concatenate([np.zeros(0, np.complex128), *matrices])
    row_bits = plan.num_qubits - lane_bits
    groups = grouped(steps, row_bits, TILE_BITS if layout.tiled else row_bits)
    basis: list[tuple[int, int]] = []
    spans: list[tuple[int, ...]] = []
    for group in groups:
        span = group.span or Span()
        of_group = [i for step in steps[group.first : group.last] for i in _factors(step)]
        ends = (min(of_group, default=0), max(of_group, default=-1) + 1)
        spans.append((group.first, group.last, len(span.basis), len(basis), *ends))
        basis += zip(span.basis, sorted(span.echelon), strict=True)
        if group.span:
            for i in range(group.first, group.last):
                steps[i] = localized(steps[i], span)
    arrays = (
        _integers(steps, STEP_COLUMNS),
        _integers(factors, 2),
        np.frombuffer(b"".join(constants)).reshape(-1, 8).astype(dtype),
        np.ascontiguousarray(_integers([(*m, lane_bits) for m in dense_masks], 5).T),
        np.stack([matrix_entries.real, matrix_entries.imag], axis=1).astype(dtype),
        _integers([(*split(p.x), *split(p.z), _power(1, p)) for p in readout.paulis], 5),
        _integers([(column, which) for column, which, _ in readout.weights], 2),
        np.array([c for _, _, c in readout.weights], dtype).reshape(-1, 1),
        _integers(blocks, 3),
        _integers(block_masks, 3),
        _integers(spans, GROUP_COLUMNS),
        _integers(basis, 2),
    )
    with_slots = [i for i, step in enumerate(steps) if step[12]]
    header = [1 << row_bits, lane_bits, (with_slots or [len(steps)])[0]]
    header += [layout.workers, layout.threads]
    return _joined(header, arrays)


def _factors(step: Sequence[int]) -> range:
    """The numbers of a step's factors in the table."""
    return range(0) if step[KIND] == DENSE else range(step[FIRST], step[LAST])


def _integers(rows: Sequence[Sequence[int]], columns: int) -> NDArray[np.int64]:
    return np.array(rows, np.int64).reshape(-1, columns)


def _joined(header: list[int], arrays: Sequence[NDArray[Any]]) -> NDArray[np.uint8]:
    size = HEADER * 8
    for array in arrays:
        size = -(-size // ALIGNMENT) * ALIGNMENT
        header += [size, *array.shape]
        size += array.nbytes
    joined = np.zeros(size, np.uint8)
    joined[: HEADER * 8] = np.array(header, np.int64).view(np.uint8)
    for (offset, *_), array in zip(np.reshape(header[FIXED_WORDS:], (-1, 3)), arrays, strict=True):
        joined[offset : offset + array.nbytes] = np.frombuffer(array.tobytes(), np.uint8)
    return joined


def _power(sign: int, pauli: Pauli) -> int:
    """k in sign * P|i> = i^k (-1)^|i & z| |i ^ x>."""
    return ((pauli.x & pauli.z).bit_count() + (2 if sign < 0 else 0)) % 4


def _constant(step: Step, factor: Factor) -> NDArray[np.float64]:
    """The matrix of a factor without a slot, row by row; of a DIAGONAL step, e^(-i angle/2)."""
    half = 0.5 * factor.angle
    if step.kind == DIAGONAL:
        return np.array([np.cos(half), -np.sin(half), 0, 0, 0, 0, 0, 0])
    if factor.axis == MATRIX:
        assert factor.matrix is not None
        matrix = factor.matrix
    else:
        axis = Pauli.from_letters("XYZ"[factor.axis], (0,))
        matrix = np.cos(half) * np.eye(2) - 1j * np.sin(half) * pauli_matrix(axis, 1)
    return np.stack([matrix.real, matrix.imag], axis=-1).ravel()


def _dense_masks(step: Step) -> list[tuple[int, int, int, int]]:
    """For every logical basis state b: x, z, power of X'_b; and (r << 1) | sign of the b-th Z'."""
    rows = []
    for b in range(1 << len(step.x_images)):
        phase: complex = 1
        total = Pauli(0, 0)
        for q, (sign, image) in enumerate(step.x_images):
            if b >> q & 1:
                extra, total = total @ image
                phase *= sign * extra
        power = {1: 0, 1j: 1, -1: 2, -1j: 3}[phase]
        packed = 0
        if b < len(step.z_images):
            sign, z = step.z_images[b]
            packed = z.z << 1 | (sign < 0)
        rows.append((total.x, total.z, (power + _power(1, total)) % 4, packed))
    return rows
