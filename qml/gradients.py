r"""The parameter-shift rule: all derivatives of E(a) from values of E alone, exactly.

A slot is the angle of one Pauli rotation exp(-i a/2 P), so E is of the form A + B cos a + C sin a
in each of them, and with e_k a unit vector

    dE/da_k       = [E(a + pi/2 e_k) - E(a - pi/2 e_k)] / 2
    d2E/da_k da_l = [E(++) - E(+-) - E(-+) + E(--)] / 4      shifts of pi/2 in k and l
    d2E/da_k^2    = [E(a + pi e_k) - E(a)] / 2

(Schuld et al., PRA 99, 032331 (2019); Mari et al., PRA 103, 012405 (2021)). Every function here
asks its evaluator once, with all rows that its result depends on: slots whose tangent is zero in
the whole batch, and outputs whose cotangent is, are left out, which is exact by linearity.

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
"""(rows (R, K), wanted outputs (M,)) -> values (R, M): one request."""

SHIFT: Final = np.pi / 2


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


def _jacobian(evaluate: Evaluator, wanted: NDArray[np.bool_], a: Array, slots: Indices) -> Array:
    """dE/da_k for k in slots: (B, k, M), from 2 rows per sample and slot."""
    shift = np.zeros((len(slots), a.shape[1]))
    shift[np.arange(len(slots)), slots] = SHIFT
    rows = a[:, None, None, :] + np.stack([shift, -shift], axis=1)
    values = evaluate(rows.reshape(-1, a.shape[1]), wanted)
    plus, minus = np.moveaxis(values.reshape(len(a), len(slots), 2, -1), 2, 0)
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
    shifts = [np.zeros((int(equal.any()), a.shape[1]))]
    shifts.append(_unit(pairs[equal, 0], a.shape[1]) * 2 * SHIFT)
    one, other = (_unit(side, a.shape[1]) * SHIFT for side in pairs[~equal].T)
    shifts += [one + other, one - other, other - one, -one - other]
    rows = a[:, None, :] + np.concatenate(shifts)
    values = evaluate(rows.reshape(-1, a.shape[1]), wanted).reshape(len(a), rows.shape[1], -1)
    centre, diagonal, *corners = np.split(
        values, np.cumsum([len(block) for block in shifts])[:-1], axis=1
    )
    second = np.empty((len(a), len(pairs), values.shape[2]))
    if equal.any():
        second[:, equal] = 0.5 * (diagonal - centre)
    second[:, ~equal] = 0.25 * (corners[0] - corners[1] - corners[2] + corners[3])
    return second[:, where.ravel()].reshape(len(a), len(left), len(right), -1)


def _contract(subscripts: str, *operands: Array) -> Array:
    return np.asarray(np.einsum(subscripts, *operands, optimize=True))


def _unit(slots: Indices, num_slots: int) -> Array:
    return np.eye(num_slots)[slots]


def _used(operand: Array) -> Indices:
    """The positions on the last axis that are not zero everywhere."""
    return np.flatnonzero(operand.any(axis=tuple(range(operand.ndim - 1))))


def _mask(wanted: Indices, size: int) -> NDArray[np.bool_]:
    mask = np.zeros(size, np.bool_)
    mask[wanted] = True
    return mask
