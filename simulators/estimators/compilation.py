"""A Program compiled once for a machine: a circuit that can be sent with all its parameters."""

from __future__ import annotations

import io
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from qiskit import QuantumCircuit, qpy
from qiskit.providers import BackendV2
from qiskit.transpiler import PassManager, generate_preset_pass_manager
from qiskit.transpiler.exceptions import TranspilerError

from qml.circuits.paulis import Pauli
from qml.circuits.program import Program
from qml.errors import EngineError
from qml.simulators.qiskit_circuit import ROTATION_GATES, final_layout, quantum_circuit

GATES: Final = (
    *(f"r{letters.lower()}" for letters in ROTATION_GATES),
    *("x", "y", "z", "h", "s", "sdg", "t", "tdg", "sx", "sxdg"),
    *("cx", "cy", "cz", "swap", "id"),
)
"""What a circuit is made of where no machine says: gates that every simulator has."""


@dataclass(frozen=True)
class Compiled:
    """A circuit of a machine's own gates, and where the Program's slots and qubits are in it.

    Attributes:
        circuit: its parameters are named by slot; an angle may be an expression of them.
        slots: slots[i] is the slot whose angle is the i-th of `circuit.parameters`. A slot that no
            value depends on is not there.
        layout: layout[q] is the circuit's qubit that holds qubit q of the Program at the end.
        machine: that it is for.
    """

    circuit: QuantumCircuit
    slots: tuple[int, ...]
    layout: tuple[int, ...]
    machine: BackendV2 | None

    def label(self, pauli: Pauli) -> str:
        """A string of the Program as Qiskit's label of one on all qubits of the circuit."""
        qubits = pauli.support
        moved = Pauli.from_letters(pauli.letters(qubits), [self.layout[q] for q in qubits])
        return moved.label(self.circuit.num_qubits)

    def bindings(self, angles: NDArray[np.float64]) -> NDArray[np.float64]:
        """Values (R, P) of the circuit's parameters at rows of slot angles (R, K)."""
        return np.ascontiguousarray(angles[:, list(self.slots)])


def passes_for(machine: BackendV2 | None, optimization_level: int, seed: int) -> PassManager:
    """What compiles circuits for a machine; with None, for simulators of any kind.

    Compiling is deterministic: one Program has one layout, in every process.
    """
    if machine is not None:
        return generate_preset_pass_manager(
            optimization_level=optimization_level, backend=machine, seed_transpiler=seed
        )
    return generate_preset_pass_manager(
        optimization_level=optimization_level, basis_gates=list(GATES), seed_transpiler=seed
    )


def compiled(program: Program, passes: PassManager, machine: BackendV2 | None) -> Compiled:
    """One transpilation, by `passes_for` the machine.

    Raises:
        EngineError: the machine cannot run the circuit, or it would not arrive as it was sent.
    """
    circuit, parameters = quantum_circuit(program)
    try:
        native: Any = passes.run(circuit)
    except TranspilerError as error:
        raise EngineError(
            f"Qiskit cannot compile the circuit for this machine: {error.message.rstrip('.')}. "
            "Choose another machine, or another optimization_level."
        ) from error
    native.global_phase = 0  # it may hold parameters, and no value depends on it
    refuse_altered(native)
    index = {parameter: k for k, parameter in enumerate(parameters)}
    slots = tuple(index[p] for p in native.parameters)
    return Compiled(native, slots, final_layout(native), machine)


def refuse_altered(circuit: QuantumCircuit) -> None:
    """Writes the circuit as it is sent to a service and reads it back, as the service will.

    Raises:
        EngineError: it comes back with other parameters, which would fail there, or worse.
    """
    stream = io.BytesIO()
    qpy.dump(circuit, stream)
    stream.seek(0)
    (arrived,) = qpy.load(stream)
    sent, found = ([p.name for p in one.parameters] for one in (circuit, arrived))
    if sent != found:
        missing = sorted({*sent} ^ {*found})
        raise EngineError(
            f"the circuit has {len(sent)} parameters, and {len(found)} after it was written and "
            f"read again as QPY, as when it is sent (differing: {', '.join(missing[:5])}). It was "
            "not sent. This is a fault of the installed Qiskit; try another version."
        )
