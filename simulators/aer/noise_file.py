"""The JSON of `NoiseModel.to_dict(serializable=True)`, read without Aer's deprecated reader.

That one also cannot read complex matrices back from JSON, where a number is [real, imaginary].
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from qiskit import QuantumCircuit
from qiskit.circuit import Instruction, Reset
from qiskit.circuit.library import PauliGate, UnitaryGate, get_standard_gate_name_mapping
from qiskit.exceptions import QiskitError
from qiskit.quantum_info import Kraus
from qiskit_aer.noise import QuantumError
from qiskit_aer.noise.noiseerror import NoiseError

from qml.errors import ConfigError
from qml.simulators.aer.noise import Channel, GateError, ReadingError

KEYS: Final = {
    "qerror": {"type", "id", "operations", "instructions", "probabilities", "gate_qubits"},
    "roerror": {"type", "operations", "probabilities", "gate_qubits"},
}
"""What each type of error may hold."""

NEVER: Final = frozenset({"id", "delay", "reset"})
"""Instructions that no compiled circuit has, so that their errors are left out."""


STANDARD: Final = MappingProxyType(get_standard_gate_name_mapping())
"""Qiskit's gates by their names."""


class _Unread(Exception):
    """What is wrong, for a message that begins with the path."""


def read(text: str, path: str) -> tuple[tuple[GateError, ...], tuple[ReadingError, ...]]:
    """The gate and readout errors in the text of the file at `path`.

    Raises:
        ConfigError: it is no noise model, of another format, or has what is not supported: errors
            of an instruction that is no gate on one or two qubits, or joint ones of several
            readings.
    """
    gates: list[GateError] = []
    readings: list[ReadingError] = []
    try:
        for number, error in enumerate(_errors(text)):
            try:
                if error["type"] == "qerror":
                    gates += _gate_errors(error)
                else:
                    readings += _reading_errors(error)
            except (KeyError, TypeError, ValueError, OverflowError, QiskitError) as problem:
                raise _Unread(
                    f"entry {number} of 'errors' cannot be read: {_reason(problem)}."
                ) from None
    except _Unread as problem:
        raise ConfigError(
            f"{path}: {problem} A file of noise is written by json.dump(model.to_dict("
            "serializable=True), file), model being a NoiseModel of qiskit-aer 0.17 or 0.18."
        ) from None
    _refuse_twins(gates, readings, path)
    return tuple(gates), tuple(readings)


def _errors(text: str) -> list[Mapping[str, Any]]:
    try:
        content = json.loads(text)
    except ValueError as problem:
        raise _Unread(f"is not JSON: {problem}.") from None
    if not isinstance(content, Mapping) or not isinstance(content.get("errors"), list):
        raise _Unread("is no noise model: it must be an object with a list 'errors'.")
    if surplus := content.keys() - {"errors"}:
        raise _Unread(f"is of another format: there is no key {sorted(surplus)[0]!r}.")
    errors: list[Mapping[str, Any]] = content["errors"]
    for number, error in enumerate(errors):
        kind = error.get("type") if isinstance(error, Mapping) else None
        if not isinstance(kind, str) or kind not in KEYS:
            raise _Unread(
                f"is of another format: entry {number} of 'errors' must be of the type 'qerror' or "
                f"'roerror'."
            )
        if surplus := error.keys() - KEYS[kind]:
            raise _Unread(
                f"is of another format: entry {number} of 'errors', of the type {kind!r}, has the "
                f"key {sorted(surplus)[0]!r}."
            )
    return errors


def _gate_errors(error: Mapping[str, Any]) -> Iterator[GateError]:
    circuits = [_circuit(steps) for steps in error["instructions"]]
    probabilities = [float(p) for p in error["probabilities"]]
    mixture = QuantumError(list(zip(circuits, probabilities, strict=True)))
    channel = Channel(mixture)
    for name in error["operations"]:
        if name in NEVER:
            continue
        gate = STANDARD.get(name)
        if name == "measure":
            raise _Unread("has a quantum error of 'measure'. Describe it as a readout error.")
        if gate is None or gate.num_qubits not in (1, 2):
            raise _Unread(
                f"has errors of {name!r}, which is no standard gate of Qiskit on one or two "
                "qubits: no circuit compiled for the noise would have it."
            )
        if gate.num_qubits != mixture.num_qubits:
            raise ValueError(
                f"an error of {mixture.num_qubits} qubit(s) cannot follow {name!r} on "
                f"{gate.num_qubits}"
            )
        for qubits in _places(error):
            if qubits is not None and len(qubits) != gate.num_qubits:
                raise ValueError(f"{name!r} does not act on the qubits {list(qubits)}")
            yield GateError(name, qubits, channel)


def _reading_errors(error: Mapping[str, Any]) -> Iterator[ReadingError]:
    matrix = np.array(error["probabilities"], dtype=np.float64)
    for qubits in _places(error):
        if matrix.shape != (2, 2) or (qubits is not None and len(qubits) != 1):
            raise _Unread("has a joint readout error of several qubits, which is not supported.")
        if not (np.all(matrix >= 0) and np.allclose(matrix.sum(axis=1), 1)):
            raise ValueError("the rows of a readout error must be probabilities that sum to 1")
        yield ReadingError(None if qubits is None else qubits[0], matrix)


def _places(error: Mapping[str, Any]) -> list[tuple[int, ...] | None]:
    """The qubits that an error is of, each tuple on its own; [None] means all."""
    if "gate_qubits" not in error:
        return [None]
    places: list[tuple[int, ...] | None] = []
    for qubits in error["gate_qubits"]:
        if not all(type(q) is int and 0 <= q < 2**31 for q in qubits) or len({*qubits}) < len(
            qubits
        ):
            raise ValueError(f"'gate_qubits' must hold lists of different qubits, got {qubits!r}")
        places.append(tuple(qubits))
    return places


def _circuit(steps: Sequence[Mapping[str, Any]]) -> QuantumCircuit:
    circuit = QuantumCircuit(max(max(step["qubits"]) for step in steps) + 1)
    for step in steps:
        if surplus := step.keys() - {"name", "qubits", "params", "label"}:
            raise ValueError(f"an instruction has the key {sorted(surplus)[0]!r}")
        circuit.append(_instruction(step["name"], step.get("params", [])), step["qubits"])
    return circuit


def _instruction(name: str, params: Sequence[Any]) -> Instruction:
    if name == "kraus":
        channel = Kraus([_matrix(entries) for entries in params])
        if not channel.is_cptp():
            raise ValueError("a Kraus channel is not trace-preserving")
        return channel.to_instruction()
    if name == "unitary":
        return UnitaryGate(_matrix(params[0]))
    if name == "pauli":
        return PauliGate(params[0])
    if name == "reset":
        return Reset()
    gate = STANDARD.get(name)
    if gate is None or gate.params or params:
        raise ValueError(f"an error channel of the instruction {name!r} is not known")
    return gate


def _matrix(entries: Any) -> NDArray[np.complex128]:
    """A matrix of JSON: [real, imaginary] where it is complex."""
    array = np.array(entries, dtype=np.float64)
    if array.ndim == 3 and array.shape[-1] == 2:
        return np.ascontiguousarray(array).view(np.complex128)[..., 0]
    return array.astype(np.complex128)


def _refuse_twins(gates: Sequence[GateError], readings: Sequence[ReadingError], path: str) -> None:
    """An error that is there twice would be applied once or twice, depending on its kind."""
    keys = [(gate.name, gate.qubits) for gate in gates]
    keys += [("measure", None if r.qubit is None else (r.qubit,)) for r in readings]
    for name, qubits in [key for key, count in Counter(keys).items() if count > 1]:
        where = "all qubits" if qubits is None else f"the qubit(s) {list(qubits)}"
        raise ConfigError(f"{path}: has more than one error of {name!r} on {where}. Keep one.")


def _reason(problem: Exception) -> str:
    if isinstance(problem, KeyError):
        return f"the key {problem.args[0]!r} is missing"
    text = problem.message if isinstance(problem, (QiskitError, NoiseError)) else str(problem)
    return text.rstrip(".")
