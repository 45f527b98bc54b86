"""Programs written by hand."""

from collections.abc import Iterable

from qml import oracle
from qml.circuits.gates import FIXED
from qml.circuits.paulis import Pauli, PauliSum
from qml.circuits.program import Expectation, Fixed, Probabilities, Program, Rotation, expectation


def program(
    num_qubits: int,
    operations: Iterable[Rotation | Fixed],
    outputs: Iterable[Expectation | Probabilities | PauliSum],
) -> Program:
    """Its slots are those of its operations."""
    operations = tuple(operations)
    slots = [o.slot for o in operations if isinstance(o, Rotation)]
    made = [expectation(o) if isinstance(o, PauliSum) else o for o in outputs]
    return oracle.program_of(num_qubits, operations, made, max(slots, default=-1) + 1)


def rx(qubit: int, slot: int) -> Rotation:
    return Rotation(Pauli(1 << qubit, 0), slot)


def ry(qubit: int, slot: int) -> Rotation:
    return Rotation(Pauli(1 << qubit, 1 << qubit), slot)


def rz(qubit: int, slot: int) -> Rotation:
    return Rotation(Pauli(0, 1 << qubit), slot)


def gate(name: str, *qubits: int) -> Fixed:
    return Fixed(name, qubits, FIXED[name])
