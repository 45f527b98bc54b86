"""The fake devices of qiskit-ibm-runtime: machines' gates, layouts and noise, by name."""

from __future__ import annotations

import importlib
from typing import Any

from qiskit.providers import BackendV2, JobV1, Options
from qiskit.transpiler import Target
from qiskit_aer import AerSimulator

from qml.errors import MissingDependencyError, UnknownNameError, named, nearest


def fake_device(name: str, key: str) -> BackendV2:
    """A new fake device.

    Args:
        name: of its class, as "FakeManilaV2".
        key: of the configuration that names it, for messages.

    Raises:
        MissingDependencyError: qiskit-ibm-runtime is not installed.
        UnknownNameError: it has no fake device of that name.
    """
    try:
        provider: Any = importlib.import_module("qiskit_ibm_runtime.fake_provider")
    except ModuleNotFoundError as error:
        raise MissingDependencyError(
            f"{key} = {named(name)} needs the fake devices of qiskit-ibm-runtime: "
            "pip install 'hybrid-qml[runtime]'"
        ) from error
    known = {
        found: value
        for found, value in vars(provider).items()
        if isinstance(value, type) and issubclass(value, BackendV2)
    }
    if name not in known:
        raise UnknownNameError(
            f"{key} = {named(name)}: no fake device has that name; {nearest(name, known)}"
        )
    device: BackendV2 = known[name]()
    return device


class Part(BackendV2):  # type: ignore[misc]  # Qiskit ships no types
    """Some qubits of a fake device as a device of their own, its noise included.

    Simulating three active qubits of 127 then takes the memory of three.

    Args:
        device: the whole device.
        qubits: of it; qubits[i] becomes i.
    """

    def __init__(self, device: BackendV2, qubits: list[int]) -> None:
        super().__init__(name=device.name)
        self._target = part_of(device.target, qubits)
        self._simulator: AerSimulator | None = None

    @property
    def target(self) -> Target:
        return self._target

    @property
    def max_circuits(self) -> None:
        return None

    @classmethod
    def _default_options(cls) -> Options:
        return Options()

    def run(self, run_input: Any, **options: Any) -> JobV1:
        if self._simulator is None:
            self._simulator = AerSimulator.from_backend(self)
        return self._simulator.run(run_input, **options)


def part_of(target: Target, qubits: list[int]) -> Target:
    """The gates of a machine among some of its qubits; qubits[i] becomes i."""
    index = {qubit: i for i, qubit in enumerate(qubits)}
    properties = target.qubit_properties
    part = Target(
        num_qubits=len(qubits),
        dt=target.dt,
        qubit_properties=[properties[q] for q in qubits] if properties else None,
    )
    for name in target.operation_names:
        operation = target.operation_from_name(name)
        if isinstance(operation, type):
            continue  # control flow, which no Program has
        kept = {
            tuple(index[q] for q in place): found
            for place, found in target[name].items()
            if place is not None and index.keys() >= set(place)
        }
        if kept:
            part.add_instruction(operation, kept, name=name)
    return part
