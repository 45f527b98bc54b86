"""What the level of theory itself says of a molecule: its geometry and harmonic frequencies."""

import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from accuracy import wavenumbers
from ase.data import atomic_masses, atomic_numbers
from files import write_atomically
from levels import Level
from molecules import Molecule
from problems import MDError
from scipy.optimize import minimize

STEP = 0.005
"""Å, of the central differences of forces."""


@dataclass(frozen=True)
class Reference:
    """A relaxed geometry.

    Attributes:
        level: of theory, in words.
        symbols: (A,) the atoms.
        positions: (A, 3) in Å.
        energy: eV.
        frequencies: (3A - 6,) in 1/cm, rising; (3A - 5,) of a linear molecule.
    """

    level: str
    symbols: tuple[str, ...]
    positions: np.ndarray
    energy: float
    frequencies: np.ndarray

    @property
    def masses(self) -> np.ndarray:
        """(A,) in amu, of the elements as they occur in nature."""
        return np.array([atomic_masses[atomic_numbers[s]] for s in self.symbols])


def write_reference(path: Path, reference: Reference) -> None:
    """Writes it as JSON."""
    content = {
        "level": reference.level,
        "symbols": list(reference.symbols),
        "positions": np.round(reference.positions, 8).tolist(),
        "energy": reference.energy,
        "frequencies": np.round(reference.frequencies, 3).tolist(),
    }
    write_atomically(path, json.dumps(content, indent=1) + "\n")


def read_reference(path: Path) -> Reference:
    """What `write_reference` has written.

    Raises:
        MDError: the file is not there, or holds something else.
    """
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
        return Reference(
            str(found["level"]),
            tuple(found["symbols"]),
            np.array(found["positions"], float),
            float(found["energy"]),
            np.array(found["frequencies"], float),
        )
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise MDError(f"{path} holds no reference: {error!r}. Make it by generate.py") from error


def compute_reference(molecule: Molecule, level: Level) -> Reference:
    """The minimum of a level near the molecule's start, and its frequencies there.

    Frequencies are of central differences of analytic forces, two evaluations per coordinate.

    Raises:
        RuntimeError: no minimum was found, or a point does not converge.
    """
    shape = np.shape(molecule.start)

    def energy_and_slope(flat: np.ndarray) -> tuple[float, np.ndarray]:
        energy, forces = level.label(molecule, flat.reshape(shape))
        return energy, -np.ravel(forces)

    found = minimize(
        energy_and_slope, np.ravel(molecule.start), jac=True, method="BFGS", options={"gtol": 1e-5}
    )
    if np.abs(found.jac).max() > 1e-3:
        raise RuntimeError(f"{molecule.name} does not relax at {level.title}: {found.message}")
    r = found.x
    moves = STEP * np.eye(r.size)
    hessian = np.array(
        [
            (energy_and_slope(r + move)[1] - energy_and_slope(r - move)[1]) / (2 * STEP)
            for move in moves
        ]
    )
    masses = np.array([atomic_masses[atomic_numbers[s]] for s in molecule.symbols])
    positions = r.reshape(shape) - r.reshape(shape).mean(axis=0)
    return Reference(
        level.title,
        molecule.symbols,
        positions,
        float(found.fun),
        wavenumbers((hessian + hessian.T) / 2, positions, masses),
    )
