"""What is read off a run, on runs that are known."""

import numpy as np
import observables
import pytest
from problems import MDError
from scipy import constants

START = np.array([[0, 0, 0.05], [0.94, 0, -0.2], [-0.47, 0.814, -0.2], [-0.47, -0.814, -0.2]])


def test_drift_ratio_and_fluctuation_of_a_line_with_a_wave_on_it():
    times = np.arange(4000) * 0.5
    wave = np.sin(2 * np.pi * np.arange(4000) / 10)
    total = 3.0 + 4e-4 * times * 1e-3 + 1e-3 * wave
    found = observables.conservation(times, total, 0.05 * wave, atoms=4)
    assert found.drift == pytest.approx(1e3 * 4e-4 / 4, rel=0.2)
    assert found.fluctuation == pytest.approx(1e3 * 1e-3 / np.sqrt(2) / 4, rel=1e-3)
    whole = found.drift * 4 * 1e-3 * times[-1] * 1e-3
    assert found.ratio == pytest.approx(abs(whole) / (0.05 / np.sqrt(2)), rel=1e-3)


def test_the_spectrum_of_two_waves_has_two_peaks_where_they_are():
    interval, count = 2.0, 4096
    times = np.arange(count) * interval * constants.femto
    velocities = np.zeros((count, 2, 3))
    for atom, wavenumber in ((0, 1000.0), (1, 3600.0)):
        velocities[:, atom, 0] = np.cos(2 * np.pi * 100 * constants.c * wavenumber * times)
    where, density = observables.spectrum(velocities, np.array([16.0, 1.0]), interval)
    assert density.sum() == pytest.approx(1)
    for wavenumber, share in ((1000.0, 16 / 17), (3600.0, 1 / 17)):
        near = np.abs(where - wavenumber) < 30
        assert density[near].sum() == pytest.approx(share, rel=0.01)
        assert where[near][density[near].argmax()] == pytest.approx(wavenumber, abs=5)


def test_bonds_lengths_and_angles_of_hydronium_and_water():
    bonded = observables.bonds(("O", "H", "H", "H"), START)
    assert bonded == [(0, 1), (0, 2), (0, 3)]
    assert observables.angles(bonded) == [(1, 0, 2), (1, 0, 3), (2, 0, 3)]
    lengths = observables.bond_lengths(bonded, START[None])
    np.testing.assert_allclose(lengths, [[np.linalg.norm(START[k] - START[0]) for k in (1, 2, 3)]])
    right = np.array([[[0, 0, 0], [0.96, 0, 0], [0, 0.96, 0]]], float)
    water = observables.bonds(("O", "H", "H"), right[0])
    found = observables.angle_degrees(observables.angles(water), right)
    np.testing.assert_allclose(found, [[90.0]])


def test_runs_that_are_too_short_are_refused():
    with pytest.raises(MDError, match="a drift needs three times at least, got 2"):
        observables.conservation(np.arange(2), np.ones(2), np.ones(2), 1)
    with pytest.raises(MDError, match="a spectrum needs 16 times at least, got 3"):
        observables.spectrum(np.zeros((3, 1, 3)), np.ones(1), 1.0)
