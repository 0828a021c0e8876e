"""Owners, asked for in a thread of their own: an agent that takes its time holds up no sample."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Container, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

from rlmem.core.holdings import Explanation, Holding, Portion, Progress
from rlmem.errors import AnalysisError
from rlmem.watch.members import Member

#: The main process, and this many of the largest others that have an agent.
OTHERS = 2
#: One that was asked before is asked again until another is so much larger: of many workers of one size the largest
#: changes from look to look, and none would have a history.
FAITHFUL = 1.5
HOW_TO_NAME = "no names of owners: start the program with 'rlmem run -- …', or put 'import rlmem.preload' into it"


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What was learnt; ``holdings`` is None when nobody could be asked. ``cost_s`` is CPU time, ours and the target's.

    ``portions`` are the classes of the largest process's memory that has no owner; they need no agent.
    """

    holdings: tuple[Holding, ...] | None = None
    portions: tuple[Portion, ...] | None = None
    progress: Progress | None = None
    cost_s: float = 0.0
    notes: tuple[str, ...] = ()
    asked: frozenset[int] = frozenset()


#: Explains one process; raises an AnalysisError when it cannot.
Explain = Callable[[int], Explanation]


def has_agent(pid: int) -> bool:
    """Whether a process can be asked for names, without harm and without waiting."""
    from rlmem.process import attach
    from rlmem.process.processes import read_process

    process = read_process(pid)
    return process is not None and (hasattr(sys, "remote_exec") or attach.agent_socket(process) is not None)


def explain(pid: int) -> Explanation:
    """The owners of one process."""
    from rlmem.process.explain import explain_process

    return explain_process(pid)


def ask(
    members: Sequence[Member],
    explain_one: Explain = explain,
    can_ask: Callable[[int], bool] = has_agent,
    before: Container[int] = frozenset(),
) -> Answer:
    """The owners of the main process, and of the largest others; theirs begin with who they are.

    Those asked ``before`` are asked again unless others are much larger.
    """
    begin = time.thread_time()
    sizes = {member.pid: member.rss_bytes * (FAITHFUL if member.pid in before else 1.0) for member in members}
    main, rest = members[0], sorted(members[1:], key=lambda member: -sizes[member.pid])
    asked, paused = list[tuple[Member, Explanation]](), 0.0
    notes: list[str] = []
    largest = max(members, key=lambda member: member.rss_bytes)  # the first may only have started it
    portions: tuple[Portion, ...] | None = None
    for member in (main, *(other for other in rest if can_ask(other.pid))):
        if len(asked) > OTHERS or (member is main and not can_ask(member.pid)):
            continue
        try:
            found = explain_one(member.pid)
        except AnalysisError as error:
            notes.append(str(error))
            continue
        paused += found.paused_s
        if member is largest:
            portions = portions_of(found)
        if found.way == "pages":
            notes += found.notes
        else:
            asked.append((member, found))
    if portions is None:
        with suppress(AnalysisError):
            portions = portions_of(explain_one(largest.pid))
    cost = time.thread_time() - begin + paused
    if not asked:
        return Answer(portions=portions, cost_s=cost, notes=tuple(dict.fromkeys(notes or [HOW_TO_NAME])))
    holdings = tuple(
        held if member is main else replace(held, path=f"{member.role} {member.pid}: {held.path}")
        for member, found in asked
        for held in found.holdings
    )
    progress = next((found.progress for _, found in asked if found.progress is not None), None)
    pids = frozenset(member.pid for member, _ in asked)
    return Answer(holdings=holdings, portions=portions, progress=progress, cost_s=cost, notes=tuple(notes), asked=pids)


def portions_of(found: Explanation) -> tuple[Portion, ...]:
    """What of a process's memory has no owner: its classes, and what has none."""
    rest = Portion(name="unexplained", resident_bytes=found.unexplained_bytes)
    return (*found.portions, *([rest] if rest.resident_bytes > 0 else []))


class Asking:
    """One question at a time, in the background."""

    def __init__(self, ask_all: Callable[[Sequence[Member]], Answer] | None = None) -> None:
        self._before = frozenset[int]()
        self._ask = ask_all or (lambda members: ask(members, before=self._before))
        self._thread: threading.Thread | None = None
        self._answer: Answer | None = None

    @property
    def is_busy(self) -> bool:
        """Whether an answer is still to come, or to be taken."""
        return self._thread is not None

    def start(self, members: Sequence[Member]) -> None:
        """Ask now."""
        self._thread = threading.Thread(target=self._work, args=(tuple(members),), name="rlmem-owners", daemon=True)
        self._thread.start()

    def take(self) -> Answer | None:
        """The answer, once, when it is there."""
        if self._thread is None or self._thread.is_alive():
            return None
        self._thread = None
        answer, self._answer = self._answer, None
        self._before = answer.asked if answer else frozenset()
        return answer or Answer(notes=("owners could not be asked",))

    def _work(self, members: Sequence[Member]) -> None:
        self._answer = self._ask(members)
