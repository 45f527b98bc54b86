"""A kernel without its function: the circuit that it wrote for certain shapes of its arguments."""

from __future__ import annotations

import inspect
import keyword
from collections.abc import Callable
from typing import Any, Final

import numpy as np
from qiskit import QuantumCircuit
from qiskit.circuit import ParameterExpression

from qml.circuits.archive import pack, unpack
from qml.circuits.formulas import COMPLEX, Functions, evaluate
from qml.circuits.paulis import PauliSum
from qml.circuits.program import AngleMap, Expectation, Program
from qml.circuits.tracing import Leaf, Trace, symbols
from qml.errors import ConfigError, ShapeError
from qml.kernel import Kernel
from qml.simulators.qiskit_circuit import quantum_circuit


class StoredKernel(Kernel):
    """A kernel that a file holds: called like the one it was, for arguments of the stored shapes.

    It is not registered, and not lowered anew: its Program is the stored one, with that digest.

    Attributes:
        stored: that Program.
    """

    stored: Program
    _shape: tuple[int, ...]

    def __init__(self, program: Program, shape: tuple[int, ...], name: str) -> None:
        self.__dict__.update(stored=program, _shape=shape)
        super().__init__(_function(program, shape), program.num_qubits, name)

    @classmethod
    def read(cls, name: str, text: object, digest: object = None) -> StoredKernel:
        """The kernel of the name whose circuit `qml.circuits.archive.pack` wrote.

        Raises:
            ConfigError: it cannot be read, or has another digest than the one given.
        """
        program, shape = unpack(text)
        if digest not in (None, program.digest):
            raise ConfigError(
                f"the stored circuit of {name!r} is not the one whose digest is stored with it: "
                "the file is damaged, or was changed."
            )
        return cls(program, shape, name)

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickled as the circuit, which needs nothing to be imported or registered."""
        return _read, (self.name, pack(self.stored, self._shape))

    def _trace(self, names: tuple[str, ...], structure: Any, leaves: tuple[Leaf, ...]) -> Trace:
        if leaves != self.stored.arguments:
            raise ShapeError(
                f"{self.name} was loaded as the one circuit with {_listed(self.stored.arguments)}, "
                f"and cannot be had with {_listed(leaves)}. Import the module that defines the "
                "kernel, before loading, to use other shapes."
            )
        circuit = QuantumCircuit(self.num_qubits, name=self.name)
        self.function(circuit, *(symbols(name, shape) for name, shape in leaves))
        return Trace(circuit, self.stored, self._shape)


def _read(name: str, text: str) -> StoredKernel:
    return StoredKernel.read(name, text)


def _listed(leaves: tuple[Leaf, ...]) -> str:
    return ", ".join(f"{name}: {shape}" for name, shape in leaves) or "no arguments"


def _function(program: Program, shape: tuple[int, ...]) -> Callable[..., Any]:
    """What a user would have written: it writes the circuit, and returns observables."""

    def stored(circuit: QuantumCircuit, *arrays: Any) -> Any:
        flat = [symbol for array in arrays for symbol in np.asarray(array, object).flat]
        lowered, slots = quantum_circuit(program)
        angles = dict(zip(slots, _angles(program.angles, flat), strict=True))
        circuit.compose(lowered.assign_parameters(angles, strict=False), inplace=True)
        outputs = [
            PauliSum(dict(zip(output.paulis, output.coefficients, strict=True)))
            if isinstance(output, Expectation)
            else output
            for output in program.outputs
        ]
        return outputs if shape else outputs[0]

    names = [name for name, _ in program.arguments]
    for name in names:
        if not name.isidentifier() or keyword.iskeyword(name):
            raise ConfigError(f"the stored circuit has an argument {name!r}, which is no name.")
    first = "_".ljust(1 + max(map(len, names), default=0), "_")  # longer than the others
    order = [
        inspect.Parameter(name, inspect.Parameter.POSITIONAL_OR_KEYWORD) for name in (first, *names)
    ]
    stored.__signature__ = inspect.Signature(order)  # type: ignore[attr-defined]
    return stored


def _angles(angles: AngleMap, flat: list[Any]) -> list[Any]:
    """Those of all slots, as expressions of the symbols."""
    found: list[Any] = angles.offset.tolist()
    for slot, which, coefficient in zip(
        angles.slots, angles.arguments, angles.coefficients, strict=True
    ):
        term = float(coefficient) * flat[which] if coefficient != 1 else flat[which]
        found[slot] = found[slot] + term if found[slot] else term
    for formula in angles.formulas:
        for slot, row in zip(formula.slots, formula.arguments, strict=True):
            found[slot] += evaluate(formula.text, [flat[which] for which in row], _FUNCTIONS)
    return found


def _method(name: str) -> Callable[[Any], Any]:
    """A function of formulas, of Qiskit's expressions, which have most of them as methods."""
    method = {"asin": "arcsin", "acos": "arccos", "atan": "arctan", "conj": "conjugate"}.get(name)

    def apply(value: Any) -> Any:
        if isinstance(value, ParameterExpression):
            return getattr(value, method or name)()
        return complex(COMPLEX[name](value)).real

    return apply


_FUNCTIONS: Final[Functions] = {name: _method(name) for name in COMPLEX} | {
    "sqrt": lambda value: value**0.5
}
