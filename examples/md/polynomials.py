"""Polynomials in P variables that do not change when a group permutes the variables.

A permutation maps monomials to monomials; the mean of the monomials of an orbit is invariant, and
every invariant polynomial is a linear combination of such means, in one way. There is no constant
among them: for the six distances of H3O+ that leaves 22 up to degree 3 and 50 up to degree 4,
which with the constant of the potential are 23 and 51 coefficients. The number is Molien's: the
coefficient of t^d in (1/G) sum_g 1 / det(1 - t g) counts the orbits of degree d.
"""

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
        self.exponents, self._starts = _monomials(variables, degree)
        self.orbit = _orbits(self.exponents, group, degree)
        members = np.bincount(self.orbit)
        self.size = len(members)
        self.weight = 1.0 / members[self.orbit]

    def monomials(self, x: jax.Array) -> jax.Array:
        """(M,) values of the monomials of variables (P,), in the order of `exponents`."""
        level, levels = jnp.ones(1), []
        for starts in self._starts:
            level = jnp.concatenate([x[k] * level[start:] for k, start in enumerate(starts)])
            levels.append(level)
        return jnp.concatenate(levels)

    def __call__(self, x: jax.Array) -> jax.Array:
        """(size,) means over the orbits at variables (P,)."""
        return jax.ops.segment_sum(self.monomials(x) * self.weight, self.orbit, self.size)


def _count(variables: int, degree: int) -> int:
    """(P + d)! / (P! d!) - 1, the number of monomials of degrees 1 to d."""
    number = 1
    for k in range(1, degree + 1):
        number = number * (variables + k) // k
    return number - 1


def _monomials(variables: int, degree: int) -> tuple[np.ndarray, list[np.ndarray]]:
    """Exponents (M, P), and for each degree where its factors start in the degree below.

    Those of a degree begin with all that hold variable 0: it times all of the degree below. Then
    come those that hold variable 1 but not 0: it times the end of the degree below, from where 0
    is not held. And so on; so each monomial is one product.
    """
    unit = np.eye(variables, dtype=np.int64)
    level, begin = np.zeros((1, variables), np.int64), np.zeros(variables, np.int64)
    levels, starts = [], []
    for _ in range(degree):
        blocks = [unit[k] + level[begin[k] :] for k in range(variables)]
        starts.append(begin)
        begin = np.cumsum([0, *map(len, blocks[:-1])])
        level = np.concatenate(blocks)
        levels.append(level)
    return np.concatenate(levels), starts


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


def design(
    basis: Basis, variables: np.ndarray, jacobians: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """The matrices that take the coefficients of a polynomial to energies and forces.

    Args:
        variables: (N, P) of each frame.
        jacobians: (N, P, 3A) their derivatives by the positions, in 1/Å.
    Returns:
        (N, size), whose product with coefficients is the energies; and (N, 3A, size), whose product
        is the forces, minus the slopes of the energies, in units of energy per Å.

    Raises:
        MDError: the shapes do not belong together.
    """
    points, slopes = np.asarray(variables, float), np.asarray(jacobians, float)
    if points.ndim != 2 or slopes.ndim != 3 or slopes.shape[:2] != points.shape:
        raise MDError(
            f"variables (N, P) and jacobians (N, P, 3A) must belong together, got {points.shape} "
            f"and {slopes.shape}"
        )
    both = jax.jit(jax.vmap(lambda x: (basis(x), jax.jacfwd(basis)(x))))
    of_energies, by_variables = map(np.asarray, both(points))
    return of_energies, -np.einsum("nsp,npc->ncs", by_variables, slopes, optimize=True)
