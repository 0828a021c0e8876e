"""Where a plan leads, in pictures: memory over training steps, and the peak over the main knob."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from xml.etree.ElementTree import Element

from rlmem.report.html import parts
from rlmem.report.html.chart import HEADROOM, Area, Chart, Level, Line, Mark, draw, legend
from rlmem.report.html.markup import element
from rlmem.report.html.scale import Scale, count_ticks
from rlmem.report.outlook import capacity_table, capacity_words
from rlmem.units import format_count, format_size

#: How many times as long as it takes to fill a store the growth is shown for.
SHOWN_FILLS = 2.5


def growth(found: Mapping[str, Any] | None) -> Element:
    """What a store that fills will take, step by step."""
    title, name = "Growth to come", "growth"
    if found is None:
        return parts.section(
            title,
            element(
                "p", {}, "Nothing is reserved at build and filled later: memory is there from the first update on."
            ),
            name=name,
        )
    rows, full = found["rows"], found["full_at"]
    last = min(rows[-1]["step"], max(full * SHOWN_FILLS, 1))
    limit, end = found["limit_bytes"], found["ends_at"]
    words = f"{format_size(found['store_bytes'])} is reserved when the model is built and becomes resident as the store fills, at step {format_count(full)}."
    if end is not None and end < full:
        words += f" The run ends before, at step {format_count(end)}, with {format_size(rows[-1]['expected_bytes'])} resident."
    if found["over_limit_at"] is not None:
        words += f" The limit of {format_size(limit)} is expected to be reached at step {format_count(found['over_limit_at'])}."
    points = [tuple((row["step"], row[key]) for row in rows) for key in ("low_bytes", "expected_bytes", "high_bytes")]
    low, expected, high = points
    marks = (
        [Mark(at=(full, found["full_bytes"]), label=f"full: {format_size(found['full_bytes'])}")]
        if full <= last
        else []
    )
    if found["over_limit_at"] is not None:
        marks.append(
            Mark(at=(found["over_limit_at"], limit), label=f"step {format_count(found['over_limit_at'])}", look="bad")
        )
    ceiling = tuple((row["step"], float(max(found["full_bytes"], row["expected_bytes"]))) for row in rows)
    top = HEADROOM * max(row["high_bytes"] for row in rows)
    shown_limit = limit if limit and limit <= 3 * top else None
    chart = Chart(
        label=words,
        x=Scale(low=0, high=last),
        x_ticks=count_ticks(0, last),
        x_label="environment steps",
        high=max(top, HEADROOM * shown_limit if shown_limit else 0),
        areas=(
            Area(look="to-come", lower=expected, upper=ceiling, title="reserved, not resident yet"),
            Area(look="of-replay", lower=tuple((x, 0.0) for x, _ in expected), upper=expected, title="resident"),
            Area(look="range", lower=low, upper=high, title="range"),
        ),
        lines=(Line(look="total", points=expected),),
        levels=(Level(at=shown_limit, label=f"limit {format_size(shown_limit)}"),) if shown_limit else (),
        marks=tuple(marks),
    )
    drawn = [("of-replay", "resident"), ("to-come", "reserved, still to come"), ("range", "range")]
    return parts.section(title, element("p", {}, words), draw(chart), legend(drawn), name=name)


def capacity(found: Mapping[str, Any] | None, machine: str) -> Element:
    """How far the main knob can be turned."""
    title, name = "How far can it be turned", "capacity"
    if found is None or len(found["rows"]) < 2:
        return parts.section(title, element("p", {}, "This run could only be planned as it is."), name=name)
    knob, rows, best = found["knob"], found["rows"], found["largest_safe"]
    words = capacity_words(found, machine)
    values = [row["value"] for row in rows]
    last = max(values)
    low, expected, high = (
        tuple((row["value"], row[key]) for row in rows) for key in ("low_bytes", "expected_bytes", "high_bytes")
    )
    limit = rows[0]["limit_bytes"]
    top = HEADROOM * max(row["high_bytes"] for row in rows)
    shown_limit = limit if limit and limit <= 3 * top else None
    here = next(row for row in rows if row["value"] == found["now"])
    marks = [Mark(at=(found["now"], here["expected_bytes"]), label=f"now: {format_count(found['now'])}")]
    if best is not None and best <= last and shown_limit:
        marks.append(Mark(at=(best, shown_limit), label=f"largest: {format_count(best)}", look="good", below=True))
    chart = Chart(
        label=words,
        x=Scale(low=0, high=last),
        x_ticks=count_ticks(0, last),
        x_label=knob,
        high=max(top, HEADROOM * shown_limit if shown_limit else 0),
        areas=(Area(look="range", lower=low, upper=high, title="range"),),
        lines=(Line(look="total", points=expected),),
        levels=(Level(at=shown_limit, label=f"limit {format_size(shown_limit)}"),) if shown_limit else (),
        marks=tuple(marks),
    )
    numbers = parts.unfold("The numbers", parts.table(capacity_table(found, machine), caption=f"Peak by {knob}"))
    return parts.section(title, element("p", {}, words), draw(chart), numbers, name=name)
