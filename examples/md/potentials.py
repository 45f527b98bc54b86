"""Potentials: an energy that is a sum of terms, its exact forces, and how a trained one is kept.

    from potentials import load
    potential = load("h3o.json")
    energy = potential.energy_fn()                 # positions (A, 3) in Å -> eV, a JAX function
    forces = -jax.grad(energy)(positions)

Energies are in eV, positions in Å, forces in eV/Å, in double precision.
"""

import json
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from configuration import Recipe, checked
from descriptors import Scaling, Spread, distances, scaling_of
from environments import environments, statistics
from files import write_atomically
from frames import Frames
from problems import MDError
from symmetry import pair_kinds
from terms import TERMS, Backend, Params

from qml.config import resolve

jax.config.update("jax_enable_x64", True)  # a millionth of an eV needs double precision

FORMAT = "hybrid potential, version 1"

EnergyFunction = Callable[[jax.Array], jax.Array]


class Model:
    """E(R) = shift + scale * (constant + sum of the recipe's terms), for molecules of these atoms.

    Attributes:
        symbols: (A,) the atoms, in the order of all arrays.
        recipe: which terms there are, and their settings.
        scaling: of the training frames.
        backend: what runs the circuits: a name or table that qml knows; None for the ambient one.
        terms: name -> term.
        pairwise: whether all terms are functions of the distances.
        quantum: whether any of them asks a backend.
    """

    def __init__(
        self,
        symbols: tuple[str, ...],
        recipe: Recipe,
        scaling: Scaling,
        backend: Backend = None,
    ) -> None:
        self.symbols, self.recipe, self.scaling, self.backend = symbols, recipe, scaling, backend
        self.terms = {
            name: TERMS[name](symbols, scaling, settings)
            for name, settings in recipe.terms().items()
        }
        self.pairwise = all(term.PAIRWISE for term in self.terms.values())
        self.quantum = any(term.QUANTUM for term in self.terms.values())

    @property
    def exact(self) -> bool:
        """Whether values are exact: no shots, no noise, or no backend that is asked."""
        return not self.quantum or resolve(self.backend).exact

    def initial(self, seed: int) -> Params:
        """First weights: those of each term under its name, and "constant"."""
        rng = np.random.default_rng(seed)
        first: Params = {name: term.initial(rng) for name, term in self.terms.items()}
        first["constant"] = 0.0
        return jax.tree.map(lambda value: jnp.asarray(value, float), first)

    def count(self) -> int:
        """How many weights are trained; those of a kernel, which depend on the frames, are not."""
        return sum(np.size(leaf) for leaf in jax.tree.leaves(self.initial(0)))

    def coordinates(self, positions: jax.Array) -> jax.Array:
        """What the terms are functions of: distances (P,), or else positions (A, 3)."""
        return distances(positions) if self.pairwise else positions

    def scaled_energy(
        self, params: Params, coordinates: jax.Array, key: jax.Array | None = None
    ) -> jax.Array:
        """The energy () as a function of coordinates, less the shift, in units of the scale."""
        total = jnp.asarray(params["constant"])
        for name, term in self.terms.items():
            given = coordinates
            if term.PAIRWISE and not self.pairwise:
                given = distances(coordinates)
            total = total + term.energy(params[name], given, key, self.backend)
        return total

    def energy(
        self, params: Params, positions: jax.Array, key: jax.Array | None = None
    ) -> jax.Array:
        """The energy () in eV at positions (A, 3) in Å; `key` is for backends with shots."""
        scaled = self.scaled_energy(params, self.coordinates(positions), key)
        return self.scaling.shift + self.scaling.energy * scaled

    @cached_property
    def batch(self) -> Callable[..., tuple[jax.Array, jax.Array]]:
        """(params, positions (N, A, 3), key or None) -> energies (N,) and forces, compiled."""

        def one(
            params: Params, positions: jax.Array, key: jax.Array | None
        ) -> tuple[jax.Array, jax.Array]:
            energy, slope = jax.value_and_grad(self.energy, 1)(params, positions, key)
            return energy, -slope

        return jax.jit(jax.vmap(one, (None, 0, None)))


def model_for(recipe: Recipe, train: Frames, backend: Backend = None) -> Model:
    """The model of a recipe, scaled to training frames and to nothing else.

    Raises:
        MDError: the frames have no spread to scale by, or a term does not suit the molecule.
    """
    kinds = pair_kinds(train.symbols)
    scaling = scaling_of(train.positions, train.energies, train.forces, kinds)
    if recipe.heads:
        seen = environments(train.symbols, recipe.heads.radial)
        scaling = replace(scaling, environments=statistics(seen, train.positions))
    return Model(train.symbols, recipe, scaling, backend)


@dataclass(frozen=True)
class Potential:
    """A trained model.

    Attributes:
        model: what it computes with the weights.
        params: the weights.
        spread: the range of distances it was trained on.
        facts: what is worth knowing about its training: data, settings, errors; plain values.
    """

    model: Model
    params: Params
    spread: Spread
    facts: dict[str, Any]

    @property
    def symbols(self) -> tuple[str, ...]:
        """(A,) the atoms it is for, in the order of all arrays."""
        return self.model.symbols

    def energy_fn(self, key: jax.Array | None = None) -> EnergyFunction:
        """Positions (A, 3) in Å -> energy () in eV: pure JAX, differentiable to any order.

        It takes the further keywords that jax-md passes, and ignores them.
        """

        def energy(positions: jax.Array, **_: Any) -> jax.Array:
            return self.model.energy(self.params, positions, key)

        return energy

    def energy_and_forces(
        self, positions: np.ndarray, key: jax.Array | None = None
    ) -> tuple[np.ndarray, np.ndarray]:
        """Energies (N,) in eV and forces (N, A, 3) in eV/Å at positions (N, A, 3) in Å.

        On a backend with shots they are one draw, the same one without a `key`; see `estimates`.

        Raises:
            MDError: positions of another shape, or not finite.
        """
        given = np.asarray(positions, float)
        if given.ndim != 3 or given.shape[1:] != (len(self.symbols), 3):
            raise MDError(
                f"positions must have shape (frames, {len(self.symbols)}, 3) for "
                f"{''.join(self.symbols)}, got {given.shape}"
            )
        if not np.isfinite(given).all():
            raise MDError("positions must be finite numbers in Å, got nan or inf")
        if key is None and not self.exact:
            key = jax.random.key(0)
        energies, forces = self.model.batch(self.params, jnp.asarray(given), key)
        return np.asarray(energies), np.asarray(forces)

    def estimates(self, positions: np.ndarray, seed: int, repeats: int) -> "Estimates":
        """Means and standard errors of independent estimates, for a backend with shots.

        Args:
            positions: (N, A, 3) in Å.
            seed: of all draws.
            repeats: how many estimates there are of each frame, 2 at least.
        """
        if repeats < 2:
            raise MDError(f"a standard error needs two estimates at least, got {repeats}")
        keys = jax.random.split(jax.random.key(seed), repeats)
        found = [self.energy_and_forces(positions, key) for key in keys]
        energies, forces = (np.array(part) for part in zip(*found, strict=True))
        root = np.sqrt(repeats)
        return Estimates(
            energies.mean(axis=0),
            forces.mean(axis=0),
            energies.std(axis=0, ddof=1) / root,
            forces.std(axis=0, ddof=1) / root,
        )

    @property
    def exact(self) -> bool:
        """Whether energies and forces are exact, or estimates."""
        return self.model.exact

    def save(self, path: str | Path) -> None:
        """Writes the potential as JSON, digits and all; the backend's name only, never its secrets.

        The file is complete or not there: it is written beside the path and moved.
        """
        content = {
            "format": FORMAT,
            "symbols": self.symbols,
            "model": self.model.recipe.model_dump(mode="json", exclude_none=True),
            "scaling": asdict(self.model.scaling),
            "spread": asdict(self.spread),
            "weights": self.params,
            "facts": self.facts,
        }
        write_atomically(Path(path), json.dumps(content, default=_plain, indent=1) + "\n")


@dataclass(frozen=True)
class Estimates:
    """Energies and forces with their standard errors.

    Attributes:
        energies, energy_errors: (N,) in eV.
        forces, force_errors: (N, A, 3) in eV/Å.
    """

    energies: np.ndarray
    forces: np.ndarray
    energy_errors: np.ndarray
    force_errors: np.ndarray


def _plain(value: Any) -> Any:
    return np.asarray(value).tolist()


def load(path: str | Path, backend: Backend = None) -> Potential:
    """The potential that `Potential.save` has written, on any backend.

    Raises:
        MDError: the file is not there, or holds something else.
    """
    try:
        content = json.loads(Path(path).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise MDError(f"{path} cannot be read as a potential: {error}") from error
    if not isinstance(content, dict) or content.get("format") != FORMAT:
        raise MDError(f"{path} is no {FORMAT}. Write one by train.py")
    try:
        model = Model(
            tuple(content["symbols"]),
            checked(Recipe, content["model"], str(path)),
            Scaling(**{k: np.array(v)[()] for k, v in content["scaling"].items()}),
            backend,
        )
        spread = Spread(**{k: np.array(v, float) for k, v in content["spread"].items()})
        params = _weights(model, content["weights"])
        facts = content["facts"]
    except (KeyError, TypeError) as error:
        raise MDError(f"{path} is damaged: {error!r}. Train again, by train.py") from error
    return Potential(model, params, spread, facts)


def _weights(model: Model, found: dict[str, Any]) -> Params:
    """The weights of a file as the model's.

    Raises:
        MDError: some are missing, too many, of another shape, or not finite.
    """
    first = model.initial(0)

    def weight(path: tuple[Any, ...], like: jax.Array) -> jax.Array:
        name, value = jax.tree_util.keystr(path), found
        for entry in path:
            value = value[entry.key if hasattr(entry, "key") else entry.idx]
        array = np.array(value, float)
        shape = (*array.shape[:1], *like.shape[1:]) if 0 in like.shape[:1] else like.shape
        if array.shape != shape or not np.isfinite(array).all():
            raise MDError(
                f"weights{name} must be finite numbers of shape {shape}, got {array.shape}"
            )
        return jnp.asarray(array)

    return jax.tree_util.tree_map_with_path(weight, first)
