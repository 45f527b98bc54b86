"""Tracing: a user's function is called once with symbols and leaves a circuit and outputs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from qiskit import QuantumCircuit
from qiskit.circuit import Parameter
from qiskit.circuit.exceptions import CircuitError

from qml.circuits.lowering import lower
from qml.circuits.observables import measurement
from qml.circuits.program import Program
from qml.errors import QMLError, TracingError

Leaf = tuple[str, tuple[int, ...]]
"""Name and shape of one array argument."""


@dataclass(frozen=True, eq=False)
class Trace:
    """What a kernel is for given argument shapes.

    Attributes:
        circuit: the Qiskit circuit that the function wrote, in the symbols `name(i,j)`.
        program: the same, lowered.
        shape: of the kernel's result: () or (M,).
    """

    circuit: QuantumCircuit
    program: Program
    shape: tuple[int, ...]


def trace(
    write: Callable[[QuantumCircuit, Sequence[Any]], object],
    name: str,
    num_qubits: int,
    leaves: Sequence[Leaf],
) -> Trace:
    """Calls `write(circuit, symbols)`, the symbols being arrays of Qiskit parameters.

    Args:
        write: writes into the circuit and returns observables.
        name: of the kernel, for messages.
        num_qubits: width of the circuit.
        leaves: name and shape of each array; a 0-d array arrives as one Parameter.

    Raises:
        TracingError: the function failed on symbols of these shapes, or changed the width.
        ObservableError: it returned what cannot be measured.
        UnsupportedCircuitError: it wrote what cannot be differentiated.
    """
    arrays = [symbols(leaf, shape) for leaf, shape in leaves]
    circuit = QuantumCircuit(num_qubits, name=name)
    with_shapes = f"kernel {name!r} with " + (
        ", ".join(f"{leaf}: {shape}" for leaf, shape in leaves) or "no arguments"
    )
    try:
        returned = write(circuit, [array[()] for array in arrays])
        measured = measurement(returned, num_qubits)
        if circuit.num_qubits != num_qubits:
            raise TracingError(
                f"the function added qubits: {circuit.num_qubits} instead of {num_qubits}. "
                "Name the whole width in qkernel(qubits=...)."
            )
        index = {s: i for i, s in enumerate(s for array in arrays for s in array.flat)}
        program = lower(circuit, measured.outputs, index, leaves)
    except QMLError as error:
        error.add_note(f"While tracing {with_shapes}.")
        raise
    except (CircuitError, IndexError, TypeError, ValueError) as error:
        raise TracingError(
            f"tracing {with_shapes} failed: {type(error).__name__}: {error}. Arguments arrive as "
            "arrays of Qiskit parameters, of one sample each: check the shapes, batch with "
            "jax.vmap or a layer, keep numbers that steer Python (loop counts, flags) in defaults "
            "or closures, write functions as methods (x.sin(), x**0.5), and turn JAX constants "
            "into NumPy ones."
        ) from error
    return Trace(circuit, program, measured.shape)


def symbols(name: str, shape: tuple[int, ...]) -> NDArray[np.object_]:
    """Parameters called name(i,j): no library circuit uses such names, so none can collide."""
    array = np.empty(shape, dtype=object)
    for position in np.ndindex(shape):
        array[position] = Parameter(f"{name}({','.join(map(str, position))})")
    return array
