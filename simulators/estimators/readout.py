"""Which operators an estimator measures for the outputs of a Program, and how values follow.

Sums of Pauli strings are operators as they are; a block of k probabilities is made of its 2^k - 1
strings of Z. Everything is one broadcast PUB: operators (M', 1, Q) at angles (R, Q, K), where the Q
circuits of a row are equal but for what is measured. Q is 1, and the estimator measures strings
together that commute qubit by qubit, except where shots are weighted: then each circuit is for one
group of such strings, and a group has as many circuits as its weight is worth.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from qiskit.primitives.containers import BindingsArray, ObservablesArray
from qiskit.quantum_info import PauliList

from qml.circuits.paulis import Pauli
from qml.circuits.program import Expectation, Probabilities, Program
from qml.simulators.estimators.compilation import Compiled
from qml.simulators.measurement import allocation, asked, constants, terms

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Block:
    """A block of probabilities: its first column, its k qubits, the operator of its first string.

    Operator `first + s - 1` is Z on those qubits whose bits are set in s = 1 ... 2^k - 1.
    """

    column: int
    qubits: tuple[int, ...]
    first: int


class Readout:
    """For one Program, compiled, and one choice of outputs (M,).

    Attributes:
        operators: M' sums of strings, none of them empty.
        groups: of strings that commute qubit by qubit, each measured by a circuit of its own.
        circuits: Q, circuits of the PUB at one row of angles.

    Args:
        parts: into how many equal parts the shots of a group are split, to weight them; 1 where
            they are not.
    """

    def __init__(
        self, program: Program, outputs: NDArray[np.bool_], compiled: Compiled, parts: int
    ) -> None:
        self._compiled = compiled
        self._constants = constants(program, outputs)
        self.operators: list[Mapping[Pauli, float]] = []
        self._weights: dict[Pauli, float] = {}
        self._sums: list[tuple[int, int]] = []
        self._blocks: list[Block] = []
        self._wanted = outputs
        for column, output in asked(program, outputs):
            if isinstance(output, Probabilities):
                self._add_block(column, output)
            else:
                self._add_sum(column, output)
        grouped = self._grouped()
        self.groups = len(grouped)
        if parts > 1 and self.groups > 1:
            weights = [sum(self._weights[pauli] for pauli in group) for group in grouped]
            copies = allocation(weights, parts * self.groups)
            groups = [group for group, n in zip(grouped, copies, strict=True) for _ in range(n)]
        else:
            groups, copies = [set(self._weights)], [1]
        self.circuits = len(groups)
        shares = np.repeat([1 / n for n in copies], copies)
        contained = [[any(p in group for p in one) for group in groups] for one in self.operators]
        self._shares = np.reshape(contained, (-1, self.circuits)) * shares
        self._groups = groups

    def __bool__(self) -> bool:
        """Whether there is anything to measure: outputs may be constants."""
        return bool(self.operators)

    def pub(self, angles: Array) -> tuple[object, ...]:
        """The circuit, the operators, and the angles at every row (R, K)."""
        values = self._compiled.bindings(angles)
        shape = (len(angles), self.circuits)
        circuit = self._compiled.circuit
        # An empty table would lose the number of rows, so the shape is said.
        table = {tuple(circuit.parameters): np.repeat(values[:, None], self.circuits, axis=1)}
        return circuit, self._observables, BindingsArray(table if values.size else {}, shape=shape)

    def values(self, evs: Array) -> Array:
        """The outputs (R, M), those not asked for zero, from expectation values (M', R, Q)."""
        found = np.einsum("mrq,mq->rm", evs, self._shares)
        values = np.tile(self._constants, (len(found), 1))
        for column, operator in self._sums:
            values[:, column] += found[:, operator]
        for block in self._blocks:
            size = 1 << len(block.qubits)
            strings = found[:, block.first : block.first + size - 1]
            moments = np.hstack([np.ones((len(found), 1)), strings])
            values[:, block.column : block.column + size] = _distribution(moments)
        values[:, ~self._wanted] = 0.0
        return values

    def constants(self, rows: int) -> Array:
        """The outputs where there is nothing to measure."""
        return self.values(np.zeros((0, rows, self.circuits)))

    @cached_property
    def _observables(self) -> ObservablesArray:
        """(M', 1, Q). Where an operator has no string of a group, any of the group stands in."""
        table = []
        for operator in self.operators:
            row = []
            for group in self._groups:
                inside = {p: c for p, c in operator.items() if p in group}
                inside = inside or {min(group): 1.0}
                row.append({self._compiled.label(p): c for p, c in inside.items()})
            table.append([row])
        return ObservablesArray(table)

    def _add_sum(self, column: int, output: Expectation) -> None:
        strings = terms(output)
        for pauli, coefficient in strings.items():
            self._weights[pauli] = self._weights.get(pauli, 0.0) + abs(coefficient)
        if strings:
            self._sums.append((column, len(self.operators)))
            self.operators.append(strings)

    def _add_block(self, column: int, output: Probabilities) -> None:
        self._blocks.append(Block(column, output.qubits, len(self.operators)))
        for subset in range(1, output.size):
            chosen = [q for j, q in enumerate(output.qubits) if subset >> j & 1]
            string = Pauli(0, sum(1 << q for q in chosen))
            self.operators.append({string: 1.0})
            # All of them are one measurement, which weighs as much as one string.
            self._weights[string] = self._weights.get(string, 0.0) + 1 / (output.size - 1)

    def _grouped(self) -> list[set[Pauli]]:
        strings = {self._compiled.label(pauli): pauli for pauli in self._weights}
        if not strings:
            return []
        # Sorted, as estimators of Qiskit do: the number of groups may depend on the order.
        together = PauliList(sorted(strings)).group_commuting(qubit_wise=True)
        return [{strings[label] for label in group.to_labels()} for group in together]


def _distribution(moments: Array) -> Array:
    """Probabilities (R, 2^k) of outcomes b from <Z^s> (R, 2^k): sum_s (-1)^|b & s| <Z^s> / 2^k."""
    rows, size = moments.shape
    for j in range(size.bit_length() - 1):
        split = moments.reshape(rows, -1, 2, 1 << j)
        moments = np.stack([split[:, :, 0] + split[:, :, 1], split[:, :, 0] - split[:, :, 1]], 2)
    return np.asarray(moments.reshape(rows, size) / size)
