"""Keys that several kinds share: of engines that measure, that send jobs, that take options."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal

from pydantic import AfterValidator, Field

from qml.errors import ConfigError
from qml.settings import VARIABLE, EngineConfig, FixedDict, Table, looks_secret

POSITIVE = "an integer from 1 to 2**31 - 1"
Count = Annotated[int, Field(ge=1, lt=2**31)]
Text = Annotated[str, Field(min_length=1)]


class Budget(Table):
    """What a backend may spend in all: a request that would exceed it is not sent."""

    jobs: Count | None = Field(default=None, description=f"{POSITIVE}, or left out for no limit")
    shots: int | None = Field(
        default=None, ge=1, lt=2**63, description="an integer from 1 to 2**63 - 1, or left out"
    )


class SamplingConfig(EngineConfig):
    """What engines can be told that measure.

    `shots` left out means exact expectation values, where the engine has them. They are spread over
    the groups of strings that are measured together evenly, or by the sums of the sizes of their
    coefficients (`allocation` = "weighted", the same total).
    """

    tables: ClassVar[Mapping[str, type[Table]]] = {"budget": Budget}

    shots: Count | None = Field(
        default=None, description=f"{POSITIVE}, or left out for exact expectation values"
    )
    allocation: Literal["uniform", "weighted"] = Field(
        default="uniform", description="'uniform' or 'weighted'"
    )
    budget: Budget | None = Field(default=None, description="a table of limits, or left out")


class JobConfig(SamplingConfig):
    """What engines can be told whose requests are jobs, run elsewhere.

    A request becomes jobs of at most `max_rows` rows of angles, and one that fails is sent again
    `retries` times, after 1, 2, 4, ... seconds. With `journal` every job is recorded under `.qml/`,
    so that a program that was killed collects its jobs and submits none twice.
    """

    optimization_level: int = Field(
        default=2, ge=0, le=3, description="0, 1, 2 or 3, of Qiskit's transpiler"
    )
    max_rows: Count | None = Field(
        default=None, description=f"{POSITIVE}, or left out for the backend's own limit"
    )
    retries: int = Field(default=3, ge=0, le=100, description="an integer from 0 to 100")
    journal: bool | None = Field(
        default=None, description="true, false, or left out: true on a real service"
    )

    @property
    def journals(self) -> bool:
        """Whether jobs are recorded."""
        return bool(self.journal)


class OptionsConfig(EngineConfig):
    """Keys for a function of another package, in the table `options`; no secret may be in it."""

    options: Annotated[dict[str, str | int | float | bool], AfterValidator(FixedDict)] = Field(
        default_factory=FixedDict, description="a table of strings, numbers and booleans"
    )

    def __init__(self, **values: Any) -> None:
        # First of all, as a value of another type is shown.
        given = values.get("options")
        for key, value in given.items() if isinstance(given, Mapping) else ():
            _refuse_secret(str(key), value)
        super().__init__(**values)


def _refuse_secret(key: str, value: object) -> None:
    """An option is no secret; where one is by its name a variable that holds it, it is a name."""
    letters = key.lower().removesuffix("env").rstrip("_-")
    if looks_secret(key):
        raise ConfigError(
            f"'options': the key {key!r} looks like a secret, which must not stand in a "
            "configuration. Let the function that takes it read an environment variable."
        )
    if looks_secret(letters) and not (isinstance(value, str) and re.fullmatch(VARIABLE, value)):
        raise ConfigError(
            f"'options': {key!r} must be the name, in capitals, of an environment variable."
        )
