"""Slot angles from arguments, in JAX: every chain rule of the library is JAX's own."""

from __future__ import annotations

from typing import Final

import jax
import jax.numpy as jnp

from qml.circuits.formulas import COMPLEX, Functions, evaluate
from qml.circuits.program import AngleMap

FUNCTIONS: Final[Functions] = {name: getattr(jnp, name) for name in COMPLEX}
"""The functions of formulas, of JAX arrays."""


def slot_angles(angles: AngleMap, flat: jax.Array) -> jax.Array:
    """The angles (K,) of all slots at the flat arguments (P,), in radians and in their dtype."""
    bound = jnp.asarray(angles.offset, flat.dtype)
    if len(angles.slots):
        bound = bound + _affine(angles, flat)
    for formula in angles.formulas:
        columns = [flat[which] for which in formula.arguments.T]
        values = evaluate(formula.text, columns, FUNCTIONS)
        values = jnp.broadcast_to(values, formula.slots.shape)  # what cancelled is a number
        bound = bound.at[formula.slots].add(values.astype(flat.dtype))
    return bound


DENSE: Final = 1 << 14
"""Entries up to which a dense matrix times a vector is as fast as picking the few that count."""


def _affine(angles: AngleMap, flat: jax.Array) -> jax.Array:
    """The affine part without the offset."""
    if angles.num_slots * angles.num_arguments <= DENSE:
        matrix = jnp.asarray(angles.matrix, flat.dtype)
        # On accelerators the default precision of a product is that of bfloat16.
        return jnp.dot(matrix, flat, precision=jax.lax.Precision.HIGHEST)
    arguments, coefficients = angles.terms
    picked = flat.at[arguments].get(mode="promise_in_bounds")
    return (jnp.asarray(coefficients, flat.dtype) * picked).sum(axis=1)
