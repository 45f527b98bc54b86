"""Runs of a potential, and what is measured on them."""

from dataclasses import replace

import checks
import jax
import numpy as np
import pytest
from accuracy import frequencies, relax
from ase import units
from checks import MARGIN, QUICK, Body, Stability
from configuration import Recipe, Training
from descriptors import spread_of
from fitting import fit, quiet
from hydronium import SYMBOLS, frames
from molecules import MOLECULES
from potential_chapters import peaks
from potentials import Potential, model_for
from symmetry import pair_kinds

START = np.array(MOLECULES["h3o"].start)


def silent(part: float) -> None: ...


@pytest.fixture(scope="module")
def body() -> Body:
    train = frames(40)
    model = model_for(Recipe(polynomial={"degree": 2}), train)
    params, _ = fit(model, train, frames(10, 1), Training(polish=0))
    potential = Potential(model, params, spread_of(train.positions, pair_kinds(SYMBOLS)), {})
    return Body(potential, relax(potential.energy_fn(), START))


def test_hydronium_has_three_bonds(body: Body):
    assert body.bonds == [(0, 1), (0, 2), (0, 3)]


@pytest.mark.slow
def test_runs_side_by_side_are_the_single_ones(body: Body):
    integrator = body.integrator(0.5, 300.0)
    both = checks.run(integrator, checks.several(body, integrator, 300.0, 4, 2), 20.0, 1.0, silent)
    for number in range(2):
        state = body.start(integrator, 300.0, 4 + number)
        one = checks.run(integrator, state, 20.0, 1.0, silent)
        np.testing.assert_allclose(both.positions[number], one.positions, atol=1e-10)
        np.testing.assert_allclose(both.total[number], one.total, atol=1e-9)
        np.testing.assert_allclose(both.times, one.times)
    np.testing.assert_allclose(both.times, np.arange(1, 21))
    assert np.abs(both.positions[0] - both.positions[1]).max() > 0.01  # seeds differ


@pytest.mark.slow
def test_energy_is_conserved_to_the_square_of_the_timestep(body: Body):
    plan = replace(QUICK, starts=4, conserved=400.0, timesteps=(0.125, 0.25, 0.5))
    runs = checks.conserved(body, plan, 300.0, 0, quiet)
    assert checks.order(runs) == pytest.approx(2, abs=0.1)
    assert [one.total.shape for one in runs] == [(4, 400)] * 3
    spread = runs[0].total - np.polynomial.polynomial.polyval(
        runs[0].times, np.polynomial.polynomial.polyfit(runs[0].times, runs[0].total.T, 1)
    )
    assert runs[0].fluctuation == pytest.approx(1e3 * np.sqrt((spread**2).mean()) / 4)


@pytest.mark.slow
def test_at_a_low_temperature_the_spectrum_peaks_at_the_harmonic_frequencies(body: Body):
    plan = replace(QUICK, spectra=4, spectrum=2000.0)
    wavenumbers, density = checks.vibrating(body, plan, 1.0, 0, quiet)
    harmonic = frequencies(body.potential.energy_fn(), body.minimum, body.masses)
    found = peaks(wavenumbers, density)
    resolution = 1e5 / 2.998 / 2000  # 1/cm, of 2 ps
    # Velocity Verlet makes frequencies higher, by (w dt)² / 24 of them.
    angular = 2 * np.pi * 2.998e-5 * harmonic  # 1/fs
    verlet = harmonic * (1 + (angular * checks.TIMESTEP) ** 2 / 24)
    distance = np.abs(found[:, None] - verlet)
    assert distance.min(axis=1).max() < 2 * resolution
    assert distance.min(axis=0).max() < 2 * resolution


@pytest.mark.slow
def test_a_bath_gives_the_temperature_to_the_bonds(body: Body):
    """At a low temperature a bond varies as the harmonic matrix of covariances says."""
    plan = replace(QUICK, sampled=20_000.0)
    kelvin = 20.0
    positions = checks.sampled(body, plan, kelvin, 3, quiet)
    hessian = np.asarray(jax.hessian(body.potential.energy_fn())(body.minimum)).reshape(12, 12)
    covariance = units.kB * kelvin * np.linalg.pinv(hessian, rcond=1e-6)
    along = np.zeros((4, 3))
    along[1] = body.minimum[1] - body.minimum[0]
    along[1] /= np.linalg.norm(along[1])
    along[0] = -along[1]
    wanted = np.sqrt(along.ravel() @ covariance @ along.ravel())
    lengths = np.linalg.norm(positions[:, 1:] - positions[:, :1], axis=-1)
    assert lengths.std() == pytest.approx(wanted, rel=0.15)
    assert len(positions) == 4000


@pytest.mark.slow
def test_the_same_seed_gives_the_same_run_and_another_does_not(body: Body):
    first, again, other = (checks.sampled(body, QUICK, 300.0, s, quiet) for s in (1, 1, 2))
    np.testing.assert_array_equal(first, again)
    assert np.abs(first - other).max() > 0.01


def test_a_bond_is_beyond_the_range_by_what_it_leaves_it(body: Body):
    spread = body.potential.spread
    low, high = spread.low[0], spread.high[0]  # of all O-H
    middle = (low + high) / 2
    far = np.array([[0.0, 0, 0], [middle, 0, 0], [0, middle, 0], [0, 0, high + 0.3]])
    inside = np.array([[0.0, 0, 0], [middle, 0, 0], [0, middle, 0], [0, 0, middle]])
    short = np.array([[0.0, 0, 0], [middle, 0, 0], [0, middle, 0], [0, 0, low - 0.2]])
    lost = np.full((4, 3), np.nan)
    found = checks.beyond(body, np.array([[far, inside], [short, lost]]))
    np.testing.assert_allclose(found, [[0.3, middle - high], [0.2, np.inf]])


def test_a_run_is_stable_until_a_bond_is_broken():
    worst = np.array([[-0.1, 0.1, 0.2], [0.0, MARGIN + 0.01, 3.0], [0, 0, np.inf]])
    found = Stability(np.arange(3.0), worst)
    np.testing.assert_allclose(found.kept, [1, 2 / 3, 1 / 3])


@pytest.mark.slow
def test_a_potential_holds_or_breaks(body: Body):
    held = checks.stability(body, QUICK, 100.0, 0, quiet)
    assert held.worst.shape == (2, 40) and held.kept[-1] == 1
    assert (np.diff(held.worst, axis=1) >= 0).all()
    burst = checks.stability(body, QUICK, 1e6, 0, quiet)
    assert burst.kept[0] >= burst.kept[-1] == 0
