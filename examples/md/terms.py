"""The terms whose sum is a model's energy: what each makes of a geometry, and its first weights.

A term is a function of coordinates: of the distances (P,) between atoms, in Å, or, if it is not
`PAIRWISE`, of the positions (A, 3). Its energy is in units of the deviation in training.
To add a kind, write its settings in configuration.py, a class here, and its line in TERMS.
"""

from typing import Any, ClassVar, Protocol

import configuration
import jax
import jax.numpy as jnp
import kernel_ridge
import networks
import numpy as np
import polynomials
import quantum
from descriptors import Scaling
from frames import Frames
from heads import Heads
from problems import MDError
from symmetry import (
    atom_permutations,
    group_order,
    ordered_orbits,
    pair_kinds,
    pair_permutations,
    pairs,
)

Params = dict[str, Any]
Backend = str | dict[str, Any] | None

LARGEST_GROUP = 5040  # that of seven like atoms


class Term(Protocol):
    """A part of the energy.

    Attributes:
        PAIRWISE: whether it is a function of the distances, else of the positions.
        QUANTUM: whether it asks a backend.
        LINEAR: names of the weights in which the energy is linear.
    """

    PAIRWISE: ClassVar[bool]
    QUANTUM: ClassVar[bool]
    LINEAR: ClassVar[tuple[str, ...]]

    def initial(self, rng: np.random.Generator) -> Params:
        """First weights."""

    def energy(
        self, params: Params, coordinates: jax.Array, key: jax.Array | None, backend: Backend
    ) -> jax.Array:
        """The energy () at one geometry; `key` and `backend` are for circuits."""


def like_atoms(symbols: tuple[str, ...], what: str) -> np.ndarray:
    """(G, P) permutations of distances, for a term whose cost grows with their number.

    Raises:
        MDError: the molecule is too large for it.
    """
    if len(symbols) < 2:
        raise MDError(f"{what} needs two atoms at least, got {len(symbols)}")
    if (order := group_order(symbols)) > LARGEST_GROUP or len(pairs(len(symbols))) > quantum.QUBITS:
        raise MDError(
            f"{what} treats all {len(pairs(len(symbols)))} distances and {order} permutations of "
            f"{''.join(symbols)} at once, which is meant for up to six atoms. Use [model] heads"
        )
    return pair_permutations(symbols)


class Polynomial:
    """A permutation-invariant polynomial of the scaled Morse variables; no constant."""

    PAIRWISE = True
    QUANTUM = False
    LINEAR = ("coefficients",)

    def __init__(
        self, symbols: tuple[str, ...], scaling: Scaling, settings: configuration.Polynomial
    ) -> None:
        self.scaling = scaling
        self.basis = polynomials.Basis(like_atoms(symbols, "polynomial"), settings.degree)

    def initial(self, rng: np.random.Generator) -> Params:
        return {"coefficients": np.zeros(self.basis.size)}

    def energy(
        self, params: Params, coordinates: jax.Array, key: jax.Array | None, backend: Backend
    ) -> jax.Array:
        return self.basis(self.scaling.variables(coordinates)) @ params["coefficients"]


class Network:
    """Dense layers on the scaled Morse variables, averaged over permutations of like atoms."""

    PAIRWISE = True
    QUANTUM = False
    LINEAR = ()

    def __init__(
        self, symbols: tuple[str, ...], scaling: Scaling, settings: configuration.Network
    ) -> None:
        self.scaling, self.settings = scaling, settings
        self.group = like_atoms(symbols, "network")

    def initial(self, rng: np.random.Generator) -> Params:
        widths = (self.group.shape[1], *self.settings.widths)
        return networks.initial(rng, widths, self.settings.spread)

    def energy(
        self, params: Params, coordinates: jax.Array, key: jax.Array | None, backend: Backend
    ) -> jax.Array:
        return networks.averaged(params, self.scaling.variables(coordinates), self.group)


class Circuit:
    """A readout of the symmetric circuit of quantum.py; its angles are linear in the variables."""

    PAIRWISE = True
    QUANTUM = True
    LINEAR = ("readout",)

    def __init__(
        self, symbols: tuple[str, ...], scaling: Scaling, settings: configuration.Circuit
    ) -> None:
        self.scaling, self.settings = scaling, settings
        group = like_atoms(symbols, "circuit")
        self.kind = pair_kinds(symbols)
        self.mixed = ordered_orbits(group)
        self.kernel = quantum.circuit(symbols, settings.layers, settings.entanglers)
        turn, twist, coupling = quantum.shapes(symbols, settings.layers, settings.entanglers)
        self.twist, self.coupling = twist, coupling
        self.readouts = self.kernel.trace(*map(np.zeros, (turn, twist, coupling))).shape[0]

    def initial(self, rng: np.random.Generator) -> Params:
        layers, spread = self.settings.layers, self.settings.spread
        kinds = int(self.kind.max()) + 1
        slope = rng.normal(0, spread, (layers, kinds)) + 0.5
        if self.settings.mixing:
            of_mixed = np.zeros((layers, int(self.mixed.max()) + 1))
            of_mixed[:, np.diag(self.mixed)] = slope[:, self.kind]
            slope = of_mixed + rng.normal(0, spread / 4, of_mixed.shape)
        return {
            "slope": slope,
            "offset": rng.normal(0, spread, (layers, kinds)),
            "twist": rng.normal(0, spread, self.twist),
            "coupling": rng.normal(0, spread, self.coupling),
            "readout": rng.normal(0, spread, self.readouts),
        }

    def turns(self, params: Params, variables: jax.Array) -> jax.Array:
        """(layers, P) angles about Y."""
        if self.settings.mixing:
            slopes = params["slope"][:, self.mixed]  # (layers, P, P)
            return params["offset"][:, self.kind] + slopes @ variables
        return params["offset"][:, self.kind] + params["slope"][:, self.kind] * variables

    def energy(
        self, params: Params, coordinates: jax.Array, key: jax.Array | None, backend: Backend
    ) -> jax.Array:
        turn = self.turns(params, self.scaling.variables(coordinates))
        values = self.kernel(
            turn, jnp.asarray(params["twist"]), jnp.asarray(params["coupling"]),
            key=key, backend=backend,
        )  # fmt: skip
        return values @ params["readout"]


class Kernel:
    """Kernel regression on inverse distances; its weights are solved for, see kernel_ridge.py."""

    PAIRWISE = True
    QUANTUM = False
    LINEAR = ()

    def __init__(
        self, symbols: tuple[str, ...], scaling: Scaling, settings: configuration.KernelRidge
    ) -> None:
        self.scaling, self.settings = scaling, settings
        self.atoms = atom_permutations(symbols)
        self.group = tuple(map(tuple, like_atoms(symbols, "kernel").tolist()))

    def initial(self, rng: np.random.Generator) -> Params:
        """No points yet; their number is that of the training frames."""
        none = np.zeros((0, len(self.group[0])))
        return {"points": none, "weights": none}

    def solve(self, frames: Frames) -> tuple[Params, float]:
        """The weights for these frames, and the constant in units of the scale."""
        s = self.settings
        found = kernel_ridge.fit(frames, self.atoms, s.width, s.ridge, s.form)
        constant = (float(found.constant) - self.scaling.shift) / self.scaling.energy
        return {"points": found.points, "weights": found.weights}, constant

    def energy(
        self, params: Params, coordinates: jax.Array, key: jax.Array | None, backend: Backend
    ) -> jax.Array:
        fitted = kernel_ridge.Coefficients(
            jnp.asarray(params["points"]),
            jnp.asarray(params["weights"]),
            jnp.zeros(()),
            jnp.asarray(self.settings.width),
            self.group,
            self.settings.form,
        )
        return kernel_ridge.energy_of_distances(fitted, coordinates) / self.scaling.energy


TERMS = {
    "polynomial": Polynomial,
    "network": Network,
    "circuit": Circuit,
    "heads": Heads,
    "kernel": Kernel,
}
