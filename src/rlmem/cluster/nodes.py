"""Nodes of a cluster, as people write them: ``4x(64GB,1xA100-80GB)``.

Groups of equal nodes are separated by ``+`` or ``;``. A group is a count, ``x`` and a node; without a count it is one node. A node
is a size of RAM, a machine of the catalogue, or parts in brackets: the size of RAM first, then cores (``16cpu``) and GPUs: a
card of the catalogue (``2xRTX 4090``) or a size (``1x24GB-gpu``).

>>> [(group.count, group.gpus) for group in parse_nodes("4x(64GB,1xA100-80GB) + 2xaws-g5-xlarge + 128GB")]
[(4, 1), (2, 1), (1, 0)]
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from rlmem.core.machines import MACHINES, Machine, find_machine
from rlmem.errors import UsageError, did_you_mean
from rlmem.units import MIB, parse_size

EXAMPLE = "4x(64GB,16cpu,1xA100-80GB)"
#: More nodes than any cluster that Ray has been seen on (4,000) by far; more is a typing mistake.
MOST_NODES = 1_000_000
#: More GPUs and cores than any machine has.
MOST_GPUS, MOST_CORES = 64, 4096

_COUNTED = re.compile(r"\s*(\d+)\s*[x×*]\s*(.+)", re.ASCII | re.DOTALL | re.IGNORECASE)
_CORES = re.compile(r"(\d+(?:\.\d+)?)\s*-?\s*(?:v?cpus?|cores?)", re.ASCII | re.IGNORECASE)
_GPU_SIZE = re.compile(r"\(?\s*([\d.]+\s*[a-z]*)[\s-]*(?:gpus?|vram)\s*\)?", re.ASCII | re.IGNORECASE)
_SIZE = re.compile(r"[\d.]+\s*[kmgtp]i?b?", re.ASCII | re.IGNORECASE)


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeGroup:
    """Equal nodes: how many, and what each has."""

    name: str
    count: int = 1
    ram_bytes: int
    #: ``None`` when nobody said: cores then limit nothing.
    cpus: float | None = None
    gpus: int = 0
    gpu: str | None = None
    #: Memory of one GPU; ``None`` when it has none of its own, or nobody knows it.
    vram_bytes: int | None = None
    #: One pool: what a GPU takes comes out of RAM.
    unified: bool = False
    #: What Ray was told to admit (its resource ``memory``); ``None`` when that is still to be decided.
    memory_bytes: int | None = None
    #: The size of a running object store; ``None`` when that is still to be decided.
    store_bytes: int | None = None
    #: Custom resources that a running node was started with; ``None`` when nobody said: they then limit nothing.
    resources: tuple[tuple[str, float], ...] | None = None


def parse_nodes(text: str) -> tuple[NodeGroup, ...]:
    """The groups of nodes that a text names, in its order."""
    parts = [part.strip() for part in _split(text, "+;")]
    if not all(parts):
        raise UsageError(f"--nodes {_shown(text)}: a group is missing; write it like {EXAMPLE}")
    groups = tuple(_group(part) for part in parts)
    if sum(group.count for group in groups) > MOST_NODES:
        raise UsageError(f"--nodes {_shown(text)}: over {MOST_NODES:,} nodes; check the counts")
    return groups


def one_node(
    name: str, ram_bytes: int, *, vram_bytes: int | None = None, cpus: float | None = None, unified: bool = False
) -> tuple[NodeGroup, ...]:
    """A single machine."""
    gpus = 1 if vram_bytes is not None or unified else 0
    return (NodeGroup(name=name, ram_bytes=ram_bytes, cpus=cpus, gpus=gpus, vram_bytes=vram_bytes, unified=unified),)


def _split(text: str, marks: str) -> list[str]:
    """Cut at marks outside of brackets."""
    parts, depth = [""], 0
    for character in text:
        depth += (character == "(") - (character == ")")
        if depth < 0:
            break
        if character in marks and not depth:
            parts.append("")
        else:
            parts[-1] += character
    if depth:
        raise UsageError(f"--nodes {_shown(text)}: brackets do not match; write it like {EXAMPLE}")
    return parts


def _group(text: str) -> NodeGroup:
    count, rest = _counted(text)
    if rest.startswith("(") and rest.endswith(")"):
        return _node(rest[1:-1], count, text)
    if _SIZE.fullmatch(rest):
        return NodeGroup(name=rest, count=count, ram_bytes=_size(rest, text))
    return _machine_group(_machine(rest, text), count, text)


def _counted(text: str, *, most: int = MOST_NODES) -> tuple[int, str]:
    """``4x…`` is four of what follows; without a count it is one."""
    match = _COUNTED.fullmatch(text)
    if match is None:
        return 1, text.strip()
    count = int(match[1]) if len(match[1]) <= len(str(most)) else most + 1
    if not 1 <= count <= most:
        raise UsageError(f"--nodes {_shown(text)}: a count from 1 to {most:,}, please")
    return count, match[2].strip()


def _node(inside: str, count: int, text: str) -> NodeGroup:
    """A node from its parts, each said once: RAM, cores, a kind of GPU; a machine of the catalogue stands for all of them."""
    parts: dict[str, Any] = {}
    said = [item.strip() for item in _split(inside, ",")]
    cores = [part for part in said if _CORES.fullmatch(part)]
    if len(cores) > 1:
        raise UsageError(f"--nodes {_shown(text)}: two numbers of cores; say one")
    for part in [*(part for part in said if part not in cores), *cores]:  # cores that are said replace a machine's
        for key, value in _part(part, text).items():
            if parts.get(key) and value and key in _TWICE:
                raise UsageError(f"--nodes {_shown(text)}: {_TWICE[key]}")
            if value or key not in parts:  # a machine without a GPU may get one
                parts[key] = value
    if "ram_bytes" not in parts:
        raise UsageError(f"--nodes {_shown(text)}: how much RAM? write it like {EXAMPLE}")
    return NodeGroup(name=" ".join(inside.split()), count=count, **parts)


_TWICE = {
    "ram_bytes": "two sizes of RAM; a GPU's is written like 1x24GB-gpu",
    "gpus": "GPUs twice; write equal ones like 2xA100-80GB, and make two groups of nodes for two kinds",
}


def _part(part: str, text: str) -> dict[str, Any]:
    """One part of a node as fields of its group."""
    if match := _CORES.fullmatch(part):
        cpus = float(match[1])
        if not 0 < cpus <= MOST_CORES:
            raise UsageError(f"--nodes {_shown(text)}: {part!r}: from 1 to {MOST_CORES:,} cores, please")
        return {"cpus": cpus}
    if _SIZE.fullmatch(part):
        return {"ram_bytes": _size(part, text)}
    number, what = _counted(part, most=MOST_GPUS)
    if match := _GPU_SIZE.fullmatch(what):
        return {"gpus": number, "gpu": f"{match[1].strip()} GPU", "vram_bytes": _size(match[1], text)}
    machine = _machine(what, text)
    if machine.ram_bytes is None:
        return {"gpus": number * machine.gpus, "gpu": machine.name, "vram_bytes": machine.vram_bytes}
    if number > 1:
        raise UsageError(f"--nodes {_shown(text)}: {what} is a whole machine; write {number}x{machine.name}")
    return _host(machine)


def _host(machine: Machine) -> dict[str, Any]:
    return {
        "ram_bytes": machine.ram_bytes,
        "cpus": machine.cores,
        "gpus": machine.gpus,
        "gpu": None if machine.vram_bytes is None else _card_name(machine),
        "vram_bytes": machine.vram_bytes,
        "unified": machine.unified,
    }


def _machine(name: str, text: str) -> Machine:
    if not name:
        raise UsageError(f"--nodes {_shown(text)}: a part is missing; write it like {EXAMPLE}")
    try:
        return find_machine(name)
    except UsageError:
        known = [machine.name for machine in MACHINES]
        if re.fullmatch(r"[\d.]+", name):
            raise UsageError(f"--nodes {_shown(text)}: {name} of what? add a unit, such as {name}GB") from None
        if "," in name:
            raise UsageError(f"--nodes {_shown(text)}: the parts of a node go in brackets, like {EXAMPLE}") from None
        longer = [other for other in known if other.startswith(f"{name.lower()}-")]
        hint = f" (there is {' and '.join(longer)})" if longer else did_you_mean(name, known)
        raise UsageError(
            f"--nodes {_shown(text)}: {_shown(name)} is neither a size nor a machine{hint}; "
            f"write it like {EXAMPLE}; 'rlmem machines' lists names"
        ) from None


def _machine_group(machine: Machine, count: int, text: str) -> NodeGroup:
    if machine.ram_bytes is None:
        raise UsageError(
            f"--nodes {_shown(text)}: {machine.name} is a GPU, a node has RAM too: {count}x(64GB,1x{machine.name})"
        )
    return group_of(machine, count)


def group_of(machine: Machine, count: int = 1) -> NodeGroup:
    """Nodes of one kind from the catalogue; not of a card, which has no RAM."""
    return NodeGroup(name=machine.name, count=count, **_host(machine))


def _card_name(machine: Machine) -> str:
    """The card in a machine: the one of its memory that its description names."""
    words = re.split(r"[^a-z0-9]+", machine.about.lower())
    cards = (card.name for card in MACHINES if card.kind == "card" and card.vram_bytes == machine.vram_bytes)
    return next((name for name in cards if name.split("-")[0] in words), f"GPU of {machine.name}")


def _size(text: str, whole: str) -> int:
    try:
        nbytes = parse_size(text)
    except UsageError as error:
        raise UsageError(f"--nodes {_shown(whole)}: {error}") from None
    if nbytes < MIB:
        raise UsageError(f"--nodes {_shown(whole)}: {text} is only {nbytes:,} B; add a unit, such as 64GB")
    return nbytes


def _shown(text: str) -> str:
    return repr(text if len(text) <= 60 else f"{text[:60]}…")
