"""The live pages: processes that look like training, one of them over time, and what holds its memory."""

from __future__ import annotations

import time
from collections.abc import Sequence
from urllib.parse import urlencode
from xml.etree.ElementTree import Element

from rlmem.core.moments import Forecast
from rlmem.documents.explanation import ExplanationDocument
from rlmem.documents.moment import MomentDocument
from rlmem.documents.parts import core_object_of
from rlmem.report.explain import explain_view
from rlmem.report.html import parts
from rlmem.report.html.markup import Child, element
from rlmem.report.html.time_parts import memory_chart
from rlmem.report.owners import rest_of
from rlmem.report.view import Column
from rlmem.report.watch import TONES, owner_table, process_table, status_text
from rlmem.serve.live import Candidate, Watched
from rlmem.units import format_duration, format_size
from rlmem.watch import words
from rlmem.watch.thresholds import Thresholds

#: How often a page asks again.
EVERY, AT_ONCE = "every 1s", "load, every 1s"
LIST_EVERY = "every 3s"
#: What holds less of a process has no bar; the table beneath has it.
SMALL_SHARE = 0.005


_LISTED = (
    Column(title="process", right=False),
    Column(title="command", right=False),
    Column(title="resident"),
    Column(title="threads"),
    Column(title="why it is listed", right=False),
    Column(title="names of owners", right=False),
)


def listing(found: Sequence[Candidate]) -> Element:
    """Processes to choose from; asks for itself again."""
    rows = [
        (
            element("a", {"href": f"/live/{each.pid}"}, str(each.pid)),
            element("code", {}, each.command[:160]),
            format_size(each.rss_bytes),
            str(each.threads),
            each.why,
            "yes" if each.can_name else "by class only",
        )
        for each in found
    ]
    table = parts.table_of(_LISTED, rows, label="Processes", cards=True)
    none = element(
        "p",
        {},
        parts.said(
            "No process on this machine looks like training. `rlmem run -- python train.py` starts one that can be asked for names."
        ),
    )
    asks = {"id": "processes", "hx-get": "/live/list", "hx-trigger": LIST_EVERY, "hx-swap": "outerHTML"}
    return element("div", asks, table if rows else none)


def live_page(found: Sequence[Candidate]) -> list[Child]:
    """The page with the list, and a way to name a process."""
    by_number = element(
        "form",
        {"class": "inline", "data-go": "/live/"},
        element("label", {"for": "pid"}, "or a process by its number"),
        element(
            "input", {"id": "pid", "inputmode": "numeric", "pattern": "[0-9]+", "required": True, "autocomplete": "off"}
        ),
        element("button", {"type": "submit"}, "Watch"),
    )
    title = element("h1", {}, "Live processes")
    note = element(
        "p",
        {"class": "note"},
        "Processes with a simulator or a learning library loaded, or with rlmem's agent; children are counted with them.",
    )
    return [title, element("section", {"aria-label": "Processes"}, note, listing(found), by_number)]


def watch_page(pid: int, command: str, warn: str) -> list[Child]:
    """The page of one process: what follows is asked for every second."""
    thresholds = element(
        "form",
        {"class": "inline", "action": f"/live/{pid}", "method": "get"},
        element("label", {"for": "warn"}, "warn at"),
        element(
            "input", {"id": "warn", "name": "warn", "value": warn, "placeholder": "80% or 12GB", "autocomplete": "off"}
        ),
        element("button", {"type": "submit"}, "Set"),
    )
    explain = element(
        "div",
        {"class": "take"},
        element(
            "button",
            {
                "type": "button",
                "class": "main",
                "id": "explain",
                "hx-post": f"/live/{pid}/explain",
                "hx-target": "#explained",
                "hx-indicator": "#explained",
            },
            "Explain now",
        ),
        element(
            "button",
            {
                "type": "button",
                "id": "trim",
                "hx-post": f"/live/{pid}/explain?trim=1",
                "hx-target": "#explained",
                "hx-confirm": "Call malloc_trim inside the program?",
            },
            "Explain and trim",
        ),
        element("p", {"class": "note"}, "Asks the program for its objects: it pauses for some milliseconds."),
    )
    return [
        element("h1", {}, f"Process {pid}"),
        element("p", {"class": "about"}, element("code", {}, command[:300])),
        element("section", {"aria-label": "Threshold"}, thresholds),
        moving(pid, warn, 0, [element("p", {}, "Looking …")]),
        element(
            "section", {"aria-label": "Explain"}, explain, element("div", {"id": "explained", "aria-live": "polite"})
        ),
    ]


def moving(pid: int, warn: str, number: int, children: Child) -> Element:
    """The part that asks for itself again; nothing is sent while nothing is new."""
    query = urlencode({"seen": number, **({"warn": warn} if warn else {})})
    return element(
        "div",
        {
            "id": "now",
            "hx-get": f"/live/{pid}/now?{query}",
            "hx-trigger": EVERY if number else AT_ONCE,
            "hx-swap": "outerHTML",
            "data-number": number,
        },
        children,
    )


def now(watched: Watched, thresholds: Thresholds, warn: str) -> Element:
    """What a process holds now, how that came about and what it comes to."""
    latest = watched.latest()
    if latest is None:
        return moving(watched.pid, warn, watched.number, [element("p", {}, watched.end or "Looking …")])
    judgement, moment = latest.judgement, latest.moment
    tone = "bad" if judgement.forecast.fits is False else TONES[judgement.state]
    lines: list[tuple[str, str]] = [(f"{judgement.state}: {reason}", tone) for reason in judgement.reasons]
    warning = thresholds.warning(moment.tree_bytes, moment.limit_bytes)
    if warning:
        lines.insert(0, (warning, "warn"))
    if watched.end:
        lines.insert(0, (watched.end, "warn"))
    bound = thresholds.warn_at.bound(moment.limit_bytes) if thresholds.warn_at else None
    levels = [(bound, f"warn at {warn}")] if bound is not None else []
    forecast = judgement.forecast
    chart = memory_chart(
        watched.moments,
        label=f"memory of process {watched.pid} over time, now {format_size(moment.tree_bytes)}",
        thresholds=levels,
        reach=forecast.final_bytes,
    )
    facts = parts.facts(
        [
            ("now", status_text(moment)),
            ("forecast", _forecast(latest)),
            ("progress", _progress(latest)),
            ("sampled", f"{watched.number:,} times; the sampler takes {_cost(watched)} of a core"),
            ("notes", "; ".join(moment.notes)),
        ]
    )
    children = [
        element("section", {"aria-label": "Now"}, parts.verdict(lines), facts),
        parts.section("Memory over time", chart, name="over-time"),
        _held(latest),
        parts.section(
            "Processes",
            parts.table(process_table(latest), label="processes", cards=True),
            name="members",
            note="PSS: a page that several processes share counts once.",
        ),
    ]
    return (
        moving(watched.pid, warn, watched.number, children)
        if not watched.end
        else element("div", {"id": "now", "data-number": watched.number}, children)
    )


def _held(document: MomentDocument) -> Element | None:
    """Who holds the memory; nothing before anybody was asked."""
    table = owner_table(document)
    if not table.rows:
        return None
    note = "Parentheses: memory of the largest process that no owner has, by class."
    return parts.section("Owners", parts.table(table, label="owners", cards=True), name="owners", note=note)


def _forecast(document: MomentDocument) -> str:
    forecast = document.judgement.forecast
    if forecast.oom_in_s is not None:
        between = (
            f" ({format_duration(forecast.oom_low_s)} to {format_duration(forecast.oom_high_s)})"
            if forecast.oom_low_s is not None and forecast.oom_high_s is not None
            else ""
        )
        return f"out of memory in {format_duration(forecast.oom_in_s)}{between}"
    if forecast.final_bytes is not None:
        return words.fills(core_object_of(Forecast, forecast), document.moment.limit_bytes)
    return "nothing grows" if document.judgement.state == "normal" else ""


def _progress(document: MomentDocument) -> str:
    progress = document.moment.progress
    if progress is None or progress.step is None:
        return ""
    return f"step {progress.step:,}" + (f" of {progress.total:,}" if progress.total else "")


def _cost(watched: Watched) -> str:
    wall = max(time.monotonic() - watched.since, 1e-9)
    return f"{100 * watched.spent_s / wall:.1f} %"


def explained(document: ExplanationDocument) -> list[Child]:
    """What ``rlmem explain`` shows, with its owners as bars."""
    top = document.top
    total = max(top.rss_bytes, 1)
    pieces = [
        (holding.path, holding.resident_bytes, "of-replay") for holding in top.holdings if holding.device == "ram"
    ]
    pieces += [(name, nbytes, "of-runtime") for name, nbytes in rest_of(top.portions, None)]
    pieces.append(("unexplained", top.unexplained_bytes, "of-other"))
    bars: list[Child] = []
    begin = 0
    for name, size, look in sorted(pieces, key=lambda piece: -piece[1]):
        if size >= SMALL_SHARE * total:
            bars.append(element("div", {"class": "bar"}, parts.bar_line(name, size, begin, total, look)))
        begin += size
    verdict, *rest = parts.of_view(explain_view(document), cards=True)
    return [verdict, element("div", {"class": "bars"}, bars), rest]


def no_token(settings_url: str) -> Element:
    """What to do when the browser may look but not act."""
    return element(
        "div",
        {"class": "problem", "role": "alert"},
        element(
            "p", {}, "Watching and explaining act on a process, and this browser has not shown the token for that."
        ),
        element("p", {}, f"Open the link that 'rlmem serve' printed; it begins with {settings_url}token/"),
    )
