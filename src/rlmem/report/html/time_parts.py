"""A run over time in pictures: who held what at each moment, the limit, thresholds. Reports and the live page draw the same."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from typing import Any

from rlmem.report.html.chart import HEADROOM, Area, Chart, Level, Line, draw, legend
from rlmem.report.html.markup import Child, element
from rlmem.report.html.scale import Scale
from rlmem.units import format_size
from rlmem.watch.words import duration

#: Owners with colours of their own; the rest is drawn as one.
MOST_OWNERS = 6
#: More moments than this are not told apart on any screen.
MOST_POINTS = 400
_LOOKS = ("of-replay", "of-learner", "of-rollout", "of-workers", "of-batch", "of-eval")


def memory_chart(
    moments: Sequence[Mapping[str, Any]],
    *,
    label: str,
    thresholds: Sequence[tuple[int, str]] = (),
    reach: int | None = None,
    foretold: Sequence[Mapping[str, float]] = (),
) -> list[Child]:
    """Resident memory of a tree over time, by owner where owners were asked, under the limit.

    ``reach`` is a size the run is expected to come to; the chart has room for it. ``foretold`` is what was predicted by
    the step of each moment.
    """
    shown = thinned(moments)
    if len(shown) < 2:
        return [element("p", {"class": "note"}, "Too few moments for a picture yet.")]
    names = _largest_owners(shown)
    areas, rows = _owner_areas(shown, names)
    total = tuple((moment["at_s"], float(moment["tree_bytes"])) for moment in shown)
    limits = [moment["limit_bytes"] for moment in shown if moment.get("limit_bytes")]
    limit = limits[-1] if limits else None
    low, expected, high = (
        tuple((row["at_s"], row[key]) for row in foretold) for key in ("low_bytes", "expected_bytes", "high_bytes")
    )
    top = HEADROOM * max(*(size for _, size in (*total, *high)), reach or 0, 1)
    levels = []
    if limit and limit <= 3 * top:
        levels.append(Level(at=limit, label=f"limit {format_size(limit)}"))
    levels += [Level(at=nbytes, label=words, look="threshold") for nbytes, words in thresholds if nbytes <= 3 * top]
    first, last = shown[0]["at_s"], shown[-1]["at_s"]
    chart = Chart(
        label=label,
        x=Scale(low=first, high=max(last, first + 1)),
        x_ticks=time_ticks(first, max(last, first + 1)),
        high=max(top, *(HEADROOM * level.at for level in levels), 1),
        areas=(*areas, *((Area(look="range", lower=low, upper=high, title="predicted"),) if foretold else ())),
        lines=(Line(look="total", points=total), *((Line(look="foretold", points=expected),) if foretold else ())),
        levels=tuple(levels),
    )
    rows += [("range", "predicted (dashed) and its range")] if foretold else []
    far = f"The limit, {format_size(limit)}, is far above." if limit and limit > 3 * top else ""
    return [draw(chart), element("p", {"class": "note"}, far) if far else None, legend(rows)]


def thinned(moments: Sequence[Mapping[str, Any]], most: int = MOST_POINTS) -> list[Mapping[str, Any]]:
    """Moments for a picture: in each of as many spans of time the largest one, and the last of all."""
    if len(moments) <= most:
        return list(moments)
    first, span = moments[0]["at_s"], max(moments[-1]["at_s"] - moments[0]["at_s"], 1e-9)
    best: dict[int, Mapping[str, Any]] = {}
    for moment in moments:
        slot = int((moment["at_s"] - first) / span * (most - 1))
        if slot not in best or moment["tree_bytes"] > best[slot]["tree_bytes"]:
            best[slot] = moment
    return [*(best[slot] for slot in sorted(best) if best[slot] is not moments[-1]), moments[-1]]


def _held(moment: Mapping[str, Any]) -> dict[str, int]:
    held: dict[str, int] = {}
    for each in moment.get("holdings") or ():
        if each.get("device", "ram") == "ram":
            held[each["path"]] = held.get(each["path"], 0) + each["resident_bytes"]
    return held


def _largest_owners(moments: Sequence[Mapping[str, Any]]) -> list[str]:
    best: dict[str, int] = {}
    for moment in moments:
        for path, size in _held(moment).items():
            best[path] = max(best.get(path, 0), size)
    floor = 0.01 * max(moment["tree_bytes"] for moment in moments)
    return [path for path, size in sorted(best.items(), key=lambda item: -item[1]) if size >= floor][:MOST_OWNERS]


def _owner_areas(
    moments: Sequence[Mapping[str, Any]], names: Sequence[str]
) -> tuple[tuple[Area, ...], list[tuple[str, str]]]:
    """Owners stacked from below, and what has no name above them; straight between two answers."""
    places = [moment["at_s"] for moment in moments]
    answers = [(moment["at_s"], _held(moment)) for moment in moments if moment.get("holdings") is not None]
    base = [0.0] * len(moments)
    areas, rows = [], []
    for path, look in zip(names, _LOOKS, strict=False):
        sizes = between([(at, held.get(path, 0)) for at, held in answers], places)
        upper = [min(low + size, moment["tree_bytes"]) for low, size, moment in zip(base, sizes, moments, strict=True)]
        areas.append(
            Area(
                look=look,
                lower=tuple(zip(places, base, strict=True)),
                upper=tuple(zip(places, upper, strict=True)),
                title=path,
            )
        )
        rows.append((look, path))
        base = upper
    whole = [float(moment["tree_bytes"]) for moment in moments]
    areas.append(
        Area(
            look="of-runtime",
            lower=tuple(zip(places, base, strict=True)),
            upper=tuple(zip(places, whole, strict=True)),
            title="everything else",
        )
    )
    asked = any(moment.get("holdings") is not None for moment in moments)
    rows.append(
        ("of-runtime", "everything else" if names else "no owner holds 1 %" if asked else "owners were not asked")
    )
    return tuple(areas), rows


def between(known: Sequence[tuple[float, float]], places: Sequence[float]) -> list[float]:
    """Values on the straight lines between known ones: nothing before the first, the last one after it.

    >>> between([(1.0, 10.0), (3.0, 30.0)], [0.0, 1.0, 2.0, 4.0])
    [0.0, 10.0, 20.0, 30.0]
    """
    found = []
    for place in places:
        after = bisect_right(known, place, key=lambda point: point[0])
        if after == 0:
            found.append(0.0)
            continue
        (at, size), (next_at, next_size) = known[after - 1], known[min(after, len(known) - 1)]
        share = (place - at) / (next_at - at) if next_at > at else 0.0
        found.append(size + share * (next_size - size))
    return found


def time_ticks(first: float, last: float) -> tuple[tuple[float, str], ...]:
    """Round times along an axis.

    >>> [words for _, words in time_ticks(0, 600)]
    ['0 s', '5 min', '10 min']
    """
    steps = (1, 2, 5, 10, 20, 30, 60, 120, 300, 600, 1200, 1800, 3600, 7200, 14400, 28800, 43200, 86400)
    step = next((step for step in steps if (last - first) / step <= 4), (last - first) / 4)
    number, ticks = -int(-first // step), []
    while number * step <= last:
        ticks.append((number * step, duration(number * step)))
        number += 1
    return tuple(ticks)
