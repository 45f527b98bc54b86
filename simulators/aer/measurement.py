"""What is measured together, and how values follow from the outcomes. Plain NumPy."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from qml.circuits.paulis import Pauli
from qml.circuits.program import Expectation, Probabilities, Program


@dataclass
class Group:
    """Outputs that one measurement serves: every qubit of the group read in one letter's basis.

    Attributes:
        basis: the letter each measured qubit is read in.
        strings: (column, string, coefficient) of every Pauli term; each string is the basis, or
            the identity, on every qubit.
        blocks: (first column, qubits) of every block of probabilities.
    """

    basis: Pauli
    strings: list[tuple[int, Pauli, float]] = field(default_factory=list)
    blocks: list[tuple[int, tuple[int, ...]]] = field(default_factory=list)

    @property
    def qubits(self) -> tuple[int, ...]:
        """The measured qubits, ascending: bit i of an outcome is that of qubits[i]."""
        return self.basis.support

    def accepts(self, pauli: Pauli) -> bool:
        """Whether the string has, on every qubit it shares with the basis, the same letter."""
        shared = (self.basis.x | self.basis.z) & (pauli.x | pauli.z)
        return not ((self.basis.x ^ pauli.x) | (self.basis.z ^ pauli.z)) & shared

    def widen(self, pauli: Pauli) -> None:
        """Makes the qubits of an accepted string measured ones."""
        self.basis = Pauli(self.basis.x | pauli.x, self.basis.z | pauli.z)

    def values(self, outcomes: NDArray[np.uint8], num_outputs: int) -> NDArray[np.float64]:
        """What each outcome contributes to each output: (N, B) packed outcomes -> (N, M).

        The mean of the rows over a distribution of outcomes is the group's share of the outputs.

        Args:
            outcomes: bit i % 8 of byte i // 8 is what qubits[i] was found in.
        """
        position = {qubit: i for i, qubit in enumerate(self.qubits)}
        values = np.zeros((len(outcomes), num_outputs))
        for column, pauli, coefficient in self.strings:
            mask = sum(1 << position[q] for q in pauli.support)
            packed = np.frombuffer(mask.to_bytes(outcomes.shape[1], "little"), np.uint8)
            parity = np.bitwise_count(outcomes & packed).sum(axis=1) & 1
            values[:, column] += coefficient * (1.0 - 2.0 * parity)
        for column, qubits in self.blocks:
            where = np.full(len(outcomes), column)
            for j, qubit in enumerate(qubits):
                byte, bit = divmod(position[qubit], 8)
                where += (outcomes[:, byte].astype(np.int64) >> bit & 1) << j
            values[np.arange(len(outcomes)), where] += 1.0
        return values


def pack(outcomes: Sequence[int], num_bits: int) -> NDArray[np.uint8]:
    """Outcomes of any width as rows of bytes, least significant first: (N, ceil(bits / 8))."""
    width = max(1, (num_bits + 7) // 8)
    joined = b"".join(outcome.to_bytes(width, "little") for outcome in outcomes)
    return np.frombuffer(joined, np.uint8).reshape(-1, width)


def asked(
    program: Program, mask: NDArray[np.bool_]
) -> Iterator[tuple[int, Expectation | Probabilities]]:
    """(first column, output) of every output with at least one column in the mask (M,)."""
    column = 0
    for output in program.outputs:
        if mask[column : column + output.size].any():
            yield column, output
        column += output.size


def constants(program: Program, mask: NDArray[np.bool_]) -> NDArray[np.float64]:
    """(M,): the part of each asked output that no circuit is needed for, its identity terms."""
    values = np.zeros(program.num_outputs)
    for column, output in asked(program, mask):
        if isinstance(output, Expectation):
            for pauli, coefficient in zip(output.paulis, output.coefficients, strict=True):
                values[column] += coefficient if not pauli.support else 0.0
    return values


def groups(program: Program, mask: NDArray[np.bool_]) -> tuple[Group, ...]:
    """Groups of qubit-wise commuting strings, the first that fits; identities are left out."""
    made: list[Group] = []

    def group_of(pauli: Pauli) -> Group:
        for group in made:
            if group.accepts(pauli):
                break
        else:
            group = Group(pauli)
            made.append(group)
        group.widen(pauli)
        return group

    for column, output in asked(program, mask):
        if isinstance(output, Probabilities):
            z = Pauli(0, sum(1 << q for q in output.qubits))
            group_of(z).blocks.append((column, output.qubits))
        else:
            for pauli, coefficient in zip(output.paulis, output.coefficients, strict=True):
                if pauli.support:
                    group_of(pauli).strings.append((column, pauli, coefficient))
    return tuple(made)
