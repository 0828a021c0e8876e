"""A run's timeline: bounded in memory, kept in the store in batches, and never a reason for the run to end.

The last minutes are there second by second; what is older gets sparser with its age, by the rule of
``rlmem.watch.history``, and the largest moment always stays. A week takes about 2,000 rows.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from rlmem.core.moments import Moment
from rlmem.documents.recorded import MOST_OWNERS, Recording
from rlmem.errors import RlmemError
from rlmem.runner.store import StoreBusyError, open_store
from rlmem.watch.history import BATCH, thin

FLUSH_SECONDS = 5.0
#: How long a batch waits for another rlmem that writes, before it is tried again with the next one.
BUSY_SECONDS = 2.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """What one more moment does to a timeline."""

    kept: Mapping[int, Moment]
    gone: frozenset[int] = frozenset()


class Timeline:
    """Moments by number, oldest first, thinned as they grow old; the largest of all stays."""

    def __init__(self) -> None:
        self._rows: dict[int, Moment] = {}
        self._next = 0

    @property
    def moments(self) -> tuple[Moment, ...]:
        """Everything that is left, in order."""
        return tuple(self._rows.values())

    def add(self, moment: Moment) -> Change:
        """Keep a moment; what is to be written, and let go, on account of it."""
        if moment.holdings is not None:
            largest = sorted(moment.holdings, key=lambda held: -max(held.resident_bytes, held.nbytes))[:MOST_OWNERS]
            moment = replace(moment, holdings=tuple(largest))
        number, self._next = self._next, self._next + 1
        self._rows[number] = moment
        if self._next % BATCH:
            return Change(kept={number: moment})
        change = thinned(self._rows)
        self._rows = {n: change.kept.get(n, row) for n, row in self._rows.items() if n not in change.gone}
        return Change(kept={number: moment, **change.kept}, gone=change.gone)


def thinned(rows: Mapping[int, Moment]) -> Change:
    """What thinning by age does to some rows: those that go, and those that lose their owners."""
    peak = max(rows.values(), key=lambda moment: moment.tree_bytes)
    stay = {moment.at_s: moment for moment in (*thin(list(rows.values())), peak)}
    gone = frozenset(number for number, moment in rows.items() if moment.at_s not in stay)
    kept = {
        number: stay[moment.at_s]
        for number, moment in rows.items()
        if number not in gone and stay[moment.at_s] is not moment
    }
    return Change(kept=kept, gone=gone)


class Recorder:
    """Writes batches to the store in a thread of its own: a slow or full disk never holds up the guard."""

    def __init__(
        self, command: Sequence[str], recording: Recording, *, say: Callable[[str], None],
        path: Path | None = None, flush_s: float = FLUSH_SECONDS,
    ) -> None:  # fmt: skip
        self.run: str | None = None
        #: Why recording stopped, if it did.
        self.problem = ""
        self._say, self._path, self._flush = say, path, flush_s
        self._command, self._recording = tuple(command), recording
        self._written: Recording | None = None
        self._added: dict[int, Moment] = {}
        self._gone: list[int] = []
        self._lock, self._stop = threading.Lock(), threading.Event()
        self._thread = threading.Thread(target=self._work, name="rlmem-record", daemon=True)

    def start(self) -> None:
        """Open the run in the store, and begin to write."""
        self._thread.start()

    def keep(self, change: Change) -> None:
        """Take what changed for the next batch."""
        if self.problem:
            return
        with self._lock:
            self._added |= change.kept
            for number in change.gone:
                self._added.pop(number, None)
                self._gone.append(number)

    def note(self, facts: Mapping[str, Any]) -> None:
        """Take fields of the recording with the next batch: one that is cut short has them too."""
        with self._lock:
            self._recording = replace(self._recording, **facts)

    def finish(self, status: str, recording: Recording) -> None:
        """Write what is left and close the run; after a full disk this is tried once more."""
        self._stop.set()
        if self._thread.ident is not None:
            self._thread.join()
        failed, self.problem = self.problem, ""
        self._guarded(lambda: self._close(status, recording), last=True)
        self.problem = self.problem or failed

    def _work(self) -> None:
        while not self.problem:
            self._guarded(self._write)
            if self._stop.wait(self._flush):
                return

    def _begin(self) -> None:
        recording = self._recording
        with open_store(self._path, write=True) as store:
            self.run = store.begin("run", recording.target, command=self._command, document=recording).id
        self._written = recording

    def _write(self) -> None:
        if self.run is None:
            self._begin()
        with self._lock:
            added, gone, recording = dict(self._added), tuple(self._gone), self._recording
        if self.run is None or not (added or gone or recording is not self._written):
            return
        with open_store(self._path, write=True, busy_s=BUSY_SECONDS) as store:
            store.record(self.run, added, gone)
            if recording is not self._written:
                store.reopen(self.run, recording)  # which refuses a run that was deleted meanwhile
                self._written = recording
        with self._lock:
            self._added = {n: moment for n, moment in self._added.items() if moment is not added.get(n)}
            del self._gone[: len(gone)]

    def _close(self, status: str, recording: Recording) -> None:
        self._write()
        assert self.run is not None
        with open_store(self._path, write=True) as store:
            store.finish(self.run, status, recording)

    def _guarded(self, work: Callable[[], None], *, last: bool = False) -> None:
        """Recording may fail; the run goes on. A batch that another process kept out comes with the next one."""
        try:
            work()
        except RlmemError as error:  # one that is not there any more is a usage error
            if isinstance(error, StoreBusyError) and not last:
                return
            self.problem = str(error)
            self._say(f"recording stopped, the run goes on: {error}")
