"""A Program as operators of PennyLane, whose first wire is the most significant one."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final

import numpy as np
import pennylane
from numpy.typing import NDArray
from pennylane.operation import Operator

from qml.circuits.paulis import Pauli
from qml.circuits.program import CONSTANT, Fixed, Program, Rotation

Wires = Sequence[Any]
"""The label of the wire of every qubit."""

GATES: Final[Mapping[str, Callable[..., Operator]]] = MappingProxyType(
    {
        "x": pennylane.PauliX,
        "y": pennylane.PauliY,
        "z": pennylane.PauliZ,
        "h": pennylane.Hadamard,
        "s": pennylane.S,
        "sdg": lambda wires: pennylane.adjoint(pennylane.S(wires)),
        "t": pennylane.T,
        "tdg": lambda wires: pennylane.adjoint(pennylane.T(wires)),
        "sx": pennylane.SX,
        "sxdg": lambda wires: pennylane.adjoint(pennylane.SX(wires)),
        "cx": pennylane.CNOT,
        "cy": pennylane.CY,
        "cz": pennylane.CZ,
        "swap": pennylane.SWAP,
        "ccx": pennylane.Toffoli,
    }
)
"""Fixed gates by name; their wires are in the order of our qubits. Any other is a matrix."""

_ROTATIONS: Final[Mapping[str, Callable[..., Operator]]] = MappingProxyType(
    {"X": pennylane.RX, "Y": pennylane.RY, "Z": pennylane.RZ}
)
_LETTERS: Final[Mapping[str, Callable[..., Operator]]] = MappingProxyType(
    {"X": pennylane.PauliX, "Y": pennylane.PauliY, "Z": pennylane.PauliZ}
)


def varying(program: Program) -> list[Rotation]:
    """The rotations by the angle of a slot, in order; those about the identity do nothing."""
    return [
        operation
        for operation in program.operations
        if isinstance(operation, Rotation)
        and operation.slot != CONSTANT
        and operation.pauli.support
    ]


def operators(
    program: Program, wires: Wires, angles: Iterable[float | NDArray[np.float64]]
) -> list[Operator]:
    """The operations of a Program, up to a global phase.

    Args:
        angles: of every varying rotation, one number or a whole batch (rows,).
    """
    given = iter(angles)
    made = []
    for operation in program.operations:
        if isinstance(operation, Fixed):
            made.append(_fixed(operation, wires))
        elif operation.pauli.support:
            angle = operation.angle if operation.slot == CONSTANT else next(given)
            made.append(_rotation(operation.pauli, wires, angle))
    return made


def _fixed(gate: Fixed, wires: Wires) -> Operator:
    labels = [wires[q] for q in gate.qubits]
    if gate.name in GATES:
        return GATES[gate.name](wires=labels)
    return pennylane.QubitUnitary(gate.matrix, wires=labels[::-1])


def _rotation(pauli: Pauli, wires: Wires, angle: float | NDArray[np.float64]) -> Operator:
    letters = pauli.letters(pauli.support)
    labels = [wires[q] for q in pauli.support]
    if len(letters) == 1:
        return _ROTATIONS[letters](angle, wires=labels)
    if set(letters) == {"Z"}:
        return pennylane.MultiRZ(angle, wires=labels)
    return pennylane.PauliRot(angle, letters, wires=labels)


def word(pauli: Pauli, wires: Wires) -> Operator:
    """A Pauli string, not the identity, as an observable."""
    letters = [_LETTERS[pauli.letter(q)](wires[q]) for q in pauli.support]
    return letters[0] if len(letters) == 1 else pennylane.prod(*letters)


def observable(terms: Mapping[Pauli, float], wires: Wires) -> Operator:
    """A sum of Pauli strings, none of them the identity."""
    words = [word(pauli, wires) for pauli in terms]
    return pennylane.ops.LinearCombination(list(terms.values()), words)


def to_z(basis: Pauli, wires: Wires) -> list[Operator]:
    """Gates after which a measurement of Z is one of the letters of `basis`."""
    made: list[Operator] = []
    for qubit in basis.support:
        if basis.letter(qubit) == "Y":
            made.append(pennylane.adjoint(pennylane.S(wires[qubit])))
        if basis.letter(qubit) != "Z":
            made.append(pennylane.Hadamard(wires[qubit]))
    return made


def outcomes(qubits: Sequence[int], wires: Wires) -> Any:
    """The measurement of the probabilities of all outcomes; the first qubit least significant."""
    return pennylane.probs(wires=[wires[q] for q in reversed(qubits)])
