"""Pieces of work as tasks of Ray: started where there is room, tried again when a node or a worker is lost, cancelled together.

Ray's own retries are off: a try that was lost is told from one that ended badly, and a point's last words come from here.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any

from rlmem.core.points import PredictedPeak
from rlmem.errors import AnalysisError
from rlmem.ray import tasks
from rlmem.ray.connecting import answers
from rlmem.ray.faults import Fault, fault_of
from rlmem.ray.reserving import Ask, Need, Node, NoRoomError, alive, reserve
from rlmem.runner.interrupts import noted
from rlmem.units import format_size

#: Tries of one step, the first included; of one that was ended for want of memory.
MOST_TRIES, ALONE_TRIES = 3, 2
#: Tasks that are asked for at a time; what comes after them is planned when they are done.
MOST_ASKED = 200
KEPT = "what was finished is kept, and the same command goes on with the rest"
#: How often a signal is asked for, and how often the nodes are.
TICK_SECONDS, CHECK_SECONDS = 0.5, 2.0
#: How long something waits for a node before that is said, and how long until it is said again.
PATIENCE_SECONDS, AGAIN_SECONDS = 15.0, 60.0
#: How long cancelled tasks are waited for.
CANCEL_SECONDS = 10.0
#: How long the head may be away, as it is when it is started anew; after 60 s Ray 2.60 ends the whole process, without a word to it.
HEAD_SECONDS = 30.0


class HeadLostError(AnalysisError):
    """Who knows all nodes is gone, and with it whatever was under way."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """Something to do on a node; ``then`` makes the next step of its result, where there is one."""

    work: Any
    need: Need
    then: Callable[[Any], Step] | None = None
    #: What the plan says of the work, for those who do not get to see a result.
    predicted: PredictedPeak | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """What came of an item: a result, or a fault; and what was lost on the way."""

    key: Any
    result: Any = None
    fault: Fault | None = None
    node: str | None = None
    lost: tuple[str, ...] = ()
    predicted: PredictedPeak | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Try:
    key: Any
    step: Step
    ask: Ask
    node: Node | None = None
    #: Notes of earlier tries of this item, and the nodes they were on.
    lost: tuple[str, ...] = ()
    avoid: tuple[str, ...] = ()
    #: Lost tries of this very step.
    count: int = 0
    #: When it was asked for.
    since: float = 0.0

    def ended(self, **named: Any) -> Ended:
        name = self.node.name if self.node else None
        return Ended(key=self.key, node=name, lost=self.lost, predicted=self.step.predicted, **named)


@dataclass(slots=True)
class Dispatch:
    """Runs items on a cluster; ``streams`` is off where tasks cannot say that they have started (Ray's client).

    ``head`` is the address of the one who knows all nodes, where that can be asked.
    """

    ray: Any
    say: Callable[[str], None]
    streams: bool = True
    head: str | None = None
    clock: Callable[[], float] = time.monotonic
    _tries: dict[Any, _Try] = field(default_factory=dict)
    _nodes: tuple[Node, ...] = ()
    _names: dict[str, Node] = field(default_factory=dict)
    _head_missed: float | None = None
    #: When it was last said that something waits, and when a task last said anything.
    _told: float | None = None
    _moved: float = 0.0
    _remote: Any = None

    def run(self, items: Iterable[tuple[Any, Step]]) -> Generator[Ended, None, None]:
        """Everything, as it ends; Ctrl-C, an error or an early close cancels what is under way."""
        with noted() as stopped:
            try:
                self._look()
                coming = iter(items)
                checked, more = self.clock(), True
                self._moved = checked
                while (more or self._tries) and not stopped():
                    if self._head_missed is not None:  # whatever is asked of Ray now would wait for it
                        time.sleep(TICK_SECONDS)
                        self._look()
                        continue
                    # One by one, with a look at the others after each: planning thousands takes its time.
                    if more and len(self._tries) < MOST_ASKED:
                        item = next(coming, None)
                        more = item is not None
                        if item is not None:
                            yield from self._begin(*item)
                    waits = 0.0 if more and len(self._tries) < MOST_ASKED else TICK_SECONDS
                    for handle in self._ready(waits):
                        yield from self._advance(handle)
                    now = self.clock()
                    if now - checked >= CHECK_SECONDS:
                        checked = now
                        self._look()
                        yield from self._stranded()
                        self._say_waiting(now)
                yield from self._finished()  # after a signal, what is there already
            except Exception:
                yield from self._finished()
                raise
            finally:
                self._cancel()

    def _ready(self, timeout_s: float) -> list[Any]:
        """Tasks that have something to say."""
        if not self._tries:
            return []
        try:
            ready: list[Any] = self.ray.wait(list(self._tries), num_returns=1, timeout=timeout_s)[0]
        except Exception as error:  # of a task that failed nothing is raised here: it is the connection
            raise HeadLostError(
                f"the connection to Ray was lost ({' '.join(str(error).split())[:200]}); {KEPT}"
            ) from None
        return ready

    def _look(self) -> None:
        """Who is there; where Ray cannot say at the moment, what was known stays."""
        if self.head is not None and not answers(self.head):  # asking would wait for it, and then end this process
            now = self.clock()
            self._head_missed = now if self._head_missed is None else self._head_missed
            if now - self._head_missed >= HEAD_SECONDS:
                raise HeadLostError(f"the head of the cluster at {self.head} went away; {KEPT}")
            return
        self._head_missed = None
        with suppress(Exception):
            self._nodes = alive(self.ray.nodes())
            self._names |= {node.id: node for node in self._nodes}

    def _begin(self, key: Any, step: Step, before: _Try | None = None) -> Generator[Ended, None, None]:
        """Start a step, or say at once that it can never be started."""
        lost, avoid, count = (before.lost, before.avoid, before.count) if before else ((), (), 0)
        try:
            ask = reserve(step.need, self._nodes)
        except NoRoomError as error:
            fault = Fault(status="failed", note=str(error))
            yield Ended(key=key, fault=fault, lost=lost, predicted=step.predicted)
            return
        try:
            handle = self._submit(step, ask, avoid)
        except Exception as error:
            yield Ended(key=key, fault=fault_of(error), lost=lost, predicted=step.predicted)
            return
        self._tries[handle] = _Try(key=key, step=step, ask=ask, lost=lost, avoid=avoid, count=count, since=self.clock())

    def _submit(self, step: Step, ask: Ask, avoid: Sequence[str]) -> Any:
        if self._remote is None:
            function = tasks.told if self.streams else tasks.work
            returns = {"num_returns": "streaming"} if self.streams else {}
            # A fresh worker each: nothing of one point is left when the next begins.
            self._remote = self.ray.remote(max_retries=0, max_calls=1, **returns)(function)
        options = {"scheduling_strategy": _strategy(avoid), **ask.options}
        return self._remote.options(**options).remote(tasks.request(step.work, gpus=ask.gpus))

    def _finished(self) -> Generator[Ended, None, None]:
        """What has ended by now and was not taken yet, before the rest is cancelled; nothing is started and nothing waited for."""
        ready: list[Any] = list(self._tries)
        while ready and self._tries:
            handles = list(self._tries)
            try:
                ready = self.ray.wait(handles, num_returns=len(handles), timeout=0)[0]
            except Exception:  # the connection is gone, and with it whatever was there
                return
            for handle in ready:
                yield from self._last_words(handle)

    def _last_words(self, handle: Any) -> Generator[Ended, None, None]:
        """A result, or an error of the work's own; what would be tried again is not."""
        attempt = self._tries[handle]
        try:
            said = self.ray.get(next(handle) if self.streams else handle, timeout=CANCEL_SECONDS)
        except Exception:  # StopIteration too
            said = {}
        if "node" in said:
            self._tries[handle] = replace(attempt, node=self._names.get(said["node"]))
            return
        del self._tries[handle]
        if "result" in said and attempt.step.then is None:
            yield attempt.ended(result=said["result"])
        elif "error" in said:
            yield attempt.ended(fault=Fault(status="failed", note=said["error"]))

    def _advance(self, handle: Any) -> Generator[Ended, None, None]:
        """Take what a task has to say."""
        attempt, self._moved = self._tries[handle], self.clock()
        try:
            said = self.ray.get(next(handle) if self.streams else handle)
        except StopIteration:
            said = {}
        except Exception as error:
            del self._tries[handle]
            yield from self._lost(attempt, fault_of(error, attempt.node.name if attempt.node else None))
            return
        if "node" in said:
            if said["node"] not in self._names:
                self._look()
            self._tries[handle] = replace(attempt, node=self._names.get(said["node"]))
            return
        del self._tries[handle]
        if "result" in said:
            if attempt.step.then is None:
                yield attempt.ended(result=said["result"])
            else:
                yield from self._begin(attempt.key, attempt.step.then(said["result"]), replace(attempt, count=0))
        elif "error" in said:
            yield attempt.ended(fault=Fault(status="failed", note=said["error"]))
        else:
            where = f" on {attempt.node.name}" if attempt.node else ""
            note = "; ".join((f"the process that measured it was killed{where}", *said.get("failures", ())))
            yield from self._lost(attempt, Fault(status="killed", note=note, again=True))

    def _lost(self, attempt: _Try, fault: Fault) -> Generator[Ended, None, None]:
        """Try again elsewhere, a few times."""
        count = attempt.count + 1
        if not fault.again or count >= (ALONE_TRIES if fault.status == "oom" else MOST_TRIES):
            again = f" (tried {count} times)" if count > 1 else ""
            yield attempt.ended(fault=replace(fault, note=f"{fault.note}{again}"))
            return
        self._look()
        avoid = (*attempt.avoid, attempt.node.id) if attempt.node else attempt.avoid
        before = replace(attempt, lost=(*attempt.lost, fault.note), avoid=avoid, count=count)
        step = attempt.step
        if fault.status == "oom":  # once more, with all the memory of a node for itself
            step = replace(step, need=step.need.alone())
        yield from self._begin(attempt.key, step, before)

    def _stranded(self) -> Generator[Ended, None, None]:
        """Tasks that wait for a node which is gone and that no other can stand in for are asked for anew, or given up."""
        for handle, attempt in list(self._tries.items()):
            if attempt.node is None and not any(attempt.ask.fits(node) for node in self._nodes):
                self._stop(handle)
                del self._tries[handle]
                yield from self._begin(attempt.key, attempt.step, attempt)

    def _say_waiting(self, now: float) -> None:
        """Say it while something waits and nothing of ours is in its way: once, and again when it still does."""
        if self._told is not None and now - self._told < AGAIN_SECONDS:
            return
        text = self._waiting(now) if self.streams else self._silent(now)
        if text:
            self._told = now
            self.say(text)

    def _waiting(self, now: float) -> str:
        """What has waited, and not for other points of ours on the nodes that could run it."""
        busy = {attempt.node for attempt in self._tries.values() if attempt.node is not None}
        stuck = [
            attempt
            for attempt in self._tries.values()
            if attempt.node is None
            and now - attempt.since >= PATIENCE_SECONDS
            and not any(attempt.ask.fits(node) for node in busy)
        ]
        if not stuck:
            return ""
        points = "a point" if len(stuck) == 1 else f"each of {len(stuck)} points"
        most = max(attempt.ask.memory_bytes or 0 for attempt in stuck)
        whole = next((f", all that {node.name} has" for node in self._nodes if node.memory_bytes == most), "")
        return f"waiting for a node: {points} {_wanted(stuck)}{whole}, and others hold them ('ray status')"

    def _silent(self, now: float) -> str:
        """Where a task cannot say that it has started: that none has ended."""
        if not self._tries or now - self._moved < AGAIN_SECONDS:
            return ""
        wanted = _wanted(list(self._tries.values()))
        return (
            f"nothing ended in the last {now - self._moved:.0f} s: points run, or wait for a node; each {wanted} "
            "('ray status' says what is free)"
        )

    def _stop(self, handle: Any) -> None:
        with suppress(Exception):  # gone already, or the whole cluster is
            self.ray.cancel(handle, force=True)

    def _cancel(self) -> None:
        """End all that is under way, and see it end."""
        handles = list(self._tries)
        for handle in handles:
            self._stop(handle)
        if handles:
            with suppress(Exception):
                self.ray.wait(handles, num_returns=len(handles), timeout=CANCEL_SECONDS)
        self._tries.clear()


def _wanted(tries: Sequence[_Try]) -> str:
    most = max(attempt.ask.memory_bytes or 0 for attempt in tries)
    gpus = max(attempt.ask.gpus for attempt in tries)
    gpu = f", {gpus} GPU{'s' * (gpus != 1)}" if gpus else ""
    memory = f" and up to {format_size(most)} of memory" if most else ""
    return f"asks for 1 CPU{gpu}{memory}"


def _strategy(avoid: Sequence[str]) -> Any:
    """Spread over the nodes; away from those where a try was lost, while there are others."""
    if not avoid:
        return "SPREAD"
    try:
        from ray.util.scheduling_strategies import NodeLabelSchedulingStrategy, NotIn
    except ImportError:
        return "SPREAD"
    return NodeLabelSchedulingStrategy(hard={}, soft={"ray.io/node-id": NotIn(*avoid)})
