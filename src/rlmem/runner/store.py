"""Results that outlive the command: runs and their points in one SQLite file.

A point is one transaction, so an interruption costs the point under way and nothing else. Processes wait for each
other. The schema's version is the file's ``user_version``: older files are brought up to date when they are opened (in
memory where they may not be written), newer ones are refused.
"""

from __future__ import annotations

import json
import os
import sqlite3
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rlmem.core.moments import Moment
from rlmem.core.points import Point, axes_text
from rlmem.core.target import SHORTEST_RUN_ID, looks_like_run
from rlmem.documents.contract import Document, read_part, to_plain
from rlmem.documents.moment import moment_data, read_moment
from rlmem.documents.recorded import Recording
from rlmem.documents.runs import RUN_KINDS
from rlmem.errors import AnalysisError, UsageError
from rlmem.runner.facts import machine_facts, own_versions

if TYPE_CHECKING:
    from rlmem.documents.plan import PlanDocument

FILE_NAME = "runs.db"
#: What a run keeps: a document, or what there is of one so far.
Kept = Document | Recording | Mapping[str, Any]
#: How long to wait for another rlmem that is writing; each of its writes takes milliseconds.
BUSY_SECONDS = 30.0

#: Step N brings a file of version N to version N + 1; a step is never changed once released.
MIGRATIONS: tuple[tuple[str, ...], ...] = (
    (
        "CREATE TABLE runs (id TEXT PRIMARY KEY, kind TEXT NOT NULL, target TEXT NOT NULL, command TEXT NOT NULL, "
        "sweep TEXT NOT NULL, started TEXT NOT NULL, finished TEXT, status TEXT NOT NULL, machine TEXT NOT NULL, "
        "versions TEXT NOT NULL, document TEXT NOT NULL)",
        "CREATE INDEX runs_by_sweep ON runs (sweep)",
        "CREATE TABLE points (run TEXT NOT NULL REFERENCES runs (id) ON DELETE CASCADE, axes TEXT NOT NULL, "
        "repeat INTEGER NOT NULL, point TEXT NOT NULL, PRIMARY KEY (run, axes, repeat))",
    ),
    (
        "CREATE TABLE moments (run TEXT NOT NULL REFERENCES runs (id) ON DELETE CASCADE, number INTEGER NOT NULL, "
        "moment TEXT NOT NULL, PRIMARY KEY (run, number)) WITHOUT ROWID",
    ),
)
_COLUMNS = "id, kind, target, command, sweep, started, finished, status, machine, versions, document"


class StoreBusyError(AnalysisError):
    """Another process has been writing for longer than we would wait."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One stored invocation."""

    id: str
    kind: str
    target: str
    command: tuple[str, ...]
    #: What two measurements must share for their points to be the same; empty for other kinds.
    sweep: str
    started: str
    finished: str | None
    status: str
    machine: Mapping[str, Any]
    versions: Mapping[str, str]
    document: dict[str, Any]


def data_folder() -> Path:
    """``RLMEM_DATA_DIR``, else the user's data folder."""
    own = os.environ.get("RLMEM_DATA_DIR")
    if own:
        return Path(own)
    base = os.environ.get("XDG_DATA_HOME")
    try:
        return (Path(base) if base else Path.home() / ".local" / "share") / "rlmem"
    except RuntimeError:
        raise AnalysisError("no home folder to keep results in; set RLMEM_DATA_DIR") from None


def utc_now() -> str:
    """The time to the second, as text that sorts."""
    return datetime.now(timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")


@contextmanager
def open_store(path: Path | None = None, *, write: bool = False, busy_s: float = BUSY_SECONDS) -> Iterator[Store]:
    """The store, made when it is first written to; a store that is not there reads as empty."""
    path = path or data_folder() / FILE_NAME
    with _explained(path):
        connection = _connect(path, write, busy_s)
    try:
        with _explained(path):
            _migrate(connection)
        yield Store(path, connection)
    finally:
        connection.close()


def _connect(path: Path, write: bool, busy_s: float) -> sqlite3.Connection:
    if write:
        path.parent.mkdir(parents=True, exist_ok=True)
        connection = sqlite3.connect(path, timeout=busy_s, isolation_level=None)
    elif not path.exists():
        connection = sqlite3.connect(":memory:", isolation_level=None)
    else:
        connection = _for_reading(path, busy_s)
    connection.execute("PRAGMA foreign_keys = ON")
    return connection


def _for_reading(path: Path, busy_s: float) -> sqlite3.Connection:
    """A connection that changes nothing on disk; a file of an old version is copied and brought up to date in memory."""
    connection = sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True, timeout=busy_s, isolation_level=None)
    try:
        if _version(connection) >= len(MIGRATIONS):
            return connection
        copy = sqlite3.connect(":memory:", isolation_level=None)
        connection.backup(copy)
    except BaseException:
        connection.close()
        raise
    connection.close()
    return copy


def _version(connection: sqlite3.Connection) -> int:
    version: int = connection.execute("PRAGMA user_version").fetchone()[0]
    return version


def _migrate(connection: sqlite3.Connection) -> None:
    version = _version(connection)
    if version > len(MIGRATIONS):
        raise AnalysisError(
            f"written by a newer rlmem (schema {version}, this one reads up to {len(MIGRATIONS)}); upgrade rlmem"
        )
    if version == len(MIGRATIONS):
        return
    with _transaction(connection):
        for step in MIGRATIONS[_version(connection) :]:  # asked again: another process may have been first
            for statement in step:
                connection.execute(statement)
        connection.execute(f"PRAGMA user_version = {len(MIGRATIONS)}")


@contextmanager
def _transaction(connection: sqlite3.Connection) -> Iterator[None]:
    """All or nothing, Ctrl-C included; the write lock is taken at the start, so that waiting is all that can happen."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise
    connection.execute("COMMIT")


@contextmanager
def _explained(path: Path) -> Iterator[None]:
    """SQLite's and the system's errors as one line with the file's name."""
    advice = "set RLMEM_DATA_DIR to keep results elsewhere"
    try:
        yield
    except AnalysisError as error:
        raise AnalysisError(f"{path}: {error}") from None
    except OSError as error:
        raise AnalysisError(f"{path}: cannot be used: {error.strerror or error}; {advice}") from None
    except sqlite3.OperationalError as error:
        if "locked" in str(error):
            raise StoreBusyError(f"{path}: another rlmem has been writing all the while; try again") from None
        raise AnalysisError(f"{path}: cannot be used: {error}; {advice}") from None
    except (sqlite3.Error, ValueError, KeyError, TypeError) as error:
        raise AnalysisError(f"{path}: not a usable results file ({error}); move it away, or {advice}") from None


def _clean(text: str) -> str:
    """Text SQLite can hold: a file name that is not UTF-8 loses what is not."""
    return text.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


class Store:
    """Runs and points of one open file."""

    def __init__(self, path: Path, connection: sqlite3.Connection, *, clock: Callable[[], str] = utc_now) -> None:
        self.path = path
        self._connection = connection
        self._clock = clock

    def begin(
        self,
        kind: str,
        target: str,
        *,
        command: Sequence[str] = (),
        sweep: str = "",
        document: Kept | None = None,
        machine: Mapping[str, Any] | None = None,
    ) -> Run:
        """A new run, under way."""
        if kind not in RUN_KINDS:
            raise ValueError(f"kind {kind!r} is not one of {', '.join(RUN_KINDS)}")
        facts = machine_facts() if machine is None else machine
        texts = [json.dumps(item) for item in (facts, own_versions(), to_plain(document or {}))]
        words = json.dumps([_clean(word) for word in command])
        started = self._clock()
        with _explained(self.path), _transaction(self._connection):
            name = self._new_id()
            row = (name, kind, _clean(target), words, sweep, started, None, "running", *texts)
            self._connection.execute(f"INSERT INTO runs ({_COLUMNS}) VALUES ({', '.join('?' * len(row))})", row)
        return self.find(name)

    def _new_id(self) -> str:
        while True:
            name = uuid.uuid4().hex[:8]
            if self._connection.execute("SELECT 1 FROM runs WHERE id = ?", (name,)).fetchone() is None:
                return name

    def add(self, run: str, point: Point) -> None:
        """Keep a point; one of the same values and repeat is replaced."""
        row = (run, axes_text(point.values), point.repeat, json.dumps(to_plain(point)))
        with _explained(self.path), _transaction(self._connection):
            self._connection.execute("INSERT OR REPLACE INTO points VALUES (?, ?, ?, ?)", row)

    def record(self, run: str, added: Mapping[int, Moment], gone: Iterable[int] = ()) -> None:
        """Keep moments of a run's timeline by their numbers, and let others go."""
        rows = [(run, number, json.dumps(moment_data(moment))) for number, moment in added.items()]
        with _explained(self.path), _transaction(self._connection):
            self._connection.executemany("INSERT OR REPLACE INTO moments VALUES (?, ?, ?)", rows)
            self._connection.executemany(
                "DELETE FROM moments WHERE run = ? AND number = ?", [(run, number) for number in gone]
            )

    def timeline(self, run: str) -> tuple[Moment, ...]:
        """The moments of a run, in order."""
        query = "SELECT moment FROM moments WHERE run = ? ORDER BY number"
        with _explained(self.path):
            return tuple(read_moment(json.loads(row[0])) for row in self._connection.execute(query, (run,)))

    def reopen(self, run: str, document: Kept) -> Run:
        """Go on with a run that was interrupted."""
        self._update(run, "running", None, document)
        return self.find(run)

    def amend(self, run: str, document: Kept) -> None:
        """What a run under way has come to so far."""
        self._update(run, "running", None, document)

    def finish(self, run: str, status: str, document: Kept) -> None:
        """Close a run with what it came to."""
        self._update(run, status, self._clock(), document)

    def _update(self, run: str, status: str, finished: str | None, document: Kept) -> None:
        row = (status, finished, json.dumps(to_plain(document)), run)
        with _explained(self.path), _transaction(self._connection):
            self._connection.execute("UPDATE runs SET status = ?, finished = ?, document = ? WHERE id = ?", row)

    def delete(self, run: str) -> None:
        """Forget a run and its points."""
        with _explained(self.path), _transaction(self._connection):
            self._connection.execute("DELETE FROM runs WHERE id = ?", (run,))

    def runs(self, *, kind: str | None = None, sweep: str | None = None, limit: int | None = None) -> tuple[Run, ...]:
        """Runs, newest first."""
        wanted = {name: value for name, value in (("kind", kind), ("sweep", sweep)) if value is not None}
        where = "".join(f" AND {name} = ?" for name in wanted)
        query = f"SELECT {_COLUMNS} FROM runs WHERE 1{where} ORDER BY started DESC, rowid DESC LIMIT ?"
        with _explained(self.path):
            rows = self._connection.execute(query, (*wanted.values(), -1 if limit is None else limit))
            return tuple(_run(row) for row in rows)

    def count(self) -> int:
        """Return how many runs there are."""
        with _explained(self.path):
            number: int = self._connection.execute("SELECT COUNT(*) FROM runs").fetchone()[0]
        return number

    def find(self, prefix: str) -> Run:
        """The run whose id starts so."""
        if not looks_like_run(prefix):
            raise UsageError(
                f"{prefix!r} is not a run: give {SHORTEST_RUN_ID} or more of the letters 'rlmem runs' shows"
            )
        query = f"SELECT {_COLUMNS} FROM runs WHERE id GLOB ? ORDER BY started DESC, rowid DESC"
        with _explained(self.path):
            found = [_run(row) for row in self._connection.execute(query, (f"{prefix}*",))]
        if not found:
            raise UsageError(f"no run starts with {prefix!r}; 'rlmem runs' lists them")
        if len(found) > 1:
            names = ", ".join(run.id for run in found[:5]) + (", …" if len(found) > 5 else "")
            raise UsageError(f"{len(found)} runs start with {prefix!r}: {names}; give more of the letters")
        return found[0]

    def points(self, run: str) -> tuple[Point, ...]:
        """The points of a run, in the order they were kept."""
        query = "SELECT repeat, point FROM points WHERE run = ? ORDER BY rowid"
        with _explained(self.path):
            rows = self._connection.execute(query, (run,)).fetchall()
            return tuple(read_part(Point, {**json.loads(text), "repeat": repeat}) for repeat, text in rows)


def _run(row: Sequence[Any]) -> Run:
    name, kind, target, command, sweep, started, finished, status, machine, versions, document = row
    return Run(
        id=name,
        kind=kind,
        target=target,
        command=tuple(json.loads(command)),
        sweep=sweep,
        started=started,
        finished=finished,
        status=status,
        machine=json.loads(machine),
        versions=json.loads(versions),
        document=json.loads(document),
    )


def save_plan(document: PlanDocument, *, command: Sequence[str] = (), path: Path | None = None) -> str:
    """Keep a plan; return the id of its run."""
    with open_store(path, write=True) as store:
        run = store.begin("plan", document.target.name, command=command, document=document)
        store.finish(run.id, document.verdict, document)
        return run.id
