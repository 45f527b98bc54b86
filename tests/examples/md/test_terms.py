"""Terms: the kernel within a potential is the kernel alone; a single atom suits no distances."""

import json
from pathlib import Path

import kernel_ridge
import numpy as np
import pytest
from configuration import Recipe, Training
from descriptors import spread_of
from fitting import fit
from hydronium import SYMBOLS, frames
from potentials import Model, Potential, load, model_for
from problems import MDError
from symmetry import atom_permutations, pair_kinds

TRAIN, VALID, TEST = frames(12), frames(4, seed=1), frames(6, seed=2)
WIDTH, RIDGE = 0.8, 1e-8


def fitted(form: str) -> Potential:
    recipe = Recipe(kernel={"width": WIDTH, "ridge": RIDGE, "form": form})
    of = model_for(recipe, TRAIN)
    params, run = fit(of, TRAIN, VALID, Training())
    assert run.stage == "done"
    return Potential(of, params, spread_of(TRAIN.positions, pair_kinds(SYMBOLS)), {})


@pytest.mark.parametrize("form", kernel_ridge.FORMS)
def test_a_kernel_that_is_a_term_is_the_kernel_alone(form: str):
    alone = kernel_ridge.fit(TRAIN, atom_permutations(SYMBOLS), WIDTH, RIDGE, form)
    energies, forces = fitted(form).energy_and_forces(TEST.positions)
    for k, r in enumerate(TEST.positions):
        energy = lambda x: kernel_ridge.energy(alone, x)
        assert energies[k] == pytest.approx(float(energy(r)), abs=1e-9)
        step = 1e-4 * np.eye(r.size).reshape(-1, *r.shape)
        slope = [float(energy(r + s) - energy(r - s)) / 2e-4 for s in step]
        np.testing.assert_allclose(forces[k].ravel(), -np.array(slope), atol=1e-4)


@pytest.mark.parametrize("form", kernel_ridge.FORMS)
def test_a_kernel_is_saved_and_loaded_to_the_last_digit(form: str, tmp_path: Path):
    potential = fitted(form)
    potential.save(tmp_path / "k.json")
    again = load(tmp_path / "k.json")
    for one, other in zip(
        potential.energy_and_forces(TEST.positions), again.energy_and_forces(TEST.positions),
        strict=True,
    ):  # fmt: skip
        np.testing.assert_array_equal(one, other)
    again.save(tmp_path / "twice.json")
    assert json.loads((tmp_path / "twice.json").read_text()) == json.loads(
        (tmp_path / "k.json").read_text()
    )


def test_a_kernel_has_as_many_points_as_there_are_frames_and_no_weights_before():
    potential = fitted("gaussian")
    assert {v.shape for v in potential.params["kernel"].values()} == {(len(TRAIN), 6)}
    assert potential.model.count() == 1  # the constant


@pytest.mark.parametrize("name", ["polynomial", "circuit", "network", "kernel"])
def test_a_single_atom_has_no_distances(name: str):
    scaling = model_for(Recipe(polynomial={"degree": 1}), TRAIN).scaling
    with pytest.raises(MDError, match=f"{name} needs two atoms at least, got 1"):
        Model(("O",), Recipe(**{name: {}}), scaling)
