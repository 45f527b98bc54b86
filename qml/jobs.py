"""A request to an engine: within its budget, as jobs that are journalled and tried again."""

from __future__ import annotations

import itertools
import time
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final, Protocol

import numpy as np
from numpy.typing import NDArray

from qml.budget import Ledger, Spending
from qml.circuits.program import Program
from qml.errors import EngineError, JobError
from qml.journal import Entry, Request, key, opened
from qml.kinds import Budget
from qml.progress import Report, shown
from qml.settings import EngineConfig
from qml.simulators.base import Engine, Evaluation, JobEngine

Array = NDArray[np.float64]

FIRST_WAIT: Final = 1.0
"""Seconds before jobs that failed are sent again; each further time twice as many."""

_ledger = Ledger()


def run(
    runner: Engine,
    config: EngineConfig,
    program: Program,
    angles: Array,
    *,
    outputs: NDArray[np.bool_],
    seed: int,
) -> Evaluation:
    """The answer of an engine to one request; see Engine.expval.

    Where the engine's requests are jobs, it becomes as many as the engine's limit of rows asks for,
    all of them sent before the first is waited for; if there are several, each draws by a seed of
    its own. Those that fail are sent again, after 1, 2, 4, ... seconds, `config.retries` times;
    those that are done never are. With a journal, those that an earlier run left are collected.
    Outputs that are constants cost no job, and are asked of the engine at once.

    The answer counts all jobs that were sent for it, and the longest time in a queue.

    Raises:
        BudgetError: it would exceed what the backend may spend, and was not sent.
        JobError: a job failed as often as it may be tried.
        EngineError: the engine cannot run it.
        ConfigError: a journal is asked for, and there can be none.
    """
    if not isinstance(runner, JobEngine):
        reserve(runner, config, program, len(angles), outputs)
    elif runner.cost(program, len(angles), outputs).jobs:
        return _Jobs(runner, config, _limits(config), program, outputs).run(angles, seed)
    return runner.expval(program, angles, outputs=outputs, seed=seed)


def reserve(
    runner: Engine, config: EngineConfig, program: Program, rows: int, outputs: NDArray[np.bool_]
) -> None:
    """Counts a request, to an engine without jobs, against its budget.

    Raises:
        BudgetError: it would exceed what the backend may spend.
    """
    limits = _limits(config)
    if limits is not None:
        cost = runner.cost(program, rows, outputs)
        _ledger.reserve(config, limits, Spending(cost.jobs, cost.shots))


def _limits(config: EngineConfig) -> Budget | None:
    limits: Budget | None = getattr(config, "budget", None)
    return limits


class _Book(Protocol):
    """Where jobs are entered: see qml.journal.Journal."""

    def count(self, key: str) -> int: ...
    def claim(
        self, config: EngineConfig, limits: Budget | None, requests: Sequence[Request]
    ) -> list[Entry]: ...
    def sent(self, entry: Entry, job: str) -> None: ...
    def done(self, entry: Entry, answer: Evaluation) -> None: ...
    def failed(self, entry: Entry) -> None: ...
    def withdraw(self, entries: Sequence[Entry]) -> None: ...


class _Memory:
    """A book that remembers what was spent, and only in this process."""

    def __init__(self, config: EngineConfig) -> None:
        self._config = config

    def count(self, key: str) -> int:
        return 0

    def claim(
        self, config: EngineConfig, limits: Budget | None, requests: Sequence[Request]
    ) -> list[Entry]:
        shots = sum(request.shots for request in requests)
        _ledger.reserve(config, limits, Spending(len(requests), shots))
        return [Entry(f"qml-{uuid.uuid4().hex}", request.shots) for request in requests]

    def sent(self, entry: Entry, job: str) -> None:
        pass

    def done(self, entry: Entry, answer: Evaluation) -> None:
        pass

    def failed(self, entry: Entry) -> None:
        pass

    def withdraw(self, entries: Sequence[Entry]) -> None:
        shots = sum(entry.shots for entry in entries)
        _ledger.release(self._config, Spending(len(entries), shots))


@dataclass
class _Part:
    """Rows of a request that are one job.

    Attributes:
        place: among the parts, from 1.
        entry: in the book; None before the first, and after each failure.
        job: the id, if it is known.
        unsure: whether it may have been sent although no id is known.
        sent: how many jobs were sent for it.
    """

    place: int
    angles: Array
    seed: int
    request: Request
    entry: Entry | None = None
    job: str | None = None
    unsure: bool = False
    sent: int = 0
    answer: Evaluation | None = None

    def enter(self, entry: Entry) -> None:
        self.entry, self.job, self.answer = entry, entry.job, entry.answer
        self.unsure = entry.inherited and entry.job is None
        self.sent += entry.job is not None


class _Jobs:
    """One request as jobs."""

    def __init__(
        self,
        runner: JobEngine,
        config: EngineConfig,
        limits: Budget | None,
        program: Program,
        outputs: NDArray[np.bool_],
    ) -> None:
        self.runner, self.config, self.limits = runner, config, limits
        self.program, self.outputs = program, outputs
        self.retries: int = getattr(config, "retries", 0)
        journals = getattr(config, "journals", False)  # of an engine of another package, maybe none
        self.book: _Book = opened() if journals else _Memory(config)

    def run(self, angles: Array, seed: int) -> Evaluation:
        parts = self._split(angles, seed)
        with shown(self.config.kind, len(parts)) as report:
            for attempt in itertools.count():
                waiting = [part for part in parts if part.answer is None]
                self._enter([part for part in waiting if part.entry is None])
                self._submit([part for part in waiting if part.job is None], attempt)
                self._collect(parts, attempt, report)
                answers = [part.answer for part in parts if part.answer is not None]
                if len(answers) == len(parts):
                    break
                time.sleep(FIRST_WAIT * 2**attempt)
        return _merged(answers, sum(part.sent for part in parts))

    def _split(self, angles: Array, seed: int) -> list[_Part]:
        limit = self.runner.limit(self.program, self.outputs)
        slices = [angles[i : i + limit] for i in range(0, len(angles), limit)]
        # Rows that are equal in two parts must not draw the same.
        seeds = [seed] if len(slices) == 1 else [_folded(seed, i) for i in range(len(slices))]
        parts = []
        for i, (rows, each) in enumerate(zip(slices, seeds, strict=True)):
            shots = int(self.runner.cost(self.program, len(rows), self.outputs).shots)
            digest = key(self.program, self.config, each, rows, self.outputs)
            request = Request(digest, self.book.count(digest), shots)
            parts.append(_Part(i + 1, rows, each, request))
        return parts

    def _enter(self, parts: Sequence[_Part]) -> None:
        if parts:
            requests = [part.request for part in parts]
            entries = self.book.claim(self.config, self.limits, requests)
            for part, entry in zip(parts, entries, strict=True):
                part.enter(entry)

    def _submit(self, parts: Sequence[_Part], attempt: int) -> None:
        try:
            for part in parts:
                try:
                    self._send(part)
                except JobError as error:
                    self._refuse_more(part, attempt, error)
        finally:
            unsent = [p.entry for p in parts if p.entry and p.job is None and not p.unsure]
            if unsent:
                self.book.withdraw(unsent)

    def _send(self, part: _Part) -> None:
        assert part.entry is not None
        job = self.runner.find(part.entry.tag) if part.unsure else None
        part.unsure = True
        if job is None:
            try:
                job = self.runner.submit(
                    self.program,
                    part.angles,
                    outputs=self.outputs,
                    seed=part.seed,
                    tag=part.entry.tag,
                )
            except EngineError as error:
                part.unsure = isinstance(error, JobError)  # as when the reply was lost
                raise
        self.book.sent(part.entry, job)
        part.job, part.unsure, part.sent = job, False, part.sent + 1

    def _collect(self, parts: Sequence[_Part], attempt: int, report: Report) -> None:
        for part in parts:
            if part.job is None or part.answer is not None:
                continue
            assert part.entry is not None
            done = sum(part.answer is not None for part in parts)
            try:
                answer = self.runner.collect(
                    part.job,
                    self.program,
                    len(part.angles),
                    outputs=self.outputs,
                    report=partial(report, done),
                )
            except JobError as error:
                self.book.failed(part.entry)
                part.entry = part.job = None
                self._refuse_more(part, attempt, error)
            else:
                self.book.done(part.entry, answer)
                part.answer = answer

    def _refuse_more(self, part: _Part, attempt: int, error: JobError) -> None:
        """Returns if the part that failed may be tried again."""
        if attempt >= self.retries:
            again = (
                "Set a larger 'retries'."
                if isinstance(self.book, _Memory)
                else "Run the program again: it collects what is done and sends only the others."
            )
            raise JobError(
                f"job {part.place} of a request to the {self.config.kind!r} backend failed, and "
                f"was tried {attempt + 1} times, the last time with: {error} {again}"
            ) from error


def _merged(answers: Sequence[Evaluation], jobs: int) -> Evaluation:
    waits = [answer.queued for answer in answers if answer.queued is not None]
    return Evaluation(
        values=np.concatenate([answer.values for answer in answers]),
        shots=sum(answer.shots for answer in answers),
        jobs=jobs,
        device=", ".join(dict.fromkeys(answer.device for answer in answers)),
        precision=answers[0].precision,
        queued=max(waits, default=None),
    )


def _folded(seed: int, part: int) -> int:
    return int(np.random.SeedSequence([seed, part]).generate_state(1)[0])
