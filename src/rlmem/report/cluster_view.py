"""What ``rlmem explain --ray`` shows: the cluster by role, its nodes, and on each node processes and their owners."""

from __future__ import annotations

from collections.abc import Sequence

from rlmem.core.holdings import sum_known
from rlmem.core.roles import IDLE, RAY, STORE, own_name
from rlmem.documents.cluster import ClusterDocument, ClusterProcessPart, NodePart, RolePart
from rlmem.report.owners import allocated_text, resident_text
from rlmem.report.table import Cell, make_table
from rlmem.report.text import size
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


def cluster_view(document: ClusterDocument) -> View:
    """The cluster as a page."""
    nodes = document.nodes
    sections = [Section(title="By role", tables=(role_table(document),))]
    if len(nodes) > 1:
        sections.append(Section(title="Nodes", tables=(node_table(nodes),)))
    shown = sorted((node for node in nodes if node.processes), key=lambda node: -(node.pss_bytes or 0))
    chosen = {node.node_id for node in shown[:MOST_NODES]}
    sections += [node_section(node) for node in nodes if node.node_id in chosen]
    notes = said_notes(document)
    if len(shown) > MOST_NODES:
        notes.append(f"{len(shown) - MOST_NODES} more nodes are in the table only; --html FILE and --json have all")
    notes.append(cost_words(document))
    return View(title=cluster_title(document), verdict=verdict(document), sections=tuple(sections), notes=tuple(notes))


def cluster_title(document: ClusterDocument) -> str:
    """Where it is."""
    return f"Ray {document.ray} at {document.address}"


def verdict(document: ClusterDocument) -> tuple[tuple[str, str], ...]:
    """What all hold, nodes that could not be asked, and nodes near their end."""
    nodes = document.nodes
    count = _count(document)
    stores = next((row.heap_bytes for row in document.roles if row.role == STORE), 0)
    lines = []
    answered = sum(node.problem is None for node in nodes)
    if document.pss_bytes is None and answered:
        who = f"{_many(count, 'process')} on {_many(answered, 'node')}"
        lines.append((f"what {who} hold is unknown: none may be read by the user of the probes", "bad"))
    if document.pss_bytes is not None:
        heap = document.pss_bytes - (stores or 0)
        who = f"{_many(count, 'process')} on {_many(answered, 'node')} hold {format_size(document.pss_bytes)}"
        parts = f"{format_size(heap)} of their own and {format_size(stores or 0)} in object stores"
        lines.append((f"{who}: {parts}, each shared page once", "plain"))
    for node in nodes:
        if node.problem:
            lines.append((f"node {node_name(node)}: {node.problem}; its memory is not in these sums", "bad"))
    for node in nodes:
        share, words = fullness(node)
        if share is not None and share >= 0.9 * KILLS_FROM:
            killing = f"Ray kills workers from {100 * KILLS_FROM:.0f} % on"
            tone = "bad" if share >= KILLS_FROM else "warn"
            lines.append((f"node {node_name(node)}: {100 * share:.0f} % of {words} is in use; {killing}", tone))
    return tuple(lines) or (("no node could be asked", "bad"),)


def fullness(node: NodePart) -> tuple[float | None, str]:
    """How much of a node is in use, of its cgroup's limit where it has one."""
    limit, used = node.limit_bytes, node.limit_used_bytes
    if limit and used is not None and (node.ram_bytes is None or limit <= node.ram_bytes):
        return used / limit, f"its limit of {format_size(limit)}"
    ram, free = node.ram_bytes, node.available_bytes
    return (1 - free / ram, f"its {format_size(ram)}") if ram and free is not None else (None, "")


def node_name(node: NodePart) -> str:
    """``192.0.2.2 (head, b2223c)``: raylets of one machine have the same address."""
    head = "head, " if node.is_head else ""
    return f"{node.address} ({head}{node.node_id[:6]})"


def role_table(document: ClusterDocument) -> Table:
    """Every role over the whole cluster."""
    total = document.pss_bytes

    def share(row: RolePart) -> str:
        return f"{100 * row.heap_bytes / total:.0f} %" if total and row.heap_bytes is not None else ""

    cells: tuple[Cell[RolePart], ...] = (
        (Column(title="role", right=False), lambda row: row.role),
        (Column(title="processes"), lambda row: str(row.processes) if row.role != STORE else ""),
        (Column(title="held (PSS)", strong=True), lambda row: size(row.heap_bytes)),
        (Column(title="share", rank=3), share),
        (Column(title="largest", rank=1), lambda row: size(row.largest_bytes) if row.processes > 1 else ""),
        (Column(title="own (USS)", rank=2), lambda row: size(row.uss_bytes) if row.role != STORE else ""),
        (Column(title="VRAM"), lambda row: size(row.vram_bytes, "")),
    )
    together = ("together", str(_count(document)), size(total), "100 %" if total else "", "", "", "")
    note = "Held is PSS without the object store, which is a row of its own: its pages count once, whoever has them mapped."
    return make_table(cells, document.roles, total=together, note=note)


def node_table(nodes: Sequence[NodePart]) -> Table:
    """Every node in a row; one that could not be asked says why."""
    cells: tuple[Cell[NodePart], ...] = (
        (Column(title="node", right=False), node_name),
        (Column(title="processes", rank=5), lambda node: str(len(node.processes)) if node.problem is None else ""),
        (Column(title="held (PSS)", strong=True), lambda node: size(node.pss_bytes)),
        (Column(title="object store", rank=2), lambda node: size(node.store.resident_bytes)),
        (Column(title="of", rank=3), lambda node: size(node.store.capacity_bytes)),
        (Column(title="spilled", rank=4), lambda node: size(node.store.spilled_bytes, "")),
        (Column(title="VRAM", rank=1), lambda node: size(node.vram_bytes, "")),
        (Column(title="memory", rank=1), lambda node: size(node_limit(node))),
        (Column(title="", right=False), lambda node: node.problem or ""),
    )
    return make_table(cells, nodes)


def node_limit(node: NodePart) -> int | None:
    """What binds a node: its cgroup, else its memory."""
    return min((nbytes for nbytes in (node.limit_bytes, node.ram_bytes) if nbytes), default=None)


def node_section(node: NodePart) -> Section:
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
    for role, processes in grouped(node.processes):
        if role in {RAY, IDLE}:
            rows.append(_together(f"{role}: {_many(len(processes), 'process')}", processes))
            continue
        for process in processes[:MOST_ALIKE]:
            rows.append(_process_row(process))
            rows += _owner_rows(process)
        if len(processes) > MOST_ALIKE:
            rest = processes[MOST_ALIKE:]
            rows.append(_together(f"{role}: {len(rest)} more", rest))
    resident = node.store.resident_bytes
    rows.append((STORE, size(resident), "", "", "", ""))
    rows.append(("together", size(node.pss_bytes), "", "", size(node.vram_bytes, ""), ""))
    table = Table(title="", columns=columns, rows=tuple(rows), footers=1)
    return Section(title=f"Node {node_name(node)}", lines=tuple(node_lines(node)), tables=(table,))


def node_lines(node: NodePart) -> list[str]:
    """What the node has, what its object store holds, and what could not be read."""
    room = f"{format_size(node.ram_bytes)} of memory" if node.ram_bytes else "memory unknown"
    if node.available_bytes is not None:
        room += f", {format_size(node.available_bytes)} available"
    if node.limit_bytes:
        room += f"; limited to {format_size(node.limit_bytes)} by {node.limit_source}"
    if node.schedulable_bytes is not None:
        room += f"; Ray gives out {format_size(node.schedulable_bytes)}"
    store = node.store
    words = (
        f"object store: {size(store.resident_bytes)} resident of {size(store.capacity_bytes)}, "
        f"{size(store.primary_bytes)} in objects of its own"
    )
    if store.spilled_bytes:
        words += f"; {format_size(store.spilled_bytes)} spilled to disk"
    gpus = [f"{gpu.name}: {size(gpu.free_bytes)} of {format_size(gpu.total_bytes)} free" for gpu in node.gpus]
    return [room, words, *gpus, *node.notes]


def grouped(processes: Sequence[ClusterProcessPart]) -> list[tuple[str, list[ClusterProcessPart]]]:
    """Processes by role, in the order of the document."""
    by_role: dict[str, list[ClusterProcessPart]] = {}
    for process in processes:
        by_role.setdefault(process.role, []).append(process)
    return list(by_role.items())


def process_name(process: ClusterProcessPart) -> str:
    """``env-runner 4711 SingleAgentEnvRunner 'left'``."""
    words = [process.role, str(process.pid)]
    if process.parent is not None:
        return " ".join([*words, f"child of {process.parent}: {process.command[:60]}"])
    if process.actor_class and process.actor_class != process.role:
        words.append(process.actor_class)
    if process.actor_name:
        words.append(repr(process.actor_name))
    if process.actor_class is None:
        words.append(own_name(process.command) or process.command.removeprefix("ray::")[:60])
    return " ".join(words)


def process_size(process: ClusterProcessPart) -> str:
    """What it holds; of one that may not be read, its resident size."""
    heap = process.heap_bytes
    return format_size(heap) if heap is not None else f"{format_size(process.rss_bytes)} RSS"


def _process_row(process: ClusterProcessPart) -> tuple[str, ...]:
    return (
        process_name(process),
        process_size(process),
        size(process.uss_bytes),
        size(process.store_bytes) if process.store_bytes else "",
        size(process.vram_bytes, ""),
        process.trial or "",
    )


def _owner_rows(process: ClusterProcessPart) -> list[tuple[str, ...]]:
    rows: list[tuple[str, ...]] = []
    for owner in process.holdings[:MOST_OWNERS]:
        is_store = owner.file == STORE
        text = allocated_text(owner) if is_store else resident_text(owner)
        growth = f" (+ {format_size(owner.growth_bytes)} to come)" if owner.growth_bytes else ""
        # What lies in the object store is held once, by the store: it is kept there for the process, not held by it.
        place = 3 if owner.device == "vram" else 2 if is_store else 0
        rows.append((f"  {owner.path}{growth}", *(text if column == place else "" for column in range(4)), ""))
    return rows


def _together(name: str, processes: Sequence[ClusterProcessPart]) -> tuple[str, ...]:
    return (
        name,
        size(sum_known(process.heap_bytes for process in processes)),
        size(sum_known(process.uss_bytes for process in processes)),
        size(sum_known(process.store_bytes for process in processes) or None, ""),
        size(sum_known(process.vram_bytes for process in processes), ""),
        "",
    )


def said_notes(document: ClusterDocument) -> list[str]:
    """What processes said, each text once, and how to get names where there are none."""
    pids_of: dict[str, list[int]] = {}
    for process in document.processes:
        for note in process.notes:
            pids_of.setdefault(note, []).append(process.pid)
    notes = [*document.notes]
    for note, pids in pids_of.items():
        who = ", ".join(map(str, pids[:3])) + (f" and {len(pids) - 3} more" if len(pids) > 3 else "")
        notes.append(f"{who}: {note}")
    asked = [process for process in document.processes if process.role not in {RAY, IDLE}]
    if asked and all(process.way == "pages" for process in asked):
        notes.append(HOW_TO_NAME)
    return notes


def cost_words(document: ClusterDocument) -> str:
    """What the look took."""
    answered = [node for node in document.nodes if node.problem is None]
    cpu = max((node.cpu_s for node in answered), default=0.0)
    paused = max((process.paused_s for node in answered for process in node.processes), default=0.0)
    stood = f", {paused * 1000:.0f} ms at most inside a program" if paused else ""
    return f"asked in {document.seconds:.1f} s, {cpu:.2f} s of CPU on the busiest node{stood}; our own probes are not counted"


def _count(document: ClusterDocument) -> int:
    return sum(1 for _ in document.processes)


def _many(count: int, noun: str) -> str:
    plural = f"{noun}es" if noun.endswith("s") else f"{noun}s"
    return f"{count} {noun if count == 1 else plural}"
