"""What all engines behind Qiskit's estimators share: a request is one job of one PUB."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from threading import RLock
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from qiskit.providers import BackendV2

from qml.circuits.program import Program
from qml.errors import ConfigError, JobError
from qml.kinds import JobConfig
from qml.simulators.base import Cost, Evaluation, Status
from qml.simulators.estimators.compilation import Compiled, compiled, passes_for
from qml.simulators.estimators.jobs import Hide, Job, failures, outcome, seconds_queued
from qml.simulators.estimators.readout import Readout
from qml.simulators.shortage import refuse_wide

Pub = tuple[object, ...]

PROGRAMS: Final = 256
"""Compiled Programs an engine keeps, the least recently used dropped first."""

REQUESTS: Final = 1024
"""Choices of outputs it keeps, over all Programs."""

NOTHING: Final = "nothing-to-run"
"""The id of a job for outputs that are constants: none was sent."""

PARTS: Final = range(8, 1, -1)
"""Into how many parts the shots of a circuit may be split, to weight groups of strings."""

UNLIMITED: Final = 2**31 - 1


@dataclass(frozen=True)
class Prepared:
    """A Program and a choice of outputs, ready to be sent at any rows of angles.

    Attributes:
        circuits: that run for each row.
        once: that run once for each job, to calibrate.
        shots: of each circuit; 0 means exact.
    """

    compiled: Compiled
    readout: Readout
    circuits: int
    once: int
    shots: int


class PubEngine(ABC):
    """Expectation values by an estimator of Qiskit; a JobEngine, see qml.simulators.base.

    A Program is compiled once. Every request is one job of one PUB, which holds the outputs that
    are wanted at all rows of angles.

    Attributes:
        config: what it was made from.
        device: where jobs run.
        precision: of the arithmetic, "double" or "single"; "-" where nobody tells.
        transpilations: how many Programs it has compiled.
        hide: what to leave out of what a service says; None where there is no service.
    """

    device: str
    precision: str
    hide: Hide | None = None

    def __init__(self, config: JobConfig, machine: BackendV2 | None) -> None:
        self.config = config
        self.transpilations = 0
        self._parts = _parts(config)
        self._machine = machine
        self._passes = passes_for(machine, config.optimization_level, config.seed)
        self._jobs: dict[str, Job] = {}
        self._lock = RLock()
        self._compiled = lru_cache(PROGRAMS)(self._compile)
        self._prepared = lru_cache(REQUESTS)(self._prepare)

    @abstractmethod
    def send(self, circuit: Compiled, pub: Pub, shots: int, seed: int, tag: str) -> Job:
        """Starts a job of one PUB, every circuit run that many times; 0 means exact."""

    @abstractmethod
    def fetch(self, job: str) -> Job | None:
        """A job that another process sent; None if it cannot be found."""

    @abstractmethod
    def find(self, tag: str) -> str | None:
        """See JobEngine.find."""

    def runs(self, circuit: Compiled, pub: Pub, shots: int, groups: int) -> tuple[int, int]:
        """(circuits that a job of the PUB runs, shots of each); more where it mitigates errors.

        `groups` is into how many circuits the strings of one are split.
        """
        bindings: Any = pub[2]
        return groups * bindings.size, shots

    def rows_allowed(self, prepared: Prepared) -> int:
        """The most rows that the machine takes in one job; UNLIMITED where it does not say."""
        limit = getattr(self._machine, "max_circuits", None)
        return UNLIMITED if limit is None else int(limit) // prepared.circuits

    def check(self, program: Program) -> None:
        """See Engine.check: the machine must have enough qubits."""
        width = None if self._machine is None else self._machine.num_qubits
        if width is not None:
            refuse_wide(program.num_qubits, width, self.device)

    def expval(
        self,
        program: Program,
        angles: NDArray[np.float64],
        *,
        outputs: NDArray[np.bool_],
        seed: int,
    ) -> Evaluation:
        """One job; see qml.simulators.base.Engine.expval.

        Raises:
            EngineError: the request was refused, or came back without finite values.
            JobError: the job failed.
        """
        job = self.submit(program, angles, outputs=outputs, seed=seed, tag="")
        return self.collect(job, program, len(angles), outputs=outputs, report=_quiet)

    def cost(self, program: Program, rows: int, outputs: NDArray[np.bool_]) -> Cost:
        """See Engine.cost."""
        prepared = self._ready(program, outputs)
        if not prepared.readout:
            return Cost(0, jobs=0)
        circuits = _different(rows, prepared) * prepared.circuits + prepared.once
        shots = circuits * prepared.shots
        return Cost(circuits, shots, seconds=self.seconds(prepared.compiled, shots))

    def seconds(self, circuit: Compiled, shots: int) -> float | None:
        """How long the machine says it takes; see Cost."""
        return None

    def limit(self, program: Program, outputs: NDArray[np.bool_]) -> int:
        """See JobEngine.limit; `max_rows` of the configuration comes first."""
        if self.config.max_rows is not None:
            return self.config.max_rows
        prepared = self._ready(program, outputs)
        return max(1, self.rows_allowed(prepared)) if prepared.readout else UNLIMITED

    def submit(
        self,
        program: Program,
        angles: NDArray[np.float64],
        *,
        outputs: NDArray[np.bool_],
        seed: int,
        tag: str,
    ) -> str:
        """See JobEngine.submit."""
        self.check(program)
        prepared = self._ready(program, outputs)
        if not prepared.readout:
            return NOTHING
        pub = prepared.readout.pub(angles[: _different(len(angles), prepared)])
        with self._lock:
            shots = self._shots(prepared.readout)
            # What it was asked for, for the user to judge what it says; we know no more of it.
            asked = f"of {shots} shots" if shots else "of exact values, as 'shots' is left out"
            with failures(f"a job for {self.device}, {asked},", self.hide):
                job = self.send(prepared.compiled, pub, shots, seed, tag)
            self._jobs[job.job_id()] = job
        name: str = job.job_id()
        return name

    def collect(
        self,
        job: str,
        program: Program,
        rows: int,
        *,
        outputs: NDArray[np.bool_],
        report: Callable[[Status], None],
    ) -> Evaluation:
        """See JobEngine.collect."""
        prepared = self._ready(program, outputs)
        readout = prepared.readout
        if not readout:
            return Evaluation(readout.constants(rows), 0, 0, self.device, self.precision)
        with failures(f"looking for job {job}", self.hide):
            running = self._jobs.get(job) or self.fetch(job)
        if running is None:
            raise JobError(
                f"job {job} is not known to {self.device}: it was of a process that has ended, or "
                "it was deleted. It has to be sent again."
            )
        different = _different(rows, prepared)
        shape = (len(readout.operators), different, readout.circuits)
        evs = outcome(running, shape, report, self.hide)
        self._jobs.pop(job, None)  # a job keeps its circuits and results
        return Evaluation(
            np.repeat(readout.values(evs), rows // different, axis=0),
            shots=self.cost(program, rows, outputs).shots,
            device=self.device,
            precision=self.precision,
            queued=seconds_queued(running),
        )

    def _ready(self, program: Program, outputs: NDArray[np.bool_]) -> Prepared:
        with self._lock:
            return self._prepared(program, outputs.tobytes())

    def _compile(self, program: Program) -> Compiled:
        self.transpilations += 1
        return compiled(program, self._passes, self._machine)

    def _prepare(self, program: Program, mask: bytes) -> Prepared:
        outputs = np.frombuffer(mask, dtype=np.bool_)
        circuit = self._compiled(program)
        readout = Readout(program, outputs, circuit, self._parts)
        if not readout:
            return Prepared(circuit, readout, 0, 0, 0)
        # What grows with the rows and what does not, from jobs of one row and of two.
        groups = readout.groups if self.config.shots and readout.circuits == 1 else 1
        shots = self._shots(readout)
        pubs = [readout.pub(np.zeros((rows, program.num_slots))) for rows in (1, 2)]
        one, two = (self.runs(circuit, pub, shots, groups) for pub in pubs)
        each = two[0] - one[0]
        return Prepared(circuit, readout, each, one[0] - each, one[1])

    def _shots(self, readout: Readout) -> int:
        """Of one circuit of the PUB: all of them, or where they are weighted a part."""
        shots = self.config.shots or 0
        return shots if readout.circuits == 1 else shots // self._parts


def precision_of(shots: int) -> float:
    """The precision for which estimators take that many shots; 0 for 0, which means exact.

    They take the least integer not below 1 / precision^2, which for 1 / sqrt(shots) may round up.

    >>> precision_of(10_000)
    0.01
    """
    precision = 1 / math.sqrt(shots) if shots else 0.0
    while shots and math.ceil(1 / precision**2) > shots:
        precision = math.nextafter(precision, 1.0)
    return precision


def _parts(config: JobConfig) -> int:
    if config.shots is None or config.allocation == "uniform":
        return 1
    for parts in PARTS:
        if config.shots % parts == 0:
            return parts
    raise ConfigError(
        f"allocation = 'weighted' splits the shots of a circuit into equal parts, and 'shots' = "
        f"{config.shots} has no divisor from {PARTS[-1]} to {PARTS[0]}. Take "
        f"{config.shots + -config.shots % PARTS[0]} instead."
    )


def _different(rows: int, prepared: Prepared) -> int:
    """How many rows have values of their own: one, where there is no chance and no parameter."""
    return rows if prepared.shots or prepared.compiled.slots else 1


def _quiet(status: Status) -> None:
    """Where nobody watches."""
