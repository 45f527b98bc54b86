"""The noise of a real machine, by the name of its fake device.

A circuit is compiled for the whole machine and then cut down to the qubits it uses, noise
included: simulating three active qubits of 127 takes the memory of three.
"""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from qiskit import QuantumCircuit
from qiskit.providers import BackendV2
from qiskit.transpiler import PassManager, Target, generate_preset_pass_manager
from qiskit.transpiler.exceptions import TranspilerError
from qiskit.transpiler.passes import Optimize1qGatesDecomposition
from qiskit_aer.noise import NoiseModel
from qiskit_aer.noise.device import basic_device_gate_errors, basic_device_readout_errors

from qml.errors import EngineError, MissingDependencyError, UnknownNameError, nearest

OPTIMIZATION_LEVEL = 2
"""The lowest that chooses qubits by their errors; some machines have gates that always fail."""

SEED = 0
"""Of the transpiler: one Program has one layout, in every process."""


@dataclass(frozen=True)
class Patch:
    """Some qubits of a machine, numbered from zero.

    Attributes:
        target: the gates among them.
        noise_model: their gate and readout errors.
        confusion: (Q, 2, 2); [q, true, read] is the probability to read `true` as `read`.
    """

    target: Target
    noise_model: NoiseModel
    confusion: NDArray[np.float64]

    def in_native_gates(self, circuit: QuantumCircuit) -> QuantumCircuit:
        """The circuit with its fixed one-qubit gates, merged where they meet, in native ones."""
        return PassManager([Optimize1qGatesDecomposition(target=self.target)]).run(circuit)

    def misread(
        self, probabilities: NDArray[np.float64], qubits: tuple[int, ...]
    ) -> NDArray[np.float64]:
        """(R, 2^k): how k qubits are read, from the probabilities of their true outcomes."""
        for i, qubit in enumerate(qubits):
            split = probabilities.reshape(len(probabilities), -1, 2, 1 << i)
            read = np.einsum("ratb,ts->rasb", split, self.confusion[qubit])
            probabilities = read.reshape(len(probabilities), -1)
        return probabilities


class Machine:
    """A fake device of qiskit-ibm-runtime, to compile circuits for.

    Raises:
        MissingDependencyError: qiskit-ibm-runtime is not installed.
        UnknownNameError: it has no fake device of that name.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.backend = _fake_backend(name)
        self._passes = generate_preset_pass_manager(
            optimization_level=OPTIMIZATION_LEVEL, backend=self.backend, seed_transpiler=SEED
        )

    def check(self, num_qubits: int) -> None:
        """Raises EngineError where the machine has fewer qubits than that."""
        if num_qubits > self.backend.num_qubits:
            raise EngineError(
                f"noise = {self.name!r}: the circuit has {num_qubits} qubits, the machine "
                f"{self.backend.num_qubits}. Choose the fake device of a larger machine."
            )

    def compiled(self, circuit: QuantumCircuit) -> tuple[QuantumCircuit, tuple[int, ...], Patch]:
        """(circuit on the qubits it uses, where each of its qubits ends, that part of the machine).

        Raises:
            EngineError: the circuit is too wide, cannot be compiled, or no noise touches it.
        """
        self.check(circuit.num_qubits)
        try:
            native = self._passes.run(circuit)
        except TranspilerError as error:
            raise EngineError(
                f"noise = {self.name!r}: Qiskit cannot compile the circuit for this machine: "
                f"{error.message.rstrip('.')}. Choose another fake device."
            ) from error
        layout = native.layout.final_index_layout(filter_ancillas=True)
        gates = [one for one in native.data if one.name != "barrier"]
        where = [[native.find_bit(q).index for q in gate.qubits] for gate in gates]
        active = sorted({qubit for qubits in where for qubit in qubits}.union(layout))
        index = {qubit: i for i, qubit in enumerate(active)}
        reduced = QuantumCircuit(len(active))
        for gate, qubits in zip(gates, where, strict=True):
            reduced.append(gate.operation, [index[q] for q in qubits])
        patch = patch_of(self.backend.target, active)
        refuse_untouched(patch.noise_model, reduced, self.name)
        return reduced, tuple(index[q] for q in layout), patch


def patch_of(target: Target, active: list[int]) -> Patch:
    """The given qubits of a machine as a machine of their own, qubit active[i] becoming i."""
    index = {qubit: i for i, qubit in enumerate(active)}
    properties = target.qubit_properties
    part = Target(
        num_qubits=len(active),
        dt=target.dt,
        qubit_properties=[properties[q] for q in active] if properties else None,
    )
    for name in target.operation_names:
        operation = target.operation_from_name(name)
        if isinstance(operation, type):
            continue  # control flow, which no Program has
        kept = {
            tuple(index[q] for q in qubits): found
            for qubits, found in target[name].items()
            if qubits is not None and index.keys() >= set(qubits)
        }
        if kept:
            part.add_instruction(operation, kept, name=name)
    model = NoiseModel(basis_gates=list(part.operation_names))
    for name, qubits, error in basic_device_gate_errors(target=part):
        model.add_quantum_error(error, name, qubits)
    confusion = np.tile(np.eye(2), (len(active), 1, 1))
    for (qubit,), error in basic_device_readout_errors(target=part):
        model.add_readout_error(error, [qubit])
        confusion[qubit] = error.probabilities
    return Patch(part, model, confusion)


def refuse_untouched(model: NoiseModel, circuit: QuantumCircuit, name: str) -> None:
    """Raises EngineError where no error of the model belongs to a gate or a measurement here."""
    used = {*circuit.count_ops(), "measure"}
    if used.isdisjoint(model.noise_instructions):
        noisy = ", ".join(sorted(model.noise_instructions)) or "none"
        raise EngineError(
            f"noise = {name!r} would change nothing: the compiled circuit has "
            f"{', '.join(sorted(used))}, the noise model has errors of {noisy}. "
            "Leave out 'noise', or choose another fake device."
        )


def _fake_backend(name: str) -> BackendV2:
    try:
        provider: Any = importlib.import_module("qiskit_ibm_runtime.fake_provider")
    except ModuleNotFoundError as error:
        raise MissingDependencyError(
            f"noise = {name!r} needs the fake devices of qiskit-ibm-runtime: "
            "pip install 'hybrid-qml[runtime]'"
        ) from error
    known = {
        key: value
        for key, value in vars(provider).items()
        if isinstance(value, type) and issubclass(value, BackendV2)
    }
    if name not in known:
        raise UnknownNameError(f"no fake device is named {name!r}; {nearest(name, known)}")
    return known[name]()
