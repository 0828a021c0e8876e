"""A cluster as one page: who holds it by role, every node with its processes, and their owners on a click."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any
from xml.etree.ElementTree import Element

from rlmem.cluster.roles import IDLE, RAY, STORE
from rlmem.report.cluster_explained import added
from rlmem.report.cluster_view import (
    KILLS_FROM,
    cluster_title,
    cost_words,
    fullness,
    grouped,
    node_limit,
    node_lines,
    node_name,
    node_table,
    process_name,
    process_size,
    role_table,
    said_notes,
    verdict,
)
from rlmem.report.html import parts
from rlmem.report.html.chart import gauge
from rlmem.report.html.markup import Child, element
from rlmem.report.view import Column, Table
from rlmem.units import format_size

_LOOKS = {
    "driver": "of-runtime",
    "trial": "of-learner",
    "env-runner": "of-workers",
    "eval-env-runner": "of-eval",
    "aggregator": "of-batch",
    "learner": "of-learner",
    STORE: "of-replay",
}
#: More nodes than this are folded when the page opens.
OPEN_NODES = 4


def cluster_page_title(document: Mapping[str, Any]) -> tuple[str, str]:
    """The title of the page and a line beneath it."""
    count = len(document["nodes"])
    return cluster_title(document), f"explained by rlmem explain --ray: {count} node{'s' if count != 1 else ''}"


def cluster_sections(document: Mapping[str, Any]) -> list[Element]:
    """The sections, in the order in which they are read."""
    nodes = document["nodes"]
    return [
        element("section", {"id": "verdict", "aria-label": "Verdict"}, _verdict(document)),
        _roles(document),
        parts.section("Nodes", parts.table(node_table(nodes), label="nodes"), name="nodes"),
        parts.section("Processes", [_node(node, len(nodes)) for node in nodes], name="processes"),
        _trials(nodes),
        _environment(document),
    ]


def _verdict(document: Mapping[str, Any]) -> list[Child]:
    found: list[Child] = [parts.verdict(verdict(document))]
    for node in document["nodes"][:OPEN_NODES]:
        held, limit = node["pss_bytes"], node_limit(node)
        if held is None or limit is None:
            continue
        share, _ = fullness(node)
        tone = "bad" if share and share >= KILLS_FROM else "warn" if share and share >= 0.9 * KILLS_FROM else "good"
        words = f"node {node_name(node)}: {format_size(held)}"
        label = f"{words} of {format_size(limit)}"
        found.append(gauge(low=held, expected=held, high=held, limit=limit, tone=tone, label=label, words=words))
    return found


def _roles(document: Mapping[str, Any]) -> Element:
    total, begin = document["pss_bytes"] or 1, 0
    bars: list[Child] = []
    for row in document["roles"]:
        size = row["heap_bytes"]
        if not size:
            continue
        look = _LOOKS.get(row["role"], "of-other")
        bars.append(element("div", {"class": "bar"}, parts.bar_line(row["role"], size, begin, total, look)))
        begin += size
    table = parts.table(role_table(document), label="roles")
    return parts.section("Who holds it, by role", element("div", {"class": "bars"}, bars), table, name="components")


def _node(node: Mapping[str, Any], count: int) -> Element:
    name = f"Node {node_name(node)}"
    if node["problem"]:
        return parts.unfold(f"{name}: {node['problem']}", is_open=True)
    total = max(node["pss_bytes"] or 0, 1)
    bars: list[Child] = []
    begin = 0
    for role, processes in grouped(node["processes"]):
        for process in processes:
            size = process["heap_bytes"] or 0
            bars.append(_process(process, role, begin, total))
            begin += size
    resident = node["store"]["resident_bytes"]
    if resident:
        bars.append(element("div", {"class": "bar"}, parts.bar_line(STORE, resident, begin, total, _LOOKS[STORE])))
    return parts.unfold(
        f"{name}: {_size(node['pss_bytes'])}",
        [element("p", {}, parts.said(line)) for line in node_lines(node)],
        element("div", {"class": "bars"}, bars),
        is_open=count <= OPEN_NODES,
    )


def _process(process: Mapping[str, Any], role: str, begin: int, total: int) -> Element:
    """A bar; a click shows what the process says of itself and who holds its memory."""
    look = "of-runtime" if role in {RAY, IDLE} else _LOOKS.get(role, "of-other")
    summary: list[Child]
    if process["heap_bytes"] is None:  # no bar: nobody knows how long it would be
        sizes = element("span", {"class": "size"}, process_size(process))
        summary = [element("span", {"class": "name"}, process_name(process)), element("span"), sizes]
    else:
        summary = parts.bar_line(process_name(process), process["heap_bytes"], begin, total, look)
    facts: list[tuple[str, Child]] = [
        ("command", element("code", {}, process["command"])),
        ("actor", process["label"] if process["label"] != process["actor_class"] else None),
        ("actor id", process["actor_id"]),
        ("trial", process["trial"]),
        ("job", process["job"]),
        *(
            (name, f"{process[key]:,} B" if process[key] is not None else "unknown")
            for name, key in (
                ("resident (RSS)", "rss_bytes"),
                ("share (PSS)", "pss_bytes"),
                ("its own (USS)", "uss_bytes"),
                ("of the object store", "store_bytes"),
            )
        ),
        *((f"on {share['gpu']}", _size(share["used_bytes"])) for share in process["gpus"]),
        *(("note", note) for note in process["notes"]),
    ]
    owners = _owners(process)
    return parts.unfold(
        summary, parts.facts(facts), parts.table(owners, label="owners") if owners else None, look="bar"
    )


def _owners(process: Mapping[str, Any]) -> Table | None:
    rows = [
        (
            each["path"]
            + (" on the GPU" if each["device"] == "vram" else " in the object store" if each["file"] == STORE else ""),
            ("~" if each["estimated"] else "") + format_size(each["resident_bytes"]),
            format_size(each["nbytes"]),
            "?" if each["growth_bytes"] is None else format_size(each["growth_bytes"]) if each["growth_bytes"] else "",
        )
        for each in process["holdings"]
    ]
    if process["smaller_bytes"]:
        rows.append(("smaller owners", format_size(process["smaller_bytes"]), "", ""))
    rows += [(f"({each['name']})", format_size(each["resident_bytes"]), "", "") for each in process["portions"]]
    if process["unexplained_bytes"] is not None:
        rows.append(("unexplained", format_size(process["unexplained_bytes"]), "", ""))
    if not rows:
        return None
    columns = (
        Column(title="held by", right=False),
        Column(title="resident", strong=True),
        Column(title="allocated"),
        Column(title="still to come"),
    )
    return Table(title="", columns=columns, rows=tuple(rows))


def _trials(nodes: Sequence[Mapping[str, Any]]) -> Element:
    """What each trial holds over all nodes."""
    found: dict[str, list[Mapping[str, Any]]] = {}
    for node in nodes:
        for process in node["processes"]:
            if process["trial"]:
                found.setdefault(process["trial"], []).append(process)
    if not found:
        return parts.section("Trials", element("p", {}, "No process belongs to a trial of Tune."), name="trials")
    rows = tuple(
        (trial, str(len(held)), _size(added([each["heap_bytes"] for each in held])))
        for trial, held in sorted(found.items())
    )
    columns = (Column(title="trial", right=False), Column(title="processes"), Column(title="held (PSS)", strong=True))
    return parts.section(
        "Trials", parts.table(Table(title="", columns=columns, rows=rows), label="trials"), name="trials"
    )


def _environment(document: Mapping[str, Any]) -> Element:
    rows: list[tuple[str, Child]] = [
        ("cluster", document["address"]),
        ("versions", f"Ray {document['ray']}, rlmem {document['rlmem']}"),
        ("cost", cost_words(document)),
    ]
    notes = [element("p", {"class": "note"}, parts.said(note)) for note in said_notes(document)]
    return parts.section("Environment", parts.facts(rows), notes, name="environment")


def _size(nbytes: int | None) -> str:
    return "unknown" if nbytes is None else format_size(nbytes)
