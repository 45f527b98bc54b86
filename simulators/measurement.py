"""What is measured together, how often, and how values follow from the outcomes. Plain NumPy."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from qml.circuits.paulis import Pauli
from qml.circuits.program import Expectation, Probabilities, Program


@dataclass
class Group:
    """Outputs that one measurement serves: every qubit of the group read in one letter's basis.

    Outcomes are packed (see `pack`): bit i of one is what qubits[i] was found in.

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
        """The measured qubits, ascending."""
        return self.basis.support

    @property
    def weight(self) -> float:
        """The sum of the sizes of its coefficients; a block counts as 1."""
        return sum(abs(c) for _, _, c in self.strings) + len(self.blocks)

    def accepts(self, pauli: Pauli) -> bool:
        """Whether the string has, on every qubit it shares with the basis, the same letter."""
        shared = (self.basis.x | self.basis.z) & (pauli.x | pauli.z)
        return not ((self.basis.x ^ pauli.x) | (self.basis.z ^ pauli.z)) & shared

    def widened(self, pauli: Pauli) -> Pauli:
        """The basis in which the qubits of an accepted string are measured too."""
        return Pauli(self.basis.x | pauli.x, self.basis.z | pauli.z)

    def signs(self, pauli: Pauli, outcomes: NDArray[np.uint8]) -> NDArray[np.float64]:
        """(N,): 1 or -1, what a string of the group is at each outcome (N, B)."""
        string = pauli.x | pauli.z
        mask = sum((string >> qubit & 1) << i for i, qubit in enumerate(self.qubits))
        packed = np.frombuffer(mask.to_bytes(outcomes.shape[1], "little"), np.uint8)
        parity = np.bitwise_count(outcomes & packed).sum(axis=1) & 1
        return np.asarray(1.0 - 2.0 * parity)

    def places(self, qubits: tuple[int, ...], outcomes: NDArray[np.uint8]) -> NDArray[np.int64]:
        """(N,): the outcome of a block's qubits, the first least significant, at each (N, B)."""
        measured = self.qubits
        found = np.zeros(len(outcomes), np.int64)
        for j, qubit in enumerate(qubits):
            byte, bit = divmod(measured.index(qubit), 8)
            found += (outcomes[:, byte].astype(np.int64) >> bit & 1) << j
        return found

    def values(self, outcomes: NDArray[np.uint8], num_outputs: int) -> NDArray[np.float64]:
        """What each outcome contributes to each output: (N, B) -> (N, M).

        The mean of the rows over a distribution of outcomes is the group's share of the outputs.
        """
        values = np.zeros((len(outcomes), num_outputs))
        for column, pauli, coefficient in self.strings:
            values[:, column] += coefficient * self.signs(pauli, outcomes)
        for column, qubits in self.blocks:
            values[np.arange(len(outcomes)), column + self.places(qubits, outcomes)] += 1.0
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


def terms(output: Expectation) -> dict[Pauli, float]:
    """Its strings, without the identity and without those whose coefficients cancel."""
    total: dict[Pauli, float] = {}
    for pauli, coefficient in zip(output.paulis, output.coefficients, strict=True):
        if pauli.support:
            total[pauli] = total.get(pauli, 0.0) + coefficient
    return {pauli: coefficient for pauli, coefficient in total.items() if coefficient}


def constants(program: Program, mask: NDArray[np.bool_]) -> NDArray[np.float64]:
    """(M,): the part of each asked output that no circuit is needed for, its identity terms."""
    values = np.zeros(program.num_outputs)
    for column, output in asked(program, mask):
        if isinstance(output, Expectation):
            pairs = zip(output.paulis, output.coefficients, strict=True)
            values[column] = sum(c for pauli, c in pairs if not pauli.support)
    return values


def groups(
    program: Program, mask: NDArray[np.bool_], widest: int | None = None
) -> tuple[Group, ...]:
    """Groups of qubit-wise commuting strings, each string in the first that takes it.

    Args:
        widest: the most qubits that are read to measure strings together; None for any number.
            One string, or one block, may have more.
    """
    made: list[Group] = []

    def takes(group: Group, pauli: Pauli) -> bool:
        if widest is None or group.basis == pauli:
            return group.accepts(pauli)
        return group.accepts(pauli) and len(group.widened(pauli).support) <= widest

    def group_of(pauli: Pauli) -> Group:
        group = next((group for group in made if takes(group, pauli)), None)
        if group is None:
            group = Group(pauli)
            made.append(group)
        group.basis = group.widened(pauli)
        return group

    for column, output in asked(program, mask):
        if isinstance(output, Probabilities):
            z = Pauli(0, sum(1 << q for q in output.qubits))
            group_of(z).blocks.append((column, output.qubits))
        else:
            for pauli, coefficient in terms(output).items():
                group_of(pauli).strings.append((column, pauli, coefficient))
    return tuple(made)


def shots_of(found: Sequence[Group], shots: int, rule: Literal["uniform", "weighted"]) -> list[int]:
    """How often each group is measured at a row of angles, `shots` times their number in all.

    With W the weight of a group and N its shots, the variance of a sum of everything is at most
    sum W^2 / N over the groups; "weighted", N in proportion to W, makes that least.
    """
    if rule == "uniform" or not found:
        return [shots] * len(found)
    return allocation([group.weight for group in found], shots * len(found))


def allocation(weights: Sequence[float], total: int) -> list[int]:
    """Whole numbers in proportion to weights above 0, each at least one, of that total.

    What whole parts leave, or the ones have taken, is settled one by one, where it changes the
    proportions least (Webster's divisors).

    >>> allocation([6.0, 3.0, 0.1], 10)
    [6, 3, 1]
    """
    wanted = np.asarray(weights, dtype=np.float64)
    wanted = wanted / wanted.max()  # sums of the largest numbers overflow
    given = np.maximum(1, np.floor(total * wanted / wanted.sum())).astype(np.int64)
    for _ in range(total - int(given.sum())):
        given[np.argmax(wanted / (given + 0.5))] += 1
    for _ in range(int(given.sum()) - total):
        given[np.argmin(np.where(given > 1, wanted / (given - 0.5), np.inf))] -= 1
    counts: list[int] = given.tolist()
    return counts
