"""State vectors and what acts on them, in real arrays.

A state is a pair (re, im) of arrays (2^n, B): samples are the last axis, so that what an amplitude
is multiplied with, and where it comes from, is the same along contiguous memory. Nothing here knows
of other axes, which `jax.vmap` adds.
"""

from __future__ import annotations

from typing import Any, Final

import jax
import jax.numpy as jnp
from jax import lax

from qml.simulators.xla.table import Matrices, Rotations, Strings

Array = Any
State = tuple[Array, Array]

UNROLLED: Final = 2
"""Terms of a matrix up to which they are added up without a loop."""


def at(array: Array, index: Array) -> Array:
    """array[index], for indices that are known to be in bounds and not negative."""
    found: Array = (
        jnp.asarray(array).at[index].get(mode="promise_in_bounds", wrap_negative_indices=False)
    )
    return found


def zeros(shape: tuple[int, ...], like: Array) -> Array:
    """Zeros in the dtype of an array, and as different between the devices of a `shard_map`."""
    made = jnp.zeros(shape, like.dtype)
    axes = tuple(jax.typeof(like).manual_axis_type.varying)
    return lax.pcast(made, axes, to="varying") if axes else made


def zero_state(num_qubits: int, angles: Array) -> State:
    """|0...0> for every sample of angles (K, B)."""
    nothing = zeros((1 << num_qubits, angles.shape[1]), angles)
    return nothing.at[0].set(1), nothing


def parity_sign(bits: Array, dtype: Any) -> Array:
    """(-1)^(number of ones) of integers (N,), as (N, 1)."""
    odd = lax.population_count(bits) & 1
    return (1 - 2 * odd).astype(dtype)[:, None]


def gathered(state: State, source: Array) -> State:
    """The amplitudes at the indices `source` (2^n,)."""
    re, im = state
    return at(re, source), at(im, source)


def applied(strings: Strings, row: Array, state: State) -> State:
    """P|psi> for the string at `row`."""
    dtype = state[0].dtype
    index = lax.iota(jnp.int32, len(state[0])) ^ at(strings.x, row)
    re, im = gathered(state, index)
    sign = parity_sign(index & at(strings.z, row), dtype)
    phase = at(strings.phase.astype(dtype), row)
    a, b = sign * phase[0], sign * phase[1]
    return a * re - b * im, a * im + b * re


def summed(values: Array) -> Array:
    """The sum over the amplitudes, (2^n, B) -> (B,).

    By halves on a CPU, where XLA adds up a leading axis one column at a time, 4 to 40 times slower.
    """
    return lax.platform_dependent(values, cpu=_by_halves, default=lambda x: x.sum(axis=0))


def _by_halves(values: Array) -> Array:
    while len(values) > 1:
        half = len(values) // 2
        values = values[:half] + values[half:]
    return values[0]


def waves(rotations: Rotations, angles: Array) -> tuple[Array, Array]:
    """cos(a/2) and sin(a/2), (R, B), of all rotations, at slot angles (K, B).

    Outside of the loops: in them XLA would compute a sine for every amplitude.
    """
    padded = jnp.concatenate([angles, jnp.zeros((1, *angles.shape[1:]), angles.dtype)])
    offset = jnp.asarray(rotations.offset, angles.dtype)[:, None]
    half = 0.5 * (at(padded, rotations.slot) + offset)
    return jnp.cos(half), jnp.sin(half)


def rotated(cosine: Array, sine: Array, state: State, turned: State) -> State:
    """exp(-i a/2 P)|psi> from the waves (B,) of a and from P|psi>."""
    (re, im), (turned_re, turned_im) = state, turned
    c, s = cosine[None], sine[None]
    return c * re + s * turned_im, c * im - s * turned_re


def multiplied(matrices: Matrices, row: Array, state: State, *, inverse: bool = False) -> State:
    """U|psi>, or with `inverse` its inverse on |psi>, for the gate at `row`."""
    dtype = state[0].dtype
    flips, values = (
        (matrices.inverse_flips, matrices.inverse_values)
        if inverse
        else (matrices.flips, matrices.values)
    )
    which = at(matrices.matrix, row)
    qubits = at(matrices.qubits, row)
    flips = spread(at(flips, which), qubits)
    values = at(values.astype(dtype), which)
    index = lax.iota(jnp.int32, state[0].shape[0])
    local = outcome(index, qubits)

    def add(total: State, term: tuple[Array, Array]) -> tuple[State, None]:
        flip, value = term
        re, im = gathered(state, index ^ at(flip, local))
        a, b = at(value[:, 0], local)[:, None], at(value[:, 1], local)[:, None]
        return (total[0] + (a * re - b * im), total[1] + (a * im + b * re)), None

    nothing = zeros(state[0].shape, state[0])
    unrolled = len(flips) <= UNROLLED
    total, _ = lax.scan(add, (nothing, nothing), (flips, values), unroll=unrolled)
    return total


def outcome(index: Array, qubits: Array) -> Array:
    """The bits of basis states at `qubits`, the first least significant."""
    bits = [(index >> qubits[j] & 1) << j for j in range(len(qubits))]
    return sum(bits[1:], bits[0])


def spread(local: Array, qubits: Array) -> Array:
    """The inverse of `outcome`: bit j goes to qubits[j]."""
    bits = [(local >> j & 1) << qubits[j] for j in range(len(qubits))]
    return sum(bits[1:], bits[0])
