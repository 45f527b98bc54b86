"""What every source of noise gives: circuits compiled for it, cut down to the qubits they use."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import Final, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray
from qiskit import QuantumCircuit
from qiskit.quantum_info import Kraus, SuperOp
from qiskit.transpiler import PassManager
from qiskit.transpiler.exceptions import TranspilerError
from qiskit_aer.noise import NoiseModel, QuantumError, ReadoutError

from qml.errors import EngineError

SEED: Final = 0
"""Of the transpiler: one Program has one layout, in every process."""


class Channel:
    """What an error does, in the two forms that Aer is quick with.

    Attributes:
        mixture: circuits with probabilities; a trajectory draws one of them.
        ideal: whether it does nothing.
    """

    def __init__(self, mixture: QuantumError) -> None:
        self.mixture = mixture
        self.ideal = bool(mixture.ideal())

    @cached_property
    def whole(self) -> QuantumError:
        """One operation that does it all to a density matrix.

        Aer goes through a mixture, of 144 circuits for two qubits of some machines, at every run.
        """
        return QuantumError(Kraus(SuperOp(self.mixture)))


class GateError(NamedTuple):
    """An error channel that acts after every gate of a name; on these qubits, or everywhere."""

    name: str
    qubits: tuple[int, ...] | None
    channel: Channel


class ReadingError(NamedTuple):
    """How one qubit, or every qubit that has no own one, is misread.

    `probabilities` is (2, 2): [true, read] is the probability to read `true` as `read`.
    """

    qubit: int | None
    probabilities: NDArray[np.float64]


class Patch:
    """Some qubits of a machine, numbered from zero.

    Attributes:
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
        self.confusion = np.tile(np.eye(2), (len(active), 1, 1))
        self._passes = passes
        self._noisy: dict[tuple[str, tuple[int, ...] | None], Channel] = {}
        for name, qubits, channel in gates:
            here = None if qubits is None else tuple(index.get(q, -1) for q in qubits)
            if not channel.ideal and (here is None or -1 not in here):
                self._noisy[name, here] = channel
        # Those of single qubits come last, to replace the one of all.
        for qubit, probabilities in sorted(readings, key=lambda reading: reading.qubit is not None):
            if qubit is None:
                self.confusion[:] = probabilities
            elif qubit in index:
                self.confusion[index[qubit]] = probabilities

    def noise_model(self, *, whole: bool) -> NoiseModel:
        """The gate and readout errors for Aer, in the form for density matrices if `whole`."""
        model = NoiseModel()
        for (name, here), channel in self._noisy.items():
            error = channel.whole if whole else channel.mixture
            if here is None:
                model.add_all_qubit_quantum_error(error, name)
            else:
                model.add_quantum_error(error, name, here, warnings=False)
        for i, probabilities in enumerate(self.confusion):
            model.add_readout_error(ReadoutError(probabilities), [i])
        return model

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


def _listed(qubits: tuple[int, ...]) -> str:
    return " ".join(map(str, qubits))
