"""One node, looked at from a process on it: which processes are Ray's and its drivers', and what each holds.

Nothing here imports Ray: it is ``/proc`` and the agent's socket, as for a process on this machine.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from rlmem.agent import proc
from rlmem.cluster.holdings import GpuRoom, NodeHoldings, ProcessHoldings, StoreHoldings
from rlmem.core.holdings import Holding
from rlmem.core.roles import STORE, is_rays_own, trial_of
from rlmem.errors import AnalysisError
from rlmem.process.explain import HOW_TO_NAME, explain_process, gpu_shares
from rlmem.process.gpus import read_gpus
from rlmem.process.limits import AVAILABLE, PHYSICAL, read_limits, tightest
from rlmem.process.processes import Process, every, read_process
from rlmem.ray.stores import Store, StoreShare, find_store, is_store, read_share, spilled_bytes

#: Explained side by side: most of the time is spent waiting for answers of agents.
AT_ONCE = 8
#: Owners that hold less of a process are added up before they are sent, and so are those after the largest.
SMALL_SHARE, MOST_OWNERS = 0.005, 20
#: Where the agent finds an actor that is waiting for calls, and what it is called inside of its own methods.
_WAITING = "worker.actors[…]"


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """What is known of a node before it is looked at."""

    node_id: str
    drivers: tuple[int, ...] = ()
    workers: tuple[int, ...] = ()
    #: Drivers that are not looked at: the one that asks.
    askers: tuple[int, ...] = ()


def look(
    known: Known,
    *,
    names: bool = True,
    timeout_s: float = 2.0,
    patience_s: float = 20.0,
    own: int | None = None,
    root: str = proc.PROC,
) -> NodeHoldings:
    """The node of this process, a child of its raylet; without ``names`` sums only, which is quick.

    After ``patience_s`` seconds processes that are left are read without their owners' names.
    """
    begin, used = time.monotonic(), time.process_time()
    own = own or os.getpid()
    table = {each.pid: each for each in every(root=root)}
    raylet = _raylet(own, table)
    notes: list[str] = []
    if raylet is None:
        notes.append("the node's raylet was not found above the probe: drivers and known workers only")
    session = _session(raylet.command if raylet else "")
    store = find_store(raylet.pid, root=root) if raylet else Store()
    chosen = list(_chosen(table, raylet, session, known, own))

    def read(pair: tuple[Process, int | None]) -> tuple[ProcessHoldings, StoreShare] | None:
        process, parent = pair
        asks = names and not is_rays_own(process.command)
        late = time.monotonic() - begin > patience_s
        found = _read(process, store, names=asks and not late, timeout_s=timeout_s, root=root)
        if found is None:
            return None
        more = ("not asked for its owners: the node's time was over",) if asks and late else ()
        return replace(found[0], parent=parent, notes=(*found[0].notes, *more)), found[1]

    with ThreadPoolExecutor(AT_ONCE if names else 1) as pool:
        answers = [each for each in pool.map(read, chosen) if each is not None]
    processes = [process for process, _ in answers]
    if store.has_disk:
        on_disk = sum(share.disk_bytes for _, share in answers)
        store = replace(store, resident_bytes=(store.resident_bytes or 0) + on_disk)
        notes.append(
            "a part of the object store is in files on a disk: pages of them that processes have in memory are counted"
        )
    if len(processes) < len(chosen):
        gone = len(chosen) - len(processes)
        notes.append(f"{gone} of {len(chosen)} processes ended while they were looked at")
    closed = [each for each in processes if each.pss_bytes is None]
    if closed:
        notes.append(
            f"{len(closed)} of {len(processes)} processes may be read by their user and root only: their resident size is "
            "shown and not part of the sum"
        )
    found = _room(known, store, session, root)
    return replace(
        found,
        processes=tuple(processes),
        probe_bytes=(proc.rollup(own, root) or {}).get("Pss"),
        seconds=time.monotonic() - begin,
        cpu_s=time.process_time() - used,
        notes=(*notes, *found.notes),
    )


def machine_key() -> str:
    """The same for two nodes whose processes have the same numbers: raylets of one machine, outside of containers."""
    boot = (proc.read(f"{proc.PROC}/sys/kernel/random/boot_id") or b"?").decode("ascii", "replace").strip()
    with suppress(OSError):
        return f"{boot} {os.readlink(f'{proc.PROC}/self/ns/pid')}"
    return boot


# -- which processes ----------------------------------------------------------------------------------------------------


def _is_program(process: Process, name: str) -> bool:
    words = process.command.split(maxsplit=1)
    return bool(words) and os.path.basename(words[0]) == name


def _raylet(own: int, table: dict[int, Process]) -> Process | None:
    pid = own
    while pid in table:
        if _is_program(table[pid], "raylet"):
            return table[pid]
        pid = table[pid].parent
    return None


def _session(command: str) -> str:
    """The folder of a raylet's session, from where its socket is; empty if that is not told."""
    for word in command.split():
        if word.startswith("--raylet_socket_name="):
            return os.path.dirname(os.path.dirname(word.partition("=")[2]))
    return ""


def _chosen(
    table: dict[int, Process], raylet: Process | None, session: str, known: Known, own: int
) -> Iterator[tuple[Process, int | None]]:
    """The node's processes, each with the worker or driver above it (None for one that Ray knows itself).

    A process belongs to the nearest of these above it: workers of a raylet that a driver has started are not the driver's
    children, and a raylet of another node on this machine, or of another cluster, is not ours.
    """
    asked = {*known.drivers, *known.workers}
    for process in table.values():
        below: int | None = None
        each: Process | None = process
        while each is not None and each.pid != own and each.pid not in known.askers:
            if raylet is not None and each.pid == raylet.pid:
                yield process, below if below != process.pid else None
                break
            is_service = bool(session) and session in each.command and is_rays_own(each.command)
            is_core = _is_program(each, "raylet") or _is_program(each, "gcs_server")
            if each.pid in asked or (is_service and not _is_program(each, "raylet")):
                yield process, each.pid if each.pid != process.pid else None
                break
            if is_core:
                break
            below, each = each.pid, table.get(each.parent)


# -- one process --------------------------------------------------------------------------------------------------------


def _read(
    process: Process, store: Store, *, names: bool, timeout_s: float, root: str
) -> tuple[ProcessHoldings, StoreShare] | None:
    """Sums, and with ``names`` owners and classes too; None when it is gone."""
    pid = process.pid
    status = proc.status(pid, root)
    if status is None:
        return None
    rollup = proc.rollup(pid, root) or {}
    share = read_share(pid, rollup, store, root=root)
    alone = rollup.get("Private_Clean", 0) + rollup.get("Private_Dirty", 0) - (share.only_bytes if share else 0)
    found = ProcessHoldings(
        pid=pid,
        start=process.start,
        command=process.command[:300],
        trial=_trial(pid, root),
        rss_bytes=status["VmRSS"],
        pss_bytes=rollup.get("Pss"),
        uss_bytes=max(0, alone) if rollup else None,
        swap_bytes=rollup.get("SwapPss", rollup.get("Swap")),
        shmem_bytes=rollup.get("Pss_Shmem"),
        store_bytes=share.nbytes if share else None,
    )
    share = share or StoreShare()
    if not names:
        return replace(found, gpus=gpu_shares(pid, ())), share
    try:
        explained = explain_process(pid, timeout_s=timeout_s, root=root)
    except AnalysisError:
        return None if read_process(pid, root=root) is None else (found, share)
    large, smaller = _large(explained.holdings, explained.rss_bytes)
    named = replace(
        found,
        gpus=explained.gpus,
        way=explained.way,
        holdings=large,
        smaller_bytes=smaller,
        portions=explained.portions,
        unexplained_bytes=explained.unexplained_bytes,
        paused_s=explained.paused_s,
        notes=tuple(note for note in explained.notes if note != HOW_TO_NAME),
    )
    return named, share


def _large(holdings: tuple[Holding, ...], rss_bytes: int) -> tuple[tuple[Holding, ...], int]:
    """The owners worth a row, with an actor called as it calls itself; and what all others hold."""
    least = SMALL_SHARE * rss_bytes
    worth = [
        each for each in holdings if max(each.resident_bytes, each.growth_bytes or 0) >= least or each.device != "ram"
    ]
    kept = sorted(worth, key=lambda each: -max(each.resident_bytes, each.growth_bytes or 0))[:MOST_OWNERS]
    all_ram = sum(each.resident_bytes for each in holdings if each.device == "ram")
    shown = sum(each.resident_bytes for each in kept if each.device == "ram")
    return tuple(_called(each) for each in kept), all_ram - shown


def _called(owner: Holding) -> Holding:
    path = owner.path
    file = STORE if is_store(owner.file) else owner.file
    return replace(owner, path=f"self{path.removeprefix(_WAITING)}" if path.startswith(_WAITING) else path, file=file)


def _trial(pid: int, root: str) -> str | None:
    try:
        return trial_of(os.readlink(f"{root}/{pid}/cwd"))
    except OSError:
        return None


# -- the node itself ----------------------------------------------------------------------------------------------------


def _room(known: Known, store: Store, session: str, root: str) -> NodeHoldings:
    limits = read_limits(root=Path(root).parent)
    sizes = {limit.kind: limit.nbytes for limit in limits}
    bound = tightest(limit for limit in limits if limit.kind.startswith("cgroup"))
    spilled = spilled_bytes(session, known.node_id) if session else None
    return NodeHoldings(
        node_id=known.node_id,
        store=StoreHoldings(
            capacity_bytes=store.size_bytes, resident_bytes=store.resident_bytes, spilled_bytes=spilled
        ),
        gpus=tuple(
            GpuRoom(name=gpu.name, total_bytes=gpu.total_bytes, free_bytes=gpu.free_bytes) for gpu in read_gpus()
        ),
        ram_bytes=sizes.get(PHYSICAL),
        available_bytes=sizes.get(AVAILABLE),
        limit_bytes=bound.nbytes if bound else None,
        limit_used_bytes=bound.used_bytes if bound else None,
        limit_source=f"{bound.kind} ({bound.detail})" if bound else "",
    )
