"""A Program as a Qiskit circuit, for engines that run Qiskit circuits."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Final

from qiskit import QuantumCircuit
from qiskit.circuit import Instruction, Parameter
from qiskit.circuit.library import (
    RXGate,
    RXXGate,
    RYGate,
    RYYGate,
    RZGate,
    RZXGate,
    RZZGate,
    UnitaryGate,
    get_standard_gate_name_mapping,
)
from qiskit.quantum_info import SparsePauliOp

from qml.circuits.paulis import Pauli
from qml.circuits.program import CONSTANT, Fixed, Program

ROTATION_GATES: Final[Mapping[str, type[Instruction]]] = MappingProxyType(
    {
        "X": RXGate,
        "Y": RYGate,
        "Z": RZGate,
        "XX": RXXGate,
        "YY": RYYGate,
        "ZZ": RZZGate,
        "ZX": RZXGate,
    }
)
"""The rotations Qiskit has as one gate, by letters, the gate's first qubit first."""

TO_Z: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType(
    {"X": ("h",), "Y": ("sdg", "h"), "Z": ()}
)
"""Gates, in the order they act, after which a measurement of Z is one of the letter."""

FROM_Z: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType(
    {"X": ("h",), "Y": ("h", "s"), "Z": ()}
)
"""The inverse of TO_Z."""


def quantum_circuit(program: Program) -> tuple[QuantumCircuit, tuple[Parameter, ...]]:
    """The operations of a Program, up to a global phase, with one plain parameter per slot.

    Qiskit never sees an angle expression: parameter k is the angle of slot k, so its values are
    the columns of an angle array (R, K). Slots that no operation uses have a parameter that is
    not in the circuit.

    >>> import numpy as np
    >>> from qml.circuits.program import AngleMap, Rotation
    >>> none = np.zeros(0, np.int32)
    >>> one_slot = AngleMap(0, none, none, np.zeros(0), np.zeros(1))
    >>> program = Program(1, (Rotation(Pauli(1, 0), 0),), (), one_slot)
    >>> circuit, parameters = quantum_circuit(program)
    >>> circuit.data[0].name, circuit.data[0].params == list(parameters)
    ('rx', True)
    """
    parameters = tuple(Parameter(f"slot{k}") for k in range(program.num_slots))
    circuit = QuantumCircuit(program.num_qubits)
    standard = get_standard_gate_name_mapping()
    for operation in program.operations:
        if isinstance(operation, Fixed):
            gate = standard.get(operation.name) or UnitaryGate(operation.matrix)
            circuit.append(gate, operation.qubits)
        elif operation.slot == CONSTANT:
            _rotate(circuit, operation.pauli, operation.angle)
        else:
            _rotate(circuit, operation.pauli, parameters[operation.slot])
    return circuit, parameters


def _rotate(circuit: QuantumCircuit, pauli: Pauli, angle: float | Parameter) -> None:
    """Appends exp(-i angle/2 P); nothing for the identity, which is a global phase."""
    qubits = pauli.support
    letters = pauli.letters(qubits)
    if not qubits:
        return
    for order in (qubits, qubits[::-1]):
        gate = ROTATION_GATES.get(pauli.letters(order))
        if gate is not None:
            circuit.append(gate(angle), order)
            return
    change_basis(circuit, zip(letters, qubits, strict=True), TO_Z)
    # The parity of all qubits gathers on the last one, is rotated there, and goes back.
    ladder = list(zip(qubits, qubits[1:], strict=False))
    for control, target in ladder:
        circuit.cx(control, target)
    circuit.rz(angle, qubits[-1])
    for control, target in reversed(ladder):
        circuit.cx(control, target)
    change_basis(circuit, zip(letters, qubits, strict=True), FROM_Z)


def change_basis(
    circuit: QuantumCircuit,
    letters: Iterable[tuple[str, int]],
    table: Mapping[str, tuple[str, ...]] = TO_Z,
) -> None:
    """Appends the gates that turn the given (letter, qubit) pairs into Z, or back by FROM_Z."""
    for letter, qubit in letters:
        for name in table[letter]:
            getattr(circuit, name)(qubit)


def sparse_pauli(terms: Iterable[tuple[Pauli, float]], num_qubits: int) -> SparsePauliOp:
    """A weighted sum of strings as an operator on all qubits, idle ones included.

    >>> sparse_pauli([(Pauli(1, 0), 0.5)], 3)
    SparsePauliOp(['IIX'],
                  coeffs=[0.5+0.j])
    """
    labels = [(pauli.label(num_qubits), coefficient) for pauli, coefficient in terms]
    return SparsePauliOp.from_list(labels, num_qubits=num_qubits)


def final_layout(native: QuantumCircuit) -> tuple[int, ...]:
    """layout[q] is where the transpiler's circuit has, at its end, qubit q of what it was given."""
    if native.layout is None:
        return tuple(range(native.num_qubits))
    return tuple(native.layout.final_index_layout(filter_ancillas=True))


def cut_down(native: QuantumCircuit) -> tuple[QuantumCircuit, tuple[int, ...], list[int]]:
    """A circuit from the transpiler on the qubits it uses.

    Simulating three active qubits of 127 takes the memory of three.

    Returns:
        (circuit, layout, active): qubit active[i] of the machine became i, and qubit q of what was
        transpiled ends at layout[q].
    """
    layout = final_layout(native)
    gates = [one for one in native.data if one.name != "barrier"]
    places = [[native.find_bit(q).index for q in gate.qubits] for gate in gates]
    active = sorted({qubit for place in places for qubit in place}.union(layout))
    index = {qubit: i for i, qubit in enumerate(active)}
    reduced = QuantumCircuit(len(active))
    for gate, place in zip(gates, places, strict=True):
        reduced.append(gate.operation, [index[q] for q in place])
    return reduced, tuple(index[q] for q in layout), active
