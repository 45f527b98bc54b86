"""Any estimator of Qiskit as an engine, made by a function that the configuration names."""

from __future__ import annotations

from typing import Any, Final

from qiskit.primitives import BaseEstimatorV2
from qiskit.providers import BackendV2

from qml.errors import ConfigError, EngineError
from qml.foreign import foreign, function_at, raised
from qml.kinds import EstimatorConfig
from qml.simulators.estimators.compilation import Compiled
from qml.simulators.estimators.engine import Pub, PubEngine, precision_of
from qml.simulators.estimators.jobs import Job

MEND: Final = "Mend the function, or change 'options' of the backend."
"""What to do about an error that a factory raises."""


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
        EngineError: the factory raised something.
    """

    precision = "-"

    def __init__(self, config: EstimatorConfig) -> None:
        self._factory, self._signature = function_at("factory", config.factory)
        self._options = dict(config.options)
        self._place = config.factory
        takes_seed = "seed" in self._signature.parameters
        self._seeded = takes_seed and "seed" not in self._options
        self._estimator = self._made(config.seed)
        what = f"the estimator of factory = {self._place!r} cannot say where it runs"
        with foreign(raised(what, EngineError, MEND)):
            machine = _machine(self._estimator)
        self.device = type(self._estimator).__name__ if machine is None else str(machine.name)
        super().__init__(config, machine)

    def send(self, circuit: Compiled, pub: Pub, shots: int, seed: int, tag: str) -> Job:
        estimator = self._made(seed) if self._seeded else self._estimator
        return estimator.run([pub], precision=precision_of(shots))

    def fetch(self, job: str) -> Job | None:
        known = getattr(self._estimator, "job", None)
        return known(job) if callable(known) else None

    def find(self, tag: str) -> str | None:
        return None

    def _made(self, seed: int) -> BaseEstimatorV2:
        options: dict[str, Any] = self._options | ({"seed": seed} if self._seeded else {})
        try:
            self._signature.bind(**options)
        except TypeError as error:
            raise ConfigError(
                f"factory = {self._place!r} cannot be called with the options "
                f"{sorted(options)}: {error}. It takes {self._signature}."
            ) from None
        what = f"factory = {self._place!r} made no estimator"
        with foreign(raised(what, EngineError, MEND)):
            estimator = self._factory(**options)
        if not isinstance(estimator, BaseEstimatorV2):
            raise ConfigError(
                f"factory = {self._place!r} must return a qiskit.primitives.BaseEstimatorV2, "
                f"and returned a {type(estimator).__name__}."
            )
        return estimator


def _machine(estimator: BaseEstimatorV2) -> BackendV2 | None:
    """What circuits are compiled for: `backend` or `mode` of the estimator, if a BackendV2."""
    for name in ("backend", "mode"):
        found = getattr(estimator, name, None)
        if callable(found) and not isinstance(found, BackendV2):
            found = found()
        if isinstance(found, BackendV2):
            return found
    return None
