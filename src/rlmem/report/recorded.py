"""A recorded run: the summary at its end, its document, and the report of ``rlmem assess RUN``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from rlmem.agent.protocol import DescribedFacts
from rlmem.documents.contract import schema_of, to_plain
from rlmem.core.signals import signal_name
from rlmem.documents.moment import moment_data
from rlmem.documents.plan import PlanDocument, plan_document
from rlmem.errors import UsageError
from rlmem.moments import Moment
from rlmem.report.contract import described, problems
from rlmem.report.foretold import foretold_section, processes_section
from rlmem.report.plot import plot
from rlmem.report.view import Column, Item, Section, Table, View
from rlmem.runner.store import Run
from rlmem.units import format_count, format_duration, format_size
from rlmem.watch.holders import read_holders
from rlmem.watch.judge import before_end, judge

RECORDED_SCHEMA = "rlmem.recorded/1"
_TEXT, _COUNT, _OBJECT = {"type": "string"}, {"type": ["integer", "null"]}, {"type": "object"}
_MEMBER = described(
    {
        "pid": {"type": "integer"},
        "role": _TEXT,
        "command": _TEXT,
        "rss_bytes": {"type": "integer"},
        "pss_bytes": _COUNT,
        "uss_bytes": _COUNT,
        "threads": {"type": "integer"},
    }
)
RECORDED_JSON_SCHEMA = described(
    {
        "schema": _TEXT,
        "rlmem": _TEXT,
        "run": {"type": ["string", "null"]},
        "target": _TEXT,
        "command": {"type": "array", "items": _TEXT},
        "started": _TEXT,
        "status": _TEXT,
        "machine": _OBJECT,
        "policy": _OBJECT,
        "ended": {"type": ["object", "null"]},
        "peak": described(
            {
                "nbytes": {"type": "integer"},
                "at_s": {"type": "number"},
                "phase": _TEXT,
                "step": _COUNT,
                "seen": {"type": "boolean"},
                "limit_bytes": _COUNT,
                "limit_name": _TEXT,
                "owners": {"type": "array", "items": _OBJECT},
                "members": {
                    "type": "array",
                    "description": "processes at the largest look, largest first; PSS and USS as last read",
                    "items": _MEMBER,
                },
            },
            optional=("members",),
        ),
        "plan": {
            **{name: part for name, part in schema_of(PlanDocument).items() if not name.startswith("$")},
            "type": ["object", "null"],
            "description": "what rlmem predicts for the model that was trained (rlmem.plan/1); null where it is not known",
        },
        "versions": {
            "type": "object",
            "description": "of the framework and what it stands on, as the program had them",
        },
        "phases": {"type": "array", "items": _OBJECT},
        "judgement": _OBJECT,
        "moments": {"type": "array", "items": _OBJECT},
    },
    optional=("plan", "versions"),
)
_TONES = {"ok": "good", "interrupted": "plain", "running": "warn", "unknown": "warn", "stopped": "warn"}
_STATE_TONES = {"normal": "good", "filling": "good", "leaking": "bad", "stuck": "warn", "unknown": "plain"}
_MOST_EVENTS = 20
#: Owners with less than this of the peak are not worth a word in its line.
SMALL_SHARE = 0.01


def recorded_document(header: Mapping[str, Any], moments: Sequence[Moment], run: Run | None = None) -> dict[str, Any]:
    """A run of ``rlmem run`` as plain data. One whose recording was cut short has all but its end."""
    seen = list(moments)
    ended = header.get("ended")
    facts: DescribedFacts = (ended or {}).get("described") or header.get("described") or DescribedFacts()
    peak = _peak(seen, ended)
    peak["members"] = list(peak.get("members") or header.get("members") or ())
    return {
        "schema": RECORDED_SCHEMA,
        "rlmem": run.versions.get("rlmem", "") if run else header.get("rlmem", ""),
        "run": run.id if run else None,
        "target": header.get("target", ""),
        "command": list(header.get("command", ())),
        "started": run.started if run else header.get("started", ""),
        "status": run.status if run else (ended or {}).get("status", "running"),
        "machine": dict(run.machine) if run else {},
        "policy": dict(header.get("policy", {})),
        "ended": ended,
        "peak": peak,
        "plan": _plan(header.get("target", ""), facts, peak),
        "versions": dict(facts.get("versions", {})),
        "phases": _phases(seen),
        "judgement": asdict(judge(before_end(seen) if ended else seen)),
        "moments": [moment_data(moment) for moment in moments],
    }


def read_recorded_document(data: Any, where: str) -> dict[str, Any]:
    """A document that was kept, checked."""
    found = list(problems(data, RECORDED_JSON_SCHEMA, ""))
    if found:
        raise UsageError(f"{where}: not a recorded run this version reads: {found[0]}")
    return dict(data)


def _peak(moments: Sequence[Moment], ended: Mapping[str, Any] | None) -> dict[str, Any]:
    """The largest moment, and the owners as they were asked nearest to it."""
    largest = max(moments, key=lambda moment: moment.tree_bytes, default=None)
    peak: dict[str, Any] = {"nbytes": 0, "at_s": 0.0, "phase": "", "step": None, "seen": True}
    if largest is not None:
        step = largest.progress.step if largest.progress else None
        peak |= {"nbytes": largest.tree_bytes, "at_s": largest.at_s, "phase": largest.phase, "step": step}
    if ended and ended["peak"]["nbytes"] >= peak["nbytes"]:
        peak = dict(ended["peak"])
    held = read_holders(moments)
    near = min(held, key=lambda at: abs(at - peak["at_s"]), default=None)
    return {
        **peak,
        "limit_bytes": largest.limit_bytes if largest else None,
        "limit_name": largest.limit_name if largest else "",
        "owners_at_s": near,
        "owners": [asdict(each) for each in held[near]] if near is not None else [],
    }


def _plan(name: str, facts: DescribedFacts, peak: Mapping[str, Any]) -> dict[str, Any] | None:
    """What rlmem predicts for the model that was trained; None without one, or where the closed form refuses."""
    if not facts:
        return None
    from rlmem.plan import Budget
    from rlmem.planner import Planner
    from rlmem.trace.describe import from_facts

    budget = Budget(name="the run's limit", ram_bytes=peak["limit_bytes"], ram_source=peak["limit_name"])
    try:
        spec = from_facts(name, facts)
        if spec.get("vec_env") == "subproc" and (method := _start_method(peak["members"])):
            spec = spec.having({"env.start_method": method}, "the processes that were seen")
        return to_plain(plan_document(Planner(budget).plan(spec)))
    except Exception:  # an agent of any version wrote them down: what is wrong with them costs the prediction, no more
        return None


def _start_method(members: Sequence[Mapping[str, Any]]) -> str | None:
    """How workers were started, which the model does not know; None without any."""
    workers = [member["command"] for member in members if member["role"] == "worker"]
    if not workers:
        return None
    if any(member["role"] == "forkserver" for member in members):
        return "forkserver"
    return "spawn" if any("multiprocessing.spawn" in command for command in workers) else "fork"


def _phases(moments: Sequence[Moment]) -> list[dict[str, Any]]:
    """The largest moment of each phase, in the order they first came."""
    best: dict[str, Moment] = {}
    for moment in moments:
        kept = best.get(moment.phase)
        if kept is None or moment.tree_bytes > kept.tree_bytes:
            best[moment.phase] = moment
    if set(best) <= {""}:
        return []
    return [
        {"phase": phase, "peak_bytes": moment.tree_bytes, "at_s": moment.at_s} for phase, moment in best.items()
    ]  # fmt: skip


# -- sentences ----------------------------------------------------------------------------------------------------------


def ending(document: Mapping[str, Any]) -> str:
    """How it ended, in one line."""
    ended = document["ended"]
    if ended is None:
        return "still running, or rlmem itself was ended: the recording has no end"
    after = f"after {format_duration(ended['wall_s'])}"
    code, signals = ended["returncode"], ended.get("signals") or ()
    if ended["status"] == "ok":
        return f"exit code 0 {after}, but a part of it failed" if ended.get("postmortem") else f"ended well {after}"
    if ended["status"] == "stopped":
        return f"stopped by rlmem {after}, exit code {ended['exit_code']}"
    if ended["status"] == "interrupted":
        return f"interrupted {after}" + (f" ({', '.join(signals)})" if signals else "")
    if code is not None and code < 0:
        return f"killed by {signal_name(-code)} {after}"
    return f"exit code {code} {after}"


def peak_sentence(document: Mapping[str, Any]) -> str:
    """Peak, when, in which phase, by whom."""
    peak = document["peak"]
    if not peak["nbytes"]:
        return "peak not known: it ended before it could be looked at"
    parts = [f"peak {format_size(peak['nbytes'])}"]
    if peak["limit_bytes"]:
        share = peak["nbytes"] / peak["limit_bytes"]
        parts[0] += f", {share:.0%} of the {format_size(peak['limit_bytes'])} of {peak['limit_name'] or 'the limit'}"
    at = f"at {format_duration(peak['at_s'])}"
    phase = f"in {peak['phase']}" if peak["phase"] else ""
    step = f"step {format_count(peak['step'])}" if peak["step"] is not None else ""
    parts.append(" ".join(part for part in (at, phase, f"({step})" if step else "") if part))
    if not peak["seen"]:
        parts.append("between two looks, by the kernel's own mark")
    least = SMALL_SHARE * peak["nbytes"]
    held = [each for each in peak["owners"] if each["device"] == "ram" and each["resident_bytes"] >= least]
    held.sort(key=lambda each: -each["resident_bytes"])
    if held:
        parts.append("held by " + ", ".join(_sized(each) for each in held[:3]))
    return "; ".join(parts)


def _sized(held: Mapping[str, Any]) -> str:
    about = "about " if held.get("estimated") else ""
    return f"{held['path']} {about}{format_size(held['resident_bytes'])}"


def summary_lines(document: Mapping[str, Any]) -> tuple[str, ...]:
    """What is printed when a run has ended."""
    judgement, ended = document["judgement"], document["ended"] or {}
    lines = [ending(document), peak_sentence(document)]
    if judgement["state"] == "leaking":  # first of all
        lines[1:1] = [
            f"leaking: {reason}" if not index else reason for index, reason in enumerate(judgement["reasons"])
        ]
    elif judgement["state"] != "unknown" or (judgement["total"] and judgement["total"]["significant"]):
        lines.append(f"{judgement['state']}: {'; '.join(judgement['reasons'][:2])}")
    checkpoint = ended.get("checkpoint")
    if checkpoint and checkpoint.get("state") == "saved":
        lines.append(f"checkpoint: {checkpoint['folder']}")
    lines += _postmortem_lines(ended.get("postmortem"))
    lines += _kills(ended) if not ended.get("postmortem") else []
    if cleared := ended.get("cleared"):
        lines.append(f"ended what it left behind: {_processes(cleared)}")
    if ended.get("left"):
        numbers = " ".join(str(pid) for pid in ended["left"])
        lines.append(
            f"{len(ended['left'])} of its processes left the terminal and still run; to end them: kill {numbers}"
        )
    if document["run"]:
        lines.append(f"recorded as {document['run']}: rlmem assess {document['run']}")
    return tuple(lines)


def _kills(ended: Mapping[str, Any]) -> list[str]:
    """Workers that the run itself killed: no failure, but said."""
    found = [each for each in ended.get("exits", ()) if each["sender"] is not None]
    if not found:
        return []
    who = f"worker {found[0]['pid']} was" if len(found) == 1 else f"{len(found)} workers were"
    return [
        f"{who} killed by {signal_name(found[0]['signal'])}, sent by process {found[0]['sender']} of the run itself"
    ]


def _processes(found: Sequence[Mapping[str, Any]]) -> str:
    """``3 processes (python3 -c from multiprocessing.spawn …)``: commands that several have once."""
    commands = list(dict.fromkeys(_shortened(each["command"]) for each in found if each["command"]))
    named = ", ".join(commands[:3]) + (", …" if len(commands) > 3 else "")
    count = "a process" if len(found) == 1 else f"{len(found)} processes"
    return f"{count} ({named})" if named else count


def _shortened(command: str) -> str:
    program, _, rest = command.partition(" ")
    text = f"{program.rpartition('/')[2]} {rest}".strip()
    return text if len(text) <= 40 else f"{text[:39].rstrip()}…"


def _postmortem_lines(found: Mapping[str, Any] | None) -> list[str]:
    if not found:
        return []
    lines = [f"why: {found['cause']}"]
    if found["grown"]:
        told = ", ".join(f"{row['name']} +{format_size(row['nbytes'])}" for row in found["grown"][:3])
        lines.append(f"grew in the last {format_duration(found['window_s'])}: {told}")
    lines += [f"what to do: {found['todo']}"] if found.get("todo") else []
    lines += [f"would have fit: {text}" for text in found["changes"][:2]]
    lines += [f"smaller: {text}" for text in found.get("advice", ())[: 2 - len(found["changes"][:2])]]
    return lines


# -- the report ---------------------------------------------------------------------------------------------------------


def recorded_view(document: Mapping[str, Any]) -> View:
    """What ``rlmem assess RUN`` and ``rlmem show RUN`` draw."""
    ended, judgement = document["ended"] or {}, document["judgement"]
    found = ended.get("postmortem")
    verdict = [(ending(document), _TONES.get(document["status"], "bad"))]
    if found:
        verdict.append((found["cause"], "bad"))
    verdict.append((f"RAM {peak_sentence(document)}", "plain"))
    tone = "bad" if judgement["forecast"]["fits"] is False else _STATE_TONES[judgement["state"]]
    verdict += [(f"{judgement['state']}: {text}", tone) for text in judgement["reasons"][:1]]
    why = why_section(found) if found else None
    sections = (
        why,
        _owners(document),
        processes_section(document),
        foretold_section(document),
        _over_time(document),
        _said(ended),
        _run(document),
    )
    return View(
        title=f"{document['target']}: recorded" + (f" (run {document['run']})" if document["run"] else ""),
        verdict=tuple(verdict),
        sections=tuple(section for section in sections if section is not None),
        notes=("GiB is 2³⁰ bytes, GB is 10⁹. A page that several processes share counts once.",),
    )


def why_section(found: Mapping[str, Any]) -> Section:
    """What grew before the end, and what would have fit."""
    rows = tuple(
        (
            row["name"],
            f"+{format_size(row['nbytes'])}",
            format_size(row["now_bytes"]),
            "" if row["items"] is None else f"{row['items']:+,}",
        )
        for row in found["grown"]
    )
    columns = (Column(title="what", right=False), Column(title="grew"), Column(title="to"), Column(title="rows"))
    tables = (
        (Table(title=f"In the last {format_duration(found['window_s'])}", columns=columns, rows=rows),) if rows else ()
    )
    items = tuple(Item(lead="fits", text=text.rstrip("."), tone="good") for text in found["changes"])
    items += (Item(lead="what to do", text=found["todo"], tone="plain"),) if found.get("todo") else ()
    items += tuple(Item(lead="smaller", text=text.rstrip("."), tone="plain") for text in found.get("advice", ()))
    lines = (
        ()
        if found["changes"] or found.get("todo")
        else ("No change is known that would have fit: its owners were not recorded.",)
    )
    return Section(title="Why it died, and what would have fit", lines=lines, tables=tables, items=items)


def _owners(document: Mapping[str, Any]) -> Section:
    peak = document["peak"]
    if not peak["owners"]:
        return Section(title="Who held the peak", lines=("Owners are not known: nothing in it could be asked.",))
    rows = tuple(
        (
            held["path"],
            held["type"],
            held["device"].upper(),
            format_size(held["resident_bytes"]),
            format_size(held["nbytes"]),
            _fill(held),
        )
        for held in sorted(peak["owners"], key=lambda held: -held["resident_bytes"])
    )
    columns = (
        Column(title="owner", right=False),
        Column(title="type", right=False, rank=3),
        Column(title="on", right=False, rank=2),
        Column(title="resident"),
        Column(title="allocated", rank=1),
        Column(title="filled"),
    )
    away = abs(peak["owners_at_s"] - peak["at_s"])
    note = f"Owners were asked {format_duration(away)} from the peak." if away >= 1 else ""
    return Section(title="Who held the peak", tables=(Table(title="", columns=columns, rows=rows, note=note),))


def _fill(held: Mapping[str, Any]) -> str:
    if held["filled"] is None:
        return ""
    if held["capacity"] is None:
        return f"{held['filled']:,}, no end"
    return f"{held['filled']:,} of {held['capacity']:,}"


def _over_time(document: Mapping[str, Any]) -> Section | None:
    moments = document["moments"]
    if len(moments) < 2:
        return None
    marks = [(moment["at_s"], float(moment["tree_bytes"]), "●") for moment in moments]
    figure = plot(marks, lambda at: 0.0, x_text=format_duration, y_text=format_size)
    columns = (Column(title="phase", right=False), Column(title="largest"), Column(title="at"))
    rows = tuple(
        (row["phase"] or "outside of training", format_size(row["peak_bytes"]), format_duration(row["at_s"]))
        for row in document["phases"]
    )
    lines = (f"{len(moments):,} moments of the process tree.",)
    tables = (Table(title="By phase", columns=columns, rows=rows),) if rows else ()
    return Section(title="Over time", lines=lines, figure=figure, tables=tables)


def _said(ended: Mapping[str, Any]) -> Section | None:
    events = ended.get("events") or ()
    if not events and not ended.get("deaths"):
        return None
    items = [
        Item(
            lead=format_duration(event["at_s"]), text=event["text"], tone="warn" if event["kind"] == "warn" else "plain"
        )
        for event in events[:_MOST_EVENTS]
    ]
    for death in ended.get("deaths", ())[:5]:
        place = f" at {death['where']}" if death["where"] else ""
        first = death["message"].splitlines()[0][:300] if death["message"] else ""
        items.append(Item(lead=death["type"].rpartition(".")[2], text=f"{first}{place}".strip(), tone="bad"))
    return Section(title="What happened", items=tuple(items))


def _run(document: Mapping[str, Any]) -> Section:
    policy, machine = document["policy"], document["machine"]
    limits = [
        f"{name} {format_size(policy[key])}"
        for name, key in (("--max-ram", "max_ram_bytes"), ("--max-vram", "max_vram_bytes"))
        if policy.get(key)
    ]
    limits += [f"--max-threads {policy['max_threads']}"] if policy.get("max_threads") else []
    asked = f"{', '.join(limits) or 'no limit of its own'}; on pressure: {policy.get('action', 'none')}"
    cells = [
        ("command", " ".join(document["command"])),
        ("started", document["started"]),
        ("asked for", asked),
        ("machine", ", ".join(str(machine[k]) for k in ("system", "limit_source") if machine.get(k))),
        ("versions", ", ".join(f"{name} {text}" for name, text in document.get("versions", {}).items())),
    ]
    columns = (Column(title="", right=False), Column(title="", right=False))
    rows = tuple(cell for cell in cells if cell[1])
    return Section(title="The run", tables=(Table(title="", columns=columns, rows=rows),))
