"""The xla engine: every primitive as a pure JAX function, for any device XLA has."""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from functools import lru_cache, partial
from typing import Any, Final

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from qml.circuits.program import Program
from qml.errors import EngineError, in_bytes
from qml.kinds import XlaConfig
from qml.simulators.base import Cost, Evaluation
from qml.simulators.xla import sweeps
from qml.simulators.xla.table import table

Array = Any
Function = Callable[..., Array]

MAX_QUBITS: Final = 30
"""Indices of amplitudes and Pauli masks are int32."""

STATES: Final = {
    "expval": 3,
    "expval_jvp": 6,
    "expval_vjp": 6,
    "expval_hvp": 12,
    "expval_curvature": 12,
}
"""The primitives, and how many states XLA holds for each sample: those of the sweep, what a step
makes of them, and what it gathers.
"""

FUNCTIONS: Final = 256
"""Compiled functions an engine keeps, the least recently used dropped first."""


class XlaEngine:
    """Exact, and differentiable to any order by JAX; see qml.kinds.XlaConfig.

    The gradient is the adjoint method's, which undoes the circuit, so that its memory does not grow
    with depth; second orders differentiate that forward. Everything runs where JAX puts it: with
    its operands, else on the default device.
    """

    traceable: Final = frozenset(STATES)

    def __init__(self, config: XlaConfig) -> None:
        self.config = config
        self._budget = budget(config.memory)
        self._function = lru_cache(FUNCTIONS)(self._compiled)

    def check(self, program: Program) -> None:
        """See Engine.check: one state in single precision must fit the default device's memory."""
        qubits = program.num_qubits
        needed = 8 << qubits
        if qubits > MAX_QUBITS or needed > self._budget:
            raise EngineError(
                f"a state of {qubits} qubits needs {in_bytes(needed)} in single precision; the xla "
                f"engine simulates at most {MAX_QUBITS} qubits, and its budget is "
                f"{in_bytes(self._budget)}. Use fewer qubits, or raise `memory` in the backend's "
                "configuration."
            )

    def expval(
        self,
        program: Program,
        angles: NDArray[np.float64],
        *,
        outputs: NDArray[np.bool_],
        seed: int,
    ) -> Evaluation:
        """See Engine.expval."""
        with jax.enable_x64(True):
            values = self.trace("expval", program, angles)
            (device,) = values.devices()
            return Evaluation(
                np.where(outputs, np.asarray(values), 0.0), device=device.platform.upper()
            )

    def _compiled(self, primitive: str, program: Program) -> Function:
        """A primitive for one Program, in parts that fit the budget, jitted."""
        function = _function(primitive, program)

        def within_budget(a: Array, *operands: Array) -> Array:
            sweeps = [size for x in operands[:1] for size in x.shape[1:-1]]
            sweeps += [x.shape[2] for x in operands[1:]]
            if not all(isinstance(size, int) for size in (a.shape[0], *sweeps)):
                return function(a, *operands)  # symbolic in an export
            state = 2 * a.dtype.itemsize << program.num_qubits
            rows = int(self._budget // (STATES[primitive] * max(math.prod(sweeps), 1) * state))
            return in_parts(function, max(rows, 1))(a, *operands)

        return jax.jit(within_budget)

    def cost(self, program: Program, rows: int, outputs: NDArray[np.bool_]) -> Cost:
        """See Engine.cost."""
        return Cost(circuits=rows)

    def trace(self, primitive: str, program: Program, a: Array, *operands: Array) -> Array:
        """See TraceableEngine.trace."""
        result: Array = self._function(primitive, program)(a, *operands)
        return result


def budget(gibibytes: float | None) -> float:
    """Bytes for the states of a request: as configured, else half of the default device's memory,
    where it tells, or of the machine's.
    """
    if gibibytes is not None:
        return gibibytes * 2**30
    statistics = jax.devices()[0].memory_stats() or {}
    machine = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return 0.5 * float(statistics.get("bytes_limit", machine))


def in_parts(function: Function, rows: int) -> Function:
    """The same function of operands (B, ...), at most `rows` of them at a time, in a loop."""

    def parts(*operands: Array) -> Array:
        batch = operands[0].shape[0]
        if batch <= rows:
            return function(*operands)
        count = -(-batch // rows)

        def split(x: Array) -> Array:
            padded = jnp.pad(x, [(0, count * rows - batch)] + [(0, 0)] * (x.ndim - 1))
            return padded.reshape(count, rows, *x.shape[1:])

        values = jax.lax.map(lambda xs: function(*xs), tuple(map(split, operands)))
        return values.reshape(count * rows, *values.shape[2:])[:batch]

    return parts


def _function(primitive: str, program: Program) -> Function:
    """A primitive of qml.primitives for one Program, (a, operands...) -> value."""
    tables = table(program)
    value = partial(sweeps.expval, tables)
    pullback = partial(sweeps.expval_vjp, tables)

    # Of one sample batch and one direction: a, t, u (K, B), c (M, B).

    def jvp(a: Array, t: Array) -> Array:
        return jax.jvp(value, (a,), (t,))[1]

    def hvp(a: Array, t: Array, c: Array) -> Array:
        return jax.jvp(lambda a: pullback(a, c), (a,), (t,))[1]

    def curvature(a: Array, t: Array, u: Array) -> Array:
        return jax.jvp(lambda a: jvp(a, t), (a,), (u,))[1]

    vmap: Callable[..., Function] = jax.vmap
    second = ((None, None, 0), (None, 0, None), (None, 0, 0))
    functions: dict[str, tuple[Function, tuple[tuple[int | None, ...], ...]]] = {
        "expval": (value, ()),
        "expval_jvp": (jvp, ((None, 0),)),
        "expval_vjp": (pullback, ((None, 0),)),
        "expval_hvp": (hvp, second),
        "expval_curvature": (curvature, second),
    }
    function, axes = functions[primitive]
    for mapped in axes:
        function = vmap(function, mapped)

    def batch_first(*operands: Array) -> Array:
        return jnp.moveaxis(function(*(jnp.moveaxis(x, 0, -1) for x in operands)), -1, 0)

    return batch_first
