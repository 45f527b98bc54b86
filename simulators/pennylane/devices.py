"""PennyLane devices: made by name or by a function of the user's, and asked what they can do."""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import MappingProxyType
from typing import Any, Final

import numpy as np
import pennylane
from numpy.typing import NDArray
from pennylane.devices import Device, ExecutionConfig
from pennylane.queuing import AnnotatedQueue, QueuingManager
from pennylane.tape import QuantumScript

from qml.errors import (
    ConfigError,
    EngineError,
    UnknownNameError,
    in_bytes,
    named,
    nearest,
)
from qml.foreign import foreign, function_at, raised
from qml.kinds import PennylaneConfig

STATE_BYTES: Final[Mapping[str, tuple[int, int]]] = MappingProxyType(
    {
        "default.mixed": (16, 4),
        "default.qubit": (16, 2),
        "lightning.qubit": (16, 2),
        "reference.qubit": (16, 2),
    }
)
"""Of devices that hold a state in this machine's memory: its bytes are a * b^qubits."""

MEND: Final = "Change the backend's options or the circuit, or use another device."
"""What to do where a device fails."""

_OURS: Final = {"wires", "shots", "seed"}
"""What a device is given by the engine. `wires` may be an option: a device of a fixed width."""


class Maker:
    """Makes the device of a configuration, for any number of qubits and any seed.

    `device` is the name of a device of PennyLane, or "module:function" of a function, or a class,
    that returns one. Either is called with `wires`, the options, and `seed` if it takes one.

    Attributes:
        takes_seed: whether the draws of a device follow from a seed that it is made with.

    Raises:
        UnknownNameError: there is no device, or no function, of that name.
        ConfigError: the module cannot be imported, or an option is the engine's.
        EngineError: PennyLane cannot load the device.
    """

    def __init__(self, config: PennylaneConfig) -> None:
        wrong = sorted(config.options.keys() & _OURS - {"wires"})
        if wrong:
            raise ConfigError(
                f"'options': {wrong[0]!r} is a key of the backend itself; write it there."
            )
        self._name = config.device
        self._options = dict(config.options)
        self._function, signature = _function(config.device)
        self.takes_seed = "seed" in signature.parameters

    def __call__(self, num_qubits: int, seed: int) -> Device:
        """A new device.

        Raises:
            EngineError: it could not be made.
        """
        keys: dict[str, Any] = {"wires": num_qubits, **self._options}
        if self.takes_seed:
            keys["seed"] = seed
        with alone(), explained(self._name, f"could not be made with {', '.join(keys)}"):
            if ":" in self._name:
                made = self._function(**keys)
            else:
                made = pennylane.device(self._name, **keys)
        if not isinstance(made, Device):
            raise ConfigError(
                f"'device': {self._name!r} made {type(made).__name__}, which is no "
                "pennylane.devices.Device."
            )
        return made


def _function(name: str) -> tuple[Callable[..., Any], inspect.Signature]:
    """What is called to make a device, and what it takes.

    It is a class of PennyLane's registry, or the user's function.
    """
    if ":" not in name:
        if name not in pennylane.plugin_devices:
            pennylane.refresh_devices()
        if name not in pennylane.plugin_devices:
            raise UnknownNameError(
                f"PennyLane has no device {named(name)}: "
                f"{nearest(name, pennylane.plugin_devices)} "
                "Others come with the package that holds them, or as 'module:function'."
            )
        with explained(name, "cannot be loaded"):
            loaded: Callable[..., Any] = pennylane.plugin_devices[name].load()
            return loaded, inspect.signature(loaded)
    return function_at("device", name)


@contextmanager
def alone() -> Iterator[None]:
    """In this block no other thread records or runs a circuit of PennyLane.

    Every operator that is made goes to the one recording of the process, if there is any, so
    threads would write into each other's circuits. Nor is what we make recorded by a QNode around.
    """
    with AnnotatedQueue(), QueuingManager.stop_recording():
        yield


@contextmanager
def explained(name: str, what: str = "failed") -> Iterator[None]:
    """Failures of the device `name` as EngineError: only its own code belongs in the block."""
    with foreign(raised(f"the PennyLane device {name!r} {what}", EngineError, MEND)):
        yield


def refuse_too_wide(name: str, num_qubits: int) -> None:
    """EngineError where the state of a simulator would not fit this machine: it might be killed."""
    if name not in STATE_BYTES:
        return
    size, base = STATE_BYTES[name]
    needed = size * base**num_qubits
    there = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    if needed > there:
        raise EngineError(
            f"a state of {num_qubits} qubits on {name!r} needs {in_bytes(needed)}, this machine "
            f"has {in_bytes(there)}. Use fewer qubits or another device."
        )


def derivative_method(device: Device) -> str | None:
    """What the device calls derivatives of its own that it can compute without a framework."""
    with explained(device.name):
        for method in ("adjoint", "device"):
            if device.supports_derivatives(ExecutionConfig(gradient_method=method)):
                return method
    return None


def takes_batches(device: Device) -> bool:
    """Whether it may be given circuits whose angles are arrays.

    A device that does not compute with these splits them when it preprocesses a circuit. One that
    preprocesses nothing says nothing about them.
    """
    with explained(device.name):
        return len(device.preprocess_transforms(device.setup_execution_config())) > 0


def run(device: Device, circuits: Sequence[QuantumScript]) -> list[tuple[NDArray[Any], ...]]:
    """What each circuit measures, by one call of the device: arrays (...) or (rows, ...)."""
    with explained(device.name):
        config = device.setup_execution_config(ExecutionConfig(), circuits[0])
        prepared, combine = device.preprocess_transforms(config)(circuits)
        results = combine(device.execute(prepared, config))
    return [
        tuple(map(np.asarray, result)) if len(circuit.measurements) > 1 else (np.asarray(result),)
        for circuit, result in zip(circuits, results, strict=True)
    ]
