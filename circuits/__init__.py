"""Circuits: from what a kernel writes to a Program, and ready kernels. All loads on first use."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from qml.circuits import library as library

_MODULES = frozenset({"library"})


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return importlib.import_module(f"qml.circuits.{name}")
    raise AttributeError(f"module 'qml.circuits' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *_MODULES})
