"""Keys of the kind `aer`, and of the noise it simulates."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field, PrivateAttr

from qml.errors import ConfigError
from qml.kinds_sampling import POSITIVE, Count, SamplingConfig, Text
from qml.settings import Table, state

Probability = Annotated[float, Field(ge=0, le=1)]


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
                "exact expectation values with 'noise' need 'method' = 'density_matrix', got "
                f"{self.method!r}. Change 'method', or set 'shots' to sample."
            )
        for key in ("custatevec", "batched_shots"):
            if getattr(self, key) and self.device != "GPU":
                raise ConfigError(
                    f"{key!r} is for GPUs, but 'device' is {self.device!r}. Set device = 'GPU' or "
                    f"leave out {key!r}."
                )
