"""Kernel regression on inverse distances, solved from forces: the strong classical baseline.

The energy is a Gaussian process in the P inverse distances x = 1 / r, made invariant by averaging
its kernel over the permutations g of like atoms, and conditioned on the forces of the training
frames (gradient-domain learning: Chmiela et al., Sci. Adv. 3, e1603015 (2017); symmetrised: Nat.
Commun. 9, 3887 (2018)):

    E(R) = c - sum_n alpha_n . d/dR_n k(x(R), x(R_n)),       (K + ridge) alpha = F
    K_nm = d/dR_n d/dR_m k(x(R_n), x(R_m))

Two contractions leave everything as it is and make it cheap. The coefficients of a frame act
through its 3A x P Jacobian alone, whose rank is at most the 3A - 6 internal degrees of freedom: so
that many unknowns are solved for instead of 3A. And beta_n = (dx/dR_n) alpha_n, P numbers per
frame, is all that the energy needs.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from itertools import combinations

import jax
import jax.numpy as jnp
import numpy as np
import scipy.linalg
from frames import Frames
from problems import MDError

TINY = 1e-30
"""Added to squared distances under a root, whose slope at zero is infinite."""


@dataclass(frozen=True)
class Form:
    """A kernel k = f(s) of the squared distance s = |x - x'|² / width².

    Attributes:
        slope: f'(s), in JAX.
        bends: (f'(s), f''(s)), in NumPy.
    """

    slope: Callable[[jax.Array], jax.Array]
    bends: Callable[[np.ndarray], tuple[np.ndarray, np.ndarray]]


def _gaussian(s: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    decay = np.exp(-s / 2)
    return -decay / 2, decay / 4


def _matern(s: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    u = np.sqrt(5 * s)
    decay = np.exp(-u)
    return -5 / 6 * (1 + u) * decay, 25 / 12 * decay


def _matern_slope(s: jax.Array) -> jax.Array:
    u = jnp.sqrt(5 * s + TINY)
    return -5 / 6 * (1 + u) * jnp.exp(-u)


FORMS = {
    "gaussian": Form(lambda s: -jnp.exp(-s / 2) / 2, _gaussian),  # f = exp(-s / 2)
    "matern": Form(_matern_slope, _matern),  # f = (1 + u + u²/3) exp(-u), u = sqrt(5 s)
}


@dataclass(frozen=True)
class Coefficients:
    """A fitted kernel model; a pytree of its arrays.

    Attributes:
        points: (N, P) inverse distances of the training frames, in 1/Å.
        weights: (N, P) beta, their coefficients, in eV Å.
        constant: () eV, the constant of integration.
        width: () of the kernel, in 1/Å.
        group: (G, P) permutations of the distances, a part of the structure, as is
        form: a name of FORMS.
    """

    points: jax.Array
    weights: jax.Array
    constant: jax.Array
    width: jax.Array
    group: tuple[tuple[int, ...], ...]
    form: str

    def count(self) -> int:
        """How many coefficients there are, the constant included."""
        return int(np.size(self.weights)) + 1


jax.tree_util.register_dataclass(
    Coefficients, ["points", "weights", "constant", "width"], ["group", "form"]
)


def energy(coefficients: Coefficients, positions: jax.Array) -> jax.Array:
    """The energy () in eV at positions (A, 3) in Å.

    It has all derivatives for the Gaussian, three for Matérn.
    """
    first, second = _pairs(positions.shape[0])
    return energy_of_distances(
        coefficients, jnp.linalg.norm(positions[first] - positions[second], axis=-1)
    )


def energy_of_distances(coefficients: Coefficients, distances: jax.Array) -> jax.Array:
    """The energy () in eV at distances (P,) in Å, pairs in the order of itertools.combinations."""
    c = coefficients
    x = (1 / distances)[np.array(c.group)]  # (G, P)
    between = (x[:, None, :] - c.points) / c.width  # (G, N, P)
    slope = FORMS[c.form].slope(jnp.sum(between**2, axis=-1))
    along = jnp.sum(between * c.weights, axis=-1)
    return c.constant + 2 / (len(c.group) * c.width) * jnp.sum(slope * along)


def fit(
    frames: Frames, group: np.ndarray, width: float, ridge: float, form: str = "gaussian"
) -> Coefficients:
    """The coefficients that reproduce the forces of frames, as closely as the ridge lets them.

    The constant makes the mean error of the energies zero; otherwise these are not used.

    Args:
        frames: N of them; the cost grows as (N (3A - 6))³.
        group: (G, A) permutations of like atoms, all of them.
        width: of the kernel, in 1/Å.
        ridge: added to the diagonal of the kernel matrix, in 1/Å²; zero to interpolate.
        form: "gaussian" or "matern" (of order 5/2).

    Raises:
        MDError: no frames, a width or ridge out of range, an unknown form, permutations of another
            number of atoms; or the matrix is singular in double precision.
    """
    group = np.asarray(group)
    atoms = frames.positions.shape[1]
    _check(frames, group, width, ridge, form)
    points, jacobians = _inverse_distances(frames.positions)
    images = _of_pairs(group)
    inner, outer = _internal(jacobians)
    matrix = _matrix(points, inner, images, width, form)
    matrix.flat[:: len(matrix) + 1] += ridge
    target = np.einsum("nqr,nq->nr", outer, frames.forces.reshape(len(points), 3 * atoms))
    try:
        factor = scipy.linalg.cho_factor(matrix.T, lower=True, overwrite_a=True, check_finite=False)
    except scipy.linalg.LinAlgError as error:
        raise MDError(
            f"the kernel matrix of {len(points)} frames is singular at width {width} and ridge "
            f"{ridge}: {error}. Raise the ridge, or lower the width"
        ) from error
    alpha = scipy.linalg.cho_solve(factor, target.reshape(-1)).reshape(target.shape)
    beta = np.einsum("npr,nr->np", inner, alpha)
    pairs = tuple(tuple(map(int, image)) for image in images)
    of_points, of_beta, zero, of_width = map(jnp.asarray, (points, beta, 0.0, float(width)))
    fitted = Coefficients(of_points, of_beta, zero, of_width, pairs, form)
    left = frames.energies - np.asarray(_energies(fitted, 1 / points))
    return replace(fitted, constant=jnp.asarray(left.mean()))


def _check(frames: Frames, group: np.ndarray, width: float, ridge: float, form: str) -> None:
    atoms = frames.positions.shape[1]
    if len(frames) < 1 or atoms < 2:
        raise MDError(
            f"a kernel needs a frame of two atoms at least, got {len(frames)} frames of {atoms}"
        )
    if not (np.isfinite(width) and width > 0 and np.isfinite(ridge) and ridge >= 0):
        raise MDError(f"width must be positive and ridge not negative, got {width} and {ridge}")
    if form not in FORMS:
        raise MDError(f"there is no kernel {form!r}; known are {', '.join(FORMS)}")
    permuted = np.broadcast_to(np.arange(atoms), (len(group), atoms))
    if not np.array_equal(np.sort(group, axis=-1), permuted):
        raise MDError(
            f"group must be permutations (G, {atoms}) of the atoms, got shape {group.shape}"
        )


def _pairs(atoms: int) -> np.ndarray:
    """(2, P) the atoms of each pair."""
    return np.array(list(combinations(range(atoms), 2))).T


def _of_pairs(group: np.ndarray) -> np.ndarray:
    """(G, P) what permutations (G, A) of atoms do to pairs."""
    first, second = _pairs(group.shape[1])
    number = np.zeros((group.shape[1], group.shape[1]), int)
    number[first, second] = number[second, first] = np.arange(len(first))
    images: np.ndarray = number[group[:, first], group[:, second]]
    return images


def _inverse_distances(positions: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """x = 1/r, (N, P) in 1/Å, and their derivatives (N, P, 3A) by the positions in 1/Å²."""
    count, atoms, _ = positions.shape
    first, second = _pairs(atoms)
    between = positions[:, first] - positions[:, second]
    x = 1 / np.linalg.norm(between, axis=-1)
    slopes = -between * x[..., None] ** 3
    jacobians = np.zeros((count, len(first), atoms, 3))
    pair = np.arange(len(first))
    jacobians[:, pair, first] = slopes
    jacobians[:, pair, second] = -slopes
    return x, jacobians.reshape(count, len(first), 3 * atoms)


def _internal(jacobians: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(N, P, r) and (N, 3A, r): J = inner outer^T, r the internal degrees of freedom at most.

    The columns of `outer` are orthonormal: what of a force is beyond them, no kernel can make.
    """
    pairs, places = jacobians.shape[1:]
    rank = max(1, min(pairs, places - 6))
    left, size, right = np.linalg.svd(jacobians, full_matrices=False)
    return left[:, :, :rank] * size[:, None, :rank], right[:, :rank].transpose(0, 2, 1)


def _matrix(
    points: np.ndarray, inner: np.ndarray, images: np.ndarray, width: float, form: str
) -> np.ndarray:
    """(N r, N r) the kernel between internal forces of frames, by one permutation after another.

    With d = (x - x'[g]) / width and A = inner / width, a permutation adds
    A^T (-2 f' - 4 f'' d d^T) A'[g].
    """
    count, pairs, rank = inner.shape
    x, own = points / width, inner / width
    rows = own.transpose(0, 2, 1)  # (N, r, P)
    flat = rows.reshape(-1, pairs)
    at_own = np.einsum("nrp,np->nr", rows, x)[:, :, None]
    matrix = np.zeros((count, rank, count, rank))
    for image in images:
        there, other = x[:, image], own[:, image]
        columns = other.transpose(1, 0, 2).reshape(pairs, -1)
        square = np.sum((x[:, None, :] - there[None, :, :]) ** 2, axis=-1)
        slope, bend = FORMS[form].bends(square)
        ahead = at_own - (flat @ there.T).reshape(count, rank, count)  # A^T d: (N, r, M)
        at_other = np.einsum("mp,mpr->mr", there, other)
        behind = (x @ columns).reshape(count, count, rank) - at_other  # d^T A': (N, M, r)
        product = (flat @ columns).reshape(count, rank, count, rank)
        product *= (-2 * slope)[:, None, :, None]
        ahead *= -4 * bend[:, None, :]
        product += ahead[..., None] * behind[:, None]
        matrix += product
    return matrix.reshape(count * rank, count * rank) / len(images)


@jax.jit
def _energies(coefficients: Coefficients, distances: jax.Array) -> jax.Array:
    """(N,) energies in eV at distances (N, P)."""
    each: jax.Array = jax.lax.map(partial(energy_of_distances, coefficients), distances)
    return each
