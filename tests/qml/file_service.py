"""A service whose jobs outlive the processes that send them: each is a file in a directory.

Its noise depends on how many jobs it has had, as on a machine: a job that is sent twice changes all
later values. A process that uses it can be made to end at a point of its life, by the variable
FILE_SERVICE = "WAY POINT N": kill, raise or interrupt it when it reaches the point the N-th time.

    submit      a job is about to be sent
    submitted   it was sent, but its id is not known yet
    collect     it is about to be waited for
"""

import fcntl
import os
import signal
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from qml import kinds
from qml.circuits.program import Program
from qml.errors import JobError
from qml.kinds import JobConfig
from qml.simulators import registry
from qml.simulators.base import Cost, Evaluation, Status
from qml.simulators.reference import ReferenceEngine

VARIABLE = "FILE_SERVICE"
_reached: Counter[str] = Counter()


class FileConfig(JobConfig):
    kind: Literal["file"] = Field(default="file", description="'file'")
    directory: str = Field(description="where the jobs are")

    @property
    def journals(self) -> bool:
        return bool(self.journal)


class FileEngine:
    """Samples of Pauli strings, from the reference engine."""

    Config = FileConfig

    def __init__(self, config: FileConfig) -> None:
        self.config = config
        self.directory = Path(config.directory)
        self.exact = ReferenceEngine(config)

    def check(self, program: Program) -> None:
        self.exact.check(program)

    def limit(self, program: Program, outputs: NDArray[np.bool_]) -> int:
        return self.config.max_rows or 1000

    def cost(self, program: Program, rows: int, outputs: NDArray[np.bool_]) -> Cost:
        limit = self.limit(program, outputs)
        return Cost(rows, rows * (self.config.shots or 0), -(-rows // limit))

    def submit(
        self,
        program: Program,
        angles: NDArray[np.float64],
        *,
        outputs: NDArray[np.bool_],
        seed: int,
        tag: str,
    ) -> str:
        reached("submit")
        with open(self.directory / "lock", "w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            number = len(jobs(self.directory))
            shots = self.config.shots or 0
            values = self.exact.expval(program, angles, outputs=outputs, seed=0).values
            chances = np.clip((1 + values) / 2, 0, 1)
            ups = np.random.default_rng([seed, number]).binomial(shots, chances)
            made = self.directory / f"{number}.new"
            with open(made, "wb") as file:
                np.savez(file, values=2 * ups / shots - 1, tag=tag, shots=shots * len(angles))
            made.rename(self.directory / f"{number}.npz")
        reached("submitted")
        return str(number)

    def find(self, tag: str) -> str | None:
        return next((job for job in jobs(self.directory) if self._read(job)["tag"] == tag), None)

    def collect(
        self,
        job: str,
        program: Program,
        rows: int,
        *,
        outputs: NDArray[np.bool_],
        report: Callable[[Status], None],
    ) -> Evaluation:
        reached("collect")
        report(Status(job, "QUEUED", 1))
        if job not in jobs(self.directory):
            raise JobError(f"there is no job {job}.")
        found = self._read(job)
        with open(self.directory / "collected", "a") as log:
            log.write(f"{job}\n")
        report(Status(job, "DONE"))
        return Evaluation(found["values"], int(found["shots"]), device="files", precision="-")

    def expval(
        self,
        program: Program,
        angles: NDArray[np.float64],
        *,
        outputs: NDArray[np.bool_],
        seed: int,
    ) -> Evaluation:
        job = self.submit(program, angles, outputs=outputs, seed=seed, tag="")
        return self.collect(job, program, len(angles), outputs=outputs, report=lambda status: None)

    def _read(self, job: str) -> Any:
        return np.load(self.directory / f"{job}.npz")


def jobs(directory: Path) -> list[str]:
    """The ids of all jobs that were ever sent, in order."""
    return sorted((path.stem for path in directory.glob("*.npz")), key=int)


def collected(directory: Path) -> list[str]:
    """The ids of the jobs that were waited for, as often as they were."""
    log = directory / "collected"
    return log.read_text().split() if log.exists() else []


def reached(point: str) -> None:
    _reached[point] += 1
    way, _, place = os.environ.get(VARIABLE, "").partition(" ")
    if place == f"{point} {_reached[point]}":
        if way == "raise":
            raise ArithmeticError("a mistake in the program")
        os.kill(os.getpid(), {"kill": signal.SIGKILL, "interrupt": signal.SIGINT}[way])


def register() -> None:
    """Makes the kind "file" known in this process."""
    kinds.KINDS["file"] = FileConfig
    registry.ENGINES["file"] = "file_service:FileEngine"
