"""Kinds of engines by name; the class is imported when a backend of its kind is first used."""

from __future__ import annotations

import importlib
from functools import lru_cache
from typing import Final

from qml.errors import EngineError, UnknownNameError, nearest
from qml.foreign import foreign, raised
from qml.kinds import MEND, plugins
from qml.settings import EngineConfig
from qml.simulators.base import Engine

ENGINES: Final[dict[str, str]] = {
    "statevector": "qml.simulators.statevector.engine:StatevectorEngine",
    "xla": "qml.simulators.xla.engine:XlaEngine",
    "reference": "qml.simulators.reference:ReferenceEngine",
    "aer": "qml.simulators.aer.engine:AerEngine",
    "runtime": "qml.simulators.estimators.runtime:RuntimeEngine",
    "estimator": "qml.simulators.estimators.factory:EstimatorEngine",
    "pennylane": "qml.simulators.pennylane.engine:PennylaneEngine",
}
"""kind -> "module:Class". A new engine is one file and one line here.

Other packages add kinds by an entry point; see qml.kinds.plugins.
"""


@lru_cache(maxsize=32)
def engine(config: EngineConfig) -> Engine:
    """The engine of a configuration; one object per distinct configuration.

    Raises:
        UnknownNameError: no engine is registered for `config.kind`.
        DeviceError: the device asked for is not there.
        MissingDependencyError: the package behind the engine is not installed.
        EngineError: the engine of another package could not be made, or is none.
    """
    made: Engine
    if config.kind in ENGINES:
        module, name = ENGINES[config.kind].split(":")
        made = getattr(importlib.import_module(module), name)(config)
    elif config.kind in plugins():
        point = plugins()[config.kind]
        what = f"the engine of kind {config.kind!r}, {point.value!r}, cannot be made"
        with foreign(raised(what, EngineError, MEND)):
            made = point.load()(config)
        if not isinstance(made, Engine):
            raise EngineError(
                f"{what}: it lacks a method of qml.simulators.base.Engine (docs/engines.md). {MEND}"
            )
    else:
        hint = nearest(config.kind, {*ENGINES, *plugins()})
        raise UnknownNameError(f"no engine is registered for kind {config.kind!r}: {hint}")
    return made
