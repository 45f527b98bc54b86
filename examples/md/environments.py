"""What an atom sees of the others, as numbers that no rotation, translation or relabelling changes.

Around each atom the others are a density: a sum, per element, of Gaussians in the distance times
the moments 1, n and n n - 1/3 of the direction n. The density of each element, and the scalar
products of the moments of two elements in the same Gaussian, are invariant: a power spectrum, as
in Bartok, Kondor and Csanyi, Phys. Rev. B 87, 184115 (2013), up to second order. The cost is that
of pairs, not of triples.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations_with_replacement

import jax
import jax.numpy as jnp
import numpy as np

SHORTEST, LONGEST = 0.8, 4.5
"""Å, where the first and the last Gaussian sit."""


@dataclass(frozen=True)
class Environments:
    """The invariants of every atom of a molecule.

    Attributes:
        elements: the different elements, in alphabetic order.
        element: (A,) the number of each atom's element among them.
        radial: how many Gaussians there are.
    """

    elements: tuple[str, ...]
    element: np.ndarray
    radial: int

    @property
    def size(self) -> int:
        """D, how many numbers describe an atom."""
        kinds = len(self.elements)
        return self.radial * (kinds + kinds * (kinds + 1))

    def __call__(self, positions: jax.Array) -> jax.Array:
        """(A, D) invariants of atoms at positions (A, 3) in Å."""
        atoms = len(self.element)
        others = ~np.eye(atoms, dtype=bool)
        between = positions[None, :, :] - positions[:, None, :]
        # An atom is no neighbour of its own: there the distance, which has no slope, is replaced.
        square = jnp.sum(between**2, axis=-1)
        distance = jnp.sqrt(jnp.where(others, square, 1.0))
        direction = between / distance[..., None]
        centers, width = self._gaussians()
        shells = jnp.exp(-(((distance[..., None] - centers) / width) ** 2) / 2)
        shells = shells * others[..., None]  # (A, A, radial)
        of_element = np.eye(len(self.elements))[self.element]  # (A, kinds)
        traceless = direction[..., :, None] * direction[..., None, :] - np.eye(3) / 3
        sums = [
            jnp.einsum("ijr,jk,ij...->ikr...", shells, of_element, moment)
            for moment in (direction, traceless)
        ]
        density = jnp.einsum("ijr,jk->ikr", shells, of_element)
        first, second = np.array(
            list(combinations_with_replacement(range(len(self.elements)), 2))
        ).T
        powers = [
            jnp.sum((s[:, first] * s[:, second]).reshape(atoms, len(first), self.radial, -1), -1)
            for s in sums
        ]
        return jnp.concatenate([part.reshape(atoms, -1) for part in (density, *powers)], axis=1)

    def _gaussians(self) -> tuple[np.ndarray, float]:
        centers = np.linspace(SHORTEST, LONGEST, self.radial)
        return centers, float(centers[1] - centers[0])


def environments(symbols: Sequence[str], radial: int) -> Environments:
    """The invariants of a molecule of these atoms."""
    elements = tuple(sorted(set(symbols)))
    return Environments(elements, np.array([elements.index(s) for s in symbols]), radial)


def statistics(seen: Environments, positions: np.ndarray) -> np.ndarray:
    """(2, kinds, D) mean and deviation of invariants by the atom's element, in frames (N, A, 3).

    What does not vary, as the density of an element that is not there, has the deviation 1.
    """
    found = np.asarray(jax.jit(jax.vmap(seen))(positions))
    groups = [
        found[:, seen.element == k].reshape(-1, found.shape[-1]) for k in range(len(seen.elements))
    ]
    mean = np.array([g.mean(axis=0) for g in groups])
    deviation = np.array([g.std(axis=0) for g in groups])
    return np.stack([mean, np.where(deviation > 1e-8, deviation, 1.0)])
