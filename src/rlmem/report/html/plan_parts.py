"""A plan in pictures: gauge, components, phases, processes. The report and the planner in the browser draw the same."""

from __future__ import annotations

from collections.abc import Sequence
from xml.etree.ElementTree import Element

from rlmem.core.ledger import PHASES
from rlmem.documents.plan import EntryPart, PlanDocument
from rlmem.report.html import parts
from rlmem.report.html.chart import HEADROOM, Area, Chart, Level, Line, draw, gauge, legend
from rlmem.report.html.markup import Child, element
from rlmem.report.html.scale import Scale
from rlmem.report.plan import breakdown, process_table, verdict_lines, worst_first
from rlmem.report.view import Column, Table
from rlmem.units import format_size

#: Groups of components, in the order in which they are stacked; each has a colour of its own in the style sheet.
GROUPS = ("runtime", "workers", "replay", "rollout", "learner", "batch", "eval", "checkpoint")
#: Components that are smaller than this share of the peak are added up.
SMALL_SHARE = 0.005
_BASES = {
    "exact": "sizes of arrays: exact",
    "derived": "arithmetic over layers and copies",
    "measured": "constants measured on other runs",
    "assumed": "given or assumed",
}


def verdict(plan: PlanDocument) -> Element:
    """The sentences and a gauge for each device."""
    gauges = []
    for top, tone in worst_first(plan):
        device = top.device.upper()
        label = f"{device}: {format_size(top.expected_bytes)} in {top.phase}"
        label += f" of {format_size(top.limit_bytes)}" if top.limit_bytes else ", no limit known"
        drawn = gauge(
            low=top.low_bytes,
            expected=top.expected_bytes,
            high=top.high_bytes,
            limit=top.limit_bytes,
            tone=tone,
            label=label,
        )
        gauges.append(element("div", {"class": "device"}, element("p", {"class": "what"}, device), drawn))
    return element("div", {"class": "answer", "data-verdict": plan.verdict}, parts.verdict(verdict_lines(plan)), gauges)


def components(plan: PlanDocument) -> Element:
    """What is there at the peak, largest first, each bar where the one above it ends; a click shows the formula."""
    shown = []
    for top in plan.tops:
        held = _held(plan, top.device, top.phase)
        total = max(sum(entry.nbytes for entry in held), 1)
        large = [entry for entry in held if entry.nbytes >= SMALL_SHARE * total]
        small = [entry for entry in held if entry.nbytes < SMALL_SHARE * total]
        rows: list[Child] = []
        begin = 0
        for entry in large:
            rows.append(_bar(entry, begin, total))
            begin += entry.nbytes
        if small:
            rows.append(_smaller(small, begin, total))
        words = f"{top.device.upper()} in {top.phase}, {format_size(top.expected_bytes)}"
        shown.append(element("h3", {}, words))
        shown.append(element("div", {"class": "bars"}, rows))
    return parts.section(
        "Where the peak goes",
        shown,
        name="components",
        note="What is live at the largest moment of the phase that decides. Unfold a bar for its formula and where every value in it comes from.",
    )


def _held(plan: PlanDocument, device: str, phase: str) -> list[EntryPart]:
    """Return what is there, the largest first."""
    return sorted((entry for entry in plan.held(device, phase) if entry.nbytes), key=lambda entry: -entry.nbytes)


def look(component: str) -> str:
    """The colour of a component: its group's."""
    group = component.split(".", 1)[0].split("[", 1)[0]
    return f"of-{group}" if group in GROUPS else "of-other"


def _bar(entry: EntryPart, begin: int, total: int) -> Element:
    summary = parts.bar_line(entry.component, entry.nbytes, begin, total, look(entry.component))
    spread = ""
    if entry.low_bytes != entry.high_bytes:
        spread = f" ({format_size(entry.low_bytes)} to {format_size(entry.high_bytes)})"
    where = f"{format_size(entry.nbytes)}{spread} = {entry.nbytes:,} B in {entry.process}; basis: {entry.basis}"
    origin = Table(
        title="",
        columns=(
            Column(title="name", right=False),
            Column(title="value"),
            Column(title="where it comes from", right=False),
        ),
        rows=tuple((term.name, f"{term.value:,}", term.origin) for term in entry.origin),
    )
    more = [element("p", {}, where), element("p", {}, element("code", {"class": "formula"}, entry.formula))]
    return parts.unfold(
        summary,
        more,
        parts.table(origin, caption=f"Values of {entry.component}") if origin.rows else None,
        look="bar",
    )


def _smaller(small: Sequence[EntryPart], begin: int, total: int) -> Element:
    nbytes = sum(entry.nbytes for entry in small)
    rows = tuple((entry.component, entry.process, format_size(entry.nbytes), entry.formula) for entry in small)
    columns = (
        Column(title="component", right=False),
        Column(title="process", right=False),
        Column(title="size"),
        Column(title="formula", right=False),
    )
    return parts.unfold(
        parts.bar_line(f"{len(small)} smaller", nbytes, begin, total, "of-other"),
        parts.table(Table(title="", columns=columns, rows=rows), caption="Smaller components"),
        look="bar",
    )


def phases(plan: PlanDocument) -> Element:
    """Phases one after another as a stacked area, with the range of each and the limit."""
    charts: list[Child] = []
    for device in plan.devices:
        charts += [element("h3", {}, device.upper()), *_phase_chart(plan, device)]
    tables = [parts.table(breakdown(plan, device)) for device in plan.devices]
    return parts.section(
        "Phase by phase",
        charts,
        parts.unfold("The numbers", tables),
        name="phases",
        note="A peak belongs to one phase. Each phase is drawn at its largest moment; the dark band is the range of the total.",
    )


def _phase_chart(plan: PlanDocument, device: str) -> list[Child]:
    peaks = {peak.phase: peak for peak in plan.peaks if peak.device == device}
    order = [phase for phase in PHASES if phase in peaks]
    totals = {group: [0] * len(order) for group in (*GROUPS, "other")}
    for entry in plan.entries:
        if entry.device == device and entry.counts and entry.phase in peaks:
            group = look(entry.component).removeprefix("of-")
            totals[group][order.index(entry.phase)] += entry.nbytes
    base = [0] * len(order)
    areas = []
    used = [group for group, sizes in totals.items() if any(sizes)]
    for group in used:
        upper = [low + size for low, size in zip(base, totals[group], strict=True)]
        areas.append(Area(look=f"of-{group}", lower=_steps(base), upper=_steps(upper), title=group))
        base = upper
    band = Area(
        look="range",
        lower=_steps([peaks[phase].low_bytes for phase in order]),
        upper=_steps([peaks[phase].high_bytes for phase in order]),
        title="range of the total",
    )
    expected = [peaks[phase].expected_bytes for phase in order]
    limit = next((peak.limit_bytes for peak in peaks.values()), None)
    high = HEADROOM * max(*(peaks[phase].high_bytes for phase in order), 1)
    shown_limit = limit if limit and limit <= 3 * high else None
    chart = Chart(
        label=f"{device.upper()} by phase: " + ", ".join(f"{p} {format_size(peaks[p].expected_bytes)}" for p in order),
        x=Scale(low=0, high=len(order)),
        x_ticks=tuple((number + 0.5, phase) for number, phase in enumerate(order)),
        high=max(high, HEADROOM * shown_limit if shown_limit else 0),
        areas=(*areas, band),
        lines=(Line(look="total", points=_steps(expected)),),
        levels=(Level(at=shown_limit, label=f"limit {format_size(shown_limit)}"),) if shown_limit else (),
    )
    rows = [(f"of-{group}", group) for group in used] + [("range", "range of the total")]
    note = f"The limit, {format_size(limit)}, is far above." if limit and not shown_limit else ""
    return [draw(chart), element("p", {"class": "note"}, note) if note else None, legend(rows)]


def _steps(values: Sequence[float]) -> tuple[tuple[float, float], ...]:
    """Level within a phase, with a short slope to the next one."""
    points: list[tuple[float, float]] = []
    for number, value in enumerate(values):
        points += [
            (number + (0.12 if number else 0), value),
            (number + (0.88 if number < len(values) - 1 else 1), value),
        ]
    return tuple(points)


def processes(plan: PlanDocument) -> Element:
    """Who holds it, by process; pages that are shared count once."""
    found = process_table(plan)
    if found is None:
        return parts.section("Processes", element("p", {}, "One process: no workers of its own."), name="processes")
    return parts.section(
        "Processes",
        parts.table(found),
        name="processes",
        note="Proportional set sizes: a page that several processes share counts once.",
    )


def certainty(plan: PlanDocument) -> Element:
    """How much of the peak is arithmetic, and how much is not."""
    bases = {**_BASES, **({"measured": "measured in the dry run"} if plan.method == "dry run" else {})}
    shown: list[Child] = []
    for top in plan.tops:
        device = top.device.upper()
        held = _held(plan, top.device, top.phase)
        total = max(sum(entry.nbytes for entry in held), 1)
        sums = {basis: sum(entry.nbytes for entry in held if entry.basis == basis) for basis in bases}
        rows = tuple(
            (bases[basis], format_size(size), f"{100 * size / total:.1f} %") for basis, size in sums.items() if size
        )
        columns = (Column(title="rests on", right=False), Column(title="size"), Column(title="share"))
        spread = top.high_bytes - top.low_bytes
        wide = f"{device}: the range is {format_size(spread)} wide, {100 * spread / max(top.expected_bytes, 1):.1f} % of the peak."
        table = Table(title="", columns=columns, rows=rows)
        shown += [element("p", {}, wide), parts.table(table, caption=f"What the peak of {device} rests on")]
    note = "A prediction has no unexplained share; what it does not model is listed in docs/model.md."
    return parts.section("What is not certain", shown, name="unexplained", note=note)
