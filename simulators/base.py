"""What an engine is: expectation values of a Program at many rows of slot angles."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from qml.circuits.program import Program


@dataclass(frozen=True)
class Evaluation:
    """The answer to one request.

    Attributes:
        values: (R, M) float64; columns of outputs not asked for are zero.
        shots: shots really used, over all rows; 0 means exact.
        jobs: how many jobs the engine submitted for it.
        device: where it ran, as in "CPU".
    """

    values: NDArray[np.float64]
    shots: int = 0
    jobs: int = 1
    device: str = "CPU"


@runtime_checkable
class Engine(Protocol):
    """A simulator or a machine, made from its frozen configuration; NumPy in, NumPy out.

    Engines hold caches (compiled circuits), never state that changes a value: the seed comes in
    the call. They are called from several threads.
    """

    def check(self, program: Program) -> None:
        """Returns if the engine can run the Program; cheap, called whenever a kernel is.

        Raises:
            EngineError: it cannot, and why.
        """
        ...

    def expval(
        self,
        program: Program,
        angles: NDArray[np.float64],
        *,
        outputs: NDArray[np.bool_],
        seed: int,
    ) -> Evaluation:
        """Expectation values at every row of slot angles, as one request.

        Args:
            program: the circuit and its M outputs.
            angles: (R, K) in radians, finite, R >= 1; K may be 0.
            outputs: (M,) which outputs are needed.
            seed: uint32; different rows of one call draw independently, two calls with the same
                seed and rows draw the same. Without shots it is ignored.
        """
        ...


@runtime_checkable
class NativeEngine(Engine, Protocol):
    """An engine that computes derivatives itself, exactly, in the precision of the angles.

    Attributes:
        native: the primitives it computes; see qml.primitives for their operands.
    """

    native: frozenset[str]

    def compute(
        self, primitive: str, program: Program, a: NDArray[Any], *operands: NDArray[Any]
    ) -> NDArray[Any]:
        """The value of a native primitive, in the dtype of `a`, float32 or float64."""
        ...

    def has_xla_call(self) -> bool:
        """Whether `xla_call` works here; if not, compiled code calls `compute` through Python."""
        ...

    def xla_call(self, primitive: str, program: Program, a: Any, *operands: Any) -> Any:
        """The same as JAX operations on JAX arrays, for code that is compiled for the CPU."""
        ...


@runtime_checkable
class TraceableEngine(Engine, Protocol):
    """An engine that is a JAX function: exact, for any device and any order of derivative.

    Attributes:
        traceable: the primitives it computes; see qml.primitives for their operands.
    """

    traceable: frozenset[str]

    def trace(self, primitive: str, program: Program, a: Any, *operands: Any) -> Any:
        """The value of a traceable primitive by JAX operations, in the dtype of `a`.

        A pure function of its arrays: it may be traced, differentiated, mapped and exported, and
        with concrete arrays it runs compiled, where they are. It calls back to no host.
        """
        ...
