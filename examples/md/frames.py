"""Frames of one molecule: positions, energies and forces, and the extxyz files that hold them.

Energies are in eV under REF_energy, forces in eV/Å under REF_forces, temperatures in K under
temperature_K. The plain names energy and forces are not used for writing, because ASE takes them
out of the frame and into a calculator; they are found there when a file has nothing else.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import ase.io
import numpy as np
from ase import Atoms
from ase.data import atomic_numbers, covalent_radii
from magnitudes import check_units
from problems import MDError
from symmetry import pairs

ENERGY, FORCES, TEMPERATURE = "REF_energy", "REF_forces", "temperature_K"

OVERLAP = 0.4
"""Of the sum of covalent radii: nearer than that no two atoms come below many thousand kelvin."""


@dataclass(frozen=True)
class Frames:
    """N geometries of the same A atoms, with their labels.

    Attributes:
        symbols: (A,) chemical symbols, in the order of all arrays.
        positions: (N, A, 3) in Å.
        energies: (N,) in eV.
        forces: (N, A, 3) in eV/Å.
        temperatures: (N,) in K, of the bath they were sampled from; nan where that is not known.
    """

    symbols: tuple[str, ...]
    positions: np.ndarray
    energies: np.ndarray
    forces: np.ndarray
    temperatures: np.ndarray

    def __len__(self) -> int:
        return len(self.energies)

    def __getitem__(self, index: Any) -> "Frames":
        """Some of the frames: by a slice, or an array of numbers or of truths."""
        arrays = (self.positions, self.energies, self.forces, self.temperatures)
        return Frames(self.symbols, *(array[index] for array in arrays))


def read(path: str | Path, *, energy_key: str = ENERGY, forces_key: str = FORCES) -> Frames:
    """The labelled frames of an extxyz file, checked.

    Args:
        energy_key, forces_key: under which the labels are found; where none of the frames has
            them, those are taken that ASE itself understands, energy and forces.

    Raises:
        MDError: the file cannot be read or is empty, labels are missing, frames differ in their
            atoms, numbers are not finite, atoms overlap, or units or signs are wrong.
    """
    try:
        images: list[Atoms] = ase.io.read(path, index=":", format="extxyz")
    except (OSError, ValueError, KeyError, IndexError, StopIteration, AssertionError) as error:
        raise MDError(
            f"{path} cannot be read as extxyz: {type(error).__name__}: {error}"
        ) from error
    if not images:
        raise MDError(f"{path} holds no frames")
    symbols = tuple(images[0].get_chemical_symbols())
    for number, image in enumerate(images):
        if tuple(image.get_chemical_symbols()) != symbols:
            raise MDError(
                f"{path}: frame {number} has the atoms {image.get_chemical_formula('reduce')}, the "
                f"first one {images[0].get_chemical_formula('reduce')}. A potential is for one "
                "molecule, its atoms always in the same order: sort or split the file"
            )
    found = [_labels(image, energy_key, forces_key) for image in images]
    _check_labels(path, images, found, energy_key, forces_key)
    frames = Frames(
        symbols,
        np.array([image.positions for image in images], float),
        np.array([energy for energy, _ in found], float),
        np.array([forces for _, forces in found], float),
        np.array([image.info.get(TEMPERATURE, np.nan) for image in images], float),
    )
    check(frames, str(path))
    return frames


def write(path: str | Path, frames: Frames, **facts: str) -> None:
    """Writes frames as extxyz, with `facts` beside the labels of every frame.

    Positions and forces have 8 decimals, in Å and eV/Å.
    """
    images = []
    for k in range(len(frames)):
        image = Atoms(frames.symbols, positions=frames.positions[k])
        image.info = {ENERGY: float(frames.energies[k]), **facts}
        if np.isfinite(frames.temperatures[k]):
            image.info[TEMPERATURE] = float(frames.temperatures[k])
        image.arrays[FORCES] = frames.forces[k]
        images.append(image)
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    ase.io.write(path, images, format="extxyz")


def _labels(image: Atoms, energy_key: str, forces_key: str) -> tuple[Any, Any]:
    """Energy and forces of a frame; None where it has none."""
    energy, forces = image.info.get(energy_key), image.arrays.get(forces_key)
    if energy is None and forces is None and image.calc is not None:
        results = image.calc.results
        return results.get("energy"), results.get("forces")
    return energy, forces


def _check_labels(
    path: str | Path, images: list[Atoms], found: list[Any], energy_key: str, forces_key: str
) -> None:
    for what, key, place in (("energy", energy_key, 0), ("forces", forces_key, 1)):
        lacking = [number for number, labels in enumerate(found) if labels[place] is None]
        if lacking:
            image = images[lacking[0]]
            known = [*image.info, *image.arrays]
            if image.calc is not None:
                known += image.calc.results
            raise MDError(
                f"{path}: {len(lacking)} of {len(images)} frames, the first of them frame "
                f"{lacking[0]}, have no {what} under {key}, nor under {what}. There are "
                f"{', '.join(known)}. Name the key that holds it: --{what}-key"
            )
        shapes = {np.shape(labels[place]) for labels in found}
        wanted = () if place == 0 else (len(images[0]), 3)
        if shapes != {wanted}:
            raise MDError(f"{path}: {key} must have shape {wanted} in every frame, got {shapes}")


def check(frames: Frames, source: str) -> None:
    """Refuses what no potential can be trained on.

    Raises:
        MDError: numbers that are not finite, overlapping atoms, units or signs that are wrong.
    """
    for name in ("positions", "energies", "forces"):
        array = getattr(frames, name)
        broken = ~np.isfinite(array).reshape(len(frames), -1).all(axis=1)
        if broken.any():
            raise MDError(
                f"{source}: the {name} of {broken.sum()} frames are not finite, the first of them "
                f"frame {int(np.argmax(broken))}. Leave these out"
            )
    check_units(frames, source)
    for number, positions in enumerate(frames.positions):
        check_overlap(frames.symbols, positions, f"{source}: frame {number}")


def check_overlap(symbols: tuple[str, ...], positions: np.ndarray, source: str) -> None:
    """Refuses atoms on top of each other, at positions (A, 3) in Å.

    Raises:
        MDError: two are nearer than a part of their covalent radii.
    """
    for i, j in pairs(len(symbols)):
        distance = float(np.linalg.norm(positions[i] - positions[j]))
        radii = sum(float(covalent_radii[atomic_numbers[symbols[k]]]) for k in (i, j))
        if distance < OVERLAP * radii:
            raise MDError(
                f"{source}: atoms {i} ({symbols[i]}) and {j} ({symbols[j]}) overlap, "
                f"{distance:.3f} Å apart. Positions must be in Å, and atoms in different places"
            )
