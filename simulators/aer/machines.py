"""From `noise` in a configuration to the machine it means."""

from __future__ import annotations

from typing import Final

import numpy as np
from qiskit_aer.noise import depolarizing_error

from qml.circuits.gates import FIXED
from qml.kinds import Noise
from qml.simulators.aer import noise_file
from qml.simulators.aer.fake_device import FakeDevice
from qml.simulators.aer.noise import Channel, GateError, Machine, ReadingError
from qml.simulators.aer.noisy_gates import NoisyGates
from qml.simulators.qiskit_circuit import ROTATION_GATES

_WIDTHS: Final = {
    **{gate(0.0).name: len(letters) for letters, gate in ROTATION_GATES.items()},
    **{name: len(matrix).bit_length() - 1 for name, matrix in FIXED.items()},
    "u": 1,
}
GATES: Final = {
    width: tuple(name for name, of in _WIDTHS.items() if of == width) for width in (1, 2)
}
"""The basis of depolarising noise, by the number of qubits: all gates that a Program has, and u."""


def machine(noise: str | Noise | None) -> Machine | None:
    """The machine of a `noise`; None where there is none, or where all its parameters are zero.

    Raises:
        MissingDependencyError, UnknownNameError: see FakeDevice.
        ConfigError: see noise_file.read.
    """
    if noise is None:
        return None
    if isinstance(noise, str):
        return FakeDevice(noise)
    if noise.file is not None:
        return from_file(noise)
    return depolarizing(noise)


def depolarizing(noise: Noise) -> NoisyGates | None:
    """The machine of qml.kinds.Noise by its parameters; None where all are zero.

    A circuit is compiled to GATES, which are those it is lowered to: every rotation about a string
    of one or two letters and every fixed gate on one or two qubits is one gate, with one channel
    after it. Toffoli gates and unitaries given as matrices are written in these first, and a
    rotation about three letters or more is a ladder of "cx" around an "rz", as Qiskit writes it.
    What turns X ("h") or Y ("sdg", "h") into the Z that is measured counts as gates too.
    """
    parameters = {
        "depolarizing_1q": noise.depolarizing_1q or 0.0,
        "depolarizing_2q": noise.depolarizing_2q or 0.0,
        "readout": noise.readout or 0.0,
    }
    if not any(parameters.values()):
        return None
    channels = {
        width: Channel(depolarizing_error(parameters[f"depolarizing_{width}q"], width))
        for width in GATES
    }
    gates = [
        GateError(name, None, channels[width]) for width, names in GATES.items() for name in names
    ]
    flip = parameters["readout"]
    readings = [ReadingError(None, np.array([[1 - flip, flip], [flip, 1 - flip]]))]
    source = str({key: value for key, value in parameters.items() if value})
    return NoisyGates(source, gates, readings, [GATES[1] + GATES[2]])


def from_file(noise: Noise) -> NoisyGates:
    """The machine of a noise model in a file.

    Its gates are those that the model has errors of, and as few exact ones as make a circuit
    possible: first "rz", then "sx". A circuit is written in them without merging or cancelling any.
    Gates on two qubits act where the model has errors of them, if it says where; without any, "cx"
    is exact and everywhere. Errors of qubits that a circuit does not use are left out.
    """
    assert noise.file is not None and noise.content is not None
    gates, readings = noise_file.read(noise.content, noise.file)
    noisy: dict[int, list[str]] = {1: [], 2: []}
    for name in dict.fromkeys(gate.name for gate in gates if not gate.channel.ideal):
        noisy[noise_file.STANDARD[name].num_qubits].append(name)
    two = [gate for gate in gates if gate.name in noisy[2]]
    places = [gate.qubits for gate in two if gate.qubits is not None]
    bases = [
        tuple(dict.fromkeys([*noisy[1], *exact, *(noisy[2] or ["cx"])]))
        for exact in ([], ["rz"], ["rz", "sx"])
    ]
    everywhere = len(places) < len(two) or not places
    return NoisyGates(repr(noise.file), gates, readings, bases, None if everywhere else places)
