"""First derivatives by the device itself: what it calls adjoint, or a method of its own."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import pennylane
from numpy.typing import NDArray
from pennylane.devices import Device, ExecutionConfig
from pennylane.operation import Operator
from pennylane.tape import QuantumScript

from qml.circuits.paulis import Pauli
from qml.circuits.program import Expectation, Probabilities, Program
from qml.errors import EngineError
from qml.simulators.measurement import asked, terms
from qml.simulators.pennylane.circuits import Wires, observable, operators, varying
from qml.simulators.pennylane.devices import explained

Array = NDArray[np.float64]

CIRCUITS: Final = 256
"""Circuits in one call of the device; each is some tens of kilobytes of Python objects."""


@dataclass(frozen=True)
class Template:
    """A Program as the device differentiates it.

    Attributes:
        device: that has preprocessed it for `config`.
        program: what it was.
        wires: those of its qubits.
        circuit: what it became; the trainable parameters are the angles of slots.
        slots: (P,) the slot of each trainable parameter.
    """

    device: Device
    program: Program
    wires: Wires
    circuit: QuantumScript
    slots: NDArray[np.intp]
    config: ExecutionConfig

    def at(self, row: Array, observables: Sequence[Operator]) -> QuantumScript:
        """The circuit at a row of angles (K,), measuring other observables."""
        trainable = self.circuit.trainable_params
        bound = self.circuit.bind_new_parameters(row[self.slots].tolist(), trainable)
        measured = [pennylane.expval(each) for each in observables]
        return bound.copy(measurements=measured, trainable_params=trainable)


def template(device: Device, method: str, program: Program, wires: Wires) -> Template:
    """Preprocesses a Program once for all rows.

    Raises:
        EngineError: the device does not differentiate it, or rewrites it so that its parameters
            are no longer the angles.
    """
    rotations = varying(program)
    # Numbers by which the angles are found again among the parameters of the rewritten circuit.
    marks = (0.1 + np.sqrt(2.0) * np.arange(1, len(rotations) + 1)).tolist()
    measured = observable({Pauli(0, 1): 1.0}, wires)
    circuit = QuantumScript(operators(program, wires, marks), [pennylane.expval(measured)])
    wanted = ExecutionConfig(gradient_method=method, use_device_gradient=True)
    with explained(device.name):
        supported = device.supports_derivatives(wanted, circuit)
    if not supported:
        raise EngineError(
            f"{device.name} has derivatives, but not of this circuit. Use gradient = "
            "'parameter_shift'."
        )
    with explained(device.name):
        config = device.setup_execution_config(wanted, circuit)
        prepared, _ = device.preprocess_transforms(config)([circuit])
    places = _places(prepared[0], marks) if len(prepared) == 1 else None
    if places is None:
        raise EngineError(
            f"{device.name} rewrites this circuit so that its derivatives are not those by the "
            "angles. Use gradient = 'parameter_shift'."
        )
    order = np.argsort(places, kind="stable")
    slots = np.array([rotation.slot for rotation in rotations], np.intp)[order]
    trainable = [places[i] for i in order]
    circuit = prepared[0].copy(trainable_params=trainable)
    return Template(device, program, wires, circuit, slots, config)


def _places(circuit: QuantumScript, marks: Sequence[float]) -> list[int] | None:
    """The position of every mark among the parameters; None if one is not there exactly once."""
    parameters = circuit.get_parameters(trainable_only=False)
    scalars = {i: float(p) for i, p in enumerate(parameters) if np.ndim(p) == 0}
    found = [[i for i, value in scalars.items() if value == mark] for mark in marks]
    return [each[0] for each in found] if all(len(each) == 1 for each in found) else None


def vjp(found: Template, a: Array, c: Array) -> Array:
    """J^T c for a (B, K) and c (B, C, M): (B, C, K), one circuit for each row and cotangent.

    What a cotangent weights is one observable, so its gradient is that of one expectation value.
    """
    result = np.zeros((*c.shape[:2], a.shape[1]))
    places, circuits = [], []
    for b, row in enumerate(a):
        for i, cotangent in enumerate(c[b]):
            if total := _weighted(found.program, cotangent):
                places.append((b, i))
                circuits.append(found.at(row, [observable(total, found.wires)]))
    for (b, i), jacobian in zip(places, _jacobians(found, circuits), strict=True):
        np.add.at(result[b, i], found.slots, jacobian[0])
    return result


def jvp(found: Template, a: Array, t: Array) -> Array:
    """J t for a (B, K) and t (B, T, K): (B, T, M), one circuit for each row."""
    program = found.program
    result = np.zeros((*t.shape[:2], program.num_outputs))
    everything = np.ones(program.num_outputs, np.bool_)
    columns: list[int | slice] = []
    observables: list[Operator] = []
    for column, output in asked(program, everything):
        if isinstance(output, Probabilities):
            words = [{pauli: 1.0} for pauli in _parities(output)[1:]]
            columns.append(slice(column, column + output.size))
        elif isinstance(output, Expectation) and terms(output):
            words = [terms(output)]
            columns.append(column)
        else:
            continue
        observables += [observable(each, found.wires) for each in words]
    if not observables:
        return result
    circuits = [found.at(row, observables) for row in a]
    for b, jacobian in enumerate(_jacobians(found, circuits)):
        slopes = iter(jacobian @ t[b][:, found.slots].T)
        for where in columns:
            if isinstance(where, slice):
                # The parity of no qubit is 1.
                rest = [next(slopes) for _ in range(where.stop - where.start - 1)]
                of_words = np.stack([np.zeros(t.shape[1]), *rest], axis=-1)
                result[b, :, where] = walsh(of_words) / of_words.shape[-1]
            else:
                result[b, :, where] = next(slopes)
    return result


def _jacobians(found: Template, circuits: Sequence[QuantumScript]) -> Iterator[Array]:
    """For each circuit, the derivatives of its observables by its trainable parameters."""
    for start in range(0, len(circuits), CIRCUITS):
        part = circuits[start : start + CIRCUITS]
        with explained(found.device.name):
            answers = found.device.compute_derivatives(part, found.config)
        for circuit, answer in zip(part, answers, strict=True):
            yield np.asarray(answer, np.float64).reshape(len(circuit.measurements), -1)


def _weighted(program: Program, cotangent: Array) -> Mapping[Pauli, float]:
    """sum_m c_m O_m as Pauli strings, without the identity; empty if there is nothing."""
    total: dict[Pauli, float] = {}

    def add(pauli: Pauli, weight: float) -> None:
        total[pauli] = total.get(pauli, 0.0) + weight

    for column, output in asked(program, cotangent != 0):
        if isinstance(output, Probabilities):
            weights = walsh(cotangent[column : column + output.size]) / output.size
            for pauli, weight in zip(_parities(output)[1:], weights[1:].tolist(), strict=True):
                add(pauli, weight)
        else:
            for pauli, coefficient in terms(output).items():
                add(pauli, coefficient * float(cotangent[column]))
    return {pauli: weight for pauli, weight in total.items() if weight}


def _parities(output: Probabilities) -> list[Pauli]:
    """All 2^k products of Z on the qubits; that of number i is on qubits[j] if bit j of i is 1."""
    masks = [0]
    for qubit in output.qubits:
        masks += [mask | 1 << qubit for mask in masks]
    return [Pauli(0, mask) for mask in masks]


def walsh(values: Array) -> Array:
    """sum_j (-1)^|i & j| values[..., j] for every i; the last axis has 2^k entries.

    >>> walsh(np.array([0.5, 0.25, 0.25, 0.0]))
    array([1. , 0.5, 0.5, 0. ])
    """
    half = 1
    while half < values.shape[-1]:
        pairs = values.reshape(*values.shape[:-1], -1, 2, half)
        low, high = pairs[..., 0, :], pairs[..., 1, :]
        values = np.stack([low + high, low - high], axis=-2).reshape(values.shape)
        half *= 2
    return values
