"""Frames and their files: what is written is read, and what cannot be learnt from is refused."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import ase.io
import numpy as np
import pytest
from ase import Atoms
from ase.calculators.singlepoint import SinglePointCalculator
from frames import Frames, check_overlap, read, write
from hydronium import SYMBOLS, frames
from problems import MDError

FRAMES = frames(12)


def images(count: int = 3) -> list[Atoms]:
    found = []
    for k in range(count):
        image = Atoms(SYMBOLS, positions=FRAMES.positions[k])
        image.info["REF_energy"] = FRAMES.energies[k]
        image.arrays["REF_forces"] = FRAMES.forces[k].copy()
        found.append(image)
    return found


def test_frames_come_back_to_the_digits_of_the_file(tmp_path: Path):
    write(tmp_path / "new" / "f.xyz", FRAMES, level="made up")
    found = read(tmp_path / "new" / "f.xyz")
    assert found.symbols == SYMBOLS and len(found) == 12
    np.testing.assert_array_equal(found.energies, FRAMES.energies)
    np.testing.assert_allclose(found.positions, FRAMES.positions, atol=1e-8)
    np.testing.assert_allclose(found.forces, FRAMES.forces, atol=1e-8)
    np.testing.assert_array_equal(found.temperatures, FRAMES.temperatures)
    text = (tmp_path / "new" / "f.xyz").read_text()
    assert 'level="made up"' in text and "REF_energy" in text and "REF_forces" in text


def test_some_of_the_frames_are_frames():
    some = FRAMES[np.array([3, 1])]
    np.testing.assert_array_equal(some.energies, FRAMES.energies[[3, 1]])
    assert some.symbols == SYMBOLS and len(FRAMES[:5]) == 5


def test_labels_under_other_keys_are_found_by_name(tmp_path: Path):
    given = images()
    for image in given:
        image.info["dft"] = image.info.pop("REF_energy")
        image.arrays["push"] = image.arrays.pop("REF_forces")
    ase.io.write(tmp_path / "f.xyz", given, format="extxyz")
    found = read(tmp_path / "f.xyz", energy_key="dft", forces_key="push")
    np.testing.assert_allclose(found.forces, FRAMES.forces[:3], atol=1e-8)


def test_labels_that_ase_has_moved_into_a_calculator_are_found(tmp_path: Path):
    given = images()
    for k, image in enumerate(given):
        del image.info["REF_energy"], image.arrays["REF_forces"]
        image.calc = SinglePointCalculator(
            image, energy=FRAMES.energies[k], forces=FRAMES.forces[k]
        )
    ase.io.write(tmp_path / "f.xyz", given, format="extxyz")
    assert "REF_" not in (tmp_path / "f.xyz").read_text()
    found = read(tmp_path / "f.xyz")
    np.testing.assert_allclose(found.energies, FRAMES.energies[:3], atol=1e-6)
    assert np.isnan(found.temperatures).all()


def no_energy(given: list[Atoms]) -> None:
    for image in given:
        del image.info["REF_energy"]


def no_forces(given: list[Atoms]) -> None:
    for image in given:
        del image.arrays["REF_forces"]


def one_without(given: list[Atoms]) -> None:
    del given[1].info["REF_energy"]


def another_order(given: list[Atoms]) -> None:
    given[2] = given[2][[1, 0, 2, 3]]


def another_molecule(given: list[Atoms]) -> None:
    given[1] = given[1][:3]


def not_a_number(given: list[Atoms]) -> None:
    given[1].info["REF_energy"] = np.nan


def infinite(given: list[Atoms]) -> None:
    given[2].arrays["REF_forces"][0, 0] = np.inf


def overlap(given: list[Atoms]) -> None:
    given[1].positions[2] = given[1].positions[3] + 1e-3


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (no_energy, "3 of 3 frames, .* frame 0, have no energy under REF_energy, .* REF_forces"),
        (no_forces, "3 of 3 frames, .* have no forces under REF_forces, .*--forces-key"),
        (one_without, "1 of 3 frames, the first of them frame 1, have no energy"),
        (another_order, "frame 2 has the atoms .* its atoms always in the same order"),
        (another_molecule, "frame 1 has the atoms"),
        (not_a_number, "the energies of 1 frames are not finite, the first of them frame 1"),
        (infinite, "the forces of 1 frames are not finite, the first of them frame 2"),
        (overlap, r"frame 1: atoms 2 \(H\) and 3 \(H\) overlap, 0.002 Å apart"),
    ],
)
def test_what_no_potential_can_learn_from_is_refused(
    change: Callable[[list[Atoms]], None], sentence: str, tmp_path: Path
):
    given = images()
    change(given)
    ase.io.write(tmp_path / "f.xyz", given, format="extxyz")
    with pytest.raises(MDError, match=sentence) as caught:
        read(tmp_path / "f.xyz")
    assert "f.xyz" in str(caught.value)


@pytest.mark.parametrize("content", [None, "", "hello\n", "4\nno frame\nO 0 0\n", "\x00\x01"])
def test_a_file_that_is_none_is_refused(content: str | None, tmp_path: Path):
    if content is not None:
        (tmp_path / "f.xyz").write_text(content)
    with pytest.raises(MDError, match=r"f\.xyz"):
        read(tmp_path / "f.xyz")


def test_atoms_that_only_touch_are_no_overlap():
    check_overlap(SYMBOLS, FRAMES.positions[0], "frame")
    with pytest.raises(MDError, match="frame: atoms 0 .O. and 1 .H. overlap"):
        check_overlap(SYMBOLS, FRAMES.positions[0] * 0.3, "frame")


def test_few_frames_are_not_judged_by_their_energies(tmp_path: Path):
    few = replace(FRAMES[:3], energies=FRAMES.energies[:3] * 23.06)
    write(tmp_path / "f.xyz", few)
    assert len(read(tmp_path / "f.xyz")) == 3


def test_frames_without_any_label_say_what_there_is(tmp_path: Path):
    image = Atoms(SYMBOLS, positions=FRAMES.positions[0])
    image.info["dipole"] = 1.0
    ase.io.write(tmp_path / "f.xyz", image, format="extxyz")
    with pytest.raises(MDError, match="There are numbers, positions, dipole"):
        read(tmp_path / "f.xyz")


def test_frames_are_frames():
    assert isinstance(FRAMES[:2], Frames)
