"""The Program: all an engine ever sees of a circuit. Plain data, NumPy only."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np
from numpy.typing import NDArray

from qml.circuits.paulis import Pauli, PauliSum

CONSTANT: Final = -1
"""The slot of a rotation whose angle never changes."""


@dataclass(frozen=True, slots=True)
class Rotation:
    """exp(-i a/2 P); a is the angle of `slot`, or the constant `angle` where slot is CONSTANT."""

    pauli: Pauli
    slot: int
    angle: float = 0.0


@dataclass(frozen=True, slots=True, eq=False)
class Fixed:
    """A gate without parameters; `matrix` (2^k, 2^k) acts on `qubits`, the first least significant.

    `name` is a key of the gate table or "unitary".
    """

    name: str
    qubits: tuple[int, ...]
    matrix: NDArray[np.complex128]


@dataclass(frozen=True, slots=True)
class Expectation:
    """One output: sum_t coefficients[t] <paulis[t]>, real."""

    paulis: tuple[Pauli, ...]
    coefficients: tuple[float, ...]

    @property
    def size(self) -> int:
        return 1


@dataclass(frozen=True, slots=True)
class Probabilities:
    """2^k outputs: the probability of each outcome of `qubits`, the first least significant."""

    qubits: tuple[int, ...]

    @property
    def size(self) -> int:
        return 1 << len(self.qubits)


@dataclass(frozen=True, eq=False)
class Formula:
    """Slots whose angle is one and the same expression of different arguments.

    `text` is a formula (qml.circuits.formulas) in a0, a1, ...; for the i-th of `slots` (S,), aj
    stands for the flat argument `arguments[i, j]`, (S, A).
    """

    text: str
    slots: NDArray[np.int32]
    arguments: NDArray[np.int32]


@dataclass(frozen=True, eq=False)
class AngleMap:
    """Slot angles as functions of the flat arguments v (P,), in radians.

    angles[slots[i]] += coefficients[i] * v[arguments[i]], plus `offset` (K,), plus the `formulas`
    of the slots that are no affine function.
    """

    num_arguments: int
    slots: NDArray[np.int32]
    arguments: NDArray[np.int32]
    coefficients: NDArray[np.float64]
    offset: NDArray[np.float64]
    formulas: tuple[Formula, ...] = ()

    @property
    def num_slots(self) -> int:
        return len(self.offset)

    @cached_property
    def terms(self) -> tuple[NDArray[np.int32], NDArray[np.float64]]:
        """The affine part as arguments and coefficients (K, T), T the most terms of any slot.

        Where a slot has fewer, coefficients are 0.
        """
        order = np.argsort(self.slots, kind="stable")
        slots = self.slots[order]
        column = np.arange(len(slots)) - np.searchsorted(slots, slots)
        shape = (self.num_slots, int(column.max(initial=-1)) + 1)
        arguments, coefficients = np.zeros(shape, np.int32), np.zeros(shape)
        arguments[slots, column] = self.arguments[order]
        coefficients[slots, column] = self.coefficients[order]
        return arguments, coefficients

    @cached_property
    def matrix(self) -> NDArray[np.float64]:
        """The same as a dense (K, P) matrix."""
        dense = np.zeros((self.num_slots, self.num_arguments))
        np.add.at(dense, (self.slots, self.arguments), self.coefficients)
        return dense


@dataclass(frozen=True, eq=False)
class Program:
    """A circuit lowered to Pauli rotations and fixed gates on |0...0>, with what is measured.

    The outputs stand one after the other in a vector (M,). Two Programs are equal when their
    digests are; names of qubits, registers and parameters do not matter, argument order does.

    Attributes:
        num_qubits: width; qubit 0 is the least significant bit everywhere.
        operations: in the order they act.
        outputs: Pauli sums and probability blocks.
        angles: how the K slot angles follow from the arguments.
        arguments: (name, shape) of every array the kernel takes, in flattening order.
    """

    num_qubits: int
    operations: tuple[Rotation | Fixed, ...]
    outputs: tuple[Expectation | Probabilities, ...]
    angles: AngleMap
    arguments: tuple[tuple[str, tuple[int, ...]], ...] = ()

    @property
    def num_slots(self) -> int:
        """K."""
        return self.angles.num_slots

    @cached_property
    def num_outputs(self) -> int:
        """M."""
        return sum(output.size for output in self.outputs)

    @cached_property
    def digest(self) -> str:
        """SHA-256 of the content, the same in every process."""
        return hashlib.sha256("\n".join(self._content()).encode()).hexdigest()

    def _content(self) -> Iterator[str]:
        yield f"program 1 {self.num_qubits} {self.arguments}"
        for operation in self.operations:
            if isinstance(operation, Rotation):
                pauli = operation.pauli
                yield f"rotation {pauli.x} {pauli.z} {operation.slot} {operation.angle!r}"
            else:
                # Named gates are known by name; rounding noise in a table entry is no difference.
                content = operation.matrix.tobytes().hex() if operation.name == "unitary" else ""
                yield f"fixed {operation.name} {operation.qubits} {content}"
        for output in self.outputs:
            if isinstance(output, Expectation):
                paulis = [(p.x, p.z) for p in output.paulis]
                yield f"expectation {paulis} {[float(c) for c in output.coefficients]}"
            else:
                yield f"probabilities {output.qubits}"
        a = self.angles
        yield f"angles {a.num_arguments} {a.slots.tolist()} {a.arguments.tolist()}"
        yield f"{a.coefficients.tolist()} {a.offset.tolist()}"
        for formula in a.formulas:
            yield f"formula {formula.text} {formula.slots.tolist()} {formula.arguments.tolist()}"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Program):
            return NotImplemented
        return self is other or self.digest == other.digest

    def __hash__(self) -> int:
        return hash(self.digest)

    def __repr__(self) -> str:
        return (
            f"Program(qubits={self.num_qubits}, operations={len(self.operations)}, "
            f"slots={self.num_slots}, outputs={self.num_outputs}, digest={self.digest[:12]})"
        )


def expectation(total: PauliSum) -> Expectation:
    """The output that measures a real sum, its strings in a canonical order, zeros dropped.

    Coefficients must be real; qml.circuits.observables checks that and says so to the user.
    """
    terms = sorted((p, c.real) for p, c in total.terms.items() if c != 0)
    return Expectation(tuple(p for p, _ in terms), tuple(float(c) for _, c in terms))
