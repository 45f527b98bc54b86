"""A Qiskit circuit becomes a Program: Pauli rotations with slots, and fixed gates."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache

import numpy as np
from qiskit import QuantumCircuit
from qiskit.circuit import (
    CircuitInstruction,
    ControlFlowOp,
    ControlledGate,
    Gate,
    Instruction,
    Operation,
    Parameter,
    ParameterExpression,
)
from qiskit.circuit.equivalence_library import SessionEquivalenceLibrary
from qiskit.circuit.library import get_standard_gate_name_mapping
from qiskit.transpiler import PassManager
from qiskit.transpiler.exceptions import TranspilerError
from qiskit.transpiler.passes import (
    BasisTranslator,
    HighLevelSynthesis,
    RemoveResetInZeroState,
    UnrollCustomDefinitions,
)

from qml.circuits.expressions import Affine, Nonlinear, analyse
from qml.circuits.gates import BASIS, FIXED, IGNORED, ROTATIONS
from qml.circuits.paulis import Pauli
from qml.circuits.program import (
    CONSTANT,
    AngleMap,
    Expectation,
    Fixed,
    Formula,
    Probabilities,
    Program,
    Rotation,
)
from qml.errors import UnsupportedCircuitError


def lower(
    circuit: QuantumCircuit,
    outputs: Sequence[Expectation | Probabilities],
    index: Mapping[Parameter, int],
    arguments: Sequence[tuple[str, tuple[int, ...]]] = (),
) -> Program:
    """The Program of a circuit on |0...0> with the given outputs.

    Args:
        circuit: any unitary circuit that Qiskit can unroll; parameters in any real expression.
        outputs: what is measured at the end.
        index: where in the flat argument vector each circuit parameter stands.
        arguments: (name, shape) of the arrays behind the flat vector.

    Raises:
        UnsupportedCircuitError: measurement, reset, control flow, or a gate without definition.
        TracingError: a free parameter that is no argument.
    """
    _refuse_non_unitary(circuit)
    circuit = _unambiguous(circuit)
    slots = _Slots(index, sum(int(np.prod(shape)) for _, shape in arguments) or len(index))
    operations: list[Rotation | Fixed] = []
    for name, instruction, qubits in _instructions(_unroll(circuit)):
        if name in ROTATIONS:
            parameters = instruction.params
            for letters, coefficients in ROTATIONS[name]:
                angle = _combination(coefficients, parameters)
                rotation = slots.rotation(Pauli.from_letters(letters, qubits), angle)
                if rotation is not None:
                    operations.append(rotation)
        elif name in FIXED:
            operations.append(Fixed(name, qubits, FIXED[name]))
        elif name == "unitary":
            matrix = np.array(instruction.operation.to_matrix(), dtype=np.complex128)
            matrix.setflags(write=False)
            operations.append(Fixed(name, qubits, matrix))
        elif name not in IGNORED:
            raise _unsupported(name)
    return Program(
        circuit.num_qubits, tuple(operations), tuple(outputs), slots.angle_map(), tuple(arguments)
    )


class _Slots:
    """Hands out slots, and gathers how their angles follow from the arguments."""

    def __init__(self, index: Mapping[Parameter, int], num_arguments: int) -> None:
        self.index = index
        self.num_arguments = num_arguments
        self.offset: list[float] = []
        self.affine: list[tuple[int, int, float]] = []
        self.formulas: dict[tuple[str, int], list[tuple[int, tuple[int, ...]]]] = {}

    def rotation(self, pauli: Pauli, angle: float | ParameterExpression) -> Rotation | None:
        """The rotation by that angle; None where it is the identity."""
        form = analyse(angle, self.index)
        if isinstance(form, Affine) and not form.arguments:
            return Rotation(pauli, CONSTANT, form.constant) if form.constant else None
        slot = len(self.offset)
        if isinstance(form, Nonlinear):
            self.offset.append(0.0)
            group = self.formulas.setdefault((form.text, len(form.arguments)), [])
            group.append((slot, form.arguments))
        else:
            self.offset.append(form.constant)
            for argument, coefficient in zip(form.arguments, form.coefficients, strict=True):
                self.affine.append((slot, argument, coefficient))
        return Rotation(pauli, slot)

    def angle_map(self) -> AngleMap:
        return AngleMap(
            self.num_arguments,
            np.array([slot for slot, _, _ in self.affine], np.int32),
            np.array([argument for _, argument, _ in self.affine], np.int32),
            np.array([coefficient for _, _, coefficient in self.affine], np.float64),
            np.array(self.offset, np.float64),
            tuple(
                Formula(
                    text,
                    np.array([slot for slot, _ in group], np.int32),
                    np.array([which for _, which in group], np.int32).reshape(len(group), count),
                )
                for (text, count), group in self.formulas.items()
            ),
        )


def _combination(
    coefficients: Sequence[float], parameters: Sequence[float | ParameterExpression]
) -> float | ParameterExpression:
    """sum_i coefficients[i] * parameters[i], leaving a bare parameter bare."""
    total: float | ParameterExpression = 0.0
    for coefficient, parameter in zip(coefficients, parameters, strict=True):
        if coefficient:
            term = parameter if coefficient == 1 else coefficient * parameter
            total = term if isinstance(total, float) and total == 0 else total + term
    return total


@lru_cache(maxsize=1)
def _passes() -> PassManager:
    return PassManager(
        [
            HighLevelSynthesis(
                basis_gates=list(BASIS), equivalence_library=SessionEquivalenceLibrary
            ),
            UnrollCustomDefinitions(SessionEquivalenceLibrary, list(BASIS)),
            BasisTranslator(SessionEquivalenceLibrary, list(BASIS)),
            # `initialize` begins with resets; on untouched qubits they do nothing.
            RemoveResetInZeroState(),
        ]
    )


def _unroll(circuit: QuantumCircuit) -> QuantumCircuit:
    try:
        return _passes().run(circuit)
    except TranspilerError as error:
        raise UnsupportedCircuitError(
            f"Qiskit cannot unroll the circuit to the gates this library differentiates: "
            f"{error.message}. Give the gate a definition, or use a UnitaryGate."
        ) from error


def _instructions(
    circuit: QuantumCircuit,
) -> Iterator[tuple[str, CircuitInstruction, tuple[int, ...]]]:
    position = {qubit: i for i, qubit in enumerate(circuit.qubits)}
    for instruction in circuit.data:
        qubits = tuple(position[qubit] for qubit in instruction.qubits)
        yield instruction.operation.name, instruction, qubits


def _unambiguous(circuit: QuantumCircuit) -> QuantumCircuit:
    """The circuit with every gate of the user's own that has a known gate's name called otherwise.

    Qiskit's passes and the gate table go by names; a sub-circuit called "h" is not a Hadamard.
    """
    replaced = {i: _renamed(one.operation) for i, one in enumerate(circuit.data) if _own(one)}
    changed = {i: new for i, new in replaced.items() if new is not circuit.data[i].operation}
    if not changed:
        return circuit
    renamed = circuit.copy()
    for i, operation in changed.items():
        renamed.data[i] = circuit.data[i].replace(operation=operation)
    return renamed


def _own(instruction: CircuitInstruction) -> bool:
    """Whether this is no gate of Qiskit's library: a sub-circuit, or a class of the user's."""
    kind = type(instruction.operation)
    plain = (Gate, Instruction, ControlledGate)
    library = str(kind.__module__).startswith("qiskit.") and kind not in plain
    return not (instruction.is_standard_gate() or library)


def _renamed(operation: Operation) -> Operation:
    """The gate, or a copy with another name, or with such copies inside."""
    definition = getattr(operation, "definition", None)
    if definition is None:
        return operation
    inside = _unambiguous(definition)
    if inside is definition and operation.name not in _known_names():
        return operation
    renamed = Instruction(
        f"{operation.name} of the circuit",
        operation.num_qubits,
        operation.num_clbits,
        operation.params,
    )
    renamed.definition = inside
    return renamed


@lru_cache(maxsize=1)
def _known_names() -> frozenset[str]:
    """What Qiskit's passes or the gate table take for a certain gate."""
    equivalences = {key.name for key in SessionEquivalenceLibrary.keys()}
    return frozenset({*get_standard_gate_name_mapping(), *equivalences, *BASIS, *IGNORED})


def _refuse_non_unitary(circuit: QuantumCircuit) -> None:
    for instruction in circuit.data:
        operation = instruction.operation
        if isinstance(operation, ControlFlowOp) or operation.name in ("measure", "store"):
            raise _unsupported(operation.name)
        definition = getattr(operation, "definition", None) if instruction.clbits else None
        if definition is not None:
            _refuse_non_unitary(definition)


def _unsupported(name: str) -> UnsupportedCircuitError:
    if name == "measure":
        return UnsupportedCircuitError(
            "the kernel measures a qubit. Kernels write unitary circuits and return what is to be "
            "measured at the end, for example [qml.Z(0)] or qml.probs(0, 1)."
        )
    return UnsupportedCircuitError(
        f"the circuit holds {name!r}, which has no derivative here: reset, feed-forward and the "
        "circuit's control flow are not supported. Write a unitary circuit, with Python's loops."
    )
