"""A circuit in the plain operations of Keras, for formats that have no others, such as ONNX.

Two real arrays (batch, 2^n) hold the state; a gate is a selection of amplitudes, products and sums.
No engine: every gate is several operations of the graph, so that the file grows with the circuit,
and only states of few qubits are worth it.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

import keras
import numpy as np
from keras import ops
from numpy.typing import NDArray

from qml.circuits.formulas import COMPLEX, Functions, evaluate
from qml.circuits.paulis import Pauli
from qml.circuits.program import CONSTANT, AngleMap, Expectation, Fixed, Program
from qml.errors import EngineError
from qml.layers.batch import BatchedKernel

MAX_QUBITS: Final = 10

FUNCTIONS: Final[Functions] = {
    name: getattr(ops, re.sub("^a(?=(sin|cos|tan)$)", "arc", name)) for name in COMPLEX
}
"""The functions of formulas, of arrays of Keras."""

State = tuple[Any, Any]
"""Real and imaginary part of the amplitudes, each (B, 2^n)."""

Terms = list[tuple[NDArray[np.int32], NDArray[np.complex128]]]
"""A linear map of states: the sum of value[i] * state[source[i]], each (2^n,)."""


def layer_values(
    batched: BatchedKernel, program: Program, inputs: Mapping[str, Any], weights: Sequence[Any]
) -> Any:
    """The values (..., M) of a layer: those of all copies of its kernel, one after the other.

    Args:
        program: of one sample.
        inputs: (..., *features) by the arguments they are given to; of one floating dtype.
        weights: in the order of `batched.weights`, of the same dtype.
    """
    dtype = keras.backend.standardize_dtype([*inputs.values(), *weights][0].dtype)
    given, outer = {}, ()
    for name, axes in batched.data:
        shape = inputs[name].shape
        outer = tuple(shape[: len(shape) - axes])
        given[name] = ops.reshape(inputs[name], (-1, *shape[len(shape) - axes :]))
    copies = []
    for unit in [None] if batched.units is None else range(batched.units):
        named = zip([name for name, _ in batched.weights], weights, strict=True)
        own = {name: weight if unit is None else weight[unit] for name, weight in named}
        own = {name: ops.expand_dims(weight, 0) for name, weight in own.items()}
        copies.append(values(program, {**given, **own}, dtype))
    found = ops.concatenate(copies, axis=1)
    return ops.reshape(found, ((-1, *outer[1:]) if outer else ()) + (found.shape[-1],))


def values(program: Program, arguments: Mapping[str, Any], dtype: str) -> Any:
    """The outputs (B, M) of a circuit.

    Args:
        program: on at most MAX_QUBITS.
        arguments: by name, (B, ...) for every array of the program, B = 1 where it is the same for
            all samples.
        dtype: of the arguments and the outputs; on JAX and PyTorch, Keras' own functions compute in
            single precision whatever it is.

    Raises:
        EngineError: it has more qubits.
    """
    if program.num_qubits > MAX_QUBITS:
        raise EngineError(
            f"a circuit of {program.num_qubits} qubits is too wide for this format, whose files "
            f"hold every gate as operations on all amplitudes: at most {MAX_QUBITS}. Export to a "
            "SavedModel, qml.layers.export(model, folder)."
        )
    flat = [
        ops.reshape(arguments[name], (-1, math.prod(shape)))
        for name, shape in program.arguments
        if math.prod(shape)
    ]
    zero = sum(0 * array[:, :1] for array in flat)  # (B, 1): all have the batch now
    angles = _angles(program.angles, ops.concatenate([zero + a for a in flat], axis=1), dtype)
    first = zero + _constant(np.eye(1, 1 << program.num_qubits), dtype)
    state = first, 0 * first
    for operation in program.operations:
        if isinstance(operation, Fixed):
            state = _applied(_matrix(operation, program.num_qubits), state, dtype)
        else:
            slot = operation.slot
            angle = operation.angle if slot == CONSTANT else angles[:, slot : slot + 1]
            cos, sin = ops.cos(0.5 * (zero + angle)), ops.sin(0.5 * (zero + angle))
            real, imaginary = _applied(_pauli(operation.pauli, program), state, dtype)
            # exp(-i a/2 P) = cos(a/2) - i sin(a/2) P
            state = cos * state[0] + sin * imaginary, cos * state[1] - sin * real
    outputs = []
    for output in program.outputs:
        if isinstance(output, Expectation):
            total = zero
            for pauli, coefficient in zip(output.paulis, output.coefficients, strict=True):
                real, imaginary = _applied(_pauli(pauli, program), state, dtype)
                overlap = state[0] * real + state[1] * imaginary
                total = total + coefficient * ops.sum(overlap, axis=1, keepdims=True)
            outputs.append(total)
        else:
            weights = state[0] * state[0] + state[1] * state[1]
            sums = np.eye(output.size)[_positions(output.qubits, program.num_qubits)]
            outputs.append(ops.matmul(weights, _constant(sums, dtype)))
    return ops.concatenate(outputs, axis=1)


def _angles(angles: AngleMap, flat: Any, dtype: str) -> Any:
    """Slot angles (B, K) from flat arguments (B, P)."""
    found = ops.matmul(flat, _constant(angles.matrix.T, dtype)) + _constant(angles.offset, dtype)
    for formula in angles.formulas:
        columns = [ops.take(flat, _index(which), axis=1) for which in formula.arguments.T]
        slots = _constant(np.eye(angles.num_slots)[formula.slots], dtype)
        found = found + ops.matmul(
            0 * columns[0] + evaluate(formula.text, columns, FUNCTIONS), slots
        )
    return found


def _applied(terms: Terms, state: State, dtype: str) -> State:
    total: list[Any] = [0.0, 0.0]
    for source, value in terms:
        moved = state
        if (source != np.arange(len(source))).any():
            moved = tuple(ops.take(part, _index(source), axis=1) for part in state)
        real, imaginary = _constant(value.real, dtype), _constant(value.imag, dtype)
        if value.real.any():
            total = [total[0] + real * moved[0], total[1] + real * moved[1]]
        if value.imag.any():
            total = [total[0] - imaginary * moved[1], total[1] + imaginary * moved[0]]
    return total[0], total[1]


def _pauli(pauli: Pauli, program: Program) -> Terms:
    source, phase = pauli.action(1 << program.num_qubits)
    return [(source.astype(np.int32), phase)]


def _matrix(gate: Fixed, num_qubits: int) -> Terms:
    """A term for each pattern of flipped qubits by which any entry is not zero."""
    everything = np.arange(1 << num_qubits)
    row = _positions(gate.qubits, num_qubits)
    terms = []
    for flip in range(len(gate.matrix)):
        column = row ^ flip
        value = gate.matrix[row, column]
        mask = sum(((flip >> j) & 1) << q for j, q in enumerate(gate.qubits))
        if value.any():
            terms.append(((everything ^ mask).astype(np.int32), value))
    return terms


def _positions(qubits: Sequence[int], num_qubits: int) -> NDArray[np.int64]:
    """What the qubits say in every basis state, the first least significant (2^n,)."""
    everything = np.arange(1 << num_qubits)
    return np.asarray(sum(((everything >> q) & 1) << j for j, q in enumerate(qubits)))


def _constant(array: NDArray[Any], dtype: str) -> Any:
    return ops.convert_to_tensor(np.asarray(array, dtype), dtype)


def _index(array: NDArray[np.int32]) -> Any:
    return ops.convert_to_tensor(np.asarray(array, np.int32))
