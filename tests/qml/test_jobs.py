"""Requests as jobs: split, sent together, merged in order, and only what failed sent again."""

import threading
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest

from qml import execution, jobs, journal
from qml.budget import Ledger, Spending
from qml.circuits.paulis import Pauli
from qml.circuits.program import AngleMap, Expectation, Program, Rotation
from qml.errors import BudgetError, EngineError, JobError
from qml.execution import execute, last_run
from qml.kinds import JobConfig
from qml.simulators.base import Cost, Evaluation, JobEngine

none = np.zeros(0, np.int32)
PROGRAM = Program(
    1,
    (Rotation(Pauli(1, 0), 0), Rotation(Pauli(0, 1), 1)),
    (Expectation((Pauli(0, 1),), (1.0,)), Expectation((Pauli(1, 0),), (1.0,))),
    AngleMap(0, none, none, np.zeros(0), np.zeros(2)),
)
ALL = np.ones(2, bool)
SHOTS = 7


@dataclass
class Lab:
    """An engine whose jobs return their angles, and fail as they are told to.

    Attributes:
        most: rows of a job.
        bad: errors of collect, by the number of the job.
        unsendable: errors of submit, by how many calls it had; the job is sent all the same where
            the error comes as a pair with True.
        events: all calls in order.
    """

    most: int = 300
    bad: dict[int, Exception] = field(default_factory=dict)
    unsendable: dict[int, tuple[Exception, bool]] = field(default_factory=dict)
    events: list[tuple[str, Any]] = field(default_factory=list)
    jobs: list[tuple[np.ndarray, int, str]] = field(default_factory=list)
    calls: int = 0
    queued: tuple[float | None, ...] = (None,)
    lock: Any = field(default_factory=threading.Lock)

    def check(self, program):
        pass

    def expval(self, program, angles, *, outputs, seed):
        raise AssertionError("requests of this engine are jobs")

    def limit(self, program, outputs):
        return self.most

    def cost(self, program, rows, outputs):
        return Cost(rows, SHOTS * rows, -(-rows // self.most))

    def submit(self, program, angles, *, outputs, seed, tag):
        with self.lock:
            error, sent = self.unsendable.get(self.calls, (None, True))
            self.calls += 1
            if sent:
                self.events.append(("submit", len(self.jobs)))
                self.jobs.append((angles.copy(), seed, tag))
            if error is not None:
                raise error
            return str(len(self.jobs) - 1)

    def find(self, tag):
        self.events.append(("find", tag))
        return next((str(i) for i, job in enumerate(self.jobs) if job[2] == tag), None)

    def collect(self, job, program, rows, *, outputs, report):
        number = int(job)
        self.events.append(("collect", number))
        if number in self.bad:
            raise self.bad[number]
        angles, *_ = self.jobs[number]
        assert len(angles) == rows <= self.most
        queued = self.queued[number % len(self.queued)]
        return Evaluation(angles, SHOTS * rows, 1, "lab", "-", queued)

    def submitted(self):
        return [number for name, number in self.events if name == "submit"]


@pytest.fixture(autouse=True)
def waits(monkeypatch):
    """The seconds that were waited for, instead of waiting."""
    waited = []
    monkeypatch.setattr(jobs.time, "sleep", waited.append)
    return waited


@pytest.fixture(autouse=True)
def ledger(monkeypatch):
    monkeypatch.setattr(jobs, "_ledger", Ledger())
    return jobs._ledger


def rows(count):
    return np.arange(2.0 * count).reshape(count, 2)


def ask(lab, count, seed=1, **keys):
    config = JobConfig(kind="lab", **keys)
    return jobs.run(lab, config, PROGRAM, rows(count), outputs=ALL, seed=seed)


def test_the_engine_of_these_tests_is_one():
    assert isinstance(Lab(), JobEngine)


def test_two_thousand_rows_are_split_to_the_limit_and_merged_in_order():
    lab = Lab(most=300)
    found = ask(lab, 2000)
    np.testing.assert_array_equal(found.values, rows(2000))
    assert [len(angles) for angles, *_ in lab.jobs] == [300] * 6 + [200]
    assert (found.jobs, found.shots, found.device, found.precision) == (7, 2000 * SHOTS, "lab", "-")


@pytest.mark.parametrize("journals", [False, True])
def test_constants_are_neither_paid_for_nor_journalled_nor_a_job(ledger, tmp_path, journals):
    @dataclass
    class Constant(Lab):
        def cost(self, program, rows, outputs):
            return Cost(0, 0, 0)

        def expval(self, program, angles, *, outputs, seed):
            return Evaluation(np.ones((len(angles), 2)), 0, 0, "lab", "-")

    lab = Constant()
    answer = ask(lab, 3, budget={"jobs": 1}, journal=journals)
    assert (answer.jobs, answer.shots, lab.events) == (0, 0, [])
    assert ledger.spent(JobConfig(kind="lab")) == Spending(0, 0)
    assert not (tmp_path / ".qml").exists()


@pytest.mark.parametrize(("count", "parts"), [(1, 1), (299, 1), (300, 1), (301, 2), (600, 2)])
def test_there_are_no_more_jobs_than_needed(count, parts):
    lab = Lab(most=300)
    assert ask(lab, count).jobs == parts == len(lab.jobs)


def test_all_jobs_are_sent_before_the_first_is_waited_for():
    lab = Lab(most=1)
    ask(lab, 4)
    assert [name for name, _ in lab.events] == ["submit"] * 4 + ["collect"] * 4


def test_jobs_have_tags_and_draws_of_their_own():
    lab = Lab(most=1)
    ask(lab, 5, seed=3), ask(lab, 5, seed=4), ask(lab, 1, seed=3)
    assert len({tag for *_, tag in lab.jobs}) == 11
    assert len({seed for _, seed, _ in lab.jobs}) == 11
    assert all(0 <= seed < 2**32 for _, seed, _ in lab.jobs)
    again = Lab(most=1)
    ask(again, 5, seed=3)
    assert [job[1] for job in again.jobs] == [job[1] for job in lab.jobs[:5]]


def test_a_request_of_one_job_draws_by_its_own_seed():
    lab = Lab()
    ask(lab, 5, seed=3)
    assert lab.jobs[0][1] == 3


def test_only_what_failed_is_sent_again_and_finished_jobs_are_not_touched(waits):
    lab = Lab(most=300, bad={2: JobError("lost"), 5: JobError("lost"), 7: JobError("again")})
    found = ask(lab, 2000)
    np.testing.assert_array_equal(found.values, rows(2000))
    # 7 and 8 are 2 and 5 again, and 9 is 2 for the third time.
    assert lab.submitted() == list(range(10))
    for again, first in ((7, 2), (8, 5), (9, 2)):
        np.testing.assert_array_equal(lab.jobs[again][0], lab.jobs[first][0])
        assert lab.jobs[again][1] == lab.jobs[first][1] and lab.jobs[again][2] != lab.jobs[first][2]
    collects = [number for name, number in lab.events if name == "collect"]
    assert collects == list(range(10))
    assert waits == [1, 2]
    assert (found.jobs, found.shots) == (10, 2000 * SHOTS)


@pytest.mark.parametrize("retries", [0, 1, 3])
def test_a_job_is_tried_again_as_often_as_configured_and_no_more(waits, retries):
    lab = Lab(bad={number: JobError("the cryostat is warm.") for number in range(9)})
    with pytest.raises(
        JobError, match=f"tried {retries + 1} times.*the cryostat is warm."
    ) as raised:
        ask(lab, 5, retries=retries)
    assert isinstance(raised.value.__cause__, JobError)
    assert len(lab.jobs) == retries + 1 and waits == [2**i for i in range(retries)]


def test_another_error_stops_at_once(waits):
    lab = Lab(most=1, bad={1: EngineError("unknown gate")})
    with pytest.raises(EngineError, match="^unknown gate$"):
        ask(lab, 4)
    assert lab.events[-1] == ("collect", 1) and len(lab.jobs) == 4 and waits == []


def test_a_job_whose_sending_failed_is_looked_for_before_it_is_sent_again(waits, ledger):
    lost_reply = Lab(unsendable={0: (JobError("timed out"), True)})
    assert ask(lost_reply, 5).jobs == 1
    assert [name for name, _ in lost_reply.events] == ["submit", "find", "collect"]

    refused = Lab(unsendable={0: (JobError("busy"), False), 1: (JobError("busy"), False)})
    assert ask(refused, 5).jobs == 1
    assert [name for name, _ in refused.events] == ["find", "find", "submit", "collect"]
    assert waits == [1, 1, 2]
    # What was not sent was not paid.
    assert ledger.spent(JobConfig(kind="lab")) == Spending(2, 10 * SHOTS)


def test_the_other_jobs_are_sent_although_one_could_not_be(waits):
    lab = Lab(most=1, unsendable={1: (JobError("busy"), False)})
    found = ask(lab, 3)
    np.testing.assert_array_equal(found.values, rows(3))
    assert [name for name, _ in lab.events] == [
        *["submit", "submit", "collect", "collect"],
        *["find", "submit", "collect"],
    ]


def test_a_budget_is_for_all_jobs_of_a_request_before_the_first_is_sent(ledger):
    lab = Lab(most=2)
    with pytest.raises(BudgetError, match="jobs may be 2 in all, 0 are spent and 3 more"):
        ask(lab, 5, budget={"jobs": 2})
    with pytest.raises(BudgetError, match="shots may be 34 in all, 0 are spent and 35 more"):
        ask(lab, 5, budget={"shots": 34})
    assert lab.events == []
    ask(lab, 5, budget={"jobs": 3, "shots": 35})
    assert ledger.spent(JobConfig(kind="lab")) == Spending(3, 35)


def test_a_job_that_is_sent_again_is_paid_again(waits, ledger):
    lab = Lab(most=2, bad={1: JobError("lost")})
    with pytest.raises(BudgetError, match="shots may be 40 in all, 35 are spent and 14 more"):
        ask(lab, 5, budget={"shots": 40})
    assert len(lab.jobs) == 3
    ledger.release(JobConfig(kind="lab"), Spending(3, 35))
    lab = Lab(most=2, bad={1: JobError("lost")})
    ask(lab, 5, budget={"shots": 49})
    assert ledger.spent(JobConfig(kind="lab")) == Spending(4, 49)


def test_jobs_that_were_certainly_not_sent_are_not_paid(ledger):
    lab = Lab(most=1, unsendable={1: (EngineError("unknown gate"), False)})
    with pytest.raises(EngineError, match="unknown gate"):
        ask(lab, 4)
    assert len(lab.jobs) == 1
    assert ledger.spent(JobConfig(kind="lab")) == Spending(1, SHOTS)


def test_eight_threads_share_a_budget_to_the_last_job():
    lab, start, outcomes = Lab(), threading.Barrier(8), []

    def work():
        start.wait()
        for _ in range(10):
            try:
                outcomes.append(ask(lab, 3, budget={"jobs": 50}))
            except BudgetError as error:
                outcomes.append(error)

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    answers = [outcome for outcome in outcomes if isinstance(outcome, Evaluation)]
    assert len(outcomes) == 80 and len(answers) == len(lab.jobs) == 50
    for answer in answers:
        np.testing.assert_array_equal(answer.values, rows(3))


def test_after_the_last_try_the_next_run_sends_only_what_failed():
    lab = Lab(most=1, bad={1: JobError("lost")})
    with pytest.raises(JobError, match="Run the program again: it collects what is done"):
        ask(lab, 3, journal=True, retries=0)
    journal._forget_all()  # as when the process ends
    found = ask(lab, 3, journal=True, retries=0)
    np.testing.assert_array_equal(found.values, rows(3))
    assert lab.submitted() == [0, 1, 2, 3]
    assert [number for name, number in lab.events if name == "collect"] == [0, 1, 3, 2]


def test_what_was_sent_before_an_error_is_collected_by_the_next_run():
    lab = Lab(most=1, unsendable={1: (EngineError("unknown gate"), False)})
    with pytest.raises(EngineError, match="unknown gate"):
        ask(lab, 3, journal=True)
    assert lab.submitted() == [0]
    journal._forget_all()  # as when the process ends
    found = ask(lab, 3, journal=True, budget={"jobs": 3})
    np.testing.assert_array_equal(found.values, rows(3))
    assert lab.submitted() == [0, 1, 2] and found.jobs == 3
    assert not [name for name, _ in lab.events if name == "find"]


def test_a_lost_reply_is_looked_for_by_the_next_run():
    lab = Lab(unsendable={0: (JobError("timed out"), True)})
    with pytest.raises(JobError, match="timed out"):
        ask(lab, 3, journal=True, retries=0)
    journal._forget_all()  # as when the process ends
    found = ask(lab, 3, journal=True, retries=0)
    np.testing.assert_array_equal(found.values, rows(3))
    assert [name for name, _ in lab.events] == ["submit", "find", "collect"]


@pytest.mark.parametrize(
    ("queued", "longest"), [((None,), None), ((4.0, None), 4.0), ((1.0, 9.0, 5.0), 9.0)]
)
def test_the_last_run_tells_jobs_shots_and_the_longest_time_in_a_queue(
    monkeypatch, queued, longest
):
    lab = Lab(most=3, bad={0: JobError("lost")}, queued=queued)
    monkeypatch.setattr(execution, "engine", lambda config: lab)
    config = JobConfig(kind="lab", shots=SHOTS)
    execute("expval_vjp", PROGRAM, config, 1, np.zeros((2, 2)), np.ones((2, 1, 2)))
    run = last_run()
    # 2 samples, 2 slots, 2 shifts: 8 rows in 3 jobs, and one of them twice.
    assert (run.rows, run.jobs, run.shots) == (8, 4, 8 * SHOTS)
    assert (run.kind, run.device, run.precision) == ("lab", "lab", "-")
    assert run.queued == longest


def test_rows_that_are_not_finite_never_become_a_job(monkeypatch):
    lab = Lab()
    monkeypatch.setattr(execution, "engine", lambda config: lab)
    with pytest.raises(EngineError, match="NaN or infinity; nothing was sent"):
        execute("expval", PROGRAM, JobConfig(kind="lab"), 1, np.full((1, 2), np.nan))
    assert lab.events == []
