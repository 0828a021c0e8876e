"""A benchmark under way: its rows in the store as they come, and going on with one that was cut short."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import closing
from typing import Any

from rlmem.core.spec import RunSpec
from rlmem.documents.bench import BenchDocument, BenchRow
from rlmem.documents.contract import from_plain, to_plain
from rlmem.programs.bench import Benched, BenchOptions
from rlmem.runner.store import Run, Store
from rlmem.runner.sweep import own_process, was_cut_short
from rlmem.sources.profiles import Profile
from rlmem.version import __version__

#: Rows and the run's id to the document that is kept.
MakeDocument = Callable[[tuple[BenchRow, ...], str | None], BenchDocument]
#: Trains some profiles, in whatever order they end; closing it early cancels the rest.
Execute = Callable[[Sequence[Profile]], Generator[Benched, None, None]]


def bench_key(spec: RunSpec, options: BenchOptions, python: str | None, limits: Sequence[str | None]) -> str:
    """What two benchmarks must share for a profile of one to be a profile of the other."""
    parts = {
        "rlmem": __version__,
        "run": spec.to_dict(),
        "timesteps": options.timesteps,
        "env": options.env,
        "seed": options.seed,
        "python": python,
        "limits": list(limits),
    }
    return hashlib.sha256(json.dumps(parts, default=str).encode()).hexdigest()[:16]


class BenchRunning:
    """A benchmark under way. Whatever ends it, finished profiles are kept; the same command goes on with the others.

    A finished benchmark is left alone: who asks again wants to know again.
    """

    def __init__(
        self,
        target: str,
        profiles: Sequence[Profile],
        store: Store,
        document: MakeDocument,
        *,
        key: str,
        command: Sequence[str] = (),
        fresh: bool = False,
        machine: Mapping[str, Any] | None = None,
    ) -> None:
        self.profiles = tuple(profiles)
        self._store, self._document = store, document
        self._rows: dict[str, BenchRow] = {}
        earlier, rows = (None, ()) if fresh else self._unfinished(key)
        self._rows = {row.profile: row for row in rows if row.is_ok}
        if earlier is not None and was_cut_short(earlier):
            self.run = store.reopen(earlier.id, self._so_far(earlier.id))
        else:  # one that somebody elsewhere may still be at work on is left to him
            self.run = store.begin(
                "bench", target, command=command, sweep=key, document=self._so_far(None), machine=machine
            )
        self.known = len(self._rows)

    @property
    def left(self) -> tuple[Profile, ...]:
        """Profiles that must be trained."""
        return tuple(profile for profile in self.profiles if profile.name not in self._rows)

    @property
    def rows(self) -> tuple[BenchRow, ...]:
        """Finished profiles, in the order they were asked for."""
        return tuple(self._rows[profile.name] for profile in self.profiles if profile.name in self._rows)

    def results(self, execute: Execute) -> Generator[Benched, None, None]:
        """Profiles as they are trained."""
        try:
            with closing(execute(self.left)) as found:
                for benched in found:
                    self._rows[benched.profile.name] = benched.row
                    self._store.add(self.run.id, benched.point)
                    self._store.amend(self.run.id, self._so_far(self.run.id))
                    yield benched
        except BaseException:  # told to end, or an error: what is finished stays
            self.finish("interrupted")
            raise

    def finish(self, status: str | None = None) -> BenchDocument | None:
        """Close the run; its document, or nothing where no profile was finished."""
        if not self._rows:
            self._store.delete(self.run.id)
            return None
        document = self._document(self.rows, self.run.id)
        self._store.finish(self.run.id, status or ("ok" if document.is_ok else "partial"), document)
        return document

    def _so_far(self, run: str | None) -> dict[str, Any]:
        return {**to_plain(self._document(self.rows, run)), "process": own_process()}

    def _unfinished(self, key: str) -> tuple[Run | None, tuple[BenchRow, ...]]:
        """The newest benchmark of the same kind, if it did not come to its end and has no profile that is not asked for."""
        wanted = {profile.name: profile.settings for profile in self.profiles}
        for run in self._store.runs(kind="bench", sweep=key, limit=1):
            rows = from_plain(BenchDocument, run.document, f"run {run.id}").profiles
            same = all(wanted.get(row.profile) == row.settings for row in rows)
            if same and run.status in {"running", "interrupted"}:
                return run, rows
        return None, ()
