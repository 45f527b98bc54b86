"""The symmetry of like atoms: permutations of atoms, of their distances, and the orbits of both.

A potential must not change when two like atoms change places. In the models that holds because
quantities which such permutations map onto each other, an orbit, share one weight.
"""

from itertools import combinations, permutations, product

import numpy as np


def pairs(atoms: int) -> list[tuple[int, int]]:
    """The P = A(A-1)/2 pairs of so many atoms, in the order of every array of distances."""
    return list(combinations(range(atoms), 2))


def atom_permutations(symbols: tuple[str, ...]) -> np.ndarray:
    """(G, A) integers: every permutation that only exchanges like atoms, the identity first.

    >>> atom_permutations(("O", "H", "H")).tolist()
    [[0, 1, 2], [0, 2, 1]]
    """
    kinds = {symbol: [i for i, s in enumerate(symbols) if s == symbol] for symbol in symbols}
    group = []
    for images in product(*(permutations(places) for places in kinds.values())):
        image = np.empty(len(symbols), int)
        for places, image_places in zip(kinds.values(), images, strict=True):
            image[places] = image_places
        group.append(image)
    return np.array(group)


def group_order(symbols: tuple[str, ...]) -> int:
    """How many permutations there are, without writing them out."""
    order = 1
    for symbol in set(symbols):
        for factor in range(2, symbols.count(symbol) + 1):
            order *= factor
    return order


def pair_permutations(symbols: tuple[str, ...]) -> np.ndarray:
    """(G, P) integers: what those permutations do to the pairs; p[g, k] is where pair k comes from.

    >>> pair_permutations(("O", "H", "H")).tolist()
    [[0, 1, 2], [1, 0, 2]]
    """
    number = {pair: k for k, pair in enumerate(pairs(len(symbols)))}
    images = [
        [number[min(g[i], g[j]), max(g[i], g[j])] for i, j in number]
        for g in atom_permutations(symbols)
    ]
    return np.array(images)


def orbits(permutations_: np.ndarray) -> np.ndarray:
    """(n,) integers: the orbit of each of n things under permutations (G, n), numbered from 0.

    >>> orbits(pair_permutations(("O", "H", "H"))).tolist()
    [0, 0, 1]
    """
    first = permutations_.min(axis=0)
    return np.unique(first, return_inverse=True)[1].reshape(-1)


def ordered_orbits(permutations_: np.ndarray) -> np.ndarray:
    """(n, n) integers: the orbit of each ordered pair of things, numbered from 0.

    >>> ordered_orbits(pair_permutations(("O", "H", "H"))).tolist()
    [[0, 1, 2], [1, 0, 2], [3, 3, 4]]
    """
    n = permutations_.shape[1]
    flat = (permutations_[:, :, None] * n + permutations_[:, None, :]).reshape(-1, n * n)
    return orbits(flat).reshape(n, n)


def unordered_orbits(permutations_: np.ndarray) -> np.ndarray:
    """(n(n-1)/2,) integers: the orbit of each pair of different things, in the order of `pairs`.

    >>> unordered_orbits(pair_permutations(("O", "H", "H"))).tolist()
    [0, 1, 1]
    """
    ordered = ordered_orbits(permutations_)
    lowest = np.minimum(ordered, ordered.T)
    upper = [lowest[j, k] for j, k in pairs(len(lowest))]
    return np.unique(upper, return_inverse=True)[1].reshape(-1)


def pair_kinds(symbols: tuple[str, ...]) -> np.ndarray:
    """(P,) integers: pairs of the same two elements have the same number; the orbits of pairs.

    >>> pair_kinds(("O", "H", "H")).tolist()
    [0, 0, 1]
    """
    elements = [tuple(sorted((symbols[i], symbols[j]))) for i, j in pairs(len(symbols))]
    seen = list(dict.fromkeys(elements))
    return np.array([seen.index(pair) for pair in elements], int)
