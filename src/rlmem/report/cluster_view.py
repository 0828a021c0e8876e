"""What ``rlmem explain --ray`` shows: the cluster by role, its nodes, and on each node processes and their owners."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rlmem.cluster.roles import IDLE, RAY, STORE, own_name
from rlmem.report.cluster_explained import added
from rlmem.report.view import Column, Section, Table, View
from rlmem.units import format_size

#: From this share on Ray's memory monitor kills workers (RAY_memory_usage_threshold, 0.95 in Ray 2.60).
KILLS_FROM = 0.95
#: Processes of one role on a node that have rows of their own, owners beneath each, and nodes with a section of their own.
MOST_ALIKE, MOST_OWNERS, MOST_NODES = 5, 4, 8
HOW_TO_NAME = (
    "no process has an agent, so owners have no names: start Ray with `rlmem run -- ray start …`, or give "
    "`ray.init(runtime_env={'worker_process_setup_hook': 'rlmem.ray.naming.start'})`"
)


def cluster_view(document: Mapping[str, Any]) -> View:
    """The cluster as a page."""
    nodes = document["nodes"]
    sections = [Section(title="By role", tables=(role_table(document),))]
    if len(nodes) > 1:
        sections.append(Section(title="Nodes", tables=(node_table(nodes),)))
    shown = sorted((node for node in nodes if node["processes"]), key=lambda node: -(node["pss_bytes"] or 0))
    chosen = {node["node_id"] for node in shown[:MOST_NODES]}
    sections += [node_section(node) for node in nodes if node["node_id"] in chosen]
    notes = said_notes(document)
    if len(shown) > MOST_NODES:
        notes.append(f"{len(shown) - MOST_NODES} more nodes are in the table only; --html FILE and --json have all")
    notes.append(cost_words(document))
    return View(title=cluster_title(document), verdict=verdict(document), sections=tuple(sections), notes=tuple(notes))


def cluster_title(document: Mapping[str, Any]) -> str:
    """Where it is."""
    return f"Ray {document['ray']} at {document['address']}"


def verdict(document: Mapping[str, Any]) -> tuple[tuple[str, str], ...]:
    """What all hold, nodes that could not be asked, and nodes near their end."""
    nodes = document["nodes"]
    count = sum(len(node["processes"]) for node in nodes)
    stores = next((row["heap_bytes"] for row in document["roles"] if row["role"] == STORE), 0)
    lines = []
    answered = sum(node["problem"] is None for node in nodes)
    if document["pss_bytes"] is None and answered:
        who = f"{_many(count, 'process')} on {_many(answered, 'node')}"
        lines.append((f"what {who} hold is unknown: none may be read by the user of the probes", "bad"))
    if document["pss_bytes"] is not None:
        heap = document["pss_bytes"] - (stores or 0)
        lines.append(
            (
                f"{_many(count, 'process')} on {_many(answered, 'node')} hold {format_size(document['pss_bytes'])}: "
                f"{format_size(heap)} of their own and {format_size(stores or 0)} in object stores, each shared page once",
                "plain",
            )
        )
    for node in nodes:
        if node["problem"]:
            lines.append((f"node {node_name(node)}: {node['problem']}; its memory is not in these sums", "bad"))
    for node in nodes:
        share, words = fullness(node)
        if share is not None and share >= 0.9 * KILLS_FROM:
            killing = f"Ray kills workers from {100 * KILLS_FROM:.0f} % on"
            tone = "bad" if share >= KILLS_FROM else "warn"
            lines.append((f"node {node_name(node)}: {100 * share:.0f} % of {words} is in use; {killing}", tone))
    return tuple(lines) or (("no node could be asked", "bad"),)


def fullness(node: Mapping[str, Any]) -> tuple[float | None, str]:
    """How much of a node is in use, of its cgroup's limit where it has one."""
    limit, used = node["limit_bytes"], node["limit_used_bytes"]
    if limit and used is not None and (node["ram_bytes"] is None or limit <= node["ram_bytes"]):
        return used / limit, f"its limit of {format_size(limit)}"
    ram, free = node["ram_bytes"], node["available_bytes"]
    return (1 - free / ram, f"its {format_size(ram)}") if ram and free is not None else (None, "")


def node_name(node: Mapping[str, Any]) -> str:
    """``192.0.2.2 (head, b2223c)``: raylets of one machine have the same address."""
    head = "head, " if node["is_head"] else ""
    return f"{node['address']} ({head}{node['node_id'][:6]})"


def role_table(document: Mapping[str, Any]) -> Table:
    """Every role over the whole cluster."""
    total = document["pss_bytes"]
    columns = (
        Column(title="role", right=False),
        Column(title="processes"),
        Column(title="held (PSS)", strong=True),
        Column(title="share", rank=3),
        Column(title="largest", rank=1),
        Column(title="own (USS)", rank=2),
        Column(title="VRAM"),
    )
    rows = [
        (
            row["role"],
            str(row["processes"]) if row["role"] != STORE else "",
            _size(row["heap_bytes"]),
            f"{100 * row['heap_bytes'] / total:.0f} %" if total and row["heap_bytes"] is not None else "",
            _size(row["largest_bytes"]) if row["processes"] > 1 else "",
            _size(row["uss_bytes"]) if row["role"] != STORE else "",
            _size(row["vram_bytes"], ""),
        )
        for row in document["roles"]
    ]
    rows.append(("together", str(_count(document)), _size(total), "100 %" if total else "", "", "", ""))
    note = "Held is PSS without the object store, which is a row of its own: its pages count once, whoever has them mapped."
    return Table(title="", columns=columns, rows=tuple(rows), footers=1, note=note)


def node_table(nodes: Sequence[Mapping[str, Any]]) -> Table:
    """Every node in a row; one that could not be asked says why."""
    columns = (
        Column(title="node", right=False),
        Column(title="processes", rank=5),
        Column(title="held (PSS)", strong=True),
        Column(title="object store", rank=2),
        Column(title="of", right=True, rank=3),
        Column(title="spilled", rank=4),
        Column(title="VRAM", rank=1),
        Column(title="memory", rank=1),
        Column(title="", right=False),
    )
    rows = []
    for node in nodes:
        store = node["store"]
        rows.append(
            (
                node_name(node),
                str(len(node["processes"])) if node["problem"] is None else "",
                _size(node["pss_bytes"]),
                _size(store["resident_bytes"]),
                _size(store["capacity_bytes"]),
                _size(store["spilled_bytes"], ""),
                _size(node["vram_bytes"], ""),
                _size(node_limit(node)),
                node["problem"] or "",
            )
        )
    return Table(title="", columns=columns, rows=tuple(rows))


def node_limit(node: Mapping[str, Any]) -> int | None:
    """What binds a node: its cgroup, else its memory."""
    sizes = [size for size in (node["limit_bytes"], node["ram_bytes"]) if size]
    return min(sizes) if sizes else None


def node_section(node: Mapping[str, Any]) -> Section:
    """A node's processes with their owners, largest first; Ray's own and alike ones added up."""
    columns = (
        Column(title="held by", right=False),
        Column(title="held (PSS)", strong=True),
        Column(title="own (USS)", rank=3),
        Column(title="of the store", rank=1),
        Column(title="VRAM"),
        Column(title="trial", right=False, rank=2),
    )
    rows: list[tuple[str, ...]] = []
    for role, processes in grouped(node["processes"]):
        if role in {RAY, IDLE}:
            rows.append(_together(f"{role}: {_many(len(processes), 'process')}", processes))
            continue
        for process in processes[:MOST_ALIKE]:
            rows.append(_process_row(process))
            rows += _owner_rows(process)
        if len(processes) > MOST_ALIKE:
            rest = processes[MOST_ALIKE:]
            rows.append(_together(f"{role}: {len(rest)} more", rest))
    resident = node["store"]["resident_bytes"]
    rows.append((STORE, _size(resident), "", "", "", ""))
    rows.append(("together", _size(node["pss_bytes"]), "", "", _size(node["vram_bytes"], ""), ""))
    table = Table(title="", columns=columns, rows=tuple(rows), footers=1)
    return Section(title=f"Node {node_name(node)}", lines=tuple(node_lines(node)), tables=(table,))


def node_lines(node: Mapping[str, Any]) -> list[str]:
    """What the node has, what its object store holds, and what could not be read."""
    room = f"{format_size(node['ram_bytes'])} of memory" if node["ram_bytes"] else "memory unknown"
    if node["available_bytes"] is not None:
        room += f", {format_size(node['available_bytes'])} available"
    if node["limit_bytes"]:
        room += f"; limited to {format_size(node['limit_bytes'])} by {node['limit_source']}"
    if node["schedulable_bytes"] is not None:
        room += f"; Ray gives out {format_size(node['schedulable_bytes'])}"
    store = node["store"]
    words = (
        f"object store: {_size(store['resident_bytes'])} resident of {_size(store['capacity_bytes'])}, "
        f"{_size(store['primary_bytes'])} in objects of its own"
    )
    if store["spilled_bytes"]:
        words += f"; {format_size(store['spilled_bytes'])} spilled to disk"
    gpus = [
        f"{gpu['name']}: {_size(gpu['free_bytes'])} of {format_size(gpu['total_bytes'])} free" for gpu in node["gpus"]
    ]
    return [room, words, *gpus, *node["notes"]]


def grouped(processes: Sequence[Mapping[str, Any]]) -> list[tuple[str, list[Mapping[str, Any]]]]:
    """Processes by role, in the order of the document."""
    found: dict[str, list[Mapping[str, Any]]] = {}
    for each in processes:
        found.setdefault(each["role"], []).append(each)
    return list(found.items())


def process_name(process: Mapping[str, Any]) -> str:
    """``env-runner 4711 SingleAgentEnvRunner 'left'``."""
    words = [process["role"], str(process["pid"])]
    if process["parent"] is not None:
        return " ".join([*words, f"child of {process['parent']}: {process['command'][:60]}"])
    if process["actor_class"] and process["actor_class"] != process["role"]:
        words.append(process["actor_class"])
    if process["actor_name"]:
        words.append(repr(process["actor_name"]))
    if process["actor_class"] is None:
        words.append(own_name(process["command"]) or process["command"].removeprefix("ray::")[:60])
    return " ".join(words)


def process_size(process: Mapping[str, Any]) -> str:
    """What it holds; of one that may not be read, its resident size."""
    held = process["heap_bytes"]
    return format_size(held) if held is not None else f"{format_size(process['rss_bytes'])} RSS"


def _process_row(process: Mapping[str, Any]) -> tuple[str, ...]:
    return (
        process_name(process),
        process_size(process),
        _size(process["uss_bytes"]),
        _size(process["store_bytes"]) if process["store_bytes"] else "",
        _size(process["vram_bytes"], ""),
        process["trial"] or "",
    )


def _owner_rows(process: Mapping[str, Any]) -> list[tuple[str, ...]]:
    rows: list[tuple[str, ...]] = []
    for owner in process["holdings"][:MOST_OWNERS]:
        mark, is_store = "~" if owner["estimated"] else "", owner["file"] == STORE
        size = f"{mark}{format_size(owner['nbytes' if is_store else 'resident_bytes'])}"
        growth = f" (+ {format_size(owner['growth_bytes'])} to come)" if owner["growth_bytes"] else ""
        # What lies in the object store is held once, by the store: it is kept there for the process, not held by it.
        place = 3 if owner["device"] == "vram" else 2 if is_store else 0
        rows.append((f"  {owner['path']}{growth}", *(size if column == place else "" for column in range(4)), ""))
    return rows


def _together(name: str, processes: Sequence[Mapping[str, Any]]) -> tuple[str, ...]:
    return (
        name,
        _size(added([each["heap_bytes"] for each in processes])),
        _size(added([each["uss_bytes"] for each in processes])),
        _size(added([each["store_bytes"] for each in processes]) or None, ""),
        _size(added([each["vram_bytes"] for each in processes]), ""),
        "",
    )


def said_notes(document: Mapping[str, Any]) -> list[str]:
    """What processes said, each text once, and how to get names where there are none."""
    processes = [each for node in document["nodes"] for each in node["processes"]]
    said: dict[str, list[int]] = {}
    for each in processes:
        for note in each["notes"]:
            said.setdefault(note, []).append(each["pid"])
    notes = [*document["notes"]]
    for note, pids in said.items():
        who = ", ".join(map(str, pids[:3])) + (f" and {len(pids) - 3} more" if len(pids) > 3 else "")
        notes.append(f"{who}: {note}")
    asked = [each for each in processes if each["role"] not in {RAY, IDLE}]
    if asked and all(each["way"] == "pages" for each in asked):
        notes.append(HOW_TO_NAME)
    return notes


def cost_words(document: Mapping[str, Any]) -> str:
    """What the look took."""
    answered = [node for node in document["nodes"] if node["problem"] is None]
    cpu = max((node["cpu_s"] for node in answered), default=0.0)
    paused = max((each["paused_s"] for node in answered for each in node["processes"]), default=0.0)
    stood = f", {paused * 1000:.0f} ms at most inside a program" if paused else ""
    return f"asked in {document['seconds']:.1f} s, {cpu:.2f} s of CPU on the busiest node{stood}; our own probes are not counted"


def _count(document: Mapping[str, Any]) -> int:
    return sum(len(node["processes"]) for node in document["nodes"])


def _many(count: int, noun: str) -> str:
    plural = f"{noun}es" if noun.endswith("s") else f"{noun}s"
    return f"{count} {noun if count == 1 else plural}"


def _size(nbytes: int | None, unknown: str = "unknown") -> str:
    return unknown if nbytes is None else format_size(nbytes)
