"""The report of a recorded run as one page: what happened, who held it, and what had been predicted."""

from __future__ import annotations

import shlex
from xml.etree.ElementTree import Element

from rlmem.documents.parts import HoldingPart
from rlmem.documents.recorded import PolicyPart, RecordedDocument, RecordedPeakPart
from rlmem.report.html import curve_parts, parts
from rlmem.report.html.chart import gauge
from rlmem.report.html.markup import Child, element
from rlmem.report.html.report_page import machine_words, remedy_list
from rlmem.report.html.time_parts import memory_chart
from rlmem.report.prediction import prediction_curve, prediction_section, processes_section
from rlmem.report.recorded import recorded_view, why_section
from rlmem.report.view import Column, Table
from rlmem.units import format_duration, format_size

#: Owners that hold less of the peak are added up.
SMALL_SHARE = 0.005
_TONES = {"ok": "good", "interrupted": "plain", "running": "plain", "stopped": "warn", "unknown": "warn"}


def recorded_title(document: RecordedDocument) -> tuple[str, str]:
    """The title of the page and a line beneath it."""
    run = f"run {document.run}, " if document.run else ""
    return document.target, f"recorded by rlmem run: {run}{document.started}"


def recorded_sections(document: RecordedDocument) -> list[Element]:
    """The sections of a recorded run, in the order in which they are read."""
    return [
        element("section", {"id": "verdict", "aria-label": "Verdict"}, _verdict(document)),
        _owners(document),
        _timeline(document),
        _to_come(document),
        _prediction(document),
        curve_parts.capacity(document.capacity, "the run's limit"),
        _remedies(document),
        _processes(document),
        _unexplained(document),
        _environment(document),
    ]


def _verdict(document: RecordedDocument) -> list[Child]:
    peak = document.peak
    lines = parts.verdict(recorded_view(document).verdict)
    if not peak.nbytes:
        return [lines]
    limit, tone = peak.limit_bytes, _TONES.get(document.status, "bad")
    size = peak.nbytes
    label = f"peak {format_size(size)}" + (f" of {format_size(limit)}" if limit else "")
    return [
        lines,
        gauge(
            low=size, expected=size, high=size, limit=limit, tone=tone, label=label, words=f"peak {format_size(size)}"
        ),
    ]


def _owners(document: RecordedDocument) -> Element:
    """Who held the peak, largest first; a click says what it is."""
    peak = document.peak
    owners = sorted((owner for owner in peak.owners if owner.device == "ram"), key=lambda owner: -owner.resident_bytes)
    title, name = "Who held the peak", "components"
    if not owners:
        words = "Owners are not known: nothing in the program could be asked. `rlmem run -- python …` asks programs that run Python."
        return parts.section(title, element("p", {}, parts.said(words)), name=name)
    total = max(peak.nbytes, sum(owner.resident_bytes for owner in owners), 1)
    large = [owner for owner in owners if owner.resident_bytes >= SMALL_SHARE * total]
    small = sum(owner.resident_bytes for owner in owners if owner.resident_bytes < SMALL_SHARE * total)
    rows: list[Child] = []
    begin = 0
    for number, owner in enumerate(large):
        rows.append(_bar(owner, begin, total, number))
        begin += owner.resident_bytes
    rest = total - begin - small
    for words, size, look in (
        (f"{len(owners) - len(large)} smaller owners", small, "of-other"),
        ("not held by a named owner", rest, "of-runtime"),
    ):
        if size > 0:
            rows.append(element("div", {"class": "bar"}, parts.bar_line(words, size, begin, total, look)))
            begin += size
    away = abs((peak.owners_at_s or 0) - peak.at_s)
    note = f"Owners were asked {format_duration(away)} from the peak." if away >= 1 else ""
    return parts.section(title, element("div", {"class": "bars"}, rows), name=name, note=note)


_LOOKS = ("of-replay", "of-learner", "of-rollout", "of-workers", "of-batch", "of-eval")


def _bar(owner: HoldingPart, begin: int, total: int, number: int) -> Element:
    look = _LOOKS[number] if number < len(_LOOKS) else "of-other"
    summary = parts.bar_line(owner.path, owner.resident_bytes, begin, total, look)
    rows = (
        f"{owner.filled:,}" + (f" of {owner.capacity:,}" if owner.capacity else ", no end")
        if owner.filled is not None
        else ""
    )
    details = [
        ("type", owner.type),
        ("resident", f"{owner.resident_bytes:,} B"),
        ("allocated", f"{owner.nbytes:,} B"),
        ("rows", rows),
        ("note", owner.note),
    ]
    return parts.unfold(summary, parts.facts(details), look="bar")


def _timeline(document: RecordedDocument) -> Element:
    chart = memory_chart(
        document.moments,
        label=f"memory over time, peak {format_size(document.peak.nbytes)}",
        predicted=prediction_curve(document),
    )
    rows = tuple(
        (row.phase or "outside of training", format_size(row.peak_bytes), format_duration(row.at_s))
        for row in document.phases
    )
    columns = (Column(title="phase", right=False), Column(title="largest"), Column(title="at"))
    table = (
        parts.table(Table(title="", columns=columns, rows=rows), caption="Largest moment of each phase")
        if rows
        else None
    )
    return parts.section("Over time", chart, table, name="phases")


def _to_come(document: RecordedDocument) -> Element:
    """What was reserved and not resident yet when it was last asked."""
    last = next((moment for moment in reversed(document.moments) if moment.holdings), None)
    rows = []
    for owner in (last.holdings if last else None) or ():
        left = owner.nbytes - owner.resident_bytes
        if owner.device == "ram" and owner.capacity and left > 0:
            full = f"{100 * (owner.filled or 0) / owner.capacity:.1f} %"
            rows.append(
                (
                    owner.path,
                    format_size(owner.nbytes),
                    format_size(owner.resident_bytes),
                    full,
                    format_size(left),
                )
            )
    columns = (
        Column(title="store", right=False),
        Column(title="reserved"),
        Column(title="resident"),
        Column(title="full"),
        Column(title="still to come"),
    )
    judged = [
        element("p", {}, parts.said(f"{document.judgement.state}: {reason}")) for reason in document.judgement.reasons
    ]
    table = parts.table(
        Table(title="", columns=columns, rows=tuple(rows)), caption="Reserved against resident, at the last look"
    )
    none = element("p", {}, "No store was left to fill at the last look.")
    return parts.section("Growth to come", judged, table if rows else none, name="growth")


def _prediction(document: RecordedDocument) -> Element:
    section = prediction_section(document)
    if section is None:
        why = document.no_plan or "the program trained no model that rlmem knows, or could not be asked"
        return parts.section("Predicted beside measured", element("p", {}, f"No prediction: {why}."), name="measured")
    return parts.of_section(section, name="measured")


def _remedies(document: RecordedDocument) -> Element:
    """What would have fit, and what else makes such a run smaller."""
    postmortem = document.postmortem
    why = why_section(postmortem) if postmortem else None
    rows = document.remedies
    none = "No remedy makes the peak smaller." if document.plan else "None is known: its model was not described."
    return parts.section(
        "Findings and remedies",
        [
            *(element("p", {}, parts.said(line)) for line in why.lines),
            *(parts.table(table) for table in why.tables),
            parts.items(why.items),
        ]
        if why
        else None,
        element("h3", {}, "Remedies, by what each saves alone"),
        remedy_list(rows) if rows else element("p", {}, none),
        name="findings",
    )


def _processes(document: RecordedDocument) -> Element:
    section = processes_section(document)
    if section is None:
        return parts.section("Processes", element("p", {}, "One process: no children of its own."), name="processes")
    return parts.of_section(section, name="processes")


def _unexplained(document: RecordedDocument) -> Element:
    peak = document.peak
    named = sum(owner.resident_bytes for owner in peak.owners if owner.device == "ram")
    if not peak.nbytes or not peak.owners:
        words = "All of it: no owner could be asked."
    else:
        rest = max(0, peak.nbytes - named)
        words = (
            f"{format_size(rest)} of the peak, {100 * rest / peak.nbytes:.1f} %, is not held by an owner with a name: the interpreter, "
            "library code, the allocator's spare room, and what was not asked in time. `rlmem explain PID` tells these apart while a process runs."
        )
    return parts.section("What is not explained", element("p", {}, parts.said(words)), name="unexplained")


def _guard(policy: PolicyPart) -> list[str]:
    """The limits that were asked for, as options."""
    sizes = [("--max-ram", policy.max_ram_bytes), ("--max-vram", policy.max_vram_bytes)]
    words = [word for option, nbytes in sizes if nbytes for word in (option, f"{nbytes}B")]
    words += ["--max-threads", str(policy.max_threads)] if policy.max_threads else []
    return words + (["--on-pressure", policy.action] if words and policy.action else [])


def _limit(peak: RecordedPeakPart) -> str:
    size = f"{format_size(peak.limit_bytes)}, " if peak.limit_bytes else ""
    return f"{size}{peak.limit_name}".rstrip(", ")


def _environment(document: RecordedDocument) -> Element:
    versions = {**document.versions, "rlmem": document.rlmem}
    rows: list[tuple[str, Child]] = [
        ("command", element("code", {}, shlex.join(document.command))),
        (
            "made again by",
            element("code", {}, shlex.join(["rlmem", "run", *_guard(document.policy), "--", *document.command])),
        ),
        ("started", document.started),
        ("versions", ", ".join(f"{name} {version}" for name, version in versions.items())),
        ("machine", machine_words(document.machine)),
        ("limit", _limit(document.peak)),
    ]
    return parts.section("Environment", parts.facts(rows), name="environment")
