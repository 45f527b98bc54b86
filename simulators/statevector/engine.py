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
from qml.config import StatevectorConfig
from qml.errors import EngineError
from qml.simulators.base import Evaluation
from qml.simulators.statevector import kernels
from qml.simulators.statevector.plan import Plan, plan
from qml.simulators.statevector.rows import ROW_BYTES
from qml.simulators.statevector.tables import packed
from qml.simulators.statevector.threads import threads

Array = NDArray[Any]

STATES: Final = {"expval": 1, "expval_vjp": 2, "expval_jvp": 2, "expval_hvp": 4}
"""The native primitives, and how many state vectors a sweep holds."""

PLANS: Final = 256
"""Plans an engine keeps, the least recently used dropped first."""


class StatevectorEngine:
    """Exact and differentiable to second order natively; see qml.config.StatevectorConfig.

    Values are computed in the precision of the angles: float32 or float64.
    """

    native: Final = frozenset({*STATES, "expval_curvature"})

    def __init__(self, config: StatevectorConfig) -> None:
        self.config = config
        self._threads = threads(config.threads)
        self._budget = budget(config.memory)
        self._plan = lru_cache(PLANS)(plan)
        self._packed = lru_cache(4 * PLANS)(self._pack)

    def check(self, program: Program) -> None:
        """See Engine.check: one state must fit the memory budget."""
        self._fitting_lanes("expval", program.num_qubits, 1, np.dtype(np.float32))

    def expval(
        self, program: Program, angles: Array, *, outputs: NDArray[np.bool_], seed: int
    ) -> Evaluation:
        """See Engine.expval."""
        values: Any = self.compute("expval", program, angles)
        return Evaluation(np.where(outputs, values, 0.0).astype(np.float64))

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
        if primitive == "expval":
            kernels.expval(packed_plan, a, target)
        elif primitive == "expval_vjp":
            kernels.vjp(packed_plan, a, *flat, target)
        elif primitive == "expval_jvp":
            kernels.jvp(packed_plan, a, *flat, target)
        else:
            kernels.hvp(packed_plan, a, *flat, operands[0].shape[2], target)
        return out

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
        lane_bits = self._fitting_lanes(primitive, program.num_qubits, requests, np.dtype(dtype))
        return self._packed(program, lane_bits, np.dtype(dtype).name)

    def _fitting_lanes(
        self, primitive: str, num_qubits: int, requests: int, dtype: np.dtype[Any]
    ) -> int:
        """What the lanes hold (see `_lane_bits`); EngineError where the states do not fit."""
        lanes = ROW_BYTES // dtype.itemsize
        lane_bits = self._lane_bits(num_qubits, requests, lanes)
        in_lanes = 1 if lane_bits else lanes
        sweeps = min(self._threads, math.ceil(requests / in_lanes))
        needed = sweeps * STATES[primitive] * (2 * dtype.itemsize * in_lanes << num_qubits)
        if needed > self._budget:
            raise EngineError(
                f"{primitive} of {num_qubits} qubits needs {needed / 2**30:.1f} GiB for "
                f"its states, the budget is {self._budget / 2**30:.1f} GiB. Raise `memory` "
                "in the backend's configuration, use float32, or fewer qubits or threads."
            )
        return lane_bits

    def _pack(self, program: Program, lane_bits: int, dtype: str) -> Array:
        made: Plan = self._plan(program)
        return packed(made, lane_bits, dtype, self._threads)

    def _lane_bits(self, num_qubits: int, requests: int, lanes: int) -> int:
        """0 to fill the lanes with samples, log2(V) to fill them with amplitudes of one sample.

        Samples are cheaper while they fill the lanes of all threads: amplitudes need exchanges
        between lanes, and every sample its own coefficients.
        """
        bits = lanes.bit_length() - 1
        if num_qubits < bits + 1:
            return 0
        by_samples = math.ceil(math.ceil(requests / lanes) / self._threads)
        by_amplitudes = math.ceil(requests / self._threads) / lanes
        return bits if AMPLITUDE_COST * by_amplitudes < by_samples else 0


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
