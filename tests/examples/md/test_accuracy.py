"""Errors, relaxation and harmonic frequencies, against loops, closed forms and ASE."""

from dataclasses import replace
from itertools import combinations
from pathlib import Path

import accuracy
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.linalg
from accuracy import errors, frequencies, relax
from ase import Atoms
from ase.calculators.lj import LennardJones
from ase.vibrations import Vibrations
from frames import Frames
from problems import MDError

WATER = ("O", "H", "H")


def frames(count: int = 7, seed: int = 0) -> Frames:
    """Frames whose forces add up to zero."""
    rng = np.random.default_rng(seed)
    forces = rng.normal(0, 1.5, (count, 3, 3))
    forces -= forces.mean(axis=1, keepdims=True)
    energies = rng.normal(-2000, 0.3, count)
    return Frames(WATER, rng.normal(size=(count, 3, 3)), energies, forces, np.full(count, np.nan))


# Errors


def test_errors_are_those_of_the_components_one_by_one():
    reference, rng = frames(), np.random.default_rng(1)
    energies = reference.energies + rng.normal(0.01, 0.01, 7)
    forces = reference.forces + rng.normal(0, 0.05, (7, 3, 3))
    found = errors(energies, forces, reference)
    of_energies = [1000 * (a - b) for a, b in zip(energies, reference.energies, strict=True)]
    pairs = list(zip(forces.ravel().tolist(), reference.forces.ravel().tolist(), strict=True))
    of_forces = [1000 * (a - b) for a, b in pairs]
    assert found.energy_mae == pytest.approx(sum(map(abs, of_energies)) / 7)
    assert found.energy_rmse == pytest.approx((sum(e * e for e in of_energies) / 7) ** 0.5)
    assert found.force_mae == pytest.approx(sum(map(abs, of_forces)) / 63)
    assert found.force_rmse == pytest.approx((sum(f * f for f in of_forces) / 63) ** 0.5)
    assert found.force_max == pytest.approx(max(map(abs, of_forces)))
    size = (sum((1000 * b) ** 2 for _, b in pairs) / 63) ** 0.5
    assert found.relative == pytest.approx(100 * found.force_rmse / size)
    assert found.accuracy == 100 - found.relative
    mean = sum(reference.energies) / 7
    about = sum((1000 * (e - mean)) ** 2 for e in reference.energies)
    assert found.energy_r2 == pytest.approx(1 - sum(e * e for e in of_energies) / about)


def test_the_errors_of_an_element_are_those_of_the_forces_on_its_atoms():
    reference = frames()
    forces = reference.forces.copy()
    forces[:, 0] += 0.3
    forces[:, 2] += 0.4
    found = errors(reference.energies, forces, reference)
    assert found.elements == pytest.approx({"O": 300, "H": 400 / 2**0.5})


def test_r2_of_forces_without_a_net_force_is_one_less_the_square_of_the_relative_error():
    reference = frames()
    forces = reference.forces * 1.114
    found = errors(reference.energies, forces, reference)
    assert found.relative == pytest.approx(11.4)
    assert found.force_r2 == pytest.approx(1 - 0.114**2)


def test_a_constant_shift_of_all_energies_is_an_error():
    reference = frames()
    found = errors(reference.energies + 0.25, reference.forces, reference)
    assert found.energy_mae == pytest.approx(250) and found.energy_rmse == pytest.approx(250)
    assert found.energy_r2 < 1


def test_the_reference_itself_is_perfect():
    reference = frames()
    found = errors(reference.energies, reference.forces, reference)
    assert (found.energy_rmse, found.force_max, found.accuracy) == (0, 0, 100)
    assert (found.energy_r2, found.force_r2) == (1, 1)


def test_where_the_reference_does_not_vary_ratios_are_nan():
    reference = replace(frames(1), forces=np.zeros((1, 3, 3)))
    found = errors(reference.energies, reference.forces + 1, reference)
    assert np.isnan([found.relative, found.accuracy, found.energy_r2, found.force_r2]).all()
    assert found.force_rmse == pytest.approx(1000)


def test_the_table_says_all_of_it():
    reference = frames()
    text = errors(reference.energies + 0.25, reference.forces * 1.02, reference).table()
    for words in ("MAE 250.00", "meV/Å", "accuracy  98.00 %", "relative force RMSE 2.00 %", "O "):
        assert words in text


def test_predictions_of_another_shape_or_not_finite_are_refused():
    reference = frames()
    with pytest.raises(MDError, match=r"\(\(7,\), \(7, 3, 3\)\) of the reference, got \(\(6,\)"):
        errors(reference.energies[:6], reference.forces[:6], reference)
    with pytest.raises(MDError, match="there are no frames"):
        errors(np.zeros(0), np.zeros((0, 3, 3)), reference[:0])
    broken = reference.forces.copy()
    broken[4, 1, 2] = np.nan
    with pytest.raises(MDError, match="1 of 7 predictions are not finite, the first for frame 4"):
        errors(reference.energies, broken, reference)


# Potentials with closed forms


def spring(stiffness: float, length: float):
    """A diatomic molecule of one spring."""
    return lambda r: stiffness / 2 * (jnp.linalg.norm(r[0] - r[1]) - length) ** 2


def carbon_dioxide(stiffness: float, bend: float, length: float = 1.16):
    """O, C, O: two springs, and near zero `bend` / 2 times the square of the bend in radians."""

    def energy(r: jax.Array) -> jax.Array:
        one, other = r[0] - r[1], r[2] - r[1]
        a, b = jnp.linalg.norm(one), jnp.linalg.norm(other)
        stretch = stiffness / 2 * ((a - length) ** 2 + (b - length) ** 2)
        return stretch + bend * (1 + one @ other / (a * b))

    return energy


LINE = np.array([[0, 0, -1.16], [0, 0, 0], [0, 0, 1.16]])
MASSES = np.array([15.995, 12.0, 15.995])


def wavenumber(curvature: float) -> float:
    """1/cm of a curvature in eV/Å²/amu, from SI units."""
    per_second = np.sqrt(curvature * 1.602176634e-19 / 1e-20 / 1.66053906660e-27)
    return float(per_second / (2 * np.pi * 299792458) / 100)


def lennard_jones(r: jax.Array) -> jax.Array:
    """Of unit depth, in eV, and unit sigma, in Å."""
    i, j = np.array(list(combinations(range(r.shape[0]), 2))).T
    sixth = jnp.sum((r[i] - r[j]) ** 2, axis=-1) ** -3
    return jnp.sum(4 * (sixth**2 - sixth))


TETRAHEDRON = 2 ** (1 / 6) / 8**0.5 * np.array([[1, 1, 1], [1, -1, -1], [-1, 1, -1], [-1, -1, 1]])


def umbrella(r: jax.Array) -> jax.Array:
    """X and three H: bonds of 1 Å, H-H springs of 1.6 Å, shorter than a flat molecule has."""
    i, j = np.array(list(combinations(range(4), 2))).T
    d = jnp.linalg.norm(r[i] - r[j], axis=-1)
    return jnp.sum(15 * (d[:3] - 1) ** 2) + jnp.sum(2 * (d[3:] - 1.6) ** 2)


FLAT = np.array([[0, 0, 0], *([np.cos(a), np.sin(a), 0] for a in 2 * np.pi * np.arange(3) / 3)])


# Frequencies


def test_a_diatomic_molecule_has_the_frequency_of_its_reduced_mass():
    r = np.array([[0.3, 0.1, 0.2], [0.3, 0.1, 1.8]])
    found = frequencies(spring(6.3, 1.6), r, [7.016, 1.00783])
    reduced = 7.016 * 1.00783 / (7.016 + 1.00783)
    np.testing.assert_allclose(found, [wavenumber(6.3 / reduced)], rtol=1e-8)


def test_a_linear_molecule_has_two_stretches_and_a_bend_twice():
    k, bend, (oxygen, carbon, _) = 96.0, 4.8, MASSES
    found = frequencies(carbon_dioxide(k, bend), LINE, MASSES)
    expected = [
        *[wavenumber(bend / 1.16**2 * (2 / oxygen + 4 / carbon))] * 2,
        wavenumber(k / oxygen),
        wavenumber(k / oxygen * (1 + 2 * oxygen / carbon)),
    ]
    np.testing.assert_allclose(found, expected, rtol=1e-8)


def test_imaginary_frequencies_are_negative_numbers():
    stable = frequencies(carbon_dioxide(96.0, 4.8), LINE, MASSES)
    unstable = frequencies(carbon_dioxide(96.0, -4.8), LINE, MASSES)
    np.testing.assert_allclose(unstable, [-stable[0], -stable[1], *stable[2:]], rtol=1e-8)


def test_frequencies_do_not_depend_on_where_the_molecule_is_and_how_it_is_turned():
    turn = scipy.linalg.qr(np.random.default_rng(0).normal(size=(3, 3)))[0]
    for r, masses, energy_fn in (
        (LINE, MASSES, carbon_dioxide(96.0, 4.8)),
        (TETRAHEDRON, np.array([1.0, 2.0, 3.0, 4.0]), lennard_jones),
    ):
        here = frequencies(energy_fn, r, masses)
        there = frequencies(energy_fn, r @ turn.T + [1.0, 2.0, -3.0], masses)
        np.testing.assert_allclose(there, here, rtol=1e-7)


def test_away_from_a_minimum_rotations_are_projected_out_too():
    stretched = np.array([[0, 0, 0.0], [0, 0, 1.9]])
    found = frequencies(spring(6.3, 1.6), stretched, [7.016, 1.00783])
    np.testing.assert_allclose(found, frequencies(spring(6.3, 1.9), stretched, [7.016, 1.00783]))


def test_four_lennard_jones_atoms_vibrate_as_ase_says(tmp_path: Path):
    masses = np.array([10.0, 20.0, 30.0, 40.0])
    atoms = Atoms("Ar4", TETRAHEDRON, masses=masses)
    atoms.calc = LennardJones(sigma=1.0, epsilon=1.0, rc=50.0)
    vibrations = Vibrations(atoms, name=str(tmp_path / "vib"), delta=1e-4, nfree=4)
    vibrations.run()
    expected = np.sort(vibrations.get_frequencies().real)[-6:]
    np.testing.assert_allclose(frequencies(lennard_jones, TETRAHEDRON, masses), expected, rtol=1e-5)


@pytest.mark.parametrize("masses", [[1.0, 2.0], [1.0, 0.0, 2.0], [1.0, -1.0, 2.0]])
def test_masses_that_are_none_are_refused(masses: list[float]):
    with pytest.raises(MDError, match="masses must be 3 positive numbers in amu, got"):
        frequencies(carbon_dioxide(96.0, 4.8), LINE, masses)


def test_a_curvature_that_is_not_finite_is_refused():
    with pytest.raises(MDError, match="second derivatives of the energy are not finite"):
        frequencies(spring(6.3, 1.6), np.zeros((2, 3)), [1.0, 2.0])


# What moves no bond


@pytest.mark.parametrize(
    ("r", "count"), [(LINE[:2], 1), (LINE, 4), (TETRAHEDRON, 6), (TETRAHEDRON[:3], 3)]
)
def test_internal_motion_is_orthogonal_to_translations_and_rotations(r: np.ndarray, count: int):
    masses = np.arange(1.0, len(r) + 1)
    basis = accuracy.internal(r + 5, masses)
    assert basis.shape == (3 * len(r), count)
    np.testing.assert_allclose(basis.T @ basis, np.eye(count), atol=1e-12)
    for axis in np.eye(3):
        for move in (np.tile(axis, (len(r), 1)), np.cross(axis, r + 5)):
            assert abs(basis.T @ (np.sqrt(masses)[:, None] * move).ravel()).max() < 1e-12


# Relaxation


def largest_force(energy_fn, r: np.ndarray) -> float:
    return float(np.linalg.norm(jax.grad(energy_fn)(jnp.asarray(r)), axis=1).max())


@pytest.mark.parametrize("start", [0.5, 1.3, 1.6, 5.0])
def test_a_diatomic_molecule_relaxes_to_the_length_of_its_spring(start: float):
    r = relax(spring(6.3, 1.6), np.array([[0, 0, 0.0], [0, 0, start]]))
    assert np.linalg.norm(r[0] - r[1]) == pytest.approx(1.6, abs=1e-6)


def test_a_bent_molecule_relaxes_to_a_line():
    bent = LINE + [[0.5, 0.2, 0], [0, 0, 0], [0.3, 0, 0.1]]
    energy_fn = carbon_dioxide(96.0, 4.8)
    r = relax(energy_fn, bent)
    assert float(energy_fn(r)) == pytest.approx(0, abs=1e-10)
    found = frequencies(energy_fn, r, MASSES)
    np.testing.assert_allclose(found, frequencies(energy_fn, LINE, MASSES), rtol=1e-5)


def test_four_lennard_jones_atoms_relax_to_a_tetrahedron_of_depth_six():
    start = TETRAHEDRON * 1.3 + np.random.default_rng(0).normal(0, 0.15, (4, 3))
    r = relax(lennard_jones, start)
    assert float(lennard_jones(r)) == pytest.approx(-6, abs=1e-10)
    assert largest_force(lennard_jones, r) < 1e-6
    apart = [np.linalg.norm(r[i] - r[j]) for i, j in combinations(range(4), 2)]
    np.testing.assert_allclose(apart, 2 ** (1 / 6), atol=1e-6)


@pytest.mark.parametrize("seed", range(5))
def test_rounding_of_large_energies_does_not_hold_up_the_last_steps(
    seed: int, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(accuracy, "STEPS", 12)
    start = TETRAHEDRON + np.random.default_rng(seed).normal(0, 0.05, (4, 3))

    def deep(r: jax.Array) -> jax.Array:
        rounding = 1e-8 * jnp.sin(1e9 * jnp.sum(r**2))
        return lennard_jones(r) - 2082.0 + jax.lax.stop_gradient(rounding)

    assert largest_force(deep, relax(deep, start)) < 1e-6


def test_a_flat_molecule_leaves_its_saddle_point():
    assert frequencies(umbrella, relaxed_flat(), [16.0, 1.0, 1.0, 1.0])[0] < 0
    r = relax(umbrella, FLAT)
    assert frequencies(umbrella, r, [16.0, 1.0, 1.0, 1.0]).min() > 0
    assert largest_force(umbrella, r) < 1e-6
    assert float(umbrella(r)) == pytest.approx(0, abs=1e-12)


def relaxed_flat() -> np.ndarray:
    """The flat stationary point: the bond length at which the forces of all springs cancel."""
    # 2 * 15 (d - 1) per bond against the two H-H springs at distance sqrt(3) d.
    d = (30 + 4 * 3**0.5 * 1.6) / (30 + 12)
    assert largest_force(umbrella, d * FLAT) < 1e-10
    return d * FLAT


def test_a_potential_without_a_minimum_is_refused():
    with pytest.raises(MDError, match="no minimum in 500 steps from .* the largest force is"):
        relax(lambda r: -jnp.linalg.norm(r[0] - r[1]), LINE[:2])


def test_an_energy_that_is_not_finite_is_refused():
    with pytest.raises(MDError, match="energy or forces are not finite"):
        relax(lennard_jones, np.zeros((4, 3)))
