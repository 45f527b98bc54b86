"""Levels of theory that label geometries: total energies in eV and forces in eV/Å.

CCSD, MP2 and HF are PySCF's, in the basis cc-pVDZ with all electrons correlated and analytic
gradients; xTB is GFN2-xTB by tblite. A level is a line in LEVELS.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from molecules import Molecule
from problems import MDError

BASIS = "cc-pvdz"

Labels = tuple[float, np.ndarray]
"""Energy in eV, forces (A, 3) in eV/Å."""


@dataclass(frozen=True)
class Level:
    """A level of theory.

    Attributes:
        title: in words.
        label: molecule, positions (A, 3) in Å -> energy and forces.
    """

    title: str
    label: Callable[[Molecule, np.ndarray], Labels]


def missing(package: str, does: str) -> MDError:
    """The error that a package is not installed which does something here."""
    return MDError(f'{package} {does}, but is not installed: pip install ".[md]" in a checkout')


def _field(molecule: Molecule, positions: np.ndarray) -> Any:
    """The converged self-consistent field."""
    try:
        from pyscf import gto, lib, scf
    except ImportError as error:
        raise missing("pyscf", "computes reference energies and forces") from error
    lib.num_threads(1)  # frames are labelled side by side
    atoms = list(zip(molecule.symbols, np.asarray(positions).tolist(), strict=True))
    geometry = gto.M(atom=atoms, charge=molecule.charge, basis=BASIS, verbose=0)
    field = scf.RHF(geometry).run(conv_tol=1e-11, conv_tol_grad=1e-7, max_cycle=200)
    return _converged(field, field.converged, positions)


def _converged(method: Any, converged: bool, positions: np.ndarray) -> Any:
    if not converged:
        raise RuntimeError(
            f"{type(method).__name__} did not converge at {np.asarray(positions).tolist()} Å: a "
            "frame that is not converged must not become a reference"
        )
    return method


def _in_ev(energy: float, gradient: np.ndarray) -> Labels:
    """Hartree and hartree/bohr, in eV and eV/Å."""
    from pyscf.data.nist import BOHR, HARTREE2EV

    return float(energy) * HARTREE2EV, -np.asarray(gradient) * HARTREE2EV / BOHR


def hartree_fock(molecule: Molecule, positions: np.ndarray) -> Labels:
    """RHF.

    Raises:
        RuntimeError: it does not converge.
        MDError: PySCF is not installed.
    """
    field = _field(molecule, positions)
    return _in_ev(field.e_tot, field.nuc_grad_method().kernel())


def moller_plesset(molecule: Molecule, positions: np.ndarray) -> Labels:
    """MP2; raises as `hartree_fock` does."""
    from pyscf import mp

    perturbed = mp.MP2(_field(molecule, positions)).run()
    return _in_ev(perturbed.e_tot, perturbed.nuc_grad_method().kernel())


def coupled_cluster(molecule: Molecule, positions: np.ndarray) -> Labels:
    """CCSD; raises as `hartree_fock` does."""
    field = _field(molecule, positions)
    from pyscf import cc

    coupled = cc.CCSD(field).run(conv_tol=1e-9, conv_tol_normt=1e-7, max_cycle=200)
    coupled.solve_lambda()
    _converged(coupled, coupled.converged and coupled.converged_lambda, positions)
    return _in_ev(coupled.e_tot, coupled.nuc_grad_method().kernel())


def tight_binding(molecule: Molecule, positions: np.ndarray) -> Labels:
    """GFN2-xTB.

    Raises:
        MDError: tblite is not installed.
    """
    from ase import Atoms

    atoms = Atoms(molecule.symbols, positions=positions)
    atoms.calc = tight_binding_calculator(molecule)
    return atoms.get_potential_energy(), atoms.get_forces()


def tight_binding_calculator(molecule: Molecule) -> Any:
    """The ASE calculator of GFN2-xTB.

    Raises:
        MDError: tblite is not installed.
    """
    try:
        from tblite.ase import TBLite
    except ImportError as error:
        raise missing(
            "tblite", "samples geometries, and labels those of larger molecules"
        ) from error
    return TBLite(method="GFN2-xTB", charge=molecule.charge, verbosity=0, accuracy=0.01)


LEVELS = {
    "hf": Level("HF/cc-pVDZ", hartree_fock),
    "mp2": Level("MP2/cc-pVDZ", moller_plesset),
    "ccsd": Level("CCSD/cc-pVDZ", coupled_cluster),
    "xtb": Level("GFN2-xTB", tight_binding),
}
