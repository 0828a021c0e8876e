"""What is said of a recorded run: the summary at its end, and the report of ``rlmem assess RUN``."""

from __future__ import annotations

from collections.abc import Sequence

from rlmem.core.signals import signal_name
from rlmem.documents.parts import HoldingPart
from rlmem.documents.recorded import EndPart, LeftoverPart, PostMortemPart, RecordedDocument, ending, peak_sentence
from rlmem.report.plot import plot
from rlmem.report.prediction import prediction_section, processes_section
from rlmem.report.view import Column, Item, Section, Table, View
from rlmem.units import format_duration, format_size

_TONES = {"ok": "good", "interrupted": "plain", "running": "warn", "unknown": "warn", "stopped": "warn"}
_STATE_TONES = {"normal": "good", "filling": "good", "leaking": "bad", "stuck": "warn", "unknown": "plain"}
_MOST_EVENTS = 20


# -- sentences ----------------------------------------------------------------------------------------------------------


def summary_lines(document: RecordedDocument) -> tuple[str, ...]:
    """What is printed when a run has ended."""
    judgement, ended = document.judgement, document.ended
    lines = [ending(document), peak_sentence(document)]
    if judgement.state == "leaking":  # first of all
        lines[1:1] = [f"leaking: {reason}" if not index else reason for index, reason in enumerate(judgement.reasons)]
    elif judgement.state != "unknown" or (judgement.total and judgement.total.significant):
        lines.append(f"{judgement.state}: {'; '.join(judgement.reasons[:2])}")
    if ended is not None:
        lines += _end_lines(ended)
    if document.run:
        lines.append(f"recorded as {document.run}: rlmem assess {document.run}")
    return tuple(lines)


def _end_lines(ended: EndPart) -> list[str]:
    lines = []
    if ended.checkpoint and ended.checkpoint.get("state") == "saved":
        lines.append(f"checkpoint: {ended.checkpoint['folder']}")
    lines += _postmortem_lines(ended.postmortem) if ended.postmortem else _kills(ended)
    if ended.cleared:
        lines.append(f"ended what it left behind: {_processes(ended.cleared)}")
    if ended.left:
        numbers = " ".join(str(pid) for pid in ended.left)
        lines.append(f"{len(ended.left)} of its processes left the terminal and still run; to end them: kill {numbers}")
    return lines


def _kills(ended: EndPart) -> list[str]:
    """Workers that the run itself killed: no failure, but said."""
    killed = [one for one in ended.exits if one.sender is not None]
    if not killed:
        return []
    first = killed[0]
    who = f"worker {first.pid} was" if len(killed) == 1 else f"{len(killed)} workers were"
    return [f"{who} killed by {signal_name(first.signal)}, sent by process {first.sender} of the run itself"]


def _processes(processes: Sequence[LeftoverPart]) -> str:
    """``3 processes (python3 -c from multiprocessing.spawn …)``: commands that several have once."""
    commands = list(dict.fromkeys(_shortened(process.command) for process in processes if process.command))
    named = ", ".join(commands[:3]) + (", …" if len(commands) > 3 else "")
    count = "a process" if len(processes) == 1 else f"{len(processes)} processes"
    return f"{count} ({named})" if named else count


def _shortened(command: str) -> str:
    program, _, rest = command.partition(" ")
    text = f"{program.rpartition('/')[2]} {rest}".strip()
    return text if len(text) <= 40 else f"{text[:39].rstrip()}…"


def _postmortem_lines(postmortem: PostMortemPart) -> list[str]:
    lines = [f"why: {postmortem.cause}"]
    if postmortem.grown:
        gains = ", ".join(f"{row.name} +{format_size(row.nbytes)}" for row in postmortem.grown[:3])
        lines.append(f"grew in the last {format_duration(postmortem.window_s)}: {gains}")
    lines += [f"what to do: {postmortem.todo}"] if postmortem.todo else []
    lines += [f"would have fit: {text}" for text in postmortem.changes[:2]]
    lines += [f"smaller: {text}" for text in postmortem.advice[: 2 - len(postmortem.changes[:2])]]
    return lines


# -- the report ---------------------------------------------------------------------------------------------------------


def recorded_view(document: RecordedDocument) -> View:
    """What ``rlmem assess RUN`` and ``rlmem show RUN`` draw."""
    judgement, postmortem = document.judgement, document.postmortem
    verdict = [(ending(document), _TONES.get(document.status, "bad"))]
    if postmortem:
        verdict.append((postmortem.cause, "bad"))
    verdict.append((f"RAM {peak_sentence(document)}", "plain"))
    tone = "bad" if judgement.forecast.fits is False else _STATE_TONES[judgement.state]
    verdict += [(f"{judgement.state}: {text}", tone) for text in judgement.reasons[:1]]
    if document.no_plan:
        verdict.append((f"no prediction: {document.no_plan}", "warn"))
    why = why_section(postmortem) if postmortem else None
    sections = (
        why,
        _owners(document),
        processes_section(document),
        prediction_section(document),
        _over_time(document),
        _said(document.ended) if document.ended else None,
        _run(document),
    )
    return View(
        title=f"{document.target}: recorded" + (f" (run {document.run})" if document.run else ""),
        verdict=tuple(verdict),
        sections=tuple(section for section in sections if section is not None),
        notes=("GiB is 2³⁰ bytes, GB is 10⁹. A page that several processes share counts once.",),
    )


def why_section(postmortem: PostMortemPart) -> Section:
    """What grew before the end, and what would have fit."""
    rows = tuple(
        (
            row.name,
            f"+{format_size(row.nbytes)}",
            format_size(row.now_bytes),
            "" if row.items is None else f"{row.items:+,}",
        )
        for row in postmortem.grown
    )
    columns = (Column(title="what", right=False), Column(title="grew"), Column(title="to"), Column(title="rows"))
    tables = (
        (Table(title=f"In the last {format_duration(postmortem.window_s)}", columns=columns, rows=rows),)
        if rows
        else ()
    )
    items = tuple(Item(lead="fits", text=text.rstrip("."), tone="good") for text in postmortem.changes)
    items += (Item(lead="what to do", text=postmortem.todo, tone="plain"),) if postmortem.todo else ()
    items += tuple(Item(lead="smaller", text=text.rstrip("."), tone="plain") for text in postmortem.advice)
    lines = (
        ()
        if postmortem.changes or postmortem.todo
        else ("No change is known that would have fit: its owners were not recorded.",)
    )
    return Section(title="Why it died, and what would have fit", lines=lines, tables=tables, items=items)


def _owners(document: RecordedDocument) -> Section:
    peak = document.peak
    if not peak.owners:
        return Section(title="Who held the peak", lines=("Owners are not known: nothing in it could be asked.",))
    rows = tuple(
        (
            owner.path,
            owner.type,
            owner.device.upper(),
            format_size(owner.resident_bytes),
            format_size(owner.nbytes),
            _fill(owner),
        )
        for owner in sorted(peak.owners, key=lambda owner: -owner.resident_bytes)
    )
    columns = (
        Column(title="owner", right=False),
        Column(title="type", right=False, rank=3),
        Column(title="on", right=False, rank=2),
        Column(title="resident"),
        Column(title="allocated", rank=1),
        Column(title="filled"),
    )
    away = abs((peak.owners_at_s or 0.0) - peak.at_s)
    note = f"Owners were asked {format_duration(away)} from the peak." if away >= 1 else ""
    return Section(title="Who held the peak", tables=(Table(title="", columns=columns, rows=rows, note=note),))


def _fill(owner: HoldingPart) -> str:
    if owner.filled is None:
        return ""
    if owner.capacity is None:
        return f"{owner.filled:,}, no end"
    return f"{owner.filled:,} of {owner.capacity:,}"


def _over_time(document: RecordedDocument) -> Section | None:
    moments = document.moments
    if len(moments) < 2:
        return None
    marks = [(moment.at_s, float(moment.tree_bytes), "●") for moment in moments]
    figure = plot(marks, lambda at: 0.0, x_text=format_duration, y_text=format_size)
    columns = (Column(title="phase", right=False), Column(title="largest"), Column(title="at"))
    rows = tuple(
        (row.phase or "outside of training", format_size(row.peak_bytes), format_duration(row.at_s))
        for row in document.phases
    )
    lines = (f"{len(moments):,} moments of the process tree.",)
    tables = (Table(title="By phase", columns=columns, rows=rows),) if rows else ()
    return Section(title="Over time", lines=lines, figure=figure, tables=tables)


def _said(ended: EndPart) -> Section | None:
    if not ended.events and not ended.deaths:
        return None
    items = [
        Item(lead=format_duration(event.at_s), text=event.text, tone="warn" if event.kind == "warn" else "plain")
        for event in ended.events[:_MOST_EVENTS]
    ]
    for death in ended.deaths[:5]:
        place = f" at {death.where}" if death.where else ""
        first = death.message.splitlines()[0][:300] if death.message else ""
        items.append(Item(lead=death.type.rpartition(".")[2], text=f"{first}{place}".strip(), tone="bad"))
    return Section(title="What happened", items=tuple(items))


def _run(document: RecordedDocument) -> Section:
    policy, machine = document.policy, document.machine
    limits = [
        f"{name} {format_size(nbytes)}"
        for name, nbytes in (("--max-ram", policy.max_ram_bytes), ("--max-vram", policy.max_vram_bytes))
        if nbytes
    ]
    limits += [f"--max-threads {policy.max_threads}"] if policy.max_threads else []
    asked = f"{', '.join(limits) or 'no limit of its own'}; on pressure: {policy.action}"
    cells = [
        ("command", " ".join(document.command)),
        ("started", document.started),
        ("asked for", asked),
        ("machine", ", ".join(str(machine[k]) for k in ("system", "limit_source") if machine.get(k))),
        ("versions", ", ".join(f"{name} {text}" for name, text in document.versions.items())),
    ]
    columns = (Column(title="", right=False), Column(title="", right=False))
    rows = tuple(cell for cell in cells if cell[1])
    return Section(title="The run", tables=(Table(title="", columns=columns, rows=rows),))
