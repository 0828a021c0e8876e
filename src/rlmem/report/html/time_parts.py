"""A run over time in pictures: who held what at each moment, the limit, thresholds. Reports and the live page draw the same."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence

from rlmem.core import memory_classes
from rlmem.documents.moment import MomentPart
from rlmem.report.html.chart import HEADROOM, Area, Chart, Level, Line, draw, legend
from rlmem.report.html.markup import Child, element
from rlmem.report.html.scale import Scale
from rlmem.report.prediction import PredictedMoment
from rlmem.units import format_duration, format_size

#: Owners with colours of their own; the rest is drawn as one.
MOST_OWNERS = 6
#: More moments than this are not told apart on any screen.
MOST_POINTS = 400
_LOOKS = ("of-replay", "of-learner", "of-rollout", "of-workers", "of-batch", "of-eval")
#: What has no owner, from below: words, colour, and the classes it is made of.
_CLASSES = (
    ("libraries", "of-libraries", (memory_classes.LIBRARY_CODE, memory_classes.LIBRARY_DATA)),
    ("heap", "of-heap", (memory_classes.HEAP, memory_classes.ARENAS, memory_classes.PYMALLOC)),
    ("thread stacks", "of-stacks", (memory_classes.STACKS,)),
    ("shared memory and files", "of-files", (memory_classes.SHARED, memory_classes.FILES)),
)
#: What never holds as much of the largest moment is part of everything else.
LEAST_SHARE = 0.01


def memory_chart(
    moments: Sequence[MomentPart],
    *,
    label: str,
    thresholds: Sequence[tuple[int, str]] = (),
    reach: int | None = None,
    predicted: Sequence[PredictedMoment] = (),
) -> list[Child]:
    """Resident memory of a tree over time, by owner where owners were asked, and by class where it has none.

    The axis fits what was held. The limit, thresholds and ``reach``, a size that the run is expected to come to, are lines
    where they fall into it, and labels where they lie above. ``predicted`` is what was predicted by the step of each moment.
    """
    shown = thinned(moments)
    if len(shown) < 2:
        return [element("p", {"class": "note"}, "Too few moments for a picture yet.")]
    areas, rows = _stacked(shown)
    total = tuple((moment.at_s, float(moment.tree_bytes)) for moment in shown)
    limits = [moment.limit_bytes for moment in shown if moment.limit_bytes]
    limit = limits[-1] if limits else None
    low = tuple((row.at_s, float(row.low_bytes)) for row in predicted)
    expected = tuple((row.at_s, float(row.expected_bytes)) for row in predicted)
    high = tuple((row.at_s, float(row.high_bytes)) for row in predicted)
    levels = [Level(at=nbytes, label=words, look="threshold") for nbytes, words in thresholds]
    levels += [Level(at=limit, label=f"limit {format_size(limit)}")] if limit else []
    levels += [Level(at=reach, label=f"comes to {format_size(reach)}", look="reach")] if reach else []
    first, last = shown[0].at_s, shown[-1].at_s
    chart = Chart(
        label=label,
        x=Scale(low=first, high=max(last, first + 1)),
        x_ticks=time_ticks(first, max(last, first + 1)),
        high=HEADROOM * max(*(size for _, size in (*total, *high)), 1),
        areas=(*areas, *((Area(look="range", lower=low, upper=high, title="predicted"),) if predicted else ())),
        lines=(Line(look="total", points=total), *((Line(look="predicted", points=expected),) if predicted else ())),
        levels=tuple(levels),
    )
    rows += [("range", "predicted (dashed) and its range")] if predicted else []
    return [draw(chart), legend(rows)]


def thinned(moments: Sequence[MomentPart], most: int = MOST_POINTS) -> list[MomentPart]:
    """Moments for a picture: in each of as many spans of time the largest one, and the last of all."""
    if len(moments) <= most:
        return list(moments)
    first, span = moments[0].at_s, max(moments[-1].at_s - moments[0].at_s, 1e-9)
    best: dict[int, MomentPart] = {}
    for moment in moments:
        slot = int((moment.at_s - first) / span * (most - 1))
        if slot not in best or moment.tree_bytes > best[slot].tree_bytes:
            best[slot] = moment
    return [*(best[slot] for slot in sorted(best) if best[slot] is not moments[-1]), moments[-1]]


#: Bytes by name, in the moments in which it was asked for.
_Answers = list[tuple[float, dict[str, int]]]


def _owners(moments: Sequence[MomentPart]) -> _Answers:
    answers: _Answers = []
    for moment in moments:
        if moment.holdings is not None:
            held: dict[str, int] = {}
            for each in moment.holdings:
                if each.device == "ram":
                    held[each.path] = held.get(each.path, 0) + each.resident_bytes
            answers.append((moment.at_s, held))
    return answers


def _classes(moments: Sequence[MomentPart]) -> _Answers:
    answers: _Answers = []
    for moment in moments:
        if moment.portions is not None:
            sizes = {portion.name: portion.resident_bytes for portion in moment.portions}
            answers.append(
                (moment.at_s, {name: sum(sizes.get(part, 0) for part in parts) for name, _, parts in _CLASSES})
            )
    return answers


def _largest(answers: _Answers, floor: float) -> list[str]:
    best: dict[str, int] = {}
    for _, held in answers:
        for name, size in held.items():
            best[name] = max(best.get(name, 0), size)
    return [name for name, size in sorted(best.items(), key=lambda item: -item[1]) if size >= floor]


def _stacked(moments: Sequence[MomentPart]) -> tuple[tuple[Area, ...], list[tuple[str, str]]]:
    """Owners from below, classes of what has none above them, then the rest; straight between two answers."""
    places = [moment.at_s for moment in moments]
    whole = [float(moment.tree_bytes) for moment in moments]
    floor = LEAST_SHARE * max(whole)
    owners, classes = _owners(moments), _classes(moments)
    named = _largest(owners, floor)[:MOST_OWNERS]
    large = set(_largest(classes, floor))
    layers = [(name, look, owners) for name, look in zip(named, _LOOKS, strict=False)]
    layers += [(name, look, classes) for name, look, _ in _CLASSES if name in large]
    base = [0.0] * len(moments)
    areas, rows = [], []
    for name, look, answers in layers:
        sizes = between([(at, held.get(name, 0)) for at, held in answers], places)
        upper = [min(low + size, most) for low, size, most in zip(base, sizes, whole, strict=True)]
        areas.append(_layer(name, look, places, base, upper))
        rows.append((look, name))
        base = upper
    areas.append(_layer("everything else", "of-other", places, base, whole))
    rows.append(
        ("of-other", "everything else" if layers else "no owner holds 1 %" if owners else "owners were not asked")
    )
    return tuple(areas), rows


def _layer(name: str, look: str, places: Sequence[float], lower: Sequence[float], upper: Sequence[float]) -> Area:
    return Area(
        look=look,
        lower=tuple(zip(places, lower, strict=True)),
        upper=tuple(zip(places, upper, strict=True)),
        title=name,
    )


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
        ticks.append((number * step, format_duration(number * step)))
        number += 1
    return tuple(ticks)
