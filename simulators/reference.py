"""The reference engine: the textbook simulation in plain NumPy, slow, exact and easy to check."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from qml.circuits.paulis import Pauli
from qml.circuits.program import CONSTANT, Expectation, Fixed, Program, Rotation
from qml.errors import EngineError
from qml.settings import EngineConfig
from qml.simulators.base import Cost, Evaluation

MAX_QUBITS = 20
_CHUNK_AMPLITUDES = 1 << 16  # stays in a core's cache; a row more than that goes alone

State = NDArray[np.complex128]
"""(R, 2^n): one state vector per row of angles."""


class ReferenceEngine:
    """Exact expectation values from state vectors, in double precision."""

    def __init__(self, config: EngineConfig) -> None:
        self.config = config

    def check(self, program: Program) -> None:
        """See Engine.check."""
        if program.num_qubits > MAX_QUBITS:
            raise EngineError(
                f"the reference engine simulates at most {MAX_QUBITS} qubits, the kernel has "
                f"{program.num_qubits}. Use kind = 'aer'."
            )

    def expval(
        self,
        program: Program,
        angles: NDArray[np.float64],
        *,
        outputs: NDArray[np.bool_],
        seed: int,
    ) -> Evaluation:
        """See Engine.expval."""
        rows = max(1, _CHUNK_AMPLITUDES >> program.num_qubits)
        chunks = [
            _expectations(program, evolve(program, angles[i : i + rows]), outputs)
            for i in range(0, len(angles), rows)
        ]
        return Evaluation(np.concatenate(chunks))

    def cost(self, program: Program, rows: int, outputs: NDArray[np.bool_]) -> Cost:
        """See Engine.cost."""
        return Cost(circuits=rows)


def evolve(program: Program, angles: NDArray[np.float64]) -> State:
    """The state vectors (R, 2^n) after the whole circuit, for angles (R, K)."""
    state = np.zeros((len(angles), 1 << program.num_qubits), dtype=np.complex128)
    state[:, 0] = 1
    for operation in program.operations:
        if isinstance(operation, Fixed):
            state = _apply_matrix(state, operation, program.num_qubits)
        else:
            state = _rotate(state, operation, angles)
    return state


def _rotate(state: State, rotation: Rotation, angles: NDArray[np.float64]) -> State:
    """exp(-i a/2 P) = cos(a/2) - i sin(a/2) P."""
    constant = rotation.slot == CONSTANT
    half = 0.5 * (np.full(1, rotation.angle) if constant else angles[:, rotation.slot])
    return np.cos(half)[:, None] * state - 1j * np.sin(half)[:, None] * _apply_pauli(
        state, rotation.pauli
    )


def _apply_pauli(state: State, pauli: Pauli) -> State:
    size = state.shape[1]
    small = size <= _CACHED_AMPLITUDES
    source, phase = _cached_action(pauli, size) if small else pauli.action(size)
    return state[:, source] * phase


_CACHED_AMPLITUDES = 1 << 10  # 24 kB a string
_cached_action = lru_cache(maxsize=512)(Pauli.action)


def _apply_matrix(state: State, gate: Fixed, num_qubits: int) -> State:
    """The matrix on the axes of its qubits; axis 1 + j of the tensor is qubit n - 1 - j."""
    k = len(gate.qubits)
    tensor = state.reshape((-1,) + (2,) * num_qubits)
    axes = [num_qubits - q for q in reversed(gate.qubits)]
    matrix = gate.matrix.reshape((2,) * (2 * k))
    moved = np.tensordot(matrix, tensor, (range(k, 2 * k), axes))
    return np.moveaxis(moved, range(k), axes).reshape(state.shape)


def _expectations(program: Program, state: State, wanted: NDArray[np.bool_]) -> NDArray[np.float64]:
    values = np.zeros((len(state), program.num_outputs))
    column = 0
    for output in program.outputs:
        columns = slice(column, column + output.size)
        column += output.size
        if not wanted[columns].any():
            continue
        if isinstance(output, Expectation):
            for pauli, coefficient in zip(output.paulis, output.coefficients, strict=True):
                overlap = np.einsum("ri,ri->r", state.conj(), _apply_pauli(state, pauli)).real
                values[:, columns] += coefficient * overlap[:, None]
        else:
            values[:, columns] = _marginal(np.abs(state) ** 2, output.qubits, program.num_qubits)
    return np.where(wanted, values, 0.0)


def _marginal(
    weights: NDArray[np.float64], qubits: tuple[int, ...], num_qubits: int
) -> NDArray[np.float64]:
    """Probabilities (R, 2^k) of the outcomes of `qubits`, the first least significant."""
    tensor = weights.reshape((-1,) + (2,) * num_qubits)
    kept = [num_qubits - q for q in reversed(qubits)]
    others = [axis for axis in range(1, num_qubits + 1) if axis not in kept]
    moved = tensor.transpose(0, *kept, *others).reshape(len(weights), 1 << len(qubits), -1)
    return np.asarray(moved.sum(axis=2))
