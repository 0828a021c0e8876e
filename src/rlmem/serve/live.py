"""Processes that look like training, and watches of some of them: one sampler a process, however many look on."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime

from rlmem.agent import proc
from rlmem.app.watch import latest_document, moment_document
from rlmem.documents.moment import MomentDocument, MomentPart, PolledMomentDocument, moment_part
from rlmem.documents.parts import part_of
from rlmem.errors import AnalysisError, UsageError
from rlmem.process import attach
from rlmem.process.processes import Process, every, living
from rlmem.watch.session import Frame
from rlmem.watch.watching import Watching, watch_all

#: Libraries whose code in a process says that it trains, or is about to.
LIBRARIES = (
    "libtorch",
    "torch/_C",
    "jaxlib",
    "tensorflow",
    "ale_py",
    "mujoco",
    "pyboy",
    "Box2D",
    "pybullet",
    "_raylet",
)
INTERVAL_S = 1.0
#: A watch nobody has looked at for as long ends.
FORGOTTEN_S = 20.0
MOST_WATCHES = 16
#: Whether a process trains is looked up once in so many seconds: imports come late.
LOOK_AGAIN_S = 5.0
MOST_MOMENTS = 3600


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """A process that looks like training, and why."""

    pid: int
    start: int
    command: str
    rss_bytes: int
    threads: int
    why: str
    can_name: bool


class Finder:
    """Finds candidates; what was learnt about a process is kept as long as it lives."""

    def __init__(self, *, root: str = proc.PROC, clock: Callable[[], float] = time.monotonic) -> None:
        self._root, self._clock = root, clock
        self._known: dict[tuple[int, int], tuple[float, str]] = {}

    def find(self) -> tuple[Candidate, ...]:
        """Candidates, the largest first; workers of one that is listed are not listed again."""
        processes = {each.pid: each for each in every(root=self._root) if each.pid != os.getpid()}
        why = {pid: words for pid, each in processes.items() if (words := self._why(each))}
        self._known = {who: seen for who, seen in self._known.items() if who[0] in processes}
        tops = [processes[pid] for pid in why if processes[pid].parent not in why]
        rows = [
            Candidate(
                pid=each.pid,
                start=each.start,
                command=each.command,
                rss_bytes=proc.rss(each.pid, self._root),
                threads=each.threads,
                why=why[each.pid],
                can_name=attach.agent_socket(each) is not None,
            )
            for each in tops
        ]
        return tuple(sorted(rows, key=lambda row: -row.rss_bytes))

    def _why(self, process: Process) -> str:
        now = self._clock()
        seen = self._known.get((process.pid, process.start))
        if seen is not None and (seen[1] or now - seen[0] < LOOK_AGAIN_S):
            return seen[1]
        words = self._look(process)
        self._known[process.pid, process.start] = (now, words)
        return words

    def _look(self, process: Process) -> str:
        if attach.agent_socket(process) is not None:
            return "has rlmem's agent"
        if "python" not in process.command.split(" ", 1)[0]:
            return ""
        maps = (proc.read(f"{self._root}/{process.pid}/maps") or b"").decode("utf-8", "replace")
        found = next((name for name in LIBRARIES if name in maps), "")
        return f"has {found.split('/')[0].removeprefix('lib')} loaded" if found else ""


@dataclass(slots=True)
class Watched:
    """One process that is being watched."""

    pid: int
    watching: Watching
    number: int = 0
    frame: Frame | None = None
    moments: list[MomentPart] = field(default_factory=list)
    end: str = ""
    looked_at: float = 0.0
    #: CPU time the sampler has taken, and since when: what a watch costs is measured, not promised.
    spent_s: float = 0.0
    since: float = 0.0
    drawn: dict[str, tuple[int, str]] = field(default_factory=dict)

    def latest(self) -> MomentDocument | None:
        """The last moment as it is drawn, with owners as they were last seen."""
        return latest_document(self.frame, datetime.now()) if self.frame else None


class Hub:
    """Watches by process number; a thread each, which ends with the process or when nobody looks any more."""

    def __init__(self, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock, self._lock = clock, threading.Lock()
        self._watches: dict[int, Watched] = {}
        self._ending = threading.Event()

    def look(self, pid: int) -> Watched:
        """The watch of a process, begun when there is none."""
        with self._lock:
            watched = self._watches.get(pid)
            if watched is None or (watched.end and _lives(pid)):
                self._forget()
                if len([each for each in self._watches.values() if not each.end]) >= MOST_WATCHES:
                    raise UsageError(
                        f"{MOST_WATCHES} processes are being watched already; close a page and wait a little"
                    )
                watched = self._watches[pid] = Watched(
                    pid=pid, watching=watch_all([living(pid).pid], interval_s=INTERVAL_S)
                )
                watched.since = self._clock()
                watched.looked_at = watched.since
                thread = threading.Thread(target=self._sample, args=(watched,), name=f"rlmem-watch-{pid}", daemon=True)
                thread.start()
            watched.looked_at = self._clock()
            return watched

    def _forget(self) -> None:
        """Let go of processes that have ended and that nobody looks at any more."""
        now = self._clock()
        for pid, each in list(self._watches.items()):
            if each.end and now - each.looked_at > FORGOTTEN_S:
                del self._watches[pid]

    def drawn(self, watched: Watched, key: str, draw: Callable[[], str]) -> str:
        """What was drawn of the latest moment, once for all who look on."""
        with self._lock:
            kept = watched.drawn.get(key)
            if kept is not None and kept[0] == watched.number:
                return kept[1]
        number, text = watched.number, draw()
        with self._lock:
            if len(watched.drawn) > MOST_WATCHES:
                watched.drawn.clear()
            watched.drawn[key] = (number, text)
        return text

    def close(self) -> None:
        """End all watches."""
        self._ending.set()

    def _sample(self, watched: Watched) -> None:
        due = self._clock()
        while not self._ending.is_set() and not watched.end:
            begin = time.thread_time()
            if self._clock() - watched.looked_at > FORGOTTEN_S:
                break
            try:
                watched.watching.step()
            except AnalysisError as error:
                watched.end = str(error)
            except Exception as error:  # a thread has nobody else to tell
                watched.end = f"cannot look at it any more: {type(error).__name__}: {error}"
            target = watched.watching.targets[0]
            if target.frame is not None and not target.end:
                watched.frame = target.frame
                watched.moments.append(moment_part(target.frame.moment))
                if len(watched.moments) > MOST_MOMENTS:
                    del watched.moments[: len(watched.moments) // 4 : 2]
            watched.end = watched.end or target.end
            watched.number += 1
            watched.spent_s += time.thread_time() - begin
            due = max(due + INTERVAL_S, self._clock())
            self._ending.wait(max(0.0, due - self._clock()))
        with self._lock:
            if not watched.end:
                self._watches.pop(watched.pid, None)


def polled_moment(watched: Watched) -> PolledMomentDocument:
    """Return the latest moment of a process, and what watching it has cost so far.

    Raises:
        AnalysisError: nothing has been seen of it yet.
    """
    if watched.frame is None:
        raise AnalysisError(watched.end or f"nothing has been seen of {watched.pid} yet; ask again in a second")
    return part_of(
        PolledMomentDocument,
        moment_document(watched.frame, datetime.now()),
        schema=PolledMomentDocument.SCHEMA,
        number=watched.number,
        end=watched.end or None,
        sampler_cpu_s=round(watched.spent_s, 4),
        sampler_wall_s=round(time.monotonic() - watched.since, 3),
    )


def _lives(pid: int) -> bool:
    try:
        living(pid)
    except (AnalysisError, UsageError):
        return False
    return True
