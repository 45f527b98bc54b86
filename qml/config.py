"""Which engine runs a circuit, and how: `qml.toml`, and one order of precedence.

    argument  >  `with qml.use(...)`  >  QML_BACKEND  >  `backend` in qml.toml  >  built-in default

A table may say `inherits = "other"`: it then has all keys of that backend but for those it gives
itself, and for those that `unset = ["shots", "budget.jobs"]` names, which are as if never given:
TOML has no word for that. Relative paths in a `qml.toml` are taken from its directory. Tables are
read strictly (qml.settings); an error names the place.
"""

from __future__ import annotations

import functools
import os
import threading
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

from qml.errors import ConfigError, UnknownNameError, named, nearest
from qml.foreign import foreign, raised
from qml.kinds import DEFAULT_KIND, KINDS, MEND, kinds, model
from qml.settings import (
    EngineConfig,
    Table,
    absolute,
    kind_of,
    looks_secret,
    refuse_unknown_keys,
    shown,
    state,
)

FILE_NAME = "qml.toml"
ENVIRONMENT_VARIABLE = "QML_BACKEND"
SECTIONS = ("backend", "backends")
INHERITS = "inherits"
UNSET = "unset"


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
    """A `qml.toml`, checked in whole: its default, its backends by name, and their tables."""

    path: Path
    backend: str | None
    backends: Mapping[str, EngineConfig]
    tables: Mapping[str, Mapping[str, Any]]


def discover(start: str | os.PathLike[str] | None = None) -> Path | None:
    """The nearest `qml.toml` at or above `start` (the working directory), None where there is none.

    Raises:
        ConfigError: there is no working directory any more.
    """
    found = _discover(start)
    return None if found is None else Path(found)


def load(path: str | os.PathLike[str]) -> ConfigFile:
    """The contents of the `qml.toml` at `path`, read again only when the file has changed.

    So are the files that it names. A change is another time of modification, size or inode.

    Raises:
        ConfigError: it cannot be read, is not TOML, or holds a table, key or value that is wrong.
        UnknownNameError: it names a kind or a backend that does not exist.
    """
    path = absolute(os.fspath(path))
    try:
        file = _load(path, *state(os.stat(path)))
        if not all(config.is_current() for config in file.backends.values()):
            _load.cache_clear()
            file = _load(path, *state(os.stat(path)))
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read: {error.strerror}.") from None
    return file


def backends() -> dict[str, str]:
    """The names that can be asked for and the kind of each: built-in kinds and `qml.toml`'s.

    Raises:
        ConfigError, UnknownNameError: as `load`.
    """
    file = _discovered_file()
    configured = {} if file is None else file.backends
    names = {kind: kind for kind in kinds()} | {n: c.kind for n, c in configured.items()}
    return dict(sorted(names.items()))


Backend = str | Mapping[str, Any] | EngineConfig | None
"""What can be given for a backend: a name, a table, a configuration; None for the ambient one."""


def resolve(backend: Backend = None, gradient: str | None = None) -> EngineConfig:
    """The configuration that `backend` stands for; with None, the ambient one.

    A name is looked up among the backends of `qml.toml`, then among the built-in kinds. A mapping
    is read like a table of `qml.toml`. None goes through the precedence at the top of this module;
    an empty QML_BACKEND counts as unset. `qml.toml` is read only where the answer depends on it.
    `gradient` replaces that key of the configuration.

    Raises:
        ConfigError: `backend` is of another type, or a table, key or value is wrong.
        UnknownNameError: no backend or no kind has that name.

    >>> resolve("aer").kind
    'aer'
    >>> resolve({"kind": "aer", "shots": 1000}).shots
    1000
    """
    config = _resolved(backend)
    return config if gradient is None else config.model_copy(update={"gradient": gradient})


def _resolved(backend: Backend) -> EngineConfig:
    if backend is None:
        return _configured_default() if AMBIENT.config is None else AMBIENT.config
    if isinstance(backend, EngineConfig):
        return backend
    if isinstance(backend, str):
        return _named(backend, _discovered_file(), "backend")
    if isinstance(backend, Mapping):
        table = _whole(backend, _discovered_tables, "backend")
        return _made(_keys_of(table, "backend"), table, "backend")
    raise ConfigError(
        "backend: must be the name of a backend, a table such as {'kind': 'aer'}, an EngineConfig "
        f"or None, got {shown(backend)}."
    )


def _configured_default() -> EngineConfig:
    file = _discovered_file()
    if name := os.environ.get(ENVIRONMENT_VARIABLE):
        return _named(name, file, ENVIRONMENT_VARIABLE)
    if file is not None and file.backend is not None:
        return _named(file.backend, file, f"{file.path}: backend")
    return _with_defaults(KINDS[DEFAULT_KIND], DEFAULT_KIND)


def _discovered_tables() -> Mapping[str, Mapping[str, Any]]:
    file = _discovered_file()
    return {} if file is None else file.tables


def _named(name: str, file: ConfigFile | None, where: str) -> EngineConfig:
    configured = {} if file is None else file.backends
    if name in configured:
        return configured[name]
    if found := model(name):
        try:
            return _with_defaults(found, name)
        except ConfigError as error:
            what = f"{where}: the kind {named(name)} needs a table: {error}"
            raise ConfigError(what) from error.__cause__
    place = f"no {FILE_NAME} was found" if file is None else f"{file.path} has none of that name"
    raise UnknownNameError(
        f"{where}: there is no backend {named(name)} ({place}): "
        f"{nearest(name, {*configured, *kinds()})}"
    )


@functools.cache
def _with_defaults(keys: type[EngineConfig], kind: str) -> EngineConfig:
    return _read(keys, {"kind": kind})  # a kind may need other keys: then it says so


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
        text = stream.read()
    wrong = None
    try:
        content = tomllib.loads(text.decode("utf-8-sig"))
    except ValueError as error:  # TOMLDecodeError, not UTF-8, or an integer too long for int()
        wrong = str(error)
    if wrong is not None:
        # Not above, where the error that keeps the text would be its context.
        raise ConfigError(f"{path}: is not valid TOML: {wrong}.")
    refuse_unknown_keys(content, SECTIONS, path)
    tables = content.get("backends", {})
    if not isinstance(tables, dict):
        raise ConfigError(
            f"{path}: 'backends' must hold tables [backends.NAME], got {kind_of(tables)}."
        )
    places = {name: f"{path}: [backends.{name}]" for name in tables}
    whole = {name: _whole(tables[name], lambda: tables, place) for name, place in places.items()}

    def ancestors(name: str) -> int:
        return ancestors(tables[name][INHERITS]) + 1 if INHERITS in tables[name] else 0

    parsed, located = {}, {}
    for name in sorted(whole, key=ancestors):  # a mistake is told where it was made, not by an heir
        keys = _keys_of(whole[name], places[name])
        located[name] = _located(whole[name], keys, os.path.dirname(path))
        parsed[name] = _made(keys, located[name], places[name])
    default = content.get("backend")
    file = ConfigFile(Path(path), default, MappingProxyType(parsed), MappingProxyType(located))
    if default is not None:
        if not isinstance(default, str):
            raise ConfigError(
                f"{path}: 'backend' must be the name of a backend, got {shown(default)}."
            )
        _named(default, file, f"{path}: backend")
    return file


def _whole(
    table: object,
    others: Callable[[], Mapping[str, Any]],
    where: str,
    heirs: frozenset[str] = frozenset(),
) -> Mapping[str, Any]:
    """A table with the keys it inherits, but for those it unsets; tables in it key by key.

    Args:
        others: the tables by name, asked for only if there is something to inherit.
        where: the place, for messages.
        heirs: the names that inherit from this one, without end if it is among them.

    Raises:
        ConfigError: it is no table, inherits from itself, or unsets what it does not inherit.
        UnknownNameError: it inherits from no table of `others`.
    """
    if not isinstance(table, Mapping):
        raise ConfigError(f"{where}: must be a table of keys and values, got {kind_of(table)}.")
    if INHERITS not in table:
        if UNSET in table:
            raise ConfigError(
                f"{where}: {UNSET!r} leaves out inherited keys, and the table inherits none. Add "
                f"{INHERITS} = 'NAME', or remove {UNSET!r}."
            )
        return table
    name, tables = table[INHERITS], others()
    if not isinstance(name, str):
        raise ConfigError(
            f"{where}: {INHERITS!r} must be the name of a backend, got {shown(name)}."
        )
    which = f"{where}: {INHERITS} = {named(name)}"
    if name in heirs:
        raise ConfigError(f"{which} again, which has no end.")
    if name not in tables:
        raise UnknownNameError(
            f"{which}, which is no backend of {FILE_NAME}: {nearest(name, tables)}"
        )
    own = {key: value for key, value in table.items() if key not in (INHERITS, UNSET)}
    base = _whole(tables[name], others, which, heirs | {name})
    for key in _unset(table, where):
        base = _without(base, key.split("."), f"{where}: {UNSET} = [{named(key)}]")
    return _merged(base, own)


def _unset(table: Mapping[str, Any], where: str) -> list[str]:
    keys = table.get(UNSET, [])
    if isinstance(keys, list) and all(isinstance(key, str) for key in keys):
        return keys
    raise ConfigError(
        f"{where}: {UNSET!r} must be a list of inherited keys, as {UNSET} = ['shots'] or "
        f"{UNSET} = ['budget.jobs'], got {shown(keys)}."
    )


def _without(table: Mapping[str, Any], path: list[str], where: str) -> dict[str, Any]:
    """A table without a key, or without one of a table in it.

    Raises:
        ConfigError: it is not there.
    """
    key, *rest = path
    if key not in table:
        raise ConfigError(f"{where}: no such key is inherited: {nearest(key, table)}")
    if not rest:
        return {name: value for name, value in table.items() if name != key}
    if not isinstance(table[key], Mapping):
        raise ConfigError(f"{where}: the inherited {key!r} is no table. Unset {key!r} itself.")
    return {**table, key: _without(table[key], rest, where)}


def _merged(base: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    """Both tables in one; what both have is of `over`, tables are merged in turn."""
    both = {
        key for key in base.keys() & over if all(isinstance(t[key], Mapping) for t in (base, over))
    }
    return {**base, **over, **{key: _merged(base[key], over[key]) for key in both}}


def _keys_of(table: Mapping[str, Any], where: str) -> type[EngineConfig]:
    """The model of a table's kind; the table has no other keys than that.

    Raises:
        ConfigError: a key is unknown or looks like a secret, or there is no kind.
        UnknownNameError: there is no kind of that name.
    """
    kind = table.get("kind")
    try:
        keys = model(kind) if isinstance(kind, str) else None
    except ConfigError as error:
        raise ConfigError(f"{where}: {error}") from error.__cause__
    models = KINDS.values() if keys is None else [keys]
    allowed = {INHERITS, UNSET}.union(*(known.model_fields for known in models))
    if keys is None and isinstance(kind, str):  # whose keys, misspelt or not, are not known
        allowed |= {key for key in table if not looks_secret(str(key))}
    refuse_unknown_keys(table, allowed, where)
    if "kind" not in table:
        raise ConfigError(f"{where}: the key 'kind' is missing. {nearest('', kinds())}")
    if not isinstance(kind, str):
        raise ConfigError(f"{where}: 'kind' must be a string, got {shown(kind)}.")
    if keys is None:
        raise UnknownNameError(f"{where}: there is no kind {named(kind)}: {nearest(kind, kinds())}")
    return keys


def _located(table: Mapping[str, Any], keys: type[Table], folder: str) -> Mapping[str, Any]:
    """A table of a file in `folder`, with all relative paths taken from there."""
    located = dict(table)
    for key, value in table.items():
        if key in keys.paths and isinstance(value, str) and value:
            located[key] = os.path.join(folder, value)
        if key in keys.tables and isinstance(value, Mapping):
            located[key] = _located(value, keys.tables[key], folder)
    return located


def _made(keys: type[EngineConfig], table: Mapping[str, Any], where: str) -> EngineConfig:
    try:
        return _read(keys, table)
    except ConfigError as error:
        raise ConfigError(f"{where}: {error}") from error.__cause__


def _read(keys: type[EngineConfig], table: Mapping[str, Any]) -> EngineConfig:
    """A configuration; where the class is of another package, its errors are told as its."""
    if keys in KINDS.values():
        return keys(**table)
    what = f"the keys of kind {table['kind']!r} cannot be read by {keys.__module__}:{keys.__name__}"
    with foreign(raised(what, ConfigError, MEND)):
        return keys(**table)
