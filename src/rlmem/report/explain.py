"""What ``rlmem explain`` shows: owners, classes and the rest of each process, the tree, threads, GPUs, advice."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from rlmem.documents.explanation import ExplanationDocument, ProcessPart
from rlmem.documents.parts import AdvicePart, GpuSharePart, HoldingPart
from rlmem.report.owners import allocated_text, growth_text, resident_text, rest_of
from rlmem.report.table import Cell, make_table
from rlmem.report.text import size
from rlmem.report.view import Column, Item, Section, Table, View
from rlmem.units import format_count, format_range, format_size

#: Owners with a smaller share of the resident memory are added up under their common path.
SMALL_SHARE = 0.005
#: Graphs that a container without an end keeps are said first from this size and share of the resident memory on.
KEPT_BYTES, KEPT_SHARE = 16 << 20, 0.02
#: What a full buffer would add to what the run fills of it, to be said.
LEAST_LEFT_OUT = 16 << 20
MOST_ROWS = 25
#: Ranges narrower than this share on both sides are not shown.
LEAST_SPREAD = 0.02
_TONES = {"error": "bad", "warning": "warn", "info": "plain"}


def explain_view(document: ExplanationDocument) -> View:
    """The explanation as a page."""
    processes, top = document.processes, document.top
    sections = [_owners(process, processes) for process in shown(processes)]
    if len(processes) > 1:
        sections.insert(1, _tree(document))
    more = (_threads(top), _gpus(processes), _findings(document), _advice(document))
    sections += [section for section in more if section]
    notes = [
        f"{process.pid}: {note}" if len(processes) > 1 else note for process in processes for note in process.notes
    ]
    notes += document.notes
    if document.limit_bytes:
        notes.append(f"limit: {format_size(document.limit_bytes)}, {document.limit_source}")
    way = f"pages read by {top.pages_from}, names by {_WAYS[top.way]}"
    notes.append(f"{way}, in {top.seconds:.2f} s{_pauses(top.pauses_s)}")
    return View(
        title=_title(top), verdict=_verdict(document), sections=tuple(sections), notes=tuple(dict.fromkeys(notes))
    )


def _pauses(pauses_s: Sequence[float]) -> str:
    """``; the program stood still for 87 ms: in 4 parts, of 30 ms at most``."""
    if not pauses_s:
        return ""
    text = f"; the program stood still for {sum(pauses_s) * 1000:.0f} ms"
    return text + (f": in {len(pauses_s)} parts, of {max(pauses_s) * 1000:.0f} ms at most" if pauses_s[1:] else "")


_WAYS = {
    "agent": "its agent",
    "remote-exec": "sys.remote_exec",
    "debugger": "an agent a debugger put there",
    "pages": "nobody (classes only)",
}


def _title(top: ProcessPart) -> str:
    command = top.command if len(top.command) <= 80 else top.command[:79] + "…"
    return f"process {top.pid}: {command}"


def _verdict(document: ExplanationDocument) -> tuple[tuple[str, str], ...]:
    top, count = document.top, len(document.processes)
    own = f", {format_size(top.uss_bytes)} of it its own" if top.uss_bytes is not None else ""
    lines = [(f"{format_size(top.rss_bytes)} resident{own}, {len(top.threads) or 1} threads", "plain")]
    if count > 1 and document.pss_bytes is not None:
        together = f"{format_size(document.pss_bytes)} together, each shared page once"
        lines.append((f"{count} processes hold {together}", "plain"))
    lines += [(_kept(holding), "bad") for holding in top.holdings if _keeps(holding, top)]
    if top.growth_bytes:
        after, limit = top.rss_bytes + top.growth_bytes, document.limit_bytes
        tone = "bad" if limit and after > limit else "warn" if limit and after > 0.95 * limit else "good"
        fits = "" if not limit else f" of {format_size(limit)}: {'does not fit' if after > limit else 'fits'}"
        lines.append((f"will grow by {format_size(top.growth_bytes)} to {format_size(after)}{fits}", tone))
    if top.full_growth_bytes - top.growth_bytes >= LEAST_LEFT_OUT:
        short = [holding for holding in top.holdings if holding.run_rows]
        most = max(short, key=lambda holding: (holding.full_growth_bytes or 0) - (holding.growth_bytes or 0))
        rows, full = format_count(most.run_rows or 0), format_size(top.rss_bytes + top.full_growth_bytes)
        lines.append((f"this run ends with {rows} rows in its buffer; a full one makes {full}", "plain"))
    share = top.unexplained_bytes / top.rss_bytes if top.rss_bytes else 0
    text = (
        f"named {_percent(top.named_bytes, top)}, classes {_percent(top.portion_bytes, top)}, "
        f"unexplained {_percent(top.unexplained_bytes, top)} ({format_size(top.unexplained_bytes)})"
    )
    lines.append((text, "warn" if share > 0.1 else "plain"))
    if top.trimmed_bytes is not None:
        lines.append((f"malloc_trim gave back {format_size(top.trimmed_bytes)}", "plain"))
    return tuple(lines)


def _keeps(holding: HoldingPart, process: ProcessPart) -> bool:
    """Whether graphs that a container without an end keeps are the first thing to be said."""
    is_endless = holding.kind == "container" and holding.capacity is None
    least = max(KEPT_BYTES, KEPT_SHARE * process.rss_bytes)
    return (is_endless or holding.graph_more) and holding.graph_bytes >= least


def _kept(holding: HoldingPart) -> str:
    """``losses keeps the autograd graphs of 100 tensors, 396 MiB: it grows with each one added (train.py:38: …)``."""
    graphs = format_size(holding.graph_bytes)
    if holding.graph_more:
        name = holding.path.removesuffix(".grad_fn")
        return f"{name} keeps {holding.note}, {graphs} or more: what goes on from step to step needs .detach()"
    where = f" ({holding.added_at})" if holding.added_at else ""
    text = f"{holding.path} keeps the autograd graphs of {format_count(holding.graphs)} tensors, {graphs}"
    return f"{text}: it grows with each one added{where}"


def _percent(nbytes: int, process: ProcessPart) -> str:
    return f"{100 * nbytes / process.rss_bytes:.0f} %" if process.rss_bytes else "0 %"


def shown(processes: Sequence[ProcessPart]) -> list[ProcessPart]:
    """The process asked about, and the largest child of each role: workers are alike, and all are in the table."""
    by_role: dict[str, ProcessPart] = {}
    for process in sorted(processes[1:], key=lambda process: -process.rss_bytes):
        if process.holdings:
            by_role.setdefault(process.role, process)
    return [processes[0], *by_role.values()]


def _owners(process: ProcessPart, processes: Sequence[ProcessPart]) -> Section:
    columns = (
        Column(title="held by", right=False),
        Column(title="resident", strong=True),
        Column(title="share", rank=2),
        Column(title="allocated", rank=3),
        Column(title="rows", rank=1),
        Column(title="still to come"),
    )
    rows = [_row(holding, process) for holding in folded(process.holdings, process.rss_bytes)]
    for name, nbytes in rest_of(process.portions, process.unexplained_bytes):
        rows.append((name, format_size(nbytes), _percent(nbytes, process), "", "", ""))
    growth = format_size(process.growth_bytes) if process.growth_bytes else ""
    rows.append(("resident in all", format_size(process.rss_bytes), "100 %", "", "", growth))
    title = "Who holds it"
    if len(processes) > 1:
        alike = sum(other.role == process.role for other in processes)
        title = f"{process.role} {process.pid}" + (f", the largest of {alike}" if alike > 1 else "")
    lines = tuple(sentence(holding) for holding in process.holdings[:3] if holding.growth_bytes)
    table = Table(title="", columns=columns, rows=tuple(rows), footers=1, note="~ is an estimate from a sample")
    return Section(title=title, lines=lines, tables=(table,))


def sentence(holding: HoldingPart) -> str:
    """``model.replay_buffer.observations: allocated 39.7 GiB, resident 3.1 GiB, 7.8 % full: will grow by 36.6 GiB``."""
    text = f"{holding.path}: allocated {format_size(holding.nbytes)}, resident {format_size(holding.resident_bytes)}"
    if holding.capacity:
        text += f", {100 * (holding.filled or 0) / holding.capacity:.1f} % full"
    return f"{text}: will grow by {format_size(holding.growth_bytes or 0)}"


def _row(holding: HoldingPart, process: ProcessPart) -> tuple[str, ...]:
    kind = f" ({holding.note})" if holding.note else ""
    rows = ""
    if holding.capacity:
        rows = f"{format_count(holding.filled or 0)} of {format_count(holding.capacity)}"
    elif holding.filled is not None:
        rows = f"{format_count(holding.filled)}, no end"
    vram = " on the GPU" if holding.device == "vram" else ""
    return (
        f"{holding.path}{kind}{vram}",
        f"{resident_text(holding)}{_spread(holding)}",
        "" if vram else _percent(holding.resident_bytes, process),
        allocated_text(holding),
        rows,
        growth_text(holding),
    )


def _spread(holding: HoldingPart) -> str:
    """`` (1.0–1.4)`` beside a size that was reckoned from a sample; nothing where it can be off by little."""
    low, nbytes, high = holding.low_bytes, holding.resident_bytes, holding.high_bytes
    if low is None or high is None or max(nbytes - low, high - nbytes) < LEAST_SPREAD * nbytes:
        return ""
    return f" ({format_range(low, high, beside=nbytes)})"


def folded(holdings: Iterable[HoldingPart], rss_bytes: int) -> list[HoldingPart]:
    """Large owners as they are; small ones added up by the first words of their paths, then all the rest in one row."""
    least = SMALL_SHARE * rss_bytes
    large, groups = list[HoldingPart](), dict[str, list[HoldingPart]]()
    for holding in holdings:
        if max(holding.resident_bytes, holding.growth_bytes or 0) >= least or holding.device == "vram":
            large.append(holding)
        else:
            groups.setdefault(_head(holding.path), []).append(holding)
    for head, parts in groups.items():
        large.append(_added(f"{head} ({len(parts)} parts)" if len(parts) > 1 else parts[0].path, parts))
    large.sort(key=lambda holding: (-holding.resident_bytes, holding.path))
    most, rest = large[:MOST_ROWS], large[MOST_ROWS:]
    return [*most, _added(f"{len(rest)} others", rest)] if rest else most


def _head(path: str) -> str:
    words = path.split(".")
    return ".".join(words[:2]) if len(words) > 2 else words[0]


def _added(path: str, parts: Sequence[HoldingPart]) -> HoldingPart:
    single = parts[0] if len(parts) == 1 else None
    return HoldingPart(
        path=path,
        kind="",
        type="",
        note=single.note if single else "",
        resident_bytes=sum(part.resident_bytes for part in parts),
        nbytes=sum(part.nbytes for part in parts),
        growth_bytes=sum(part.growth_bytes or 0 for part in parts),
        estimated=any(part.estimated for part in parts),
        filled=single.filled if single else None,
        capacity=single.capacity if single else None,
    )


def _tree(document: ExplanationDocument) -> Section:
    cells: tuple[Cell[ProcessPart], ...] = (
        (Column(title="process", right=False), lambda process: f"{process.pid} {process.role}"),
        (Column(title="RSS", rank=1), lambda process: format_size(process.rss_bytes)),
        (Column(title="PSS", strong=True), lambda process: size(process.pss_bytes)),
        (Column(title="USS"), lambda process: size(process.uss_bytes)),
        (Column(title="shared by fork", rank=2), lambda process: size(process.shared_anonymous_bytes)),
        (Column(title="threads", rank=3), lambda process: str(len(process.threads))),
        (Column(title="names by", right=False, rank=4), lambda process: process.way),
    )
    total = ("together", "", size(document.pss_bytes), size(document.uss_bytes), "", "", "")
    lines = (
        "PSS counts a page in equal parts for all who have it, so it adds up; RSS counts it for everyone. "
        "USS is what would come back if a process ended alone.",
    )
    return Section(title="Processes", lines=lines, tables=(make_table(cells, document.processes, total=total),))


def _threads(process: ProcessPart) -> Section | None:
    stacks = [thread for thread in process.threads if thread.resident_bytes is not None]
    if not stacks:
        return None
    resident = sum(thread.resident_bytes or 0 for thread in stacks)
    reserved = sum(thread.reserved_bytes or 0 for thread in stacks)
    rest = len(process.threads) - len(stacks)
    text = (
        f"{len(stacks)} threads hold {format_size(resident)} of stack and reserve {format_size(reserved)} of addresses"
        + (f"; {rest} more were running and not looked at" if rest else "")
    )
    return Section(title="Threads", lines=(text,))


def _gpus(processes: Iterable[ProcessPart]) -> Section | None:
    shares = [(process.pid, share) for process in processes for share in process.gpus]
    cells: tuple[Cell[tuple[int, GpuSharePart]], ...] = (
        (Column(title="process", right=False), lambda row: str(row[0])),
        (Column(title="GPU", right=False), lambda row: row[1].gpu),
        (Column(title="used (driver)"), lambda row: size(row[1].used_bytes)),
        (Column(title="allocated (torch)"), lambda row: size(row[1].allocated_bytes)),
        (Column(title="reserved (torch)"), lambda row: size(row[1].reserved_bytes)),
        (Column(title="context and other"), lambda row: size(row[1].other_bytes)),
    )
    return Section(title="GPU memory", tables=(make_table(cells, shares),)) if shares else None


def _findings(document: ExplanationDocument) -> Section | None:
    """What the rules see in the processes as they are."""
    items = tuple(
        Item(
            lead=finding.code,
            text=finding.title,
            tone=_TONES[finding.severity],
            saves=f"worth {format_size(finding.saves_bytes)}" if finding.saves_bytes else "",
            more=(finding.remedy,) if finding.remedy else (),
        )
        for finding in document.findings
    )
    return Section(title="Findings", items=items) if items else None


def _advice(document: ExplanationDocument) -> Section | None:
    """What the rules say of the run; not again what they see in the process."""
    seen = {finding.code for finding in document.findings}
    items = tuple(
        Item(
            lead=advice.code,
            text=advice.title,
            tone=_TONES[advice.severity],
            saves=f"saves {format_size(advice.saves_bytes)} at the peak" if advice.saves_bytes else "",
            more=tuple(_what_to_do(advice)),
        )
        for advice in document.advice
        if advice.code not in seen and (advice.severity != "info" or advice.saves_bytes)
    )
    return Section(title="Advice", items=items) if items else None


def _what_to_do(advice: AdvicePart) -> Iterator[str]:
    if advice.remedy:
        yield advice.remedy
    if advice.returns_bytes:
        yield f"would give back {format_size(advice.returns_bytes)} of what is resident now"
