"""Which engine runs a circuit, and how: frozen models, `qml.toml`, and one order of precedence.

    argument  >  `with qml.use(...)`  >  QML_BACKEND  >  `backend` in qml.toml  >  built-in default

A configuration is read strictly: an unknown key, a wrong type or an unknown name is an error that
names the place, what is allowed and the nearest valid name. Secrets are refused wherever they
stand, and their values never enter a message.
"""

from __future__ import annotations

import functools
import hashlib
import json
import os
import re
import reprlib
import threading
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal, Self, SupportsIndex

from pydantic import BaseModel, ConfigDict, Field, PrivateAttr, ValidationError

from qml.errors import ConfigError, UnknownNameError, nearest

FILE_NAME = "qml.toml"
ENVIRONMENT_VARIABLE = "QML_BACKEND"
SECTIONS = ("backend", "backends")

_SECRET = re.compile(r"token|apikey|accesskey|privatekey|passw|passphrase|secret|credential")


class EngineConfig(BaseModel):
    """What every engine can be told. Frozen, hashable; `==` is identity, then digest.

    The description of a field is the sentence «must be ...» of its error message.

    Raises:
        ConfigError: a key is unknown, looks like a secret, or has a value that is not allowed.

    >>> AerConfig(shots=1000) == AerConfig(shots=1000)
    True
    """

    model_config = ConfigDict(frozen=True, strict=True, extra="forbid")

    kind: str = Field(description="the name of a kind of engine")
    gradient: Literal["auto", "parameter_shift"] = Field(
        default="auto", description="'auto' or 'parameter_shift'"
    )
    seed: int = Field(default=0, ge=0, lt=2**32, description="an integer from 0 to 2**32 - 1")
    _digest: str = PrivateAttr("")

    def __init__(self, **values: Any) -> None:
        # Before pydantic sees them: its errors keep the values, and these may be secrets.
        _refuse_unknown_keys(values, type(self).model_fields, type(self).__name__)
        values = {key: _plain(value) for key, value in values.items()}
        try:
            super().__init__(**values)
        except ValidationError as error:
            raise ConfigError(self._explain(error)) from None
        self._check()
        content = json.dumps(self.model_dump(mode="json"), sort_keys=True)
        self._digest = hashlib.sha256(content.encode()).hexdigest()

    def _check(self) -> None:
        """Refuses keys that are each valid but not together."""

    @classmethod
    def _explain(cls, error: ValidationError) -> str:
        sentences = []
        for problem in error.errors(include_url=False):
            key, found = str(problem["loc"][0]), problem["input"]
            if problem["type"] == "missing":
                sentences.append(f"the key {key!r} is missing.")
                continue
            allowed = cls.model_fields[key].description or ""
            names = re.findall(r"'(\w+)'", allowed)
            hint = f": {nearest(found, names)}" if names and isinstance(found, str) else "."
            sentences.append(f"{key!r} must be {allowed}, got {_shown(found)}{hint}")
        return " ".join(sentences)

    @property
    def digest(self) -> str:
        """SHA-256, in hexadecimal, of all keys and values: equal in every process."""
        return self._digest

    def model_copy(self, *, update: Mapping[str, Any] | None = None, deep: bool = False) -> Self:
        """The same configuration with some keys replaced; checked like a new one.

        `deep` makes no difference: nothing in a configuration can change.
        """
        return type(self)(**{**self.model_dump(), **(update or {})})

    def __setattr__(self, name: str, value: Any) -> None:
        if name != "_digest":
            raise ConfigError(
                f"{type(self).__name__} cannot be changed, and {name!r} was to be set. Make a "
                f"changed copy: config.model_copy(update={{{name!r}: ...}})."
            )
        super().__setattr__(name, value)

    def __hash__(self) -> int:
        return hash(self._digest)

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if not isinstance(other, EngineConfig):
            return NotImplemented
        return self._digest == other._digest


class StatevectorConfig(EngineConfig):
    """The compiled engine: exact, in the precision of the arguments, with adjoint derivatives.

    A request that would need more than `memory` GiB for its states is refused; left out, the budget
    is three quarters of the machine's memory.
    """

    kind: Literal["statevector"] = Field(default="statevector", description="'statevector'")
    gradient: Literal["auto", "adjoint", "parameter_shift"] = Field(  # type: ignore[assignment]
        default="auto", description="'auto', 'adjoint' or 'parameter_shift'"
    )
    threads: int | None = Field(
        default=None,
        ge=1,
        lt=2**31,
        description="an integer from 1 to 2**31 - 1, or left out for all cores",
    )
    memory: float | None = Field(
        default=None, gt=0, description="a number of GiB above 0, or left out"
    )


class XlaConfig(EngineConfig):
    """The engine in plain JAX: exact, in the precision of the arguments, on any device, exportable.

    It runs where JAX puts it: where its arguments are, else on JAX's default device. A batch whose
    states would need more than `memory` GiB runs in parts; left out, the budget is half of the
    device's memory.
    """

    kind: Literal["xla"] = Field(default="xla", description="'xla'")
    gradient: Literal["auto", "adjoint"] = Field(  # type: ignore[assignment]
        default="auto",
        description="'auto' or 'adjoint' (a shift rule would call JAX from a host callback of JAX)",
    )
    memory: float | None = Field(
        default=None, gt=0, description="a number of GiB above 0, or left out"
    )


class ReferenceConfig(EngineConfig):
    """The plain NumPy engine: exact, double precision, small circuits."""

    kind: Literal["reference"] = Field(default="reference", description="'reference'")


class AerConfig(EngineConfig):
    """Qiskit Aer: exact or sampled, ideal or noisy, on CPU or GPU.

    `shots` left out means exact expectation values. `noise` is the name of a fake device of
    qiskit-ibm-runtime, such as "FakeManilaV2". A GPU that is not there is an error unless
    `fallback` is "CPU".
    """

    kind: Literal["aer"] = Field(default="aer", description="'aer'")
    device: Literal["CPU", "GPU"] = Field(default="CPU", description="'CPU' or 'GPU'")
    fallback: Literal["CPU"] | None = Field(default=None, description="'CPU' or left out")
    method: Literal["statevector", "density_matrix", "matrix_product_state"] | None = Field(
        default=None,
        description="'statevector', 'density_matrix', 'matrix_product_state' or left out",
    )
    shots: int | None = Field(
        default=None,
        ge=1,
        lt=2**31,
        description="an integer from 1 to 2**31 - 1, or left out for exact expectation values",
    )
    precision: Literal["double", "single"] = Field(
        default="double", description="'double' or 'single'"
    )
    noise: str | None = Field(
        default=None, min_length=1, description="the name of a fake device, or left out"
    )
    threads: int | None = Field(
        default=None,
        ge=1,
        lt=2**31,
        description="an integer from 1 to 2**31 - 1, or left out for the engine's choice",
    )

    @property
    def effective_method(self) -> Literal["statevector", "density_matrix", "matrix_product_state"]:
        """`method`, or where it is left out: density_matrix with noise, else statevector."""
        if self.method is not None:
            return self.method
        return "statevector" if self.noise is None else "density_matrix"

    def _check(self) -> None:
        if self.fallback is not None and self.device != "GPU":
            raise ConfigError(
                f"'fallback' = {self.fallback!r} says what to do where there is no GPU, but "
                f"'device' is {self.device!r}. Set device = 'GPU' or leave out 'fallback'."
            )
        if self.noise and self.shots is None and self.effective_method != "density_matrix":
            raise ConfigError(
                f"exact expectation values with 'noise' = {self.noise!r} need 'method' = "
                f"'density_matrix', got {self.method!r}. Change 'method', or set 'shots' to sample."
            )


KINDS: dict[str, type[EngineConfig]] = {
    "aer": AerConfig,
    "reference": ReferenceConfig,
    "statevector": StatevectorConfig,
    "xla": XlaConfig,
}
"""The built-in kinds of engine and the keys each accepts."""

DEFAULT_KIND = "statevector"
"""The kind that runs, with its defaults, where nothing is configured."""


class _Ambient(threading.local):
    """The choice of the innermost `with qml.use(...)` of this thread, None outside of any.

    Thread-local and not a context variable, because JAX keeps its side of the choice per thread:
    a context variable also travels into `asyncio` tasks and `asyncio.to_thread`, where the two
    would differ and a jitted function would be cached under another backend than it was traced for.
    """

    config: EngineConfig | None = None


AMBIENT = _Ambient()


@dataclass(frozen=True)
class ConfigFile:
    """A `qml.toml`, checked in whole: its default and its backends by name."""

    path: Path
    backend: str | None
    backends: Mapping[str, EngineConfig]


def discover(start: str | os.PathLike[str] | None = None) -> Path | None:
    """The nearest `qml.toml` at or above `start` (the working directory), None where there is none.

    Raises:
        ConfigError: there is no working directory any more.
    """
    found = _discover(start)
    return None if found is None else Path(found)


def load(path: str | os.PathLike[str]) -> ConfigFile:
    """The contents of the `qml.toml` at `path`, read again only when the file has changed.

    A change is another time of modification, size or inode.

    Raises:
        ConfigError: it cannot be read, is not TOML, or holds a table, key or value that is wrong.
        UnknownNameError: it names a kind or a backend that does not exist.
    """
    path = os.path.abspath(path)
    try:
        status = os.stat(path)
        return _load(path, status.st_mtime_ns, status.st_size, status.st_ino)
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read: {error.strerror}.") from None


def backends() -> dict[str, str]:
    """The names that can be asked for and the kind of each: built-in kinds and `qml.toml`'s.

    Raises:
        ConfigError, UnknownNameError: as `load`.
    """
    file = _discovered_file()
    configured = {} if file is None else file.backends
    names = {kind: kind for kind in KINDS} | {n: c.kind for n, c in configured.items()}
    return dict(sorted(names.items()))


def resolve(backend: str | Mapping[str, Any] | EngineConfig | None = None) -> EngineConfig:
    """The configuration that `backend` stands for; with None, the ambient one.

    A name is looked up among the backends of `qml.toml`, then among the built-in kinds. A mapping
    is read like a table of `qml.toml`. None goes through the precedence at the top of this module;
    an empty QML_BACKEND counts as unset. `qml.toml` is read only where the answer depends on it.

    Raises:
        ConfigError: `backend` is of another type, or a table, key or value is wrong.
        UnknownNameError: no backend or no kind has that name.

    >>> resolve("aer").kind
    'aer'
    >>> resolve({"kind": "aer", "shots": 1000}).shots
    1000
    """
    if backend is None:
        return _configured_default() if AMBIENT.config is None else AMBIENT.config
    if isinstance(backend, EngineConfig):
        return backend
    if isinstance(backend, str):
        return _named(backend, _discovered_file(), "backend")
    if isinstance(backend, Mapping):
        return _parse_table(backend, "backend")
    raise ConfigError(
        "backend: must be the name of a backend, a table such as {'kind': 'aer'}, an EngineConfig "
        f"or None, got {_shown(backend)}."
    )


def _configured_default() -> EngineConfig:
    file = _discovered_file()
    if name := os.environ.get(ENVIRONMENT_VARIABLE):
        return _named(name, file, ENVIRONMENT_VARIABLE)
    if file is not None and file.backend is not None:
        return _named(file.backend, file, f"{file.path}: backend")
    return _with_defaults(KINDS[DEFAULT_KIND])


def _named(name: str, file: ConfigFile | None, where: str) -> EngineConfig:
    configured = {} if file is None else file.backends
    if name in configured:
        return configured[name]
    if name in KINDS:
        return _with_defaults(KINDS[name])
    place = f"no {FILE_NAME} was found" if file is None else f"{file.path} has none of that name"
    raise UnknownNameError(
        f"{where}: there is no backend {name!r} ({place}): {nearest(name, {*configured, *KINDS})}"
    )


@functools.cache
def _with_defaults(model: type[EngineConfig]) -> EngineConfig:
    return model()


def _discover(start: str | os.PathLike[str] | None = None) -> str | None:
    try:
        directory = os.getcwd() if start is None else os.path.abspath(start)
    except FileNotFoundError:
        raise ConfigError(
            f"the working directory, where {FILE_NAME} is looked for, no longer exists. Change to "
            "another directory."
        ) from None
    while True:
        candidate = os.path.join(directory, FILE_NAME)
        if os.path.isfile(candidate):
            return candidate
        parent = os.path.dirname(directory)
        if parent == directory:
            return None
        directory = parent


def _discovered_file() -> ConfigFile | None:
    path = _discover()
    return None if path is None else load(path)


@functools.lru_cache(maxsize=32)
def _load(path: str, mtime_ns: int, size: int, inode: int) -> ConfigFile:
    """`load`, where everything but `path` only tells one state of the file from another."""
    with open(path, "rb") as stream:
        try:
            content = tomllib.loads(stream.read().decode("utf-8-sig"))
        except ValueError as error:  # TOMLDecodeError, not UTF-8, or an integer too long for int()
            raise ConfigError(f"{path}: is not valid TOML: {error}.") from None
    _refuse_unknown_keys(content, SECTIONS, path)
    tables = content.get("backends", {})
    if not isinstance(tables, dict):
        raise ConfigError(
            f"{path}: 'backends' must hold tables [backends.NAME], got {_kind_of(tables)}."
        )
    parsed = {
        name: _parse_table(table, f"{path}: [backends.{name}]") for name, table in tables.items()
    }
    default = content.get("backend")
    file = ConfigFile(Path(path), default, MappingProxyType(parsed))
    if default is not None:
        if not isinstance(default, str):
            raise ConfigError(
                f"{path}: 'backend' must be the name of a backend, got {_shown(default)}."
            )
        _named(default, file, f"{path}: backend")
    return file


def _parse_table(table: object, where: str) -> EngineConfig:
    if not isinstance(table, Mapping):
        raise ConfigError(f"{where}: must be a table of keys and values, got {_kind_of(table)}.")
    kind = table.get("kind")
    model = KINDS.get(kind) if isinstance(kind, str) else None
    models = KINDS.values() if model is None else [model]
    _refuse_unknown_keys(table, {key for known in models for key in known.model_fields}, where)
    if "kind" not in table:
        raise ConfigError(f"{where}: the key 'kind' is missing. {nearest('', KINDS)}")
    if not isinstance(kind, str):
        raise ConfigError(f"{where}: 'kind' must be a string, got {_shown(kind)}.")
    if model is None:
        raise UnknownNameError(f"{where}: there is no kind {kind!r}: {nearest(kind, KINDS)}")
    try:
        return model(**table)
    except ConfigError as error:
        raise ConfigError(f"{where}: {error}") from None


def _refuse_unknown_keys(found: Iterable[object], valid: Iterable[str], where: str) -> None:
    """The keys of `found` are among `valid`; no value is looked at, let alone shown."""
    allowed = set(valid)
    unknown = [key for key in found if key not in allowed]
    for key in unknown:
        if _looks_secret(str(key)):
            raise ConfigError(
                f"{where}: the key {key!r} looks like a secret, which must not stand in a "
                "configuration. Remove it and put the secret into an environment variable; a kind "
                "of backend that needs one takes the name of that variable, as token_env = 'NAME'."
            )
    if unknown:
        hints = " ".join(
            f"there is no key {key!r}: {nearest(str(key), allowed)}" for key in unknown
        )
        raise ConfigError(f"{where}: {hints}")


def _plain(value: Any) -> Any:
    """NumPy's integers as Python's, which strict models ask for."""
    if isinstance(value, SupportsIndex) and not isinstance(value, bool | int):
        return value.__index__()
    return value


def _looks_secret(key: str) -> bool:
    letters = re.sub(r"[^a-z]", "", key.lower())
    return _SECRET.search(letters) is not None and not letters.endswith("env")


def _shown(value: object) -> str:
    """A value for a message. What a container holds is not shown: it may be a secret."""
    short = not isinstance(value, int) or value.bit_length() <= 64  # repr of a huge int raises
    if value is None or (isinstance(value, str | int | float) and short):
        return f"{reprlib.repr(value)} ({type(value).__name__})"
    return _kind_of(value)


def _kind_of(value: object) -> str:
    return f"a value of type {type(value).__name__}"
