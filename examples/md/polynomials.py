"""Polynomials in P variables that do not change when a group permutes the variables.

A permutation maps monomials to monomials; the mean of the monomials of an orbit is invariant, and
every invariant polynomial is a linear combination of such means, in one way. There is no constant
among them: for the six distances of H3O+ that leaves 22 up to degree 3 and 50 up to degree 4,
which with the constant of the potential are 23 and 51 coefficients. The number is Molien's: the
coefficient of t^d in (1/G) sum_g 1 / det(1 - t g) counts the orbits of degree d.
"""

import operator
from functools import reduce
from itertools import combinations_with_replacement

import jax
import jax.numpy as jnp
import numpy as np
from problems import MDError

LARGEST = 20_000_000
"""Monomials times permutations, up to which a basis is enumerated."""


class Basis:
    """The means over orbits of all monomials of degrees 1 to `degree`.

    Args:
        group: (G, P) permutations of the variables, closed under composition.
        degree: the highest.

    Attributes:
        exponents: (M, P) integers, one row per monomial; degrees rise.
        orbit: (M,) integers, which orbit each belongs to; numbered as their first monomials.
        weight: (M,) one over the size of that orbit.
        size: how many orbits there are.

    Raises:
        MDError: the rows are no permutations or no group, the degree is below 1, or there are more
            monomials than can be enumerated.

    >>> basis = Basis(np.array([[0, 1], [1, 0]]), degree=2)  # x and y change places
    >>> basis.exponents.tolist()
    [[1, 0], [0, 1], [2, 0], [1, 1], [0, 2]]
    >>> basis(jnp.array([2.0, 4.0])).tolist()  # means of x, y; of xx, yy; and xy
    [3.0, 10.0, 8.0]
    """

    def __init__(self, group: np.ndarray, degree: int) -> None:
        group = np.asarray(group)
        variables = group.shape[-1]
        if group.ndim != 2 or not (np.sort(group, axis=1) == np.arange(variables)).all():
            raise MDError(f"group must be rows of permutations (G, P), got {group.tolist()}")
        if degree < 1:
            raise MDError(f"degree must be at least 1, got {degree}")
        total = _count(variables, degree)
        if total * len(group) > LARGEST or (degree + 1) ** variables > 2**63:
            raise MDError(
                f"degree {degree} in {variables} variables has {total} monomials under "
                f"{len(group)} permutations, too many to enumerate. Lower the degree"
            )
        self.degree = degree
        self.exponents = _exponents(variables, degree)
        self.orbit = _orbits(self.exponents, group, degree)
        members = np.bincount(self.orbit)
        self.size = len(members)
        self.weight = 1.0 / members[self.orbit]
        # Selections as products with matrices: gathers and scatters, and the products that share
        # factors, take XLA many times as long to compile, and no less to run.
        self._factors = _factors(self.exponents, degree)
        self._means = np.zeros((self.size, len(self.orbit)))
        self._means[self.orbit, np.arange(len(self.orbit))] = self.weight

    def monomials(self, x: jax.Array) -> jax.Array:
        """(M,) values of the monomials of variables (P,), in the order of `exponents`."""
        factors = self._factors @ jnp.append(x, 1.0)
        return reduce(operator.mul, factors.reshape(self.degree, -1))

    def __call__(self, x: jax.Array) -> jax.Array:
        """(size,) means over the orbits at variables (P,)."""
        return self._means @ self.monomials(x)


def _count(variables: int, degree: int) -> int:
    """(P + d)! / (P! d!) - 1, the number of monomials of degrees 1 to d."""
    number = 1
    for k in range(1, degree + 1):
        number = number * (variables + k) // k
    return number - 1


def _exponents(variables: int, degree: int) -> np.ndarray:
    """(M, P), by degree; within one, the first variables first."""
    rows = [
        np.bincount(chosen, minlength=variables)
        for total in range(1, degree + 1)
        for chosen in combinations_with_replacement(range(variables), total)
    ]
    return np.array(rows)


def _factors(exponents: np.ndarray, degree: int) -> np.ndarray:
    """(degree * M, P + 1): a one in row d M + m where factor d of monomial m is; P is for 1."""
    count, variables = exponents.shape
    chosen = np.full((count, degree), variables)
    for row, powers in zip(chosen, exponents, strict=True):
        row[: powers.sum()] = np.repeat(np.arange(variables), powers)
    return np.eye(variables + 1)[chosen.T.reshape(-1)]


def _orbits(exponents: np.ndarray, group: np.ndarray, degree: int) -> np.ndarray:
    """(M,) the orbit of each monomial, numbered in the order of their first monomials.

    Exponents are digits of a number; that of the least image stands for the orbit.

    Raises:
        MDError: the images differ in what their least image is, so that it is no group.
    """
    place = (degree + 1) ** np.arange(exponents.shape[1], dtype=np.int64)[::-1]
    own = exponents @ place
    least = own.copy()
    for permutation in group:
        np.minimum(least, exponents[:, permutation] @ place, out=least)
    order = np.argsort(own)
    for permutation in group:
        image = order[np.searchsorted(own[order], exponents[:, permutation] @ place)]
        if (least[image] != least).any():
            raise MDError(
                f"the {len(group)} permutations are no group: some of their compositions are "
                "missing. Give all of them, as symmetry.pair_permutations does"
            )
    _, first, orbit = np.unique(least, return_index=True, return_inverse=True)
    rank = np.argsort(np.argsort(first))
    return rank[orbit.reshape(-1)]
