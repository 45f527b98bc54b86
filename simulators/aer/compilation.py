"""A Program compiled once: a circuit Aer runs as it is, and how its parameters are bound."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from qiskit import QuantumCircuit
from qiskit.circuit import Parameter, ParameterExpression
from qiskit.circuit.equivalence_library import SessionEquivalenceLibrary
from qiskit.transpiler import PassManager
from qiskit.transpiler.passes import BasisTranslator
from qiskit_aer import AerSimulator
from qiskit_aer.noise import NoiseModel

from qml.circuits.program import Program
from qml.errors import EngineError
from qml.simulators.aer.noise import Machine, Patch
from qml.simulators.qiskit_circuit import quantum_circuit


@dataclass(frozen=True)
class Binding:
    """An angle of the compiled circuit: offset + sum_k coefficient_k * (angle of slot_k)."""

    parameter: Parameter
    terms: tuple[tuple[int, float], ...]
    offset: float

    def values(self, angles: NDArray[np.float64]) -> list[float]:
        """Its value at every row of slot angles (R, K)."""
        if self.offset == 0.0 and self.terms[0][1] == 1.0 and len(self.terms) == 1:
            column = angles[:, self.terms[0][0]]
        else:
            column = np.full(len(angles), self.offset)
            for slot, coefficient in self.terms:
                column += coefficient * angles[:, slot]
        values: list[float] = column.tolist()
        return values


@dataclass(frozen=True)
class Compiled:
    """A circuit with plain parameters only, and where the Program's qubits are in it.

    Attributes:
        circuit: nothing measured or saved yet.
        bindings: one for every parameter of the circuit.
        layout: layout[q] is the circuit's qubit that holds qubit q of the Program at the end.
        patch: the part of a machine it is compiled for, None without noise.
    """

    circuit: QuantumCircuit
    bindings: tuple[Binding, ...]
    layout: tuple[int, ...]
    patch: Patch | None

    @property
    def noise_model(self) -> NoiseModel | None:
        return self.patch.noise_model if self.patch else None

    def bind(self, angles: NDArray[np.float64]) -> dict[Parameter, list[float]]:
        """Aer's table of parameter values for rows of slot angles (R, K)."""
        return {binding.parameter: binding.values(angles) for binding in self.bindings}


def native_passes(simulator: AerSimulator) -> PassManager:
    """What turns any circuit of gates into gates the simulator has, and nothing more.

    A preset pass manager does the same in a hundred times the time, and limits the width.
    """
    return PassManager([BasisTranslator(SessionEquivalenceLibrary, simulator.operation_names)])


def compiled(program: Program, passes: PassManager, machine: Machine | None) -> Compiled:
    """One transpilation: by `passes` for the simulator, or with noise for the machine.

    Raises:
        EngineError: the machine is too small, or its noise touches nothing in the circuit.
    """
    circuit, parameters = quantum_circuit(program)
    patch: Patch | None
    if machine is None:
        circuit = passes.run(circuit)
        layout, patch = tuple(range(program.num_qubits)), None
    else:
        circuit, layout, patch = machine.compiled(circuit)
    circuit.global_phase = 0  # it may hold parameters, and no value depends on it
    circuit, bindings = with_plain_parameters(circuit, parameters)
    return Compiled(circuit, bindings, layout, patch)


def with_plain_parameters(
    circuit: QuantumCircuit, slots: Sequence[Parameter]
) -> tuple[QuantumCircuit, tuple[Binding, ...]]:
    """The same circuit with every affine angle expression replaced by a parameter of its own.

    Aer evaluates expressions row by row in Python, which costs more than the simulation.

    Raises:
        EngineError: an expression is not affine in the slot angles.
    """
    index = {parameter: k for k, parameter in enumerate(slots)}
    plain = circuit.copy_empty_like()
    bindings: dict[Parameter, Binding] = {}
    for instruction in circuit.data:
        operation = instruction.operation
        if operation.is_parameterized():
            angles = []
            for angle in operation.params:
                if isinstance(angle, Parameter):
                    bindings[angle] = Binding(angle, ((index[angle], 1.0),), 0.0)
                elif isinstance(angle, ParameterExpression) and angle.parameters:
                    fresh = Parameter(f"angle{len(bindings)}")
                    bindings[fresh] = _affine(fresh, angle, index)
                    angle = fresh
                angles.append(angle)
            operation = operation.to_mutable()
            operation.params = angles
        plain.append(operation, instruction.qubits)
    return plain, tuple(bindings.values())


def _affine(
    parameter: Parameter, expression: ParameterExpression, index: dict[Parameter, int]
) -> Binding:
    terms = []
    for slot in sorted(expression.parameters, key=index.__getitem__):
        slope = expression.gradient(slot)
        if isinstance(slope, ParameterExpression) and slope.parameters:
            raise EngineError(
                f"compiling for the machine made the angle {expression}, which is not affine in "
                "the circuit's rotation angles. This should not happen; please report the circuit."
            )
        terms.append((index[slot], float(slope)))
    offset = float(expression.bind({slot: 0.0 for slot in expression.parameters}))
    return Binding(parameter, tuple(terms), offset)
