"""Dynamics in one loop: exact solutions, conservation, the bath's distribution, and restarts."""

from dataclasses import fields
from pathlib import Path

import dynamics
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from ase import units
from hydronium import SYMBOLS, trained
from observables import spectrum
from problems import MDError
from scipy import constants

STIFFNESS = 30.0  # eV/Å²
START = np.array([[0, 0, 0.05], [0.94, 0, -0.2], [-0.47, 0.814, -0.2], [-0.47, -0.814, -0.2]])
MASSES = dynamics.masses_of(SYMBOLS)


def spring(positions: jax.Array) -> jax.Array:
    """One particle on a spring to the origin, in three directions."""
    return STIFFNESS * jnp.sum(positions**2) / 2


def hydronium(timestep: float = 0.5, temperature: float | None = None) -> dynamics.Integrator:
    return dynamics.Integrator(trained("small").energy_fn(), MASSES, timestep, temperature)


def thermal(integrator: dynamics.Integrator, seed: int = 0) -> dynamics.State:
    velocities = dynamics.thermal_velocities(START, MASSES, 300, seed)
    return integrator.start(START, velocities, seed)


def test_a_spring_swings_as_its_solution_says():
    mass, dt = 1.008, 0.1
    integrator = dynamics.Integrator(spring, np.array([mass]), dt)
    start = integrator.start(np.array([[0.1, 0.0, -0.05]]), np.zeros((1, 3)), 0)
    _, record = integrator.run(start, 200, 20)
    omega = np.sqrt(STIFFNESS / mass)
    # Velocity Verlet swings exactly, at a frequency that its timestep shifts.
    shifted = 2 * np.arcsin(omega * dt * units.fs / 2) / (dt * units.fs)
    times = np.asarray(record.step) * dt * units.fs
    expected = np.cos(shifted * times)[:, None] * [0.1, 0.0, -0.05]
    np.testing.assert_allclose(record.positions[:, 0], expected, atol=1e-12)
    assert shifted == pytest.approx(omega, rel=1e-3)


@pytest.mark.slow
def test_the_fluctuation_of_the_energy_goes_with_the_square_of_the_timestep():
    spreads = []
    for dt in (0.1, 0.2):
        integrator = hydronium(dt)
        _, record = integrator.run(thermal(integrator), int(100 / dt), 1)
        spreads.append(float(np.std(record.total)))
    assert spreads[1] / spreads[0] == pytest.approx(4, abs=0.3)


def test_the_spectrum_of_a_diatomic_peaks_at_its_frequency():
    masses, length = np.array([7.0, 1.008]), 1.6

    def bond(positions: jax.Array) -> jax.Array:
        return STIFFNESS * (jnp.linalg.norm(positions[1] - positions[0]) - length) ** 2 / 2

    integrator = dynamics.Integrator(bond, masses, 0.25)
    at_rest = np.array([[0.0, 0.0, 0.0], [0.0, 0.0, length]])
    start = integrator.start(at_rest, dynamics.thermal_velocities(at_rest, masses, 300, 0), 0)
    _, record = integrator.run(start, 32_000, 8)
    where, density = spectrum(np.asarray(record.velocities), masses, 2.0)
    reduced = masses.prod() / masses.sum()
    per_second = np.sqrt(STIFFNESS / reduced) / (2 * np.pi) * units.second
    expected = per_second / (100 * constants.c)
    resolution = where[1] - where[0]
    assert resolution < 5 < expected  # 1/cm
    assert where[density.argmax()] == pytest.approx(expected, abs=resolution)


@pytest.mark.slow
def test_without_a_bath_energy_momentum_and_rotation_stay():
    integrator = hydronium(0.25)
    state, record = integrator.run(thermal(integrator), 20_000, 10)
    times = np.asarray(record.step) * 0.25 * 1e-3
    drift = 1e3 * np.polyfit(times, np.asarray(record.total), 1)[0] / 4
    assert abs(drift) < 1e-2  # meV/atom/ps
    momentum = MASSES @ np.asarray(state.velocities)
    about = np.asarray(state.positions) - MASSES @ np.asarray(state.positions) / MASSES.sum()
    turning = np.sum(MASSES[:, None] * np.cross(about, state.velocities), axis=0)
    np.testing.assert_allclose(momentum, 0, atol=1e-10)
    np.testing.assert_allclose(turning, 0, atol=1e-9)


@pytest.mark.slow
def test_a_bath_has_the_distribution_of_its_temperature():
    """Of many particles on springs: variances of positions and velocities, by equipartition."""
    mass, kelvin = 12.0, 400.0
    masses = np.full(500, mass)
    integrator = dynamics.Integrator(spring, masses, 1.0, kelvin, friction=0.05)
    start = integrator.start(np.zeros((500, 3)), np.zeros((500, 3)), 3)
    start, _ = integrator.run(start, 500, 500)
    _, record = integrator.run(start, 2000, 50)
    kt = units.kB * kelvin
    assert np.var(record.positions) == pytest.approx(kt / STIFFNESS, rel=0.03)
    assert np.var(record.velocities) == pytest.approx(kt / mass, rel=0.03)
    assert np.mean(record.kinetic) == pytest.approx(1.5 * 500 * kt, rel=0.03)


def test_thermal_velocities_neither_drift_nor_turn_and_have_the_temperature():
    kinetic = []
    about = START - MASSES @ START / MASSES.sum()
    for seed in range(200):
        v = dynamics.thermal_velocities(START, MASSES, 500, seed)
        np.testing.assert_allclose(MASSES @ v, 0, atol=1e-12)
        turning = np.sum(MASSES[:, None] * np.cross(about, v), axis=0)
        np.testing.assert_allclose(turning, 0, atol=1e-12)
        kinetic.append(float(dynamics.kinetic_energy(jnp.asarray(v), MASSES)))
    assert dynamics.temperature_of(np.mean(kinetic), 6) == pytest.approx(500, rel=0.1)


@pytest.mark.parametrize("positions", [[0.0, 1.6], [0.0, 1.1, 2.3]], ids=["two", "three"])
def test_thermal_velocities_of_atoms_on_a_line_keep_those_along_it(positions: list[float]):
    """Their rotation about the line itself has no inertia: it must not be divided by."""
    line = np.outer(positions, [1.0, 2.0, -2.0]) / 3
    masses, kinetic = np.array([7.0, 1.008, 12.0])[: len(line)], []
    about = line - masses @ line / masses.sum()
    for seed in range(400):
        v = dynamics.thermal_velocities(line, masses, 500, seed)
        np.testing.assert_allclose(masses @ v, 0, atol=1e-12)
        turning = np.sum(masses[:, None] * np.cross(about, v), axis=0)
        np.testing.assert_allclose(turning, 0, atol=1e-12)
        kinetic.append(float(dynamics.kinetic_energy(jnp.asarray(v), masses)))
    freedom = dynamics.degrees(line)
    assert dynamics.temperature_of(np.mean(kinetic), freedom) == pytest.approx(500, rel=0.15)


@pytest.mark.parametrize(
    ("positions", "expected"),
    [(START, 6), (np.array([[0, 0, 0], [0, 0, 1.6]]), 1), (np.eye(3), 3),
     (np.outer([0, 1.2, 2.4], [1, 1, 0]), 4)],
)  # fmt: skip
def test_degrees_of_freedom_are_those_that_vibrate(positions: np.ndarray, expected: int):
    assert dynamics.degrees(np.asarray(positions, float)) == expected


@pytest.mark.slow
@pytest.mark.parametrize("temperature", [None, 300.0])
@pytest.mark.parametrize("cuts", [[4, 36], [8, 12, 20]])
def test_a_run_in_pieces_is_the_whole_run_to_the_last_digit(
    cuts: list[int], temperature: float | None, tmp_path: Path
):
    integrator = hydronium(0.5, temperature)
    whole, record = integrator.run(thermal(integrator), 40, 4)
    state, pieces = thermal(integrator), []
    for number, steps in enumerate(cuts):
        state, piece = hydronium(0.5, temperature).run(state, steps, 4)
        dynamics.save_state(tmp_path / "c.npz", state, f"run {number}")
        state = dynamics.load_state(tmp_path / "c.npz", f"run {number}")
        pieces.append(piece)
    for field in fields(dynamics.State):
        np.testing.assert_array_equal(getattr(whole, field.name), getattr(state, field.name))
    for field in fields(dynamics.Record):
        parts = np.concatenate([getattr(piece, field.name) for piece in pieces])
        np.testing.assert_array_equal(getattr(record, field.name), parts)


def test_a_seed_decides_a_run():
    integrator = hydronium(0.5, 300.0)
    ends = [integrator.run(thermal(integrator, seed), 20)[0].positions for seed in (0, 0, 1)]
    np.testing.assert_array_equal(ends[0], ends[1])
    assert np.abs(ends[0] - ends[2]).max() > 1e-3


def test_a_checkpoint_of_another_run_is_refused(tmp_path: Path):
    dynamics.save_state(tmp_path / "c.npz", thermal(hydronium()), "this")
    with pytest.raises(MDError, match="is the checkpoint of another run"):
        dynamics.load_state(tmp_path / "c.npz", "that")
    (tmp_path / "c.npz").write_bytes(b"PK broken")
    with pytest.raises(MDError, match="cannot be read as a checkpoint"):
        dynamics.load_state(tmp_path / "c.npz", "this")
    (tmp_path / "c.npz").write_bytes(b"")
    with pytest.raises(MDError, match="cannot be read as a checkpoint"):
        dynamics.load_state(tmp_path / "c.npz", "this")
    with pytest.raises(MDError, match="cannot be read as a checkpoint"):
        dynamics.load_state(tmp_path / "none.npz", "this")


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"timestep": 0.0}, "the timestep must be positive and finite, got 0.0 fs"),
        ({"timestep": np.inf}, "the timestep must be positive and finite, got inf fs"),
        ({"timestep": 1.0, "temperature": np.inf}, "a finite temperature of at least 0 K"),
        ({"timestep": 1.0, "temperature": -1.0}, "a finite temperature of at least 0 K"),
        ({"timestep": 1.0, "temperature": 1.0, "friction": 0.0}, "a positive friction"),
    ],
)
def test_integrators_that_cannot_be_are_refused(settings: dict[str, float], sentence: str):
    with pytest.raises(MDError, match=sentence):
        dynamics.Integrator(spring, np.ones(1), **settings)


@pytest.mark.parametrize(("steps", "every"), [(0, 1), (10, 0), (10, 3)])
def test_steps_are_multiples_of_what_is_kept(steps: int, every: int):
    integrator = dynamics.Integrator(spring, np.ones(1), 0.5)
    with pytest.raises(MDError, match="steps must be a positive multiple of every"):
        integrator.run(integrator.start(np.ones((1, 3)), np.zeros((1, 3)), 0), steps, every)


def test_a_step_asks_for_forces_once_and_for_energies_where_they_are_kept():
    """Counted as the derivatives of the energy that one loop traces."""
    asked = []

    def counted(positions: jax.Array) -> jax.Array:
        asked.append(positions)
        return spring(positions)

    integrator = dynamics.Integrator(counted, np.ones(1), 0.5)
    start = dynamics.start_at(np.ones((1, 3)), np.zeros((1, 3)), -STIFFNESS * np.ones((1, 3)), 0)
    integrator.run(start, 100, 10)
    assert len(asked) == 2
    integrator.run(start, 100, 10)
    assert len(asked) == 2  # compiled once
