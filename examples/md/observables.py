"""What is read off a run: drift and fluctuation of the energy, spectra, bonds and angles."""

from dataclasses import dataclass

import numpy as np
from ase.data import atomic_numbers, covalent_radii
from problems import MDError
from scipy import constants
from symmetry import pairs

BONDED = 1.3
"""Of the sum of covalent radii: nearer pairs of atoms are bonds."""


@dataclass(frozen=True)
class Conservation:
    """How well a run without a bath conserves its energy.

    Attributes:
        drift: meV/atom/ps, the slope of a straight line through the total energy.
        ratio: the drift over the whole run by the standard deviation of the kinetic energy, as
            mlipaudit scores it.
        fluctuation: meV/atom, the standard deviation about that line.
    """

    drift: float
    ratio: float
    fluctuation: float


def conservation(
    times: np.ndarray, total: np.ndarray, kinetic: np.ndarray, atoms: int
) -> Conservation:
    """Of times (T,) in fs, total and kinetic energies (T,) in eV.

    Raises:
        MDError: fewer than three times.
    """
    if len(times) < 3:
        raise MDError(f"a drift needs three times at least, got {len(times)}")
    picoseconds = np.asarray(times) * 1e-3
    slope, start = np.polyfit(picoseconds, total, 1)
    rest = total - (slope * picoseconds + start)
    spread = float(np.std(kinetic))
    whole = slope * (picoseconds[-1] - picoseconds[0])
    return Conservation(
        1e3 * float(slope) / atoms,
        abs(float(whole)) / spread if spread > 0 else np.nan,
        1e3 * float(np.std(rest)) / atoms,
    )


def spectrum(
    velocities: np.ndarray, masses: np.ndarray, interval: float
) -> tuple[np.ndarray, np.ndarray]:
    """Wavenumbers (W,) in 1/cm and the vibrational density of states (W,), which sums to one.

    The power spectrum of mass-weighted velocities (T, A, 3) kept every `interval` fs, under a Hann
    window: the Fourier transform of their autocorrelation (Wiener and Khinchin).

    Raises:
        MDError: fewer than 16 times.
    """
    if len(velocities) < 16:
        raise MDError(f"a spectrum needs 16 times at least, got {len(velocities)}")
    window = np.hanning(len(velocities))[:, None, None]
    weighted = np.sqrt(masses)[None, :, None] * velocities * window
    power = np.sum(np.abs(np.fft.rfft(weighted, axis=0)) ** 2, axis=(1, 2))
    per_second = np.fft.rfftfreq(len(velocities), interval * constants.femto)
    return per_second / (100 * constants.c), power / power.sum()


def bonds(symbols: tuple[str, ...], positions: np.ndarray) -> list[tuple[int, int]]:
    """The bonds of a geometry (A, 3), by covalent radii."""
    radius = [covalent_radii[atomic_numbers[s]] for s in symbols]
    return [
        (i, j)
        for i, j in pairs(len(symbols))
        if np.linalg.norm(positions[i] - positions[j]) < BONDED * (radius[i] + radius[j])
    ]


def bond_lengths(bonds_: list[tuple[int, int]], positions: np.ndarray) -> np.ndarray:
    """(T, B) in Å, in frames (T, A, 3)."""
    first, second = np.array(bonds_).reshape(-1, 2).T
    return np.linalg.norm(positions[:, first] - positions[:, second], axis=-1)


def angles(bonds_: list[tuple[int, int]]) -> list[tuple[int, int, int]]:
    """End, middle and end of every two bonds that share an atom."""
    found = []
    for k, one in enumerate(bonds_):
        for other in bonds_[k + 1 :]:
            if shared := set(one) & set(other):
                (middle,) = shared
                (a,), (b,) = set(one) - shared, set(other) - shared
                found.append((a, middle, b))
    return found


def angle_degrees(angles_: list[tuple[int, int, int]], positions: np.ndarray) -> np.ndarray:
    """(T, G) in degrees, in frames (T, A, 3)."""
    first, middle, second = np.array(angles_).reshape(-1, 3).T
    one, other = (
        positions[:, first] - positions[:, middle],
        positions[:, second] - positions[:, middle],
    )
    sine = np.linalg.norm(np.cross(one, other), axis=-1)
    return np.degrees(np.arctan2(sine, np.sum(one * other, axis=-1)))
