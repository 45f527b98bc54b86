"""Light cones: what cannot change any output is left out, operations and whole qubits."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

from qml.circuits.paulis import Pauli
from qml.circuits.program import Expectation, Fixed, Probabilities, Program, Rotation


@dataclass(frozen=True)
class Cone:
    """The part of a Program that its outputs depend on, its qubits numbered anew, at least one.

    Attributes:
        num_qubits: of the part.
        operations: on its qubits.
        outputs: as those of the Program.
    """

    num_qubits: int
    operations: tuple[Rotation | Fixed, ...]
    outputs: tuple[Expectation | Probabilities, ...]


@lru_cache(maxsize=256)
def light_cone(program: Program) -> Cone:
    """The Program without operations on qubits that no output or later kept operation touches.

    An operation U with disjoint support commutes with what is measured, so U+ O U = O.
    """
    needed: set[int] = set()
    for output in program.outputs:
        needed.update(_measured(output))
    kept: list[Rotation | Fixed] = []
    for operation in reversed(program.operations):
        support = operation.pauli.support if isinstance(operation, Rotation) else operation.qubits
        if not needed.isdisjoint(support):
            needed.update(support)
            kept.append(operation)
    qubits = sorted(needed)
    if len(qubits) == program.num_qubits:
        return Cone(program.num_qubits, tuple(reversed(kept)), program.outputs)
    new = {q: i for i, q in enumerate(qubits)}
    return Cone(
        max(1, len(qubits)),
        tuple(_moved(operation, new) for operation in reversed(kept)),
        tuple(_moved_output(output, new) for output in program.outputs),
    )


def _measured(output: Expectation | Probabilities) -> Sequence[int]:
    if isinstance(output, Probabilities):
        return output.qubits
    return [q for pauli in output.paulis for q in pauli.support]


def _moved(operation: Rotation | Fixed, new: dict[int, int]) -> Rotation | Fixed:
    if isinstance(operation, Rotation):
        return replace(operation, pauli=_moved_pauli(operation.pauli, new))
    return replace(operation, qubits=tuple(new[q] for q in operation.qubits))


def _moved_output(
    output: Expectation | Probabilities, new: dict[int, int]
) -> Expectation | Probabilities:
    if isinstance(output, Probabilities):
        return replace(output, qubits=tuple(new[q] for q in output.qubits))
    return replace(output, paulis=tuple(_moved_pauli(pauli, new) for pauli in output.paulis))


def _moved_pauli(pauli: Pauli, new: dict[int, int]) -> Pauli:
    support = pauli.support
    return Pauli.from_letters(pauli.letters(support), [new[q] for q in support])
