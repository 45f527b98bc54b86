"""Which jobs were sent: kept on disk, so that a program that was killed sends none of them twice.

The journal is an SQLite file under `.qml/`, beside the qml.toml in use, else in the working
directory. A job has an entry before it is sent, and the entry its id and its values as soon as they
are known; so it is never lost, whenever the process dies. Started again, the program asks for the
same (Program, configuration, seed, angles, outputs), as often as before, and gets the same jobs.

Only what a run left that did not end well is taken over, by one later run: it was killed, or ended
with a status other than 0, as by an exception, by Ctrl-C or by sys.exit(1) (qml.endings). At the
end of a run that ends well its entries are closed, and the next run draws anew. A run is alive as
long as it holds the lock on its `run-*.lock`. In the journal are digests, ids, shots and values; no
configuration, and so no secret.
"""

from __future__ import annotations

import atexit
import hashlib
import os
import sqlite3
import threading
import uuid
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from qml.budget import Spending, identity, refuse_excess
from qml.circuits.program import Program
from qml.config import discover
from qml.endings import ended_well, watch
from qml.errors import ConfigError, EngineError
from qml.kinds import Budget
from qml.settings import EngineConfig
from qml.simulators.base import Evaluation

try:
    import fcntl
except ImportError:  # not on Windows
    fcntl = None  # type: ignore[assignment]

FOLDER: Final = ".qml"
FILE_NAME: Final = "journal.sqlite"
APPLICATION: Final = 0x716D6C31
"""What tells our SQLite files from others: «qml1»."""

TIMEOUT: Final = 60.0
"""Seconds to wait for other processes that write."""

SCHEMA: Final = """CREATE TABLE jobs (
    tag TEXT PRIMARY KEY,      -- unique; the service stores it with the job
    run TEXT,                  -- whose entry it is; NULL once that run has ended well
    backend TEXT NOT NULL,     -- qml.budget.identity
    key TEXT NOT NULL,
    ordinal INTEGER NOT NULL,  -- how many requests of the run had the same key before
    shots INTEGER NOT NULL,
    state TEXT NOT NULL,       -- intended, sent, done or failed
    job TEXT,                  -- its id
    answer BLOB,               -- float64 values, rows by outputs; NULL once the run has ended well
    rows INTEGER,
    used INTEGER,              -- shots, as the engine says
    device TEXT,
    precision TEXT,
    queued REAL
)"""


@dataclass(frozen=True)
class Request:
    """One job that is needed.

    Attributes:
        key: digest of all that its values depend on.
        ordinal: how many requests of this run had the same key before.
        shots: that it will cost.
    """

    key: str
    ordinal: int
    shots: int


@dataclass(frozen=True)
class Entry:
    """One job in the journal.

    Attributes:
        tag: for the job, unique.
        shots: that it costs.
        job: its id; None where it was not sent, or its id not recorded.
        inherited: from a run that died; without an id, it may have been sent.
        answer: its values (R, M), where it is done.
    """

    tag: str
    shots: int
    job: str | None = None
    inherited: bool = False
    answer: Evaluation | None = None


def key(
    program: Program,
    config: EngineConfig,
    seed: int,
    angles: NDArray[np.float64],
    outputs: NDArray[np.bool_],
) -> str:
    """A digest of all that the values of a job depend on."""
    digest = hashlib.sha256(f"{program.digest} {identity(config)} {seed} {angles.shape}".encode())
    digest.update(np.ascontiguousarray(angles).tobytes())
    digest.update(np.ascontiguousarray(outputs).tobytes())
    return digest.hexdigest()


class Journal:
    """The jobs of this run and of those before it; called from several threads.

    Raises:
        ConfigError: the system has no locks that end with their process.
        EngineError: the folder or its file cannot be read or written, or is none of ours.
    """

    def __init__(self, folder: Path) -> None:
        if fcntl is None:
            raise ConfigError(
                "a journal of jobs needs file locks of POSIX, which this system does not have. Set "
                "journal = false for the backend; jobs are then sent again after a crash."
            )
        self.folder = folder
        self.path = folder / FILE_NAME
        self._run = uuid.uuid4().hex
        self._counts: Counter[str] = Counter()
        self._lock = threading.Lock()
        try:
            folder.mkdir(0o700, exist_ok=True)
            folder.chmod(0o700)  # mkdir's mode is subject to the umask
            os.close(_private(self.path))
            with self._transaction() as db:
                self._recognise(db)
            self._held = _private(self._lock_of(self._run))
            fcntl.flock(self._held, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise EngineError(
                f"the journal of jobs in {folder} cannot be written: {error.strerror}. Make the "
                "folder writable, or set journal = false for the backend; jobs are then sent again "
                "after a crash."
            ) from error

    def count(self, key: str) -> int:
        """The ordinal of a request: how many of this run had the same key before."""
        with self._lock:
            self._counts[key] += 1
            return self._counts[key] - 1

    def claim(
        self, config: EngineConfig, limits: Budget | None, requests: Sequence[Request]
    ) -> list[Entry]:
        """An entry for each request: taken over from a run that died, else new and paid.

        Raises:
            BudgetError: the new ones would exceed the limits; there is no entry for any.
        """
        backend = identity(config)
        with self._transaction() as db:
            found = [self._inherited(db, request) for request in requests]
            new = [r for r, entry in zip(requests, found, strict=True) if entry is None]
            if new:
                asked = Spending(len(new), sum(request.shots for request in new))
                spent = self._spent(db, backend)
                refuse_excess(config.kind, limits, spent, asked, f"in {self.path}")
            return [
                entry or self._added(db, request, backend)
                for request, entry in zip(requests, found, strict=True)
            ]

    def sent(self, entry: Entry, job: str) -> None:
        """Records the id of a job."""
        with self._transaction() as db:
            db.execute("UPDATE jobs SET state = 'sent', job = ? WHERE tag = ?", (job, entry.tag))

    def done(self, entry: Entry, answer: Evaluation) -> None:
        """Records the values of a job."""
        blob = np.ascontiguousarray(answer.values, np.dtype("<f8")).tobytes()
        rest = (
            len(answer.values),
            int(answer.shots),
            answer.device,
            answer.precision,
            answer.queued,
        )
        with self._transaction() as db:
            db.execute(
                "UPDATE jobs SET state = 'done', answer = ?, rows = ?, used = ?, device = ?, "
                "precision = ?, queued = ? WHERE tag = ?",
                (blob, *rest, entry.tag),
            )

    def failed(self, entry: Entry) -> None:
        """Records that a job gave no values; it stays among what was spent."""
        with self._transaction() as db:
            db.execute("UPDATE jobs SET state = 'failed' WHERE tag = ?", (entry.tag,))

    def withdraw(self, entries: Sequence[Entry]) -> None:
        """Removes entries of jobs that were certainly not sent."""
        with self._transaction() as db:
            db.executemany("DELETE FROM jobs WHERE tag = ?", [(entry.tag,) for entry in entries])

    def spent(self, config: EngineConfig) -> Spending:
        """By all runs together; a job that may have been sent counts."""
        with self._transaction() as db:
            return self._spent(db, identity(config))

    def close(self) -> None:
        """Ends the run well: no other will take over its entries, and their values are dropped."""
        if self.path.exists():
            with self._transaction() as db:
                mine = (self._run,)
                db.execute("UPDATE jobs SET run = NULL, answer = NULL WHERE run = ?", mine)
        self._lock_of(self._run).unlink(missing_ok=True)
        os.close(self._held)

    def forget(self) -> None:
        """Leaves the run to the process that this one was forked from."""
        os.close(self._held)

    def _inherited(self, db: sqlite3.Connection, request: Request) -> Entry | None:
        """The entry that a run which died left for a request, made ours."""
        rows = db.execute(
            "SELECT run, tag, job, answer, rows, used, device, precision, queued FROM jobs "
            "WHERE key = ? AND ordinal = ? AND run <> ? AND state <> 'failed' ORDER BY rowid",
            (request.key, request.ordinal, self._run),
        )
        for run, tag, job, blob, *rest in rows.fetchall():
            if self._died(run):
                db.execute("UPDATE jobs SET run = ? WHERE tag = ?", (self._run, tag))
                answer = None if blob is None else _answer(blob, *rest)
                return Entry(tag, request.shots, job, True, answer)
        return None

    def _added(self, db: sqlite3.Connection, request: Request, backend: str) -> Entry:
        tag = f"qml-{uuid.uuid4().hex}"
        db.execute(
            "INSERT INTO jobs (tag, run, backend, key, ordinal, shots, state) "
            "VALUES (?, ?, ?, ?, ?, ?, 'intended')",
            (tag, self._run, backend, request.key, request.ordinal, request.shots),
        )
        return Entry(tag, request.shots)

    def _died(self, run: str) -> bool:
        path = self._lock_of(run)
        try:
            lock = os.open(path, os.O_RDWR)
        except FileNotFoundError:
            return True
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        finally:
            os.close(lock)
        path.unlink(missing_ok=True)
        return True

    def _lock_of(self, run: str) -> Path:
        return self.folder / f"run-{run}.lock"

    @staticmethod
    def _spent(db: sqlite3.Connection, backend: str) -> Spending:
        (found,) = db.execute(
            "SELECT count(*), coalesce(sum(shots), 0) FROM jobs WHERE backend = ?", (backend,)
        )
        return Spending(*found)

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        """All or nothing, one process and thread at a time.

        A connection of its own for each, so that none is shared with threads or forked children.
        """
        address = f"{self.path.absolute().as_uri()}?mode=rw"
        try:
            with closing(
                sqlite3.connect(address, uri=True, timeout=TIMEOUT, isolation_level=None)
            ) as db:
                db.execute("BEGIN IMMEDIATE")
                with db:
                    yield db
        except sqlite3.Error as error:
            raise EngineError(
                f"the journal of jobs {self.path} cannot be used: {error}. If it is damaged, move "
                "it away: jobs that it holds are then sent again, so look for them on the service "
                "first. Or set journal = false for the backend."
            ) from error

    def _recognise(self, db: sqlite3.Connection) -> None:
        """Makes the tables of a new file; refuses one that is not ours."""
        (application,) = db.execute("PRAGMA application_id").fetchone()
        (tables,) = db.execute("SELECT count(*) FROM sqlite_master").fetchone()
        if application == APPLICATION:
            return
        if application or tables:
            raise EngineError(
                f"{self.path} is an SQLite file of another program, or of another version of this "
                "one, not a journal of jobs. Move it away, or set journal = false for the backend."
            )
        db.execute(SCHEMA)
        db.execute("CREATE INDEX by_key ON jobs (key, ordinal)")
        db.execute("CREATE INDEX by_backend ON jobs (backend, shots)")
        db.execute(f"PRAGMA application_id = {APPLICATION}")


def _private(path: Path) -> int:
    """A file for nobody else, whatever the umask, opened."""
    file = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    os.fchmod(file, 0o600)
    return file


def _answer(
    blob: bytes, rows: int, used: int, device: str, precision: str, queued: float | None
) -> Evaluation:
    values = np.frombuffer(blob, "<f8").astype(np.float64).reshape(rows, -1)
    return Evaluation(values, used, 1, device, precision, queued)


_journals: dict[Path, Journal] = {}
_lock = threading.Lock()


def opened() -> Journal:
    """The journal that belongs to the qml.toml in use, else to the working directory.

    Raises:
        ConfigError, EngineError: as Journal.
    """
    file = discover()
    folder = (Path.cwd() if file is None else file.parent) / FOLDER
    with _lock:
        watch()
        if folder not in _journals:
            _journals[folder] = Journal(folder)
        return _journals[folder]


@atexit.register
def _close_all() -> None:
    """At the end of a process; after os._exit or a signal nobody comes here."""
    if ended_well():
        for journal in _journals.values():
            journal.close()


def _forget_all() -> None:
    """In a forked child, which gets runs of its own."""
    global _lock
    for journal in _journals.values():
        journal.forget()
    _journals.clear()
    _lock = threading.Lock()


if fcntl is not None:
    os.register_at_fork(after_in_child=_forget_all)
