"""The shift rules, against analytic derivatives of random functions of the only possible form.

A function of K slots is a polynomial of degree one in (1, cos a_k, sin a_k) of each slot, so a
random coefficient tensor is as general as a circuit.
"""

import string

import numpy as np
import pytest
from hypothesis import given, strategies as st

from qml import gradients
from qml.gradients import (
    expval_curvature,
    expval_hvp,
    expval_jvp,
    expval_vjp,
    spsa_jvp,
    spsa_vjp,
)


class Signal:
    """E(a): (B, K) -> (B, M), as an evaluator that keeps its requests."""

    def __init__(self, slots, outputs, seed):
        self.coefficients = np.random.default_rng(seed).normal(size=(outputs, *(3,) * slots))
        self.requests = []

    def __call__(self, a, *slots):
        """The derivative with respect to each of `slots`, which may be equal."""
        orders = np.bincount(np.array(slots, int), minlength=a.shape[1])
        factors = []
        for x, order in zip(a.T, orders, strict=True):
            shifted = x + order * np.pi / 2  # cos and sin differentiated `order` times
            factors.append(
                np.stack([np.full(len(x), order == 0), np.cos(shifted), np.sin(shifted)], 1)
            )
        letters = string.ascii_lowercase[: len(factors)]
        subscripts = ",".join([f"z{letters}", *(f"y{x}" for x in letters)]) + "->yz"
        return np.einsum(subscripts, self.coefficients, *factors)

    def jacobians(self, a):
        """(B, M, K)"""
        return np.stack([self(a, k) for k in range(a.shape[1])], axis=-1)

    def hessians(self, a):
        """(B, M, K, K)"""
        slots = range(a.shape[1])
        rows = [np.stack([self(a, k, other) for other in slots], axis=-1) for k in slots]
        return np.stack(rows, axis=-2)

    def evaluate(self, rows, outputs):
        self.requests.append((rows.copy(), outputs.copy()))
        return np.where(outputs, self(rows), 0.0)


def random(seed, *shape):
    return np.random.default_rng(seed).uniform(-3, 3, size=shape)


sizes = st.integers(1, 3)
seeds = st.integers(0, 2**32 - 2)
close = lambda found, expected: np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-9)


@given(batch=sizes, t=sizes, slots=sizes, outputs=sizes, seed=seeds)
def test_first_derivatives_are_exact(batch, t, slots, outputs, seed):
    signal = Signal(slots, outputs, seed)
    a, tangents = random(seed, batch, slots), random(seed + 1, batch, t, slots)
    cotangents = random(seed + 1, batch, t, outputs)
    jacobians = signal.jacobians(a)
    found = expval_jvp(signal.evaluate, outputs, a, tangents)
    close(found, np.einsum("bmk,btk->btm", jacobians, tangents))
    found = expval_vjp(signal.evaluate, outputs, a, cotangents)
    close(found, np.einsum("bmk,bcm->bck", jacobians, cotangents))
    assert [len(rows) for rows, _ in signal.requests] == [2 * batch * slots] * 2


@given(batch=sizes, s=sizes, t=sizes, u=sizes, slots=sizes, outputs=sizes, seed=seeds)
def test_second_derivatives_are_exact(batch, s, t, u, slots, outputs, seed):
    signal = Signal(slots, outputs, seed)
    a = random(seed, batch, slots)
    left, right = random(seed + 1, batch, s, t, slots), random(seed, batch, s, u, slots)
    cotangents = random(seed, batch, s, u, outputs)
    hessians = signal.hessians(a)
    found = expval_hvp(signal.evaluate, outputs, a, left, cotangents)
    close(found, np.einsum("bmkl,bstl,bscm->bstck", hessians, left, cotangents))
    found = expval_curvature(signal.evaluate, outputs, a, left, right)
    close(found, np.einsum("bmkl,bstk,bsul->bstum", hessians, left, right))
    # Pairs of different slots take 4 rows, equal ones 1, and the unshifted point 1.
    rows = batch * (2 * slots * (slots - 1) + slots + 1)
    assert [len(rows) for rows, _ in signal.requests] == [rows, rows]


def test_slots_without_a_tangent_are_left_out():
    signal = Signal(4, 2, 0)
    a, t = random(0, 3, 4), np.zeros((3, 2, 4))
    t[0, 1, 2] = 0.7  # one sample and one direction are enough
    found = expval_jvp(signal.evaluate, 2, a, t)
    close(found, np.einsum("bmk,btk->btm", signal.jacobians(a), t))
    ((rows, _),) = signal.requests
    assert len(rows) == 2 * 3
    np.testing.assert_array_equal(rows[:, [0, 1, 3]], np.repeat(a[:, [0, 1, 3]], 2, axis=0))


def test_outputs_without_a_cotangent_are_not_asked_for():
    signal = Signal(2, 3, 0)
    a, c = random(0, 2, 2), np.zeros((2, 1, 3))
    c[1, 0, 2] = 1
    found = expval_vjp(signal.evaluate, 3, a, c)
    close(found, np.einsum("bmk,bcm->bck", signal.jacobians(a), c))
    ((_, outputs),) = signal.requests
    np.testing.assert_array_equal(outputs, [False, False, True])


def test_second_derivatives_take_only_the_pairs_that_occur():
    signal = Signal(4, 3, 0)
    a = random(0, 1, 4)
    e = np.eye(4)
    hessian = signal.hessians(a)[0]

    found = expval_curvature(signal.evaluate, 3, a, e[None, None, :1], e[None, None, 2:3])
    close(found[0, 0, 0, 0], hessian[:, 0, 2])
    found = expval_curvature(signal.evaluate, 3, a, e[None, None, 1:2], e[None, None, 1:2])
    close(found[0, 0, 0, 0], hessian[:, 1, 1])
    c = np.zeros((1, 1, 1, 3))
    c[..., 1] = 2
    found = expval_hvp(signal.evaluate, 3, a, e[None, None, 3:], c)
    close(found[0, 0, 0, 0], 2 * hessian[1, :, 3])
    # One mixed pair; one equal pair and the point; three mixed pairs, one equal and the point.
    assert [len(rows) for rows, _ in signal.requests] == [4, 2, 14]
    np.testing.assert_array_equal(signal.requests[-1][1], [False, True, False])


RULES = {
    expval_jvp: ((2, 3, 4), (2, 3, 2)),
    expval_vjp: ((2, 3, 2), (2, 3, 4)),
    expval_hvp: ((2, 1, 3, 4), (2, 1, 5, 2), (2, 1, 3, 5, 4)),
    expval_curvature: ((2, 1, 3, 4), (2, 1, 5, 4), (2, 1, 3, 5, 2)),
}


@pytest.mark.parametrize("rule", RULES)
def test_nothing_is_asked_where_everything_is_zero(rule):
    signal = Signal(4, 2, 0)
    *operands, result = RULES[rule]
    found = rule(signal.evaluate, 2, random(0, 2, 4), *map(np.zeros, operands))
    np.testing.assert_array_equal(found, np.zeros(result))
    assert signal.requests == []


@pytest.mark.parametrize("rule", RULES)
def test_one_request_holds_all_rows_and_the_angles_are_left_alone(rule):
    signal = Signal(4, 2, 0)
    *operands, result = RULES[rule]
    a = random(0, 2, 4)
    before = a.copy()
    found = rule(signal.evaluate, 2, a, *(random(1, *shape) for shape in operands))
    assert found.shape == result
    assert len(signal.requests) == 1
    np.testing.assert_array_equal(a, before)


@pytest.mark.parametrize("rule", RULES)
def test_an_empty_batch_has_empty_derivatives(rule):
    signal = Signal(4, 2, 0)
    *operands, result = RULES[rule]
    shapes = [(0, *shape[1:]) for shape in operands]
    found = rule(signal.evaluate, 2, np.zeros((0, 4)), *map(np.ones, shapes))
    assert found.shape == (0, *result[1:])


@pytest.mark.parametrize("rule", RULES)
def test_a_request_in_parts_has_the_same_result_and_the_same_rows(rule, monkeypatch):
    *operands, _ = RULES[rule]
    a = random(0, 2, 4)
    arrays = [random(1, *shape) for shape in operands]
    whole, parts = Signal(4, 2, 0), Signal(4, 2, 0)
    expected = rule(whole.evaluate, 2, a, *arrays)
    monkeypatch.setattr(gradients, "PART", 3 * a.size)
    np.testing.assert_array_equal(rule(parts.evaluate, 2, a, *arrays), expected)
    assert len(parts.requests) > 1
    assert sum(len(r) for r, _ in parts.requests) == len(whole.requests[0][0])


# --- two rows per sample


class Draws:
    """A generator that draws the same number for every sample."""

    def __init__(self, number):
        self.number = number

    def integers(self, high, size):
        assert self.number < high
        return np.full(size, self.number)


@given(batch=sizes, c=sizes, slots=sizes, outputs=sizes, seed=seeds)
def test_the_mean_over_all_draws_is_the_gradient_and_its_variance_the_documented_one(
    batch, c, slots, outputs, seed
):
    signal = Signal(slots, outputs, seed)
    a, cotangents = random(seed, batch, slots), random(seed + 1, batch, c, outputs)
    tangents = random(seed + 1, batch, c, slots)
    jacobians = signal.jacobians(a)
    draws = [Draws(k) for k in range(slots)]
    of_vjp = np.stack([spsa_vjp(signal.evaluate, outputs, a, cotangents, d) for d in draws])
    of_jvp = np.stack([spsa_jvp(signal.evaluate, outputs, a, tangents, d) for d in draws])
    gradient = np.einsum("bmk,bcm->bck", jacobians, cotangents)
    close(of_vjp.mean(axis=0), gradient)
    close(of_jvp.mean(axis=0), np.einsum("bmk,btk->btm", jacobians, tangents))
    variance = ((of_vjp - gradient) ** 2).sum(axis=-1).mean(axis=0)
    close(variance, (slots - 1) * (gradient**2).sum(axis=-1))
    assert {len(rows) for rows, _ in signal.requests} == {2 * batch}


def test_shots_add_the_documented_variance():
    slots, deviation, rng = 3, 0.3, np.random.default_rng(0)
    noisy = lambda rows, outputs: rng.normal(0, deviation, size=(len(rows), 1))
    a, c = np.zeros((20_000, slots)), np.ones((20_000, 1, 1))
    found = (spsa_vjp(noisy, 1, a, c, rng) ** 2).sum(axis=-1)
    expected = slots**2 * deviation**2 / 2
    assert abs(found.mean() - expected) < 6 * found.std() / np.sqrt(found.size)


def test_samples_draw_their_slots_independently_and_only_those_that_count():
    signal = Signal(3, 1, 0)
    a, rng = random(0, 200, 3), np.random.default_rng(0)
    tangents = np.ones((200, 1, 3)) * [1, 0, 1]
    spsa_jvp(signal.evaluate, 1, a, tangents, rng)
    ((rows, _),) = signal.requests
    shifted = np.argmax(rows[:200] != a, axis=1)
    assert set(shifted) == {0, 2} and 60 < (shifted == 0).sum() < 140
    close(rows[:200] - a, a - rows[200:])


def test_nothing_is_asked_where_two_rows_could_tell_nothing():
    def never(rows, outputs):
        pytest.fail("no row is needed")

    rng = np.random.default_rng(0)
    assert not spsa_jvp(never, 2, np.ones((4, 3)), np.zeros((4, 1, 3)), rng).any()
    assert not spsa_vjp(never, 2, np.ones((4, 3)), np.zeros((4, 1, 2)), rng).any()
    assert spsa_vjp(never, 2, np.ones((4, 0)), np.ones((4, 1, 2)), rng).shape == (4, 1, 0)
