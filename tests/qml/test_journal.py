"""The journal: what a process that died has sent is collected by the next, and sent only once."""

import os
import signal
import sqlite3
import subprocess
import sys
import threading
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

import qml
from qml import journal as module
from qml.circuits.paulis import Pauli
from qml.circuits.program import AngleMap, Expectation, Program
from qml.errors import BudgetError, ConfigError, EngineError
from qml.journal import Journal, Request, opened
from qml.kinds import Budget, JobConfig, RuntimeConfig
from qml.simulators.base import Evaluation

HERE = Path(__file__).resolve().parent
ROOT = Path(qml.__file__).resolve().parents[1]

TRAINING = """
import jax, jax.numpy as jnp, numpy as np, qml
import file_service

file_service.register()

@qml.qkernel(qubits=2)
def kernel(qc, x, w):
    qc.ry(x, 0)
    qc.ry(w[0], 0)
    qc.cx(0, 1)
    qc.ry(w[1], 1)
    return qml.Z(1)

xs = jnp.linspace(-1, 1, 4)
w = jnp.array([0.3, -0.2])

def loss(w):
    return jnp.mean((jax.vmap(kernel, (0, None))(xs, w) - jnp.sin(xs)) ** 2)

with qml.use({"kind": "file", "directory": ".", "shots": 50, "max_rows": 9, "journal": True}):
    for step in range(3):
        w = w - 0.2 * jax.grad(loss)(w)
print(np.asarray(w).tobytes().hex())
"""
"""Each step has a job with 4 values, and 24 shifted rows in three jobs."""

REQUESTS = """
import os, signal, sys
import numpy as np
from qml import jobs
from qml.circuits.paulis import Pauli
from qml.circuits.program import AngleMap, Expectation, Program, Rotation
from file_service import FileConfig, FileEngine, reached

none = np.zeros(0, np.int32)
PROGRAM = Program(
    1,
    (Rotation(Pauli(1, 0), 0),),
    (Expectation((Pauli(0, 1),), (1.0,)),),
    AngleMap(0, none, none, np.zeros(0), np.zeros(1)),
)

def ask(seed, **keys):
    config = FileConfig(directory=".", **{"shots": 10**6, "journal": True, **keys})
    angles, outputs = np.ones((2, 1)), np.ones(1, bool)
    answer = jobs.run(FileEngine(config), config, PROGRAM, angles, outputs=outputs, seed=seed)
    print(answer.values.tobytes().hex(), answer.jobs, answer.shots, answer.device, flush=True)

"""


def start(script, folder, end="", interactive=False, **keywords):
    """A new process that runs a script in a folder, with the service there.

    If interactive, it reads statements from its standard input instead.
    """
    environment = {
        **os.environ,
        "PYTHONPATH": f"{ROOT}{os.pathsep}{HERE}",
        "JAX_ENABLE_X64": "1",
        "FILE_SERVICE": end,
    }
    folder.mkdir(exist_ok=True)
    return subprocess.Popen(
        [sys.executable, *(["-i", "-q"] if interactive else ["-c", script])],
        cwd=folder,
        env=environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        **keywords,
    )


def run(script, folder, end="", code=0):
    """What it prints, a string for each line."""
    process = start(script, folder, end)
    output, errors = process.communicate(timeout=120)
    assert process.returncode == code, errors[-3000:]
    return output.splitlines()


@pytest.fixture
def service(monkeypatch):
    monkeypatch.syspath_prepend(HERE)
    import file_service

    return file_service


ENDS = [
    ("submit 1", 0),  # before anything is sent
    ("submitted 1", 1),  # sent, and the id not recorded
    ("collect 2", 4),  # between submission and result
    ("submit 3", 6),  # between two parts of a request, of which the first is sent
    ("collect 2", 8),  # between two parts of a request, of which the first is done
    ("submitted 2", 10),  # the first of three parts sent, and the id not recorded
]
"""Where a training is killed, time after time, and how many jobs it has sent by then."""


@pytest.mark.slow
def test_a_training_that_is_killed_again_and_again_ends_as_if_it_was_not(service, tmp_path):
    undisturbed = run(TRAINING, tmp_path / "undisturbed")
    folder = tmp_path / "killed"
    for end, sent in ENDS:
        assert run(TRAINING, folder, f"kill {end}", code=-signal.SIGKILL) == []
        assert len(service.jobs(folder)) == sent
    assert run(TRAINING, folder) == undisturbed
    # The noise of the service is by the number of the job: one more, and the weights would differ.
    assert service.jobs(folder) == service.collected(folder) == [str(i) for i in range(12)]


@pytest.mark.parametrize(
    ("end", "code"),
    [
        ("kill submit 3", -signal.SIGKILL),
        ("kill collect 3", -signal.SIGKILL),
        ("interrupt collect 3", -signal.SIGINT),
        ("raise collect 3", 1),
        ("kill submitted 3", -signal.SIGKILL),
        ("interrupt submitted 3", -signal.SIGINT),
        ("raise submitted 3", 1),
    ],
)
def test_however_a_run_ends_badly_its_jobs_are_collected_by_the_next(service, tmp_path, end, code):
    script = REQUESTS + "for seed in (1, 1, 2): ask(seed)"
    before = run(script, tmp_path, end, code)
    assert len(before) == 2 and before[0] != before[1]  # equal requests stay two
    assert len(service.jobs(tmp_path)) == (2 if "submit 3" in end else 3)
    after = run(script, tmp_path)
    assert after[:2] == before and len(after) == 3
    assert after[2].split()[1:] == ["1", "2000000", "files"]
    assert len(service.jobs(tmp_path)) == 3
    assert service.collected(tmp_path) == ["0", "1", "2"]


INTERRUPTED = "signal.raise_signal(signal.SIGINT)"
GONE = "os.kill(os.getpid(), signal.SIGTERM)"
ENDINGS = [
    # (the last lines of a program, its status, whether that is an end that is well)
    ("pass", 0, True),
    ("sys.exit()", 0, True),
    ("sys.exit(0)", 0, True),
    ("sys.exit(False)", 0, True),
    ("try: sys.exit(1)\nexcept SystemExit: pass", 0, True),
    ("try: 1 / 0\nexcept ZeroDivisionError: pass", 0, True),
    ("sys.exit(1)", 1, False),
    ("sys.exit(True)", 1, False),
    ("sys.exit(0.0)", 1, False),
    ("sys.exit('text')", 1, False),
    ("sys.exit('')", 1, False),
    ("import argparse; argparse.ArgumentParser().error('no')", 2, False),
    ("def main(): sys.exit(3)\nmain()", 3, False),
    ("raise SystemExit(1)", 1, False),
    ("raise SystemExit('text')", 1, False),
    (INTERRUPTED, -signal.SIGINT, False),
    ("raise KeyboardInterrupt", -signal.SIGINT, False),
    ("raise ValueError", 1, False),
    ("os._exit(0)", 0, False),
    ("os._exit(1)", 1, False),
    (GONE, -signal.SIGTERM, False),
    ("signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))\n" + GONE, 1, False),
]


@pytest.mark.slow
@pytest.mark.parametrize(("end", "code", "well"), ENDINGS)
def test_a_run_ended_well_if_its_process_ended_with_status_0(service, tmp_path, end, code, well):
    first = run(f"{REQUESTS}\nask(1)\n{end}", tmp_path, code=code)
    assert len(first) == 1
    again = run(f"{REQUESTS}\nask(1)", tmp_path)
    assert (again != first) == well
    assert len(service.jobs(tmp_path)) == (2 if well else 1)


IN_A_THREAD = "import threading\nt = threading.Thread(target=ask, args=(1,)); t.start(); t.join()"


@pytest.mark.parametrize(
    ("begin", "well"),
    [
        (IN_A_THREAD, True),
        (f"{IN_A_THREAD}\nsys.exit(1)", False),
        ("def main(): ask(1); return 0\nsys.exit(main())", True),
        ("def main(): ask(1); return 1\nsys.exit(main())", False),
    ],
)
def test_so_it_is_wherever_the_journal_is_opened(service, tmp_path, begin, well):
    code = 0 if well else 1
    first = run(f"{REQUESTS}\n{begin}", tmp_path, code=code)
    assert (run(f"{REQUESTS}\nask(1)", tmp_path) != first) == well


@pytest.mark.parametrize(
    ("end", "well"), [("", True), ("sys.exit(1)", False), ("1 / 0", False), ("sys.exit(0)", True)]
)
def test_so_it_is_in_an_interactive_session(service, tmp_path, end, well):
    session = start("", tmp_path, interactive=True)
    lines = REQUESTS.replace("\n\ndef", "\ndef") + f"ask(1)\n{end}\n"
    output, errors = session.communicate(lines, timeout=120)
    (first,) = [line for line in output.splitlines() if "files" in line]
    again = run(f"{REQUESTS}\nask(1)", tmp_path)
    assert (again != [first]) == well, errors


def test_a_run_that_ends_well_leaves_nothing_to_the_next(service, tmp_path):
    first, second = (run(REQUESTS + "ask(1)", tmp_path) for _ in range(2))
    assert first != second
    assert len(service.jobs(tmp_path)) == 2
    assert [path.name for path in (tmp_path / ".qml").iterdir()] == ["journal.sqlite"]


def test_a_run_that_took_over_and_ends_well_closes_what_it_took(service, tmp_path):
    script = REQUESTS + "ask(1); ask(2)"
    (before,) = run(script, tmp_path, "raise collect 2", code=1)
    taken = run(script, tmp_path)
    assert taken[0] == before
    assert not set(run(script, tmp_path)) & set(taken)
    assert len(service.jobs(tmp_path)) == 4


def test_two_processes_at_once_do_not_take_from_each_other(service, tmp_path):
    script = REQUESTS + "ask(1); sys.stdin.readline(); ask(2)"
    one = start(script, tmp_path)
    first = one.stdout.readline()
    other = run(REQUESTS + "ask(1); ask(2)", tmp_path)
    assert first.strip() != other[0]
    rest, errors = one.communicate("\n", timeout=60)
    assert one.returncode == 0, errors
    assert rest.strip() != other[1]
    assert len(service.jobs(tmp_path)) == 4
    assert sorted(service.collected(tmp_path)) == ["0", "1", "2", "3"]


def test_of_two_processes_the_one_that_was_killed_is_taken_over(service, tmp_path):
    script = REQUESTS + "ask(1); sys.stdin.readline()"
    live, killed = start(script, tmp_path), start(script, tmp_path)
    try:
        kept, lost = live.stdout.readline().strip(), killed.stdout.readline().strip()
        killed.kill()
        killed.communicate(timeout=60)
        assert run(REQUESTS + "ask(1)", tmp_path) == [lost] != [kept]
        assert len(service.jobs(tmp_path)) == 2
    finally:
        live.communicate("\n", timeout=60)


def test_a_child_that_was_forked_neither_shares_nor_holds_the_run(service, tmp_path):
    script = REQUESTS + (
        "ask(1)\n"
        "asked, asks = os.pipe()\n"
        "if os.fork() == 0:\n"
        "    ask(1)\n"
        "    os.write(asks, b'.')\n"
        "    sys.stdin.readline()\n"
        "    os._exit(0)\n"
        "os.read(asked, 1)\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    family = start(script, tmp_path)
    try:
        of_parent, of_child = (family.stdout.readline().strip() for _ in range(2))
        assert family.wait(timeout=60) == -signal.SIGKILL
        assert of_parent != of_child
        assert run(REQUESTS + "ask(1)", tmp_path) == [of_parent]  # while the child lives
        assert len(service.jobs(tmp_path)) == 2
    finally:
        family.communicate("\n", timeout=60)


def test_a_job_that_the_service_has_lost_is_sent_again(service, tmp_path):
    script = REQUESTS + "jobs.FIRST_WAIT = 0\nask(1)"
    run(script, tmp_path, "kill collect 1", code=-signal.SIGKILL)
    (tmp_path / "0.npz").rename(tmp_path / "7.npz")
    (line,) = run(script, tmp_path)
    assert service.collected(tmp_path) == ["1"]
    assert line.split()[1:3] == ["2", "2000000"]
    with closing(sqlite3.connect(tmp_path / ".qml/journal.sqlite")) as db:
        states = db.execute("SELECT job, state FROM jobs ORDER BY rowid").fetchall()
    assert states == [("0", "failed"), ("1", "done")]


def test_what_earlier_runs_spent_counts(service, tmp_path):
    for end, code in [("", 0), ("kill collect 1", -signal.SIGKILL), ("", 0)]:
        run(REQUESTS + "ask(1, budget={'jobs': 3})", tmp_path, end, code)
    assert len(service.jobs(tmp_path)) == 2  # the last run took over what is paid
    run(REQUESTS + "ask(1, budget={'jobs': 3})", tmp_path)
    for keys, refused in [
        ("{'jobs': 3}", "jobs may be 3 in all, 3 are spent and 1 more"),
        ("{'shots': 7999999}", "shots may be 7999999 in all, 6000000 are spent"),
    ]:
        script = f"try: ask(1, budget={keys})\nexcept jobs.EngineError as error: print(error)"
        (message,) = run(REQUESTS + script, tmp_path)
        assert refused in message and "journal.sqlite" in message
    assert len(service.jobs(tmp_path)) == 3
    run(REQUESTS + "ask(1, budget={'shots': 8000000, 'jobs': 4})", tmp_path)


def test_without_a_journal_nothing_is_written(service, tmp_path):
    run(REQUESTS + "ask(1, journal=False); ask(1, journal=None)", tmp_path)
    assert not (tmp_path / ".qml").exists() and len(service.jobs(tmp_path)) == 2


@pytest.mark.parametrize("umask", [0, 0o22, 0o277])
def test_nobody_else_can_read_it_whatever_the_umask(tmp_path, umask):
    script = (
        f"import os\nos.umask({umask})\n"
        + REQUESTS
        + (
            "ask(1)\n"
            "for path in ('.qml', *(f'.qml/{name}' for name in sorted(os.listdir('.qml')))):\n"
            "    print(path[:9], oct(os.stat(path).st_mode & 0o777))"
        )
    )
    (tmp_path / "run").mkdir()
    lines = run(script, tmp_path / "run")[1:]
    assert lines == [".qml 0o700", ".qml/jour 0o600", ".qml/run- 0o600"]


def test_it_is_beside_the_configuration_in_use_else_in_the_working_directory(tmp_path, monkeypatch):
    (tmp_path / "project" / "scripts").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "project" / "scripts")
    assert opened().folder == tmp_path / "project" / "scripts" / ".qml"
    (tmp_path / "project" / "qml.toml").write_text("")
    assert opened().folder == tmp_path / "project" / ".qml"
    assert opened() is opened()


none = np.zeros(0, np.int32)
OUTPUT = Expectation((Pauli(0, 1),), (1.0,))
ANGLES = AngleMap(0, none, none, np.zeros(0), np.zeros(0))
PROGRAM = Program(1, (), (OUTPUT,), ANGLES)
CONFIG = JobConfig(kind="lab")
ANSWER = Evaluation(np.array([[0.1, np.nan], [-0.0, 1e-320]]), 7, 1, "lab", "-", 2.5)


def died(journal):
    """A journal as its process leaves it that is killed."""
    journal.forget()
    return journal


def claim(journal, *keys, limits=None):
    return journal.claim(CONFIG, limits, [Request(key, journal.count(key), 5) for key in keys])


def test_values_come_back_bit_for_bit(tmp_path):
    first = Journal(tmp_path)
    (entry,) = claim(first, "a")
    first.sent(entry, "job 1")
    first.done(entry, ANSWER)
    died(first)
    (found,) = claim(Journal(tmp_path), "a")
    assert (found.tag, found.job, found.inherited) == (entry.tag, "job 1", True)
    assert found.answer.values.tobytes() == ANSWER.values.tobytes()
    assert found.answer.values.shape == (2, 2) and found.answer.values.flags.writeable
    rest = lambda answer: (
        answer.shots,
        answer.jobs,
        answer.device,
        answer.precision,
        answer.queued,
    )
    assert rest(found.answer) == rest(ANSWER)


def test_an_entry_is_taken_over_once_and_by_ordinal(tmp_path):
    first = Journal(tmp_path)
    tags = [entry.tag for _ in range(2) for entry in claim(first, "a")]
    assert not any(entry.inherited for entry in claim(Journal(tmp_path), "a", "a"))  # it lives
    died(first)
    second, third = Journal(tmp_path), Journal(tmp_path)
    assert [claim(second, "a")[0].tag for _ in range(2)] == tags
    assert not claim(second, "a")[0].inherited
    assert not claim(third, "a")[0].inherited
    died(second)
    assert claim(Journal(tmp_path), "a")[0].tag == tags[0]


def test_a_job_that_was_sent_again_keeps_its_place(tmp_path):
    first = Journal(tmp_path)
    (failed,), (other,) = claim(first, "a"), claim(first, "a")
    first.failed(failed)
    (again,) = first.claim(CONFIG, None, [Request("a", 0, 5)])
    assert not again.inherited and again.tag != failed.tag
    died(first)
    second = Journal(tmp_path)
    assert [claim(second, "a")[0].tag for _ in range(2)] == [again.tag, other.tag]


def test_eight_threads_take_over_each_entry_once(tmp_path):
    first = Journal(tmp_path)
    tags = [claim(first, "a")[0].tag for _ in range(40)]
    died(first)
    second, start, found = Journal(tmp_path), threading.Barrier(8), []

    def work():
        start.wait()
        for _ in range(6):
            found.extend(claim(second, "a"))

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len({entry.tag for entry in found}) == len(found) == 48
    assert {entry.tag for entry in found if entry.inherited} == set(tags)


def test_a_claim_beyond_the_budget_enters_nothing(tmp_path):
    journal, limits = Journal(tmp_path), Budget(jobs=3)
    claim(journal, "a", "b", limits=limits)
    with pytest.raises(BudgetError, match="jobs may be 3 in all, 2 are spent and 2 more"):
        claim(journal, "c", "d", limits=limits)
    claim(journal, "c", limits=limits)
    journal.withdraw(claim(journal, "e"))
    assert journal.spent(CONFIG).jobs == 3 and journal.spent(CONFIG).shots == 15
    assert journal.spent(JobConfig(kind="other")).jobs == 0


def test_a_run_that_ends_well_keeps_what_was_spent_and_no_values(tmp_path):
    journal = Journal(tmp_path)
    (entry,) = claim(journal, "a")
    journal.sent(entry, "job 1")
    journal.done(entry, ANSWER)
    journal.close()
    later = Journal(tmp_path)
    assert not claim(later, "a")[0].inherited
    assert later.spent(CONFIG).jobs == 2
    with closing(sqlite3.connect(later.path)) as db:
        assert db.execute("SELECT run, job, state, answer FROM jobs LIMIT 1").fetchone() == (
            None,
            "job 1",
            "done",
            None,
        )


def test_a_file_that_is_no_journal_is_refused_and_left_alone(tmp_path):
    path = tmp_path / "journal.sqlite"
    path.write_bytes(b"not a database, " * 100)
    with pytest.raises(EngineError, match="journal.sqlite cannot be used: file is not a database"):
        Journal(tmp_path)
    assert path.read_bytes() == b"not a database, " * 100
    path.unlink()
    with closing(sqlite3.connect(path)) as db:
        db.execute("CREATE TABLE jobs (mine)")
        db.commit()
    with pytest.raises(EngineError, match="of another program.*Move it away, or set journal = fal"):
        Journal(tmp_path)


def test_a_journal_that_was_damaged_or_removed_meanwhile_is_an_error(tmp_path):
    journal = Journal(tmp_path)
    claim(journal, "a")
    content = journal.path.read_bytes()
    journal.path.write_bytes(content[:4096] + b"\xff" * (len(content) - 4096))
    with pytest.raises(
        EngineError, match="cannot be used: .* malformed.*If it is damaged, move it"
    ):
        claim(journal, "a")
    journal.path.unlink()
    with pytest.raises(EngineError, match="cannot be used: unable to open"):
        claim(journal, "a")
    assert not journal.path.exists()
    journal.close()


def test_a_folder_that_cannot_be_made_is_an_error(tmp_path):
    (tmp_path / ".qml").write_text("a file")
    with pytest.raises(EngineError, match="cannot be written.*set journal = false"):
        Journal(tmp_path / ".qml")


def test_without_locks_of_posix_there_is_no_journal(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "fcntl", None)
    with pytest.raises(ConfigError, match="journal = false"):
        Journal(tmp_path / ".qml")
    assert not (tmp_path / ".qml").exists()


def test_no_word_of_a_configuration_is_in_it(tmp_path):
    config = RuntimeConfig(name="marker_name", token_env="MARKER_TOKEN", instance="marker-instance")
    journal = Journal(tmp_path)
    rows, outputs = np.zeros((2, 0)), np.ones(1, bool)
    key = module.key(PROGRAM, config, 0, rows, outputs)
    (entry,) = journal.claim(config, None, [Request(key, 0, 5)])
    journal.sent(entry, "job 1")
    content = b"".join(path.read_bytes() for path in tmp_path.iterdir()).lower()
    assert b"job 1" in content and b"marker" not in content


@pytest.mark.parametrize(
    "other",
    [
        {"program": Program(1, (), (OUTPUT, OUTPUT), ANGLES)},
        {"config": JobConfig(kind="lab", seed=1)},
        {"seed": 1},
        {"angles": np.array([[0.0, -0.0]])},
        {"angles": np.zeros((2, 1))},
        {"outputs": np.array([False])},
    ],
)
def test_a_job_is_known_by_all_that_its_values_depend_on(other):
    same = {"config": CONFIG.model_copy(update={"retries": 9, "budget": Budget(jobs=1)})}
    asked = {
        "program": PROGRAM,
        "config": CONFIG,
        "seed": 0,
        "angles": np.zeros((1, 2)),
        "outputs": np.array([True]),
    }
    assert module.key(**asked) == module.key(**asked | same) != module.key(**asked | other)
