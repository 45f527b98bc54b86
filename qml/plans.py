"""What code will ask of backends, before anything is sent."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from qml.simulators.base import Cost


@dataclass(frozen=True)
class Item:
    """One request, and what it would cost.

    Attributes:
        primitive: what it computes: expval, expval_vjp, ...
        gradient: by which rule; "none" for a plain expectation value.
        kind: of the engine.
        rows: of slot angles.
        cost: of all of them.
    """

    primitive: str
    gradient: str
    kind: str
    rows: int
    cost: Cost


@dataclass
class Plan:
    """The requests of one step, and their costs for a run of steps.

    Attributes:
        items: in the order in which they would be sent.
        steps: of the run.
    """

    items: list[Item] = field(default_factory=list)
    steps: int = 1

    @property
    def rows(self) -> int:
        """Rows of slot angles of one step."""
        return sum(item.rows for item in self.items)

    @property
    def circuits(self) -> int:
        """Circuits of one step, each at one row of angles."""
        return sum(item.cost.circuits for item in self.items)

    @property
    def shots(self) -> int:
        """Shots of one step; 0 means exact."""
        return sum(item.cost.shots for item in self.items)

    @property
    def jobs(self) -> int:
        """Jobs of one step."""
        return sum(item.cost.jobs for item in self.items)

    @property
    def seconds(self) -> float | None:
        """Seconds of one step on the backend; None where a backend does not state them."""
        known = [item.cost.seconds for item in self.items if item.cost.seconds is not None]
        return sum(known) if known and len(known) == len(self.items) else None

    def __str__(self) -> str:
        """A table: a line for each request, for the step and for the run."""
        lines: list[tuple[str, ...]] = [_HEAD]
        for item in self.items:
            rule = "" if item.gradient == "none" else f", {item.gradient}"
            name = f"{item.primitive}{rule} ({item.kind})"
            cost = item.cost
            lines.append(
                _line(name, [item.rows, cost.circuits, cost.shots, cost.jobs], cost.seconds)
            )
        step = [self.rows, self.circuits, self.shots, self.jobs]
        lines.append(_line("a step", step, self.seconds))
        if self.steps != 1:
            seconds = None if self.seconds is None else self.steps * self.seconds
            run = [self.steps * count for count in step]
            lines.append(_line(f"{self.steps:,} steps", run, seconds))
        widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
        return "\n".join(
            "  ".join(
                cell.rjust(width) if column else cell.ljust(width)
                for column, (cell, width) in enumerate(zip(line, widths, strict=True))
            )
            for line in lines
        )

    __repr__ = __str__


_HEAD = ("request", "rows", "circuits", "shots", "jobs", "seconds")


def _line(name: str, counts: list[int], seconds: float | None) -> tuple[str, ...]:
    rows, circuits, shots, jobs = (f"{count:,}" for count in counts)
    time = "-" if seconds is None else f"{seconds:,.1f}"
    return name, rows, circuits, shots if counts[2] else "exact", jobs, time


_plans: list[Plan] = []
_lock = threading.Lock()


@contextmanager
def planning(steps: int = 1) -> Iterator[Plan]:
    """In this block, of all threads, nothing is sent: requests are written down.

    They are answered by made-up numbers, so throw away what was computed.

    Run one step of any code in it, with derivatives of any order, then print the plan. Engines that
    compute derivatives themselves run as always, since they cost nothing but time here; inside
    `jax.jit` they do so without being written down.

    >>> with planning(steps=100) as plan:
    ...     pass
    >>> plan.jobs
    0
    """
    plan = Plan(steps=steps)
    with _lock:
        _plans.append(plan)
    try:
        yield plan
    finally:
        with _lock:
            # By identity: two plans without requests are equal.
            _plans[:] = [other for other in _plans if other is not plan]


def is_planning() -> bool:
    """Whether requests are to be written down instead of sent."""
    return bool(_plans)


def write_down(item: Item) -> None:
    """Adds a request to the plans of all blocks that are open."""
    with _lock:
        for plan in _plans:
            plan.items.append(item)
