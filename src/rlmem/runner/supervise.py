"""``rlmem run``: a command in the foreground, looked at once a second, recorded, guarded, and told about when it dies."""

from __future__ import annotations

import json
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol

from rlmem.agent import deaths as word
from rlmem.agent import proc
from rlmem.agent.exits import TOLD
from rlmem.agent.protocol import CheckpointAnswer, DescribedFacts, ExitNote, KillNote, Question
from rlmem.core.holdings import Progress
from rlmem.core.moments import Moment
from rlmem.documents.parts import part_of
from rlmem.documents.recorded import (
    DeathPart,
    EndPart,
    EventPart,
    ExitPart,
    LeftoverPart,
    OwnerGainPart,
    PeakMomentPart,
    PostMortemPart,
)
from rlmem.errors import AnalysisError, RlmemError
from rlmem.process import attach
from rlmem.process.sampler import read_pages
from rlmem.runner.acting import Response
from rlmem.runner.causes import KILLED_EXITS, PostMortem, find_cause
from rlmem.runner.deaths import Bounds, Death, Exit, Places, read_death
from rlmem.runner.foreground import Foreground
from rlmem.runner.guarding import Alarm, Guard, Load, Policy, ram_load
from rlmem.runner.postmortem import examine, what_grew
from rlmem.runner.recording import Recorder, Timeline
from rlmem.runner.run_facts import RunFacts
from rlmem.units import format_size
from rlmem.watch.holders import read_holders, sized
from rlmem.watch.members import Member
from rlmem.watch.sampling import Ended as GoneError

RUN_VARIABLE = "RLMEM_RUN"
TICK_SECONDS = 0.25
ASK_SECONDS = 1.0
#: After a stop or Ctrl-C, others of the tree are given a moment before they are killed.
LEAVE_SECONDS = 2.0
#: Workers notice their parent's end by themselves within this time.
NOTICE_SECONDS = 0.5
#: Until then owners are asked for as soon as somebody can answer.
EARLY_SECONDS = 20.0
#: Owners are asked for out of turn when memory is so many times what it was when they were last asked.
NEWS = 1.25
#: How soon after that their answer is looked for.
SOON_SECONDS = 0.2
#: What makes a new largest moment worth asking in which phase it is.
NEW_PEAK = 1.02
#: Processes that are kept in mind, to say what they were when they end.
MOST_REMEMBERED = 1000
#: Owners with less than this of the whole are not worth a word.
SMALL_SHARE = 0.01
INTERRUPTED = (-int(signal.SIGINT), 128 + int(signal.SIGINT))


class Look(Protocol):
    """Takes moments of the run; :class:`rlmem.watch.sampling.Watch` is one."""

    @property
    def members(self) -> Sequence[Member]:
        """The processes of the last sample, the command first."""

    def sample(self) -> Moment:
        """How things stand now."""

    def ask_now(self) -> None:
        """Ask for owners at the next sample."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """How it went: everything a report needs beside the timeline."""

    returncode: int | None
    status: str
    wall_s: float
    peak: PeakMomentPart
    events: tuple[EventPart, ...] = ()
    deaths: tuple[Death, ...] = ()
    #: Processes that a signal ended and rlmem did not.
    exits: tuple[Exit, ...] = ()
    postmortem: PostMortem | None = None
    #: Processes that the command left behind: those that stay, and the ones that rlmem ended, with their commands.
    left: tuple[int, ...] = ()
    cleared: tuple[LeftoverPart, ...] = ()
    signals: tuple[str, ...] = ()
    checkpoint: CheckpointAnswer | None = None
    #: What the agent said of the model that was trained, for a report to make a prediction from.
    described: DescribedFacts | None = None

    @property
    def exit_code(self) -> int:
        """The command's own, as a shell would say it."""
        if self.returncode is None:
            return 1
        return self.returncode if self.returncode >= 0 else 128 - self.returncode

    def part(self) -> EndPart:
        """Return the same as documents and the store have it."""
        postmortem = self.postmortem
        grown = tuple(part_of(OwnerGainPart, row) for row in postmortem.grown) if postmortem else ()
        return part_of(
            EndPart,
            self,
            deaths=tuple(part_of(DeathPart, death) for death in self.deaths),
            exits=tuple(part_of(ExitPart, exit_) for exit_ in self.exits),
            postmortem=part_of(PostMortemPart, postmortem, grown=grown) if postmortem else None,
        )


class Watching:
    """Looks as ``rlmem watch`` does: owners are asked for more often while something grows."""

    def __init__(self, pid: int, interval_s: float) -> None:
        from rlmem.watch.sampling import Watch
        from rlmem.watch.session import Session

        self._session = Session(Watch(pids=[pid], interval_s=interval_s), interval_s=interval_s)

    @property
    def members(self) -> tuple[Member, ...]:
        """The processes of the last sample, the command first."""
        return self._session.watch.members

    def sample(self) -> Moment:
        """How things stand now."""
        return self._session.step().moment

    def ask_now(self) -> None:
        """Ask for owners at the next sample."""
        self._session.watch.ask_now()


def no_advice(pid: int, limit: Load | None) -> tuple[str, ...]:
    """Advise nothing: whoever supervises without a planner."""
    return ()


class Supervision:
    """One run under ``rlmem run``."""

    def __init__(
        self,
        command: Sequence[str],
        policy: Policy,
        *,
        env: Mapping[str, str],
        job: str,
        folder: Path,
        make_look: Callable[[int, float], Look] = Watching,
        say: Callable[[str], None],
        recorder: Recorder | None = None,
        interval_s: float = 1.0,
        advise: Callable[[int, Load | None], Sequence[str]] = no_advice,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.timeline = Timeline()
        self._process = Foreground(command, env=env, job=job)
        self._policy, self._folder, self._make_look, self._print = policy, folder, make_look, say
        self._recorder, self._interval, self._advise, self._clock = recorder, interval_s, advise, clock
        self._guard, self._facts = Guard(policy), RunFacts()
        self._response = Response(policy, self, self._say)
        self._events: list[EventPart] = []
        self._begin = clock()
        self._peak, self._hwm = PeakMomentPart(), 0
        self._moment: Moment | None = None
        self._rss = 0
        self._alone = True
        self._problem = ""
        #: Every process as it was last seen, with its limits.
        self._members: dict[int, Member] = {}
        self._bounds = Bounds()
        #: Who was left behind and is ended by us.
        self._cleared: tuple[LeftoverPart, ...] = ()
        #: What the planner would change, asked for when a limit comes near, while there is a process to ask about.
        self._advice: tuple[str, ...] = ()
        #: What there was when owners were last seen, and whether they were told with the last warning.
        self._named_bytes, self._told = 0, True

    # -- the loop ---------------------------------------------------------------------------------------------------

    def go(self) -> Ended:
        """Run the command to its end."""
        with self._process as process:
            self._begin = self._clock()
            if self._recorder:
                self._recorder.start()
            places = Places(process.pid)
            look = self._eye(process.pid)
            due = self._begin
            while not process.wait(max(0.0, min(TICK_SECONDS, due - self._clock()))):
                now = self._clock()
                if look is not None and (now >= due or self._is_sudden()):
                    asked = self._look(look)
                    places.look(now - self._begin)
                    due = now + min(SOON_SECONDS, self._interval) if asked else max(due + self._interval, now)
                self._response.tick(now, self._guard.over(self._moment) if self._moment else None)
            wall = self._clock() - self._begin
            returncode = process.reap()
            self._bounds.limits |= {told["pid"]: told["limits"] for told in self._left_behind("limit")}
            exits = self._exits(returncode)
            left = self._leave(returncode)
            risen = places.risen()
        for told in self._left_behind("checkpoint"):  # it may have ended before it was asked again
            self._response.settle(told)
        found = self._deaths()
        moments, postmortem = self.timeline.moments, None
        try:
            cause = find_cause(
                returncode=returncode,
                stopped_for=self._response.stopped_for,
                deaths=found,
                kills=risen,
                moments=moments,
                limits=places.limits,
                exits=exits,
                bounds=self._bounds.limits,
            )
            postmortem = examine(cause, moments, self._advice) if cause else None
        except Exception as error:  # a mistake of ours must not cost the command its exit code
            self._say("problem", f"cannot say why it ended: {type(error).__name__}: {error}")
        return Ended(
            returncode=returncode,
            status=self._status(returncode, postmortem),
            wall_s=wall,
            peak=replace(self._final_peak(wall), members=self._facts.members),
            events=tuple(self._events),
            deaths=found,
            exits=exits,
            postmortem=postmortem,
            left=left,
            cleared=self._cleared,
            signals=tuple(signal.Signals(number).name for number in process.signals),
            checkpoint=self._response.checkpoint or None,
            described=self._facts.described,
        )

    def _eye(self, pid: int) -> Look | None:
        """Something to look with; None for a command that has ended already."""
        try:
            return self._make_look(pid, self._interval)
        except AnalysisError:
            return None

    def _look(self, look: Look) -> bool:
        """Take one moment; whether owners were asked for out of turn, so that the next look should come soon."""
        try:
            return self._taken(look.sample(), look)
        except GoneError:  # it gives its memory back, which may take a while
            return False
        except Exception as error:  # whatever fails here is ours and must not end the run
            text = str(error) if isinstance(error, RlmemError) else f"{type(error).__name__}: {error}"
            if text != self._problem and not self._process.wait(2 * TICK_SECONDS):  # it may be ending
                self._problem = text
                self._say("problem", f"cannot look at it: {text}")
            return False

    def _taken(self, moment: Moment, look: Look) -> bool:
        pids = self._process.tree.refresh()
        self._bounds.look(pids)
        self._remember(look.members)
        self._rss = self._tree_rss()
        self._alone = self._alone and len(pids) <= 1
        moment = self._placed(replace(moment, at_s=self._clock() - self._begin))
        self._moment = moment
        change = self.timeline.add(moment)
        if self._recorder:
            self._recorder.keep(change)
        if moment.holdings:
            self._named_bytes = moment.tree_bytes
        self._raise_peak(moment)
        alarms = self._guard.look(moment)
        for alarm in alarms:
            self._tell(alarm)
        if not self._told and moment.holdings:
            if owners := self._owners():
                self._say("warn", owners)
            self._told = True
        steps = {pid: step for pid, (_, step, _) in self._marks().items()}
        new = self._facts.look(moment, look.members, steps, is_calm=self._guard.over(moment) is None)
        if new and self._recorder:
            self._recorder.note(new)
        # An interpreter that is just starting cannot answer yet; the larger it has grown since, the more there is to ask.
        wanted = bool(alarms) or moment.tree_bytes > NEWS * self._named_bytes
        if wanted and (self._named_bytes or moment.at_s < EARLY_SECONDS):
            look.ask_now()
        return wanted and bool(self._named_bytes)

    def _is_sudden(self) -> bool:
        """Whether memory may have passed a level since the last look; costs microseconds."""
        if self._moment is None or (level := self._guard.next_bytes(self._moment)) is None:
            return False
        return self._moment.tree_bytes + self._tree_rss() - self._rss >= level

    def _tree_rss(self) -> int:
        return sum(pages.rss for pid in self._process.tree.pids if (pages := read_pages(pid)))

    def _placed(self, moment: Moment) -> Moment:
        """With the phase and the step that the run's own processes noted, or the agent tells, and with our own limit."""
        phase, step, total = self._mark()
        if not phase and not moment.phase and moment.tree_bytes > NEW_PEAK * self._peak.nbytes:
            with suppress(AnalysisError):
                phase = str(attach.ask(self._process.pid, {"ask": "phase"}, timeout_s=0.3).get("phase") or "")
        own = self._policy.max_ram_bytes
        if own and (moment.limit_bytes is None or own < moment.limit_bytes):
            moment = replace(moment, limit_bytes=own, limit_name="--max-ram")
        progress = moment.progress
        if progress is None and step >= 0:
            progress = Progress(step=step, total=total if total > 0 else None, source="callback")
        return replace(moment, phase=phase or moment.phase, progress=progress)

    def _mark(self) -> tuple[str, int, int]:
        """The mark of the process that got furthest."""
        return max(self._marks().values(), key=lambda mark: mark[1], default=("", -1, -1))

    def _marks(self) -> dict[int, tuple[str, int, int]]:
        """Phase, step and total by process."""
        places = ((int(path.name.removeprefix("mark-")), path) for path in self._folder.glob("mark-*"))
        return {pid: word.read_mark(path.read_bytes()) for pid, path in places}

    def _raise_peak(self, moment: Moment) -> None:
        """The largest moment so far, with what a process reached between two looks."""
        hwm = proc.peak(self._process.pid)
        between = hwm - proc.rss(self._process.pid) if hwm > self._hwm else 0
        self._hwm = max(self._hwm, hwm)
        nbytes = moment.tree_bytes + max(0, between)
        if nbytes > self._peak.nbytes:
            step = moment.progress.step if moment.progress else None
            seen = between <= 0.01 * nbytes
            self._peak = PeakMomentPart(nbytes=nbytes, at_s=moment.at_s, phase=moment.phase, step=step, seen=seen)

    def _final_peak(self, wall: float) -> PeakMomentPart:
        maxrss = self._process.maxrss_bytes if self._alone else 0
        if maxrss <= 1.01 * self._peak.nbytes:
            return self._peak
        phase, step, _ = self._mark()
        return PeakMomentPart(nbytes=maxrss, at_s=wall, phase=phase, step=step if step >= 0 else None, seen=False)

    # -- what is said -----------------------------------------------------------------------------------------------

    def _say(self, kind: str, text: str) -> None:
        self._events.append(EventPart(at_s=round(self._clock() - self._begin, 1), kind=kind, text=text))
        self._print(text)

    def _tell(self, alarm: Alarm) -> None:
        if alarm.level == "warn":
            parts = [alarm.load.sentence(), self._growth(), self._owners()]
            self._say("warn", "; ".join(part for part in parts if part))
            self._told = bool(parts[-1])
            threading.Thread(target=self._consult, name="rlmem-advice", daemon=True).start()
        elif self._policy.action == "none":
            self._say("act", f"{alarm.load.sentence()}; nothing was asked to be done (--on-pressure)")

    def _consult(self) -> None:
        """In a thread: it may take seconds."""
        for pid in self._process.tree.pids:
            with suppress(Exception):  # advice is an extra
                limit = ram_load(self._policy, self._moment) if self._moment else None
                self._advice = self._advice or tuple(self._advise(pid, limit))

    def _growth(self) -> str:
        window, grown = what_grew(self.timeline.moments)
        moments = [moment for moment in self.timeline.moments if moment.at_s >= self.timeline.moments[-1].at_s - window]
        if len(moments) < 2 or not grown:
            return ""
        gained = moments[-1].tree_bytes - moments[0].tree_bytes
        return f"+{format_size(gained)} in the last {window:.0f} s" if gained > 0 else ""

    def _owners(self) -> str:
        named = next((moment for moment in reversed(self.timeline.moments) if moment.holdings), None)
        if named is None:
            return ""
        least = SMALL_SHARE * named.tree_bytes
        found = read_holders(self.timeline.moments).get(named.at_s, ())
        held = [each for each in found if each.device == "ram" and each.resident_bytes >= least]
        return "largest: " + ", ".join(sized(each) for each in held[:3]) if held else ""

    # -- the end ----------------------------------------------------------------------------------------------------

    def _was_ended(self, returncode: int | None) -> bool:
        """Whether rlmem or Ctrl-C ended it."""
        ended_by_us = self._response.state in {"stopping", "killed"} or bool(self._process.signals)
        return ended_by_us or returncode in INTERRUPTED

    def _leave(self, returncode: int | None) -> tuple[int, ...]:
        """End what the command left behind; processes that stay, because they left the terminal on purpose.

        Nobody may stay where rlmem or Ctrl-C ended the run, and where a signal did: then the command could end nothing itself.
        """
        tree = self._process.tree
        if self._was_ended(returncode):
            tree.wait(LEAVE_SECONDS)
            tree.end()
            return tree.refresh()
        was_killed = returncode is not None and returncode < 0

        def may_stay(pid: int) -> bool:
            return not was_killed and tree.has_left(pid)

        if not tree.wait(NOTICE_SECONDS, but=may_stay):
            left = [pid for pid in tree.refresh() if not may_stay(pid)]
            self._cleared = tuple(LeftoverPart(pid=pid, command=proc.command(pid)) for pid in left)
            tree.terminate(left)
            tree.wait(LEAVE_SECONDS, but=may_stay)
            tree.end(but=may_stay)
        return tree.refresh()

    def _left_behind(self, kind: str) -> Iterator[Any]:
        """What the run's processes wrote into its folder, of the type that the protocol has for the kind."""
        for path in sorted(self._folder.glob(f"{kind}-*.json")):
            with suppress(OSError, ValueError):
                yield json.loads(path.read_text(encoding="utf-8"))

    def _deaths(self) -> tuple[Death, ...]:
        """Exceptions that nobody caught, in order."""
        return tuple(sorted(map(read_death, self._left_behind("death")), key=lambda death: death.at))

    def _remember(self, members: Sequence[Member]) -> None:
        """Keep who there was, the last seen last; a program may start processes all the time."""
        for member in members:
            self._members.pop(member.pid, None)
            self._members[member.pid] = member
        for pid in list(self._members)[:-MOST_REMEMBERED]:
            del self._members[pid]
            self._bounds.forget(pid)

    def _exits(self, returncode: int | None) -> tuple[Exit, ...]:
        """Who a signal ended: told by who collected them, which for orphans is rlmem itself."""
        if self._was_ended(returncode):  # by our own signals, or by those handed on
            return ()
        exits: Iterator[ExitNote] = self._left_behind("exit")
        signals = {told["pid"]: told["signal"] for told in exits}
        self._process.tree.refresh()
        orphans = self._process.tree.collected.items()
        signals |= {pid: os.WTERMSIG(status) for pid, status in orphans if os.WIFSIGNALED(status)}
        if returncode is not None and returncode < 0:
            signals = {self._process.pid: -returncode, **signals}
        kills: Iterator[KillNote] = self._left_behind("kill")
        senders = {abs(told["pid"]): told["sender"] for told in kills}
        return tuple(self._exit(pid, number, senders.get(pid)) for pid, number in signals.items() if number in TOLD)

    def _exit(self, pid: int, number: int, sender: int | None) -> Exit:
        member = self._members.get(pid)
        return Exit(
            pid=pid,
            signal=number,
            sender=sender,
            command=member.command if member else "",
            is_main=pid == self._process.pid,
            held_bytes=member.rss_bytes if member else None,
            space_bytes=self._bounds.space_bytes.get(pid),
            limits=self._bounds.limits.get(pid, {}),
        )

    def _status(self, returncode: int | None, cause: PostMortem | None) -> str:
        if self._response.state in {"stopping", "killed"}:
            return "stopped"
        if self._process.signals or returncode in INTERRUPTED:
            return "interrupted"
        if cause is not None and returncode != 0 and cause.kind not in {"killed", "aborted"}:
            return "oom"
        if returncode is None:
            return "unknown"
        was_killed = returncode < 0 or returncode in KILLED_EXITS
        return "ok" if returncode == 0 else "killed" if was_killed else "failed"

    # -- the hands of the response ----------------------------------------------------------------------------------

    def terminate(self) -> None:
        """SIGTERM to its group and its marked tree."""
        self._process.terminate()

    def kill(self) -> None:
        """SIGKILL to the same."""
        self._process.kill()

    def signal(self, number: int) -> None:
        """A signal to the command itself."""
        self._process.signal(number, group=False)

    def pids(self) -> tuple[int, ...]:
        """Its processes, the command first."""
        return self._process.tree.refresh()

    def ask(self, pid: int, request: Question) -> CheckpointAnswer:
        """A question to one process's agent."""
        answer: CheckpointAnswer = attach.ask(pid, request, timeout_s=ASK_SECONDS)
        return answer

    def written(self, folder: str) -> int:
        """Bytes of unfinished checkpoints in a folder."""
        total = 0
        with suppress(OSError):
            for part in Path(folder).glob(".step-*.part-*"):
                total += sum(os.path.getsize(each) for each in part.iterdir())
        return total
