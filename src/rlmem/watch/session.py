"""A watch with its history and its verdict: what every way of showing it is fed from."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from rlmem.agent import proc
from rlmem.core.holdings import Holding, Portion
from rlmem.core.moments import Judgement, Moment
from rlmem.process import processes
from rlmem.watch.census import Census
from rlmem.watch.growth import FEWEST
from rlmem.watch.history import History
from rlmem.watch.holders import read_holders
from rlmem.watch.judge import before_end, judge
from rlmem.watch.members import Member
from rlmem.watch.owners import fold, keeps_graphs
from rlmem.watch.pacing import Pacer
from rlmem.watch.sampling import Watch

#: In samples: a verdict is taken this far apart at least.
JUDGE_EVERY, SIBLINGS_EVERY = 5, 60
NOT_YET = Judgement(state="unknown", reasons=("just begun",))


@dataclass(frozen=True, slots=True, kw_only=True)
class Frame:
    """All there is to show of one watch after one sample."""

    title: str
    command: str
    moment: Moment
    judgement: Judgement
    members: tuple[Member, ...]
    holdings: tuple[Holding, ...] | None  # as they were last seen; None when nobody could be asked so far
    portions: tuple[Portion, ...] = ()  # likewise


class Session:
    """One watch over time."""

    def __init__(
        self,
        watch: Watch,
        *,
        pid: int | None = None,
        census: Census | None = None,
        interval_s: float = 1.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.watch, self.history = watch, History()
        self.judgement = NOT_YET
        self._clock, self._census, self._pid = clock, census, pid
        self._siblings: Sequence[int] = ()
        self._holdings: tuple[Holding, ...] | None = None
        self._portions: tuple[Portion, ...] = ()
        self._judging = Pacer("judge", JUDGE_EVERY, interval_s)
        self._counting = Pacer("siblings", SIBLINGS_EVERY, interval_s)

    def step(self) -> Frame:
        """Sample, and judge when it is time; raises :class:`rlmem.watch.sampling.Ended` at the end."""
        moment = self.watch.sample()
        self.history.add(moment)
        if moment.holdings is not None:
            found = read_holders(self.history.moments).get(moment.at_s, ())
            graphs = {held.path: held for held in found if keeps_graphs(held)}
            self._holdings = tuple(graphs.get(held.path, held) for held in fold(moment.holdings))
        if moment.portions is not None:
            self._portions = moment.portions
        now = self._clock()
        if self._judging.is_due(now):
            with self._judging.work(now):
                self.decide()
        return self.frame(moment)

    def decide(self, *, has_ended: bool = False) -> Judgement:
        """The verdict on everything seen so far, or on a run that has ended."""
        now = self._clock()
        if self._pid is not None and self._census is not None and self._counting.is_due(now):
            with self._counting.work(now):
                self._siblings = sibling_sizes(self._pid, self._census)
        moments = self.history.moments
        moments = before_end(moments) if has_ended else moments
        self.judgement = judge(moments, self._siblings)
        total = self.judgement.total
        # Until enough is known, and whenever something grows, owners are worth asking for.
        self.watch.is_growing = len(moments) < FEWEST or self.judgement.state != "normal" or bool(
            total and total.significant
        )  # fmt: skip
        return self.judgement

    def frame(self, moment: Moment) -> Frame:
        """What there is to show now."""
        members = self.watch.members
        return Frame(
            title=self.watch.title,
            command=members[0].command if members else "",
            moment=moment,
            judgement=self.judgement,
            members=members,
            holdings=self._holdings,
            portions=self._portions,
        )


def sibling_sizes(pid: int, census: Census) -> tuple[int, ...]:
    """RSS of the trees of other processes that run the same command; more than they hold if they share pages."""
    process = processes.read_process(pid, root=census.root)
    if process is None:
        return ()
    found = processes.siblings(process, root=census.root)
    numbers = {each.pid for each in found}
    tops = [each for each in found if each.parent not in numbers]  # a forked worker has its parent's command
    return tuple(
        proc.rss(each.pid, census.root) + sum(proc.rss(below, census.root) for below, _ in census.below([each.pid]))
        for each in tops
    )
