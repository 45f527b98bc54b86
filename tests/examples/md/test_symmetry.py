"""Permutations of like atoms, of their distances, and the orbits of both."""

import doctest
from itertools import permutations
from math import comb

import numpy as np
import pytest
import symmetry
from descriptors import all_distances

HYDRONIUM = ("O", "H", "H", "H")


def test_the_examples_of_the_docstrings_hold():
    assert doctest.testmod(symmetry).attempted >= 5
    assert doctest.testmod(symmetry).failed == 0


@pytest.mark.parametrize(
    ("symbols", "order"), [("Li H", 1), ("O H H", 2), ("O H H H", 6), ("C C H H H H", 48)]
)
def test_the_group_has_the_product_of_the_factorials_of_like_atoms(symbols: str, order: int):
    atoms = tuple(symbols.split())
    group = symmetry.atom_permutations(atoms)
    assert len(group) == symmetry.group_order(atoms) == order
    assert len({tuple(g) for g in group}) == order
    assert group[0].tolist() == list(range(len(atoms)))
    assert all(tuple(np.array(atoms)[g]) == atoms for g in group)


def test_permuting_atoms_permutes_distances_as_told():
    positions = np.random.default_rng(0).normal(size=(4, 3))
    r = all_distances(positions[None])[0]
    both = zip(
        symmetry.atom_permutations(HYDRONIUM), symmetry.pair_permutations(HYDRONIUM), strict=True
    )
    for atoms, of_pairs in both:
        np.testing.assert_allclose(all_distances(positions[atoms][None])[0], r[of_pairs])


def test_hydronium_has_two_kinds_of_distances_and_four_of_pairs_of_them():
    group = symmetry.pair_permutations(HYDRONIUM)
    assert np.bincount(symmetry.orbits(group)).tolist() == [3, 3]
    assert sorted(np.bincount(symmetry.unordered_orbits(group))) == [3, 3, 3, 6]
    assert symmetry.ordered_orbits(group).max() + 1 == 8


def test_orbits_are_the_classes_that_a_search_finds():
    group = symmetry.pair_permutations(("C", "C", "H", "H"))
    found = symmetry.orbits(group)
    for j in range(comb(4, 2)):
        reached = set(group[:, j])
        assert {k for k in range(comb(4, 2)) if found[k] == found[j]} == reached


@pytest.mark.parametrize("symbols", [HYDRONIUM, ("O", "H", "H"), ("Li", "H"), ("C", "C", "H", "H")])
def test_pairs_of_the_same_elements_are_one_orbit(symbols: tuple[str, ...]):
    by_elements = symmetry.pair_kinds(symbols)
    by_group = symmetry.orbits(symmetry.pair_permutations(symbols))
    same = by_elements[:, None] == by_elements[None, :]
    np.testing.assert_array_equal(same, by_group[:, None] == by_group[None, :])


def test_the_group_is_closed():
    group = {tuple(g) for g in symmetry.atom_permutations(HYDRONIUM)}
    assert all(tuple(np.array(g)[list(h)]) in group for g, h in permutations(group, 2))
