"""Keys of the kinds behind Qiskit's estimators: `runtime` and `estimator`."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from qml.errors import ConfigError
from qml.kinds_sampling import POSITIVE, JobConfig, OptionsConfig, Text
from qml.settings import VARIABLE


class RuntimeConfig(JobConfig):
    """IBM's quantum computers through qiskit-ibm-runtime, or its fake devices on this machine.

    Either `name`, as in "ibm_fez", or `fake`, as in "FakeManilaV2". The token is in the environment
    variable that `token_env` names, or in the saved account `account`; with neither,
    qiskit-ibm-runtime's default account.
    """

    kind: Literal["runtime"] = Field(default="runtime", description="'runtime'")
    name: Text | None = Field(default=None, description="the name of a machine, or left out")
    fake: Text | None = Field(default=None, description="the name of a fake device, or left out")
    shots: int = Field(default=4096, ge=1, lt=2**31, description=POSITIVE)
    resilience_level: int = Field(default=1, ge=0, le=2, description="0, 1 or 2")
    mode: Literal["job", "batch", "session"] = Field(
        default="job", description="'job', 'batch' or 'session'"
    )
    token_env: str | None = Field(
        default=None,
        pattern=VARIABLE,
        description="the name, in capitals, of an environment variable that holds it, or left out",
    )
    account: Text | None = Field(
        default=None, description="the name of a saved account, or left out"
    )
    channel: Text | None = Field(default=None, description="the name of a channel, or left out")
    instance: Text | None = Field(default=None, description="the name of an instance, or left out")

    @property
    def journals(self) -> bool:
        """Whether jobs are recorded."""
        return self.name is not None if self.journal is None else self.journal

    def _check(self) -> None:
        if (self.name is None) == (self.fake is None):
            raise ConfigError(
                "kind 'runtime' needs one of 'name', of a machine such as 'ibm_fez', and 'fake', "
                "of a fake device such as 'FakeManilaV2'."
            )
        if self.fake is not None:
            for key in ("token_env", "account", "channel", "instance"):
                if getattr(self, key) is not None:
                    raise ConfigError(f"{key!r} is of a real machine; 'fake' runs on this one.")
        if self.token_env is not None and self.account is not None:
            raise ConfigError(
                "'token_env' and 'account' both say where the token is; leave out one."
            )


class EstimatorConfig(JobConfig, OptionsConfig):
    """Any BaseEstimatorV2 of Qiskit, made by the function `factory` = "module:function".

    The function is called with `options`, once; if it has a parameter `seed` that is not among
    them, for every request, with that request's seed. It returns the estimator; circuits are
    compiled for `estimator.backend` or `estimator.mode` where it has one that is a BackendV2. If it
    has a method `job(job_id)`, jobs of a program that was killed are found again by it.
    """

    kind: Literal["estimator"] = Field(default="estimator", description="'estimator'")
    factory: str = Field(pattern=r"^[A-Za-z_][\w.]*:[A-Za-z_]\w*$", description="'module:function'")
