"""The three ways to ask Aer: saved expectation values, saved distributions, counts.

Each holds the circuits to run for one Program and one choice of outputs, and adds what Aer
answers to the values.
"""

from __future__ import annotations

from collections.abc import Sequence
from operator import attrgetter
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from qiskit import ClassicalRegister, QuantumCircuit
from qiskit_aer.library import SaveExpectationValue, SaveProbabilities

from qml.circuits.program import Probabilities, Program
from qml.simulators.aer.compilation import Compiled
from qml.simulators.aer.measurement import Group, asked, groups, pack
from qml.simulators.qiskit_circuit import change_basis, sparse_pauli


class Request(Protocol):
    """Circuits, and how to read what Aer found.

    Attributes:
        circuits: to run together, each at every row; none where the outputs are constants.
        sampled: whether their answers are random.
    """

    circuits: tuple[QuantumCircuit, ...]
    sampled: bool

    def read(self, data: Sequence[Sequence[Any]], values: NDArray[np.float64]) -> None:
        """Adds to values (R, M) what Aer saved for circuit c at row r, data[c][r]."""


class Expectations:
    """Exact and ideal: Aer itself computes every Pauli sum and every block of probabilities."""

    sampled = False

    def __init__(self, program: Program, mask: NDArray[np.bool_], compiled: Compiled) -> None:
        circuit = compiled.circuit.copy()
        everywhere = range(circuit.num_qubits)
        self._sums: list[int] = []
        self._blocks: list[tuple[int, int]] = []
        for column, output in asked(program, mask):
            if isinstance(output, Probabilities):
                save = SaveProbabilities(len(output.qubits), f"block{column}")
                circuit.append(save, output.qubits)
                self._blocks.append((column, output.size))
                continue
            terms = [
                (pauli, coefficient)
                for pauli, coefficient in zip(output.paulis, output.coefficients, strict=True)
                if pauli.support
            ]
            if terms:
                # On all qubits: on some of them Aer gives wrong values where others idle.
                total = sparse_pauli(terms, circuit.num_qubits)
                circuit.append(SaveExpectationValue(total, f"sum{column}"), everywhere)
                self._sums.append(column)
        self.circuits = (circuit,) if self._sums or self._blocks else ()
        self._sums_of = attrgetter(*(f"sum{c}" for c in self._sums)) if self._sums else None

    def read(self, data: Sequence[Sequence[Any]], values: NDArray[np.float64]) -> None:
        if not self.circuits:
            return
        (rows,) = data
        if self._sums_of is not None:
            saved = np.array(list(map(self._sums_of, rows)), dtype=np.float64)
            values[:, self._sums] += saved.reshape(len(rows), -1)
        for column, size in self._blocks:
            block = np.array(list(map(attrgetter(f"block{column}"), rows)), dtype=np.float64)
            values[:, column : column + size] += block


class Distributions:
    """Exact and noisy: the distribution of what is read, one circuit per group.

    Aer's saved values know no readout error, so that is applied here, to the distribution.
    """

    sampled = False

    def __init__(self, program: Program, mask: NDArray[np.bool_], compiled: Compiled) -> None:
        assert compiled.patch is not None
        self._patch = compiled.patch
        self._groups = groups(program, mask)
        self._qubits = [tuple(compiled.layout[q] for q in group.qubits) for group in self._groups]
        circuits = []
        for group, qubits in zip(self._groups, self._qubits, strict=True):
            circuit = in_basis(compiled, group)
            circuit.append(SaveProbabilities(len(qubits), "read"), qubits)
            circuits.append(circuit)
        self.circuits = tuple(circuits)

    def read(self, data: Sequence[Sequence[Any]], values: NDArray[np.float64]) -> None:
        for group, qubits, rows in zip(self._groups, self._qubits, data, strict=True):
            true = np.array([one.read for one in rows], dtype=np.float64)
            outcomes = pack(range(1 << len(qubits)), len(qubits))
            values += self._patch.misread(true, qubits) @ group.values(outcomes, values.shape[1])


class Counts:
    """Sampled: counts of outcomes, one circuit per group."""

    sampled = True

    def __init__(self, program: Program, mask: NDArray[np.bool_], compiled: Compiled) -> None:
        self._groups = groups(program, mask)
        circuits = []
        for group in self._groups:
            circuit = in_basis(compiled, group)
            outcome = ClassicalRegister(len(group.qubits), "outcome")
            circuit.add_register(outcome)
            circuit.measure([compiled.layout[q] for q in group.qubits], outcome)
            circuits.append(circuit)
        self.circuits = tuple(circuits)

    def read(self, data: Sequence[Sequence[Any]], values: NDArray[np.float64]) -> None:
        for group, rows in zip(self._groups, data, strict=True):
            counts = [one.counts for one in rows]
            outcomes = pack([int(key, 16) for c in counts for key in c], len(group.qubits))
            times = np.array([n for c in counts for n in c.values()], dtype=np.float64)
            row = np.repeat(np.arange(len(counts)), [len(c) for c in counts])
            found = group.values(outcomes, values.shape[1])
            total = np.bincount(row, times, minlength=len(counts))
            for column in np.flatnonzero(found.any(axis=0)):
                share = np.bincount(row, times * found[:, column], minlength=len(counts))
                values[:, column] += share / total


def in_basis(compiled: Compiled, group: Group) -> QuantumCircuit:
    """The compiled circuit followed by what turns the group's letters into Z, in native gates."""
    circuit: QuantumCircuit = compiled.circuit.copy()
    change_basis(circuit, ((group.basis.letter(q), compiled.layout[q]) for q in group.qubits))
    return compiled.patch.in_native_gates(circuit) if compiled.patch else circuit
