"""From a derivative that JAX asks for to one request to an engine."""

from __future__ import annotations

import threading
import time
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from qml.circuits.program import Program
from qml.errors import DifferentiationError, EngineError
from qml.gradients import (
    expval_curvature,
    expval_hvp,
    expval_jvp,
    expval_vjp,
    spsa_jvp,
    spsa_vjp,
)
from qml.jobs import reserve, run
from qml.plans import Item, is_planning, write_down
from qml.settings import EngineConfig
from qml.simulators.base import Cost, Evaluation, JobEngine, NativeEngine, TraceableEngine
from qml.simulators.registry import engine

Array = NDArray[np.float64]

SHIFT_RULES: Final[dict[str, Callable[..., Array]]] = {
    "expval_jvp": expval_jvp,
    "expval_vjp": expval_vjp,
    "expval_hvp": expval_hvp,
    "expval_curvature": expval_curvature,
}
"""The derivatives of E by gradient = "parameter_shift"."""

SPSA_RULES: Final[dict[str, Callable[..., Array]]] = {
    "expval_jvp": spsa_jvp,
    "expval_vjp": spsa_vjp,
}
"""Those by gradient = "spsa"; there is no second order."""


@dataclass(frozen=True)
class Run:
    """One request to an engine, as it happened.

    Attributes:
        primitive: what was computed: expval, expval_jvp, expval_vjp, expval_hvp, expval_curvature.
        gradient: by which rule; "none" for a plain expectation value.
        kind: of the engine.
        device: where it ran.
        rows: of slot angles that were evaluated.
        jobs: that the engine submitted.
        shots: really used, over all rows; 0 means exact.
        seconds: that the request took.
        precision: of the arithmetic, "double" or "single"; "-" on a machine.
        queued: seconds of them in queues; None where nobody tells.
    """

    primitive: str
    gradient: str
    kind: str
    device: str
    rows: int
    jobs: int
    shots: int
    seconds: float
    precision: str = "double"
    queued: float | None = None


_last: Run | None = None
_records: list[list[Run]] = []
_lock = threading.Lock()


def prepare(program: Program, config: EngineConfig) -> None:
    """Makes the engine and shows it the Program, so that what cannot be is told before any work.

    Inside compiled code it would come as a JaxRuntimeError.

    Raises:
        EngineError: the engine cannot run the Program.
        DeviceError: the device asked for is not there.
        MissingDependencyError: the package behind the engine is not installed.
        UnknownNameError: the configuration names what the engine does not know.
    """
    engine(config).check(program)


def last_run() -> Run | None:
    """The latest request of this process to any engine; None before the first."""
    return _last


@contextmanager
def recorded() -> Iterator[list[Run]]:
    """Collects every request made by any thread while the block runs.

    >>> with recorded() as runs:
    ...     pass
    >>> [run.rows for run in runs]
    []
    """
    runs: list[Run] = []
    with _lock:
        _records.append(runs)
    try:
        yield runs
    finally:
        with _lock:
            # By identity: two lists with equal runs are equal.
            _records[:] = [record for record in _records if record is not runs]


def execute(
    primitive: str,
    program: Program,
    config: EngineConfig,
    seed: int,
    a: NDArray[Any],
    *operands: NDArray[Any],
) -> Any:
    """The value of a primitive at angles a (B, K), by at most one request to the engine.

    Args:
        primitive: "expval" or a key of SHIFT_RULES.
        program: with K slots and M outputs.
        config: of the engine.
        seed: uint32; the primitive's name is folded in, so a value and its gradient at the same
            seed draw independently.
        a, operands: float32 or float64, of the shapes in qml.gradients. The shift rule computes
            in float64, a native or traceable engine in the precision of `a`; for the latter
            they, and the value, may be JAX arrays on any device.

    Raises:
        EngineError: angles that are not finite, on an engine that samples.
        DifferentiationError: a second derivative by gradient = "spsa".
    """
    if is_traceable(primitive, config):
        return _traced(primitive, program, config, a, *operands)
    if is_native(primitive, config):
        return _native(primitive, program, config, a, *operands)
    a, *operands = (x.astype(np.float64) for x in (a, *operands))  # type: ignore[assignment]
    request = _Request(primitive, program, config, seed)
    if primitive == "expval":
        value = request.evaluate(a, np.ones(program.num_outputs, np.bool_))
    elif config.gradient == "spsa":
        if primitive not in SPSA_RULES:
            raise DifferentiationError(
                "gradient = 'spsa' estimates first derivatives only, and a second one was asked "
                "for. Use gradient = 'parameter_shift', or 'auto' on an exact engine."
            )
        rng = np.random.default_rng(_folded(seed, f"spsa {primitive}", 0))
        value = SPSA_RULES[primitive](request.evaluate, program.num_outputs, a, *operands, rng)
    else:
        value = SHIFT_RULES[primitive](request.evaluate, program.num_outputs, a, *operands)
    request.record()
    return value


def is_native(primitive: str, config: EngineConfig) -> bool:
    """Whether the engine computes a primitive itself, by the configuration's gradient method."""
    runner = engine(config)
    wanted = primitive == "expval" or config.gradient in ("auto", "adjoint")
    return wanted and isinstance(runner, NativeEngine) and primitive in runner.native


def has_xla_call(primitive: str, config: EngineConfig) -> bool:
    """Whether the engine computes a primitive itself, called by XLA without Python."""
    runner = engine(config)
    return (
        is_native(primitive, config) and isinstance(runner, NativeEngine) and runner.has_xla_call()
    )


def is_traceable(primitive: str, config: EngineConfig) -> bool:
    """Whether the engine computes a primitive as a JAX function."""
    runner = engine(config)
    return isinstance(runner, TraceableEngine) and primitive in runner.traceable


def trace(primitive: str, program: Program, config: EngineConfig, *operands: Any) -> Any:
    """A traceable primitive as JAX operations; see `is_traceable`."""
    runner = engine(config)
    assert isinstance(runner, TraceableEngine)
    return runner.trace(primitive, program, *operands)


def xla_call(primitive: str, program: Program, config: EngineConfig, *operands: Any) -> Any:
    """A native primitive as JAX operations; see `has_xla_call`."""
    runner = engine(config)
    assert isinstance(runner, NativeEngine)
    return runner.xla_call(primitive, program, *operands)


def _native(
    primitive: str,
    program: Program,
    config: EngineConfig,
    a: NDArray[Any],
    *operands: NDArray[Any],
) -> NDArray[Any]:
    runner = engine(config)
    assert isinstance(runner, NativeEngine)
    if not len(a):
        return runner.compute(primitive, program, a, *operands)
    reserve(runner, config, program, len(a), np.ones(program.num_outputs, np.bool_))
    start = time.perf_counter()
    value = runner.compute(primitive, program, a, *operands)
    seconds = time.perf_counter() - start
    gradient = "none" if primitive == "expval" else "adjoint"
    device = getattr(runner, "device", "CPU")
    of_angles = "single" if a.dtype == np.float32 else "double"
    precision = getattr(runner, "precision", of_angles)
    _record(Run(primitive, gradient, config.kind, device, len(a), 1, 0, seconds, precision))
    return value


def _traced(primitive: str, program: Program, config: EngineConfig, a: Any, *operands: Any) -> Any:
    start = time.perf_counter()
    value = trace(primitive, program, config, a, *operands).block_until_ready()
    gradient = "none" if primitive == "expval" else "adjoint"
    seconds = time.perf_counter() - start
    device = min(value.devices(), key=lambda device: device.id).platform.upper()
    precision = "single" if a.dtype == np.float32 else "double"
    if len(a):
        _record(Run(primitive, gradient, config.kind, device, len(a), 1, 0, seconds, precision))
    return value


def _record(run: Run) -> None:
    global _last
    if is_planning():
        # Only engines of this process get here, which cost nothing but time.
        write_down(Item(run.primitive, run.gradient, run.kind, run.rows, Cost(run.rows)))
        return
    with _lock:
        _last = run
        for record in _records:
            record.append(run)


class _Request:
    """One request to an engine, in parts where a rule cannot hold all of its rows at once."""

    def __init__(self, primitive: str, program: Program, config: EngineConfig, seed: int) -> None:
        self.primitive, self.program, self.config = primitive, program, config
        self._seed = seed
        rule = "spsa" if config.gradient == "spsa" else "parameter_shift"
        self._gradient = "none" if primitive == "expval" else rule
        self._rows = 0
        self._seconds = 0.0
        self._answers: list[Evaluation] = []

    def evaluate(self, rows: Array, outputs: NDArray[np.bool_]) -> Array:
        """The outputs (R, M) at rows of angles (R, K); NaN where a row is not finite.

        Raises:
            EngineError: a row is not finite, and the engine samples.
        """
        if not len(rows):
            return np.zeros((0, self.program.num_outputs))
        runner = engine(self.config)
        finite = np.asarray(np.isfinite(rows).all(axis=1))
        if not finite.all() and (self.config.spends_shots or isinstance(runner, JobEngine)):
            raise EngineError(
                f"{(~finite).sum()} of {len(rows)} rows of angles hold NaN or infinity; nothing "
                f"was sent to the {self.config.kind!r} engine. Look for a "
                "diverged training step or an unscaled input."
            )
        if is_planning():
            cost = runner.cost(self.program, len(rows), outputs)
            write_down(Item(self.primitive, self._gradient, self.config.kind, len(rows), cost))
            # No zeros: what is multiplied by them is never asked for.
            shape = (len(rows), self.program.num_outputs)
            made_up: Array = np.cos(np.arange(1.0, 1.0 + np.prod(shape)).reshape(shape))
            return made_up
        start = time.perf_counter()
        answer = run(
            runner,
            self.config,
            self.program,
            np.where(finite[:, None], rows, 0.0),
            outputs=outputs,
            seed=_folded(self._seed, self.primitive, len(self._answers)),
        )
        self._seconds += time.perf_counter() - start
        self._rows += len(rows)
        self._answers.append(answer)
        return np.where(finite[:, None], answer.values, np.nan)

    def record(self) -> None:
        """Makes this the last run; a request that asked for nothing is none."""
        if not self._answers:
            return
        made = Run(
            primitive=self.primitive,
            gradient=self._gradient,
            kind=self.config.kind,
            device=self._answers[0].device,
            rows=self._rows,
            jobs=sum(answer.jobs for answer in self._answers),
            shots=sum(answer.shots for answer in self._answers),
            seconds=self._seconds,
            precision=self._answers[0].precision,
            queued=_total([answer.queued for answer in self._answers]),
        )
        _record(made)


def _total(seconds: list[float | None]) -> float | None:
    known = [s for s in seconds if s is not None]
    return sum(known) if known else None


def _folded(seed: int, primitive: str, part: int) -> int:
    """A seed for each part of each primitive's request, all different."""
    sequence = np.random.SeedSequence([seed, zlib.crc32(primitive.encode()), part])
    return int(sequence.generate_state(1)[0])
