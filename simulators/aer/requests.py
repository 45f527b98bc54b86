"""The three ways to ask Aer: saved expectation values, saved distributions, counts.

Each holds the circuits to run for one Program and one choice of outputs, and adds what Aer
answers to the values. What Aer answers is, for every circuit, one dict for every experiment: at
one row of angles, or with `laps` at as many rows, one after the other.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from operator import itemgetter
from typing import Any, Final, Protocol

import numpy as np
from numpy.typing import NDArray
from qiskit import ClassicalRegister, QuantumCircuit
from qiskit.quantum_info import SparsePauliOp
from qiskit_aer.library import SaveExpectationValue, SaveProbabilities, SetStatevector

from qml.circuits.paulis import Pauli
from qml.circuits.program import Probabilities, Program
from qml.simulators.aer.compilation import Compiled
from qml.simulators.measurement import Group, asked, groups, pack, terms
from qml.simulators.qiskit_circuit import change_basis, sparse_pauli

Answer = Sequence[Mapping[str, Any]]
"""What one circuit saved or counted, by label: one dict for every experiment."""

QUBITS: Final = 6
OPERATIONS: Final = 1024
LAPS: Final = 8
"""Bounds of laps. Up to QUBITS what an experiment costs in any case, some 40 us, is much of its
time. Each run copies an assembled circuit, of a kilobyte and a microsecond for every operation."""


class Request(Protocol):
    """Circuits, and how to read what Aer found.

    Attributes:
        circuits: to run together, each at every row; none where the outputs are constants.
        sampled: whether their answers are random.
        laps: rows that one experiment of `lapped` takes.
    """

    circuits: tuple[QuantumCircuit, ...]
    sampled: bool
    laps: int = 1

    def lapped(self) -> tuple[QuantumCircuit, ...]:
        """The circuits, each `laps` times over; all laps have equally many operations."""
        return self.circuits

    def read(self, data: Sequence[Answer], values: NDArray[np.float64]) -> None:
        """Adds to values (R, M) what Aer saved for circuit c, data[c], at R rows."""


class Expectations(Request):
    """Exact and ideal: Aer itself computes Pauli sums and blocks of probabilities.

    Aer takes more time to begin and to report an experiment, and to save a value, than to simulate
    a small circuit. So up to QUBITS all that follows from the distribution of the qubits is
    computed from it, saved as one array. And one experiment runs several rows of angles, in laps,
    each of which starts with the state |0...0> and so finds the very numbers that an experiment of
    its own would.
    """

    sampled = False

    def __init__(
        self, program: Program, mask: NDArray[np.bool_], compiled: Compiled, *, laps: bool = False
    ) -> None:
        self._gates = compiled.circuit
        width = self._gates.num_qubits
        small = width <= QUBITS
        diagonal = Group(Pauli(0, (1 << width) - 1))
        self._sums: list[tuple[int, SparsePauliOp]] = []
        self._blocks: list[tuple[int, Probabilities]] = []
        for column, output in asked(program, mask):
            if isinstance(output, Probabilities):
                if small:
                    diagonal.blocks.append((column, output.qubits))
                else:
                    self._blocks.append((column, output))
                continue
            varying = list(terms(output).items())
            if small and all(diagonal.accepts(pauli) for pauli, _ in varying):
                diagonal.strings += [(column, pauli, factor) for pauli, factor in varying]
            elif varying:
                # On all qubits: on some of them Aer gives wrong values where others idle.
                self._sums.append((column, sparse_pauli(varying, width)))
        self._columns = [column for column, _ in self._sums]
        self._weights: NDArray[np.float64] | None = None
        if diagonal.strings or diagonal.blocks:
            self._weights = diagonal.values(pack(range(1 << width), width), program.num_outputs)
        self.circuits: tuple[QuantumCircuit, ...] = ()
        if self._sums or self._blocks or self._weights is not None:
            circuit = self._in_laps(1)
            self.circuits = (circuit,)
            if laps and small:
                self.laps = max(1, min(LAPS, OPERATIONS // (1 + len(circuit.data))))

    def lapped(self) -> tuple[QuantumCircuit, ...]:
        return (self._in_laps(self.laps),)

    def _in_laps(self, laps: int) -> QuantumCircuit:
        circuit: QuantumCircuit = self._gates.copy_empty_like()
        everywhere = range(circuit.num_qubits)
        start = np.eye(1, 1 << circuit.num_qubits)[0] if laps > 1 else None
        for lap in range(laps):
            if start is not None:
                circuit.append(SetStatevector(start), everywhere)
            for gate in self._gates.data:
                circuit.append(gate)
            for column, total in self._sums:
                save = SaveExpectationValue(total, _label(f"sum{column}", lap))
                circuit.append(save, everywhere)
            for column, block in self._blocks:
                save = SaveProbabilities(len(block.qubits), _label(f"block{column}", lap))
                circuit.append(save, block.qubits)
            if self._weights is not None:
                save = SaveProbabilities(circuit.num_qubits, _label("distribution", lap))
                circuit.append(save, everywhere)
        return circuit

    def read(self, data: Sequence[Answer], values: NDArray[np.float64]) -> None:
        (experiments,) = data
        rows = len(values)
        if self._weights is not None:
            distributions = _saved(experiments, ("distribution",), rows)
            # A product for every row, so that none is rounded by how many there are.
            values += (distributions @ self._weights)[:, 0]
        if self._sums:
            names = tuple(f"sum{column}" for column in self._columns)
            values[:, self._columns] += _saved(experiments, names, rows)[:, :, 0]
        for column, block in self._blocks:
            found = _saved(experiments, (f"block{column}",), rows)
            values[:, column : column + block.size] += found[:, 0]


def _label(name: str, lap: int) -> str:
    return f"{name}/{lap}"


@lru_cache
def _of_all(names: tuple[str, ...], laps: int) -> itemgetter[Any]:
    return itemgetter(*(_label(name, lap) for lap in range(laps) for name in names))


def _saved(experiments: Answer, names: tuple[str, ...], rows: int) -> NDArray[np.float64]:
    """(R, names, size): what was saved by names, all of one size."""
    saved = _of_all(names, rows // len(experiments))
    found = np.array(list(map(saved, experiments)), dtype=np.float64)
    return found.reshape(rows, len(names), -1)


class Distributions(Request):
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

    def read(self, data: Sequence[Answer], values: NDArray[np.float64]) -> None:
        for group, qubits, rows in zip(self._groups, self._qubits, data, strict=True):
            true = np.array([one["read"] for one in rows], dtype=np.float64)
            outcomes = pack(range(1 << len(qubits)), len(qubits))
            values += self._patch.misread(true, qubits) @ group.values(outcomes, values.shape[1])


class Counts(Request):
    """Sampled: counts of outcomes, one circuit per group, all run equally often."""

    sampled = True

    def __init__(self, found: Sequence[Group], compiled: Compiled) -> None:
        self._groups = tuple(found)
        circuits = []
        for group in self._groups:
            circuit = in_basis(compiled, group)
            outcome = ClassicalRegister(len(group.qubits), "outcome")
            circuit.add_register(outcome)
            circuit.measure([compiled.layout[q] for q in group.qubits], outcome)
            circuits.append(circuit)
        self.circuits = tuple(circuits)

    def read(self, data: Sequence[Answer], values: NDArray[np.float64]) -> None:
        for group, rows in zip(self._groups, data, strict=True):
            counts = [one["counts"] for one in rows]
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
