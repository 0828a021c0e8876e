"""A cluster as one page: who holds it by role, every node with its processes, and their owners on a click."""

from __future__ import annotations

from xml.etree.ElementTree import Element

from rlmem.core.holdings import sum_known
from rlmem.core.roles import IDLE, RAY, STORE
from rlmem.documents.cluster import ClusterDocument, ClusterProcessPart, NodePart
from rlmem.documents.parts import HoldingPart
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
from rlmem.report.owners import growth_text, resident_text, rest_of
from rlmem.report.table import Cell, make_table
from rlmem.report.text import UNKNOWN, size
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


def cluster_page_title(document: ClusterDocument) -> tuple[str, str]:
    """The title of the page and a line beneath it."""
    count = len(document.nodes)
    return cluster_title(document), f"explained by rlmem explain --ray: {count} node{'s' if count != 1 else ''}"


def cluster_sections(document: ClusterDocument) -> list[Element]:
    """The sections, in the order in which they are read."""
    nodes = document.nodes
    return [
        element("section", {"id": "verdict", "aria-label": "Verdict"}, _verdict(document)),
        _roles(document),
        parts.section("Nodes", parts.table(node_table(nodes), label="nodes"), name="nodes"),
        parts.section("Processes", [_node(node, len(nodes)) for node in nodes], name="processes"),
        _trials(document),
        _environment(document),
    ]


def _verdict(document: ClusterDocument) -> list[Child]:
    lines: list[Child] = [parts.verdict(verdict(document))]
    for node in document.nodes[:OPEN_NODES]:
        nbytes, limit = node.pss_bytes, node_limit(node)
        if nbytes is None or limit is None:
            continue
        share, _ = fullness(node)
        tone = "bad" if share and share >= KILLS_FROM else "warn" if share and share >= 0.9 * KILLS_FROM else "good"
        words = f"node {node_name(node)}: {format_size(nbytes)}"
        label = f"{words} of {format_size(limit)}"
        lines.append(gauge(low=nbytes, expected=nbytes, high=nbytes, limit=limit, tone=tone, label=label, words=words))
    return lines


def _roles(document: ClusterDocument) -> Element:
    total, begin = document.pss_bytes or 1, 0
    bars: list[Child] = []
    for row in document.roles:
        if not row.heap_bytes:
            continue
        look = _LOOKS.get(row.role, "of-other")
        bars.append(element("div", {"class": "bar"}, parts.bar_line(row.role, row.heap_bytes, begin, total, look)))
        begin += row.heap_bytes
    table = parts.table(role_table(document), label="roles")
    return parts.section("Who holds it, by role", element("div", {"class": "bars"}, bars), table, name="components")


def _node(node: NodePart, count: int) -> Element:
    name = f"Node {node_name(node)}"
    if node.problem:
        return parts.unfold(f"{name}: {node.problem}", is_open=True)
    total = max(node.pss_bytes or 0, 1)
    bars: list[Child] = []
    begin = 0
    for role, processes in grouped(node.processes):
        for process in processes:
            bars.append(_process(process, role, begin, total))
            begin += process.heap_bytes or 0
    resident = node.store.resident_bytes
    if resident:
        bars.append(element("div", {"class": "bar"}, parts.bar_line(STORE, resident, begin, total, _LOOKS[STORE])))
    return parts.unfold(
        f"{name}: {size(node.pss_bytes)}",
        [element("p", {}, parts.said(line)) for line in node_lines(node)],
        element("div", {"class": "bars"}, bars),
        is_open=count <= OPEN_NODES,
    )


def _process(process: ClusterProcessPart, role: str, begin: int, total: int) -> Element:
    """A bar; a click shows what the process says of itself and who holds its memory."""
    look = "of-runtime" if role in {RAY, IDLE} else _LOOKS.get(role, "of-other")
    summary: list[Child]
    if process.heap_bytes is None:  # no bar: nobody knows how long it would be
        sizes = element("span", {"class": "size"}, process_size(process))
        summary = [element("span", {"class": "name"}, process_name(process)), element("span"), sizes]
    else:
        summary = parts.bar_line(process_name(process), process.heap_bytes, begin, total, look)
    facts: list[tuple[str, Child]] = [
        ("command", element("code", {}, process.command)),
        ("actor", process.label if process.label != process.actor_class else None),
        ("actor id", process.actor_id),
        ("trial", process.trial),
        ("job", process.job),
        *(
            (name, f"{nbytes:,} B" if nbytes is not None else UNKNOWN)
            for name, nbytes in (
                ("resident (RSS)", process.rss_bytes),
                ("share (PSS)", process.pss_bytes),
                ("its own (USS)", process.uss_bytes),
                ("of the object store", process.store_bytes),
            )
        ),
        *((f"on {share.gpu}", size(share.used_bytes)) for share in process.gpus),
        *(("note", note) for note in process.notes),
    ]
    owners = _owners(process)
    return parts.unfold(
        summary, parts.facts(facts), parts.table(owners, label="owners") if owners else None, look="bar"
    )


def _owners(process: ClusterProcessPart) -> Table | None:
    rows = [
        (f"{owner.path}{_place(owner)}", resident_text(owner), format_size(owner.nbytes), growth_text(owner))
        for owner in process.holdings
    ]
    smaller = [("smaller owners", process.smaller_bytes)] if process.smaller_bytes else []
    rest = [*smaller, *rest_of(process.portions, process.unexplained_bytes)]
    rows += [(name, format_size(nbytes), "", "") for name, nbytes in rest]
    if not rows:
        return None
    columns = (
        Column(title="held by", right=False),
        Column(title="resident", strong=True),
        Column(title="allocated"),
        Column(title="still to come"),
    )
    return Table(title="", columns=columns, rows=tuple(rows))


def _place(owner: HoldingPart) -> str:
    return " on the GPU" if owner.device == "vram" else " in the object store" if owner.file == STORE else ""


def _trials(document: ClusterDocument) -> Element:
    """What each trial holds over all nodes."""
    by_trial: dict[str, list[ClusterProcessPart]] = {}
    for process in document.processes:
        if process.trial:
            by_trial.setdefault(process.trial, []).append(process)
    if not by_trial:
        return parts.section("Trials", element("p", {}, "No process belongs to a trial of Tune."), name="trials")
    cells: tuple[Cell[tuple[str, list[ClusterProcessPart]]], ...] = (
        (Column(title="trial", right=False), lambda row: row[0]),
        (Column(title="processes"), lambda row: str(len(row[1]))),
        (
            Column(title="held (PSS)", strong=True),
            lambda row: size(sum_known(process.heap_bytes for process in row[1])),
        ),
    )
    table = make_table(cells, sorted(by_trial.items()))
    return parts.section("Trials", parts.table(table, label="trials"), name="trials")


def _environment(document: ClusterDocument) -> Element:
    rows: list[tuple[str, Child]] = [
        ("cluster", document.address),
        ("versions", f"Ray {document.ray}, rlmem {document.rlmem}"),
        ("cost", cost_words(document)),
    ]
    notes = [element("p", {"class": "note"}, parts.said(note)) for note in said_notes(document)]
    return parts.section("Environment", parts.facts(rows), notes, name="environment")
