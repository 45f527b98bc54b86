"""The sweeps over a circuit: states forward, states and gradients backward, group by group.

`plan` is a packed plan, and `threads` is how many threads share the tiles of a group. Lane v of the
states is at the angles of row rows[v], along the tangent of row tangent_rows[v]. Gradients go to
`out` (count, K), from the first lanes, or the sum of all of them if they are one sample, `whole`.
Other names are those of qml.simulators.statevector.steps.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit, prange

from qml.simulators.statevector.angles import collect, cos_sin, spread
from qml.simulators.statevector.compiler import OPTIONS, parallel
from qml.simulators.statevector.groups import (
    BACKWARD,
    BACKWARD_TANGENT,
    FORWARD,
    FORWARD_TANGENT,
    call_group,
)
from qml.simulators.statevector.matrices import (
    BITS,
    END,
    FIRST_STEP,
    LAST_STEP,
    ORIGIN,
)
from qml.simulators.statevector.rows import lanes
from qml.simulators.statevector.steps import (
    gradients,
    gradients_tangent,
    prepare,
    prepare_tangent,
)
from qml.simulators.statevector.words import unpacked

Array = Any


@njit(**OPTIONS)  # type: ignore[untyped-decorator]
def longest(groups: Array) -> tuple[int, int]:
    """The most steps and the most factors of a group."""
    steps, factors = 0, 0
    for group in groups:
        steps = max(steps, group[LAST_STEP] - group[FIRST_STEP])
        factors = max(factors, group[END] - group[ORIGIN])
    return steps, factors


@njit(**parallel())  # type: ignore[untyped-decorator]
def forward(
    plan: Array,
    angles: Array,
    rows: Array,
    threads: int,
    states: Array,
) -> None:
    """psi through the circuit."""
    tables = unpacked(plan, states)
    factors, groups = tables[1], tables[5]
    V, kind = lanes(states), states.dtype
    steps, most = longest(groups)
    c, s, u = np.empty(most * V, kind), np.empty(most * V, kind), np.empty(8 * V, kind)
    ed = np.empty((1, steps * 32 * V), kind)
    sums = np.empty((threads, 0), kind)
    for n in range(len(groups)):
        group = groups[n]
        origin, end = group[ORIGIN], group[END]
        cos_sin(angles, rows, factors, origin, end, c, s)
        prepare(tables, group, c, s, False, u, ed[0])
        if threads == 1 or group[BITS] == 0:
            call_group(FORWARD, plan, n, 0, 1, ed, states, sums[0])
        else:
            for worker in prange(threads):
                call_group(FORWARD, plan, n, worker, threads, ed, states, sums[worker])


@njit(**parallel())  # type: ignore[untyped-decorator]
def forward_tangent(
    plan: Array,
    angles: Array,
    rows: Array,
    tangents: Array,
    tangent_rows: Array,
    threads: int,
    states: Array,
) -> None:
    """psi, dpsi through the circuit."""
    tables = unpacked(plan, states)
    factors, groups = tables[1], tables[5]
    V, kind = lanes(states), states.dtype
    steps, most = longest(groups)
    c, s, u = np.empty(most * V, kind), np.empty(most * V, kind), np.empty(8 * V, kind)
    ed = np.empty((2, steps * 32 * V), kind)
    half, du = np.empty(most * V, kind), np.empty(8 * V, kind)
    sums = np.empty((threads, 0), kind)
    for n in range(len(groups)):
        group = groups[n]
        origin, end = group[ORIGIN], group[END]
        cos_sin(angles, rows, factors, origin, end, c, s)
        spread(tangents, tangent_rows, factors, origin, end, half)
        prepare_tangent(tables, group, c, s, half, False, u, du, ed[0], ed[1])
        if threads == 1 or group[BITS] == 0:
            call_group(FORWARD_TANGENT, plan, n, 0, 1, ed, states, sums[0])
        else:
            for worker in prange(threads):
                call_group(FORWARD_TANGENT, plan, n, worker, threads, ed, states, sums[worker])


@njit(**parallel())  # type: ignore[untyped-decorator]
def backward(
    plan: Array,
    lowest: int,
    angles: Array,
    rows: Array,
    threads: int,
    states: Array,
    whole: bool,
    out: Array,
) -> None:
    """psi, lam back; out = dE/da. Steps before `lowest` have no slot and are left undone."""
    tables = unpacked(plan, states)
    factors, groups = tables[1], tables[5]
    V, kind = lanes(states), states.dtype
    steps, most = longest(groups)
    c, s, u = np.empty(most * V, kind), np.empty(most * V, kind), np.empty(8 * V, kind)
    ed = np.empty((1, steps * 32 * V), kind)
    g, w = np.empty(most * V, kind), np.empty(3 * V, kind)
    sums = np.empty((threads, steps * 12 * V), kind)
    for n in range(len(groups) - 1, -1, -1):
        group = groups[n]
        origin, end = group[ORIGIN], group[END]
        if group[LAST_STEP] <= lowest:
            return
        sums[:] = 0
        cos_sin(angles, rows, factors, origin, end, c, s)
        prepare(tables, group, c, s, True, u, ed[0])
        if threads == 1 or group[BITS] == 0:
            call_group(BACKWARD, plan, n, 0, 1, ed, states, sums[0])
        else:
            for worker in prange(threads):
                call_group(BACKWARD, plan, n, worker, threads, ed, states, sums[worker])
            for worker in range(1, threads):
                sums[0] += sums[worker]
        gradients(tables, group, c, s, sums[0], w, u, g)
        collect(g, factors, origin, end, whole, out)


@njit(**parallel())  # type: ignore[untyped-decorator]
def backward_tangent(
    plan: Array,
    lowest: int,
    angles: Array,
    rows: Array,
    tangents: Array,
    tangent_rows: Array,
    threads: int,
    states: Array,
    whole: bool,
    out: Array,
) -> None:
    """psi, dpsi, lam, dlam back; out = the derivative of dE/da, a product of the Hessian."""
    tables = unpacked(plan, states)
    factors, groups = tables[1], tables[5]
    V, kind = lanes(states), states.dtype
    steps, most = longest(groups)
    c, s, u = np.empty(most * V, kind), np.empty(most * V, kind), np.empty(8 * V, kind)
    ed = np.empty((2, steps * 32 * V), kind)
    half, du = np.empty(most * V, kind), np.empty(8 * V, kind)
    g, w = np.empty(most * V, kind), np.empty(3 * V, kind)
    dw = np.empty(3 * V, kind)
    sums = np.empty((threads, steps * 24 * V), kind)
    for n in range(len(groups) - 1, -1, -1):
        group = groups[n]
        origin, end = group[ORIGIN], group[END]
        if group[LAST_STEP] <= lowest:
            return
        sums[:] = 0
        cos_sin(angles, rows, factors, origin, end, c, s)
        spread(tangents, tangent_rows, factors, origin, end, half)
        prepare_tangent(tables, group, c, s, half, True, u, du, ed[0], ed[1])
        if threads == 1 or group[BITS] == 0:
            call_group(BACKWARD_TANGENT, plan, n, 0, 1, ed, states, sums[0])
        else:
            for worker in prange(threads):
                call_group(BACKWARD_TANGENT, plan, n, worker, threads, ed, states, sums[worker])
            for worker in range(1, threads):
                sums[0] += sums[worker]
        gradients_tangent(tables, group, c, s, half, sums[0], w, dw, u, du, g)
        collect(g, factors, origin, end, whole, out)
