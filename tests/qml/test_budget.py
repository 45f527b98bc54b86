"""Budgets: exact to the last shot, refused before anything is sent, whatever the threads."""

import threading
import time

import numpy as np
import pytest

from qml import budget, jobs
from qml.budget import Ledger, Spending, identity
from qml.errors import BudgetError
from qml.kinds import AerConfig, Budget, EstimatorConfig, ReferenceConfig, RuntimeConfig
from qml.simulators.base import Cost, Evaluation

CONFIG = AerConfig(shots=10)


def test_the_last_shot_can_be_spent_and_no_more():
    ledger, limits = Ledger(), Budget(jobs=3, shots=100)
    ledger.reserve(CONFIG, limits, Spending(1, 60))
    with pytest.raises(BudgetError, match="shots may be 100 in all, 60 are spent and 41 more"):
        ledger.reserve(CONFIG, limits, Spending(1, 41))
    ledger.reserve(CONFIG, limits, Spending(2, 40))
    assert ledger.spent(CONFIG) == Spending(3, 100)
    with pytest.raises(BudgetError, match="jobs may be 3 in all, 3 are spent and 1 more") as raised:
        ledger.reserve(CONFIG, limits, Spending(1, 0))
    assert "shots may" not in str(raised.value) and "'aer'" in str(raised.value)


def test_amounts_beyond_those_of_doubles_are_exact():
    ledger, limits = Ledger(), Budget(shots=2**62)
    ledger.reserve(CONFIG, limits, Spending(1, 2**62 - 1))
    with pytest.raises(BudgetError):
        ledger.reserve(CONFIG, limits, Spending(1, 2))
    ledger.reserve(CONFIG, limits, Spending(1, 1))


def test_what_was_not_sent_can_be_spent_again():
    ledger, limits = Ledger(), Budget(shots=10)
    ledger.reserve(CONFIG, limits, Spending(1, 10))
    ledger.release(CONFIG, Spending(1, 10))
    ledger.reserve(CONFIG, limits, Spending(1, 10))


def test_eight_threads_never_overspend(monkeypatch):
    ledger, limits, start = Ledger(), Budget(jobs=1000, shots=10_001), threading.Barrier(8)
    bought = [0] * 8

    def slowly(*arguments, refuse=budget.refuse_excess):
        refuse(*arguments)
        time.sleep(1e-4)  # others get their turn between the question and the answer

    monkeypatch.setattr(budget, "refuse_excess", slowly)

    def spend(me):
        start.wait()
        for _ in range(30):
            try:
                ledger.reserve(CONFIG, limits, Spending(1, 100))
            except BudgetError:
                continue
            bought[me] += 1

    threads = [threading.Thread(target=spend, args=(me,)) for me in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sum(bought) == 100 and ledger.spent(CONFIG) == Spending(100, 10_000)


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        (AerConfig(shots=9), AerConfig(shots=9, budget={"shots": 10}), True),
        (AerConfig(shots=9), AerConfig(shots=8), False),
        (RuntimeConfig(name="ibm"), RuntimeConfig(name="ibm", retries=9, journal=False), True),
        (RuntimeConfig(name="ibm"), RuntimeConfig(name="ibm", seed=1), False),
        (ReferenceConfig(), ReferenceConfig(), True),
        (ReferenceConfig(), AerConfig(), False),
        (EstimatorConfig(factory="m:f"), EstimatorConfig(factory="m:f", journal=True), True),
    ],
)
def test_one_purse_is_what_differs_only_in_how_requests_are_sent(one, other, same):
    assert (identity(one) == identity(other)) is same


class Machine:
    """An engine that counts its requests; each row costs 10 shots."""

    def __init__(self):
        self.requests = 0

    def cost(self, program, rows, outputs):
        return Cost(rows, 10 * rows, 1)

    def expval(self, program, angles, *, outputs, seed):
        self.requests += 1
        return Evaluation(np.zeros((len(angles), 1)), shots=10 * len(angles))


@pytest.fixture
def ledger(monkeypatch):
    monkeypatch.setattr(jobs, "_ledger", Ledger())
    return jobs._ledger


def test_a_request_that_would_exceed_reaches_no_engine(ledger):
    machine, config = Machine(), AerConfig(shots=10, budget={"shots": 50})
    ask = lambda rows: jobs.run(
        machine, config, None, np.zeros((rows, 1)), outputs=np.ones(1, bool), seed=0
    )
    ask(3)
    with pytest.raises(BudgetError, match="shots may be 50 in all, 30 are spent and 30 more"):
        ask(3)
    assert machine.requests == 1
    ask(2)
    assert machine.requests == 2 and ledger.spent(config) == Spending(2, 50)


def test_a_larger_budget_keeps_what_was_spent(ledger):
    machine = Machine()
    ask = lambda config: jobs.run(
        machine, config, None, np.zeros((1, 1)), outputs=np.ones(1, bool), seed=0
    )
    small, large = (AerConfig(budget={"jobs": limit}) for limit in (2, 3))
    ask(small), ask(small)
    with pytest.raises(BudgetError):
        ask(small)
    ask(large)
    with pytest.raises(BudgetError, match="jobs may be 3 in all, 3 are spent"):
        ask(large)


def test_without_a_budget_nobody_asks_what_it_costs(ledger, monkeypatch):
    machine = Machine()
    monkeypatch.delattr(Machine, "cost")
    jobs.run(machine, CONFIG, None, np.zeros((1, 1)), outputs=np.ones(1, bool), seed=0)
    assert machine.requests == 1
