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
    """A parameter of the compiled circuit: offset + sum_k coefficient_k * (angle of slot_k)."""

    parameter: Parameter
    terms: tuple[tuple[int, float], ...]
    offset: float


class Bindings:
    """All P parameters of a compiled circuit, as functions of the slot angles.

    Attributes:
        parameters: in the order of the values.
    """

    def __init__(self, bindings: Sequence[Binding]) -> None:
        self.parameters = tuple(binding.parameter for binding in bindings)
        self._offsets = np.array([binding.offset for binding in bindings]).reshape(-1, 1)
        # Shorter sums end in zeros times a slot of their own.
        longest = max((len(binding.terms) for binding in bindings), default=0)
        self._slots = np.zeros((longest, len(bindings)), np.intp)
        self._coefficients = np.zeros((longest, len(bindings), 1))
        for p, binding in enumerate(bindings):
            self._slots[:, p] = binding.terms[0][0]
            for t, (slot, coefficient) in enumerate(binding.terms):
                self._slots[t, p] = slot
                self._coefficients[t, p] = coefficient
        self._plain = all(one.offset == 0.0 and one.terms[0][1] == 1.0 for one in bindings)

    def values(self, angles: NDArray[np.float64]) -> NDArray[np.float64]:
        """(R, K) slot angles -> (P, R). A row's values do not depend on the other rows."""
        if self._plain and len(self._slots) == 1:
            plain: NDArray[np.float64] = angles.T[self._slots[0]]
            return plain
        values = np.repeat(self._offsets, len(angles), axis=1)
        for slots, coefficients in zip(self._slots, self._coefficients, strict=True):
            values += coefficients * angles.T[slots]
        return values


@dataclass(frozen=True)
class Compiled:
    """A circuit with plain parameters only, and where the Program's qubits are in it.

    Attributes:
        circuit: nothing measured or saved yet.
        bindings: its parameters.
        layout: layout[q] is the circuit's qubit that holds qubit q of the Program at the end.
        patch: the part of a machine it is compiled for, None without noise.
        noise_model: of the patch.
    """

    circuit: QuantumCircuit
    bindings: Bindings
    layout: tuple[int, ...]
    patch: Patch | None
    noise_model: NoiseModel | None


def native_passes(simulator: AerSimulator) -> PassManager:
    """What turns any circuit of gates into gates the simulator has, and nothing more.

    A preset pass manager does the same in a hundred times the time, and limits the width.
    """
    return PassManager([BasisTranslator(SessionEquivalenceLibrary, simulator.operation_names)])


def compiled(
    program: Program, passes: PassManager, machine: Machine | None, *, whole: bool = False
) -> Compiled:
    """One transpilation: by `passes` for the simulator, or with noise for the machine.

    Args:
        whole: whether the noise is for density matrices; see Channel.

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
    noise_model = None if patch is None else patch.noise_model(whole=whole)
    return Compiled(circuit, Bindings(bindings), layout, patch, noise_model)


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
