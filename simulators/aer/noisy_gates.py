"""A machine known by its errors alone: circuits are compiled for it gate by gate.

Nothing is merged and nothing cancelled, so that a circuit with its inverse after it is as noisy as
it is long, and no qubits are chosen: qubit q of a circuit begins at qubit q of the machine.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from qiskit import QuantumCircuit
from qiskit.transpiler import CouplingMap, PassManager, generate_preset_pass_manager

from qml.errors import EngineError
from qml.simulators.aer.noise import (
    SEED,
    GateError,
    Patch,
    ReadingError,
    transpiled,
)
from qml.simulators.qiskit_circuit import cut_down
from qml.simulators.shortage import refuse_wide


class NoisyGates:
    """A Machine that has every gate of a basis, and errors of some.

    Args:
        source: how messages call it.
        gates: the gate errors.
        readings: the readout errors.
        bases: the gates to compile to; of several, the first that the circuit can be written in.
        pairs: where gates on two qubits can act, circuits being routed; None means everywhere.
    """

    def __init__(
        self,
        source: str,
        gates: Sequence[GateError],
        readings: Sequence[ReadingError],
        bases: Iterable[Sequence[str]],
        pairs: Sequence[tuple[int, ...]] | None = None,
    ) -> None:
        self.source = source
        self._gates, self._readings = gates, readings
        self._bases = tuple(bases)
        self._wires = None if pairs is None else CouplingMap([list(pair) for pair in pairs])

    def check(self, num_qubits: int) -> None:
        """See Machine.check: without given pairs there are as many qubits as are asked for."""
        if self._wires is not None:
            refuse_wide(num_qubits, self._wires.size(), f"noise = {self.source}")

    def compiled(self, circuit: QuantumCircuit) -> tuple[QuantumCircuit, tuple[int, ...], Patch]:
        """See Machine.compiled."""
        self.check(circuit.num_qubits)
        native, basis = self._native(circuit)
        reduced, layout, active = cut_down(native)
        patch = Patch(active, self._gates, self._readings, _passes(basis, None))
        patch.refuse_untouched(reduced, self.source)
        return reduced, layout, patch

    def _native(self, circuit: QuantumCircuit) -> tuple[QuantumCircuit, Sequence[str]]:
        """The circuit in gates of the machine, and the basis that was taken."""
        *narrow, widest = self._bases
        for basis in narrow:
            try:
                return transpiled(_passes(basis, self._wires), circuit, self.source), basis
            except EngineError:
                continue  # the next has more gates
        return transpiled(_passes(widest, self._wires), circuit, self.source), widest


def _passes(basis: Sequence[str], wires: CouplingMap | None) -> PassManager:
    return generate_preset_pass_manager(
        optimization_level=0, basis_gates=list(basis), coupling_map=wires, seed_transpiler=SEED
    )
