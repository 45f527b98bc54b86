"""Geometries out of Langevin dynamics by GFN2-xTB: cheap, and good enough to say where atoms go.

They are Boltzmann-distributed for GFN2-xTB (Bannwarth, Ehlert and Grimme, J. Chem. Theory Comput.
15, 1652 (2019)), not for the level that labels them later.
"""

from collections.abc import Callable

import numpy as np
from ase import Atoms, units
from ase.md.langevin import Langevin
from ase.md.velocitydistribution import thermalize_momenta
from ase.optimize import BFGS
from levels import tight_binding_calculator
from molecules import Molecule

TIMESTEP = 0.5  # fs
FRICTION = 0.02  # 1/fs
EQUILIBRATION = 2000
"""Steps before the first frame."""
INTERVAL = 40
"""Steps between frames, 20 fs: neighbours still correlate, so that training, validation and test
need trajectories each."""


def relaxed(molecule: Molecule) -> Atoms:
    """The molecule at a minimum of GFN2-xTB, with its calculator.

    Raises:
        RuntimeError: no minimum was found.
        MDError: tblite is not installed.
    """
    atoms = Atoms(molecule.symbols, positions=molecule.start)
    atoms.calc = tight_binding_calculator(molecule)
    if not BFGS(atoms, logfile=None).run(fmax=0.005, steps=500):
        raise RuntimeError(f"{molecule.name} does not relax with GFN2-xTB from its start")
    return atoms


def trajectory(
    molecule: Molecule,
    temperature: float,
    count: int,
    seed: int,
    report: Callable[[int], None] = lambda done: None,
) -> np.ndarray:
    """(count, A, 3) positions in Å, centre of mass at the origin, at a bath of so many kelvin.

    The same seed gives the same frames, and the first of more frames are those of fewer.
    """
    atoms = relaxed(molecule)
    rng = np.random.RandomState(seed)
    thermalize_momenta(atoms, temperature_K=temperature, rng=rng)
    dynamics = Langevin(
        atoms,
        TIMESTEP * units.fs,
        temperature_K=temperature,
        friction=FRICTION / units.fs,
        fixcm=False,  # exact; the drift of the whole molecule is taken off its frames
        rng=rng,
    )
    dynamics.run(EQUILIBRATION)
    frames = []
    for done in range(count):
        dynamics.run(INTERVAL)
        frames.append(atoms.positions - atoms.get_center_of_mass())
        report(done + 1)
    return np.array(frames).reshape(count, len(atoms), 3)
