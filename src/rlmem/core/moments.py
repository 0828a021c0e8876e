"""A run over time: what was seen at one moment, and what a series of moments means."""

from __future__ import annotations

from dataclasses import dataclass

from rlmem.core.holdings import Holding, Portion, Progress

#: normal: nothing grows; filling: what grows has a known end; leaking: something grows without one;
#: stuck: the program does nothing (no CPU time, and nothing changes); unknown: too short to tell.
STATES = ("unknown", "normal", "filling", "leaking", "stuck")


@dataclass(frozen=True, slots=True, kw_only=True)
class Moment:
    """One look. ``tree_bytes`` is what the processes hold together (PSS, or the best estimate between readings).

    ``holdings`` is None when owners were not asked this time (they are asked seldom, as that costs the target a little).
    ``portions`` is what of the largest process's memory has no owner, by class, looked at as seldom.
    """

    at_s: float
    tree_bytes: int
    rss_bytes: int
    uss_bytes: int | None = None
    vram_bytes: int | None = None
    processes: int = 1
    threads: int = 0
    cpu_s: float = 0.0
    idle_s: float = 0.0  # for how long none of them has taken CPU time, but to answer our questions
    limit_bytes: int | None = None  # what the tree may reach under the limit that will bite first
    limit_name: str = ""
    vram_limit_bytes: int | None = None
    cache_bytes: int | None = None  # file cache of a cgroup, not part of tree_bytes: given back when memory is short
    pressure: float | None = None  # PSI: share of the last 10 s in which something waited for memory
    progress: Progress | None = None
    holdings: tuple[Holding, ...] | None = None
    portions: tuple[Portion, ...] | None = None
    phase: str = ""  # collect, update, evaluate …, where the program's framework tells; else empty
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Growth:
    """How fast one thing grows: bytes a second with a range, and whether that is more than noise."""

    name: str
    bytes_per_s: float
    low: float
    high: float
    significant: bool
    items_per_s: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Forecast:
    """What it comes to: the size it will reach, or when the limit is reached; seconds from the last moment.

    ``fits`` is None where no limit is known, or where the range of the size has the limit in it.
    """

    final_bytes: int | None = None
    final_low_bytes: int | None = None
    final_high_bytes: int | None = None
    fits: bool | None = None
    full_in_s: float | None = None
    full_low_s: float | None = None
    full_high_s: float | None = None
    full_at_step: int | None = None
    oom_in_s: float | None = None
    oom_low_s: float | None = None
    oom_high_s: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """A verdict on a series, with its reasons in words and the owner that is to blame."""

    state: str
    reasons: tuple[str, ...] = ()
    culprit: str | None = None
    total: Growth | None = None
    residual: Growth | None = None
    owners: tuple[Growth, ...] = ()
    forecast: Forecast = Forecast()
