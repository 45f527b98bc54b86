"""What a request measures, and how its outputs follow from what the device answers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final, Literal

import numpy as np
import pennylane
from numpy.typing import NDArray
from pennylane.operation import Operator

from qml.circuits.paulis import Pauli
from qml.circuits.program import Probabilities, Program
from qml.simulators.measurement import Group, asked, groups, pack, shots_of, terms
from qml.simulators.pennylane.circuits import Wires, observable, outcomes, to_z, word

Values = NDArray[np.float64]

WIDE: Final = 12
"""Qubits up to which strings are measured together: 2^12 probabilities are 32 KiB a row."""


@dataclass(frozen=True)
class Share:
    """What the numbers of a measurement (rows, size) give to the outputs.

    Attributes:
        columns: (N,) the outputs that get something, perhaps one several times.
        matrix: (size, N); None where number i goes to columns[i] as it is.
    """

    columns: NDArray[np.intp]
    matrix: NDArray[np.float64] | None = None

    def add(self, numbers: Values, values: Values) -> None:
        """Adds them to the values (rows, M)."""
        given = numbers if self.matrix is None else numbers @ self.matrix
        np.add.at(values.T, self.columns, given.T)


@dataclass(frozen=True)
class Readout:
    """What is measured at the end of one circuit.

    Attributes:
        gates: that follow the circuit.
        measurements: of the same run.
        shares: for each measurement, where its numbers go.
        shots: how often it runs; None for exact values.
    """

    gates: tuple[Operator, ...]
    measurements: tuple[Any, ...]
    shares: tuple[tuple[Share, ...], ...]
    shots: int | None = None


def exact(program: Program, outputs: NDArray[np.bool_], wires: Wires) -> list[Readout]:
    """All outputs that need a circuit, as they stand, in one readout; none if none does."""
    measurements: list[Any] = []
    shares: list[tuple[Share]] = []
    for column, output in asked(program, outputs):
        if isinstance(output, Probabilities):
            measurements.append(outcomes(output.qubits, wires))
        elif found := terms(output):
            measurements.append(pennylane.expval(observable(found, wires)))
        else:
            continue
        shares.append((Share(column + np.arange(output.size)),))
    return [Readout((), tuple(measurements), tuple(shares))] if measurements else []


def sampled(
    program: Program,
    outputs: NDArray[np.bool_],
    wires: Wires,
    shots: int,
    rule: Literal["uniform", "weighted"],
) -> list[Readout]:
    """One readout, and so one circuit, for each group."""
    found = together(program, outputs)
    given = shots_of(found, shots, rule)
    return [_readout(group, wires, count) for group, count in zip(found, given, strict=True)]


def together(program: Program, outputs: NDArray[np.bool_]) -> tuple[Group, ...]:
    """The groups of what is measured together."""
    return groups(program, outputs, WIDE)


def _readout(group: Group, wires: Wires, shots: int) -> Readout:
    """Its circuit: the probabilities of all outcomes, or one parity where these are many."""
    qubits = group.qubits
    gates = tuple(to_z(group.basis, wires))
    columns = np.array([column for column, _, _ in group.strings], np.intp)
    coefficients = np.array([coefficient for _, _, coefficient in group.strings])
    if len(qubits) > WIDE and not group.blocks:
        # No second string came in, but for the same one in other outputs.
        parity = pennylane.expval(word(Pauli(0, group.basis.x | group.basis.z), wires))
        return Readout(gates, (parity,), ((Share(columns, coefficients[None]),),), shots)
    found = pack(range(1 << len(qubits)), len(qubits))
    shares = []
    if group.strings:
        signs = [group.signs(pauli, found) for _, pauli, _ in group.strings]
        shares.append(Share(columns, coefficients * np.stack(signs, axis=1)))
    for column, block in group.blocks:
        shares.append(Share(column + group.places(block, found)))
    return Readout(gates, (outcomes(qubits, wires),), (tuple(shares),), shots)
