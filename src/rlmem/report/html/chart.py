"""Charts: an SVG that stretches, with its labels as text of the page, so that they stay readable on a phone and can be selected."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from xml.etree.ElementTree import Element

from rlmem.report.html.markup import element
from rlmem.report.html.scale import Scale, size_ticks
from rlmem.units import format_size

#: Room above the highest thing in a chart.
HEADROOM = 1.15
#: Units of the drawing; it is stretched to the width there is.
_SIDE = 1000
Point = tuple[float, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Area:
    """Something filled between two lines over the same places, lower line first; ``look`` is a class of the style sheet."""

    look: str
    lower: tuple[Point, ...]
    upper: tuple[Point, ...]
    title: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """A line, and the word beside its end."""

    look: str
    points: tuple[Point, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Level:
    """A line across the whole chart: a limit, a threshold. What lies above the chart is a label at its top."""

    at: float
    label: str
    look: str = "limit"


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    """A place with a label: this run, the largest that fits, where it is full."""

    at: Point
    label: str
    look: str = "here"
    #: Where labels of two marks would meet, one goes beneath its dot.
    below: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Chart:
    """What is drawn: areas first, lines over them, levels and marks on top."""

    label: str
    x: Scale
    x_ticks: tuple[tuple[float, str], ...]
    high: float
    areas: tuple[Area, ...] = ()
    lines: tuple[Line, ...] = ()
    levels: tuple[Level, ...] = ()
    marks: tuple[Mark, ...] = ()
    x_label: str = ""


def draw(chart: Chart) -> Element:
    """The chart as a figure without its legend."""
    y = Scale(low=0, high=chart.high)
    shapes = [_area(area, chart.x, y) for area in chart.areas]
    shapes += [_line(line, chart.x, y) for line in chart.lines]
    inside = [level for level in chart.levels if level.at <= chart.high]
    above = [level for level in chart.levels if level.at > chart.high]
    shapes += [_level(level, y) for level in inside]
    side = str(_SIDE)
    box = {"viewBox": f"0 0 {side} {side}", "preserveAspectRatio": "none", "aria-hidden": "true", "focusable": "false"}
    labels = [
        element("span", {"class": "tick across", "style": f"bottom:{y.percent(at)}"}, words)
        for at, words in size_ticks(chart.high)
    ]
    labels += [
        element(
            "span", {"class": f"tick along{_edge(chart.x.share(at))}", "style": f"left:{chart.x.percent(at)}"}, words
        )
        for at, words in chart.x_ticks
    ]
    labels += [
        element("span", {"class": f"level {level.look}", "style": f"bottom:{y.percent(level.at)}"}, level.label)
        for level in inside
    ]
    labels += [
        element(
            "span", {"class": f"level above {level.look}", "style": f"top:{1.5 * number:.1f}em"}, f"↑ {level.label}"
        )
        for number, level in enumerate(sorted(above, key=lambda level: -level.at))
    ]
    labels += [mark for each in chart.marks for mark in _mark(each, chart.x, y)]
    plot = element(
        "div", {"class": "plot", "role": "img", "aria-label": chart.label}, element("svg", box, shapes), labels
    )
    return element(
        "div", {"class": "chart"}, plot, element("p", {"class": "axis"}, chart.x_label) if chart.x_label else None
    )


def _edge(share: float) -> str:
    return " first" if share < 0.04 else " last" if share > 0.96 else ""


def _place(point: Point, x: Scale, y: Scale) -> str:
    return f"{_SIDE * x.share(point[0]):.1f} {_SIDE * (1 - y.share(point[1])):.1f}"


def _path(points: Sequence[Point], x: Scale, y: Scale) -> str:
    return "L".join(_place(point, x, y) for point in points)


def _area(area: Area, x: Scale, y: Scale) -> Element:
    path = f"M{_path(area.upper, x, y)}L{_path(area.lower[::-1], x, y)}Z"
    return element(
        "path", {"class": f"area {area.look}", "d": path}, element("title", {}, area.title) if area.title else None
    )


def _line(line: Line, x: Scale, y: Scale) -> Element:
    return element(
        "path",
        {"class": f"line {line.look}", "d": f"M{_path(line.points, x, y)}", "vector-effect": "non-scaling-stroke"},
    )


def _level(level: Level, y: Scale) -> Element:
    height = f"{_SIDE * (1 - y.share(level.at)):.1f}"
    return element(
        "path",
        {"class": f"line {level.look}", "d": f"M0 {height}L{_SIDE} {height}", "vector-effect": "non-scaling-stroke"},
    )


def _mark(mark: Mark, x: Scale, y: Scale) -> tuple[Element, Element]:
    share = x.share(mark.at[0])
    style = f"left:{x.percent(mark.at[0])};bottom:{y.percent(mark.at[1])}"
    # The curves rise, so that there is room beneath a point to the right, and above it to the left.
    side = "left" if share > (0.85 if mark.below else 0.25) else "right"
    low = " low" if mark.below or y.share(mark.at[1]) > 0.85 else ""
    return (
        element("span", {"class": f"dot {mark.look}", "style": style}),
        element("span", {"class": f"mark {mark.look} {side}{low}", "style": style}, mark.label),
    )


def gauge(*, low: int, expected: int, high: int, limit: int | None, tone: str, label: str, words: str = "") -> Element:
    """A bar against the limit, with the range of the prediction as a band on it."""
    scale = Scale(low=0, high=max(1.12 * (limit or 0), 1.05 * high, 1))
    band = f"left:{scale.percent(low)};width:{100 * (scale.share(high) - scale.share(low)):.2f}%"
    parts = [
        element("span", {"class": f"fill {tone}", "style": f"width:{scale.percent(expected)}"}),
        element("span", {"class": "band", "style": band}) if high > low else None,
    ]
    if limit:
        parts.append(element("span", {"class": "stop", "style": f"left:{scale.percent(limit)}"}))
    words = words or f"{format_size(expected)} expected, {format_size(low)} to {format_size(high)}"
    ends = [element("span", {}, words), element("span", {}, f"limit {format_size(limit)}") if limit else None]
    return element(
        "div",
        {"class": "gauge"},
        element("div", {"class": "track", "role": "img", "aria-label": label}, parts),
        element("p", {"class": "ends"}, ends),
    )


def legend(rows: Sequence[tuple[str, str]]) -> Element:
    """What the colours mean: pairs of look and words."""
    return element(
        "ul",
        {"class": "legend"},
        (element("li", {}, element("i", {"class": look, "aria-hidden": "true"}), words) for look, words in rows),
    )
