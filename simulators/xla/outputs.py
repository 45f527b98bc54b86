"""Outputs of a state, and the observable that a cotangent of the outputs stands for."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
from jax import lax

from qml.simulators.xla.states import State, applied, at, outcome, parity_sign, summed, zeros
from qml.simulators.xla.table import Observables, Table

Array = Any


def measured(table: Table, state: State) -> Array:
    """All outputs (M, B) of a state."""
    re, im = state
    dtype = re.dtype
    weights = re * re + im * im
    index = lax.iota(jnp.int32, len(re))

    def diagonal(row: Array) -> Array:
        sign = parity_sign(index & at(table.diagonal.strings.z, row), dtype)
        return summed(sign * weights)

    def other(row: Array) -> Array:
        turned_re, turned_im = applied(table.other.strings, row, state)
        return summed(re * turned_re + im * turned_im)

    values = zeros((table.num_outputs, *re.shape[1:]), re)
    for observables, overlap in ((table.diagonal, diagonal), (table.other, other)):
        if len(observables.column):
            found = lax.map(overlap, _rows(observables))
            factors = jnp.asarray(observables.coefficient, dtype)[:, None]
            values = values.at[observables.column].add(factors * found)
    for column, qubits in table.blocks:
        block = _marginal(weights, qubits, table.num_qubits)
        values = values.at[column : column + len(block)].set(block)
    return values


def weighted(table: Table, state: State, c: Array) -> State:
    """sum_m c_m O_m |psi> for cotangents c (M, B)."""
    re, im = state
    dtype = re.dtype
    index = lax.iota(jnp.int32, len(re))

    def factor(observables: Observables, row: Array) -> Array:
        coefficient = at(observables.coefficient.astype(dtype), row)
        return (coefficient * at(c, at(observables.column, row)))[None]

    def diagonal(total: Array, row: Array) -> tuple[Array, None]:
        sign = parity_sign(index & at(table.diagonal.strings.z, row), dtype)
        return total + sign * factor(table.diagonal, row), None

    def other(total: State, row: Array) -> tuple[State, None]:
        turned_re, turned_im = applied(table.other.strings, row, state)
        weight = factor(table.other, row)
        return (total[0] + weight * turned_re, total[1] + weight * turned_im), None

    weights = zeros(re.shape, re)
    for column, qubits in table.blocks:
        weights = weights + at(c[column : column + (1 << len(qubits))], outcome(index, qubits))
    if len(table.diagonal.column):
        weights, _ = lax.scan(diagonal, weights, _rows(table.diagonal))
    total = weights * re, weights * im
    if len(table.other.column):
        total, _ = lax.scan(other, total, _rows(table.other))
    return total


def _rows(observables: Observables) -> Array:
    return jnp.arange(len(observables.column), dtype=jnp.int32)


def _marginal(weights: Array, qubits: tuple[int, ...], num_qubits: int) -> Array:
    """Probabilities (2^k, B) of the outcomes of `qubits`, from those of all basis states."""
    tensor = weights.reshape((2,) * num_qubits + weights.shape[1:])
    kept = [num_qubits - 1 - q for q in reversed(qubits)]
    others = [axis for axis in range(num_qubits) if axis not in kept]
    moved = tensor.transpose(*others, *kept, num_qubits)
    total = summed(moved.reshape(1 << len(others), (1 << len(qubits)) * weights.shape[1]))
    return total.reshape(1 << len(qubits), weights.shape[1])
