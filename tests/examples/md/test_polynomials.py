"""Invariant polynomials: how many there are, their values, derivatives and least squares."""

from itertools import permutations, product

import jax
import numpy as np
import pytest
from polynomials import Basis
from problems import MDError
from symmetry import pair_permutations

MOLECULES = [
    ("Li", "H"),
    ("O", "H", "H"),
    ("N", "O", "H"),
    ("O", "H", "H", "H"),
    ("C", "H", "H", "H", "H"),
    ("O", "O", "H", "H"),
]
HYDRONIUM = pair_permutations(("O", "H", "H", "H"))


def molien(group: np.ndarray, degree: int) -> int:
    """The number of invariants of degrees 1 to `degree`, from the series of Molien.

    A permutation of cycles of lengths n contributes the product of the series 1 / (1 - t^n).
    """
    total = np.zeros(degree + 1)
    for permutation in group:
        series = np.eye(1, degree + 1)[0]
        left = set(range(len(permutation)))
        while left:
            start = place = left.pop()
            length = 1
            while (place := permutation[place]) != start:
                left.remove(place)
                length += 1
            for k in range(length, degree + 1):
                series[k] += series[k - length]
        total += series
    counts = total / len(group)
    assert np.allclose(counts, np.round(counts))
    return int(np.round(counts[1:].sum()))


@pytest.mark.parametrize("symbols", MOLECULES, ids="".join)
@pytest.mark.parametrize("degree", [1, 2, 3])
def test_there_are_as_many_as_the_series_of_molien_says(symbols: tuple[str, ...], degree: int):
    group = pair_permutations(symbols)
    assert Basis(group, degree).size == molien(group, degree)


def test_with_the_constant_hydronium_has_23_up_to_degree_3_and_51_up_to_degree_4():
    assert [Basis(HYDRONIUM, degree).size + 1 for degree in (3, 4)] == [23, 51]


def test_without_symmetry_every_monomial_is_its_own_orbit():
    basis = Basis(np.arange(3)[None], 3)
    assert basis.size == len(basis.exponents) == 19  # (3 + 3)! / (3! 3!) - 1
    assert basis.orbit.tolist() == list(range(19))


@pytest.mark.parametrize("symbols", MOLECULES, ids="".join)
def test_every_monomial_of_the_degrees_is_there_once(symbols: tuple[str, ...]):
    basis = Basis(pair_permutations(symbols), 3)
    variables = basis.exponents.shape[1]
    rows = {tuple(row) for row in basis.exponents.tolist()}
    if variables <= 6:
        every = {row for row in product(range(4), repeat=variables) if 1 <= sum(row) <= 3}
        assert rows == every
    assert len(rows) == len(basis.exponents)
    assert (np.diff(basis.exponents.sum(axis=1)) >= 0).all()


@pytest.mark.parametrize("symbols", MOLECULES, ids="".join)
def test_the_values_are_means_of_monomials_over_all_their_images(symbols: tuple[str, ...]):
    group = pair_permutations(symbols)
    basis = Basis(group, 3)
    x = np.random.default_rng(0).uniform(0.5, 1.5, group.shape[1])
    values = np.asarray(basis(x))
    for exponents, orbit in zip(basis.exponents, basis.orbit, strict=True):
        images = [np.prod(x[permutation] ** exponents) for permutation in group]
        assert values[orbit] == pytest.approx(np.mean(images), rel=1e-12)
    sums = np.zeros(basis.size)
    np.add.at(sums, basis.orbit, basis.weight * np.prod(x**basis.exponents, axis=1))
    np.testing.assert_allclose(values, sums, rtol=1e-12)


@pytest.mark.parametrize("symbols", MOLECULES, ids="".join)
def test_permuting_like_atoms_changes_no_value(symbols: tuple[str, ...]):
    group = pair_permutations(symbols)
    basis, x = Basis(group, 3), np.random.default_rng(1).normal(size=group.shape[1])
    for permutation in group:
        np.testing.assert_allclose(basis(x[permutation]), basis(x), atol=1e-12)


def test_they_are_linearly_independent():
    basis = Basis(HYDRONIUM, 4)
    points = np.random.default_rng(2).normal(size=(200, 6))
    assert np.linalg.matrix_rank(jax.vmap(basis)(points)) == basis.size


def test_at_zero_variables_values_and_slopes_are_those_of_the_linear_terms():
    basis = jax.jit(Basis(HYDRONIUM, 3))
    assert not np.asarray(basis(np.zeros(6))).any()
    slopes = np.asarray(jax.jit(jax.jacfwd(basis))(np.zeros(6)))
    np.testing.assert_allclose(slopes[:2], np.kron(np.eye(2), np.ones(3)) / 3, atol=1e-15)
    assert not slopes[2:].any()


def test_slopes_and_curvatures_are_difference_quotients():
    step, x = 1e-5, np.random.default_rng(3).normal(size=6)
    value = jax.jit(Basis(HYDRONIUM, 3))
    slope, curvature = jax.jit(jax.jacrev(value)), jax.jit(jax.hessian(value))
    moves = step * np.eye(6)
    quotients = [(value(x + e) - value(x - e)) / (2 * step) for e in moves]
    np.testing.assert_allclose(slope(x), np.stack(quotients, axis=1), atol=1e-8)
    curvatures = [(slope(x + e) - slope(x - e)) / (2 * step) for e in moves]
    np.testing.assert_allclose(curvature(x), np.stack(curvatures, axis=2), atol=1e-7)


# Refusals


def test_permutations_that_are_no_group_are_refused():
    turn = np.array([[0, 1, 2], [1, 2, 0]])
    with pytest.raises(MDError, match="are no group: some of their compositions are missing"):
        Basis(turn, 2)
    assert Basis(np.array([[0, 1, 2], [1, 2, 0], [2, 0, 1]]), 2).size == 3
    assert Basis(np.array(list(permutations(range(3)))), 2).size == 3


@pytest.mark.parametrize("group", [[[0, 0, 1]], [[1, 2, 3]], [0, 1, 2]])
def test_rows_that_are_no_permutations_are_refused(group: list):
    with pytest.raises(MDError, match=r"rows of permutations \(G, P\), got"):
        Basis(np.array(group), 2)


def test_a_degree_below_one_is_refused():
    with pytest.raises(MDError, match="degree must be at least 1, got 0"):
        Basis(HYDRONIUM, 0)


def test_more_monomials_than_can_be_enumerated_are_refused():
    group = pair_permutations(("H",) * 6)
    with pytest.raises(MDError, match="490313 monomials under 720 permutations, too many"):
        Basis(group, 8)
