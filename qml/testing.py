"""What every engine must satisfy, as checks that anyone can run on an engine of their own."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from qml.checks import CHECKS
from qml.config import resolve
from qml.settings import EngineConfig
from qml.simulators.base import Engine
from qml.simulators.registry import engine as engine_of
from qml.subjects import Subject, expect


def check_engine(
    backend: str | Mapping[str, Any] | EngineConfig | Engine,
    *,
    qubits: int = 4,
    seed: int = 0,
    tolerance: float | None = None,
    ideal: bool = True,
    seeded: bool = True,
) -> list[str]:
    """Checks all that an engine promises (qml.simulators.base), on circuits of some qubits.

    Engines that sample are measured some hundred times at the same angles, so few shots are enough.
    The two exemptions are for machines: an engine with noise has values that are only possible
    ones, and the draws of a real machine do not follow from a seed.

    Args:
        backend: what qml.config.resolve takes, or an engine.
        qubits: the most that the circuits have, at least 2.
        seed: of the circuits and angles.
        tolerance: of exact values; by default 1e-9, in single precision 1e-4.
        ideal: False for an engine with noise.
        seeded: False for an engine whose draws do not follow from the seed of a request.
    Returns:
        The names of the checks that applied.

    Raises:
        AssertionError: a check failed; says what was asked and what was found.

    >>> "values" in check_engine("reference", qubits=2)
    True
    """
    if qubits < 2:
        raise ValueError(f"qubits must be at least 2, got {qubits}.")
    if isinstance(backend, str | Mapping | EngineConfig):
        config: EngineConfig | None = resolve(backend)
        runner = engine_of(config)
    else:
        runner, config = backend, getattr(backend, "config", None)
    expect(not isinstance(runner, type), f"{runner!r} is a class: give an engine, made of it.")
    expect(isinstance(runner, Engine), f"{runner!r} lacks a method of qml.simulators.base.Engine.")
    subject = Subject(runner, config, qubits, seed, tolerance, ideal, seeded)
    applied = [name for name, (applies, _) in CHECKS.items() if applies(subject)]
    for name in applied:
        try:
            CHECKS[name][1](subject)
        except AssertionError:
            raise
        except Exception as error:  # of whatever kind: it is the engine's, and a fault of it
            raise AssertionError(
                f"the check {name!r} ended with {type(error).__name__}: {error}"
            ) from error
    return applied
