"""Clifford frames: gates that only permute and sign basis states cost nothing.

A state is kept as |physical> with |logical> = F |physical>. A monomial Clifford gate C (X, Z, S,
CX, CZ, SWAP, ...) then changes F to C F and moves no amplitude; a later rotation by P acts on the
physical state as one by F+ P F, again a Pauli string up to a sign, and so do observables.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from itertools import product

import numpy as np
from numpy.typing import NDArray

from qml.circuits.gates import FIXED
from qml.circuits.paulis import Pauli

Signed = tuple[int, Pauli]
"""A sign, +1 or -1, and a string."""

Images = dict[tuple[str, int], Signed]
"""C+ X_q C and C+ Z_q C by ("x" or "z", q), on the gate's own qubits."""

_MATRICES = {"I": np.eye(2), "X": FIXED["x"], "Y": FIXED["y"], "Z": FIXED["z"]}


class Frame:
    """F, given by F+ X_q F and F+ Z_q F for every qubit; the latter are strings of Z alone."""

    def __init__(self, num_qubits: int) -> None:
        self.x: list[Signed] = [(1, Pauli(1 << q, 0)) for q in range(num_qubits)]
        self.z: list[Signed] = [(1, Pauli(0, 1 << q)) for q in range(num_qubits)]

    def image(self, pauli: Pauli) -> Signed:
        """F+ P F."""
        phase: complex = 1
        total = Pauli(0, 0)
        for q in pauli.support:
            letter = pauli.letter(q)
            if letter == "Y":  # i X Z
                phase *= 1j
            for name, (sign, image) in (("X", self.x[q]), ("Z", self.z[q])):
                if letter in (name, "Y"):
                    extra, total = total @ image
                    phase *= sign * extra
        return round(phase.real), total

    def follow(self, images: Images, qubits: Sequence[int]) -> None:
        """F becomes C F, for a gate C on `qubits` with the given images."""
        new = {}
        for (kind, local), (sign, pauli) in images.items():
            wide = Pauli.from_letters(pauli.letters(range(len(qubits))), qubits)
            total, image = self.image(wide)
            new[kind, qubits[local]] = (sign * total, image)
        for (kind, qubit), signed in new.items():
            (self.x if kind == "x" else self.z)[qubit] = signed


def monomial_images(matrix: NDArray[np.complex128]) -> Images | None:
    """C+ P C of the generators of one or two qubits; None if C is no monomial Clifford gate."""
    k = len(matrix).bit_length() - 1
    if k > 2:
        return None
    images: Images = {}
    for q in range(k):
        for kind, generator in (("x", Pauli(1 << q, 0)), ("z", Pauli(0, 1 << q))):
            found = matrix.conj().T @ pauli_matrix(generator, k) @ matrix
            for x, z in product(range(1 if kind == "z" else 1 << k), range(1 << k)):
                overlap = np.trace(pauli_matrix(Pauli(x, z), k) @ found) / (1 << k)
                if abs(abs(overlap) - 1) < 1e-12:
                    images[kind, q] = (round(overlap.real), Pauli(x, z))
    return images if len(images) == 2 * k else None


@lru_cache(maxsize=64)
def named_images(name: str) -> Images | None:
    """The same, for a gate of the gate table."""
    return monomial_images(FIXED[name])


def pauli_matrix(pauli: Pauli, num_qubits: int) -> NDArray[np.complex128]:
    """The dense matrix, qubit 0 the least significant."""
    matrix: NDArray[np.complex128] = np.eye(1, dtype=np.complex128)
    for q in range(num_qubits):
        matrix = np.asarray(np.kron(_MATRICES[pauli.letter(q)], matrix), np.complex128)
    return matrix
