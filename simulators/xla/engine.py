"""The xla engine: every primitive as a pure JAX function, for any device XLA has."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import lru_cache, partial
from typing import Any, Final

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from qml.circuits.program import Program
from qml.config import XlaConfig
from qml.errors import EngineError
from qml.simulators.base import Evaluation
from qml.simulators.xla import sweeps
from qml.simulators.xla.table import table

Array = Any
Function = Callable[..., Array]

MAX_QUBITS: Final = 30
"""Indices of amplitudes and Pauli masks are int32."""

FUNCTIONS: Final = 256
"""Compiled functions an engine keeps, the least recently used dropped first."""


class XlaEngine:
    """Exact, and differentiable to any order by JAX; see qml.config.XlaConfig.

    The gradient is the adjoint method's, which undoes the circuit, so that its memory does not grow
    with depth; second orders differentiate that forward. Everything runs where JAX puts it: with
    its operands, else on the default device.
    """

    traceable: Final = frozenset(
        {"expval", "expval_jvp", "expval_vjp", "expval_hvp", "expval_curvature"}
    )

    def __init__(self, config: XlaConfig) -> None:
        self.config = config
        self._function = lru_cache(FUNCTIONS)(_function)

    def check(self, program: Program) -> None:
        """See Engine.check: one state in single precision must fit the default device's memory."""
        qubits = program.num_qubits
        needed, memory = 8 << qubits, _memory()
        if qubits > MAX_QUBITS or needed > memory:
            raise EngineError(
                f"a state of {qubits} qubits needs {needed / 2**30:.3g} GiB in single precision; "
                f"the xla engine simulates at most {MAX_QUBITS} qubits, and the device has "
                f"{memory / 2**30:.3g} GiB. Use fewer qubits."
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

    def trace(self, primitive: str, program: Program, a: Array, *operands: Array) -> Array:
        """See TraceableEngine.trace."""
        result: Array = self._function(primitive, program)(a, *operands)
        return result


def _memory() -> int:
    """Bytes of the default device, where it tells, else of the machine."""
    statistics = jax.devices()[0].memory_stats() or {}
    machine = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return int(statistics.get("bytes_limit", machine))


def _function(primitive: str, program: Program) -> Function:
    """A primitive of qml.primitives for one Program, (a, operands...) -> value, jitted."""
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

    return jax.jit(batch_first)
