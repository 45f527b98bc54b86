"""Forces out of shots, and on a noisy machine."""

from dataclasses import replace

import numpy as np
import pytest
import shots
from checks import QUICK
from configuration import Recipe
from descriptors import spread_of
from fitting import quiet
from hydronium import SYMBOLS, frames
from matplotlib import rc_context
from palette import STYLE
from potential_chapters import Data, by_shots
from potentials import Potential, model_for
from reference import Reference
from shots import Estimated
from symmetry import pair_kinds


@pytest.fixture(scope="module")
def potential() -> Potential:
    """One layer of the circuit, with first weights."""
    train = frames(20)
    model = model_for(Recipe(circuit={"layers": 1, "entanglers": False}), train,
                      {"kind": "statevector"})  # fmt: skip
    spread = spread_of(train.positions, pair_kinds(SYMBOLS))
    return Potential(model, model.initial(3), spread, {"molecule": "h3o"})


def test_a_line_through_errors_says_how_many_shots_are_needed():
    found = Estimated(np.array([100, 400, 1600]), np.array([40.0, 20.0, 10.0]))
    assert found.slope == pytest.approx(-0.5) and found.scale == pytest.approx(400)
    assert found.needed(1.0) == pytest.approx(160_000)
    assert found.needed(20.0) == pytest.approx(400)


@pytest.mark.slow
def test_a_potential_that_moves_to_another_engine_stays_the_same(potential: Potential):
    positions = frames(2, 1).positions
    moved = shots.on(potential, {"kind": "aer"})
    for here, there in zip(potential.energy_and_forces(positions),
                           moved.energy_and_forces(positions), strict=True):  # fmt: skip
        np.testing.assert_allclose(there, here, atol=1e-9)
    assert not shots.on(potential, {"kind": "aer", "shots": 10}).exact


@pytest.mark.slow
def test_errors_fall_as_one_over_the_root_of_the_shots(potential: Potential):
    plan = replace(QUICK, draws=4, frames=2, shots=(50, 500, 5000))
    told = []
    found = shots.estimated(potential, frames(2, 1).positions, plan, 0,
                            lambda *words: told.append(words[:3]))  # fmt: skip
    assert found.slope == pytest.approx(-0.5, abs=0.1)
    assert told[-1] == ("shots", 12, 12)
    _, exact = potential.energy_and_forces(frames(2, 1).positions)
    again = shots.estimated(potential, frames(2, 1).positions, plan, 0, quiet)
    np.testing.assert_array_equal(found.errors, again.errors)
    assert found.errors[-1] < 0.2 * 1e3 * np.abs(exact).max()


@pytest.mark.slow
def test_shots_and_noise_are_told_in_sentences_and_a_picture(potential: Potential):
    pytest.importorskip("qiskit_ibm_runtime")
    reference = Reference("made up", SYMBOLS, np.zeros((4, 3)), 0.0, np.ones(6))
    data = Data((frames(3), frames(3)), frames(3, 5), frames(3), reference)
    with rc_context(STYLE):
        first, noise, picture, table = by_shots(potential, data, QUICK, 0, quiet)
    off = shots.with_noise(potential, data.test[:1].positions)
    assert off > 0 and f"{off:.3g} meV/Å" in noise and shots.MACHINE in noise
    assert "100 shots" in first and picture.png.startswith(b"\x89PNG")
    assert [row[0] for row in table.rows] == [
        "100 shots",
        "1 000 shots",
        f"noise of {shots.MACHINE}",
    ]
