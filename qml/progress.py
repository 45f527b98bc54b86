"""Where jobs stand while a request waits for them: told to callbacks, else drawn on a terminal."""

from __future__ import annotations

import shutil
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import Final, TextIO

from qml.errors import ArgumentError
from qml.simulators.base import Status

PATIENCE: Final = 2.0
"""Seconds after which a request is long enough for a bar."""

TICK: Final = 0.5
"""Seconds between two drawings of the bar."""

WIDTH: Final = 20


@dataclass(frozen=True)
class Progress:
    """Where a request stands.

    Attributes:
        backend: the kind of its engine.
        job: the id of the job that is waited for.
        state: of the job, as the backend calls it.
        position: of the job in the queue; None where nobody tells.
        elapsed: seconds since the request began.
        done: jobs of the request that are finished.
        jobs: into which the request was split.
    """

    backend: str
    job: str
    state: str
    position: int | None
    elapsed: float
    done: int
    jobs: int


Watcher = Callable[[Progress], None]
Report = Callable[[int, Status], None]
"""(jobs that are done, status of the one that is waited for)."""

_watchers: list[Watcher] = []
_lock = threading.Lock()
_line = threading.Lock()


@contextmanager
def watch(callback: Watcher) -> Iterator[None]:
    """Calls `callback` when a job changes its state or its place in the queue.

    It sees the jobs of all threads, and is called by the thread that waits for the job, so perhaps
    by several at once. What it raises ends the request. No bar is drawn meanwhile.

    Raises:
        ArgumentError: it cannot be called.

    >>> with watch(lambda progress: print(progress.state, progress.position)):
    ...     pass
    """
    if not callable(callback):
        raise ArgumentError(f"watch takes a function of one Progress, got {callback!r}.")
    with _lock:
        _watchers.append(callback)
    try:
        yield
    finally:
        with _lock:
            # By identity: two callbacks may be equal. One, as it may watch twice.
            del _watchers[next(i for i, each in enumerate(_watchers) if each is callback)]


@contextmanager
def shown(backend: str, jobs: int) -> Iterator[Report]:
    """Tells of a request while the block waits for its jobs.

    With no callback, and on a terminal, a line on stderr shows a request that takes longer than
    PATIENCE; of several at once, the first.
    """
    start = time.monotonic()
    bar = _Bar(backend, jobs, start)

    def report(done: int, status: Status) -> None:
        elapsed = time.monotonic() - start
        bar.latest = Progress(
            backend, status.job, status.state, status.position, elapsed, done, jobs
        )
        for callback in tuple(_watchers):
            callback(bar.latest)

    stream = sys.stderr
    if _watchers or stream is None or not stream.isatty() or not _line.acquire(blocking=False):
        yield report
        return
    try:
        with bar.drawn(stream):
            yield report
    finally:
        _line.release()


class _Bar:
    """A line that is drawn again and again by a thread of its own, as nothing may change for hours.

    Attributes:
        latest: what was reported last.
    """

    def __init__(self, backend: str, jobs: int, start: float) -> None:
        self.latest = Progress(backend, "", "waiting", None, 0.0, 0, jobs)
        self._start = start

    @contextmanager
    def drawn(self, stream: TextIO) -> Iterator[None]:
        """Draws while the block runs, and wipes the line at its end."""
        over = threading.Event()
        thread = threading.Thread(target=self._draw, args=(stream, over), daemon=True)
        thread.start()
        try:
            yield
        finally:
            over.set()
            thread.join()

    def _draw(self, stream: TextIO, over: threading.Event) -> None:
        if over.wait(PATIENCE):
            return
        while True:
            columns = shutil.get_terminal_size().columns - 1
            stream.write(f"\r\x1b[K{self.text()[:columns]}")
            stream.flush()
            if over.wait(TICK):
                break
        stream.write("\r\x1b[K")
        stream.flush()

    def text(self) -> str:
        """«aer [=====     ] 1/2 jobs, 0:00:07, 4f2a QUEUED, position 3»"""
        now = self.latest
        filled = WIDTH * now.done // now.jobs
        elapsed = timedelta(seconds=int(time.monotonic() - self._start))
        position = "" if now.position is None else f", position {now.position}"
        return (
            f"{now.backend} [{'=' * filled}{' ' * (WIDTH - filled)}] {now.done}/{now.jobs} jobs, "
            f"{elapsed}, {now.job} {now.state}{position}"
        )
