"""Any estimator of Qiskit as an engine, made by a function that the configuration names."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable
from typing import Any

from qiskit.primitives import BaseEstimatorV2
from qiskit.providers import BackendV2

from qml.errors import ConfigError, EngineError, UnknownNameError, nearest
from qml.kinds import EstimatorConfig
from qml.simulators.estimators.compilation import Compiled
from qml.simulators.estimators.engine import Pub, PubEngine, precision_of
from qml.simulators.estimators.jobs import Job


class EstimatorEngine(PubEngine):
    """Expectation values by the estimator that `factory` makes; see qml.kinds.EstimatorConfig.

    Without `shots` it is asked for exact values. Qiskit gives an estimator no seed with a request:
    a factory with a parameter `seed` is called for every request, with that request's own, and an
    estimator of any other factory draws as it will.

    Jobs of another process are found by the estimator's method `job(job_id)`, if it has one. No
    estimator takes a tag, so a job that was sent but whose id was lost is not found.

    Raises:
        ConfigError: the factory cannot be imported or called with `options`, or makes no estimator.
        UnknownNameError: its module has no function of that name.
    """

    precision = "-"

    def __init__(self, config: EstimatorConfig) -> None:
        self._factory = _factory(config.factory)
        self._options = dict(config.options)
        self._place = config.factory
        takes_seed = "seed" in inspect.signature(self._factory).parameters
        self._seeded = takes_seed and "seed" not in self._options
        self._estimator = self._made(config.seed)
        machine = _machine(self._estimator)
        self.device = type(self._estimator).__name__ if machine is None else str(machine.name)
        super().__init__(config, machine)

    def send(self, circuit: Compiled, pub: Pub, shots: int, seed: int, tag: str) -> Job:
        estimator = self._made(seed) if self._seeded else self._estimator
        if shots:
            return estimator.run([pub], precision=precision_of(shots))
        try:
            return estimator.run([pub], precision=0.0)
        except ValueError as error:
            raise EngineError(
                f"{self._place!r} makes an estimator that has no exact values ({error}). "
                "Set 'shots' in the configuration of this backend."
            ) from error

    def fetch(self, job: str) -> Job | None:
        known = getattr(self._estimator, "job", None)
        return known(job) if callable(known) else None

    def find(self, tag: str) -> str | None:
        return None

    def _made(self, seed: int) -> BaseEstimatorV2:
        options: dict[str, Any] = self._options | ({"seed": seed} if self._seeded else {})
        try:
            inspect.signature(self._factory).bind(**options)
        except TypeError as error:
            raise ConfigError(
                f"factory = {self._place!r} cannot be called with the options "
                f"{sorted(options)}: {error}. It takes {inspect.signature(self._factory)}."
            ) from None
        estimator = self._factory(**options)
        if not isinstance(estimator, BaseEstimatorV2):
            raise ConfigError(
                f"factory = {self._place!r} must return a qiskit.primitives.BaseEstimatorV2, "
                f"and returned a {type(estimator).__name__}."
            )
        return estimator


def _factory(place: str) -> Callable[..., Any]:
    module, name = place.split(":")
    try:
        found = importlib.import_module(module)
    except ModuleNotFoundError as error:
        raise ConfigError(
            f"factory = {place!r} cannot be imported: {error}. A module is found on sys.path, as "
            "by `import`: run from its folder, install it, or set PYTHONPATH."
        ) from error
    function = getattr(found, name, None)
    if not callable(function):
        functions = [key for key, value in vars(found).items() if callable(value)]
        raise UnknownNameError(
            f"factory = {place!r}: the module has no function {name!r}; {nearest(name, functions)}"
        )
    made: Callable[..., Any] = function
    return made


def _machine(estimator: BaseEstimatorV2) -> BackendV2 | None:
    """What circuits are compiled for: `backend` or `mode` of the estimator, if a BackendV2."""
    for name in ("backend", "mode"):
        found = getattr(estimator, name, None)
        if callable(found) and not isinstance(found, BackendV2):
            found = found()
        if isinstance(found, BackendV2):
            return found
    return None
