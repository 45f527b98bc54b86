"""Keys of the engines of our own, all exact: `statevector`, `xla`, `reference`."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from qml.settings import EngineConfig


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
