"""Moments of a running tree of processes, a cgroup, or several trees: cheap each time, exact as often as it may cost.

Every sample reads ``stat`` and ``statm`` of each process. Full readings (``smaps_rollup``), owners, limits and GPUs are
paced by what they cost (``rlmem.watch.pacing``); between full readings the tree's bytes are estimated by the rule of
``rlmem.process.sampler.Record``. A process is known by its number and its start time.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from rlmem.agent import proc
from rlmem.core.moments import Moment
from rlmem.errors import AnalysisError
from rlmem.process.cgroup import Level
from rlmem.process.processes import living, role
from rlmem.process.sampler import Record
from rlmem.watch import surroundings
from rlmem.watch.asking import Answer, Asking
from rlmem.watch.census import Census
from rlmem.watch.members import FullReading, Member, read_fully, read_member
from rlmem.watch.pacing import Pacer

#: In samples: owners are asked this far apart at least, and where nothing grows this far apart.
OWNERS_EVERY, OWNERS_SELDOM = 10, 120
DENIED = "permission denied: RSS is shown, which counts shared pages in each process; run as the same user"


class Ended(AnalysisError):  # noqa: N818  # the usual end of a watch, not a mistake
    """Nobody is left to watch."""


class Watch:
    """Watches some processes and their descendants, or everybody in a cgroup."""

    def __init__(
        self,
        pids: Sequence[int] = (),
        *,
        cgroup: Path | None = None,
        interval_s: float = 1.0,
        owners: bool = True,
        asking: Asking | None = None,
        census: Census | None = None,
        clock: Callable[[], float] = time.monotonic,
        root: str = proc.PROC,
    ) -> None:
        self.members: tuple[Member, ...] = ()
        #: Set by who judges: owners are asked for more often while something grows, or nothing is known yet.
        self.is_growing = True
        self._clock, self._root, self._begin = clock, root, clock()
        self._group: Level | None = surroundings.find_group(cgroup) if cgroup else None
        self._tops = {pid: living(pid, root=root).start for pid in pids}
        self._known: dict[int, int] = dict(self._tops)
        self._census = census or Census(interval_s=interval_s, root=root, clock=clock)
        self._record = Record()
        self._full: FullReading | None = None
        self._denied = False
        self._cpu: dict[tuple[int, int], float] = {}
        self._cpu_s = 0.0
        self._active_at, self._was_asking = self._begin, False
        self._commands: dict[tuple[int, int], str] = {}
        self._asking = asking or Asking() if owners else None
        self._bound: surroundings.Bound | None = None
        self._pressure: float | None = None
        self._vram: surroundings.Vram | None = None
        self._pages, self._owners, self._limits, self._gpus = (
            Pacer(kind, least, interval_s)
            for kind, least in (("pages", 1), ("owners", OWNERS_EVERY), ("limits", 2), ("gpus", 5))
        )
        self._notes: tuple[str, ...] = ()

    @property
    def title(self) -> str:
        """What is watched."""
        return str(self._group.path) if self._group else ", ".join(str(pid) for pid in self._tops)

    def ask_now(self) -> None:
        """Ask for owners at the next sample."""
        self._owners.hurry()

    def sample(self) -> Moment:
        """One look; raises :class:`Ended` when the processes asked for are gone."""
        now = self._clock()
        members = self._members()
        rss = sum(member.rss_bytes for member in members)
        estimate = self._estimate(members, now)
        group = surroundings.read_group(self._group) if self._group else None
        tree_bytes = group.nbytes if group else estimate
        self._surroundings(members, tree_bytes, now)
        self.members = self._described(members)
        spent = self._spent(members, now)
        answer = self._answer(now)
        full, vram = self._full, self._vram
        return Moment(
            at_s=now - self._begin,
            tree_bytes=tree_bytes,
            rss_bytes=rss,
            uss_bytes=sum(full.private.get(member.pid, 0) for member in members) if full else None,
            vram_bytes=vram.nbytes if vram else None,
            processes=len(members),
            threads=sum(member.threads for member in members),
            cpu_s=spent,
            idle_s=now - self._active_at,
            limit_bytes=self._bound.nbytes if self._bound else None,
            limit_name=self._bound.name if self._bound else "",
            vram_limit_bytes=vram.limit_bytes if vram else None,
            cache_bytes=group.cache_bytes if group else None,
            pressure=self._pressure,
            progress=answer.progress if answer else None,
            holdings=answer.holdings if answer else None,
            portions=answer.portions if answer else None,
            notes=self._remarks(members),
        )

    def _members(self) -> list[Member]:
        """Everybody who belongs: once a member, always a member, also when the parent has gone."""
        if self._group is not None:
            found = [each for pid in surroundings.group_pids(self._group) if (each := read_member(pid, self._root))]
            if not found:
                raise Ended(f"nobody is left in {self._group.path}")
            return sorted(found, key=lambda member: -member.rss_bytes)
        self._census.refresh()
        for pid, start in self._census.below(self._known):
            self._known.setdefault(pid, start)
        found = []
        for pid, start in list(self._known.items()):
            member = read_member(pid, self._root)
            if member is None or member.start != start:  # gone, or its number is somebody else's now
                del self._known[pid]
            else:
                found.append(member)
        if not any(member.pid in self._tops for member in found):
            left = len(found)
            rest = f"; {left} of its children still run" if left else ""
            raise Ended(f"{self.title} ended{rest}")
        return found

    def _estimate(self, members: Sequence[Member], now: float) -> int:
        if self._pages.is_due(now):
            with self._pages.work(now):
                self._full = read_fully([member.pid for member in members], self._root)
            self._denied = self._full is None
            self._commands = {}  # a child that was forked may run another program by now
            if self._full is not None:
                self._record.read(self._full.reading)
        return self._record.look({member.pid: member.pages for member in members})

    def _surroundings(self, members: Sequence[Member], tree_bytes: int, now: float) -> None:
        if self._limits.is_due(now):
            with self._limits.work(now):
                self._bound = surroundings.read_bound(members[0].pid, tree_bytes, group=self._group)
                self._pressure = surroundings.read_pressure(members[0].pid, group=self._group)
        if self._gpus.is_due(now):
            with self._gpus.work(now):
                self._vram = surroundings.read_vram([member.pid for member in members])

    def _answer(self, now: float) -> Answer | None:
        if self._asking is None:
            return None
        answer = self._asking.take()
        if answer is not None:
            self._notes = answer.notes
            seldom = answer.holdings is not None and not self.is_growing
            # While something grows, the next look comes at the latest when as much time has passed as so far: seven looks
            # in the first ten minutes, one more each time that doubles.
            most_s = now - self._begin if self.is_growing else math.inf
            least = OWNERS_SELDOM if seldom else OWNERS_EVERY
            self._owners.spend(now, answer.cost_s, least=least, most_s=most_s)
        elif not self._asking.is_busy and self._owners.is_due(now):
            self._asking.start(self.members)
        return answer

    def _spent(self, members: Sequence[Member], now: float) -> float:
        """CPU time of all since the watch began, and of each before; it does not fall when a process ends."""
        seen = {(member.pid, member.start): member.cpu_s for member in members}
        more = sum(max(0.0, spent - self._cpu.get(who, 0.0)) for who, spent in seen.items())
        is_asking = self._asking is not None and self._asking.is_busy
        if more > 0 and not (is_asking or self._was_asking):  # what our own questions cost does not count
            self._active_at = now
        self._cpu, self._was_asking = seen, is_asking
        self._cpu_s += more
        return self._cpu_s

    def _described(self, members: Sequence[Member]) -> tuple[Member, ...]:
        """The members with their commands and roles, and their shares as last read."""
        known = self._commands
        self._commands = {
            who: known.get(who) or proc.command(member.pid, self._root)
            for member in members
            if (who := (member.pid, member.start))
        }
        commands = {pid: command for (pid, _), command in self._commands.items()}
        parents = {member.pid: member.parent for member in members}
        by_pid = self._vram.by_pid if self._vram else {}
        found = []
        for member in members:
            top = member.pid if member.pid in self._tops else next(iter(self._tops), 0)
            place = role(member.pid, top, parents, commands) if self._tops else "member"
            named = replace(member, command=commands[member.pid], role=place, vram_bytes=by_pid.get(member.pid))
            found.append(self._full.of(named) if self._full else named)
        return tuple(found)

    def _remarks(self, members: Sequence[Member]) -> tuple[str, ...]:
        notes = [DENIED] if self._denied else []
        stopped = [str(member.pid) for member in members if member.state in {"T", "t"}]
        if stopped:
            notes.append(f"stopped (SIGSTOP or a debugger): {', '.join(stopped)}")
        if gone := [pid for pid in self._tops if pid not in self._known]:
            notes.append(f"ended: {', '.join(str(pid) for pid in gone)}")
        return (*notes, *self._notes)
