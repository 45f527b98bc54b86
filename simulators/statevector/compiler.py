"""How the functions of this engine are compiled, and where the compiled code is kept."""

from __future__ import annotations

import hashlib
import os
import pickle
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from numba import njit

from qml.errors import EngineError


def _probe() -> None:
    """Compiled by nobody: shows whether numba finds a place for this package's code."""


def _keeps() -> bool:
    """Whether compiled code can be kept on disk."""
    try:
        njit(cache=True)(_probe)
    except RuntimeError as error:
        warnings.warn(
            "the compiled code of the statevector engine cannot be kept, so every process compiles "
            f"anew, for up to a minute ({error}). Set NUMBA_CACHE_DIR to a directory that can be "
            "written.",
            RuntimeWarning,
            stacklevel=2,
        )
        return False
    return True


CACHE: Final = _keeps()

SOURCES: Final = Path(__file__).parent

OPTIONS: Final[dict[str, Any]] = {
    "error_model": "numpy",
    "boundscheck": False,
    "cache": CACHE,
    "nogil": True,
    "fastmath": {"contract", "nsz"},
}
"""Of every compiled function of this engine."""


def parallel() -> dict[str, Any]:
    """The same for one with loops over threads: those written as `prange`, and no others."""
    kinds = ("comprehension", "reduction", "inplace_binop", "setitem", "numpy", "stencil", "fusion")
    return {**OPTIONS, "parallel": {**dict.fromkeys(kinds, False), "prange": True}}


@contextmanager
def compiling() -> Iterator[None]:
    """Around whatever may compile, or load what was compiled before.

    Raises:
        EngineError: the directory of compiled code is damaged, or cannot take more.
    """
    try:
        yield
    except (EOFError, pickle.UnpicklingError) as error:
        raise EngineError(
            f"the compiled code in {_directory()} is damaged ({error}). Delete the files *.nbi and "
            "*.nbc there; they are made again."
        ) from error
    except OSError as error:
        raise EngineError(
            f"compiled code cannot be written to {_directory()} ({error}). Make room there, or set "
            "NUMBA_CACHE_DIR to another directory."
        ) from error


def _directory() -> Path:
    kept: Any = njit(cache=True)(_probe)
    return Path(kept.stats.cache_path)


def forget_other_sources(kept: Path, sources: Path = SOURCES) -> bool:
    """Deletes the compiled code in `kept` if it is of other sources; whether it did.

    numba compiles a function anew when its own file has changed, but not when one has that it calls
    and that was compiled into it: after an update in place it would run half old, half new code.
    """
    texts = [path.name.encode() + path.read_bytes() for path in sorted(sources.glob("*.py"))]
    digest = hashlib.sha256(b"\0".join(texts)).hexdigest()
    stamp = kept / "sources.sha256"
    if stamp.exists() and stamp.read_text() == digest:
        return False
    kept.mkdir(parents=True, exist_ok=True)
    for compiled in kept.glob("*.nb[ic]"):
        compiled.unlink(missing_ok=True)  # another process may do the same
    fresh = stamp.with_suffix(f".{os.getpid()}")
    fresh.write_text(digest)
    fresh.replace(stamp)
    return True


if CACHE:
    with compiling():
        forget_other_sources(_directory())
