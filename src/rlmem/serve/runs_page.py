"""The pages of the store: its runs, one of them, two side by side."""

from __future__ import annotations

from collections.abc import Sequence
from xml.etree.ElementTree import Element

from rlmem.documents.comparison import ComparisonDocument
from rlmem.documents.contract import Document
from rlmem.documents.recorded import RecordedDocument
from rlmem.documents.recorded_comparison import RecordedComparisonDocument, TimelinesPart
from rlmem.documents.runs import RUN_KINDS, RunRow, RunsDocument
from rlmem.report.html import parts
from rlmem.report.html.chart import HEADROOM, Chart, Line, draw, legend
from rlmem.report.html.markup import Child, element
from rlmem.report.html.recorded_page import recorded_sections, recorded_title
from rlmem.report.html.scale import Scale
from rlmem.report.html.time_parts import time_ticks
from rlmem.report.views import view_of
from rlmem.serve.shell import choices
from rlmem.units import format_size

_STATUS_TONE = {
    "ok": "good",
    "fits": "good",
    "tight": "warn",
    "does-not-fit": "bad",
    "grows": "bad",
    "unknown": "warn",
    "oom": "bad",
    "failed": "bad",
    "killed": "bad",
}


def runs_page(document: RunsDocument, kind: str, words: str) -> list[Child]:
    """The list with its filter; two that are marked can be compared."""
    kinds = [("", "every kind"), *((name, name) for name in RUN_KINDS)]
    search = element(
        "form",
        {"class": "inline", "action": "/runs", "method": "get", "hx-get": "/runs", "hx-select": "#runs", "hx-target": "#runs", "hx-swap": "outerHTML", "hx-trigger": "input delay:150ms, submit", "hx-replace-url": "true"},
        element("label", {"for": "kind"}, "kind"),
        choices("kind", kinds, kind, id="kind"),
        element("label", {"for": "text"}, "with"),
        element("input", {"id": "text", "name": "text", "value": words, "placeholder": "part of a target, command, status", "autocomplete": "off"}),
        element("button", {"type": "submit"}, "Filter"),
    )  # fmt: skip
    return [
        element("h1", {}, "Runs"),
        element("section", {"aria-label": "Stored runs"}, search, _list(document.runs, document.total or 0)),
    ]


def _list(rows: Sequence[RunRow], total: int) -> Element:
    if not rows:
        none = (
            "None matches."
            if total
            else "None yet: `rlmem plan --save`, `rlmem measure`, `rlmem bench` and `rlmem run` keep theirs in the store."
        )
        return element("div", {"id": "runs"}, element("p", {}, parts.said(none)))
    titles = ("left", "right", "run", "kind", "target", "started", "status", "largest peak")
    body = [
        element(
            "tr",
            {},
            [
                element(
                    "td",
                    {},
                    element(
                        "input",
                        {
                            "type": "radio",
                            "name": side,
                            "value": row.id,
                            "aria-label": f"{side}: {row.id}",
                            "checked": number == place,
                        },
                    ),
                )
                for side, place in (("left", 1 if len(rows) > 1 else 0), ("right", 0))
            ],
            element("td", {}, element("a", {"href": f"/runs/{row.id}"}, row.id)),
            element("td", {}, row.kind),
            element("td", {}, row.target),
            element("td", {}, row.started),
            element("td", {"class": f"kind {_STATUS_TONE.get(row.status, '')}"}, row.status),
            element("td", {"class": "number"}, "" if row.peak_bytes is None else format_size(row.peak_bytes)),
        )
        for number, row in enumerate(rows)
    ]
    head = element("tr", {}, (element("th", {"scope": "col"}, title) for title in titles))
    table = element(
        "div",
        {"class": "scroll", "tabindex": 0, "role": "group", "aria-label": "Runs"},
        element("table", {}, element("thead", {}, head), element("tbody", {}, body)),
    )
    count = f"{len(rows)} of {total}" if len(rows) < total else str(total)
    return element(
        "div",
        {"id": "runs"},
        element("p", {"class": "note"}, f"{count} run{'s' if total != 1 else ''}, newest first."),
        element(
            "form",
            {"action": "/runs/compare", "method": "get"},
            table,
            element("button", {"type": "submit", "class": "main"}, "Compare left and right") if len(rows) > 1 else None,
        ),
    )


def run_page(document: Document, run: str) -> list[Child]:
    """One run: a recorded one as its report, others as they are shown in a terminal."""
    take = element(
        "div",
        {"class": "take"},
        element("a", {"class": "button", "href": f"/runs/{run}/report.html", "download": f"{run}.html"}, "Report")
        if isinstance(document, REPORTED)
        else None,
        element("a", {"class": "button", "href": f"/api/runs/{run}"}, "JSON"),
    )
    if isinstance(document, RecordedDocument):
        title, about = recorded_title(document)
        return [element("h1", {}, title), element("p", {"class": "about"}, about), take, recorded_sections(document)]
    arranged = view_of(document)
    return [element("h1", {}, arranged.title), take, parts.of_view(arranged)]


#: Documents whose report can be saved.
REPORTED = (RecordedDocument,)


def compare_page(document: Document, left: str, right: str) -> list[Child]:
    """Two runs side by side: a picture of both where they have one, and what differs."""
    arranged = view_of(document)
    links = [element("a", {"class": "button", "href": f"/runs/{each}"}, f"run {each}") for each in (left, right)]
    swap = element("a", {"class": "button", "href": f"/runs/compare?left={right}&right={left}"}, "Swap")
    return [
        element("h1", {}, arranged.title),
        element("div", {"class": "take"}, links, swap),
        _together(document, left, right),
        parts.of_view(arranged),
    ]


def _together(document: Document, left: str, right: str) -> Child:
    """Peaks as two bars, and memory over time as two lines."""
    pairs = _peaks(document)
    if not pairs:
        return None
    top = max(max(sizes) for _, sizes in pairs) or 1
    bars: list[Child] = []
    for words, sizes in pairs:
        bars.append(element("h3", {}, words))
        for name, size, look in zip((left, right), sizes, ("of-replay", "of-checkpoint"), strict=True):
            bars.append(element("div", {"class": "bar"}, parts.bar_line(name, size, 0, top, look)))
    lines = _lines(document.moments, left, right) if isinstance(document, RecordedComparisonDocument) else None
    return parts.section("Peaks", element("div", {"class": "bars"}, bars), lines, name="peaks")


def _peaks(document: Document) -> list[tuple[str, tuple[int, int]]]:
    match document:
        case ComparisonDocument():
            return [
                (device.device.upper(), (device.left_bytes, device.right_bytes))
                for device in document.devices
                if device.left_bytes is not None and device.right_bytes is not None
            ]
        case RecordedComparisonDocument(left=left, right=right) if left.peak_bytes and right.peak_bytes:
            return [("RAM", (left.peak_bytes, right.peak_bytes))]
    return []


def _lines(moments: TimelinesPart, left: str, right: str) -> Child:
    if min(len(moments.left), len(moments.right)) < 2:
        return None
    sides = {"left": moments.left, "right": moments.right}
    points = {side: tuple((at, float(size)) for at, size in timeline) for side, timeline in sides.items()}
    last = max(at for each in points.values() for at, _ in each)
    high = max(size for each in points.values() for _, size in each)
    chart = Chart(
        label=f"memory over time of {left} and {right}",
        x=Scale(low=0, high=max(last, 1)),
        x_ticks=time_ticks(0, max(last, 1)),
        x_label="time since the start",
        high=HEADROOM * max(high, 1),
        lines=tuple(Line(look=side, points=each) for side, each in points.items()),
    )
    return element("div", {}, draw(chart), legend([("left", left), ("right", f"{right} (dashed)")]))
