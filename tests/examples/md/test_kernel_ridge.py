"""The kernel model: against its matrix written out, its symmetries, derivatives and limits."""

from dataclasses import replace
from itertools import combinations

import jax
import jax.numpy as jnp
import kernel_ridge
import numpy as np
import pytest
import scipy.linalg
from frames import Frames
from kernel_ridge import FORMS, energy, fit
from problems import MDError
from symmetry import atom_permutations

HYDRONIUM, WATER = ("O", "H", "H", "H"), ("O", "H", "H")
START = {
    HYDRONIUM: [[0, 0, 0.05], [0.94, 0, -0.2], [-0.47, 0.814, -0.2], [-0.47, -0.814, -0.2]],
    WATER: [[0, 0, 0], [0.76, 0.59, 0], [-0.76, 0.59, 0]],
    ("Li", "H"): [[0, 0, 0], [0, 0, 1.6]],
    ("H", "C", "N"): [[0, 0, -1.06], [0, 0, 0], [0, 0, 1.15]],
}


def toy(symbols: tuple[str, ...], positions: jax.Array) -> jax.Array:
    """A potential in eV that like atoms share: Morse bonds to the first atom, and repulsion."""
    total = jnp.asarray(-7.0)
    for i, j in combinations(range(len(symbols)), 2):
        r = jnp.linalg.norm(positions[i] - positions[j])
        bond = 4 * (1 - jnp.exp(-2 * (r - 1.0))) ** 2
        total += bond if symbols[i] != symbols[j] else 2 * jnp.exp(-r) + 0.3 * (r - 1.6) ** 2
    return total


def frames(symbols: tuple[str, ...], count: int, seed: int = 0, spread: float = 0.07) -> Frames:
    """Frames around a geometry, with energies and forces of the toy."""
    rng = np.random.default_rng(seed)
    positions = np.array(START[symbols]) + rng.normal(0, spread, (count, len(symbols), 3))
    both = jax.jit(jax.vmap(jax.value_and_grad(lambda r: toy(symbols, r))))
    energies, slopes = map(np.asarray, both(positions))
    return Frames(symbols, positions, energies, -slopes, np.full(count, np.nan))


def kernel(form: str, width: float, group: np.ndarray, one: jax.Array, other: jax.Array):
    """The symmetrised kernel of two geometries (A, 3), as the textbook writes it."""

    def x(positions):
        i, j = np.array(list(combinations(range(positions.shape[0]), 2))).T
        return 1 / jnp.linalg.norm(positions[i] - positions[j], axis=-1)

    def plain(a, b):
        square = jnp.sum((a - b) ** 2) / width**2
        if form == "gaussian":
            return jnp.exp(-square / 2)
        # Far smaller, rounding would decide the slope at zero; it moves values by less than 1e-11.
        u = jnp.sqrt(5 * square + 1e-12)
        return (1 + u + u**2 / 3) * jnp.exp(-u)

    return sum(plain(x(one), x(other[g])) for g in group) / len(group)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("symbols", [WATER, HYDRONIUM], ids="".join)
def test_energies_are_those_of_the_kernel_matrix_written_out(form: str, symbols: tuple[str, ...]):
    group, width, ridge = atom_permutations(symbols), 0.6, 1e-3
    train, places = frames(symbols, 3), 3 * len(symbols)
    k = lambda a, b: kernel(form, width, group, a, b)
    mixed = jax.jit(jax.jacfwd(jax.jacrev(k, argnums=1), argnums=0))
    blocks = [
        [np.asarray(mixed(a, b)).reshape(places, places).T for b in train.positions]
        for a in train.positions
    ]
    matrix = np.block(blocks) + ridge * np.eye(3 * places)
    alpha = np.linalg.solve(matrix, train.forces.ravel()).reshape(train.forces.shape)

    slope = jax.jit(jax.grad(k, argnums=1))

    def expected(r):
        pairs = zip(alpha, train.positions, strict=True)
        return -sum(float(np.sum(a * np.asarray(slope(r, t)))) for a, t in pairs)

    constant = np.mean(train.energies - [expected(r) for r in train.positions])
    fitted = fit(train, group, width, ridge, form)
    for r in frames(symbols, 3, seed=1).positions:
        assert float(energy(fitted, r)) == pytest.approx(expected(r) + constant, abs=1e-7)


def predicted(fitted: kernel_ridge.Coefficients, positions: np.ndarray):
    both = jax.jit(jax.vmap(jax.value_and_grad(energy, 1), (None, 0)))
    energies, slopes = both(fitted, positions)
    return np.asarray(energies), -np.asarray(slopes)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("symbols", START, ids="".join)
def test_with_hardly_a_ridge_the_training_forces_come_back(form: str, symbols: tuple[str, ...]):
    train = frames(symbols, 12)
    fitted = fit(train, atom_permutations(symbols), 0.5, 1e-10, form)
    energies, forces = predicted(fitted, train.positions)
    np.testing.assert_allclose(forces, train.forces, atol=1e-4)
    assert np.mean(energies - train.energies) == pytest.approx(0, abs=1e-9)
    np.testing.assert_allclose(energies, train.energies, atol=0.05)


def test_more_frames_leave_smaller_errors_on_others():
    test, group = frames(HYDRONIUM, 30, seed=9), atom_permutations(HYDRONIUM)
    errors = []
    for count in (10, 40, 160):
        fitted = fit(frames(HYDRONIUM, count), group, 0.5, 1e-8)
        wrong = predicted(fitted, test.positions)[1] - test.forces
        errors.append(np.sqrt(np.mean(wrong**2) / np.mean(test.forces**2)))
    assert errors[0] > 2 * errors[1] > 4 * errors[2]
    assert errors[2] < 0.01


def test_averaging_over_permutations_is_training_on_the_permuted_frames_too():
    group = atom_permutations(WATER)
    train = frames(WATER, 5)
    copies = Frames(
        WATER,
        np.concatenate([train.positions[:, g] for g in group]),
        np.tile(train.energies, len(group)),
        np.concatenate([train.forces[:, g] for g in group]),
        np.tile(train.temperatures, len(group)),
    )
    averaged = fit(train, group, 0.5, 1e-4)
    plain = fit(copies, group[:1], 0.5, len(group) * 1e-4)
    there = frames(WATER, 4, seed=3).positions
    for one, other in zip(predicted(averaged, there), predicted(plain, there), strict=True):
        np.testing.assert_allclose(one, other, atol=1e-8)


def test_moving_turning_and_exchanging_like_atoms_changes_no_energy():
    group = atom_permutations(HYDRONIUM)
    fitted = fit(frames(HYDRONIUM, 8), group, 0.5, 1e-6)
    (r,) = frames(HYDRONIUM, 1, seed=5).positions
    turn = scipy.linalg.qr(np.random.default_rng(0).normal(size=(3, 3)))[0]
    here = float(energy(fitted, r))
    for moved in (r + [1.0, -2.0, 3.0], r @ turn.T, *(r[g] for g in group)):
        assert float(energy(fitted, moved)) == pytest.approx(here, abs=1e-10)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("trained_on", [True, False])
def test_forces_and_curvatures_are_difference_quotients(form: str, trained_on: bool):
    train = frames(WATER, 6)
    fitted = fit(train, atom_permutations(WATER), 0.5, 1e-6, form)
    r = train.positions[2] if trained_on else frames(WATER, 1, seed=4).positions[0]
    value = jax.jit(lambda flat: energy(fitted, flat.reshape(3, 3)))
    slope, flat, step = jax.jit(jax.grad(value)), r.ravel(), 1e-4
    moves = step * np.eye(9)
    quotients = [(value(flat + e) - value(flat - e)) / (2 * step) for e in moves]
    np.testing.assert_allclose(slope(flat), quotients, atol=1e-4)
    curvatures = [(slope(flat + e) - slope(flat - e)) / (2 * step) for e in moves]
    np.testing.assert_allclose(jax.hessian(value)(flat), curvatures, atol=2e-3)


def test_a_constant_added_to_the_energies_is_added_to_the_predictions():
    train, group = frames(WATER, 5), atom_permutations(WATER)
    raised = replace(train, energies=train.energies + 5)
    one, other = (fit(data, group, 0.5, 1e-6) for data in (train, raised))
    assert float(other.constant - one.constant) == pytest.approx(5, abs=1e-9)
    np.testing.assert_array_equal(one.weights, other.weights)


def test_six_unknowns_per_frame_of_hydronium_are_solved_for(monkeypatch: pytest.MonkeyPatch):
    sizes = []
    solve = scipy.linalg.cho_factor

    def counted(matrix: np.ndarray, **options: bool):
        sizes.append(matrix.shape)
        return solve(matrix, **options)

    monkeypatch.setattr(scipy.linalg, "cho_factor", counted)
    fitted = fit(frames(HYDRONIUM, 7), atom_permutations(HYDRONIUM), 0.5, 1e-6)
    assert sizes == [(42, 42)]
    assert fitted.count() == 7 * 6 + 1


def test_another_width_needs_no_new_compilation():
    train, group = frames(WATER, 4), atom_permutations(WATER)
    traced = []

    @jax.jit
    def value(fitted: kernel_ridge.Coefficients, r: jax.Array) -> jax.Array:
        traced.append(1)
        return energy(fitted, r)

    values = {float(value(fit(train, group, w, 1e-6), train.positions[0])) for w in (0.5, 2.0)}
    assert len(values) == 2 and len(traced) == 1


# Refusals


@pytest.mark.parametrize(
    ("width", "ridge", "form", "sentence"),
    [
        (0.0, 1e-6, "gaussian", "width must be positive and ridge not negative, got 0.0"),
        (-1.0, 1e-6, "gaussian", "width must be positive"),
        (float("nan"), 1e-6, "gaussian", "width must be positive"),
        (1.0, -1e-6, "gaussian", "ridge not negative"),
        (1.0, float("inf"), "gaussian", "ridge not negative"),
        (1.0, 1e-6, "cubic", "there is no kernel 'cubic'; known are gaussian, matern"),
    ],
)
def test_settings_out_of_range_are_refused(width: float, ridge: float, form: str, sentence: str):
    with pytest.raises(MDError, match=sentence):
        fit(frames(WATER, 3), atom_permutations(WATER), width, ridge, form)


def test_frames_that_are_there_twice_are_singular_without_a_ridge():
    train, group = frames(WATER, 4), atom_permutations(WATER)
    twice = train[np.array([0, 1, 2, 3, 0, 1, 2, 3])]
    with pytest.raises(MDError, match="of 8 frames is singular at width 0.5 and ridge 0"):
        fit(twice, group, 0.5, 0.0)
    fit(twice, group, 0.5, 1e-8)


def test_no_frames_and_permutations_of_other_molecules_are_refused():
    train = frames(WATER, 3)
    with pytest.raises(MDError, match="got 0 frames of 3"):
        fit(train[:0], atom_permutations(WATER), 0.5, 1e-6)
    with pytest.raises(MDError, match=r"permutations \(G, 3\) of the atoms, got shape \(6, 4\)"):
        fit(train, atom_permutations(HYDRONIUM), 0.5, 1e-6)
