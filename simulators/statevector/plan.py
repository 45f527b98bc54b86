"""A Program as steps of a sweep: frames followed, one-qubit gates fused, masks resolved.

Step kinds:

- PAIR, a 2x2 matrix on the pairs of amplitudes (i, i ^ x): all gates on one qubit between two
  gates that couple it, or one rotation by a Pauli string with x != 0. Its logical axes are
  X'|i> = i^phase (-1)^|i & z| |i ^ x> and Z'|i> = (-1)^(negative + |i & r|) |i>.
- DIAGONAL, one rotation by Z'.
- DENSE, a fixed unitary on a few qubits, each with such axes.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

import numpy as np
from numpy.typing import NDArray

from qml.circuits.gates import FIXED
from qml.circuits.paulis import Pauli
from qml.circuits.program import CONSTANT, Expectation, Fixed, Program, Rotation
from qml.simulators.statevector.cone import Cone, light_cone
from qml.simulators.statevector.frame import Frame, Signed, monomial_images, named_images

PAIR: Final = 0
DIAGONAL: Final = 1
DENSE: Final = 2

AXES: Final = {"X": 0, "Y": 1, "Z": 2}
MATRIX: Final = 3


@dataclass(frozen=True)
class Factor:
    """One gate of a step: a rotation about an axis, by a slot or a constant, or a 2x2 matrix."""

    axis: int
    slot: int = CONSTANT
    angle: float = 0.0
    matrix: NDArray[np.complex128] | None = None


@dataclass(frozen=True)
class Step:
    """See the module; `x_images` and `z_images` are the axes, one pair per qubit of the step."""

    kind: int
    x_images: tuple[Signed, ...]
    z_images: tuple[Signed, ...]
    factors: tuple[Factor, ...]


@dataclass(frozen=True)
class Readout:
    """What is measured, in the physical frame.

    Attributes:
        paulis: the T different strings that are needed.
        weights: (output column, index into `paulis`, coefficient), signs included.
        blocks: (first column, ((sign, Z string) per qubit)) of every block of probabilities.
    """

    paulis: tuple[Pauli, ...]
    weights: tuple[tuple[int, int, float], ...]
    blocks: tuple[tuple[int, tuple[Signed, ...]], ...]


@dataclass(frozen=True)
class Plan:
    num_qubits: int
    steps: tuple[Step, ...]
    readout: Readout


def plan(program: Program) -> Plan:
    """The steps in the light cone of a Program's outputs, and what is measured after them."""
    cone = light_cone(program)
    planner = _Planner(cone.num_qubits)
    for operation in cone.operations:
        if isinstance(operation, Rotation):
            planner.rotate(operation.pauli, operation.slot, operation.angle)
        else:
            planner.apply(operation)
    planner.close(range(cone.num_qubits))
    steps = tuple(planner.steps)
    return Plan(cone.num_qubits, steps, _readout(cone, planner.frame))


@dataclass
class _Planner:
    num_qubits: int
    frame: Frame = field(init=False)
    steps: list[Step] = field(default_factory=list)
    pending: dict[int, list[Factor]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.frame = Frame(self.num_qubits)

    def rotate(self, pauli: Pauli, slot: int, angle: float) -> None:
        support = pauli.support
        if len(support) == 1:
            factor = Factor(AXES[pauli.letter(support[0])], slot, angle)
            self.pending.setdefault(support[0], []).append(factor)
        elif support:
            self.close(support)
            self._rotate_frame(pauli, slot, angle)

    def apply(self, gate: Fixed) -> None:
        named = gate.name != "unitary"
        images = named_images(gate.name) if named else monomial_images(gate.matrix)
        (first, *others) = gate.qubits
        if not others and (images is None or first in self.pending):
            self.pending.setdefault(first, []).append(_factor(gate.matrix))
            return
        self.close(gate.qubits if others else ())
        if images is not None:
            self.frame.follow(images, gate.qubits)
        elif gate.name == "ccx":
            self._toffoli(gate.qubits)
        else:
            self._append(DENSE, gate.qubits, (Factor(MATRIX, matrix=gate.matrix),))

    def close(self, qubits: Iterable[int]) -> None:
        """Emits the gates waiting on these qubits, before one that couples them."""
        for qubit in qubits:
            factors = self.pending.pop(qubit, ())
            if all(factor.axis == AXES["Z"] for factor in factors):
                for factor in factors:
                    self._rotate_frame(Pauli(0, 1 << qubit), factor.slot, factor.angle)
            else:
                self._append(PAIR, (qubit,), tuple(factors))

    def _append(self, kind: int, qubits: tuple[int, ...], factors: tuple[Factor, ...]) -> None:
        x_images = tuple(self.frame.x[q] for q in qubits)
        z_images = tuple(self.frame.z[q] for q in qubits)
        self.steps.append(Step(kind, x_images, z_images, factors))

    def _rotate_frame(self, pauli: Pauli, slot: int, angle: float) -> None:
        """A rotation by a string as a step of its own."""
        sign, image = self.frame.image(pauli)
        if image.x == 0:
            factor = Factor(AXES["Z"], slot, angle)
            self.steps.append(Step(DIAGONAL, ((1, Pauli(0, 0)),), ((sign, image),), (factor,)))
        else:
            # Any Z that anticommutes with the string completes the axes.
            z = Pauli(0, image.x & -image.x)
            factor = Factor(AXES["X"], slot, angle)
            self.steps.append(Step(PAIR, ((sign, image),), ((1, z),), (factor,)))

    def _toffoli(self, qubits: tuple[int, ...]) -> None:
        """CCX = H CCZ H, and CCZ = exp(-i pi/8 sum over subsets of -(-1)^size Z...Z)."""
        hadamard = (Factor(MATRIX, matrix=FIXED["h"]),)
        self._append(PAIR, qubits[2:], hadamard)
        for subset in range(1, 8):
            mask = sum(1 << q for i, q in enumerate(qubits) if subset >> i & 1)
            sign = 1 if mask.bit_count() % 2 else -1
            self._rotate_frame(Pauli(0, mask), CONSTANT, sign * np.pi / 4)
        self._append(PAIR, qubits[2:], hadamard)


def _factor(matrix: NDArray[np.complex128]) -> Factor:
    """A fixed one-qubit gate; diagonal ones are rotations about Z, up to a phase."""
    if matrix[0, 1] == 0 == matrix[1, 0]:
        return Factor(AXES["Z"], angle=float(np.angle(matrix[1, 1] / matrix[0, 0])))
    return Factor(MATRIX, matrix=matrix)


def _readout(cone: Cone, frame: Frame) -> Readout:
    index: dict[Pauli, int] = {}
    weights: list[tuple[int, int, float]] = []
    blocks: list[tuple[int, tuple[Signed, ...]]] = []
    column = 0
    for output in cone.outputs:
        if isinstance(output, Expectation):
            for pauli, coefficient in zip(output.paulis, output.coefficients, strict=True):
                sign, image = frame.image(pauli)
                where = index.setdefault(image, len(index))
                weights.append((column, where, sign * coefficient))
        else:
            blocks.append((column, tuple(frame.z[q] for q in output.qubits)))
        column += output.size
    return Readout(tuple(index), tuple(weights), tuple(blocks))
