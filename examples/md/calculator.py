"""A trained potential as an ASE calculator, for every optimiser and integrator of ASE.

from calculator import HybridCalculator
atoms.calc = HybridCalculator("h3o.json")
BFGS(atoms).run(fmax=0.01)
"""

import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from ase import Atoms
from ase.calculators.calculator import Calculator, all_changes
from frames import check_overlap
from potentials import Potential, load
from problems import ExtrapolationWarning, MDError
from symmetry import pairs

REPEATS = 8


class HybridCalculator(Calculator):
    """Energy in eV and forces in eV/Å, the exact negative gradient of that energy.

    Atoms may be in any order: like atoms are alike to a potential. Outside of the distances that it
    was trained on it warns, once until the atoms are back inside.

    On a backend with shots, results are means of `repeats` independent estimates, and there are
    "energy_error" and "forces_error", their standard errors. They are drawn anew at every geometry,
    from `seed` and the number of the evaluation; other seeds share none of the draws.

    Args:
        potential: a Potential, or the file of one.
        backend: what runs the circuits, for a file: a name or table that qml knows.
        repeats: estimates of a geometry on a backend with shots, 2 at least.
        seed: of their draws.

    Attributes:
        extrapolation: Å by which the worst distance of the last geometry left the trained range.
        noisy: whether the backend has shots or noise.
        evaluations: how many geometries were computed.

    Raises:
        MDError: the file holds no potential, or repeats are too few.
    """

    implemented_properties: ClassVar[list[str]] = ["energy", "free_energy", "forces"]

    def __init__(
        self,
        potential: Potential | str | Path,
        backend: str | dict[str, Any] | None = None,
        repeats: int = REPEATS,
        seed: int = 0,
    ) -> None:
        super().__init__()
        if not isinstance(potential, Potential):
            potential = load(potential, backend)
        elif backend is not None:
            raise MDError("a Potential has its backend: load it with another, or give its file")
        if repeats < 2:
            raise MDError(f"repeats must be at least 2 to tell standard errors, got {repeats}")
        self.potential, self.repeats, self.seed = potential, repeats, seed
        self.noisy = not potential.exact
        self.extrapolation, self.evaluations = 0.0, 0

    def calculate(
        self,
        atoms: Atoms | None = None,
        properties: Sequence[str] = ("energy",),
        system_changes: Sequence[str] = tuple(all_changes),
    ) -> None:
        """Fills `results`.

        Raises:
            MDError: other atoms than the potential is for, a periodic cell, positions that are not
                finite, or atoms on top of each other.
        """
        super().calculate(atoms, properties, system_changes)
        assert self.atoms is not None
        if self.atoms.pbc.any():
            raise MDError(
                "the potential is for one molecule in vacuum, but the atoms are periodic. Set "
                "atoms.pbc = False"
            )
        symbols = tuple(self.atoms.get_chemical_symbols())
        order = matching(self.potential.symbols, symbols)
        if not np.isfinite(self.atoms.positions).all():
            raise MDError("positions must be finite numbers in Å, got nan or inf")
        check_overlap(symbols, self.atoms.positions, "geometry")
        positions = self.atoms.positions[order]
        self._warn_outside(positions, order)
        back = np.argsort(order)
        if self.noisy:
            drawn = draws_of(self.seed, self.evaluations)
            found = self.potential.estimates(positions[None], drawn, self.repeats)
            energies, forces = found.energies, found.forces
            self.results["energy_error"] = float(found.energy_errors[0])
            self.results["forces_error"] = found.force_errors[0][back]
        else:
            energies, forces = self.potential.energy_and_forces(positions[None])
        self.evaluations += 1
        self.results["energy"] = self.results["free_energy"] = float(energies[0])
        self.results["forces"] = forces[0][back]

    def _warn_outside(self, positions: np.ndarray, order: np.ndarray) -> None:
        """Warns where the atoms leave the trained range, not while they stay outside.

        Positions (A, 3) are in the potential's order; `order` (A,) has their numbers as given.
        """
        outside = self.potential.spread.outside(positions)
        before, self.extrapolation = self.extrapolation, float(outside.max())
        if self.extrapolation > 0 and before == 0:
            worst = int(outside.argmax())
            i, j = pairs(len(positions))[worst]
            distance = float(np.linalg.norm(positions[i] - positions[j]))
            spread, symbols = self.potential.spread, self.potential.symbols
            warnings.warn(
                f"the distance of atoms {order[i]} ({symbols[i]}) and {order[j]} ({symbols[j]}), "
                f"{distance:.3f} Å, is "
                f"{self.extrapolation:.3f} Å outside of what the potential was trained on, "
                f"{spread.low[worst]:.3f} to {spread.high[worst]:.3f} Å: its energy is a guess",
                ExtrapolationWarning,
                stacklevel=4,
            )


def draws_of(seed: int, evaluation: int) -> int:
    """The seed of one evaluation: a sum of both would give neighbouring seeds the same draws."""
    (word,) = np.random.SeedSequence([seed, evaluation]).generate_state(1, np.uint64)
    return int(word >> np.uint64(1))  # JAX takes 63 bits


def matching(wanted: tuple[str, ...], given: tuple[str, ...]) -> np.ndarray:
    """(A,) numbers of the given atoms in the order of those wanted, like atoms as they come.

    Raises:
        MDError: these are other atoms.
    """
    if sorted(wanted) != sorted(given):
        raise MDError(
            f"the potential is for the atoms {' '.join(wanted)}, but these are {' '.join(given)}. "
            "Train one for them"
        )
    places = {symbol: [k for k, s in enumerate(given) if s == symbol] for symbol in set(wanted)}
    return np.array([places[symbol].pop(0) for symbol in wanted])
