"""How good a potential is: errors of its energies and forces, and its harmonic frequencies.

Accuracy is 100 - 100 RMSE(F) / RMS(F_ref), in percent; R² stands beside it. They differ: forces
that are wrong by a tenth have an accuracy of 90 % and R² = 0.99.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
from frames import Frames
from problems import MDError
from scipy import constants

EnergyFunction = Callable[[jax.Array], jax.Array]

FORCE = 1e-6
"""eV/Å, below which the force on every atom is at a relaxed geometry."""
LONGEST = 0.2
"""Å, the length of the longest step of a relaxation."""
STEPS = 500
LINEAR = 1e-4
"""Of a molecule's extent, how far its atoms may be off a line for it to count as linear."""
SADDLE = 1e-4
"""eV/Å², how negative a curvature may be at what counts as a minimum."""


@dataclass(frozen=True)
class Errors:
    """Errors over the frames of a test set; those of forces are over their components.

    Attributes:
        energy_mae, energy_rmse: meV, without any shift: the potential's constant counts.
        force_mae, force_rmse, force_max: meV/Å.
        relative: percent, RMSE over the root mean square of the reference forces.
        energy_r2, force_r2: 1 - sum of squared errors / sum of squares about the mean; nan where
            the reference does not vary.
        elements: element -> RMSE of the forces on its atoms, meV/Å.
    """

    energy_mae: float
    energy_rmse: float
    force_mae: float
    force_rmse: float
    force_max: float
    relative: float
    energy_r2: float
    force_r2: float
    elements: dict[str, float]

    @property
    def accuracy(self) -> float:
        """Percent: 100 - relative."""
        return 100 - self.relative

    def table(self) -> str:
        """The errors in a few lines of text."""
        elements = "  ".join(f"{name} {value:.1f}" for name, value in self.elements.items())
        return "\n".join(
            (
                f"energies  MAE {self.energy_mae:.2f}  RMSE {self.energy_rmse:.2f} meV  "
                f"R² {self.energy_r2:.5f}",
                f"forces    MAE {self.force_mae:.1f}  RMSE {self.force_rmse:.1f}  "
                f"max {self.force_max:.1f} meV/Å  R² {self.force_r2:.5f}",
                f"          RMSE by element: {elements}",
                f"accuracy  {self.accuracy:.2f} % (relative force RMSE {self.relative:.2f} %)",
            )
        )


def errors(energies: np.ndarray, forces: np.ndarray, reference: Frames) -> Errors:
    """The errors of predicted energies (N,) in eV and forces (N, A, 3) in eV/Å.

    Raises:
        MDError: there are no frames, the shapes are not the reference's, or a prediction is not
            finite.
    """
    energies, forces = np.asarray(energies, float), np.asarray(forces, float)
    _check(energies, forces, reference)
    of_energies = 1e3 * (energies - reference.energies)
    of_forces = 1e3 * (forces - reference.forces)
    size = 1e3 * _rms(reference.forces)
    symbols = np.array(reference.symbols)
    return Errors(
        energy_mae=float(np.abs(of_energies).mean()),
        energy_rmse=_rms(of_energies),
        force_mae=float(np.abs(of_forces).mean()),
        force_rmse=_rms(of_forces),
        force_max=float(np.abs(of_forces).max()),
        relative=100 * _rms(of_forces) / size if size > 0 else np.nan,
        energy_r2=_r2(of_energies, 1e3 * reference.energies),
        force_r2=_r2(of_forces, 1e3 * reference.forces),
        elements={
            str(element): _rms(of_forces[:, symbols == element])
            for element in dict.fromkeys(reference.symbols)
        },
    )


def _check(energies: np.ndarray, forces: np.ndarray, reference: Frames) -> None:
    shapes = (energies.shape, forces.shape), (reference.energies.shape, reference.forces.shape)
    if shapes[0] != shapes[1]:
        raise MDError(
            f"predicted energies and forces must have the shapes {shapes[1]} of the reference, "
            f"got {shapes[0]}"
        )
    if not len(reference):
        raise MDError("there are no frames to tell errors of: give some")
    broken = ~(np.isfinite(energies) & np.isfinite(forces).all(axis=(1, 2)))
    if broken.any():
        raise MDError(
            f"{broken.sum()} of {len(broken)} predictions are not finite, the first for frame "
            f"{int(np.argmax(broken))}. Look at its geometry, or train again"
        )


def _rms(values: np.ndarray) -> float:
    return float(np.sqrt(np.mean(values**2)))


def _r2(errors_: np.ndarray, reference: np.ndarray) -> float:
    about = float(np.sum((reference - reference.mean()) ** 2))
    return 1 - float(np.sum(errors_**2)) / about if about > 0 else np.nan


def internal(positions: np.ndarray, masses: np.ndarray) -> np.ndarray:
    """(3A, n) an orthonormal basis of what is no translation and no rotation.

    It is in mass-weighted coordinates sqrt(m) R at positions (A, 3), for masses (A,); n is 3A - 6,
    or 3A - 5 where the atoms are on a line.
    """
    root = np.sqrt(masses)[:, None]
    about = positions - (masses @ positions) / masses.sum()
    axes = np.eye(3)
    moves = [root * axis for axis in axes] + [root * np.cross(axis, about) for axis in axes]
    rigid = np.array([np.broadcast_to(move, positions.shape).ravel() for move in moves])
    rigid[:3] /= np.sqrt(masses.sum())
    rigid[3:] /= max(float(np.linalg.norm(root * about)), 1e-300)
    _, size, right = np.linalg.svd(rigid)
    return right[int(np.sum(size > LINEAR)) :].T


def relax(energy_fn: EnergyFunction, start: np.ndarray) -> np.ndarray:
    """Positions (A, 3) in Å of the minimum downhill from `start`: no force above 1e-6 eV/Å there.

    Newton steps on the internal degrees of freedom, turned downhill where the curvature is negative
    and shortened until they help; a saddle point is left along its lowest mode.

    Args:
        energy_fn: positions (A, 3) in Å to an energy () in eV, a JAX function.

    Raises:
        MDError: energies or forces are not finite, or no minimum is found.
    """
    look = jax.jit(lambda r: (energy_fn(r), jax.grad(energy_fn)(r), jax.hessian(energy_fn)(r)))

    def at(r: np.ndarray) -> tuple[float, np.ndarray, np.ndarray]:
        energy, slope, curvature = map(np.asarray, look(jnp.asarray(r)))
        return float(energy), slope, curvature.reshape(r.size, r.size)

    r = np.array(start, float)
    energy, slope, curvature = at(r)
    longest = LONGEST
    for _ in range(STEPS):
        if not (np.isfinite(energy) and np.isfinite(slope).all() and np.isfinite(curvature).all()):
            raise MDError(f"energy or forces are not finite at {r.tolist()} Å. Start elsewhere")
        basis = internal(r, np.ones(len(r)))
        curvatures, modes = np.linalg.eigh(basis.T @ curvature @ basis)
        modes = basis @ modes
        if force(slope) < FORCE:
            if curvatures[0] > -SADDLE:
                return r
            step = LONGEST / 4 * modes[:, 0]
            energy, slope, curvature = at(r := r + step.reshape(r.shape))
            continue
        along = -(modes.T @ slope.ravel()) / np.maximum(np.abs(curvatures), SADDLE)
        step = (modes @ along).reshape(r.shape)
        step *= min(1.0, longest / float(np.linalg.norm(step)))
        there = at(r + step)
        if _better(there, (energy, slope)):
            r, (energy, slope, curvature) = r + step, there
            longest = min(2 * longest, LONGEST)
        else:
            longest = float(np.linalg.norm(step)) / 4
    raise MDError(
        f"no minimum in {STEPS} steps from {np.asarray(start).tolist()} Å; the largest force is "
        f"{force(slope):.1e} eV/Å. Start nearer to a minimum, or look whether the potential has one"
    )


def force(slope: np.ndarray) -> float:
    """The largest force on an atom, of slopes or forces (A, 3)."""
    return float(np.linalg.norm(slope, axis=1).max())


def _better(there: tuple[float, np.ndarray, np.ndarray], here: tuple[float, np.ndarray]) -> bool:
    """Whether energies fall; where they are equal to rounding, whether forces do."""
    rounding = 1e-11 * (1 + abs(here[0]))
    if not np.isfinite(there[0]) or there[0] > here[0] + rounding:
        return False
    return there[0] < here[0] - rounding or force(there[1]) < force(here[1])


def frequencies(
    energy_fn: EnergyFunction, positions: np.ndarray, masses: Sequence[float] | np.ndarray
) -> np.ndarray:
    """Harmonic wavenumbers in 1/cm, rising: (3A - 6,), or (3A - 5,) of a linear molecule.

    They are sqrt(k) / (2 pi c) of the eigenvalues k of the mass-weighted Hessian without
    translations and rotations; where k is negative, the imaginary wavenumber is a negative number.
    They mean what they say at a minimum only: see `relax`.

    Args:
        energy_fn: positions (A, 3) in Å to an energy () in eV, a JAX function.
        masses: (A,) in amu.

    Raises:
        MDError: masses that are no (A,) positive numbers, or a Hessian that is not finite.
    """
    r, m = np.asarray(positions, float), np.asarray(masses, float)
    if m.shape != r.shape[:1] or not (m > 0).all():
        raise MDError(f"masses must be {len(r)} positive numbers in amu, got {m.tolist()}")
    hessian = np.asarray(jax.jit(jax.hessian(energy_fn))(jnp.asarray(r))).reshape(r.size, r.size)
    if not np.isfinite(hessian).all():
        raise MDError(f"second derivatives of the energy are not finite at {r.tolist()} Å")
    return wavenumbers(hessian, r, m)


def wavenumbers(hessian: np.ndarray, positions: np.ndarray, masses: np.ndarray) -> np.ndarray:
    """Those of `frequencies`, of a Hessian (3A, 3A) in eV/Å² at positions (A, 3) in Å."""
    root = np.sqrt(np.repeat(masses, 3))
    basis = internal(positions, masses)
    values = np.linalg.eigvalsh(basis.T @ (hessian / np.outer(root, root)) @ basis)
    per_second = np.sqrt(np.abs(values) * constants.e / constants.atomic_mass) / constants.angstrom
    found: np.ndarray = np.sign(values) * per_second / (200 * np.pi * constants.c)
    return found
