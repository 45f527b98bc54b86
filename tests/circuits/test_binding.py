"""Slot angles from arguments, in JAX."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from qml.circuits import binding
from qml.circuits.binding import slot_angles
from qml.circuits.program import AngleMap


def random_map(seed, slots=7, arguments=5, terms=12):
    """Slots with no term, with one, and with several, some in the same argument twice."""
    rng = np.random.default_rng(seed)
    return AngleMap(
        arguments,
        rng.integers(slots, size=terms).astype(np.int32),
        rng.integers(arguments, size=terms).astype(np.int32),
        rng.normal(size=terms),
        rng.normal(size=slots),
    )


def by_loop(angles, v):
    """The definition in AngleMap."""
    total = angles.offset.copy()
    for slot, argument, coefficient in zip(
        angles.slots, angles.arguments, angles.coefficients, strict=True
    ):
        total[slot] += coefficient * v[argument]
    return total


@pytest.mark.parametrize("dense", [0, 1 << 14], ids=["picked", "dense"])
@pytest.mark.parametrize("seed", range(5))
def test_affine_angles_are_those_of_the_definition(seed, dense, monkeypatch):
    monkeypatch.setattr(binding, "DENSE", dense)
    angles = random_map(seed)
    v = np.random.default_rng(seed + 100).normal(size=5)
    found = slot_angles(angles, jnp.asarray(v))
    np.testing.assert_allclose(found, by_loop(angles, v), atol=1e-14)
    jacobian = jax.jacrev(lambda v: slot_angles(angles, v))(jnp.asarray(v))
    np.testing.assert_allclose(jacobian, angles.matrix, atol=1e-14)
    batch = jnp.asarray(np.stack([v, 2 * v]))
    mapped = jax.vmap(lambda v: slot_angles(angles, v))(batch)
    np.testing.assert_allclose(mapped, [by_loop(angles, w) for w in batch], atol=1e-14)


def test_a_thousand_layers_of_weights_need_no_matrix():
    """As a dense matrix, 48,000 slots by 32,016 arguments would be 11 GiB."""
    slots, arguments = 48_000, 32_016
    every = np.arange(slots, dtype=np.int32)
    angles = AngleMap(arguments, every, every % arguments, np.full(slots, 0.5), np.zeros(slots))
    v = jnp.arange(arguments, dtype=float)
    found = slot_angles(angles, v)
    np.testing.assert_allclose(found, 0.5 * (np.arange(slots) % arguments), rtol=1e-6)
    assert "matrix" not in vars(angles)
