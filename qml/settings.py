"""What can be told to an engine: frozen tables, read strictly, secrets refused wherever they stand.

An unknown key, a wrong type or an unknown name is an error that names what is allowed and the
nearest valid name. The value of what looks like a secret never enters a message.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Iterable, Mapping
from numbers import Integral
from typing import Any, ClassVar, Literal, NoReturn, Self, get_args, get_origin

from pydantic import BaseModel, ConfigDict, Field, PrivateAttr, ValidationError

from qml.errors import ConfigError, named, nearest

_SECRET = re.compile(
    r"token|apikey|accesskey|privatekey|passw|passphrase|pwd|secret|credential|bearer|authoriz"
)
VARIABLE = r"^[A-Z_][A-Z0-9_]{0,63}$"
"""The names of environment variables that may stand in a configuration; few tokens look so."""


class Table(BaseModel):
    """Keys and values. Frozen, hashable; `==` is identity, then digest.

    The description of a field is the sentence «must be ...» of its error message.

    Attributes:
        tables: the keys that may hold tables, and their models.
        paths: the keys that hold the path of a file. A relative one is taken from the working
            directory, and in a qml.toml from the directory of that.

    Raises:
        ConfigError: a key is unknown, looks like a secret, or has a value that is not allowed.
    """

    model_config = ConfigDict(frozen=True, strict=True, extra="forbid", allow_inf_nan=False)

    tables: ClassVar[Mapping[str, type[Table]]] = {}
    paths: ClassVar[frozenset[str]] = frozenset()
    _digest: str = PrivateAttr("")

    def __init__(self, **values: Any) -> None:
        # Before pydantic sees them: its errors keep the values, and these may be secrets.
        refuse_unknown_keys(values, type(self).model_fields, type(self).__name__)
        values = {key: self._read(key, value) for key, value in values.items()}
        wrong = ""
        try:
            super().__init__(**values)
        except ValidationError as error:
            wrong = self._explain(error)
        if wrong:
            # Not above, where pydantic's error, which keeps the values, would be its context.
            raise ConfigError(wrong)
        self._check()
        content = json.dumps(self._identity(), sort_keys=True)
        self._digest = hashlib.sha256(content.encode()).hexdigest()

    @classmethod
    def _read(cls, key: str, value: Any) -> Any:
        """A value as the model takes it: tables read, paths absolute, NumPy's integers as int."""
        if key in cls.tables and isinstance(value, Mapping):
            refuse_unknown_keys(value, cls.tables[key].model_fields, repr(key))
            try:
                return cls.tables[key](**value)
            except ConfigError as error:
                raise ConfigError(f"{key!r}: {error}") from None
        if key in cls.paths and isinstance(value, str) and value:
            return absolute(value)
        if isinstance(value, Integral) and not isinstance(value, bool | int):
            return int(value)
        return value

    def _check(self) -> None:
        """Refuses keys that are each valid but not together; reads what is in files."""

    def _identity(self) -> dict[str, Any]:
        """What tells this table from others, as JSON takes it; of tables in it, their digests."""
        tables = {key: value.digest for key, value in self if isinstance(value, Table)}
        return {**self.model_dump(mode="json"), **tables}

    def is_current(self) -> bool:
        """Whether the files that were read for it are still the same."""
        parts = [getattr(self, key) for key in self.tables]
        return all(part.is_current() for part in parts if isinstance(part, Table))

    @classmethod
    def _explain(cls, error: ValidationError) -> str:
        sentences = []
        for problem in error.errors(include_url=False, include_context=False):
            key, found = str(problem["loc"][0]), problem["input"]
            if problem["type"] == "missing":
                sentences.append(f"the key {key!r} is missing.")
                continue
            allowed = cls.model_fields[key].description or "what its model allows"
            names = choices(cls.model_fields[key].annotation)
            choice = names and isinstance(found, str)
            # Of a few, the nearest is told however far it is.
            hint = f": {nearest(found, names, cutoff=0.0 if found else 0.5)}" if choice else "."
            # Where the name of a variable belongs, a secret may have been written.
            got = kind_of(found) if key.endswith("_env") else shown(found)
            sentences.append(f"{key!r} must be {allowed}, got {got}{hint}")
        return " ".join(dict.fromkeys(sentences))

    @property
    def digest(self) -> str:
        """SHA-256, in hexadecimal, of all keys and values: equal in every process.

        Of a file it is the content that counts, as read when the configuration was made, and not
        the path.
        """
        return self._digest

    def model_copy(self, *, update: Mapping[str, Any] | None = None, deep: bool = False) -> Self:
        """The same configuration with some keys replaced; checked like a new one.

        `deep` makes no difference: nothing in a configuration can change.
        """
        return type(self)(**{**dict(self), **(update or {})})

    def __setattr__(self, name: str, value: Any) -> None:
        if name not in self.__private_attributes__:
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
        if not isinstance(other, Table):
            return NotImplemented
        return self._digest == other._digest


class EngineConfig(Table):
    """What every engine can be told; other packages add their keys in a class of their own.

    >>> EngineConfig(kind="mine") == EngineConfig(kind="mine", seed=0)
    True
    """

    kind: str = Field(description="the name of a kind of engine")
    gradient: Literal["auto", "parameter_shift", "spsa"] = Field(
        default="auto", description="'auto', 'parameter_shift' or 'spsa'"
    )
    seed: int = Field(default=0, ge=0, lt=2**32, description="an integer from 0 to 2**32 - 1")

    @property
    def spends_shots(self) -> bool:
        """Whether every request costs shots, so that it must make sense before it is sent."""
        return getattr(self, "shots", None) is not None

    @property
    def exact(self) -> bool:
        """Whether values are those of the circuit itself, without shots or noise."""
        return not self.spends_shots

    @property
    def draws(self) -> bool:
        """Whether something is drawn, by measurement or by the gradient: a request has a seed."""
        return self.spends_shots or self.gradient == "spsa"


class FixedDict(dict[str, Any]):
    """A dictionary that cannot be changed, for keys that no model knows."""

    def _refuse(self, *values: object, **named: object) -> NoReturn:
        raise ConfigError("a configuration cannot be changed. Make a changed copy: model_copy.")

    __setitem__ = __delitem__ = __ior__ = _refuse
    clear = pop = popitem = setdefault = update = _refuse

    def __reduce__(self) -> tuple[type[FixedDict], tuple[dict[str, Any]]]:
        return type(self), (dict(self),)


def refuse_unknown_keys(found: Iterable[object], valid: Iterable[str], where: str) -> None:
    """The keys of `found` are among `valid`; no value is looked at, let alone shown."""
    allowed = set(valid)
    unknown = [key for key in found if key not in allowed]
    for key in unknown:
        if looks_secret(str(key)):
            raise ConfigError(
                f"{where}: the key {key!r} looks like a secret, which must not stand in a "
                "configuration. Remove it and put the secret into an environment variable; a kind "
                "of backend that needs one takes the name of that variable, as token_env = 'NAME'."
            )
    if unknown:
        hints = " ".join(
            f"there is no key {named(key)}: {nearest(str(key), allowed)}" for key in unknown
        )
        raise ConfigError(f"{where}: {hints}")


def choices(annotation: Any) -> list[str]:
    """The texts that a type allows, if it allows only some.

    >>> choices(Literal["CPU", "GPU"] | None), choices(str)
    (['CPU', 'GPU'], [])
    """
    if get_origin(annotation) is Literal:
        return [value for value in get_args(annotation) if isinstance(value, str)]
    return [choice for part in get_args(annotation) for choice in choices(part)]


def looks_secret(key: str) -> bool:
    """Whether a key by its name holds a secret; "token_env" holds the name of a variable.

    >>> looks_secret("API-Key"), looks_secret("token_env"), looks_secret("shots")
    (True, False, False)
    """
    letters = re.sub(r"[^a-z]", "", key.lower())
    return _SECRET.search(letters) is not None and not letters.endswith("env")


def absolute(path: str) -> str:
    """A path from the root.

    Raises:
        ConfigError: it is relative, and there is no working directory any more.
    """
    try:
        return os.path.abspath(path)
    except FileNotFoundError:
        raise ConfigError(
            f"the working directory, from which {path!r} is taken, no longer exists. Change to "
            "another directory."
        ) from None


def state(status: os.stat_result) -> tuple[int, int, int]:
    """What changes with a file: its time of modification, size and inode."""
    return status.st_mtime_ns, status.st_size, status.st_ino


def shown(value: object) -> str:
    """A value for a message. What a container holds is not shown: it may be a secret."""
    short = not isinstance(value, int) or value.bit_length() <= 64  # repr of a huge int raises
    if value is None or (isinstance(value, str | int | float) and short):
        return f"{named(value)} ({type(value).__name__})"
    return kind_of(value)


def kind_of(value: object) -> str:
    """A value for a message by its type alone."""
    return f"a value of type {type(value).__name__}"
