"""What every source of noise gives: circuits compiled for it, cut down to the qubits they use.

Simulating three active qubits of 127 takes the memory of three.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray
from qiskit import QuantumCircuit
from qiskit.transpiler import PassManager
from qiskit.transpiler.exceptions import TranspilerError
from qiskit_aer.noise import NoiseModel, QuantumError, ReadoutError

from qml.errors import EngineError

SEED: Final = 0
"""Of the transpiler: one Program has one layout, in every process."""


class GateError(NamedTuple):
    """An error channel that acts after every gate of a name; on these qubits, or everywhere."""

    name: str
    qubits: tuple[int, ...] | None
    channel: QuantumError


class ReadingError(NamedTuple):
    """How one qubit, or every qubit that has no own one, is misread.

    `probabilities` is (2, 2): [true, read] is the probability to read `true` as `read`.
    """

    qubit: int | None
    probabilities: NDArray[np.float64]


class Patch:
    """Some qubits of a machine, numbered from zero.

    Attributes:
        noise_model: their gate and readout errors, for Aer.
        confusion: (Q, 2, 2); [q, true, read] is the probability to read `true` as `read`.

    Args:
        active: the qubits of the machine; active[i] becomes i.
        gates: the gate errors of the machine. Those of qubits that are not active are left out,
            because nothing acts there.
        readings: its readout errors.
        passes: what brings one-qubit gates into the gates of the machine.
    """

    def __init__(
        self,
        active: Sequence[int],
        gates: Iterable[GateError],
        readings: Iterable[ReadingError],
        passes: PassManager,
    ) -> None:
        index = {qubit: i for i, qubit in enumerate(active)}
        self.noise_model = NoiseModel()
        self.confusion = np.tile(np.eye(2), (len(active), 1, 1))
        self._passes = passes
        self._noisy: set[tuple[str, tuple[int, ...] | None]] = set()
        for name, qubits, channel in gates:
            here = None if qubits is None else tuple(index.get(q, -1) for q in qubits)
            if here is None and not channel.ideal():
                self.noise_model.add_all_qubit_quantum_error(channel, name)
                self._noisy.add((name, None))
            elif here is not None and -1 not in here and not channel.ideal():
                self.noise_model.add_quantum_error(channel, name, here, warnings=False)
                self._noisy.add((name, here))
        # Those of single qubits come last, to replace the one of all.
        for qubit, probabilities in sorted(readings, key=lambda reading: reading.qubit is not None):
            if qubit is None:
                self.confusion[:] = probabilities
            elif qubit in index:
                self.confusion[index[qubit]] = probabilities
        for i, probabilities in enumerate(self.confusion):
            self.noise_model.add_readout_error(ReadoutError(probabilities), [i])

    def in_native_gates(self, circuit: QuantumCircuit) -> QuantumCircuit:
        """The circuit with its fixed one-qubit gates in gates of the machine."""
        return self._passes.run(circuit)

    def misread(
        self, probabilities: NDArray[np.float64], qubits: tuple[int, ...]
    ) -> NDArray[np.float64]:
        """(R, 2^k): how k qubits are read, from the probabilities of their true outcomes."""
        for i, qubit in enumerate(qubits):
            split = probabilities.reshape(len(probabilities), -1, 2, 1 << i)
            read = np.einsum("ratb,ts->rasb", split, self.confusion[qubit])
            probabilities = read.reshape(len(probabilities), -1)
        return probabilities

    def refuse_untouched(self, circuit: QuantumCircuit, source: str) -> None:
        """Raises EngineError where no error belongs to a gate of the circuit or to its reading."""
        if (self.confusion != np.eye(2)).any():
            return
        gates = [(g.name, tuple(circuit.find_bit(q).index for q in g.qubits)) for g in circuit.data]
        if not any((name, None) in self._noisy or (name, at) in self._noisy for name, at in gates):
            has = ", ".join(sorted({f"{name} on {_listed(at)}" for name, at in gates})[:8])
            noisy = sorted(
                {name if at is None else f"{name} on {_listed(at)}" for name, at in self._noisy}
            )
            raise EngineError(
                f"noise = {source} would change nothing: the compiled circuit has "
                f"{has or 'no gates'}, the noise model has errors of "
                f"{', '.join(noisy[:8]) or 'nothing on its qubits'}. Leave out 'noise', or choose "
                "another."
            )


class Machine(Protocol):
    """A source of noise, to compile circuits for."""

    def check(self, num_qubits: int) -> None:
        """Raises EngineError where the machine has fewer qubits than that."""
        ...

    def compiled(self, circuit: QuantumCircuit) -> tuple[QuantumCircuit, tuple[int, ...], Patch]:
        """(circuit on the qubits it uses, where each of its qubits ends, that part of the machine).

        Raises:
            EngineError: the circuit is too wide, cannot be compiled, or no noise touches it.
        """
        ...


def cut_down(native: QuantumCircuit) -> tuple[QuantumCircuit, tuple[int, ...], list[int]]:
    """A compiled circuit on the qubits it uses.

    Returns:
        (circuit, layout, active): qubit active[i] of the machine became i, and qubit q of what was
        compiled ends at layout[q].
    """
    if native.layout is None:
        layout = list(range(native.num_qubits))
    else:
        layout = native.layout.final_index_layout(filter_ancillas=True)
    gates = [one for one in native.data if one.name != "barrier"]
    where = [[native.find_bit(q).index for q in gate.qubits] for gate in gates]
    active = sorted({qubit for qubits in where for qubit in qubits}.union(layout))
    index = {qubit: i for i, qubit in enumerate(active)}
    reduced = QuantumCircuit(len(active))
    for gate, qubits in zip(gates, where, strict=True):
        reduced.append(gate.operation, [index[q] for q in qubits])
    return reduced, tuple(index[q] for q in layout), active


def transpiled(passes: PassManager, circuit: QuantumCircuit, source: str) -> QuantumCircuit:
    """The circuit after the passes.

    Raises:
        EngineError: Qiskit cannot compile it for this machine.
    """
    try:
        return passes.run(circuit)
    except TranspilerError as error:
        raise EngineError(
            f"noise = {source}: Qiskit cannot compile the circuit for this machine: "
            f"{error.message.rstrip('.')}. Choose another one."
        ) from error


def refuse_wide(num_qubits: int, available: int, source: str) -> None:
    """Raises EngineError where a circuit has more qubits than there are."""
    if num_qubits > available:
        raise EngineError(
            f"noise = {source}: the circuit has {num_qubits} qubits, the machine {available}. "
            "Choose a larger machine."
        )


def _listed(qubits: tuple[int, ...]) -> str:
    return " ".join(map(str, qubits))
