"""What was found, in sentences."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median

from rlmem.core.amounts import count, items, of_limit, rate
from rlmem.core.moments import Forecast, Growth, Moment
from rlmem.units import format_duration, format_size
from rlmem.watch.growth import Trend
from rlmem.watch.owners import Owner
from rlmem.watch.shapes import Shape

#: What to do about tensors that are kept with their graph.
DETACH = "store loss.item() or tensor.detach() instead"


def durations(seconds: float, low: float | None, high: float | None) -> str:
    """A time with its range, where that says more.

    >>> durations(180, 100, 400), durations(180, 179, 181)
    ('3 min (2 min–7 min)', '3 min')
    """
    middle = format_duration(seconds)
    ends = [format_duration(each) for each in (low, high) if each is not None]
    return f"{middle} ({'–'.join(ends)})" if len(ends) == 2 and ends != [middle, middle] else middle


def rates(growth: Growth) -> str:
    """A rate with its range, where that says more.

    >>> rates(Growth(name="", bytes_per_s=7e5, low=6e5, high=8e5, significant=True))
    '40.1 MiB/min (34.3–45.8)'
    """
    low, middle, high = (rate(each) for each in (growth.low, growth.bytes_per_s, growth.high))
    if low == middle == high:
        return middle
    bare = low.partition(" ")[0] if low.partition(" ")[2] == middle.partition(" ")[2] else low
    return f"{middle} ({bare}–{high.partition(' ')[0] if high.partition(' ')[2] == middle.partition(' ')[2] else high})"


def fills(forecast: Forecast, limit_bytes: int | None, *, end_in_s: float | None = None) -> str:
    """``fills at step 1.0 M in 3 h 10: 20.1 GiB (19.9–20.4) of 24: fits``; a run that ends before is said to."""
    at = f" at step {count(forecast.full_at_step)}" if forecast.full_at_step is not None else ""
    when = (
        f" in {durations(forecast.full_in_s, forecast.full_low_s, forecast.full_high_s)}"
        if forecast.full_in_s is not None
        else ""
    )
    head = f"fills{at}{when}"
    if end_in_s is not None and forecast.full_in_s is None:
        head = f"fills until the run ends in {format_duration(end_in_s)}"
    if forecast.final_bytes is None:
        return head
    low, high = forecast.final_low_bytes, forecast.final_high_bytes
    size = of_limit(forecast.final_bytes, limit_bytes, low, high)
    if forecast.fits is None:
        may = limit_bytes is not None and high is not None and high > limit_bytes
        return f"{head}: {size}" + (": may not fit" if may else "")
    return f"{head}: {size}: " + ("fits" if forecast.fits else f"does not fit{_out(forecast, ', ')}")


def _out(forecast: Forecast, lead: str) -> str:
    if forecast.oom_in_s is None:
        return ""
    return f"{lead}OOM in {durations(forecast.oom_in_s, forecast.oom_low_s, forecast.oom_high_s)}"


def whose(owner: Owner | None) -> str:
    """``, owner: `self.episode_infos` (list, +3.1 k/min)``."""
    if owner is None:
        return ", no owner known"
    speed = items(owner.growth.items_per_s) if owner.growth.items_per_s else rate(owner.growth.bytes_per_s)
    return f", owner: `{owner.name}` ({owner.type or owner.kind}, {speed})"


def leaks(growth: Growth, forecast: Forecast, owner: Owner | None) -> str:
    """``residual grows 41 MiB/min outside any buffer: leak suspected, OOM in …, owner: …``."""
    end = _out(forecast, ", ")
    if not end and forecast.fits:
        end = ", the run ends before the limit is reached"
    outside = " outside any buffer" if growth.name == "residual" else ""
    return f"{growth.name} grows {rate(growth.bytes_per_s)}{outside}: leak suspected{end}{whose(owner)}"


def evidence(trend: Trend, owner: Owner | None, looks: int, share: float) -> str:
    """How sure: for how long it was seen, the range of the pace, and what share of it the owner took."""
    seen = f"seen for {format_duration(trend.seconds)} at {_between(trend.low, trend.high)}"
    if owner is None:
        return f"{seen}; no owner grew with it in {looks} looks: native memory, or objects that no walk reaches"
    if owner.keeps_graphs and share < 0.5:
        return f"{seen}; `{owner.name}` grew in every look, the rest of the growth has no owner: the graphs it keeps"
    return f"{seen}; `{owner.name}` took {_share(share)} of it in {looks} looks"


def _between(low: float, high: float) -> str:
    ends = rate(low), rate(high)
    return ends[0] if ends[0] == ends[1] else f"{ends[0]} to {ends[1]}"


def _share(share: float) -> str:
    return "all" if share >= 0.995 else f"{share:.0%}".replace("%", " %")


def still(seconds: float) -> str:
    """A program that does nothing."""
    return f"no CPU time and no change for {format_duration(seconds)}"


def too_short(shape: Shape | None, samples: int, fewest: int, largest: tuple[Owner, float] | None = None) -> str:
    """Not enough samples for a verdict, with what they show and whose it is."""
    text = f"too short to tell: {samples} of {fewest} samples"
    if shape is None or shape.name == "flat":
        return text
    return f"{text}; so far {_from_to(shape)} in {format_duration(shape.seconds)}{_taken(largest)}"


def _from_to(shape: Shape) -> str:
    if shape.name == "wave":
        return f"between {format_size(shape.low_bytes)} and {format_size(shape.high_bytes)}"
    return f"from {format_size(shape.low_bytes)} to {format_size(shape.high_bytes)}"


def shaped(shape: Shape) -> str:
    """A total that does not grow now, and what it did."""
    over = f"over {format_duration(shape.seconds)}"
    if shape.name == "flat":
        return f"nothing grows {over}"
    if shape.name == "wave":
        return f"comes and goes {_from_to(shape)}, and does not grow {over}"
    return f"rose {_from_to(shape)}, and nothing grew in the last {format_duration(shape.flat_s)}"


def more_threads(first: int, last: int) -> str:
    """Threads that are started and never end."""
    return f"threads rose from {first:,} to {last:,}: join them, or use a pool"


def is_full(owner: Owner, shape: Shape) -> str:
    """A store that has no room left, and what it took."""
    rows = f"{owner.now.capacity or 0:,}"
    return (
        f"`{owner.name}` is full ({rows} of {rows}, {format_size(owner.now.resident_bytes)}): "
        f"grew {format_size(shape.gained_bytes)} in {format_duration(shape.seconds)}, and no room is left in it"
    )


def slows(shape: Shape) -> str:
    """Growth that dies out."""
    gained = format_size(shape.gained_bytes)
    return f"grew {gained} in {format_duration(shape.seconds)}, and slows down: {rate(shape.late_per_s)} by now"


def may_grow(shape: Shape, largest: tuple[Owner, float] | None) -> str:
    """A rise that is not proven to go on."""
    return (
        f"rose {_from_to(shape)} in {format_duration(shape.seconds)}, unevenly{_taken(largest)}: "
        "too early to say whether it goes on"
    )


def _taken(largest: tuple[Owner, float] | None) -> str:
    if largest is None:
        return ""
    owner, share = largest
    return (
        f", {'most' if share < 0.995 else 'all'} of it in `{owner.name}`" if share >= 0.5 else f", `{owner.name}` grows"
    )


def keeps_graphs(owner: Owner) -> str:
    """What tensors with a graph cost, and what to do."""
    return (
        f"`{owner.name}` keeps tensors together with the graph they came from, which keeps every activation: {DETACH}"
    )


def added(owner: Owner) -> str:
    """``it grows at train.py:38: losses.append(loss)``."""
    return f"`{owner.name}` grows at {owner.added_at}"


def without_names(growth: Growth, forecast: Forecast) -> str:
    """Growth that cannot be told apart into a filling buffer and a leak."""
    return (
        f"total grows {rate(growth.bytes_per_s)}{_out(forecast, ', if that goes on: ')}; whether a buffer fills or "
        "something leaks cannot be told without names of owners"
    )


def outsized(moment: Moment, siblings: Sequence[int]) -> str:
    """One process against others that run the same command."""
    usual = int(median(siblings))
    return (
        f"holds {format_size(moment.tree_bytes)}, {moment.tree_bytes / max(1, usual):.0f} times the "
        f"{format_size(usual)} of {len(siblings)} others that run the same command"
    )


def how_full(owner: Owner) -> str:
    """The store that fills: ``allocated 39.7 GiB, resident 3.1 GiB, 7.8 % full``."""
    now = owner.now
    share = now.filled / now.capacity if now.filled is not None and now.capacity else None
    full = f"{share:.1%}".replace("%", " %") + " full" if share is not None else "filling"
    return f"`{owner.name}`: allocated {format_size(now.nbytes)}, resident {format_size(now.resident_bytes)}, {full}"


def too_early(
    growth: Growth,
    seconds: float,
    largest: tuple[Owner, float] | None,
    *,
    looks: int,
    wait_s: float,
    forecast: Forecast | None = None,
) -> str:
    """Growth that is not called a leak yet: how fast, for how long, in whom, and when that will be known."""
    text = f"{growth.name} grows {rates(growth)} for {format_duration(seconds)}"
    end = _out(forecast, ", ") if forecast else ""
    text += f"{end} if that goes on" if end else ""
    if largest is not None:
        owner, share = largest
        return (
            f"{text}; `{owner.name}` takes {_share(share)} of it so far, in {len(owner.points)} looks: "
            "too few to call it a leak"
        )
    if looks < 3:
        return f"{text}; owners were asked {looks} times only: too early to say whose it is"
    soon = f"; a leak if it lasts {format_duration(wait_s)} longer" if wait_s > 0 else ""
    return f"{text}; no owner grew with it in {looks} looks: too early to call a leak{soon}"
