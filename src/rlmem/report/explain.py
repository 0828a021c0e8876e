"""What ``rlmem explain`` shows: owners, classes and the rest of each process, the tree, threads, GPUs, advice."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from rlmem.findings import SEVERITIES, Advice, Finding
from rlmem.holdings import PAGE_METHODS, WAYS, Explanation, TreeExplanation
from rlmem.report.contract import described
from rlmem.report.view import Column, Item, Section, Table, View
from rlmem.units import format_count, format_range, format_size

EXPLAIN_SCHEMA = "rlmem.explain/1"
_SIZE: dict[str, Any] = {"type": ["integer", "null"]}
_WORDS: dict[str, Any] = {"type": ["string", "null"]}
_COUNT: dict[str, Any] = {"type": "integer"}
_NUMBER: dict[str, Any] = {"type": "number"}
_FLAG: dict[str, Any] = {"type": "boolean"}
_TEXT: dict[str, Any] = {"type": "string"}
_LIST: dict[str, Any] = {"type": "array", "items": {"type": "object"}}
EXPLAIN_JSON_SCHEMA = described(
    {
        "schema": {"type": "string", "enum": [EXPLAIN_SCHEMA]},
        "limit_bytes": _SIZE,
        "limit_source": _TEXT,
        "pss_bytes": _SIZE,
        "uss_bytes": _SIZE,
        "shared_bytes": _SIZE,
        "processes": {
            "type": "array",
            "items": described(
                {
                    **dict.fromkeys(("pid", "rss_bytes", "named_bytes", "unexplained_bytes"), _COUNT),
                    **dict.fromkeys(("pss_bytes", "uss_bytes", "swap_bytes", "shared_anonymous_bytes"), _SIZE),
                    **dict.fromkeys(("trimmed_bytes", "growth_bytes", "full_growth_bytes", "free_heap_bytes"), _SIZE),
                    **dict.fromkeys(("open_figures", "models_alive"), _SIZE),
                    **dict.fromkeys(("paused_s", "longest_pause_s"), _NUMBER),
                    "pauses_s": {"type": "array", "items": _NUMBER},
                    **dict.fromkeys(("command", "role", "state"), _TEXT),
                    "way": {"type": "string", "enum": list(WAYS)},
                    "pages_from": {"type": "string", "enum": list(PAGE_METHODS)},
                    **dict.fromkeys(("portions", "threads", "gpus"), _LIST),
                    "holdings": {
                        "type": "array",
                        "items": described(
                            {
                                **dict.fromkeys(("path", "kind", "type", "device", "note", "added_at"), _TEXT),
                                **dict.fromkeys(("nbytes", "resident_bytes", "graphs", "graph_bytes"), _COUNT),
                                **dict.fromkeys(("filled", "capacity", "run_rows"), _SIZE),
                                **dict.fromkeys(("low_bytes", "high_bytes"), _SIZE),
                                **dict.fromkeys(("growth_bytes", "full_growth_bytes"), _SIZE),
                                **dict.fromkeys(("estimated", "graph_more"), _FLAG),
                            }
                        ),
                    },
                    "notes": {"type": "array", "items": _TEXT},
                }
            ),
        },
        "findings": {
            "type": "array",
            "items": described(
                {
                    **dict.fromkeys(("code", "name", "title"), _TEXT),
                    "severity": {"type": "string", "enum": list(SEVERITIES)},
                    **dict.fromkeys(("location", "remedy"), _WORDS),
                    **dict.fromkeys(("saves_bytes", "costs_bytes"), _SIZE),
                    "costs_per": _TEXT,
                }
            ),
        },
        "advice": _LIST,
        "notes": {"type": "array", "items": _TEXT},
    }
)
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


def explain_document(
    tree: TreeExplanation,
    *,
    findings: Sequence[Finding] = (),
    advice: Sequence[Advice] = (),
    limit_bytes: int | None = None,
    limit_source: str = "",
) -> dict[str, Any]:
    """The explanation as JSON; sizes are bytes.

    ``findings`` are what the rules see in the process itself, ``advice`` what they say of the run it was started as.
    """
    return {
        "schema": EXPLAIN_SCHEMA,
        "limit_bytes": limit_bytes,
        "limit_source": limit_source,
        "pss_bytes": tree.pss_bytes,
        "uss_bytes": tree.uss_bytes,
        "shared_bytes": tree.shared_bytes,
        "processes": [_process(each) for each in tree.processes],
        "findings": [asdict(each) for each in findings],
        "advice": [{**asdict(each.finding), "returns_bytes": each.returns_bytes} for each in advice],
        "notes": list(tree.notes),
    }


def _process(found: Explanation) -> dict[str, Any]:
    document = asdict(found)
    for entry, holding in zip(document["holdings"], found.holdings, strict=True):
        entry |= {"growth_bytes": holding.growth_bytes, "full_growth_bytes": holding.full_growth_bytes}
    for entry, share in zip(document["gpus"], found.gpus, strict=True):
        entry["other_bytes"] = share.other_bytes
    document |= {
        "named_bytes": found.named_bytes,
        "growth_bytes": found.growth_bytes,
        "full_growth_bytes": found.full_growth_bytes,
    }
    document |= {"paused_s": found.paused_s, "longest_pause_s": max(found.pauses_s, default=0.0)}
    return {key: list(value) if isinstance(value, tuple) else value for key, value in document.items()}


def explain_view(document: Mapping[str, Any]) -> View:
    """The explanation as a page."""
    processes = document["processes"]
    top = processes[0]
    sections = [_owners(each, processes) for each in shown(processes)]
    if len(processes) > 1:
        sections.insert(1, _tree(document))
    sections += [
        section for section in (_threads(top), _gpus(processes), _findings(document), _advice(document)) if section
    ]
    notes = [
        *(f"{each['pid']}: {note}" if len(processes) > 1 else note for each in processes for note in each["notes"]),
        *document["notes"],
    ]
    if document["limit_bytes"]:
        notes.append(f"limit: {format_size(document['limit_bytes'])}, {document['limit_source']}")
    notes.append(
        f"pages read by {top['pages_from']}, names by {_WAYS[top['way']]}, in {top['seconds']:.2f} s"
        + _pauses(top.get("pauses_s", ()))
    )
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


def _title(top: Mapping[str, Any]) -> str:
    command = top["command"] if len(top["command"]) <= 80 else top["command"][:79] + "…"
    return f"process {top['pid']}: {command}"


def _verdict(document: Mapping[str, Any]) -> tuple[tuple[str, str], ...]:
    top = document["processes"][0]
    own = f", {format_size(top['uss_bytes'])} of it its own" if top["uss_bytes"] is not None else ""
    lines = [(f"{format_size(top['rss_bytes'])} resident{own}, {len(top['threads']) or 1} threads", "plain")]
    if len(document["processes"]) > 1 and document["pss_bytes"] is not None:
        text = f"{len(document['processes'])} processes hold {format_size(document['pss_bytes'])} together, each shared page once"
        lines.append((text, "plain"))
    lines += [(_kept(each), "bad") for each in top["holdings"] if _keeps(each, top)]
    if top["growth_bytes"]:
        after = top["rss_bytes"] + top["growth_bytes"]
        limit = document["limit_bytes"]
        tone = "bad" if limit and after > limit else "warn" if limit and after > 0.95 * limit else "good"
        fits = "" if not limit else f" of {format_size(limit)}: {'does not fit' if after > limit else 'fits'}"
        lines.append((f"will grow by {format_size(top['growth_bytes'])} to {format_size(after)}{fits}", tone))
    if top["full_growth_bytes"] - top["growth_bytes"] >= LEAST_LEFT_OUT:
        short = [each for each in top["holdings"] if each["run_rows"]]
        rows = max(short, key=lambda each: each["full_growth_bytes"] - each["growth_bytes"])["run_rows"]
        full = format_size(top["rss_bytes"] + top["full_growth_bytes"])
        lines.append((f"this run ends with {format_count(rows)} rows in its buffer; a full one makes {full}", "plain"))
    share = top["unexplained_bytes"] / top["rss_bytes"] if top["rss_bytes"] else 0
    text = (
        f"named {_percent(top['named_bytes'], top)}, classes {_percent(_classes(top), top)}, "
        f"unexplained {_percent(top['unexplained_bytes'], top)} ({format_size(top['unexplained_bytes'])})"
    )
    lines.append((text, "warn" if share > 0.1 else "plain"))
    if top["trimmed_bytes"] is not None:
        lines.append((f"malloc_trim gave back {format_size(top['trimmed_bytes'])}", "plain"))
    return tuple(lines)


def _keeps(holding: Mapping[str, Any], process: Mapping[str, Any]) -> bool:
    """Whether graphs that a container without an end keeps are the first thing to be said."""
    is_endless = holding["kind"] == "container" and holding["capacity"] is None
    return (is_endless or bool(holding.get("graph_more"))) and holding["graph_bytes"] >= max(
        KEPT_BYTES, KEPT_SHARE * process["rss_bytes"]
    )


def _kept(holding: Mapping[str, Any]) -> str:
    """``losses keeps the autograd graphs of 100 tensors, 396 MiB: it grows with each one added (train.py:38: …)``."""
    graphs = format_size(holding["graph_bytes"])
    if holding.get("graph_more"):
        name = holding["path"].removesuffix(".grad_fn")
        return f"{name} keeps {holding['note']}, {graphs} or more: what goes on from step to step needs .detach()"
    where = f" ({holding['added_at']})" if holding["added_at"] else ""
    text = f"{holding['path']} keeps the autograd graphs of {format_count(holding['graphs'])} tensors, {graphs}"
    return f"{text}: it grows with each one added{where}"


def _classes(process: Mapping[str, Any]) -> int:
    return sum(portion["resident_bytes"] for portion in process["portions"])


def _percent(nbytes: int, process: Mapping[str, Any]) -> str:
    return f"{100 * nbytes / process['rss_bytes']:.0f} %" if process["rss_bytes"] else "0 %"


def shown(processes: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """The process asked about, and the largest child of each role: workers are alike, and all are in the table."""
    by_role: dict[str, Mapping[str, Any]] = {}
    for each in sorted(processes[1:], key=lambda each: -each["rss_bytes"]):
        if each["holdings"]:
            by_role.setdefault(each["role"], each)
    return [processes[0], *by_role.values()]


def _owners(process: Mapping[str, Any], processes: Sequence[Mapping[str, Any]]) -> Section:
    columns = (
        Column(title="held by", right=False),
        Column(title="resident", strong=True),
        Column(title="share", rank=2),
        Column(title="allocated", rank=3),
        Column(title="rows", rank=1),
        Column(title="still to come"),
    )
    rows = [_row(each, process) for each in folded(process["holdings"], process["rss_bytes"])]
    for portion in process["portions"]:
        share = _percent(portion["resident_bytes"], process)
        rows.append((f"({portion['name']})", format_size(portion["resident_bytes"]), share, "", "", ""))
    unexplained = process["unexplained_bytes"]
    rows.append(("unexplained", format_size(unexplained), _percent(unexplained, process), "", "", ""))
    growth = format_size(process["growth_bytes"]) if process["growth_bytes"] else ""
    rows.append(("resident in all", format_size(process["rss_bytes"]), "100 %", "", "", growth))
    title = "Who holds it"
    if len(processes) > 1:
        alike = sum(each["role"] == process["role"] for each in processes) - 1
        title = f"{process['role']} {process['pid']}" + (f", the largest of {alike + 1}" if alike else "")
    lines = tuple(sentence(each) for each in process["holdings"][:3] if each.get("growth_bytes"))
    table = Table(title="", columns=columns, rows=tuple(rows), footers=1, note="~ is an estimate from a sample")
    return Section(title=title, lines=lines, tables=(table,))


def sentence(holding: Mapping[str, Any]) -> str:
    """``model.replay_buffer.observations: allocated 39.7 GiB, resident 3.1 GiB, 7.8 % full: will grow by 36.6 GiB``."""
    text = f"{holding['path']}: allocated {format_size(holding['nbytes'])}, resident {format_size(holding['resident_bytes'])}"
    if holding["capacity"]:
        text += f", {100 * (holding['filled'] or 0) / holding['capacity']:.1f} % full"
    return f"{text}: will grow by {format_size(holding['growth_bytes'])}"


def _row(holding: Mapping[str, Any], process: Mapping[str, Any]) -> tuple[str, ...]:
    mark = "~" if holding["estimated"] else ""
    kind = f" ({holding['note']})" if holding["note"] else ""
    rows = ""
    if holding["capacity"]:
        rows = f"{format_count(holding['filled'] or 0)} of {format_count(holding['capacity'])}"
    elif holding["filled"] is not None:
        rows = f"{format_count(holding['filled'])}, no end"
    growth = holding["growth_bytes"]
    vram = " on the GPU" if holding["device"] == "vram" else ""
    return (
        f"{holding['path']}{kind}{vram}",
        f"{mark}{format_size(holding['resident_bytes'])}{_spread(holding)}",
        "" if vram else _percent(holding["resident_bytes"], process),
        f"{mark}{format_size(holding['nbytes'])}",
        rows,
        "?" if growth is None else format_size(growth) if growth else "",
    )


def _spread(holding: Mapping[str, Any]) -> str:
    """`` (1.0–1.4)`` beside a size that was reckoned from a sample; nothing where it can be off by little."""
    low, size, high = holding.get("low_bytes"), holding["resident_bytes"], holding.get("high_bytes")
    if low is None or high is None or max(size - low, high - size) < LEAST_SPREAD * size:
        return ""
    return f" ({format_range(low, high, beside=size)})"


def folded(holdings: Iterable[Mapping[str, Any]], rss_bytes: int) -> list[dict[str, Any]]:
    """Large owners as they are; small ones added up by the first words of their paths, then all the rest in one row."""
    least = SMALL_SHARE * rss_bytes
    large, groups = [], dict[str, list[Mapping[str, Any]]]()
    for each in holdings:
        if max(each["resident_bytes"], each["growth_bytes"] or 0) >= least or each["device"] == "vram":
            large.append(dict(each))
        else:
            groups.setdefault(_head(each["path"]), []).append(each)
    for head, parts in groups.items():
        large.append(_added(f"{head} ({len(parts)} parts)" if len(parts) > 1 else parts[0]["path"], parts))
    large.sort(key=lambda each: (-each["resident_bytes"], each["path"]))
    kept, rest = large[:MOST_ROWS], large[MOST_ROWS:]
    return [*kept, _added(f"{len(rest)} others", rest)] if rest else kept


def _head(path: str) -> str:
    words = path.split(".")
    return ".".join(words[:2]) if len(words) > 2 else words[0]


def _added(path: str, parts: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    single = parts[0] if len(parts) == 1 else None
    return {
        "path": path,
        "note": single["note"] if single else "",
        "resident_bytes": sum(part["resident_bytes"] for part in parts),
        "nbytes": sum(part["nbytes"] for part in parts),
        "growth_bytes": sum(part["growth_bytes"] or 0 for part in parts),
        "estimated": any(part["estimated"] for part in parts),
        "filled": single["filled"] if single else None,
        "capacity": single["capacity"] if single else None,
        "device": "ram",
    }


def _tree(document: Mapping[str, Any]) -> Section:
    columns = (
        Column(title="process", right=False),
        Column(title="RSS", rank=1),
        Column(title="PSS", strong=True),
        Column(title="USS"),
        Column(title="shared by fork", rank=2),
        Column(title="threads", rank=3),
        Column(title="names by", right=False, rank=4),
    )
    rows = [
        (
            f"{each['pid']} {each['role']}",
            format_size(each["rss_bytes"]),
            _size(each["pss_bytes"]),
            _size(each["uss_bytes"]),
            _size(each["shared_anonymous_bytes"]),
            str(len(each["threads"])),
            each["way"],
        )
        for each in document["processes"]
    ]
    rows.append(("together", "", _size(document["pss_bytes"]), _size(document["uss_bytes"]), "", "", ""))
    lines = (
        "PSS counts a page in equal parts for all who have it, so it adds up; RSS counts it for everyone. "
        "USS is what would come back if a process ended alone.",
    )
    return Section(
        title="Processes", lines=lines, tables=(Table(title="", columns=columns, rows=tuple(rows), footers=1),)
    )


def _size(nbytes: int | None) -> str:
    return "unknown" if nbytes is None else format_size(nbytes)


def _threads(process: Mapping[str, Any]) -> Section | None:
    stacks = [each for each in process["threads"] if each["resident_bytes"] is not None]
    if not stacks:
        return None
    resident = sum(each["resident_bytes"] for each in stacks)
    reserved = sum(each["reserved_bytes"] for each in stacks)
    rest = len(process["threads"]) - len(stacks)
    text = (
        f"{len(stacks)} threads hold {format_size(resident)} of stack and reserve {format_size(reserved)} of addresses"
        + (f"; {rest} more were running and not looked at" if rest else "")
    )
    return Section(title="Threads", lines=(text,))


def _gpus(processes: Iterable[Mapping[str, Any]]) -> Section | None:
    rows = tuple(
        (
            str(process["pid"]),
            share["gpu"],
            _size(share["used_bytes"]),
            _size(share["allocated_bytes"]),
            _size(share["reserved_bytes"]),
            _size(share["other_bytes"]),
        )
        for process in processes
        for share in process["gpus"]
    )
    if not rows:
        return None
    titles = ("process", "GPU", "used (driver)", "allocated (torch)", "reserved (torch)", "context and other")
    columns = tuple(Column(title=title, right=index > 1) for index, title in enumerate(titles))
    return Section(title="GPU memory", tables=(Table(title="", columns=columns, rows=rows),))


def _findings(document: Mapping[str, Any]) -> Section | None:
    """What the rules see in the processes as they are."""
    items = []
    for each in document.get("findings", ()):
        more = [each["remedy"]] if each["remedy"] else []
        saves = f"worth {format_size(each['saves_bytes'])}" if each["saves_bytes"] else ""
        items.append(
            Item(lead=each["code"], text=each["title"], tone=_TONES[each["severity"]], saves=saves, more=tuple(more))
        )
    return Section(title="Findings", items=tuple(items)) if items else None


def _advice(document: Mapping[str, Any]) -> Section | None:
    """What the rules say of the run; not again what they see in the process."""
    items, seen = [], {each["code"] for each in document.get("findings", ())}
    for each in document["advice"]:
        if each["code"] in seen or (each["severity"] == "info" and not each["saves_bytes"]):
            continue
        more = []
        if each["returns_bytes"]:
            more.append(f"would give back {format_size(each['returns_bytes'])} of what is resident now")
        if each["remedy"]:
            more.insert(0, each["remedy"])
        saves = f"saves {format_size(each['saves_bytes'])} at the peak" if each["saves_bytes"] else ""
        items.append(
            Item(lead=each["code"], text=each["title"], tone=_TONES[each["severity"]], saves=saves, more=tuple(more))
        )
    return Section(title="Advice", items=tuple(items)) if items else None
