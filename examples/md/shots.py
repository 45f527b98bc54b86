"""What shots and a noisy machine do to the forces of a trained potential."""

from dataclasses import dataclass
from typing import Any

import jax
import numpy as np
from checks import Plan, Report
from potentials import Model, Potential

MACHINE = "FakeLagosV2"
"""A machine of seven qubits; qiskit-ibm-runtime has its noise."""


def on(potential: Potential, backend: dict[str, Any]) -> Potential:
    """The same weights, with circuits run elsewhere."""
    model = potential.model
    moved = Model(model.symbols, model.recipe, model.scaling, backend)
    return Potential(moved, potential.params, potential.spread, potential.facts)


@dataclass(frozen=True)
class Estimated:
    """Errors of forces, against exact values of the same potential, in meV/Å.

    Attributes:
        shots: (K,) of each expectation value.
        errors: (K,) root mean square over components, frames and draws.
    """

    shots: np.ndarray
    errors: np.ndarray

    @property
    def scale(self) -> float:
        """meV/Å at one shot, of the line of slope -1/2 that fits best."""
        return float(np.exp(np.mean(np.log(self.errors * np.sqrt(self.shots)))))

    @property
    def slope(self) -> float:
        """The power of the number of shots that the error goes with; -1/2 for independent ones."""
        return float(np.polyfit(np.log(self.shots), np.log(self.errors), 1)[0])

    def needed(self, error: float) -> float:
        """Shots at which the line is at such an error."""
        return (self.scale / error) ** 2


def estimated(
    potential: Potential, positions: np.ndarray, plan: Plan, seed: int, report: Report
) -> Estimated:
    """Forces at positions (N, A, 3) out of shots, for the plan's numbers of them."""
    _, exact = potential.energy_and_forces(positions)
    keys = jax.random.split(jax.random.key(seed), plan.draws)
    errors: list[float] = []
    total = len(plan.shots) * plan.draws
    for shots in plan.shots:
        sampling = on(potential, {"kind": "aer", "shots": shots})
        squares = []
        for key in keys:
            _, forces = sampling.energy_and_forces(positions, key)
            squares.append(np.mean((forces - exact) ** 2))
            report("shots", len(errors) * plan.draws + len(squares), total, f"{shots} shots")
        errors.append(1e3 * float(np.sqrt(np.mean(squares))))
    return Estimated(np.array(plan.shots), np.array(errors))


def with_noise(potential: Potential, positions: np.ndarray) -> float:
    """The error of forces by the machine's noise, in meV/Å: root mean square, without shots."""
    _, exact = potential.energy_and_forces(positions)
    _, forces = on(potential, {"kind": "aer", "noise": MACHINE}).energy_and_forces(positions)
    return float(1e3 * np.sqrt(np.mean((forces - exact) ** 2)))
