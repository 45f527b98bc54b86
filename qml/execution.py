"""From a derivative that JAX asks for to one request to an engine."""

from __future__ import annotations

import threading
import time
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from qml.circuits.program import Program
from qml.config import EngineConfig
from qml.errors import EngineError
from qml.gradients import expval_curvature, expval_hvp, expval_jvp, expval_vjp
from qml.simulators.base import Engine
from qml.simulators.registry import engine

Array = NDArray[np.float64]

SHIFT_RULES: Final[dict[str, Callable[..., Array]]] = {
    "expval_jvp": expval_jvp,
    "expval_vjp": expval_vjp,
    "expval_hvp": expval_hvp,
    "expval_curvature": expval_curvature,
}
"""The derivatives of E by gradient = "parameter_shift"."""


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
    """

    primitive: str
    gradient: str
    kind: str
    device: str
    rows: int
    jobs: int
    shots: int
    seconds: float


_last: Run | None = None
_records: list[list[Run]] = []
_lock = threading.Lock()


def prepare(config: EngineConfig) -> None:
    """Makes the engine of a configuration, so that what it lacks is told before any work.

    Raises:
        DeviceError: the device asked for is not there.
        MissingDependencyError: the package behind the engine is not installed.
        UnknownNameError: the configuration names what the engine does not know.
    """
    engine(config)


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
    a: Array,
    *operands: Array,
) -> Array:
    """The value of a primitive at angles a (B, K), by at most one request to the engine.

    Args:
        primitive: "expval" or a key of SHIFT_RULES.
        program: with K slots and M outputs.
        config: of the engine.
        seed: uint32; the primitive's name is folded in, so a value and its gradient at the same
            seed draw independently.
        a, operands: float64, of the shapes in qml.gradients.

    Raises:
        EngineError: angles that are not finite, on an engine that samples.
    """
    runner = engine(config)

    def evaluate(rows: Array, outputs: NDArray[np.bool_]) -> Array:
        gradient = "none" if primitive == "expval" else "parameter_shift"
        return _request(runner, primitive, gradient, program, config, seed, rows, outputs)

    if primitive == "expval":
        return evaluate(a, np.ones(program.num_outputs, np.bool_))
    return SHIFT_RULES[primitive](evaluate, program.num_outputs, a, *operands)


def _request(
    runner: Engine,
    primitive: str,
    gradient: str,
    program: Program,
    config: EngineConfig,
    seed: int,
    rows: Array,
    outputs: NDArray[np.bool_],
) -> Array:
    global _last
    if not len(rows):
        return np.zeros((0, program.num_outputs))
    finite = np.asarray(np.isfinite(rows).all(axis=1))
    if not finite.all() and getattr(config, "shots", None) is not None:
        raise EngineError(
            f"{(~finite).sum()} of {len(rows)} rows of angles hold NaN or infinity; nothing was "
            f"sent to the {config.kind!r} engine, which spends shots. Look for a diverged training "
            "step or an unscaled input."
        )
    start = time.perf_counter()
    answer = runner.expval(
        program,
        np.where(finite[:, None], rows, 0.0),
        outputs=outputs,
        seed=_folded(seed, primitive),
    )
    run = Run(
        primitive=primitive,
        gradient=gradient,
        kind=config.kind,
        device=answer.device,
        rows=len(rows),
        jobs=answer.jobs,
        shots=answer.shots,
        seconds=time.perf_counter() - start,
    )
    with _lock:
        _last = run
        for record in _records:
            record.append(run)
    return np.where(finite[:, None], answer.values, np.nan)


def _folded(seed: int, primitive: str) -> int:
    sequence = np.random.SeedSequence([seed, zlib.crc32(primitive.encode())])
    return int(sequence.generate_state(1)[0])
