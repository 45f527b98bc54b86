"""Waiting for a job, reading what it found, and telling apart the ways it can fail."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime
from functools import partial
from typing import Any, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray
from qiskit.exceptions import QiskitError
from qiskit.primitives import BasePrimitiveJob, PrimitiveJob

from qml.errors import EngineError, JobError
from qml.foreign import foreign, told
from qml.simulators.base import Status
from qml.simulators.shortage import shortage

Job: TypeAlias = BasePrimitiveJob[Any, Any]

Hide: TypeAlias = Callable[[str], str]
"""Leaves out of a text what nobody may see."""

FINAL: Final = frozenset({"DONE", "ERROR", "CANCELLED"})
"""The states that a job does not leave."""

FIRST_PAUSE: Final = 0.5
"""Seconds between the first two questions for the state of a job; later ones are rarer."""

LONGEST_PAUSE: Final = 10.0

_TOO_LARGE: Final = "does not fit the memory here (use fewer qubits, or a machine)"


@contextmanager
def failures(what: str, hide: Hide | None = None) -> Iterator[None]:
    """In this block, which calls an estimator or a service, its errors become ours.

    With `hide`, what they say is told without what it leaves out, and no traceback shows them.

    Raises:
        EngineError: the request is one that would fail again.
        JobError: it failed, and sending it again may help.
    """
    with foreign(partial(_ours, what, hide or str), chained=hide is None):
        yield


def _ours(what: str, hide: Hide, error: Exception) -> EngineError:
    text = told(error, hide)
    if short := shortage(text):  # by an error of Qiskit
        return EngineError(f"{what} {_TOO_LARGE}: {short[1]}.")
    if isinstance(error, MemoryError) or "insufficient memory" in text.lower():
        return EngineError(f"{what} {_TOO_LARGE}: {text}")
    if isinstance(error, QiskitError | OSError | RuntimeError):
        return JobError(f"{what} failed: {text}")
    # Of any other kind it would come again.
    return EngineError(f"{what} was refused: {text}")


def outcome(
    job: Job,
    shape: tuple[int, ...],
    report: Callable[[Status], None],
    hide: Hide | None = None,
) -> NDArray[np.float64]:
    """The expectation values of the one PUB of a job, waited for; `hide` as in `failures`.

    Raises:
        JobError: it failed; what the service says is kept.
        EngineError: it was cancelled, or its values have another shape, or it has a value or an
            error bar that is not finite.
    """
    name = job.job_id()
    state = _waited_for(job, report, hide)
    if state == "CANCELLED":
        raise EngineError(f"job {name} was cancelled, so it has no result. Nothing was sent again.")
    with failures(f"job {name}", hide):
        data = job.result()[0].data
    if state != "DONE":
        report(Status(name, "DONE"))
    evs, stds = np.asarray(data.evs), np.asarray(getattr(data, "stds", 0.0))
    if evs.shape != shape:
        raise EngineError(
            f"job {name} has expectation values of shape {evs.shape}, and {shape} were asked for. "
            "Use an estimator that follows the broadcasting rules of Qiskit's BaseEstimatorV2."
        )
    for what, found in ("expectation values", evs), ("standard errors", stds):
        if not np.isfinite(found).all():
            raise EngineError(
                f"job {name} finished with {(~np.isfinite(found)).sum()} of {found.size} {what} "
                "NaN or infinite: its error mitigation found nothing to rely on. Lower the "
                "resilience_level, or take more shots."
            )
    return evs.real.astype(np.float64)


def _waited_for(job: Job, report: Callable[[Status], None], hide: Hide | None) -> str:
    """The last state seen: a final one, unless the job is a thread of this process."""
    pause, last = FIRST_PAUSE, None
    while True:
        with failures(f"asking for the state of job {job.job_id()}", hide):
            status = Status(job.job_id(), _state(job), _position(job))
        if status != last:
            report(status)
        if status.state in FINAL or isinstance(job, PrimitiveJob):
            return status.state
        time.sleep(pause)
        pause, last = min(1.5 * pause, LONGEST_PAUSE), status


def seconds_queued(job: Job) -> float | None:
    """From its creation until it ran, as the service tells; None where it does not."""
    try:
        times = _metrics(job).get("timestamps", {})
    except (QiskitError, OSError, RuntimeError):
        return None  # its values are here: nothing that has no effect on them may lose them
    try:
        created, running = (datetime.fromisoformat(times[key]) for key in ("created", "running"))
    except (KeyError, TypeError, ValueError):
        return None
    return max(0.0, (running - created).total_seconds())


def _state(job: Job) -> str:
    state = job.status()
    return str(getattr(state, "name", state))


def _position(job: Job) -> int | None:
    found = _metrics(job).get("position_in_queue")
    return found if isinstance(found, int) else None


def _metrics(job: Job) -> dict[str, Any]:
    """What a service tells of a job beyond its state; empty for one in this process."""
    if isinstance(job, PrimitiveJob) or not hasattr(job, "metrics"):
        return {}
    found: dict[str, Any] = job.metrics()
    return found
