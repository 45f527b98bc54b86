"""Units told by their size: what is no length in Å, energy in eV or force in eV/Å is refused.

Lengths: an atom's nearest neighbour is about as far as the sum of their covalent radii; in bohr it
would seem 1.9 times as far, in nm a tenth.

Forces: the force that holds a bond grows as it is stretched, by a stiffness that follows from its
relaxed length within some tens of percent (Badger's rule); a gradient in place of a force has the
other sign. Units differ by factors of 23 or more from eV/Å, where energies agree with them.

Energies: between two neighbouring frames the energy falls by the work of the forces. Another ratio
than one is a unit; this tells even those apart that differ by 1.9, as eV/bohr does.
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
BADGER = 1.86 * 6.2415
"""eV Å: of the rule k = BADGER / (r - d_i - d_j)³ (R. M. Badger, J. Chem. Phys. 2, 128 (1934))."""
CORES = 0.01, 0.33, 0.58, 0.65, 0.78, 0.85
"""Å, d of an element by its period, so that diatomics from H2 to I2 come out within 40 %."""
STIFFNESS = 0.21, 4.8
"""Of the stiffness over that of the rule: halfway by factors to hartree (27), kcal/mol (23)."""
STRETCHED = 1.3
"""Of the sum of covalent radii: where longer, it is no bond, or one that breaks."""
NEAR = 0.3
"""Å, how far from its relaxed length a bond is looked at."""
SOFTENING = 2.0
"""1/Å, of the Morse curve whose force is taken for a bond's; from 1.1 of LiH to 2.7 of N2."""
WORK = 1.37
"""Of the change of energies over the work, or its inverse: halfway, by factors, to 1.89."""
NEIGHBOURS = 4
"""Other frames that every frame is compared with."""
ENOUGH = 200
"""Frames, of which no more are compared."""
FEWEST = 8
"""Frames, below which forces are not judged."""
FEWEST_LINKED = 20
"""Frames, below which energies are not: their neighbours are too far for the rule of the work."""
SAME = 1e-3
"""Å, frames nearer than that are the same one, and tell nothing."""
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
    if len(frames) >= FEWEST_LINKED:
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


def _expected(first: str, second: str, length: float) -> float:
    """The stiffness in eV/Å² of a bond of two elements with a relaxed length in Å."""
    ends = (2, 10, 18, 36, 54)  # the last element of a period
    cores = sum(CORES[sum(atomic_numbers[s] > end for end in ends)] for s in (first, second))
    return float(BADGER / max(length - cores, 0.2) ** 3)


def _check_forces(frames: Frames, source: str) -> None:
    """The stiffness of every kind of bond, by the force along it on the atom it holds.

    That is the one of fewer bonds, for on the other the others pull too; the lighter of two such.
    """
    r, direction = _distances(frames)
    kinds, radii = pair_kinds(frames.symbols), _radii(frames.symbols)
    bonded = np.quantile(r, 0.1, axis=0) < STRETCHED * radii
    ends = np.array(pairs(len(frames.symbols)))
    rank = [(np.sum(bonded & (ends == k).any(axis=1)), atomic_numbers[symbol])
            for k, symbol in enumerate(frames.symbols)]  # fmt: skip
    for kind in range(kinds.max() + 1):
        of_kind = np.flatnonzero((kinds == kind) & bonded)
        if not len(of_kind):
            continue
        lengths, pulls = [], []
        for k in of_kind:
            i, j = ends[k]
            held, sign = (j, 1.0) if rank[j] <= rank[i] else (i, -1.0)
            lengths.append(r[:, k])
            pulls.append(-sign * np.sum(frames.forces[:, held] * direction[:, k], axis=1))
        length, pull = np.concatenate(lengths), np.concatenate(pulls)
        # About the length at which nothing pulls: where a bond is long it softens, and breaks.
        short = length < STRETCHED * radii[of_kind[0]]
        if not short.any():
            continue
        length, pull = length[short], pull[short]
        slack = float(np.median(length[np.argsort(np.abs(pull))[: 1 + len(pull) // 5]]))
        near = np.abs(length - slack) < NEAR
        if near.sum() < 3:
            continue
        decay = np.exp(-SOFTENING * (length[near] - slack))
        line = _line(decay * (1 - decay) / SOFTENING, pull[near])
        if abs(line.correlation) < DECIDED:
            continue
        first, second = (frames.symbols[k] for k in ends[of_kind[0]])
        if line.slope < 0:
            raise MDError(
                f"{source}: forces seem to be gradients, of the other sign: they lengthen "
                f"{first}-{second} bonds that are long already. A force is minus the derivative of "
                "the energy"
            )
        low, high = (share * _expected(first, second, slack) for share in STIFFNESS)
        if not low < line.slope < high:
            raise MDError(
                f"{source}: forces are not in eV/Å: a {first}-{second} bond of {slack:.2f} Å would "
                f"have a stiffness of {line.slope:.3g} eV/Å², but such bonds have {low:.2g} to "
                f"{high:.2g}. {_likely(FORCES, line.slope, low, high, 'eV/Å')}"
            )


def _likely(table: dict[str, float], found: float, low: float, high: float, unit: str) -> str:
    """The units of a table that would make a number one between low and high."""
    names = [name for name, size in table.items() if low < found * size < high]
    if not names:
        return f"Convert them to {unit}"
    return f"They may be in {' or '.join(names)}: convert them to {unit}"


def _check_energies(frames: Frames, source: str) -> None:
    """The change of energies between neighbouring frames against the work of the forces."""
    change, work = _neighbours(frames)
    both = float(np.sqrt(np.sum(change**2) * np.sum(work**2)))
    if both <= 0 or abs(float(change @ work)) < DECIDED * both:
        return
    # The ratio of sizes, not a regression: neither of the two is free of errors.
    ratio = float(np.sqrt(np.sum(change**2) / np.sum(work**2)))
    if 1 / WORK < ratio < WORK and change @ work > 0:
        return
    if 1 / WORK < ratio < WORK:
        raise MDError(
            f"{source}: energies fall where forces say that they rise. A force is minus the "
            "derivative of the energy: change the sign of one of them"
        )
    raise MDError(
        f"{source}: energies and forces do not belong together: energies change by "
        f"{ratio:.3g} times what the forces say. "
        f"{_likely(ENERGIES, ratio, 1 / WORK, WORK, 'eV, and forces to eV/Å')}"
    )


def _neighbours(frames: Frames) -> tuple[np.ndarray, np.ndarray]:
    """Differences of energies between frames and those next to them, and minus the work.

    The work is by the mean of both forces along the way (the trapezoidal rule), after the second
    frame is turned or reflected onto the first, which changes no energy. Both are over the square
    of the way's length, in eV/Å²: the rule's error grows with its cube, and far frames would rule.
    """
    some = frames[:: -(-len(frames) // ENOUGH)]
    r, _ = _distances(some)
    apart = np.linalg.norm(r[:, None] - r[None], axis=-1)
    np.fill_diagonal(apart, np.inf)
    nearest = np.argsort(apart, axis=1)[:, :NEIGHBOURS]
    links = {tuple(sorted((i, int(j)))) for i, row in enumerate(nearest) for j in row}
    one, other = np.array(sorted(links)).T
    centred = some.positions - some.positions.mean(axis=1, keepdims=True)
    left, _, right = np.linalg.svd(centred[other].transpose(0, 2, 1) @ centred[one])
    turn = left @ right  # rows times this: W. Kabsch, Acta Cryst. A 32, 922 (1976)
    way = centred[other] @ turn - centred[one]
    mean = (some.forces[one] + some.forces[other] @ turn) / 2
    square = np.sum(way**2, axis=(1, 2))
    new = square > SAME**2
    change, work = some.energies[other] - some.energies[one], -np.sum(mean * way, axis=(1, 2))
    return change[new] / square[new], work[new] / square[new]
