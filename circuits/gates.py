"""The gate table: what a circuit is lowered to. A new gate is one line here.

Angle conventions are Qiskit's: a Pauli rotation is exp(-i a/2 P). Letters and matrices follow the
order of the gate's own qubits, the first least significant. Global phases are dropped: no
expectation value sees them.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray


class Factor(NamedTuple):
    """One Pauli rotation of a gate: by the angle `sum_i coefficients[i] * parameter[i]`."""

    letters: str
    coefficients: tuple[float, ...]


def _single(letters: str) -> tuple[Factor, ...]:
    return (Factor(letters, (1.0,)),)


def _controlled(letter: str) -> tuple[Factor, ...]:
    # |1><1| x P = (P - ZP)/2; the two commute, so the exponential is their product.
    return (Factor("I" + letter, (0.5,)), Factor("Z" + letter, (-0.5,)))


ROTATIONS: Final[dict[str, tuple[Factor, ...]]] = {
    "rx": _single("X"),
    "ry": _single("Y"),
    "rz": _single("Z"),
    "p": _single("Z"),
    "u1": _single("Z"),
    "rxx": _single("XX"),
    "ryy": _single("YY"),
    "rzz": _single("ZZ"),
    "rzx": _single("ZX"),
    "crx": _controlled("X"),
    "cry": _controlled("Y"),
    "crz": _controlled("Z"),
    "cp": (Factor("ZI", (0.5,)), Factor("IZ", (0.5,)), Factor("ZZ", (-0.5,))),
    "u": (Factor("Z", (0.0, 0.0, 1.0)), Factor("Y", (1.0, 0, 0)), Factor("Z", (0, 1.0, 0))),
}
"""Parametric gates as products of Pauli rotations, in the order they act."""


def _matrix(rows: list[list[complex]]) -> NDArray[np.complex128]:
    matrix = np.array(rows, dtype=np.complex128)
    matrix.setflags(write=False)
    return matrix


def _controlled_matrix(target: NDArray[np.complex128]) -> NDArray[np.complex128]:
    """The control is the first qubit, so it is the least significant bit."""
    matrix = np.eye(2 * len(target), dtype=np.complex128)
    matrix[1::2, 1::2] = target
    matrix.setflags(write=False)
    return matrix


_T = np.exp(0.25j * np.pi)
_X = _matrix([[0, 1], [1, 0]])
_Y = _matrix([[0, -1j], [1j, 0]])
_Z = _matrix([[1, 0], [0, -1]])
_SX = _matrix([[0.5 + 0.5j, 0.5 - 0.5j], [0.5 - 0.5j, 0.5 + 0.5j]])

FIXED: Final[dict[str, NDArray[np.complex128]]] = {
    "x": _X,
    "y": _Y,
    "z": _Z,
    "h": _matrix([[np.sqrt(0.5), np.sqrt(0.5)], [np.sqrt(0.5), -np.sqrt(0.5)]]),
    "s": _matrix([[1, 0], [0, 1j]]),
    "sdg": _matrix([[1, 0], [0, -1j]]),
    "t": _matrix([[1, 0], [0, _T]]),
    "tdg": _matrix([[1, 0], [0, _T.conjugate()]]),
    "sx": _SX,
    "sxdg": _matrix(_SX.conj().T.tolist()),
    "cx": _controlled_matrix(_X),
    "cy": _controlled_matrix(_Y),
    "cz": _controlled_matrix(_Z),
    "swap": _matrix([[1, 0, 0, 0], [0, 0, 1, 0], [0, 1, 0, 0], [0, 0, 0, 1]]),
    "ccx": _controlled_matrix(_controlled_matrix(_X)),
}
"""Gates without parameters: name -> unitary (2^k, 2^k)."""

IGNORED: Final = frozenset({"barrier", "id", "delay", "global_phase"})
"""Instructions that change no expectation value of an ideal circuit."""

BASIS: Final = (*ROTATIONS, *FIXED, "unitary", "id")
"""The names a circuit is unrolled to before it is read."""
