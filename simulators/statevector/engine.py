"""The statevector engine: values, first and second derivatives, for whole batches at once."""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from functools import lru_cache
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from qml.circuits.program import Program
from qml.errors import EngineError, in_bytes
from qml.kinds import StatevectorConfig
from qml.simulators.base import Cost, Evaluation
from qml.simulators.statevector import kernels
from qml.simulators.statevector.compiler import compiling
from qml.simulators.statevector.cone import light_cone
from qml.simulators.statevector.plan import plan
from qml.simulators.statevector.rows import ROW_BYTES
from qml.simulators.statevector.tables import Layout, packed
from qml.simulators.statevector.threads import threads
from qml.simulators.statevector.tiles import TILE_BITS

Array = NDArray[Any]

STATES: Final = {"expval": 1, "expval_vjp": 2, "expval_jvp": 2, "expval_hvp": 4}
"""The native primitives, and how many state vectors a sweep holds."""

PLANS: Final = 256
"""Plans an engine keeps, the least recently used dropped first."""


class StatevectorEngine:
    """Exact and differentiable to second order natively; see qml.kinds.StatevectorConfig.

    Values are computed in the precision of the angles: float32 or float64.
    """

    native: Final = frozenset({*STATES, "expval_curvature"})

    def __init__(self, config: StatevectorConfig) -> None:
        self.config = config
        self._threads = threads(config.threads)
        self._budget = budget(config.memory)
        self._plan = lru_cache(PLANS)(plan)
        self._packed = lru_cache(4 * PLANS)(self._pack)
        self._layout = lru_cache(4 * PLANS)(self._fitting_layout)

    def check(self, program: Program) -> None:
        """See Engine.check: one state must fit the memory budget."""
        self._layout("expval", light_cone(program).num_qubits, 1, np.dtype(np.float32))

    def expval(
        self, program: Program, angles: Array, *, outputs: NDArray[np.bool_], seed: int
    ) -> Evaluation:
        """See Engine.expval."""
        values: Any = self.compute("expval", program, angles)
        return Evaluation(np.where(outputs, values, 0.0).astype(np.float64))

    def cost(self, program: Program, rows: int, outputs: NDArray[np.bool_]) -> Cost:
        """See Engine.cost."""
        return Cost(circuits=rows)

    def compute(self, primitive: str, program: Program, a: Array, *operands: Array) -> Array:
        """A native primitive at angles a (B, K), in their dtype; shapes as in qml.primitives.

        Raises:
            EngineError: the states do not fit the memory budget.
        """
        if primitive == "expval_curvature":
            total: Array = curvature(self.compute, program, a, *operands)
            return total
        shape = result_shape(primitive, program, a, *operands)
        out = np.zeros(shape, a.dtype)
        if not out.size or not a.shape[0]:
            return out
        packed_plan = self.packed(primitive, program, math.prod(shape[:-1]), a.dtype)
        flat = [np.ascontiguousarray(x).reshape(-1, x.shape[-1]) for x in operands]
        a = np.ascontiguousarray(a)
        target = out.reshape(-1, shape[-1])
        with compiling():
            if primitive == "expval":
                kernels.expval(packed_plan, a, target)
            elif primitive == "expval_vjp":
                kernels.vjp(packed_plan, a, *flat, target)
            elif primitive == "expval_jvp":
                kernels.jvp(packed_plan, a, *flat, target)
            else:
                kernels.hvp(packed_plan, a, *flat, operands[0].shape[2], target)
        return out

    def has_xla_call(self) -> bool:
        """See NativeEngine.has_xla_call."""
        from qml.simulators.statevector.ffi import available

        return available()

    def xla_call(self, primitive: str, program: Program, a: Any, *operands: Any) -> Any:
        """See NativeEngine.xla_call."""
        from qml.simulators.statevector.ffi import call

        if primitive == "expval_curvature":
            return curvature(self.xla_call, program, a, *operands)
        shape = result_shape(primitive, program, a, *operands)
        plan_bytes = self.packed(primitive, program, math.prod(shape[:-1]), a.dtype)
        return call(primitive, plan_bytes, shape, a, *operands)

    def packed(self, primitive: str, program: Program, requests: int, dtype: Any) -> Array:
        """The bytes the compiled code reads, for a request of that many sweeps.

        Raises:
            EngineError: the states do not fit the memory budget.
        """
        dtype = np.dtype(dtype)
        kernels.ready(primitive, dtype.name)
        layout = self._layout(primitive, light_cone(program).num_qubits, requests, dtype)
        return self._packed(program, layout, dtype.name)

    def _pack(self, program: Program, layout: Layout, dtype: str) -> Array:
        return packed(self._plan(program), layout, dtype)

    def _fitting_layout(
        self, primitive: str, num_qubits: int, requests: int, dtype: np.dtype[Any]
    ) -> Layout:
        """The fastest layout whose states fit the memory budget; EngineError if none does."""
        found = layouts(num_qubits, requests, ROW_BYTES // dtype.itemsize, self._threads)
        if self.config.reproducible:
            # Other layouts add in another order.
            found = {one: t for one, t in found.items() if not one.lane_bits and one.threads == 1}
        needs = []
        for layout in sorted(found, key=found.__getitem__):
            rows = layout.workers << num_qubits - layout.lane_bits
            needs.append(STATES[primitive] * rows * 2 * ROW_BYTES)
            if needs[-1] <= self._budget:
                return layout
        raise EngineError(
            f"{primitive} of {num_qubits} qubits needs {in_bytes(min(needs))} for its states, the "
            f"budget is {in_bytes(self._budget)}. Raise `memory` in the backend's configuration, "
            "use float32, or fewer qubits."
        )


def layouts(num_qubits: int, requests: int, lanes: int, threads: int) -> dict[Layout, float]:
    """All layouts of a request, with the time each takes in sweeps of a full row.

    Samples are cheaper in the lanes while they fill the lanes of all threads: amplitudes need
    exchanges between lanes, and every sample its own coefficients. Fewer workers need less memory.
    """
    bits = lanes.bit_length() - 1
    found: dict[Layout, float] = {}
    for lane_bits in (0, bits) if num_qubits > bits else (0,):
        chunks = max(1, requests if lane_bits else math.ceil(requests / lanes))
        sweep = AMPLITUDE_COST / lanes if lane_bits else 1.0
        row_bits = num_qubits - lane_bits
        tiled = row_bits > WHOLE_BITS
        for workers in range(1, min(threads, chunks) + 1):
            found[Layout(lane_bits, workers, 1, tiled)] = sweep * math.ceil(chunks / workers)
        sharing = min(threads, 1 << max(row_bits - TILE_BITS, 0))
        if sharing > 1:
            cost = 1.0 if tiled else TILING_COST
            found[Layout(lane_bits, 1, sharing, True)] = sweep * cost * chunks / sharing
    return found


def curvature(compute: Callable[..., Any], program: Program, a: Any, t: Any, u: Any) -> Any:
    """t^T H_m u for every m, from the products H_m t: NumPy or JAX arrays, as `compute` takes."""
    outputs = program.num_outputs
    every = np.broadcast_to(np.eye(outputs, dtype=a.dtype), (*t.shape[:2], outputs, outputs))
    products = compute("expval_hvp", program, a, t, every)
    return (products[:, :, :, None] * u[:, :, None, :, None]).sum(axis=-1)


def budget(gibibytes: float | None) -> float:
    """Bytes for the states of a request: as configured, else three quarters of the memory."""
    if gibibytes is not None:
        return gibibytes * 2**30
    return 0.75 * os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


WHOLE_BITS: Final = 16
"""States of up to 2^WHOLE_BITS rows, 8 MiB, are swept whole: beyond, tiles spare the memory."""

TILING_COST: Final = 1.3
"""A sweep over the tiles of a state, against one over the whole of it in the cache."""

AMPLITUDE_COST: Final = 1.5
"""A sweep with amplitudes in the lanes, per sample and lane, against one with samples in them."""


def result_shape(primitive: str, program: Program, a: Array, *operands: Array) -> tuple[int, ...]:
    """The shape of the result; see qml.primitives."""
    if primitive == "expval":
        return (*a.shape[:1], program.num_outputs)
    if primitive == "expval_vjp":
        return (*operands[0].shape[:2], program.num_slots)
    if primitive == "expval_jvp":
        return (*operands[0].shape[:2], program.num_outputs)
    tangents, cotangents = operands
    return (*tangents.shape[:3], cotangents.shape[2], program.num_slots)
