"""Units told by their size: what is no length in Å, energy in eV or force in eV/Å is refused.

Lengths: an atom's nearest neighbour is about as far as the sum of their covalent radii; in bohr it
would seem 1.9 times as far, in nm a tenth.

Forces: the force that holds a bond grows as it is stretched, by its stiffness, which for bonds
between any two elements lies within a known range in eV/Å²; a gradient in place of a force has the
other sign.

Energies: a sum of functions of the distances, fitted to the forces alone, tells how the energy
changes from frame to frame. Another slope than one between that and the labels is a unit.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from ase import units
from ase.data import atomic_numbers, covalent_radii
from problems import MDError
from symmetry import pair_kinds, pairs

if TYPE_CHECKING:
    from frames import Frames

LENGTHS = 0.55, 1.5
"""Of nearest neighbours over the sum of covalent radii: what is in Å lies between."""
STIFFNESS = {True: (2.5, 75.0), False: (1.05, 170.0)}
"""eV/Å² of a bond, with a hydrogen in it or without; KH has 3.5, HF 60, Li2 1.6, N2 143."""
STRETCHED = 1.2
"""Of the sum of covalent radii: where longer, it is no bond, or one that breaks."""
NEAR = 0.3
"""Å, how far from its relaxed length a bond is looked at."""
SLOPES = 0.6, 1.65
"""Of labelled energies over those that the forces tell: what is consistent lies between."""
FEWEST, ENOUGH = 8, 20
"""Frames, below which forces are not judged, nor energies."""
DECIDED = 0.8
"""The correlation, above which a slope is believed."""

KCAL = units.kcal / units.mol
KJ = units.kJ / units.mol
ENERGIES = {"hartree": units.Hartree, "kcal/mol": KCAL, "kJ/mol": KJ, "1/cm": units.invcm}
FORCES = {
    "hartree/bohr": units.Hartree / units.Bohr,
    "hartree/Å": units.Hartree,
    "eV/bohr": 1 / units.Bohr,
    "kcal/mol/Å": KCAL,
    "kJ/mol/Å": KJ,
    "kJ/mol/nm": KJ / 10,
}
"""Name -> its size in eV, or in eV/Å."""


def check_units(frames: Frames, source: str) -> None:
    """Refuses positions, forces and energies whose size tells that they are not in Å and eV.

    Raises:
        MDError: naming the unit that it looks like.
    """
    if len(frames.symbols) < 2:
        return
    _check_lengths(frames, source)
    if len(frames) >= FEWEST:
        _check_forces(frames, source)
    if len(frames) >= ENOUGH:
        _check_energies(frames, source)


def _distances(frames: Frames) -> tuple[np.ndarray, np.ndarray]:
    """(N, P) distances in Å, (N, P, 3) directions from the first atom of a pair to the second."""
    first, second = np.array(pairs(len(frames.symbols))).T
    between = frames.positions[:, second] - frames.positions[:, first]
    r = np.linalg.norm(between, axis=-1)
    return r, between / np.maximum(r, 1e-12)[..., None]


def _radii(symbols: tuple[str, ...]) -> np.ndarray:
    """(P,) sums of covalent radii in Å."""
    own = np.array([covalent_radii[atomic_numbers[s]] for s in symbols])
    return np.array([own[i] + own[j] for i, j in pairs(len(symbols))])


def _check_lengths(frames: Frames, source: str) -> None:
    r, _ = _distances(frames)
    relative = r / _radii(frames.symbols)
    near = [relative[:, [k in pair for pair in pairs(len(frames.symbols))]].min(axis=1)
            for k in range(len(frames.symbols))]  # fmt: skip
    typical = float(np.quantile(near, 0.25))  # of frames that are taken apart, the nearer
    if LENGTHS[0] < typical < LENGTHS[1]:
        return
    unit = "bohr" if typical > LENGTHS[1] else "nm"
    raise MDError(
        f"{source}: positions seem to be in {unit}, not in Å: the nearest neighbours of atoms are "
        f"{typical:.2f} times the sum of their covalent radii apart. Convert them to Å"
    )


@dataclass(frozen=True)
class Line:
    """A straight line through points: its slope, and their correlation."""

    slope: float
    correlation: float


def _line(x: np.ndarray, y: np.ndarray) -> Line:
    x, y = x - x.mean(), y - y.mean()
    xx, yy, xy = float(x @ x), float(y @ y), float(x @ y)
    if xx * yy <= 0:
        return Line(0.0, 0.0)
    return Line(xy / xx, xy / np.sqrt(xx * yy))


def _check_forces(frames: Frames, source: str) -> None:
    """The stiffness of every kind of bond, by the force on its lighter atom along it."""
    r, direction = _distances(frames)
    kinds, radii = pair_kinds(frames.symbols), _radii(frames.symbols)
    weights = [atomic_numbers[s] for s in frames.symbols]
    for kind in range(kinds.max() + 1):
        of_kind = np.flatnonzero(
            (kinds == kind) & (np.quantile(r, 0.1, axis=0) < STRETCHED * radii)
        )
        if not len(of_kind):
            continue
        lengths, pulls = [], []
        for k in of_kind:
            i, j = pairs(len(frames.symbols))[k]
            light, sign = (j, 1.0) if weights[j] <= weights[i] else (i, -1.0)
            lengths.append(r[:, k])
            pulls.append(-sign * np.sum(frames.forces[:, light] * direction[:, k], axis=1))
        length, pull = np.concatenate(lengths), np.concatenate(pulls)
        # About the length at which nothing pulls: where a bond is long it softens, and breaks.
        short = length < STRETCHED * radii[of_kind[0]]
        if not short.any():
            continue
        length, pull = length[short], pull[short]
        slack = np.median(length[np.argsort(np.abs(pull))[: 1 + len(pull) // 5]])
        near = np.abs(length - slack) < NEAR
        line = _line(length[near], pull[near])
        if abs(line.correlation) < DECIDED:
            continue
        i, j = pairs(len(frames.symbols))[of_kind[0]]
        bond = f"{frames.symbols[i]}-{frames.symbols[j]}"
        low, high = STIFFNESS["H" in (frames.symbols[i], frames.symbols[j])]
        if line.slope < 0:
            raise MDError(
                f"{source}: forces seem to be gradients, of the other sign: they lengthen "
                f"{bond} bonds that are long already. A force is minus the derivative of the energy"
            )
        if not low < line.slope < high:
            raise MDError(
                f"{source}: forces are not in eV/Å: a {bond} bond would have a stiffness of "
                f"{line.slope:.3g} eV/Å², but such bonds have {low:g} to {high:g}. "
                f"{_likely(FORCES, line.slope, low, high, 'eV/Å')}"
            )


def _likely(table: dict[str, float], found: float, low: float, high: float, unit: str) -> str:
    """The units of a table that would make a number one between low and high."""
    names = [name for name, size in table.items() if low < found * size < high]
    if not names:
        return f"Convert them to {unit}"
    return f"They may be in {' or '.join(names)}: convert them to {unit}"


def _check_energies(frames: Frames, source: str) -> None:
    """Energies against those of a fit to the forces."""
    told = _by_forces(frames)
    line = _line(told, frames.energies)
    if abs(line.correlation) < DECIDED:
        return
    low, high = SLOPES
    if low < line.slope < high:
        return
    if -high < line.slope < -low:
        raise MDError(
            f"{source}: energies fall where forces say that they rise. A force is minus the "
            "derivative of the energy: change the sign of one of them"
        )
    raise MDError(
        f"{source}: energies and forces do not belong together: energies change by "
        f"{line.slope:.3g} times what the forces say. "
        f"{_likely(ENERGIES, abs(line.slope), low, high, 'eV, and forces to eV/Å')}"
    )


def _by_forces(frames: Frames) -> np.ndarray:
    """(N,) energies up to a constant, of sums of exp(-m r / 1 Å) over pairs of each kind."""
    r, direction = _distances(frames)
    kinds, count = pair_kinds(frames.symbols), len(frames)
    first, second = np.array(pairs(len(frames.symbols))).T
    values, columns = [], []
    for kind in range(kinds.max() + 1):
        of_kind = kinds == kind
        for power in (0.5, 1.0, 1.5, 2.0):
            decay = np.exp(-power * (r[:, of_kind] - r[:, of_kind].mean()))
            values.append(decay.sum(axis=1))
            push = (power * decay)[..., None] * direction[:, of_kind]
            forces = np.zeros_like(frames.positions)
            np.add.at(forces, (slice(None), second[of_kind]), push)
            np.add.at(forces, (slice(None), first[of_kind]), -push)
            columns.append(forces.reshape(-1))
    design = np.array(columns).T
    size = np.linalg.norm(design, axis=0)
    weights, *_ = np.linalg.lstsq(design / size, frames.forces.reshape(-1), rcond=1e-8)
    found: np.ndarray = np.array(values).T.reshape(count, -1) @ (weights / size)
    return found
