"""How many threads sweep, and on which threading layer of numba."""

from __future__ import annotations

import ctypes
import sys
from functools import lru_cache
from pathlib import Path
from typing import Any

import numba

_settings: Any = numba.config


def threads(wanted: int | None) -> int:
    """As many as wanted, at most the machine's; all by default, 1 where there is no TBB.

    numba's other layers will not do: "workqueue" aborts under concurrent calls, and a forked child
    of "omp" is killed.
    """
    available: int = _settings.NUMBA_NUM_THREADS if launched() else 1
    return min(wanted or available, available)


@lru_cache(maxsize=1)
def launched() -> bool:
    """Starts numba's threads; whether they are those of TBB.

    numba does not find the library in the environment by itself.
    """
    libraries = sorted(Path(sys.prefix, "lib").glob("libtbb.so.12*"))
    if libraries:
        ctypes.CDLL(str(libraries[0]), mode=ctypes.RTLD_GLOBAL)
    _settings.THREADING_LAYER = "tbb" if libraries else "workqueue"
    # Compiled functions that are loaded from the cache need the symbols of the running layer.
    numba.set_num_threads(_settings.NUMBA_NUM_THREADS)
    return bool(libraries)
