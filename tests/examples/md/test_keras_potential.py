"""The potential as a Keras model: the JAX function's digits, forces, and training on both."""

import os
import subprocess
import sys
from pathlib import Path

import keras
import numpy as np
import pytest
from descriptors import spread_of
from hydronium import SYMBOLS, frames, model
from keras_potential import ForceField, energy_model, set_weights, weights
from potentials import Potential
from problems import MDError
from scripts import EXAMPLES, ROOT
from symmetry import pair_kinds

FRAMES = frames(6)
NAMES = ["polynomial", "circuit", "unentangled", "mixed", "delta", "network", "classical"]


def potential(name: str) -> Potential:
    of = model(name)
    rng = np.random.default_rng(0)
    params = {
        term: {k: v + rng.normal(0, 0.2, v.shape) for k, v in own.items()}
        if isinstance(own, dict)
        else own + 0.1
        for term, own in of.initial(0).items()
    }
    return Potential(of, params, spread_of(FRAMES.positions, pair_kinds(SYMBOLS)), {})


@pytest.mark.parametrize("name", NAMES)
def test_energies_and_forces_are_those_of_the_function(name: str):
    of = potential(name)
    energies, forces = of.energy_and_forces(FRAMES.positions)
    built = energy_model(of)
    found = keras.ops.convert_to_numpy(built(FRAMES.positions))
    np.testing.assert_allclose(found, energies, atol=1e-10, rtol=0)
    field = ForceField(built)(FRAMES.positions)
    np.testing.assert_allclose(
        keras.ops.convert_to_numpy(field["forces"]), forces, atol=1e-10, rtol=0
    )
    assert built.count_params() == of.model.count()


def test_training_on_energies_and_forces_lowers_both_and_moves_every_weight():
    of = potential("delta")
    built = energy_model(of)
    field = ForceField(built)
    field.compile(
        keras.optimizers.Adam(0.01),
        loss={"energy": "mse", "forces": "mse"},
        loss_weights={"energy": 0.2, "forces": 1.0},
    )
    truth = {"energy": FRAMES.energies, "forces": FRAMES.forces}
    history = field.fit(FRAMES.positions, truth, epochs=40, batch_size=6, verbose=0).history
    assert history["loss"][-1] < history["loss"][0] / 2
    after = weights(built, of)
    for name, value in of.params["circuit"].items():
        change = np.abs(np.asarray(value) - after["circuit"][name])
        # Turns about Z and couplings of the last layer commute with the outputs.
        moved = change[:-1] if name in ("twist", "coupling") else change
        assert (moved > 1e-4).all(), name
    energies, _ = Potential(of.model, after, of.spread, {}).energy_and_forces(FRAMES.positions)
    found = keras.ops.convert_to_numpy(built(FRAMES.positions))
    np.testing.assert_allclose(energies, found, atol=1e-10, rtol=0)


def test_weights_go_there_and_back():
    one, other = potential("classical"), model("classical").initial(5)
    built = energy_model(one)
    set_weights(built, other)
    found = weights(built, one)
    for name in ("polynomial", "network"):
        for key, value in other[name].items():
            np.testing.assert_array_equal(found[name][key], value)


def test_a_potential_of_atoms_heads_is_refused():
    of = model("heads")
    with pytest.raises(MDError, match="built of polynomial, circuit and network, .* has heads"):
        energy_model(
            Potential(of, of.initial(0), spread_of(FRAMES.positions, pair_kinds(SYMBOLS)), {})
        )


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["tensorflow", "torch"])
def test_the_other_backends_of_keras_agree(backend: str):
    pytest.importorskip(backend)
    places = [ROOT, EXAMPLES / "md", ROOT / "tests" / "shared", Path(__file__).parent]
    code = (
        "import test_keras_potential as t\n"
        "for name in ('delta', 'mixed', 'classical'):\n"
        "    t.test_energies_and_forces_are_those_of_the_function(name)\n"
        "t.test_training_on_energies_and_forces_lowers_both_and_moves_every_weight()\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={
            **os.environ,
            "KERAS_BACKEND": backend,
            "PYTHONPATH": os.pathsep.join(map(str, places)),
        },
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
