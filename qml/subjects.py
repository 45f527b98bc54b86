"""An engine under test, and what each of its answers is held against."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

import qml.oracle as oracle
from qml.circuits.gates import FIXED
from qml.circuits.paulis import Pauli
from qml.circuits.program import Expectation, Fixed, Probabilities, Program, Rotation
from qml.oracle import program_of
from qml.settings import EngineConfig
from qml.simulators.base import Engine, Evaluation

Array = NDArray[np.float64]
Mask = NDArray[np.bool_]

TOLERANCE: Final = {"double": 1e-9, "single": 1e-4, "-": 1e-9}
"""Of an exact value of order 1, by the precision that the engine states."""

SIGMAS: Final = 6
"""Standard errors by which a mean of samples may differ from the exact value."""

SAMPLES: Final = 48
"""Equal rows over which a mean and its standard error are taken."""

Z0: Final = Expectation((Pauli(0, 1),), (1.0,))
COIN: Final = program_of(1, [Fixed("h", (0,), FIXED["h"])], [Z0])
TURN: Final = program_of(1, [Rotation(Pauli(1, 0), 0)], [Z0], slots=1)
"""Single coins, without a slot and at pi/2."""


@dataclass(frozen=True)
class Subject:
    """An engine under test.

    Attributes:
        engine: itself.
        config: what it was made from; None if nobody knows.
        qubits: the most that the circuits have.
        seed: of all that is drawn to test it.
        tolerance: of exact values; None for that of the precision it states.
        ideal: whether its values are those of a machine without noise.
        seeded: whether its draws follow from the seed of a request.
    """

    engine: Engine
    config: EngineConfig | None
    qubits: int
    seed: int
    tolerance: float | None
    ideal: bool
    seeded: bool

    @property
    def samples(self) -> bool:
        """Whether its values are means over shots."""
        return self.engine.cost(COIN, 1, every(COIN)).shots > 0

    def rng(self) -> np.random.Generator:
        return np.random.default_rng(self.seed)

    def ask(
        self, program: Program, angles: Array, outputs: Mask | None = None, seed: int = 0
    ) -> Evaluation:
        """One request, and what every answer must be whatever was asked."""
        outputs = every(program) if outputs is None else outputs
        given = angles.copy(), outputs.copy()
        self.engine.check(program)
        found = self.engine.expval(program, given[0], outputs=given[1], seed=seed)
        asked = f"expval of {program!r} at {len(angles)} row(s)"
        values = found.values
        expect(isinstance(values, np.ndarray), f"{asked} gave {type(values).__name__}, no array.")
        shape = (len(angles), program.num_outputs)
        expect(values.shape == shape, f"{asked} gave values {values.shape}, expected {shape}.")
        expect(values.dtype == np.float64, f"{asked} gave {values.dtype}, expected float64.")
        expect(bool(np.isfinite(values).all()), f"{asked} gave values that are not finite.")
        same = (given[0] == angles).all() and (given[1] == outputs).all()
        expect(bool(same), f"{asked} changed the arrays that it was given.")
        expect(bool(found.device), f"{asked} named no device.")
        known = found.precision in TOLERANCE
        expect(known, f"{asked} named the precision {found.precision!r}, not {[*TOLERANCE]}.")
        unasked = values[:, ~outputs]
        expect(bool((unasked == 0).all()), f"{asked} gave {unasked} for outputs not asked for.")
        return found

    def agrees(
        self,
        what: str,
        program: Program,
        angles: Array,
        outputs: Mask | None = None,
        ask: Callable[..., Evaluation] | None = None,
    ) -> None:
        """The answer is the oracle's: each value, or its mean over equal rows; see `possible`.

        Raises:
            AssertionError: it is not; starts with `what`.
        """
        mask = every(program) if outputs is None else outputs
        expected = np.where(mask, oracle.expval(program, angles), 0.0)
        repeats = SAMPLES if self.samples else 1
        rows = np.repeat(angles, repeats, axis=0)
        found = (ask or self.ask)(program, rows, mask)
        drawn = found.values.reshape(len(angles), repeats, -1)
        mean = drawn.mean(axis=1)
        if not self.ideal:
            self.possible(what, program, mask, found)
            return
        allowed = np.full_like(mean, self.tolerance or TOLERANCE[found.precision])
        if self.samples:
            # What has not been drawn at all has no spread: it may be as rare as 6^2 in all shots.
            shots = found.shots / max(len(angles), 1)
            allowed += SIGMAS * drawn.std(axis=1, ddof=1) / np.sqrt(repeats)
            allowed += SIGMAS**2 * scale(program) / max(shots, 1.0)
        wrong = np.argwhere(np.abs(mean - expected) > allowed)
        if len(wrong):
            row, column = wrong[0]
            raise AssertionError(
                f"{what}: output {column} of {describe(program)} at angles {angles[row].tolist()} "
                f"is {expected[row, column]!r} by Qiskit's Statevector, the engine found "
                f"{mean[row, column]!r}, and {allowed[row, column]:.1e} is allowed."
            )

    def possible(self, what: str, program: Program, mask: Mask, found: Evaluation) -> None:
        """Values of any state at all: no mean beyond its operator, probabilities that sum to 1.

        Where they are sampled, within the statistical error: some derive them from several means.
        """
        values = found.values
        slack = self.tolerance or TOLERANCE["single"]
        if found.shots:
            slack += SIGMAS * np.sqrt(len(values) / found.shots)
        beyond = np.abs(values) > scale(program) + slack
        expect(not beyond.any(), f"{what}: {describe(program)} has no values such as {values}.")
        column = 0
        for output in program.outputs:
            block = values[:, column : column + output.size]
            if isinstance(output, Probabilities) and mask[column : column + output.size].all():
                total = np.abs(block.sum(axis=1) - 1).max()
                negative = block.min()
                fine = total < slack and negative > -slack
                expect(fine, f"{what}: {output} of {describe(program)} gave {block}.")
            column += output.size


def expect(fact: bool, otherwise: str) -> None:
    """Raises AssertionError; not `assert`, which python -O leaves out."""
    if not fact:
        raise AssertionError(otherwise)


def every(program: Program) -> Mask:
    """All outputs."""
    return np.ones(program.num_outputs, np.bool_)


def scale(program: Program) -> Array:
    """(M,): the largest values that the outputs can have."""
    sizes = [
        sum(map(abs, output.coefficients)) if isinstance(output, Expectation) else 1.0
        for output in program.outputs
    ]
    return np.repeat(sizes, [output.size for output in program.outputs])


def describe(program: Program) -> str:
    """Enough of a Program to build it again."""
    gates = [
        operation if isinstance(operation, Rotation) else f"{operation.name}{operation.qubits}"
        for operation in program.operations
    ]
    return f"{program!r} with operations {gates} and outputs {list(program.outputs)}"


def angles_for(rng: np.random.Generator, program: Program, rows: int) -> Array:
    return rng.uniform(-7, 7, size=(rows, program.num_slots))
