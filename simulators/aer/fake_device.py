"""The noise of a real machine, by the name of its fake device in qiskit-ibm-runtime."""

from __future__ import annotations

from qiskit import QuantumCircuit
from qiskit.transpiler import PassManager, Target, generate_preset_pass_manager
from qiskit.transpiler.passes import Optimize1qGatesDecomposition
from qiskit_aer.noise.device import basic_device_gate_errors, basic_device_readout_errors

from qml.simulators.aer.noise import (
    SEED,
    Channel,
    GateError,
    Patch,
    ReadingError,
    transpiled,
)
from qml.simulators.fake_devices import fake_device, part_of
from qml.simulators.qiskit_circuit import cut_down
from qml.simulators.shortage import refuse_wide

OPTIMIZATION_LEVEL = 2
"""The lowest that chooses qubits by their errors; some machines have gates that always fail."""


class FakeDevice:
    """A Machine: circuits are compiled for it as for the real one, its best qubits chosen.

    Raises:
        MissingDependencyError: qiskit-ibm-runtime is not installed.
        UnknownNameError: it has no fake device of that name.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.backend = fake_device(name, "noise")
        self._channels: dict[tuple[str, tuple[int, ...]], Channel] = {}
        self._passes = generate_preset_pass_manager(
            optimization_level=OPTIMIZATION_LEVEL, backend=self.backend, seed_transpiler=SEED
        )

    def check(self, num_qubits: int) -> None:
        refuse_wide(num_qubits, self.backend.num_qubits, f"noise = {self.name!r}")

    def compiled(self, circuit: QuantumCircuit) -> tuple[QuantumCircuit, tuple[int, ...], Patch]:
        self.check(circuit.num_qubits)
        native = transpiled(self._passes, circuit, repr(self.name))
        reduced, layout, active = cut_down(native)
        patch = patch_of(self.backend.target, active, self._channels)
        patch.refuse_untouched(reduced, repr(self.name))
        return reduced, layout, patch


def patch_of(
    target: Target, active: list[int], channels: dict[tuple[str, tuple[int, ...]], Channel]
) -> Patch:
    """The given qubits of a machine as a machine of their own, qubit active[i] becoming i.

    Its channels are taken from those of the machine, and added where they are missing there.
    """
    part = part_of(target, active)
    gates = []
    for name, qubits, error in basic_device_gate_errors(target=part):
        place = tuple(active[q] for q in qubits)
        channel = channels.setdefault((name, place), Channel(error))
        gates.append(GateError(name, tuple(qubits), channel))
    readings = [
        ReadingError(qubit, error.probabilities)
        for (qubit,), error in basic_device_readout_errors(target=part)
    ]
    # Merged where they meet, as the compiler of the machine does.
    passes = PassManager([Optimize1qGatesDecomposition(target=part)])
    return Patch(range(len(active)), gates, readings, passes)
