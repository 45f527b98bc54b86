"""Units told by their size, on real data in every wrong unit, and on right ones."""

from dataclasses import replace
from functools import cache
from itertools import product

import numpy as np
import pytest
from ase import units
from configuration import DATA
from frames import Frames, read
from magnitudes import KCAL, KJ, check_units
from problems import MDError
from scripts import EXAMPLES

ENERGIES = {"eV": 1.0, "hartree": units.Hartree, "kcal/mol": KCAL, "kJ/mol": KJ}
FORCES = {
    "eV/Å": 1.0,
    "hartree/bohr": units.Hartree / units.Bohr,
    "hartree/Å": units.Hartree,
    "eV/bohr": 1 / units.Bohr,
    "kcal/mol/Å": KCAL,
    "kJ/mol/Å": KJ,
    "kJ/mol/nm": KJ / 10,
}
LENGTHS = {"Å": 1.0, "bohr": units.Bohr, "nm": 10.0}


@cache
def frames(name: str) -> Frames:
    if name != "lih curve":
        return read(DATA / f"{name}.xyz")
    r, e, f = np.loadtxt(EXAMPLES / "data" / "lih_ccsd.csv", delimiter=",", skiprows=1).T
    positions, forces = np.zeros((2, len(r), 2, 3))
    positions[:, 1, 2], forces[:, 1, 2], forces[:, 0, 2] = r, f, -f
    return Frames(("Li", "H"), positions, e, forces, np.full(len(r), np.nan))


names = pytest.mark.parametrize(
    "name", ["h3o_train", "h3o_far", "h2o_train", "h2o_test", "lih_train", "lih curve"]
)


@names
@pytest.mark.parametrize("count", [8, 25, None])
def test_right_data_are_not_refused(name: str, count: int | None):
    rng = np.random.default_rng(0)
    for _ in range(1 if count is None else 30):
        check_units(frames(name)[rng.permutation(len(frames(name)))[:count]], name)


@names
@pytest.mark.parametrize("force", FORCES)
@pytest.mark.parametrize("energy", ENERGIES)
def test_every_other_unit_of_energies_and_forces_is_refused(name: str, energy: str, force: str):
    right = frames(name)
    given = replace(
        right, energies=right.energies / ENERGIES[energy], forces=right.forces / FORCES[force]
    )
    if (energy, force) == ("eV", "eV/Å"):
        check_units(given, "file")
        return
    with pytest.raises(MDError, match="file: (forces are not in eV/Å|energies and forces do not)"):
        check_units(given, "file")


@names
def test_25_frames_are_enough_to_refuse_wrong_units(name: str):
    rng, right = np.random.default_rng(1), frames(name)
    for _ in range(10):
        some = right[rng.permutation(len(right))[:25]]
        for energy, force in product(ENERGIES.values(), FORCES.values()):
            if (energy, force) == (1.0, 1.0):
                continue
            with pytest.raises(MDError, match="are not in eV/Å|do not belong together"):
                check_units(
                    replace(some, energies=some.energies / energy, forces=some.forces / force), "f"
                )


@names
@pytest.mark.parametrize("length", ["bohr", "nm"])
def test_positions_in_other_units_are_named(name: str, length: str):
    right = frames(name)
    with pytest.raises(MDError, match=f"positions seem to be in {length}, not in Å"):
        check_units(replace(right, positions=right.positions / LENGTHS[length]), "file")


@names
def test_gradients_in_place_of_forces_are_told(name: str):
    right = frames(name)
    with pytest.raises(MDError, match="forces seem to be gradients, of the other sign"):
        check_units(replace(right, forces=-right.forces), "file")


@names
def test_energies_of_the_other_sign_are_told(name: str):
    right = frames(name)
    with pytest.raises(MDError, match="energies fall where forces say that they rise"):
        check_units(replace(right, energies=-right.energies), "file")


def test_the_likely_unit_is_named():
    right = frames("h3o_train")
    with pytest.raises(MDError, match="They may be in .*kcal/mol/Å"):
        check_units(replace(right, forces=right.forces / KCAL), "file")
    with pytest.raises(MDError, match="They may be in hartree: convert"):
        check_units(replace(right, energies=right.energies / units.Hartree), "file")


def test_a_single_atom_has_no_units_to_tell():
    nothing = np.zeros((9, 1, 3))
    check_units(Frames(("He",), nothing, np.zeros(9), nothing, np.zeros(9)), "file")
