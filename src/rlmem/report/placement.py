"""A placement in sentences and tables."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from rlmem.core.machines import find_machine
from rlmem.core.resources import CUSTOM
from rlmem.core.roles import TRIAL
from rlmem.documents.placement import BundlePart, LackPart, PlacementDocument, RoomPart
from rlmem.report.table import Cell, make_table
from rlmem.report.text import size
from rlmem.report.view import Column, Item, Section, Table, View
from rlmem.units import format_count, format_size

_NAMES = {"ram": "RAM", "vram": "GPU memory", "store": "the object store", "memory": "Ray's memory", "cpus": "cores"}
#: What Ray does with a strategy, where it is not PACK.
_STRATEGIES = {
    "SPREAD": "SPREAD is a wish of Ray's: bundles may share nodes, so that as many fit as with PACK; where they go is Ray's to say.",
    "STRICT_PACK": "STRICT_PACK: all bundles of a trial are on one node.",
    "STRICT_SPREAD": "STRICT_SPREAD: every bundle of a trial is on another node.",
}
#: Rows of a table that nobody reads further than.
_ROWS = 12


def placement_view(document: PlacementDocument) -> View:
    """What ``rlmem workers`` shows."""
    target = document.target
    title = f"{target.name}: {target.about}" if target.about else str(target.name)
    return View(
        title=title,
        verdict=placement_verdict(document),
        sections=placement_sections(document),
        notes=placement_notes(document),
    )


def placement_verdict(document: PlacementDocument) -> tuple[tuple[str, str], ...]:
    """How many fit and what stops more, or that nothing does."""
    nodes = sum(group.count for group in document.nodes)
    where = "on this node" if nodes == 1 else f"on {format_count(nodes)} nodes"
    if not document.trials:
        return ((f"does not fit {where}: {_missing(document, document.lacks[0])}", "bad"),)
    if document.shards:
        shards = document.shards
        text = (
            f"{format_count(shards.whole)} {shards.path} fit {where} over {_count(shards.count, 'learner')} of "
            f"{format_count(shards.each)}"
        )
        return ((text, "good"),)
    least = "at least " if document.at_least else ""
    stops = (
        f"; {_name(document.limit)} stop{'' if document.limit == 'cpus' else 's'} one more" if document.limit else ""
    )
    lines = [
        (
            f"{least}{_count(document.trials, 'trial')} fit{'s' * (document.trials == 1)} at once {where}{stops}",
            "good",
        )
    ]
    if document.most and document.most.count:
        lines.append(
            (
                f"one trial alone could have {_count(document.most.count, document.most.role)} at most",
                "plain",
            )
        )
    lines += [(f"that is with {change}", "warn") for change in _gpu_changes(document)]
    return tuple(lines)


def _gpu_changes(document: PlacementDocument) -> list[str]:
    """Where a configuration asks for more of a GPU than its bytes need, what to write there."""
    return [
        f"num_gpus_per_{'env_runner' if bundle.role.endswith('env-runner') else 'learner'}={_number(share)} in the configuration, which "
        f"asks for {_number(bundle.asked_gpu)}"
        for bundle in document.bundles
        if (share := max((share for share in bundle.gpus if share), default=0.0))
        and bundle.vram_bytes
        and bundle.asked_gpu not in (0, share)
    ]


def placement_sections(document: PlacementDocument) -> tuple[Section, ...]:
    """Bundles, nodes, what an empty node holds, what to tell Ray, what is missing."""
    sections = [Section(title="What is placed", tables=(_bundles(document),))]
    if document.lacks:
        items = tuple(_lack(document, lack) for lack in document.lacks)
        sections.append(Section(title="What does not fit", items=items))
    if document.uses:
        sections.append(Section(title="Where it goes", tables=(_uses(document),)))
    sections.append(Section(title="How many an empty node holds", tables=(_holds(document),)))
    if document.on_ray and document.trials:
        sections.append(Section(title="For Ray", lines=_for_ray(document)))
    return tuple(sections)


def placement_notes(document: PlacementDocument) -> tuple[str, ...]:
    """On which terms."""
    terms = document.terms
    notes = [
        f"Upper bounds with a margin of {terms.margin:.0%} on top; at most {terms.kill_share:.0%} of a node's RAM in use, where Ray's "
        "memory monitor begins to end workers."
        if document.on_ray
        else f"Upper bounds with a margin of {terms.margin:.0%} on top; at most {terms.kill_share:.0%} of a node's RAM in use."
    ]
    if document.on_ray:
        notes.append(
            f"A node that holds anything pays {format_size(document.node_bytes)} and the margin once for Ray's own processes and shared pages. "
            "Ray's 'memory' decides what is admitted; it limits nobody."
        )
    if any(group.cpus is None for group in document.nodes):
        notes.append("Cores are not limited where nobody said how many there are: (64GB,16cpu).")
    if document.strategy in _STRATEGIES:
        notes.append(_STRATEGIES[document.strategy])
    unknown = [group.name for group in document.nodes if group.resources is None]
    customs = dict.fromkeys(name for bundle in document.bundles for name in bundle.resources)
    if customs and unknown:
        notes.append(
            f"What nodes have of {', '.join(customs)} nobody said, so it limits nothing here: start them with ray start --resources, or the "
            "bundles wait for ever."
        )
    if any(bundle.whole_gpu for bundle in document.bundles):
        notes.append("Learners that exchange gradients have a GPU each: NCCL refuses two on one.")
    if document.on_ray and any(len(set(bundle.gpus)) > 1 for bundle in document.bundles):
        notes.append(
            "Ray counts shares of GPUs, not their bytes: with GPUs of several sizes ask for the largest share, and keep bundles off a GPU "
            "that is too small with accelerator_type."
        )
    notes.append("GiB is 2³⁰ bytes, GB is 10⁹.")
    return tuple(notes)


def _bundles(document: PlacementDocument) -> Table:
    cells: list[Cell[BundlePart]] = [
        (Column(title="bundle", right=False), lambda bundle: bundle.role),
        (Column(title="count"), lambda bundle: format_count(bundle.count)),
        (Column(title="expected", rank=1), lambda bundle: size(bundle.expected_bytes, "")),
        (Column(title="upper bound"), lambda bundle: format_size(bundle.high_bytes)),
        (
            Column(title="memory to ask for"),
            lambda bundle: _spread([format_size(nbytes) for nbytes in bundle.memory_bytes]),
        ),
        (Column(title="cores", rank=2), lambda bundle: _number(bundle.cpus)),
    ]
    if any(any(share != 0 for share in bundle.gpus) for bundle in document.bundles):
        cells += [
            (Column(title="GPU memory"), lambda bundle: format_size(bundle.vram_bytes) if bundle.vram_bytes else ""),
            (
                Column(title="share of a GPU"),
                lambda bundle: _spread(["none fits" if share is None else _number(share) for share in bundle.gpus]),
            ),
        ]
    flight = document.flight_bytes
    notes = [f"in flight in object stores: {format_size(flight)} at most"] if flight else []
    cached = [bundle for bundle in document.bundles if bundle.cache_bytes and not bundle.whole_gpu]
    notes += [
        f"beside others on a GPU, a share of one has {format_size(bundle.cache_bytes)} more for {bundle.role}: what torch's allocator keeps"
        for bundle in cached
    ]
    return make_table(cells, document.bundles, note="\n".join(notes))


def _spread(texts: list[str]) -> str:
    """One text when all groups agree, else one for each, in their order."""
    return " / ".join(dict.fromkeys(texts))


def _uses(document: PlacementDocument) -> Table:
    shared = any(use.gpus for use in document.uses)
    titles = ["nodes", "each", "holds", "RAM in use", "of usable", "cores", *(["GPUs"] if shared else [])]
    found: dict[tuple[str, ...], int] = {}
    for use in document.uses:
        group = document.nodes[use.group]
        cells = [
            group.name,
            " + ".join(_count(count, role) for role, count in use.bundles.items()),
            format_size(use.ram_bytes),
            format_size(use.usable_bytes),
            _number(use.cpus) + (f" of {_number(group.cpus)}" if group.cpus is not None else ""),
            *([_gpus(use.gpus)] if shared else []),
        ]
        found[tuple(cells)] = found.get(tuple(cells), 0) + use.nodes
    ordered = sorted(found.items(), key=lambda item: -item[1])
    rows = [(format_count(nodes), *cells) for cells, nodes in ordered[:_ROWS]]
    left = ["" for _ in titles[3:]]
    if len(ordered) > _ROWS:
        others = sum(nodes for _, nodes in ordered[_ROWS:])
        rows.append((format_count(others), "", f"{len(ordered) - _ROWS} other mixtures", *left))
    if document.idle_nodes:
        rows.append((format_count(document.idle_nodes), "", "nothing", *left))
    ranks = {"of usable": 1, "cores": 2}
    columns = tuple(
        Column(title=title, right=index not in (1, 2), rank=ranks.get(title, 0)) for index, title in enumerate(titles)
    )
    return Table(title="", columns=columns, rows=tuple(rows))


def _gpus(shares: Sequence[float]) -> str:
    """``3 full, 1 at 0.42``; equal ones together."""
    counts: dict[float, int] = {}
    for share in shares:
        counts[share] = counts.get(share, 0) + 1
    parts = [f"{count} at {_number(share)}" for share, count in counts.items() if share]
    return ", ".join(parts)


def _holds(document: PlacementDocument) -> Table:
    limits = dict.fromkeys(name for room in document.holds for name in room.by)
    ordered = sorted(limits, key=lambda name: ([*_NAMES].index(name) if name in _NAMES else len(_NAMES), name))
    cells: list[Cell[RoomPart]] = [
        (Column(title="node", right=False), lambda room: document.nodes[room.group].name),
        (Column(title="bundle", right=False), lambda room: room.role),
        (Column(title="holds"), lambda room: format_count(room.count)),
        (Column(title="stopped by", right=False), lambda room: _name(room.limit) if room.limit else "nothing"),
        *((Column(title=f"by {_name(name)}"), partial(_room_by, name)) for name in ordered),
    ]
    return make_table(cells, document.holds)


def _room_by(resource: str, room: RoomPart) -> str:
    return format_count(room.by[resource]) if resource in room.by else ""


def _for_ray(document: PlacementDocument) -> tuple[str, ...]:
    """What to start nodes with, and what to ask for."""
    lines = []
    starts: dict[tuple[int, int, int], int] = {}
    for use in document.uses:
        group = document.nodes[use.group]
        if group.store_bytes is None:  # a running node is as it is
            key = (use.group, use.admit_bytes, use.object_store_bytes or 0)
            starts[key] = starts.get(key, 0) + use.nodes
    for (index, admit, store), nodes in sorted(starts.items(), key=lambda item: -item[1])[:3]:
        group = document.nodes[index]
        usual = f"by default the store would get {format_size(group.default_store_bytes)}"
        lines.append(
            f"{_count(nodes, 'node')} of {group.name}: ray start --memory={admit} --object-store-memory={store}   ({usual})"
        )
    shown = [_bundle(bundle) for bundle in document.bundles]
    lines.append(f'placement group: [{", ".join(shown)}], strategy="{document.strategy}"')
    lines += [f"with {change}" for change in _gpu_changes(document)]
    if not document.shards:
        lines.append(
            "in Python: rlmem.ray.placement_group_for(target, nodes=…), rlmem.ray.resources_for(target, role=…)"
        )
    return tuple(lines)


def _bundle(bundle: BundlePart) -> str:
    shares = [share for share in bundle.gpus if share]
    parts = [f'"CPU": {_number(bundle.cpus)}']
    if shares:
        parts.append(f'"GPU": {_number(max(shares))}')
    parts.append(f'"memory": {max(bundle.memory_bytes)}')
    parts += [f'"{name}": {_number(amount)}' for name, amount in bundle.resources.items()]
    text = "{" + ", ".join(parts) + "}"
    return text if bundle.count == 1 else f"{bundle.count} × {text}"


def _lack(document: PlacementDocument, lack: LackPart) -> Item:
    return Item(lead=lack.role, text=_missing(document, lack), tone="bad", more=tuple(_would(document, lack)))


def _missing(document: PlacementDocument, lack: LackPart) -> str:
    group = document.nodes[lack.group]
    name = _name(lack.resource)
    if not lack.never:
        asked = next(bundle.count for bundle in document.bundles if bundle.role == lack.role)
        find = "finds" if lack.count == 1 else "find"
        what = f"{format_count(lack.count)} of {_count(asked, lack.role)} {find} no place"
        if lack.resource == "nodes":
            held = _count(int(lack.has), "node")
            return f"{what}: {document.strategy} wants another node for each of {lack.needs:,.0f} bundles, and {held} can hold one"
        return f"{what}: nodes run out of {name}"
    needs, has = (_amount(amount, lack.resource) for amount in (lack.needs, lack.has))
    counted = f"{needs} cores" if lack.resource == "cpus" else f"{needs} of {name}"
    what = f"one {lack.role} needs {counted}" if lack.needs else f"one {lack.role} needs a GPU"
    if lack.resource == "vram" and not group.gpus:
        return f"{what}, and {group.name} has no GPU"
    if lack.resource == "vram" and lack.needs <= lack.has:  # shares that no GPU has left beside others
        return f"one {lack.role} needs larger shares of GPUs than {group.name} has"
    over = _amount(lack.needs - lack.has, lack.resource)
    return f"{what}, {over} more than the {has} of {group.name}"


def _would(document: PlacementDocument, lack: LackPart) -> list[str]:
    found = []
    if lack.never and lack.resource == "memory":
        found.append(f"the node has the RAM: start it with ray start --memory={lack.needs:.0f} or more")
    elif lack.never and lack.resource == "ram":
        least = lack.needs / document.terms.kill_share
        found.append(f"a node with at least {format_size(least)} of RAM would hold it{_such(lack.machine, 'ram')}")
    elif lack.never and lack.resource.startswith(CUSTOM):
        custom = lack.resource.removeprefix(CUSTOM)
        found.append(f"start the node with ray start --resources='{{\"{custom}\": {lack.needs:g}}}' or more")
    elif lack.never and lack.resource == "vram" and lack.role == TRIAL and len(document.bundles) > 1:
        found.append("a node with more or larger GPUs would hold it")
    elif lack.never and lack.resource == "vram":
        enough = f"with at least {format_size(lack.needs)} " if lack.needs else ""
        found.append(f"a GPU {enough}would hold it{_such(lack.machine, 'vram')}")
    elif lack.never and lack.resource == "store":
        found.append(f"start the node with --object-store-memory={lack.needs:.0f}, or fewer requests in flight")
    elif lack.never:
        found.append(f"a node with at least {_number(lack.needs)} cores would hold it")
    if lack.nodes:
        found.append(f"{_count(lack.nodes, 'node')} of {document.nodes[lack.group].name} would hold a trial")
    most = document.most
    if most and most.count and lack.role in (most.role, TRIAL):
        found.append(f"with {_count(most.count, most.role)} it fits")
    return found


def _such(machine: str | None, device: str) -> str:
    if machine is None:
        return "; no machine of the catalogue has as much"
    found = find_machine(machine)
    nbytes = found.vram_bytes if device == "vram" else found.ram_bytes
    return f", such as {machine} ({format_size(nbytes or 0)})"


def _amount(value: float, resource: str) -> str:
    return format_size(value) if resource in _NAMES and resource != "cpus" else _number(value)


def _name(resource: str) -> str:
    """A resource in words; a custom one by its own name."""
    return _NAMES.get(resource) or resource.removeprefix(CUSTOM)


def _number(value: float) -> str:
    return f"{value:,.4f}".rstrip("0").rstrip(".")


def _count(count: int, what: str) -> str:
    return f"{format_count(count)} {what}{'' if count == 1 else 's'}"
