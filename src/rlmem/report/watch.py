"""Moments of a watch as lines of text and as rows for a table; what to show is decided here, once."""

from __future__ import annotations

from collections.abc import Sequence

from rlmem.core import memory_classes
from rlmem.core.amounts import count, items, of_limit, rate
from rlmem.core.moments import Moment
from rlmem.documents.moment import MOST_OWNERS, JudgementPart, MomentDocument, MomentPart, TrendPart
from rlmem.documents.parts import HoldingPart
from rlmem.documents.watch import SeenPart, WatchEndPart
from rlmem.report.lines import hanging, shortened
from rlmem.report.plot import plot
from rlmem.report.text import UNKNOWN, size
from rlmem.report.view import Column, Section, Table, View
from rlmem.units import format_duration, format_size

TONES = {"unknown": "plain", "normal": "good", "filling": "plain", "leaking": "bad", "stuck": "warn"}
BAR_WIDTH = 12
#: A limit up to so many times what was held is drawn.
NEAR = 1.25
#: Owners that hold less and do not grow are added up, where there are so many of them.
SMALL_SHARE, FEWEST_ADDED_UP = 0.005, 3
#: Classes that have a row however small: the question is whether it is them.
_ALWAYS = {memory_classes.HEAP, memory_classes.LIBRARY_CODE, memory_classes.STACKS}


def moment_view(document: MomentDocument) -> View:
    """Return one moment as ``rlmem show`` draws it."""
    judgement, moment = document.judgement, document.moment
    tone = "bad" if judgement.forecast.fits is False else TONES[judgement.state]
    tables = {"Owners": owner_table(document), "Processes": process_table(document)}
    return View(
        title=f"{document.target} at {document.time}: {shortened(document.command, 80)}",
        verdict=(
            (status_text(moment), "plain"),
            *((f"{judgement.state}: {reason}", tone) for reason in judgement.reasons),
        ),
        sections=tuple(Section(title=title, tables=(table,)) for title, table in tables.items() if table.rows),
        notes=moment.notes,
    )


def plain_line(document: MomentDocument, width: int | None = None) -> str:
    """``15:04:05  47068  19.8 GiB of 24 (82 %)  53 threads  leaking: …``.

    In a width, counts are left out where the line would not hold them, then the verdict goes on under the first line.
    """
    moment = document.moment
    clock = document.time.partition("T")[2][:8]
    time, head = f"{clock}  ", [document.target, size_text(moment)]
    if moment.cache_bytes is not None:
        head.append(f"cache {format_size(moment.cache_bytes)}")
    if moment.vram_bytes is not None:
        head.append(f"VRAM {of_limit(moment.vram_bytes, moment.vram_limit_bytes)}")
    counts = [f"{moment.processes} processes"] if moment.processes > 1 else []
    counts.append(f"{moment.threads} threads")
    verdict = verdict_text(document.judgement)
    whole = time + "  ".join([*head, *counts, verdict])
    if width is None or len(whole) <= width:
        return whole
    return hanging(time, "  ".join([*head, verdict]), width)


def size_text(moment: MomentPart) -> str:
    """The size against the limit."""
    text = of_limit(moment.tree_bytes, moment.limit_bytes)
    return f"{text} ({moment.tree_bytes / moment.limit_bytes:.0%})".replace("%", " %") if moment.limit_bytes else text


def verdict_text(judgement: JudgementPart) -> str:
    """The state and its first reason."""
    return f"{judgement.state}: {judgement.reasons[0]}" if judgement.reasons else judgement.state


def end_lines(end: WatchEndPart) -> tuple[str, ...]:
    """What was not told yet, and a line on each target."""
    return (*end.remarks, *(_summary(title, seen) for title, seen in end.targets))


def _summary(title: str, seen: SeenPart | None) -> str:
    if seen is None:
        return f"{title}: nothing was seen"
    return (
        f"watched {title} for {format_duration(seen.seconds)}: peak {format_size(seen.peak_bytes)} "
        f"at {format_duration(seen.peak_at_s)}; {verdict_text(seen.judgement)}"
    )


_PROCESS = (
    Column(title="process", right=False),
    Column(title="role", right=False, rank=1),
    Column(title="PSS"),
    Column(title="USS", rank=2),
    Column(title="VRAM"),
    Column(title="threads", rank=3),
    Column(title="command", right=False, rank=4),
)
_OWNER = (
    Column(title="owner", right=False),
    Column(title="resident"),
    Column(title="allocated", rank=2),
    Column(title="full", right=False, rank=1),
    Column(title="grows", right=False),
)


def process_table(document: MomentDocument, *, command: int = 80) -> Table:
    """A row for each process, with so many letters of its command."""
    rows = (
        (
            str(member.pid),
            member.role,
            size(member.pss_bytes),
            size(member.uss_bytes),
            size(member.vram_bytes, ""),
            str(member.threads),
            shortened(member.command, command),
        )
        for member in document.members
    )
    return _without_empty(_PROCESS, tuple(rows))


def owner_table(document: MomentDocument, *, bars: bool = True) -> Table:
    """A row for each of the largest owners, with a bar for its fill, and for each class of what has no owner."""
    growths = {growth.name: growth for growth in document.judgement.owners}
    moment = document.moment
    rows = []
    for held in moment.holdings or ():
        growth = growths.get(held.path)
        is_small = not (growth and growth.bytes_per_s > 0) and held.resident_bytes < SMALL_SHARE * moment.tree_bytes
        sizes = (format_size(held.resident_bytes), format_size(held.nbytes))
        rows.append((held.resident_bytes, is_small, (held.path, *sizes, fill_text(held, bar=bars), _grows(growth))))
    for portion in moment.portions or ():
        is_small = portion.name not in _ALWAYS and portion.resident_bytes < SMALL_SHARE * moment.tree_bytes
        cells = (f"({portion.name})", format_size(portion.resident_bytes), "", "", "")
        rows.append((portion.resident_bytes, is_small, cells))
    rows.sort(key=lambda row: -row[0])
    rest = [row for index, row in enumerate(rows) if row[1] or index >= MOST_OWNERS]
    if len(rest) >= FEWEST_ADDED_UP:
        nbytes = sum(row[0] for row in rest)
        rows = [row for row in rows if row not in rest]
        rows.append((nbytes, True, (f"({len(rest)} smaller)", format_size(nbytes), "", "", "")))
    return _without_empty(_OWNER, tuple(row[2] for row in rows))


def _without_empty(columns: tuple[Column, ...], rows: tuple[tuple[str, ...], ...]) -> Table:
    """A table without the columns that say nothing."""
    said = [
        index for index, _ in enumerate(columns) if not index or any(row[index] not in ("", UNKNOWN) for row in rows)
    ]
    return Table(
        title="",
        columns=tuple(columns[index] for index in said),
        rows=tuple(tuple(row[index] for index in said) for row in rows),
    )


def fill_text(held: HoldingPart, *, bar: bool = True) -> str:
    """``███▌         29 %``; a container without a bound says how many there are."""
    if held.filled is None:
        return ""
    if held.capacity is None:
        return f"{count(held.filled)} items"
    share = held.filled / held.capacity if held.capacity else 1.0
    if not bar:
        return f"{share:.0%}".replace("%", " %")
    eighths = round(share * BAR_WIDTH * 8)
    drawn = "█" * (eighths // 8) + " ▏▎▍▌▋▊▉"[eighths % 8].strip()
    return f"{drawn:{BAR_WIDTH}} {share:4.0%}".replace("%", " %")


def _grows(growth: TrendPart | None) -> str:
    if growth is None or not (growth.bytes_per_s or growth.items_per_s):
        return ""
    more = f" ({items(growth.items_per_s)})" if growth.items_per_s else ""
    return f"{rate(growth.bytes_per_s)}{more}"


def status_text(moment: MomentPart) -> str:
    """Size, limit, pressure, progress in one line."""
    parts = [size_text(moment)]
    if moment.limit_name:
        parts.append(f"limit: {moment.limit_name}")
    if moment.cache_bytes is not None:
        parts.append(f"file cache {format_size(moment.cache_bytes)}, which can be dropped")
    if moment.vram_bytes is not None:
        parts.append(f"VRAM {of_limit(moment.vram_bytes, moment.vram_limit_bytes)}")
    if moment.pressure is not None:
        parts.append(f"pressure {moment.pressure:.1%}".replace("%", " %"))
    counts = ((moment.processes, "process", "processes"), (moment.threads, "thread", "threads"))
    parts.append(", ".join(f"{count} {one if count == 1 else many}" for count, one, many in counts))
    return " · ".join(parts)


def history_plot(moments: Sequence[Moment], *, width: int, height: int) -> tuple[str, ...]:
    """The total over time; the limit is a line where it is near, and a label above where it is not."""
    if len(moments) < 2:
        return ()
    last = moments[-1]
    top = max(moment.tree_bytes for moment in moments)
    limit = last.limit_bytes
    is_near = limit is not None and limit <= NEAR * top
    lines = plot(
        [(moment.at_s - last.at_s, float(moment.tree_bytes), "•") for moment in moments],
        (lambda _: float(limit)) if limit is not None and is_near else None,
        x_text=lambda at: f"{format_duration(-at)} ago" if at else "now",
        y_text=format_size,
        width=width,
        height=height,
    )
    label = f"↑ limit {format_size(limit)}" if limit is not None and not is_near else ""
    return (f"{label:>{max(len(line) for line in lines)}}", *lines) if lines and label else lines
