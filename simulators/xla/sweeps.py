"""Expectation values and their gradient: one loop over the operations forward, one backward.

The loops read their operations from a table, so what is traced and compiled does not grow with the
circuit: one branch for each kind of operation.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax.numpy as jnp
from jax import lax

from qml.simulators.xla.outputs import measured, weighted
from qml.simulators.xla.states import (
    State,
    applied,
    at,
    multiplied,
    rotated,
    summed,
    waves,
    zero_state,
    zeros,
)
from qml.simulators.xla.table import Matrices, Table

Array = Any
Branch = Callable[..., Any]


def expval(table: Table, a: Array) -> Array:
    """Expectation values (M, B) at slot angles a (K, B), in their dtype."""
    return measured(table, _evolved(table, a))


def expval_vjp(table: Table, a: Array, c: Array) -> Array:
    """J^T c (K, B) for cotangents c (M, B), by the adjoint method.

    With |psi> the state after a rotation about P, and <lambda| the observable applied to the last
    state and taken back to there, the derivative by the angle is Im <lambda|P|psi>. The loop takes
    both states back through the circuit, so none is stored (Jones and Gacon, arXiv:2009.02823).
    """
    psi = _evolved(table, a)
    lam = weighted(table, psi, c)
    cosines, sines = waves(table.rotations, a)

    def rotation(row: Array, psi: State, lam: State) -> tuple[State, State, Array]:
        strings, back = table.rotations.strings, (at(cosines, row), -at(sines, row))
        turned = applied(strings, row, psi)
        slope = summed(lam[0] * turned[1] - lam[1] * turned[0])
        undone = rotated(*back, lam, applied(strings, row, lam))
        return rotated(*back, psi, turned), undone, slope

    def gate(matrices: Matrices) -> Branch:
        def undo(row: Array, psi: State, lam: State) -> tuple[State, State, Array]:
            undone = multiplied(matrices, row, lam, inverse=True)
            return multiplied(matrices, row, psi, inverse=True), undone, zeros(a.shape[1:], a)

        return undo

    def step(states: tuple[State, State], operation: Any) -> tuple[tuple[State, State], Array]:
        psi, lam, slope = _chosen(branches, operation, *states)
        return (psi, lam), slope

    if not table.num_slots:
        return zeros(a.shape, a)
    branches = _branches(table, rotation, gate)
    slots = table.slot[table.first :]
    _, slopes = lax.scan(step, (psi, lam), _operations(table, table.first), reverse=True)
    total = zeros((table.num_slots + 1, *a.shape[1:]), a)
    return total.at[slots].add(slopes)[:-1]


def _evolved(table: Table, a: Array) -> State:
    """The state after the whole circuit."""
    cosines, sines = waves(table.rotations, a)

    def rotation(row: Array, state: State) -> State:
        turned = applied(table.rotations.strings, row, state)
        return rotated(at(cosines, row), at(sines, row), state, turned)

    def gate(matrices: Matrices) -> Branch:
        return lambda row, state: multiplied(matrices, row, state)

    def step(state: State, operation: Any) -> tuple[State, None]:
        return _chosen(branches, operation, state), None

    state = zero_state(table.num_qubits, a)
    if not len(table.kind):
        return state
    branches = _branches(table, rotation, gate)
    return lax.scan(step, state, _operations(table, 0))[0]


def _operations(table: Table, first: int) -> tuple[Array, Array]:
    """(kind, row) of the operations from the first on."""
    return jnp.asarray(table.kind[first:]), jnp.asarray(table.row[first:])


def _branches(
    table: Table, rotation: Branch, gate: Callable[[Matrices], Branch]
) -> Sequence[Branch]:
    """What to do for each kind of operation."""
    return [rotation] * bool(len(table.rotations.slot)) + [gate(m) for m in table.matrices]


def _chosen(branches: Sequence[Branch], operation: tuple[Array, Array], *states: State) -> Any:
    kind, row = operation
    if len(branches) == 1:
        return branches[0](row, *states)
    return lax.switch(kind, branches, row, *states)
