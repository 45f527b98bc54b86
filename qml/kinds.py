"""The kinds of engines, and the keys that each accepts."""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Mapping
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from typing import Annotated, Any, ClassVar, Literal

from pydantic import AfterValidator, Field, PrivateAttr

from qml.errors import ConfigError, MissingDependencyError
from qml.settings import VARIABLE, EngineConfig, FixedDict, Table, looks_secret, state

POSITIVE = "an integer from 1 to 2**31 - 1"
Count = Annotated[int, Field(ge=1, lt=2**31)]
Text = Annotated[str, Field(min_length=1)]
Probability = Annotated[float, Field(ge=0, le=1)]


class StatevectorConfig(EngineConfig):
    """The compiled engine: exact, in the precision of the arguments, with adjoint derivatives.

    The last bits of a result depend on how many samples a request has, unless it is `reproducible`:
    then they depend neither on that nor on the threads, but few samples of many qubits take up to
    ten times as long. A request that would need more than `memory` GiB for its states is refused;
    left out, the budget is three quarters of the machine's memory.
    """

    kind: Literal["statevector"] = Field(default="statevector", description="'statevector'")
    gradient: Literal["auto", "adjoint", "parameter_shift", "spsa"] = Field(  # type: ignore[assignment]
        default="auto", description="'auto', 'adjoint', 'parameter_shift' or 'spsa'"
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
    reproducible: bool = Field(default=False, description="true or false")


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


class Budget(Table):
    """What a backend may spend in all: a request that would exceed it is not sent."""

    jobs: Count | None = Field(default=None, description=f"{POSITIVE}, or left out for no limit")
    shots: int | None = Field(
        default=None, ge=1, lt=2**63, description="an integer from 1 to 2**63 - 1, or left out"
    )


class Noise(Table):
    """Noise by its parameters, or a NoiseModel of Aer in a file.

    Depolarising channels rho -> (1 - p) rho + p I / 2^n act after every gate on one or on two
    qubits; every measured bit is flipped with probability `readout`. `file` is JSON, the dictionary
    of `NoiseModel.to_dict(serializable=True)`; it is read once, here, and its content, not its
    path, is what tells one configuration from another.
    """

    paths: ClassVar[frozenset[str]] = frozenset({"file"})
    _content: str | None = PrivateAttr(None)
    _state: tuple[int, int, int] | None = PrivateAttr(None)

    depolarizing_1q: Probability | None = Field(
        default=None, description="a probability, or left out"
    )
    depolarizing_2q: Probability | None = Field(
        default=None, description="a probability, or left out"
    )
    readout: Probability | None = Field(default=None, description="a probability, or left out")
    file: Text | None = Field(default=None, description="the path of a JSON file, or left out")

    def _check(self) -> None:
        parameters = (self.depolarizing_1q, self.depolarizing_2q, self.readout)
        given = [value for value in parameters if value is not None]
        if (self.file is None) == (not given):
            raise ConfigError(
                "noise is either a 'file', or at least one of 'depolarizing_1q', "
                "'depolarizing_2q' and 'readout'."
            )
        if self.file is not None:
            self._read_file(self.file)

    def _read_file(self, path: str) -> None:
        try:
            with open(path, "rb") as stream:
                self._state = state(os.fstat(stream.fileno()))
                content = stream.read().decode()
            holds = json.loads(content)
        except OSError as error:
            raise ConfigError(f"{path}: cannot be read: {error.strerror}.") from None
        except ValueError as error:  # JSONDecodeError, or not UTF-8
            raise ConfigError(f"{path}: is not JSON: {error}.") from None
        if not isinstance(holds, dict):
            raise ConfigError(
                f"{path}: must hold an object of JSON, the dictionary of a NoiseModel, got a "
                f"{type(holds).__name__}."
            )
        self._content = content

    @property
    def content(self) -> str | None:
        """The text of `file` as it was read; None without one."""
        return self._content

    def is_current(self) -> bool:
        """Whether the file is still the one that was read."""
        if self.file is None:
            return True
        try:
            return state(os.stat(self.file)) == self._state
        except OSError:
            return False

    def _identity(self) -> dict[str, Any]:
        content = self._content and hashlib.sha256(self._content.encode()).hexdigest()
        return {**super()._identity(), "file": content}


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


class AerConfig(SamplingConfig):
    """Qiskit Aer: exact or sampled, ideal or noisy, on CPU or GPU.

    `noise` is the name of a fake device of qiskit-ibm-runtime, such as "FakeManilaV2", or a table
    (see Noise). A GPU that is not there is an error unless `fallback` is "CPU". `custatevec` uses
    NVIDIA's cuStateVec, `batched_shots` runs the shots of a noisy circuit together on a GPU.
    """

    tables: ClassVar[Mapping[str, type[Table]]] = {**SamplingConfig.tables, "noise": Noise}

    kind: Literal["aer"] = Field(default="aer", description="'aer'")
    device: Literal["CPU", "GPU"] = Field(default="CPU", description="'CPU' or 'GPU'")
    fallback: Literal["CPU"] | None = Field(default=None, description="'CPU' or left out")
    method: Literal["statevector", "density_matrix", "matrix_product_state"] | None = Field(
        default=None,
        description="'statevector', 'density_matrix', 'matrix_product_state' or left out",
    )
    precision: Literal["double", "single"] = Field(
        default="double", description="'double' or 'single'"
    )
    noise: Text | Noise | None = Field(
        default=None,
        description="the name of a fake device, a table of noise, or left out",
    )
    threads: Count | None = Field(
        default=None, description=f"{POSITIVE}, or left out for the engine's choice"
    )
    custatevec: bool = Field(default=False, description="true or false")
    batched_shots: bool = Field(default=False, description="true or false")

    @property
    def exact(self) -> bool:
        """See EngineConfig.exact."""
        return super().exact and self.noise is None

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
        for key in ("custatevec", "batched_shots"):
            if getattr(self, key) and self.device != "GPU":
                raise ConfigError(
                    f"{key!r} is for GPUs, but 'device' is {self.device!r}. Set device = 'GPU' or "
                    f"leave out {key!r}."
                )


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


class EstimatorConfig(JobConfig, OptionsConfig):
    """Any BaseEstimatorV2 of Qiskit, made by the function `factory` = "module:function".

    The function is called with `options`, once; if it has a parameter `seed` that is not among
    them, for every request, with that request's seed. It returns the estimator; circuits are
    compiled for `estimator.backend` or `estimator.mode` where it has one that is a BackendV2. If it
    has a method `job(job_id)`, jobs of a program that was killed are found again by it.
    """

    kind: Literal["estimator"] = Field(default="estimator", description="'estimator'")
    factory: str = Field(pattern=r"^[A-Za-z_][\w.]*:[A-Za-z_]\w*$", description="'module:function'")


class PennylaneConfig(SamplingConfig, OptionsConfig):
    """Any device of PennyLane, made with `options`.

    `device` is its name, as in "lightning.qubit", or "module:function", which makes it.
    Where the device has derivatives of its own, `gradient` = "adjoint" uses them, and "auto" does
    if it can.
    """

    kind: Literal["pennylane"] = Field(default="pennylane", description="'pennylane'")
    gradient: Literal["auto", "adjoint", "parameter_shift", "spsa"] = Field(  # type: ignore[assignment]
        default="auto", description="'auto', 'adjoint', 'parameter_shift' or 'spsa'"
    )
    device: Text = Field(description="the name of a device of PennyLane")

    def _check(self) -> None:
        if self.gradient == "adjoint" and self.shots is not None:
            raise ConfigError(
                "'gradient' = 'adjoint' is of exact states, but 'shots' is "
                f"{self.shots}. Leave out 'shots', or choose 'auto', 'parameter_shift' or 'spsa'."
            )


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
        ConfigError: the class of an installed kind cannot be imported, or names no EngineConfig of
            its own as `Config`.
        MissingDependencyError: as its module says.
    """
    if kind in KINDS:
        return KINDS[kind]
    point = plugins().get(kind)
    if point is None:
        return None
    try:
        found = getattr(point.load(), "Config", None)
    except MissingDependencyError:
        raise
    except (ImportError, AttributeError) as error:
        raise ConfigError(
            f"the kind {kind!r} of {point.value!r} cannot be imported: {error}. Reinstall or "
            "uninstall the package that adds it."
        ) from error
    if not (isinstance(found, type) and issubclass(found, EngineConfig)):
        raise ConfigError(
            f"the kind {kind!r} of {point.value!r} cannot be used: its class must have an "
            "attribute Config, a subclass of qml.settings.EngineConfig with its keys."
        )
    return found
