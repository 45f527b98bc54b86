"""What a backend has spent, and the limit at which a request is refused before it is sent."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from qml.errors import BudgetError
from qml.kinds import Budget
from qml.settings import EngineConfig

HOW: Final = ("budget", "journal", "retries")
"""Keys that say how requests are sent, and not to what."""


@dataclass(frozen=True)
class Spending:
    """Jobs and shots, of one request or of all.

    >>> Spending(1, 1000) + Spending(2, 500)
    Spending(jobs=3, shots=1500)
    """

    jobs: int = 0
    shots: int = 0

    def __add__(self, other: Spending) -> Spending:
        return Spending(self.jobs + other.jobs, self.shots + other.shots)

    def __sub__(self, other: Spending) -> Spending:
        return Spending(self.jobs - other.jobs, self.shots - other.shots)


@lru_cache(maxsize=256)
def identity(config: EngineConfig) -> str:
    """A digest of all keys but HOW: configurations that share it spend from one purse.

    So a limit that is raised leaves what was spent, and the jobs of a journal, as they are.
    """
    fields = type(config).model_fields
    return config.model_copy(update={k: fields[k].default for k in HOW if k in fields}).digest


def refuse_excess(
    kind: str, limits: Budget | None, spent: Spending, asked: Spending, source: str
) -> None:
    """Returns if what is asked for can still be spent.

    Args:
        kind: of the engine, for the message.
        limits: None, as a limit that is None, refuses nothing.
        spent: so far.
        asked: more.
        source: who counted it, for the message.

    Raises:
        BudgetError: it would exceed a limit.
    """
    limits = limits or Budget()
    excess = [
        f"{name} may be {limit} in all, {was} are spent and {more} more are asked for"
        for name, limit, was, more in (
            ("jobs", limits.jobs, spent.jobs, asked.jobs),
            ("shots", limits.shots, spent.shots, asked.shots),
        )
        if limit is not None and was + more > limit
    ]
    if excess:
        raise BudgetError(
            f"the request would exceed the budget of the {kind!r} backend, and was not sent: "
            f"{'; '.join(excess)} (counted {source}). Ask for fewer rows or shots, or raise the "
            "limit in the table 'budget' of the backend."
        )


class Ledger:
    """What this process has spent, by configuration; several threads never exceed a limit."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._spent: dict[str, Spending] = {}

    def spent(self, config: EngineConfig) -> Spending:
        """All that was reserved and not released, whatever its limits were."""
        return self._spent.get(identity(config), Spending())

    def reserve(self, config: EngineConfig, limits: Budget | None, asked: Spending) -> None:
        """Counts what will be spent.

        Raises:
            BudgetError: it would exceed the limits; nothing is counted.
        """
        with self._lock:
            spent = self.spent(config)
            refuse_excess(config.kind, limits, spent, asked, "in this process")
            self._spent[identity(config)] = spent + asked

    def release(self, config: EngineConfig, unspent: Spending) -> None:
        """Takes back what was reserved and not sent."""
        with self._lock:
            self._spent[identity(config)] = self.spent(config) - unspent
