"""A guard in your own code: it looks at this process and its children, warns, and calls you before a limit is reached.

>>> from rlmem import guard  # doctest: +SKIP
>>> with guard(max_ram="15GB", on_pressure=save_and_stop) as watch:  # doctest: +SKIP
...     for step in range(steps):
...         train(step)
...         watch.check()
"""

from __future__ import annotations

import logging
import os
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

from rlmem.agent import pressure
from rlmem.core.moments import Moment
from rlmem.errors import UsageError
from rlmem.runner.guarding import ACT_AT, WARN_AT, Guard, Load, Policy, ram_load
from rlmem.units import parse_size
from rlmem.watch.sampling import Watch

#: A loop that does not call ``check()`` for so long is told about, and looked after from a thread.
OVERDUE_SECONDS = 30.0
#: The agent's own module, where ``rlmem run`` put it into this process.
_AGENT = "_rlmem_agent.pressure"
_LOG = logging.getLogger("rlmem")

#: What is done under pressure: a function that gets the load, or ``checkpoint``, or nothing but a warning.
Action = Callable[[Load], object] | str | None


class ProcessGuard:
    """Watches this process from within; made by :func:`guard`."""

    def __init__(
        self,
        policy: Policy,
        action: Action,
        model: Any,
        *,
        interval_s: float = 1.0,
        overdue_s: float = OVERDUE_SECONDS,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        #: The last look.
        self.moment: Moment | None = None
        self._action, self._model, self._policy = action, model, policy
        self._levels = Guard(policy)
        self._watch = Watch(pids=[os.getpid()], interval_s=interval_s, owners=False)
        self._interval, self._overdue, self._clock = interval_s, overdue_s, clock
        self._next = self._called = clock()
        self._pid = os.getpid()
        self._lock, self._stop = threading.Lock(), threading.Event()
        self._thread: threading.Thread | None = None
        self._desk: Any = None

    def __enter__(self) -> ProcessGuard:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def start(self) -> ProcessGuard:
        """Begin: a thread notices when ``check()`` is not called, and ``rlmem run`` learns whom to ask."""
        if self._thread is None:
            self._next = self._called = self._clock()
            self._thread = threading.Thread(target=self._look_after, name="rlmem-guard", daemon=True)
            self._thread.start()
            agent = sys.modules.get(_AGENT)
            if agent is not None and self._action is not None:
                self._desk = agent.desk
                self._desk.own = self
        return self

    def stop(self) -> None:
        """End the thread."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join()
        if self._desk is not None and self._desk.own is self:
            self._desk.own = None

    def check(self) -> None:
        """Call this in the loop, as often as you like: until the interval is over it compares two numbers.

        Under pressure the action runs here, in the thread that trains; what it raises comes out of this call.
        """
        now = self._clock()
        if self._desk is not None and self._desk.wanted is not None:
            self._called = now
            self._desk.take(self._asked)
        if now < self._next or os.getpid() != self._pid:  # a forked worker is looked at by its parent
            return
        self._called = now
        for level, load in self._look(now):
            if level == "warn":
                _LOG.warning("%s", load.sentence())
            else:
                self._act(load)

    @property
    def load(self) -> Load | None:
        """How near the limit memory was at the last look; None where no limit is known."""
        return ram_load(self._policy, self.moment) if self.moment is not None else None

    def _look(self, now: float) -> list[tuple[str, Load]]:
        with self._lock:
            self._next = now + self._interval
            self.moment = self._watch.sample()
            return [(alarm.level, alarm.load) for alarm in self._levels.look(self.moment)]

    def _act(self, load: Load) -> object:
        if self._action is None:
            _LOG.warning("%s; nothing was asked to be done (on_pressure)", load.sentence())
            return None
        if callable(self._action):
            _LOG.warning("%s: calling %s", load.sentence(), getattr(self._action, "__name__", "on_pressure"))
            return self._action(load)
        told = pressure.save(self._model, self._policy.checkpoint_to)
        _LOG.warning("%s: checkpoint saved in %s", load.sentence(), told["folder"])
        return told

    def _asked(self, folder: str) -> object:
        """``rlmem run`` wants something done; the program's own function comes before anything else."""
        if not callable(self._action):
            return pressure.save(self._model, folder)
        self._look(self._clock())
        load = self.load
        return self._action(load) if load is not None else None

    def _look_after(self) -> None:
        """In a thread: when the loop is stuck somebody should still say so."""
        told = False
        while not self._stop.wait(self._interval):
            now = self._clock()
            late = now - self._called
            if late < self._overdue:
                told = False
                continue
            if not told:
                _LOG.warning("check() was not called for %.0f s: the loop is stuck, or in a long step", late)
                told = True
            for _, load in self._look(now):
                _LOG.warning("%s; the loop does not call check(), so nothing can be done in it", load.sentence())


def guard(
    max_ram: str | int | None = None,
    *,
    warn_at: float = WARN_AT,
    act_at: float = ACT_AT,
    on_pressure: Action = None,
    model: Any = None,
    checkpoint_to: str | os.PathLike[str] = "rlmem-checkpoints",
    interval_s: float = 1.0,
) -> ProcessGuard:
    """Guard this process and its children against ``max_ram``, and against what its cgroup and the machine leave.

    ``on_pressure`` is called once, from ``check()``, with a :class:`rlmem.runner.guarding.Load` when ``act_at`` of the
    limit is used, and again only after memory has fallen; ``"checkpoint"`` saves an SB3 ``model`` and its replay buffer.
    Use the result as a context, or call ``start()`` and ``stop()``.
    """
    if not (callable(on_pressure) or on_pressure in (None, "checkpoint")):
        raise UsageError(f"on_pressure={on_pressure!r}: give a function, 'checkpoint' or None")
    if on_pressure == "checkpoint" and not hasattr(model, "save"):
        raise UsageError("on_pressure='checkpoint' needs the model to save: guard(…, model=model)")
    if not 0 < warn_at <= act_at <= 1:
        raise UsageError(
            f"warn_at={warn_at:g} and act_at={act_at:g} must be shares of the limit, the first not above the second"
        )
    policy = Policy(
        max_ram_bytes=None if max_ram is None else parse_size(max_ram),
        warn_at=warn_at,
        act_at=act_at,
        action="none",
        checkpoint_to=os.path.abspath(checkpoint_to),
    )
    return ProcessGuard(policy, on_pressure, model, interval_s=interval_s)
