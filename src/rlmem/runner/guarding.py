"""When a run comes near a limit: which limit, how near, and what was asked to be done then. No clocks, no processes."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from dataclasses import dataclass, field

from rlmem.core.moments import Moment
from rlmem.documents.parts import part_of
from rlmem.documents.recorded import PolicyPart
from rlmem.errors import UsageError
from rlmem.units import format_size

ACTIONS = ("none", "stop", "checkpoint", "signal")
WARN_AT, ACT_AT = 0.80, 0.92
GRACE_SECONDS = 30.0
#: A level is left again when the load is this far beneath it, so that one at the edge is told once.
RELEASE = 0.95


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """What was asked for. Without ``max_ram_bytes`` the limit that the machine itself sets is watched."""

    max_ram_bytes: int | None = None
    max_vram_bytes: int | None = None
    max_threads: int | None = None
    warn_at: float = WARN_AT
    act_at: float = ACT_AT
    action: str = "none"
    signal: int = int(signal.SIGUSR1)
    grace_s: float = GRACE_SECONDS
    checkpoint_to: str = ""

    def part(self) -> PolicyPart:
        """Return the same as documents and the store have it."""
        return part_of(PolicyPart, self)


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """One thing that has a limit: ``RAM``, ``VRAM`` or ``threads``, and how much of it is used."""

    what: str
    used: int
    limit: int
    name: str

    @property
    def share(self) -> float:
        """Used of what there may be."""
        return self.used / max(1, self.limit)

    def sentence(self) -> str:
        """One line."""
        if self.what == "threads":
            return f"{self.used} threads, over the {self.limit} of {self.name}"
        return f"{self.what} at {self.share:.0%} of {self.name}: {format_size(self.used)} of {format_size(self.limit)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Alarm:
    """A level that was reached: ``warn`` or ``act``."""

    level: str
    load: Load


def parse_action(text: str) -> tuple[str, int]:
    """``checkpoint``, ``stop``, ``none``, ``signal`` or ``signal:USR1``; the action and the signal's number.

    >>> parse_action("signal:usr2")[0], parse_action("stop")[0]
    ('signal', 'stop')
    """
    action, _, name = text.partition(":")
    if action not in ACTIONS or (name and action != "signal"):
        raise UsageError(f"--on-pressure {text}: use {', '.join(ACTIONS)} or signal:NAME such as signal:USR1")
    if not name:
        return action, int(signal.SIGUSR1)
    word = name.upper()
    known = {each.name: int(each) for each in signal.Signals}
    number = known.get(word) or known.get(f"SIG{word}") or (int(word) if word.isdecimal() else 0)
    if number not in known.values():
        raise UsageError(f"--on-pressure {text}: no signal is called {name}; use one such as USR1, INT or TERM")
    return action, number


def loads(policy: Policy, moment: Moment) -> Iterator[tuple[Load, bool]]:
    """What has a limit at this moment, and whether reaching it is acted upon or only told.

    The smaller of ``--max-ram`` and what cgroup and machine leave counts. VRAM is acted upon against ``--max-vram``
    only: torch's cache may fill a card that is nowhere near its end.
    """
    limits = ((policy.max_ram_bytes, "--max-ram"), (moment.limit_bytes, moment.limit_name))
    known = [(nbytes, name) for nbytes, name in limits if nbytes]
    if known:
        nbytes, name = min(known, key=lambda limit: limit[0])
        yield Load(what="RAM", used=moment.tree_bytes, limit=nbytes, name=name or "the limit"), True
    if moment.vram_bytes is not None:
        card = moment.vram_limit_bytes
        if policy.max_vram_bytes and (not card or policy.max_vram_bytes <= card):
            yield Load(what="VRAM", used=moment.vram_bytes, limit=policy.max_vram_bytes, name="--max-vram"), True
        elif card:
            yield Load(what="VRAM", used=moment.vram_bytes, limit=card, name="the GPU"), False
    if policy.max_threads:
        yield Load(what="threads", used=moment.threads, limit=policy.max_threads, name="--max-threads"), True


def ram_load(policy: Policy, moment: Moment) -> Load | None:
    """How much of the RAM that it may have a run uses; None where no limit is known."""
    return next((load for load, _ in loads(policy, moment) if load.what == "RAM"), None)


@dataclass(slots=True)
class Guard:
    """Which levels were reached; each is told once, and again only after it was left."""

    policy: Policy
    _reached: dict[str, int] = field(default_factory=dict)

    def look(self, moment: Moment) -> tuple[Alarm, ...]:
        """The levels that are newly reached at this moment."""
        alarms = []
        for load, acts in loads(self.policy, moment):
            alarms += [Alarm(level=level, load=load) for level in self._newly(load, acts)]
        return tuple(alarms)

    def over(self, moment: Moment) -> Load | None:
        """The load that is at the act level now, told already or not."""
        for load, acts in loads(self.policy, moment):
            if acts and self._level(load) == 2:
                return load
        return None

    def next_bytes(self, moment: Moment) -> int | None:
        """The tree's size at which a look before its time is worth it."""
        load = ram_load(self.policy, moment)
        levels = (self.policy.warn_at, self.policy.act_at) if load else ()
        shares = [share for share in levels if load and share > load.share]
        return round(min(shares) * load.limit) if load and shares else None

    def _newly(self, load: Load, acts: bool) -> Iterator[str]:
        before, now = self._reached.get(load.what, 0), self._level(load)
        if now < before:  # left only when clearly left
            now = max(now, self._level(load, 1 / RELEASE))
        self._reached[load.what] = now
        if now >= 1 and before < 1:
            yield "warn"
        if now >= 2 and before < 2 and acts:
            yield "act"

    def _level(self, load: Load, factor: float = 1.0) -> int:
        if load.what == "threads":
            return 2 if load.used * factor > load.limit else 0
        share = load.share * factor
        return 2 if share >= self.policy.act_at else 1 if share >= self.policy.warn_at else 0
