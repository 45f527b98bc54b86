"""The engine of PennyLane's devices: a request is one call of a device."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from pennylane.devices import Device
from pennylane.tape import QuantumScript

from qml.circuits.program import Program
from qml.errors import DifferentiationError, EngineError
from qml.kinds import PennylaneConfig
from qml.simulators.base import Cost, Evaluation
from qml.simulators.measurement import constants
from qml.simulators.pennylane import derivatives
from qml.simulators.pennylane.circuits import operators, varying
from qml.simulators.pennylane.devices import (
    Maker,
    alone,
    derivative_method,
    refuse_too_wide,
    run,
    takes_batches,
)
from qml.simulators.pennylane.measurement import Readout, exact, sampled, together

Array = NDArray[np.float64]

DEVICES: Final = 8
"""Devices of different widths that an engine keeps."""

TEMPLATES: Final = 256
"""Programs that it keeps as its device differentiates them."""

BATCH: Final = 1 << 20
"""Amplitudes of one batch: a device that takes arrays of angles holds their states at once."""


@dataclass(frozen=True)
class _Machine:
    """A device for a number of qubits."""

    device: Device
    wires: Sequence[Any]
    takes_batches: bool


class PennylaneEngine:
    """Any device of PennyLane, by its name or made by a function; see PennylaneConfig.

    `config.device` may also be "module:function": a function, or a class, that is called with
    `wires`, the options, and `seed` if it takes one, and returns a device. All rows, and all groups
    of strings that are measured together, go to the device in one call, in arrays of angles if it
    takes them. Without `shots` it is asked for exact values, with them for the frequencies of the
    outcomes, of each group that often at each row.

    Draws follow from the seed where the device can be made with one, as `default.qubit`,
    `default.mixed` and `lightning.qubit` can: it is made anew for each request. Other devices draw
    as they like. PennyLane is not thread-safe, so requests of several threads wait for each other.

    Derivatives of the device are first ones, computed in double precision; second ones are by the
    shift rule, whatever `gradient` is.

    Attributes:
        config: what it was made from.
        native: the first derivatives, where the device has its own and they are not refused.
        device: its name.
        precision: of its derivatives.

    Raises:
        UnknownNameError: PennyLane has no device of that name.
        ConfigError: the function that makes it is not there, or an option is not for a device.
        EngineError: the device cannot be made.
        DifferentiationError: gradient = "adjoint" and the device has no derivatives, or shots.
    """

    precision = "double"

    def __init__(self, config: PennylaneConfig) -> None:
        self.config = config
        self._maker = Maker(config)
        self._machine = lru_cache(DEVICES)(self._new_machine)
        self._template = lru_cache(TEMPLATES)(self._new_template)
        with alone():
            device = self._maker(1, 0)
            self.device = device.name
            self._method = self._derivatives(device)
        self.native = frozenset({"expval_vjp", "expval_jvp"} if self._method else ())

    def check(self, program: Program) -> None:
        """See Engine.check.

        Raises:
            EngineError: the device has too few wires, or its derivatives cannot be used.
        """
        with alone():
            self._machine(program.num_qubits)
            if self._method is not None and program.num_slots:
                self._template(program)

    def expval(
        self, program: Program, angles: Array, *, outputs: NDArray[np.bool_], seed: int
    ) -> Evaluation:
        """See Engine.expval.

        Raises:
            EngineError: the device failed, has too few wires, or answers in another shape.
        """
        rows, shots = len(angles), self.config.shots
        values = np.tile(constants(program, outputs), (rows, 1))
        with alone():
            machine = self._machine(program.num_qubits)
            if shots is not None and self._maker.takes_seed:
                machine = self._new_machine(program.num_qubits, seed)
            readouts = self._readouts(program, outputs, machine.wires)
            if readouts:
                _evaluate(program, angles, readouts, machine, values)
        values[:, ~outputs] = 0.0
        used = sum(readout.shots or 0 for readout in readouts) * rows
        return Evaluation(values, shots=used, jobs=int(bool(readouts)), device=machine.device.name)

    def cost(self, program: Program, rows: int, outputs: NDArray[np.bool_]) -> Cost:
        """See Engine.cost."""
        if self.config.shots is not None:
            circuits = rows * len(together(program, outputs))
            return Cost(circuits, self.config.shots * circuits, jobs=int(bool(circuits)))
        with alone():
            needed = int(bool(exact(program, outputs, range(program.num_qubits))))
        return Cost(rows * needed, jobs=needed)

    def compute(
        self, primitive: str, program: Program, a: NDArray[Any], *operands: NDArray[Any]
    ) -> NDArray[Any]:
        """See NativeEngine.compute: in double precision, cast once.

        Raises:
            EngineError: the device failed, or its derivatives cannot be used for this Program.
        """
        rule = {"expval_vjp": derivatives.vjp, "expval_jvp": derivatives.jvp}[primitive]
        (operand,) = operands
        size = program.num_slots if primitive == "expval_vjp" else program.num_outputs
        if not varying(program) or not operand.size:
            return np.zeros((*operand.shape[:2], size), a.dtype)
        finite = np.isfinite(a).all(axis=1)
        angles = np.where(finite[:, None], a, 0.0).astype(np.float64)
        with alone():
            value = rule(self._template(program), angles, operand.astype(np.float64))
        return np.where(finite[:, None, None], value, np.nan).astype(a.dtype)

    def has_xla_call(self) -> bool:
        """See NativeEngine.has_xla_call: a device is called through Python."""
        return False

    def xla_call(self, primitive: str, program: Program, a: Any, *operands: Any) -> Any:
        """See NativeEngine.xla_call.

        Raises:
            EngineError: always; see has_xla_call.
        """
        raise EngineError("a PennyLane device cannot be called by compiled code without Python.")

    def _derivatives(self, device: Device) -> str | None:
        """The device's own method, if it is wanted and there is one."""
        method = derivative_method(device) if self.config.shots is None else None
        if self.config.gradient == "adjoint" and method is None:
            why = (
                f"{self.device} has no derivatives of its own"
                if self.config.shots is None
                else f"shots = {self.config.shots} are measured, and it needs exact values"
            )
            raise DifferentiationError(
                f"gradient = 'adjoint' was asked for, but {why}. What works is gradient = "
                "'parameter_shift', 'spsa', or 'auto', which is the former here."
            )
        return method if self.config.gradient in ("auto", "adjoint") else None

    def _new_machine(self, num_qubits: int, seed: int = 0) -> _Machine:
        refuse_too_wide(self.device, num_qubits)
        device = self._maker(num_qubits, seed)
        wires = range(num_qubits) if device.wires is None else device.wires.tolist()
        if len(wires) < num_qubits:
            raise EngineError(
                f"{self.device} has {len(wires)} wire(s), the kernel {num_qubits} qubits. Change "
                "'wires' in the backend's options, or leave it out."
            )
        return _Machine(device, wires[:num_qubits], takes_batches(device))

    def _new_template(self, program: Program) -> derivatives.Template:
        assert self._method is not None
        machine = self._machine(program.num_qubits)
        return derivatives.template(machine.device, self._method, program, machine.wires)

    def _readouts(
        self, program: Program, outputs: NDArray[np.bool_], wires: Sequence[Any]
    ) -> list[Readout]:
        if self.config.shots is None:
            return exact(program, outputs, wires)
        return sampled(program, outputs, wires, self.config.shots, self.config.allocation)


def _evaluate(
    program: Program,
    angles: Array,
    readouts: Sequence[Readout],
    machine: _Machine,
    values: Array,
) -> None:
    """Adds what the readouts give to the values (R, M), by one call of the device.

    Raises:
        EngineError: the device answers in another shape.
    """
    slots = [rotation.slot for rotation in varying(program)]
    parts = list(_parts(program, len(angles), machine.takes_batches, bool(slots), readouts))
    circuits = []
    for readout, part in parts:
        given = angles[part][:, slots]
        columns = given.T if len(given) > 1 else given[0]
        gates = [*operators(program, machine.wires, columns), *readout.gates]
        circuits.append(QuantumScript(gates, readout.measurements, shots=readout.shots))
    answers = run(machine.device, circuits)
    for (readout, part), answer in zip(parts, answers, strict=True):
        rows = values[part]
        for numbers, shares, measured in zip(
            answer, readout.shares, readout.measurements, strict=True
        ):
            # Without a varying angle one circuit is all rows.
            count = len(rows) if slots else 1
            size = 1 if measured.obs is not None else 1 << len(measured.wires)
            if numbers.size != count * size:
                raise EngineError(
                    f"{machine.device.name} answered {measured} at {count} row(s) of angles with "
                    f"numbers of shape {numbers.shape}. A device that takes no arrays of angles "
                    "must split them in its preprocess_transforms, by broadcast_expand."
                )
            shaped = np.broadcast_to(numbers.reshape(count, size), (len(rows), size))
            for share in shares:
                share.add(shaped.astype(np.float64), rows)


def _parts(
    program: Program, rows: int, takes_batches: bool, varies: bool, readouts: Sequence[Readout]
) -> Iterator[tuple[Readout, slice]]:
    """The circuits: each a readout at some of the rows."""
    for readout in readouts:
        if varies:
            step = max(1, BATCH >> program.num_qubits) if takes_batches else 1
        else:
            step = rows if readout.shots is None else 1
        for start in range(0, rows, step):
            yield readout, slice(start, min(start + step, rows))
