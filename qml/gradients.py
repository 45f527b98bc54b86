r"""The parameter-shift rule: all derivatives of E(a) from values of E alone, exactly or unbiased.

A slot is the angle of one Pauli rotation exp(-i a/2 P), so E is of the form A + B cos a + C sin a
in each of them, and with e_k a unit vector

    dE/da_k       = [E(a + pi/2 e_k) - E(a - pi/2 e_k)] / 2
    d2E/da_k da_l = [E(++) - E(+-) - E(-+) + E(--)] / 4      shifts of pi/2 in k and l
    d2E/da_k^2    = [E(a + pi e_k) - E(a)] / 2

(Schuld et al., PRA 99, 032331 (2019); Mari et al., PRA 103, 012405 (2021)). Every function here
asks its evaluator for all rows that its result depends on, and no others: slots whose tangent is
zero in the whole batch, and outputs whose cotangent is, are left out, which is exact by linearity.
It asks once, or in parts where all rows together would fill the memory.

With gradient = "spsa" every sample spends two rows whatever K is: one slot k is drawn for it, and
its derivative there, times K, is an unbiased estimate of its gradient g, exact shifts and all. The
estimate's variance, the mean of |estimate - g|^2, is (K - 1) |g|^2, plus K^2 s^2 / 2 where a row's
value has the variance s^2 by its shots. (The simultaneous perturbation of Spall, IEEE TAC 37, 332
(1992), has the former too, for steps c -> 0; at any other step it is biased by O(c^2), and its
shots add K s^2 / (2 c^2).)

Shapes: a (B, K), E (B, M). Tangents and cotangents carry further axes, so that several directions
share the rows of one `a`: T, U and C belong to one operand, S to both operands of a second order.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Indices = NDArray[np.intp]

Evaluator = Callable[[Array, NDArray[np.bool_]], Array]
"""(rows (R, K), wanted outputs (M,)) -> values (R, M)."""

SHIFT: Final = np.pi / 2

PART: Final = 1 << 22
"""Angles in one call of an evaluator, at least one row per sample: 32 MiB."""


def expval_jvp(evaluate: Evaluator, num_outputs: int, a: Array, t: Array) -> Array:
    """J t: tangents t (B, T, K) -> (B, T, M)."""
    slots = _used(t)
    if not slots.size:
        return np.zeros((*t.shape[:2], num_outputs))
    jacobian = _jacobian(evaluate, np.ones(num_outputs, np.bool_), a, slots)
    return _contract("bkm,btk->btm", jacobian, t[..., slots])


def expval_vjp(evaluate: Evaluator, num_outputs: int, a: Array, c: Array) -> Array:
    """J^T c: cotangents c (B, C, M) -> (B, C, K)."""
    wanted = _used(c)
    slots = np.arange(a.shape[1])
    if not wanted.size or not slots.size:
        return np.zeros((*c.shape[:2], len(slots)))
    jacobian = _jacobian(evaluate, _mask(wanted, num_outputs), a, slots)
    return _contract("bkm,bcm->bck", jacobian, c)


def expval_hvp(evaluate: Evaluator, num_outputs: int, a: Array, t: Array, c: Array) -> Array:
    """sum_m c_m H_m t: t (B, S, T, K), c (B, S, C, M) -> (B, S, T, C, K)."""
    slots, wanted = _used(t), _used(c)
    everything = np.arange(a.shape[1])
    if not slots.size or not wanted.size:
        return np.zeros((*t.shape[:3], c.shape[2], len(everything)))
    mask = _mask(wanted, num_outputs)
    hessian = _hessian(evaluate, mask, a, everything, slots)
    return _contract("bklm,bstl,bscm->bstck", hessian, t[..., slots], c)


def expval_curvature(evaluate: Evaluator, num_outputs: int, a: Array, t: Array, u: Array) -> Array:
    """t^T H_m u: t (B, S, T, K), u (B, S, U, K) -> (B, S, T, U, M)."""
    left, right = _used(t), _used(u)
    if not left.size or not right.size:
        return np.zeros((*t.shape[:3], u.shape[2], num_outputs))
    hessian = _hessian(evaluate, np.ones(num_outputs, np.bool_), a, left, right)
    return _contract("bklm,bstk,bsul->bstum", hessian, t[..., left], u[..., right])


def spsa_jvp(
    evaluate: Evaluator, num_outputs: int, a: Array, t: Array, rng: np.random.Generator
) -> Array:
    """An unbiased estimate of J t, from two rows per sample; shapes as in `expval_jvp`."""
    slots = _used(t)
    if not slots.size:
        return np.zeros((*t.shape[:2], num_outputs))
    drawn, slopes = _drawn_slopes(evaluate, np.ones(num_outputs, np.bool_), a, slots, rng)
    return _contract("bm,bt->btm", slopes, t[np.arange(len(a)), :, drawn])


def spsa_vjp(
    evaluate: Evaluator, num_outputs: int, a: Array, c: Array, rng: np.random.Generator
) -> Array:
    """An unbiased estimate of J^T c, from two rows per sample; shapes as in `expval_vjp`."""
    wanted, slots = _used(c), np.arange(a.shape[1])
    found = np.zeros((*c.shape[:2], len(slots)))
    if not wanted.size or not slots.size:
        return found
    drawn, slopes = _drawn_slopes(evaluate, _mask(wanted, num_outputs), a, slots, rng)
    found[np.arange(len(a)), :, drawn] = _contract("bm,bcm->bc", slopes, c)
    return found


def _drawn_slopes(
    evaluate: Evaluator,
    wanted: NDArray[np.bool_],
    a: Array,
    slots: Indices,
    rng: np.random.Generator,
) -> tuple[Indices, Array]:
    """A slot (B,) of `slots` for every sample, and len(slots) dE/da there (B, M)."""
    drawn = slots[rng.integers(len(slots), size=len(a))]
    shifts = np.zeros_like(a)
    shifts[np.arange(len(a)), drawn] = SHIFT
    plus, minus = np.split(evaluate(np.concatenate([a + shifts, a - shifts]), wanted), 2)
    return drawn, 0.5 * len(slots) * (plus - minus)


def _jacobian(evaluate: Evaluator, wanted: NDArray[np.bool_], a: Array, slots: Indices) -> Array:
    """dE/da_k for k in slots: (B, k, M), from 2 rows per sample and slot."""
    shifted = np.tile(slots, 2)[:, None]
    by = np.repeat([SHIFT, -SHIFT], len(slots))[:, None]
    plus, minus = np.split(_shifted(evaluate, wanted, a, shifted, by), 2, axis=1)
    return 0.5 * (plus - minus)


def _hessian(
    evaluate: Evaluator, wanted: NDArray[np.bool_], a: Array, left: Indices, right: Indices
) -> Array:
    """d2E/da_k da_l for k in left, l in right: (B, k, l, M).

    Per sample, 4 rows for each unordered pair of different slots, 1 for each equal pair and 1 for
    the unshifted angles if there is an equal pair.
    """
    grid = np.stack(np.meshgrid(left, right, indexing="ij"), axis=-1).reshape(-1, 2)
    pairs, where = np.unique(np.sort(grid, axis=1), axis=0, return_inverse=True)
    equal = pairs[:, 0] == pairs[:, 1]
    same, different = pairs[equal], pairs[~equal]
    centre = same[:1]
    shifted = np.concatenate([centre, same, *[different] * 4])
    signs = [(0, 0), (1, 1), (1, 1), (1, -1), (-1, 1), (-1, -1)]
    sizes = [len(centre), len(same), *[len(different)] * 4]
    by = SHIFT * np.repeat(np.array(signs, np.float64), sizes, axis=0)
    values = _shifted(evaluate, wanted, a, shifted, by)
    middle, diagonal, *corners = np.split(values, np.cumsum(sizes)[:-1], axis=1)
    second = np.empty((len(a), len(pairs), values.shape[2]))
    if len(same):
        second[:, equal] = 0.5 * (diagonal - middle)
    second[:, ~equal] = 0.25 * (corners[0] - corners[1] - corners[2] + corners[3])
    return second[:, where.ravel()].reshape(len(a), len(left), len(right), -1)


def _shifted(
    evaluate: Evaluator, wanted: NDArray[np.bool_], a: Array, slots: Indices, by: Array
) -> Array:
    """E (B, N, M) at a with slots[n, i] shifted by by[n, i], for every i; both are (N, 1 or 2)."""
    parts = []
    step = max(1, PART // max(a.size, 1))
    for start in range(0, len(slots), step):
        part = slice(start, start + step)
        shifts = np.zeros((len(slots[part]), a.shape[1]))
        for column, angles in zip(slots[part].T, by[part].T, strict=True):
            shifts[np.arange(len(shifts)), column] += angles
        rows = a[:, None, :] + shifts
        values = evaluate(rows.reshape(-1, a.shape[1]), wanted)
        parts.append(values.reshape(len(a), len(shifts), -1))
    return np.concatenate(parts, axis=1)


def _contract(subscripts: str, *operands: Array) -> Array:
    return np.asarray(np.einsum(subscripts, *operands, optimize=True))


def _used(operand: Array) -> Indices:
    """The positions on the last axis that are not zero everywhere."""
    return np.flatnonzero(operand.any(axis=tuple(range(operand.ndim - 1))))


def _mask(wanted: Indices, size: int) -> NDArray[np.bool_]:
    mask = np.zeros(size, np.bool_)
    mask[wanted] = True
    return mask
