"""Pauli strings as bit masks, and weighted sums of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from numbers import Number
from operator import index
from typing import NoReturn, SupportsIndex

import numpy as np
from numpy.typing import NDArray

from qml.errors import ObservableError

LETTERS = {(0, 0): "I", (1, 0): "X", (0, 1): "Z", (1, 1): "Y"}
BITS = {letter: bits for bits, letter in LETTERS.items()}


@dataclass(frozen=True, slots=True, order=True)
class Pauli:
    """A Hermitian Pauli string; bit q of (x, z) says which: X = (1, 0), Y = (1, 1), Z = (0, 1).

    Qubit 0 is the least significant bit. The masks are Python integers, so any width works.

    >>> Pauli.from_letters("XZ", (0, 2))
    Pauli(x=1, z=4)
    >>> Pauli.from_letters("XZ", (0, 2)).label(3)
    'ZIX'
    """

    x: int
    z: int

    @classmethod
    def from_letters(cls, letters: str, qubits: Iterable[int]) -> Pauli:
        """The string with `letters[i]` on the i-th of `qubits`, which are distinct."""
        x = z = 0
        for letter, qubit in zip(letters, qubits, strict=True):
            bit_x, bit_z = BITS[letter]
            x |= bit_x << qubit
            z |= bit_z << qubit
        return cls(x, z)

    @property
    def support(self) -> tuple[int, ...]:
        """The qubits on which the string is not the identity, ascending."""
        mask = self.x | self.z
        return tuple(q for q in range(mask.bit_length()) if mask >> q & 1)

    def letter(self, qubit: int) -> str:
        """One of I, X, Y, Z."""
        return LETTERS[self.x >> qubit & 1, self.z >> qubit & 1]

    def letters(self, qubits: Iterable[int]) -> str:
        """The letters on `qubits`, in their order."""
        return "".join(map(self.letter, qubits))

    def label(self, num_qubits: int) -> str:
        """The Qiskit label of that width: qubit 0 rightmost."""
        return self.letters(range(num_qubits - 1, -1, -1))

    def action(self, size: int) -> tuple[NDArray[np.int64], NDArray[np.complex128]]:
        """(source, phase), each (size,), of P|psi>[i] = phase[i] psi[source[i]]; size = 2^n.

        >>> source, phase = Pauli.from_letters("Y", (0,)).action(2)
        >>> source.tolist(), (phase * 1j).real.tolist()
        ([1, 0], [1.0, -1.0])
        """
        source = np.arange(size) ^ self.x
        # P = i^|x&z| X^x Z^z.
        signs = 1 - 2 * (np.bitwise_count(source & self.z) % 2).astype(np.int64)
        return source, 1j ** ((self.x & self.z).bit_count() % 4) * signs

    def __matmul__(self, other: Pauli) -> tuple[complex, Pauli]:
        """(phase, string) of the product; the phase is a power of i."""
        product = Pauli(self.x ^ other.x, self.z ^ other.z)
        # P = i^|x&z| X^x Z^z, and moving Z^z past the other's X^x' gives (-1)^|z&x'|.
        power = (
            (self.x & self.z).bit_count()
            + (other.x & other.z).bit_count()
            - (product.x & product.z).bit_count()
            + 2 * (self.z & other.x).bit_count()
        )
        return (1, 1j, -1, -1j)[power % 4], product


@dataclass(frozen=True, slots=True)
class PauliSum:
    """A weighted sum of Pauli strings, with the algebra of operators: `+ - *` by numbers, `@`.

    `terms` maps each string to its coefficient; a product may make it complex for a while, a
    measured sum must be real.

    >>> (0.5 * Z(0) @ Z(1) - X(2)).terms[Pauli(0, 3)]
    0.5
    """

    terms: Mapping[Pauli, complex]

    @property
    def num_qubits(self) -> int:
        """The least number of qubits this acts on."""
        return max((max(p.x, p.z).bit_length() for p in self.terms), default=0)

    def __add__(self, other: PauliSum | complex) -> PauliSum:
        if not isinstance(other, PauliSum):
            other = PauliSum({Pauli(0, 0): _number(other)})
        total = dict(self.terms)
        for pauli, coefficient in other.terms.items():
            total[pauli] = total.get(pauli, 0) + coefficient
        return PauliSum(total)

    def __mul__(self, factor: complex) -> PauliSum:
        number = _number(factor)
        return PauliSum({p: number * c for p, c in self.terms.items()})

    def __matmul__(self, other: PauliSum) -> PauliSum:
        if not isinstance(other, PauliSum):
            _refuse(other)
        total = PauliSum({})
        for left, a in self.terms.items():
            for right, b in other.terms.items():
                phase, pauli = left @ right
                factor = phase.real if phase.imag == 0 else phase
                total = total + PauliSum({pauli: a * b * factor})
        return total

    __radd__ = __add__
    __rmul__ = __mul__

    def __neg__(self) -> PauliSum:
        return self * -1

    def __sub__(self, other: PauliSum | complex) -> PauliSum:
        return self + (-other if isinstance(other, PauliSum) else -_number(other))

    def __rsub__(self, other: complex) -> PauliSum:
        return -self + other

    def __truediv__(self, divisor: complex) -> PauliSum:
        return self * (1 / divisor)

    def __repr__(self) -> str:
        def factor(pauli: Pauli) -> str:
            return " @ ".join(f"{pauli.letter(q)}({q})" for q in pauli.support) or "I"

        return " + ".join(f"{c} * {factor(p)}" for p, c in self.terms.items()) or "0"


def _number(factor: object) -> complex:
    """A constant coefficient: a number, or an array of one with its value known."""
    if isinstance(factor, Number):
        return factor  # type: ignore[return-value]
    if getattr(factor, "shape", None) == () and hasattr(factor, "item"):
        value: complex = factor.item()
        return value
    _refuse(factor)


def _refuse(other: object) -> NoReturn:
    if isinstance(other, PauliSum):
        hint = "Observables are multiplied by @."
    else:
        hint = (
            "Observables take constant coefficients. What depends on arguments is weighted "
            "outside: return the observables, and combine the kernel's result."
        )
    raise ObservableError(f"an observable cannot be combined with {other!r}. {hint}")


def X(qubit: int) -> PauliSum:
    """The observable X on one qubit; ObservableError if `qubit` is no index."""
    return PauliSum({Pauli(1 << qubit_index(qubit), 0): 1.0})


def Y(qubit: int) -> PauliSum:
    """The observable Y on one qubit; ObservableError if `qubit` is no index."""
    return PauliSum({Pauli(1 << qubit_index(qubit), 1 << qubit_index(qubit)): 1.0})


def Z(qubit: int) -> PauliSum:
    """The observable Z on one qubit; ObservableError if `qubit` is no index."""
    return PauliSum({Pauli(0, 1 << qubit_index(qubit)): 1.0})


def qubit_index(qubit: object) -> int:
    """A qubit's number as a Python integer, which no mask overflows.

    Raises:
        ObservableError: it is no integer from 0 on.
    """
    if isinstance(qubit, bool) or not isinstance(qubit, SupportsIndex) or index(qubit) < 0:
        raise ObservableError(f"a qubit is an integer from 0 on, found {qubit!r}.")
    return index(qubit)
