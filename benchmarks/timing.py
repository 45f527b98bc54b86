"""Median times of a function, and measurements in a fresh process of another environment."""

from __future__ import annotations

import os
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

CALLS = 9
BLOCK = 0.05
"""Seconds."""

WARM_UP = 0.3
"""Seconds of calls between the first and those that are timed, as in the midst of training."""

PATIENCE = 120.0
"""Seconds a process may take, its imports and compilation included."""

THREADS = (1, 2)


class Failure(Exception):
    """A measurement that gave nothing; the message says why."""


class TooSlow(Failure):
    """It took longer than PATIENCE, or its calls would."""


def seconds(call: Callable[[], object]) -> float:
    """The median of CALLS, each the mean of as many as fill BLOCK, so that no moment decides."""
    start = time.perf_counter()
    call()
    repeats = 1 + int(BLOCK / (time.perf_counter() - start))
    times: list[float] = []
    while len(times) < CALLS:
        start = time.perf_counter()
        for _ in range(repeats):
            call()
        times.append((time.perf_counter() - start) / repeats)
    return float(np.median(times))


def median(call: Callable[[], tuple[Any, ...]]) -> dict[str, Any]:
    """Seconds of the first call, the median milliseconds of CALLS later ones, and the values."""
    begin = time.perf_counter()
    found = call()
    first = time.perf_counter() - begin
    start = time.perf_counter()
    while (spent := time.perf_counter() - start) < WARM_UP:
        call()
        if CALLS * (time.perf_counter() - start - spent) > PATIENCE:
            raise TooSlow(f"over {PATIENCE:.0f} s for {CALLS} calls")
    milliseconds = 1e3 * seconds(call)
    values = np.concatenate([np.ravel(array) for array in found])
    return {"milliseconds": milliseconds, "first": first, "values": values}


def single_or_double(dtype: str) -> None:
    """JAX in this precision; before its first use."""
    import jax

    jax.config.update("jax_enable_x64", dtype == "float64")  # type: ignore[no-untyped-call]


def in_process(
    python: str, script: Path, arguments: list[str], threads: int | None = None
) -> dict[str, Any]:
    """What `script --measure arguments FILE` leaves in FILE (npz).

    Args:
        threads: of OpenMP and of XLA's pool (NPROC); as the library likes if left out.

    Raises:
        TooSlow: it took longer than PATIENCE, or its calls would.
        Failure: it ended with an error.
    """
    surroundings = {k: v for k, v in os.environ.items() if k not in ("OMP_NUM_THREADS", "NPROC")}
    if threads is not None:
        surroundings |= {"OMP_NUM_THREADS": str(threads), "NPROC": str(threads)}
    surroundings["JAX_TRACEBACK_FILTERING"] = "off"  # so that the last line is the error
    with tempfile.TemporaryDirectory() as folder:
        answer = Path(folder, "found.npz")
        command = [python, str(script), "--measure", *arguments, str(answer)]
        try:
            done = subprocess.run(
                command, env=surroundings, timeout=PATIENCE, stderr=subprocess.PIPE, text=True
            )
        except subprocess.TimeoutExpired:
            raise TooSlow(f"over {PATIENCE:.0f} s") from None
        if done.returncode:
            last = (done.stderr.strip().splitlines() or ["no message"])[-1]
            if TooSlow.__name__ in last:
                raise TooSlow(last.partition(": ")[2])
            raise Failure(f"failed with {done.returncode}: {last}")
        with np.load(answer) as stored:
            return dict(stored)


def best(python: str, script: Path, arguments: list[str]) -> tuple[dict[str, Any], int]:
    """The fastest of THREADS, and which it was; after TooSlow no other number is tried.

    Raises:
        Failure: none of them gave anything.
    """
    found: list[tuple[dict[str, Any], int]] = []
    failures: list[Failure] = []
    for threads in THREADS:
        try:
            found.append((in_process(python, script, arguments, threads), threads))
        except TooSlow as failure:
            failures.append(failure)
            break
        except Failure as failure:
            failures.append(failure)
    if not found:
        raise failures[-1]
    return min(found, key=lambda pair: float(pair[0]["milliseconds"]))
