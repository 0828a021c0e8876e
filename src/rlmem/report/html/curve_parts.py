"""Where a plan leads, in pictures: memory over training steps, and the peak over the main knob."""

from __future__ import annotations

from xml.etree.ElementTree import Element

from rlmem.documents.capacity import CapacityCurvePart
from rlmem.documents.growth import GrowthCurvePart
from rlmem.report.capacity import curve_table, curve_words
from rlmem.report.html import parts
from rlmem.report.html.chart import HEADROOM, Area, Chart, Level, Line, Mark, draw, legend
from rlmem.report.html.markup import Child, element
from rlmem.report.html.scale import Scale, count_ticks
from rlmem.units import format_count, format_size

#: How many times as long as it takes to fill a store the growth is shown for.
SHOWN_FILLS = 2.5


def growth(curve: GrowthCurvePart | None) -> Element:
    """What a store that fills will take, step by step."""
    title, name = "Growth to come", "growth"
    if curve is None:
        return parts.section(
            title,
            element(
                "p", {}, "Nothing is reserved at build and filled later: memory is there from the first update on."
            ),
            name=name,
        )
    rows, full = curve.rows, curve.full_at
    last = min(rows[-1].step, max(full * SHOWN_FILLS, 1))
    limit, end = curve.limit_bytes, curve.ends_at
    is_last = end is not None and end <= full
    when = f"until the run ends at step {format_count(full)}" if is_last else f"full at step {format_count(full)}"
    words = f"{format_size(curve.store_bytes)} that are reserved when the model is built become resident, {when}."
    if curve.over_limit_at is not None and limit is not None:
        words += (
            f" The limit of {format_size(limit)} is expected to be reached at step {format_count(curve.over_limit_at)}."
        )
    low = tuple((row.step, row.low_bytes) for row in rows)
    expected = tuple((row.step, row.expected_bytes) for row in rows)
    high = tuple((row.step, row.high_bytes) for row in rows)
    marks = (
        [
            Mark(
                at=(full, curve.full_bytes),
                label=f"{'end' if is_last else 'full'}: {format_size(curve.full_bytes)}",
            )
        ]
        if full <= last
        else []
    )
    if curve.over_limit_at is not None and limit is not None:
        marks.append(
            Mark(at=(curve.over_limit_at, limit), label=f"step {format_count(curve.over_limit_at)}", look="bad")
        )
    store = curve.store_bytes
    ceiling = tuple((row.step, row.expected_bytes + store * (1 - min(1.0, row.step / max(full, 1)))) for row in rows)
    top = HEADROOM * max(row.high_bytes for row in rows)
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


def capacity(curve: CapacityCurvePart | None, machine: str) -> Element:
    """How far the main knob can be turned."""
    title, name = "How far can it be turned", "capacity"
    if curve is None or len(curve.rows) < 2:
        return parts.section(title, element("p", {}, "This run could only be planned as it is."), name=name)
    words = curve_words(curve, machine)
    devices = [peak.device for row in curve.rows if row.value == curve.now for peak in row.peaks]
    charts: list[Child] = []
    for device in devices:
        charts += [element("h3", {}, device.upper())] if len(devices) > 1 else []
        charts += _capacity_chart(curve, device, words)
    table = parts.table(curve_table(curve, machine), caption=f"Peak by {curve.knob}")
    return parts.section(title, element("p", {}, words), charts, parts.unfold("The numbers", table), name=name)


def _capacity_chart(curve: CapacityCurvePart, device: str, words: str) -> list[Child]:
    """The peak of one device over the knob, under its limit."""
    rows = [(row.value, peak) for row in curve.rows if (peak := row.peak(device))]
    low = tuple((value, peak.low_bytes) for value, peak in rows)
    expected = tuple((value, peak.expected_bytes) for value, peak in rows)
    high = tuple((value, peak.high_bytes) for value, peak in rows)
    last = rows[-1][0]
    limit = rows[0][1].limit_bytes
    top = HEADROOM * max(size for _, size in high)
    shown_limit = limit if limit and limit <= 3 * top else None
    now, best = curve.now, curve.largest_safe
    marks = [Mark(at=(now, dict(expected)[now]), label=f"now: {format_count(now)}", below=True)]
    at_best = next((row for row in curve.rows if row.value == best), None)
    if at_best and best is not None and at_best.peaks[0].device == device and shown_limit and best != now:
        is_right = best > 0.7 * last  # there the limit has its own label above the line
        label = f"largest: {format_count(best)}"
        marks.append(Mark(at=(best, shown_limit), label=label, look="good", below=is_right))
    chart = Chart(
        label=f"{device.upper()}: {words}",
        x=Scale(low=0, high=last),
        x_ticks=count_ticks(0, last),
        x_label=curve.knob,
        high=max(top, HEADROOM * shown_limit if shown_limit else 0),
        areas=(Area(look="range", lower=low, upper=high, title="range"),),
        lines=(Line(look="total", points=expected),),
        levels=(Level(at=shown_limit, label=f"limit {format_size(shown_limit)}"),) if shown_limit else (),
        marks=tuple(marks),
    )
    far = f"The limit, {format_size(limit)}, is far above." if limit and not shown_limit else ""
    return [draw(chart), element("p", {"class": "note"}, far) if far else None]
