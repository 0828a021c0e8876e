"""What a recording carries beside its moments: the model's own facts, from which a report makes a prediction, and who
its processes were at the largest look.

The facts are asked for in a thread of their own. Nobody waits for it, and whatever fails in it only means that there is
no prediction.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any, cast

from rlmem.agent import PROTOCOL
from rlmem.agent.children import printable
from rlmem.agent.protocol import BufferFacts, DescribeAnswer, DescribedFacts, StoreFacts
from rlmem.core.moments import Moment
from rlmem.documents.moment import MemberPart
from rlmem.process import attach
from rlmem.units import KIB
from rlmem.watch.members import Member

#: Facts are a few KiB; more (a space of thousands of keys) has no place in every report of the run.
MOST_FACTS_BYTES = 64 * KIB
MOST_MEMBERS = 64
LONGEST_COMMAND = 200
#: Asked so often as soon as somebody learns, and after that only when owners are looked at: a model that cannot be
#: described now is seldom one that can be a second later.
EARLY_TRIES = 5
#: Questions are at least so far apart.
LEAST_SECONDS = 1.0
#: How long the program's main thread may take to come to it. The agent answers one question at a time, and the guard,
#: which may want a checkpoint meanwhile, gives up after a second.
WAIT_SECONDS = 0.3
ANSWER_SECONDS = 5.0
#: What a description of the run is made of (:func:`rlmem.trace.describe.from_facts`).
MODEL = (
    "algorithm",
    "bases",
    "package",
    "policy",
    "policy_kwargs",
    "observation",
    "action",
    "settings",
    "optimizers",
    "n_envs",
    "env",
    "stacks",
    "device",
    "learner_device",
    "total_timesteps",
)
STORE = ("options", "n_steps", "prioritised_bytes")


def describe(pid: int) -> DescribeAnswer:
    """What the agent of a process says of the model it trains."""
    answer: DescribeAnswer = attach.ask(pid, {"ask": "describe", "wait": WAIT_SECONDS}, timeout_s=ANSWER_SECONDS)
    return answer


def kept_facts(facts: DescribedFacts) -> DescribedFacts | None:
    """The facts that a description needs: plain JSON of at most ``MOST_FACTS_BYTES``; None without a model, or above that.

    Of buffers the class, the names of the arrays and the options of a compact store stay; sizes, addresses and networks
    do not, as the prediction must not be made of what was measured.
    """
    try:
        model = facts["model"]
        kept: dict[str, Any] = {name: value for name in MODEL if (value := model.get(name)) is not None}
        kept["buffers"] = {name: _buffer(buffer) for name, buffer in model.get("buffers", {}).items()}
        versions = facts.get("versions") or {}
        text = json.dumps({"protocol": PROTOCOL, "model": kept, "versions": versions}, allow_nan=False)
    except (AttributeError, KeyError, TypeError, ValueError, RecursionError):
        return None
    plain: DescribedFacts = json.loads(text)
    return plain if len(text) <= MOST_FACTS_BYTES else None


def _buffer(buffer: BufferFacts) -> BufferFacts:
    kept: BufferFacts = {"class": buffer["class"], "arrays": [{"name": row["name"]} for row in buffer["arrays"]]}
    if store := buffer.get("store"):
        options: Mapping[str, Any] = store
        kept["store"] = cast("StoreFacts", {name: options[name] for name in STORE if name in options})
    return kept


def member_parts(members: Sequence[Member]) -> tuple[MemberPart, ...]:
    """The processes as recordings have them, largest first, at most ``MOST_MEMBERS``; PSS and USS as last read."""
    return tuple(
        MemberPart(
            pid=member.pid,
            role=member.role,
            command=printable(member.command)[:LONGEST_COMMAND],
            rss_bytes=member.rss_bytes,
            pss_bytes=member.pss_bytes,
            uss_bytes=member.uss_bytes,
            threads=member.threads,
        )
        for member in sorted(members, key=lambda member: -member.rss_bytes)[:MOST_MEMBERS]
    )


class RunFacts:
    """Gathers the facts of the model and the processes at the largest look, as a run goes on."""

    def __init__(self, ask: Callable[[int], DescribeAnswer] = describe) -> None:
        #: The facts, once a model was met.
        self.described: DescribedFacts | None = None
        self.members: tuple[MemberPart, ...] = ()
        self._ask = ask
        self._largest, self._tries, self._asked_s = 0, 0, -LEAST_SECONDS
        self._thread: threading.Thread | None = None
        self._is_done = False
        self._told: dict[str, Any] = {}

    def look(
        self, moment: Moment, members: Sequence[Member], steps: Mapping[int, int], *, is_calm: bool = True
    ) -> dict[str, Any]:
        """Take one look; what is new in it and to be kept.

        ``steps`` are those of the processes that learn: a model that was only loaded would have a training predicted that
        never comes. Nothing is asked while the guard has to act.
        """
        if members and moment.tree_bytes > self._largest:
            self._largest, self.members = moment.tree_bytes, member_parts(members)
        learner = max((m.pid for m in members if steps.get(m.pid, -1) >= 0), key=lambda pid: steps[pid], default=None)
        if learner is not None and is_calm and self._is_due(moment):
            self._tries, self._asked_s = self._tries + 1, moment.at_s
            self._thread = threading.Thread(target=self._meet, args=(learner,), name="rlmem-model", daemon=True)
            self._thread.start()
        now = {"described": self.described, "members": self.members}
        new = {name: value for name, value in now.items() if value and value is not self._told.get(name)}
        self._told = now
        return new

    def _is_due(self, moment: Moment) -> bool:
        if self._is_done or (self._thread is not None and self._thread.is_alive()):
            return False
        wanted = self._tries < EARLY_TRIES or moment.holdings is not None
        return wanted and moment.at_s - self._asked_s >= LEAST_SECONDS

    def _meet(self, pid: int) -> None:
        with suppress(Exception):  # whatever fails here costs the prediction, never the run
            facts = self._ask(pid)
            if facts.get("model"):
                self.described, self._is_done = kept_facts(facts), True
