"""The kinds of engines, and where the keys of each are: a family of them in a module of its own.

A new kind is a model in a `qml/kinds_*.py` and a line in KINDS. All models are imported from here.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from typing import Final

from qml.errors import ConfigError
from qml.foreign import foreign, raised
from qml.kinds_aer import AerConfig, Noise
from qml.kinds_estimators import EstimatorConfig, RuntimeConfig
from qml.kinds_exact import ReferenceConfig, StatevectorConfig, XlaConfig
from qml.kinds_pennylane import PennylaneConfig
from qml.kinds_sampling import Budget, JobConfig, OptionsConfig, SamplingConfig
from qml.settings import EngineConfig

__all__ = [
    "AerConfig",
    "Budget",
    "DEFAULT_KIND",
    "EstimatorConfig",
    "JobConfig",
    "KINDS",
    "MEND",
    "Noise",
    "OptionsConfig",
    "PLUGINS",
    "PennylaneConfig",
    "ReferenceConfig",
    "RuntimeConfig",
    "SamplingConfig",
    "StatevectorConfig",
    "XlaConfig",
    "kinds",
    "model",
    "plugins",
]

KINDS: dict[str, type[EngineConfig]] = {
    "aer": AerConfig,
    "estimator": EstimatorConfig,
    "pennylane": PennylaneConfig,
    "reference": ReferenceConfig,
    "runtime": RuntimeConfig,
    "statevector": StatevectorConfig,
    "xla": XlaConfig,
}
"""The built-in kinds of engine and the keys each accepts."""

DEFAULT_KIND = "statevector"
"""The kind that runs, with its defaults, where nothing is configured."""

PLUGINS = "qml.simulators"
"""The group of entry points by which other packages add kinds: name = "module:EngineClass"."""

MEND: Final = "Mend, reinstall or uninstall the package that adds this kind."
"""What to do about an error that such a package raises."""


@cache
def plugins() -> Mapping[str, EntryPoint]:
    """The kinds that installed packages add, by name; a built-in kind cannot be replaced.

    Raises:
        ConfigError: two packages add the same kind.
    """
    found: dict[str, EntryPoint] = {}
    for point in entry_points(group=PLUGINS):
        if found.setdefault(point.name, point).value != point.value:
            raise ConfigError(
                f"two packages add a kind {point.name!r}: {found[point.name].value!r} and "
                f"{point.value!r}. Uninstall one of them."
            )
    return {name: point for name, point in found.items() if name not in KINDS}


def kinds() -> list[str]:
    """The names of all kinds, built-in and installed."""
    return sorted({*KINDS, *plugins()})


def model(kind: str) -> type[EngineConfig] | None:
    """The keys of a kind; None if there is none of that name.

    Raises:
        ConfigError: importing the class of an installed kind raises something, or the class names
            no EngineConfig of its own as `Config`.
        MissingDependencyError: as its module says.
    """
    if kind in KINDS:
        return KINDS[kind]
    point = plugins().get(kind)
    if point is None:
        return None
    what = f"the kind {kind!r} of {point.value!r} cannot be imported"
    with foreign(raised(what, ConfigError, MEND)):
        found = getattr(point.load(), "Config", None)
    if not (isinstance(found, type) and issubclass(found, EngineConfig)):
        raise ConfigError(
            f"the kind {kind!r} of {point.value!r} cannot be used: its class must have an "
            "attribute Config, a subclass of qml.settings.EngineConfig with its keys."
        )
    return found
