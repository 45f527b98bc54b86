"""What every engine must satisfy, as checks that anyone can run on an engine of their own."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any, Final

import numpy as np

from qml.checks import CHECKS
from qml.config import resolve
from qml.errors import ArgumentError
from qml.foreign import foreign, told
from qml.settings import EngineConfig, shown
from qml.simulators.base import Engine
from qml.simulators.registry import engine as engine_of
from qml.subjects import Subject, expect

MOST: Final = 12
"""Qubits of the largest circuit whose right values the oracle computes in reasonable time."""


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
        qubits: the most that the circuits have, from 2 to 12.
        seed: of the circuits and angles, a uint32.
        tolerance: of exact values, above 0; by default 1e-9, in single precision 1e-4.
        ideal: False for an engine with noise.
        seeded: False for an engine whose draws do not follow from the seed of a request.
    Returns:
        The names of the checks that applied.

    Raises:
        ArgumentError: another argument than `backend` is not of the type or range above.
        ConfigError, UnknownNameError: see qml.config.resolve.
        AssertionError: a check failed; says what was asked and what was found.

    >>> "values" in check_engine("reference", qubits=2)
    True
    """
    _refuse_other("qubits", qubits, 2 <= _integer(qubits) <= MOST, f"an integer from 2 to {MOST}")
    _refuse_other("seed", seed, 0 <= _integer(seed) < 2**32, "an integer from 0 to 2**32 - 1")
    number = isinstance(tolerance, int | float | np.number) and not isinstance(tolerance, bool)
    fits = tolerance is None or (number and 0 < tolerance < np.inf)
    _refuse_other("tolerance", tolerance, bool(fits), "a finite number above 0, or None")
    for name, value in (("ideal", ideal), ("seeded", seeded)):
        _refuse_other(name, value, isinstance(value, bool), "True or False")
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
        # An error of ours, too, is the engine's, and a fault of it.
        with foreign(partial(_ended, name), kept=AssertionError):
            CHECKS[name][1](subject)
    return applied


def _integer(value: object) -> int:
    """The integer that a value is; -1 if it is none."""
    whole = isinstance(value, int | np.integer) and not isinstance(value, bool)
    return int(value) if whole else -1  # type: ignore[call-overload]


def _refuse_other(name: str, value: object, fits: bool, allowed: str) -> None:
    if not fits:
        raise ArgumentError(f"check_engine: {name!r} must be {allowed}, got {shown(value)}.")


def _ended(check: str, error: Exception) -> AssertionError:
    return AssertionError(f"the check {check!r} ended with {told(error)}")
