"""Keys of the kind `pennylane`."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from qml.errors import ConfigError
from qml.kinds_sampling import OptionsConfig, SamplingConfig, Text


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
