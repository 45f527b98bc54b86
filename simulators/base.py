"""What an engine is: expectation values of a Program at many rows of slot angles."""

from __future__ import annotations

from collections.abc import Callable
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
        device: where it ran, as in "CPU" or "ibm_fez".
        precision: of its arithmetic, "double" or "single"; "-" on a machine.
        queued: seconds that its jobs waited in queues; None where nobody tells.
    """

    values: NDArray[np.float64]
    shots: int = 0
    jobs: int = 1
    device: str = "CPU"
    precision: str = "double"
    queued: float | None = None


@dataclass(frozen=True)
class Cost:
    """What a request will cost, known before it is sent.

    Attributes:
        circuits: circuits that run, each at one row of angles.
        shots: of all of them; 0 means exact.
        jobs: that are submitted.
        seconds: that the backend says it takes; None where it says nothing.
    """

    circuits: int
    shots: int = 0
    jobs: int = 1
    seconds: float | None = None


@dataclass(frozen=True)
class Status:
    """Where a job stands.

    Attributes:
        job: its id.
        state: as the backend calls it: "QUEUED", "RUNNING", "DONE", ...
        position: in the queue; None where nobody tells.
    """

    job: str
    state: str
    position: int | None = None


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

    def cost(self, program: Program, rows: int, outputs: NDArray[np.bool_]) -> Cost:
        """What `expval` of that many rows, for these outputs, will cost; nothing is sent."""
        ...


@runtime_checkable
class JobEngine(Engine, Protocol):
    """An engine whose requests are jobs that run elsewhere and may outlive this process.

    What splits requests into jobs, keeps budgets and journals, and tries again is the same for all
    of them: qml.jobs. Its `expval` is used where none of that is wanted.
    """

    def limit(self, program: Program, outputs: NDArray[np.bool_]) -> int:
        """The most rows of angles, at least 1, that one job may have."""
        ...

    def submit(
        self,
        program: Program,
        angles: NDArray[np.float64],
        *,
        outputs: NDArray[np.bool_],
        seed: int,
        tag: str,
    ) -> str:
        """Sends one job and returns its id at once; `tag`, unique to it, is stored with it.

        Raises:
            JobError: it could not be sent, and trying again may help.
            EngineError: it could not be sent.
        """
        ...

    def find(self, tag: str) -> str | None:
        """The id of a job that was sent with the tag, by any process; None if there is none."""
        ...

    def collect(
        self,
        job: str,
        program: Program,
        rows: int,
        *,
        outputs: NDArray[np.bool_],
        report: Callable[[Status], None],
    ) -> Evaluation:
        """Waits for a job, sent by this process or another, and reads it.

        `report` is called when its state or its position changes.

        Raises:
            JobError: it failed or cannot be found, and sending it again may help.
        """
        ...


@runtime_checkable
class NativeEngine(Engine, Protocol):
    """An engine that computes derivatives itself, exactly, in the precision of the angles.

    For qml.last_run, one that computes elsewhere than on the "CPU", or always in one precision,
    says so by attributes `device` and `precision`.

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
