"""Geometry as numbers that no rotation and no translation changes: distances, and what covers them.

Circuits and networks see Morse variables exp(-r / 1 Å) of the distances, shifted and divided by
their mean and standard deviation over the training frames. Equivalent pairs of atoms share both, so
that permutations of like atoms stay permutations of the variables.
"""

from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
from problems import MDError
from symmetry import pairs

RANGE = 1.0
"""Å; what the Morse variables decay over."""


def distances(positions: jax.Array) -> jax.Array:
    """(P,) distances in Å between atoms at positions (A, 3), pairs in the order of `pairs`."""
    first, second = np.array(pairs(positions.shape[0])).T
    return jnp.linalg.norm(positions[first] - positions[second], axis=-1)


def all_distances(positions: np.ndarray) -> np.ndarray:
    """(N, P) distances in Å of frames (N, A, 3), in NumPy."""
    first, second = np.array(pairs(positions.shape[1])).T
    return np.linalg.norm(positions[:, first] - positions[:, second], axis=-1)


@dataclass(frozen=True)
class Scaling:
    """What makes variables and energies of a training set of order one.

    Attributes:
        mean, deviation: (P,) of the Morse variables, equal for equivalent pairs.
        shift: eV, the mean energy of the training frames.
        energy: eV, the standard deviation of their energies.
        force: eV/Å, the root mean square of their force components.
        environments: (2, kinds, D) mean and deviation of atoms' invariants, for heads; see
            environments.py.
    """

    mean: np.ndarray
    deviation: np.ndarray
    shift: float
    energy: float
    force: float
    environments: np.ndarray | None = None

    def variables(self, distances_: jax.Array) -> jax.Array:
        """(P,) Morse variables of distances (P,) in Å: of mean 0 and deviation 1 in training."""
        return (jnp.exp(-distances_ / RANGE) - self.mean) / self.deviation


def scaling_of(
    positions: np.ndarray, energies: np.ndarray, forces: np.ndarray, orbit: np.ndarray
) -> Scaling:
    """The scaling to frames (N, A, 3), (N,), (N, A, 3); `orbit` (P,) numbers equivalent pairs.

    Raises:
        MDError: a single frame, or frames that are all alike: they have no spread to scale by.
    """
    morse = np.exp(-all_distances(positions) / RANGE)
    groups = [morse[:, orbit == o] for o in range(orbit.max() + 1)]
    mean, deviation = (np.array([f(g) for g in groups])[orbit] for f in (np.mean, np.std))
    spread = {"distances": deviation.min(), "energies": energies.std(), "forces": forces.std()}
    for name, value in spread.items():
        if not value > 1e-9:
            raise MDError(
                f"the {name} of the {len(positions)} training frames do not vary: nothing can be "
                "learnt from them. Train on frames of a trajectory"
            )
    return Scaling(
        mean,
        deviation,
        float(energies.mean()),
        float(energies.std()),
        float(np.sqrt(np.mean(forces**2))),
    )


@dataclass(frozen=True)
class Spread:
    """The range of distances that training frames cover: outside, a potential guesses.

    Attributes:
        low, high: (P,) Å, the shortest and the longest distance, equal for equivalent pairs.
    """

    low: np.ndarray
    high: np.ndarray

    def outside(self, positions: np.ndarray) -> np.ndarray:
        """(P,) Å by which each distance of a frame (A, 3) leaves the range; 0 inside."""
        r = all_distances(np.asarray(positions)[None])[0]
        return np.maximum(np.maximum(self.low - r, r - self.high), 0.0)

    def excess(self, positions: np.ndarray) -> float:
        """Å by which the worst distance of a frame (A, 3) leaves the range; 0 inside."""
        return float(self.outside(positions).max())


def spread_of(positions: np.ndarray, orbit: np.ndarray) -> Spread:
    """What frames (N, A, 3) cover; `orbit` (P,) numbers equivalent pairs."""
    r = all_distances(positions)
    groups = [r[:, orbit == o] for o in range(orbit.max() + 1)]
    low, high = (np.array([f(g) for g in groups])[orbit] for f in (np.min, np.max))
    return Spread(low, high)
