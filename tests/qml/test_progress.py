"""Progress: told to who watches, else a line on a terminal; never anything elsewhere."""

import io
import os
import threading
import time
from types import SimpleNamespace

import numpy as np
import pytest

import qml
from qml import jobs, progress
from qml.circuits.paulis import Pauli
from qml.circuits.program import AngleMap, Expectation, Program
from qml.errors import ArgumentError
from qml.kinds import JobConfig
from qml.progress import Progress, shown, watch
from qml.simulators.base import Cost, Evaluation, Status

none = np.zeros(0, np.int32)
PROGRAM = Program(
    1, (), (Expectation((Pauli(0, 1),), (1.0,)),), AngleMap(0, none, none, np.zeros(0), np.zeros(0))
)
CONFIG = JobConfig(kind="lab")


class Lab:
    """An engine whose jobs, of one row each, are queued, run and done.

    Attributes:
        proceed: until it is set, jobs stay in the queue.
    """

    def __init__(self):
        self.proceed = threading.Event()
        self.proceed.set()
        self.queued = threading.Event()
        self.sent = 0

    def check(self, program):
        pass

    def expval(self, program, angles, *, outputs, seed):
        raise AssertionError("requests of this engine are jobs")

    def limit(self, program, outputs):
        return 1

    def cost(self, program, rows, outputs):
        return Cost(rows, 0, rows)

    def submit(self, program, angles, *, outputs, seed, tag):
        self.sent += 1
        return f"job {self.sent}"

    def find(self, tag):
        return None

    def collect(self, job, program, rows, *, outputs, report):
        report(Status(job, "QUEUED", 3))
        self.queued.set()
        assert self.proceed.wait(30)
        report(Status(job, "RUNNING"))
        return Evaluation(np.zeros((rows, 1)))


def ask(lab, rows=1):
    angles, outputs = np.zeros((rows, 0)), np.ones(1, bool)
    return jobs.run(lab, CONFIG, PROGRAM, angles, outputs=outputs, seed=0)


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.fixture
def terminal(monkeypatch):
    """A terminal in the place of stderr, and requests that are long at once."""
    monkeypatch.setattr(progress, "PATIENCE", 0.0)
    monkeypatch.setattr(progress, "TICK", 0.01)
    monkeypatch.setattr(progress.shutil, "get_terminal_size", lambda: _size(200))
    return put(monkeypatch, Terminal())


def put(monkeypatch, stream):
    """The module's stderr; pytest itself sets that of sys, again and again."""
    monkeypatch.setattr(progress, "sys", SimpleNamespace(stderr=stream))
    return stream


def _size(columns):
    return os.terminal_size((columns, 24))


def until(condition):
    """Waits for it to be true; a test that waits in vain fails."""
    end = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.005)


def test_who_watches_is_told_every_change():
    seen = []
    with watch(seen.append):
        ask(Lab(), rows=2)
    ask(Lab())
    assert [(p.job, p.state, p.position, p.done) for p in seen] == [
        ("job 1", "QUEUED", 3, 0),
        ("job 1", "RUNNING", None, 0),
        ("job 2", "QUEUED", 3, 1),
        ("job 2", "RUNNING", None, 1),
    ]
    assert {(p.backend, p.jobs) for p in seen} == {("lab", 2)}
    elapsed = [p.elapsed for p in seen]
    assert elapsed == sorted(elapsed) and elapsed[0] >= 0


def test_it_is_public():
    assert qml.watch is watch


def test_several_may_watch_and_one_twice():
    seen, others = [], []
    with watch(seen.append):
        callback = others.append
        with watch(callback), watch(callback):
            ask(Lab())
        ask(Lab())
    ask(Lab())
    assert (len(seen), len(others)) == (4, 4)


def test_an_error_of_a_callback_ends_the_request_and_the_watch():
    def fail(told):
        raise ArithmeticError("a mistake in the callback")

    with pytest.raises(ArithmeticError, match="a mistake in the callback"), watch(fail):
        ask(Lab())
    ask(Lab())


def test_jobs_of_all_threads_are_told():
    seen, lab = [], Lab()
    with watch(seen.append):
        threads = [threading.Thread(target=ask, args=(lab, 5)) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert len(seen) == 8 * 5 * 2
    assert all(isinstance(told, Progress) for told in seen)


def test_a_terminal_shows_a_line_while_it_waits_and_wipes_it(terminal):
    lab = Lab()
    lab.proceed.clear()
    thread = threading.Thread(target=ask, args=(lab, 2))
    thread.start()
    until(lambda: "lab [" in terminal.getvalue() and "QUEUED" in terminal.getvalue())
    line = terminal.getvalue().rsplit("\x1b[K", 1)[1]
    assert "0/2 jobs, 0:00:0" in line and line.endswith("job 1 QUEUED, position 3")
    lab.proceed.set()
    thread.join()
    assert terminal.getvalue().endswith("\r\x1b[K")


def test_a_line_fills_with_the_jobs_that_are_done(terminal):
    with shown("lab", 4) as report:
        report(3, Status("job 4", "RUNNING"))
        until(lambda: f"[{'=' * 15}{' ' * 5}] 3/4 jobs" in terminal.getvalue())


def test_a_narrow_terminal_gets_one_line(terminal, monkeypatch):
    monkeypatch.setattr(progress.shutil, "get_terminal_size", lambda: _size(20))
    with shown("lab", 4):
        until(lambda: "lab [" in terminal.getvalue())
    lines = terminal.getvalue().replace("\r", "").split("\x1b[K")
    assert {len(line) for line in lines} == {0, 19}


def test_of_several_requests_the_first_has_the_line(terminal):
    with shown("first", 1):
        with shown("second", 1):
            until(lambda: "first [" in terminal.getvalue())
    with shown("third", 1):
        until(lambda: "third [" in terminal.getvalue())
    assert "second" not in terminal.getvalue()


def test_a_short_request_shows_nothing(terminal, monkeypatch):
    monkeypatch.setattr(progress, "PATIENCE", 60.0)
    ask(Lab(), rows=3)
    assert terminal.getvalue() == ""


def test_nothing_is_drawn_where_somebody_watches_or_nobody_can_see(terminal, monkeypatch):
    def wait():
        with shown("lab", 1) as report:
            report(0, Status("job", "RUNNING"))
            time.sleep(0.05)

    with watch(lambda told: None):
        wait()
    assert terminal.getvalue() == ""
    file = put(monkeypatch, io.StringIO())
    wait()
    assert file.getvalue() == ""
    put(monkeypatch, None)
    wait()


def test_an_error_wipes_the_line_and_frees_it(terminal):
    with pytest.raises(ArithmeticError), shown("lab", 1):
        until(lambda: "lab [" in terminal.getvalue())
        raise ArithmeticError
    assert terminal.getvalue().endswith("\r\x1b[K")
    with shown("next", 1):
        until(lambda: "next [" in terminal.getvalue())


def test_a_watcher_that_cannot_be_called_is_refused_before_anything_is_sent():
    with pytest.raises(ArgumentError, match="watch takes a function"), watch(3):
        pytest.fail("entered")
