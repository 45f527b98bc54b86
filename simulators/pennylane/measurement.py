"""What a request measures, and how its outputs follow from what the device answers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pennylane
from numpy.typing import NDArray
from pennylane.operation import Operator

from qml.circuits.paulis import Pauli
from qml.circuits.program import Expectation, Probabilities, Program
from qml.simulators.pennylane.circuits import Wires, observable, outcomes, to_z, word

Values = NDArray[np.float64]

WIDE: Final = 12
"""Qubits up to which strings are measured together: 2^12 probabilities are 32 KiB a row."""


@dataclass(frozen=True)
class Share:
    """What the numbers of a measurement (rows, size) give to the outputs.

    Attributes:
        columns: (N,) the outputs that get something, perhaps one several times.
        matrix: (size, N); None where number i goes to columns[i] as it is.
    """

    columns: NDArray[np.intp]
    matrix: NDArray[np.float64] | None = None

    def add(self, numbers: Values, values: Values) -> None:
        """Adds them to the values (rows, M)."""
        given = numbers if self.matrix is None else numbers @ self.matrix
        np.add.at(values.T, self.columns, given.T)


@dataclass(frozen=True)
class Readout:
    """What is measured at the end of one circuit.

    Attributes:
        gates: that follow the circuit.
        measurements: of the same run.
        shares: for each measurement, where its numbers go.
        shots: how often it runs; None for exact values.
    """

    gates: tuple[Operator, ...]
    measurements: tuple[Any, ...]
    shares: tuple[tuple[Share, ...], ...]
    shots: int | None = None


def asked(
    program: Program, outputs: NDArray[np.bool_]
) -> Iterator[tuple[int, Expectation | Probabilities]]:
    """(first column, output) of every output of which at least one column is asked for."""
    column = 0
    for output in program.outputs:
        if outputs[column : column + output.size].any():
            yield column, output
        column += output.size


def terms(output: Expectation) -> dict[Pauli, float]:
    """Its strings, without the identity and without those whose coefficients cancel."""
    total: dict[Pauli, float] = {}
    for pauli, coefficient in zip(output.paulis, output.coefficients, strict=True):
        if pauli.support:
            total[pauli] = total.get(pauli, 0.0) + coefficient
    return {pauli: coefficient for pauli, coefficient in total.items() if coefficient}


def constants(program: Program, outputs: NDArray[np.bool_]) -> Values:
    """(M,): the identity terms of the outputs that are asked for."""
    values = np.zeros(program.num_outputs)
    for column, output in asked(program, outputs):
        if isinstance(output, Expectation):
            pairs = zip(output.paulis, output.coefficients, strict=True)
            values[column] = sum(c for pauli, c in pairs if not pauli.support)
    return values


def exact(program: Program, outputs: NDArray[np.bool_], wires: Wires) -> list[Readout]:
    """All outputs that need a circuit, as they stand, in one readout; none if none does."""
    measurements: list[Any] = []
    shares: list[tuple[Share]] = []
    for column, output in asked(program, outputs):
        if isinstance(output, Probabilities):
            measurements.append(outcomes(output.qubits, wires))
        elif found := terms(output):
            measurements.append(pennylane.expval(observable(found, wires)))
        else:
            continue
        shares.append((Share(column + np.arange(output.size)),))
    return [Readout((), tuple(measurements), tuple(shares))] if measurements else []


@dataclass
class Group:
    """Strings and blocks that one measurement serves: each qubit read in one letter's basis.

    Attributes:
        basis: the letter each measured qubit is read in.
        strings: (column, string, coefficient).
        blocks: (first column, qubits).
    """

    basis: Pauli
    strings: list[tuple[int, Pauli, float]]
    blocks: list[tuple[int, tuple[int, ...]]]

    def accepts(self, pauli: Pauli) -> bool:
        """Whether a string agrees with the basis where both are, and what is read stays small."""
        shared = (self.basis.x | self.basis.z) & (pauli.x | pauli.z)
        differ = (self.basis.x ^ pauli.x) | (self.basis.z ^ pauli.z)
        return not differ & shared and len(self.with_string(pauli).support) <= WIDE

    def with_string(self, pauli: Pauli) -> Pauli:
        return Pauli(self.basis.x | pauli.x, self.basis.z | pauli.z)

    @property
    def size(self) -> float:
        """Its share of the shots if they are spread by coefficients; a block counts as 1."""
        return sum(abs(c) for _, _, c in self.strings) + len(self.blocks)

    def readout(self, wires: Wires, shots: int) -> Readout:
        """Its circuit: the probabilities of all outcomes, or one parity where these are many."""
        qubits = self.basis.support
        gates = tuple(to_z(self.basis, wires))
        columns = np.array([column for column, _, _ in self.strings], np.intp)
        coefficients = np.array([coefficient for _, _, coefficient in self.strings])
        if len(qubits) > WIDE and not self.blocks:
            # No second string came in, but for the same one in other outputs.
            parity = pennylane.expval(word(Pauli(0, self.basis.x | self.basis.z), wires))
            return Readout(gates, (parity,), ((Share(columns, coefficients[None]),),), shots)
        outcome = np.arange(1 << len(qubits))
        shares = []
        if self.strings:
            bits = [sum(1 << qubits.index(q) for q in p.support) for _, p, _ in self.strings]
            odd = np.bitwise_count(outcome[:, None] & np.array(bits)) & 1
            shares.append(Share(columns, coefficients * (1.0 - 2.0 * odd)))
        for column, block in self.blocks:
            where = np.full(len(outcome), column)
            for j, qubit in enumerate(block):
                where += (outcome >> qubits.index(qubit) & 1) << j
            shares.append(Share(where))
        return Readout(gates, (outcomes(qubits, wires),), (tuple(shares),), shots)


def groups(program: Program, outputs: NDArray[np.bool_]) -> list[Group]:
    """Groups of qubit-wise commuting strings, each string in the first that takes it."""
    made: list[Group] = []

    def group_of(pauli: Pauli) -> Group:
        for group in made:
            if group.basis == pauli or group.accepts(pauli):
                break
        else:
            group = Group(pauli, [], [])
            made.append(group)
        group.basis = group.with_string(pauli)
        return group

    for column, output in asked(program, outputs):
        if isinstance(output, Probabilities):
            z = Pauli(0, sum(1 << q for q in output.qubits))
            group_of(z).blocks.append((column, output.qubits))
        else:
            for pauli, coefficient in terms(output).items():
                group_of(pauli).strings.append((column, pauli, coefficient))
    return made


def allocation(found: Sequence[Group], shots: int, rule: str) -> list[int]:
    """The shots of each group: `shots`, or of as many in all its share, but at least one."""
    if rule == "uniform" or not found:
        return [shots] * len(found)
    sizes = np.array([group.size for group in found])
    spare = (shots - 1) * len(found)
    shares = spare * sizes / sizes.sum()
    given = np.floor(shares).astype(np.int64)
    # What rounding down has left goes to those that lost most by it.
    last = np.argsort(given - shares, kind="stable")[: spare - int(given.sum())]
    given[last] += 1
    return [int(share) + 1 for share in given]


def sampled(
    program: Program, outputs: NDArray[np.bool_], wires: Wires, shots: int, rule: str
) -> list[Readout]:
    """One readout, and so one circuit, for each group; `rule` is "uniform" or "weighted"."""
    found = groups(program, outputs)
    given = allocation(found, shots, rule)
    return [group.readout(wires, count) for group, count in zip(found, given, strict=True)]
