"""Hybrid quantum-classical models: kernels, derivatives, layers. Everything loads on first use."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from qml import (
        circuits as circuits,
        layers as layers,
        simulators as simulators,
        testing as testing,
    )
    from qml.circuits.observables import probs as probs
    from qml.circuits.paulis import X as X, Y as Y, Z as Z
    from qml.config import backends as backends
    from qml.context import use as use
    from qml.errors import QMLError as QMLError
    from qml.estimates import estimate as estimate
    from qml.execution import last_run as last_run, recorded as recorded
    from qml.kernel import Kernel as Kernel, kernels as kernels, qkernel as qkernel
    from qml.plans import planning as planning
    from qml.progress import watch as watch

_HOMES = {
    "Kernel": "qml.kernel",
    "QMLError": "qml.errors",
    "X": "qml.circuits.paulis",
    "Y": "qml.circuits.paulis",
    "Z": "qml.circuits.paulis",
    "backends": "qml.config",
    "estimate": "qml.estimates",
    "kernels": "qml.kernel",
    "last_run": "qml.execution",
    "planning": "qml.plans",
    "probs": "qml.circuits.observables",
    "qkernel": "qml.kernel",
    "recorded": "qml.execution",
    "use": "qml.context",
    "watch": "qml.progress",
}
_PACKAGES = frozenset({"circuits", "layers", "simulators", "testing"})


def __getattr__(name: str) -> Any:
    if name in _PACKAGES:
        return importlib.import_module(f"qml.{name}")
    if name in _HOMES:
        value = getattr(importlib.import_module(_HOMES[name]), name)
        globals()[name] = value
        return value
    raise AttributeError(f"module 'qml' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOMES, *_PACKAGES})
