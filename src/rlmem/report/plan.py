"""A plan as a view: the verdict, where the memory goes, the findings."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from rlmem.core.ledger import PHASES, Peak, matches
from rlmem.core.plan import DOES_NOT_FIT, sentence, short_run, unknown_sentence, verdict_of
from rlmem.documents.formulas import FormulasDocument
from rlmem.documents.parts import FindingPart, PeakPart
from rlmem.documents.plan import EntryPart, PlanDocument, TargetPart
from rlmem.report.view import Column, Item, Section, Table, View
from rlmem.units import format_range, format_size

if TYPE_CHECKING:
    from rlmem.documents.report import ReportDocument

#: Components smaller than this share of the peak are added up in one row.
SMALL_SHARE = 0.002
_VERDICT_TONE = {"fits": "good", "tight": "warn", "does-not-fit": "bad", "unknown": "warn", "grows": "bad"}
_TONES = ("bad", "warn", "good")
_LEFT_OUT_FIRST = ("update", "collect", "evaluate", "build", "resume", "checkpoint", "import")
_SEVERITY_TONE = {"error": "bad", "warning": "warn", "info": "plain"}


def plan_view(document: PlanDocument) -> View:
    """What ``rlmem plan`` shows."""
    tables = [breakdown(document, device) for device in document.devices]
    processes = process_table(document)
    sections = [Section(title="Where it goes", tables=(*tables, *([processes] if processes else [])))]
    if document.findings:
        sections.append(Section(title="Findings", items=finding_items(document.findings)))
    notes = (
        *document.notes,
        limit_note(document),
        "GiB is 2³⁰ bytes, GB is 10⁹. Ranges: exact arrays have none; runtime constants and temporaries have.",
        "'--why COMPONENT' shows a formula and where its values come from.",
    )
    verdict = verdict_lines(document)
    if placement := document.placement:
        # Loaded here, as it is drawn with what this module defines.
        from rlmem.report.placement import placement_notes, placement_sections

        sections += [replace(each, title=f"On the nodes: {each.title}") for each in placement_sections(placement)]
        notes = (*notes[:-1], *placement_notes(placement)[:-1], notes[-1])
    return View(title=title_of(document.target), verdict=verdict, sections=tuple(sections), notes=notes)


def report_view(document: ReportDocument) -> View:
    """Return what a report says in a terminal: its plan."""
    return plan_view(document.plan)


def limit_note(document: PlanDocument) -> str:
    """Where the limits come from."""
    machine = document.machine
    sources = [text for text in (machine.ram_source, machine.vram_source) if text]
    if machine.unified and document.target.spec.get("device") == "cuda":
        sources.append("one pool; figures measured with CUDA stand in for this machine's GPU")
    return f"limit: {'; '.join(sources) if sources else 'none known'}"


def title_of(target: TargetPart) -> str:
    """A run's name, and what it is."""
    return f"{target.name}: {target.about}" if target.about else target.name


def worst_first(document: PlanDocument) -> list[tuple[Peak, str]]:
    """The largest peak of each device with its tone, the worst first."""
    leak = document.growth.leak() if document.growth else None
    tops = [top.peak(leak if top.device == "ram" else None) for top in document.tops]
    return _by_tone(tops, _on_nodes if document.placement else _tone)


def peak_lines(peaks: Iterable[PeakPart]) -> tuple[tuple[str, str], ...]:
    """Return a sentence for each device, with its tone, the worst first."""
    return tuple((_sentence(peak), tone) for peak, tone in _by_tone((part.peak() for part in peaks), _tone))


def _by_tone(peaks: Iterable[Peak], tone: Callable[[Peak], str]) -> list[tuple[Peak, str]]:
    return sorted(((peak, tone(peak)) for peak in peaks), key=lambda pair: _TONES.index(pair[1]))


def _tone(peak: Peak) -> str:
    return _VERDICT_TONE[verdict_of(peak)]


def _sentence(peak: Peak) -> str:
    return f"{peak.device.upper()} {sentence(peak)}"


def _on_nodes(peak: Peak) -> str:
    """A placement goes by the upper bound; what is kept spare is not in the limit."""
    return "bad" if peak.limit_bytes is not None and peak.high_bytes > peak.limit_bytes else "good"


def _peaks(document: PlanDocument) -> list[str]:
    """Where each device peaks, whatever the limit."""
    return [_sentence(replace(peak, limit_bytes=None)).partition(":")[0] for peak, _ in worst_first(document)]


def verdict_lines(document: PlanDocument) -> tuple[tuple[str, str], ...]:
    """One sentence per device, and first what would stop the run."""
    broken = [item for item in document.findings if item.severity == "error" and item.code != DOES_NOT_FIT]
    refused = tuple((f"will not work as described: {finding.title}", "bad") for finding in broken)
    unknown = tuple((unknown_sentence(item.device, item.limit_bytes, item.why), "warn") for item in document.unknown)
    peaks = worst_first(document)
    if placement := document.placement:  # the nodes are the limit
        from rlmem.report.placement import placement_verdict

        leaks = tuple((_sentence(peak), "bad") for peak, _ in peaks if peak.leak is not None)
        fits = () if leaks else placement_verdict(placement)
        return (*refused, *leaks, *unknown, *fits, *((line, "plain") for line in _peaks(document)))
    judged = sorted(
        (*((_sentence(peak), tone) for peak, tone in peaks), *unknown), key=lambda line: _TONES.index(line[1])
    )
    short = (
        short_run(document.target.spec, peak, unwritten)
        for peak, _ in peaks
        if (unwritten := beyond(document, peak.device))
    )
    return (*refused, *judged, *((text, "plain") for text in short), *((text, "warn") for text in document.warnings))


def beyond(document: PlanDocument, device: str) -> int:
    """Bytes of a replay buffer that the run never writes: reserved still at the peak."""
    phases = {top.phase for top in document.tops if top.device == device}
    return sum(
        entry.nbytes
        for entry in document.entries
        if entry.residency == "reserved"
        and entry.device == device
        and entry.phase in phases
        and matches(entry.component, "replay")
    )


def spread(document: PlanDocument, device: str, phase: str) -> str:
    """Where the range of a phase comes from: the entries that are the least certain."""
    wide = sorted(document.held(device, phase), key=lambda entry: entry.low_bytes - entry.high_bytes)[:3]
    parts = [
        f"{entry.component} {format_size(entry.low_bytes)} to {format_size(entry.high_bytes)}"
        for entry in wide
        if entry.high_bytes > entry.low_bytes
    ]
    return f"the range in {phase} comes mostly from {', '.join(parts)}" if parts else ""


def breakdown(document: PlanDocument, device: str) -> Table:
    """Components against phases on one device, the peak phase marked, with range and limit beneath."""
    entries = [entry for entry in document.entries if entry.device == device]
    peaks = {peak.phase: peak for peak in document.peaks if peak.device == device}
    phases = [phase for phase in PHASES if phase in peaks]
    top = next(phase for phase in phases if peaks[phase].is_peak)
    cells: dict[str, dict[str, int]] = {}
    waiting: dict[tuple[str, str], int] = {}
    files: dict[str, int] = {}
    for entry in entries:
        name = entry.component
        if entry.residency == "reserved":
            waiting[name, entry.phase] = waiting.get((name, entry.phase), 0) + entry.nbytes
        elif entry.residency == "reclaimable":
            files[name] = entry.nbytes
        else:
            row = cells.setdefault(name, {})
            row[entry.phase] = row.get(entry.phase, 0) + entry.nbytes
    floor = SMALL_SHARE * peaks[top].expected_bytes
    order = list(cells)
    shown = [name for name in order if max(cells[name].values()) >= floor]
    small = [name for name in order if name not in shown]
    unit_row = [(name, [cells[name].get(phase) for phase in phases]) for name in shown]
    if small:
        sums = [sum(cells[name].get(phase, 0) for name in small) or None for phase in phases]
        unit_row.append((f"{len(small)} smaller", sums))
    rows = [(name, *(_cell(value) for value in values)) for name, values in unit_row]
    rows.append(("total", *(_cell(peaks[phase].expected_bytes) for phase in phases)))
    rows.append(("range", *(_range(peaks[phase]) for phase in phases)))
    columns = (
        Column(title="component", right=False),
        *(phase_column(phase, is_peak=phase == top) for phase in phases),
    )
    reserved = {name: max(size for (other, _), size in waiting.items() if other == name) for name, _ in waiting}
    cached = reserved.pop("runtime.allocator-cache", 0)
    pending = sum(reserved.values()) - beyond(document, device)
    notes = [f"reserved at build, resident as it fills: {format_size(pending)}"] if pending else []
    if cached:
        notes.append(
            f"torch's allocator may keep {format_size(cached)} more; nvidia-smi counts it, torch gives it back before it fails"
        )
    notes += [
        f"{name}, {format_size(size)}: pages of a file, which the kernel takes back when it needs them"
        for name, size in files.items()
    ]
    notes.append(spread(document, device, top))
    note = "\n".join(text for text in notes if text)
    return Table(title=device.upper(), columns=columns, rows=tuple(rows), footers=2, note=note)


def phase_column(phase: str, *, is_peak: bool = False) -> Column:
    """A phase's column; in a narrow terminal the phases in which runs hold least are left out first."""
    rank = _LEFT_OUT_FIRST.index(phase) if phase in _LEFT_OUT_FIRST else 0
    return Column(title=f"{phase} ◄ peak" if is_peak else phase, strong=is_peak, rank=rank)


def _cell(value: int | None) -> str:
    return "" if value is None else format_size(value)


def _range(peak: PeakPart) -> str:
    return format_range(peak.low_bytes, peak.high_bytes, beside=peak.expected_bytes)


def process_table(document: PlanDocument) -> Table | None:
    """Per process, at each device's peak; ``None`` when there is only one."""
    tops = {(top.device, top.phase) for top in document.tops}
    totals: dict[tuple[str, str], int] = {}
    for entry in document.entries:
        if (entry.device, entry.phase) in tops and entry.counts:
            key = (entry.process, entry.device)
            totals[key] = totals.get(key, 0) + entry.nbytes
    names = tuple(dict.fromkeys(process for process, _ in totals))
    if len(names) < 2:
        return None
    devices = tuple(dict.fromkeys(device for _, device in totals))
    counts = _process_counts(document)
    rows = []
    for name in names:
        count = counts.get(name, 1)
        each = totals.get((name, "ram"), 0) // count
        rows.append((name, str(count), format_size(each), *(_cell(totals.get((name, device))) for device in devices)))
    columns = (
        Column(title="process", right=False),
        Column(title="count"),
        Column(title="each", rank=1),
        *(Column(title=device.upper()) for device in devices),
    )
    return Table(
        title="Per process, at the peak",
        columns=columns,
        rows=tuple(rows),
        note=f"Shared library pages are counted once, in {'main' if 'main' in names else 'ray'}.",
    )


def _process_counts(document: PlanDocument) -> dict[str, int]:
    spec = document.target.spec
    evaluation = spec.get("eval")
    eval_envs = evaluation.get("n_envs") if isinstance(evaluation, Mapping) else None
    actors = spec.get("rllib")
    actors = actors if isinstance(actors, Mapping) else {}
    found = {
        "workers": spec.get("n_envs"),
        "eval": eval_envs,
        "env-runner": actors.get("num_env_runners"),
        "learner": actors.get("num_learners"),
        "aggregator": actors.get("num_aggregators"),
        "eval-env-runner": actors.get("eval_env_runners"),
    }
    return {name: count if isinstance(count, int) and count > 0 else 1 for name, count in found.items()}


def finding_items(findings: Iterable[FindingPart]) -> tuple[Item, ...]:
    """Return findings as lines, in their order."""
    return tuple(finding_item(finding) for finding in findings)


def finding_item(finding: FindingPart) -> Item:
    """Return one finding as a line."""
    location = finding.location or ""
    place = f"line {finding.line}: " if finding.line else f"{location}: " if ".py:" in location else ""
    return Item(
        lead=finding.code,
        text=f"{place}{finding.title}",
        tone=_SEVERITY_TONE[finding.severity],
        saves=gain(finding),
        more=(finding.remedy,) if finding.remedy else (),
    )


def gain(finding: FindingPart) -> str:
    """Return what a finding saves, else what it costs, where that is known."""
    if finding.saves_bytes is not None:
        return f"saves {format_size(finding.saves_bytes)}" if finding.saves_bytes else "saves nothing"
    per = f" per {finding.costs_per}" if finding.costs_per else ""
    return f"costs {format_size(finding.costs_bytes)}{per}" if finding.costs_bytes else ""


def formulas_view(document: FormulasDocument) -> View:
    """Return formula and origins of each component, in the phase where it is largest."""
    best: dict[tuple[str, str], EntryPart] = {}
    for entry in document.entries:
        largest = best.get((entry.component, entry.device))
        if largest is None or (entry.counts, entry.nbytes) > (largest.counts, largest.nbytes):
            best[entry.component, entry.device] = entry
    return View(title=document.component, verdict=(), sections=tuple(_why(entry) for entry in best.values()))


def _why(entry: EntryPart) -> Section:
    size = format_size(entry.nbytes)
    spread = ""
    if entry.low_bytes != entry.high_bytes:
        spread = f" ({format_size(entry.low_bytes)} to {format_size(entry.high_bytes)})"
    lines = (
        f"{size}{spread} of {entry.device.upper()} in {entry.process}, {entry.residency} in {entry.phase}; "
        f"basis: {entry.basis}",
        entry.formula,
    )
    rows = tuple((term.name, f"{term.value:,}", term.origin) for term in entry.origin)
    columns = (Column(title="value", right=False), Column(title=""), Column(title="where it comes from", right=False))
    return Section(title=entry.component, lines=lines, tables=(Table(title="", columns=columns, rows=rows),))
