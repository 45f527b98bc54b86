"""LiH energies and forces on a curve of bond lengths, by CCSD/cc-pVDZ with PySCF.

Writes examples/data/lih_ccsd.csv, the reference of examples/md_lih_forces.py: total energies in eV
and forces along the bond, F = -dE/dr, in eV/Å (positive pushes the atoms apart), from analytic CCSD
gradients with all four electrons correlated. 89 bond lengths, about a minute on one core.

    pip install pyscf
    python examples/generate_lih.py
"""

from __future__ import annotations

import argparse
import csv
import sys
from pathlib import Path

import numpy as np
from pyscf import cc, gto, scf
from pyscf.data.nist import BOHR, HARTREE2EV

DATA = Path(__file__).parent / "data" / "lih_ccsd.csv"
COLUMNS = ("distance_angstrom", "energy_ev", "force_ev_per_angstrom")


def energy_and_force(distance: float) -> tuple[float, float]:
    """CCSD/cc-pVDZ energy (eV) and force along the bond (eV/Å) of LiH at `distance` (Å).

    Raises:
        RuntimeError: where the self-consistent field, the amplitudes or the Lambda equations do not
            converge: a point that is not converged must not become a reference.
    """
    molecule = gto.M(atom=[("Li", (0, 0, 0)), ("H", (0, 0, distance))], basis="cc-pvdz", verbose=0)
    field = scf.RHF(molecule).run(conv_tol=1e-12, conv_tol_grad=1e-8)
    coupled = cc.CCSD(field).run(conv_tol=1e-11, conv_tol_normt=1e-9, max_cycle=200)
    coupled.solve_lambda()
    if not (field.converged and coupled.converged and coupled.converged_lambda):
        raise RuntimeError(f"CCSD did not converge at {distance} Å; start from a nearby point")
    gradient = coupled.nuc_grad_method().kernel()  # hartree/bohr, (atom, axis)
    return coupled.e_tot * HARTREE2EV, -gradient[1, 2] * HARTREE2EV / BOHR


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--points", type=int, default=89, help="bond lengths from 1.0 to 3.2 Å")
    parser.add_argument("--output", type=Path, default=DATA)
    options = parser.parse_args()
    options.output.parent.mkdir(parents=True, exist_ok=True)
    with options.output.open("w", newline="") as file:
        rows = csv.writer(file, lineterminator="\n")
        rows.writerow(COLUMNS)
        for distance in np.linspace(1.0, 3.2, options.points):
            energy, force = energy_and_force(float(distance))
            rows.writerow((f"{distance:.4f}", f"{energy:.9f}", f"{force:.9f}"))
            print(f"{distance:.3f} Å  {energy:.6f} eV  {force:+.6f} eV/Å", file=sys.stderr)


if __name__ == "__main__":
    main()
