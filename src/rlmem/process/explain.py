"""What holds the memory of a running process: its pages, its objects' names where they can be had, and its children."""

from __future__ import annotations

import math
import os
import pwd
import sys
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import psutil

from rlmem.agent import proc
from rlmem.agent.protocol import CountsAnswer, CudaFacts, TrimAnswer, WalkAnswer
from rlmem.core.holdings import PAGE_METHODS, Explanation, GpuShare, Holding, Portion, Progress, TreeExplanation
from rlmem.core.memory_classes import FILES, SHARED
from rlmem.errors import AnalysisError
from rlmem.process import attach, gpus
from rlmem.process.attribution import attribute, memory_reader, no_memory, segments
from rlmem.process.limits import AVAILABLE, PHYSICAL, Limit, parse_rlimits, tightest
from rlmem.process.maps import classify
from rlmem.process.pagemap import read_pages
from rlmem.process.processes import Process, descendants, is_same, living, read_process, role
from rlmem.process.sources import added_at, script_of
from rlmem.process.stacks import stack_pointers, threads
from rlmem.units import MIB, format_size

#: Children looked at side by side: most of the time is spent waiting for their answers.
AT_ONCE = 8
#: A child that shares this much anonymous memory is a fork of its parent. One of a fork server shares 1 MiB.
SHARED_BYTES = 16 * MIB
#: A container without an end that holds this much is looked for in the program's source.
WORTH_LINES_BYTES = MIB
#: What gives names to a process that has none.
HOW_TO_NAME = (
    "no names: start the program with 'rlmem run -- …', or put 'import rlmem.preload' into it; "
    "--unsafe-attach tries a debugger, which stops the program for a moment and can harm it"
)


def explain_tree(
    pid: int,
    *,
    tree: bool = True,
    names: bool = True,
    fork_names: bool = False,
    unsafe_attach: bool = False,
    trim: bool = False,
    timeout_s: float = 2.0,
    root: str = proc.PROC,
) -> TreeExplanation:
    """A process and its children; each shared page counts once in the sum.

    Sums are read before anybody is asked for names: a walk writes reference counts, and so copies pages that a fork
    shares. Children that share many are asked with ``fork_names`` only.
    """
    if not os.path.isdir(f"{root}/self") and root == proc.PROC:
        return TreeExplanation(processes=(elsewhere(pid),))
    top = living(pid, root=root)
    below = descendants(pid, root=root) if tree else ()
    together, parts = proc.tree_parts([each.pid for each in (top, *below)], root)
    forks = {each.pid for each in below if _shared_anonymous(parts.get(each.pid, {})) >= SHARED_BYTES}
    options: dict[str, Any] = {"trim": trim, "timeout_s": timeout_s, "root": root}
    parents = {each.pid: each.parent for each in (top, *below)}
    commands = {each.pid: each.command for each in (top, *below)}

    def look(each: Process) -> Explanation | None:
        named = names and (fork_names or each.pid not in forks)
        try:
            found = _explained(each, names=named, unsafe_attach=unsafe_attach and each is top, **options)
        except AnalysisError:  # ended meanwhile
            if each is top:
                raise
            return None
        found = replace(_counted(found, timeout_s), role=role(each.pid, pid, parents, commands))
        return _as_before(found, parts.get(each.pid))

    found = [look(top)]
    with ThreadPoolExecutor(AT_ONCE) as pool:
        found += pool.map(look, below)
    processes = tuple(each for each in found if each is not None)
    if len(processes) == 1:
        own = processes[0]
        return TreeExplanation(processes=(own,), pss_bytes=own.pss_bytes, uss_bytes=own.uss_bytes)
    private = sum(_private(each) for each in parts.values())
    missing = 1 + len(below) - len(parts)
    notes = []
    if missing:
        notes.append(f"{missing} of {1 + len(below)} processes could not be read: the sum is too small")
    if names and not fork_names and (alike := [each for each in processes if each.pid in forks]):
        notes.append(
            f"{len(alike)} forked processes have no names: to look for names copies pages that they share with their "
            "parent, for good; --fork-names does it"
        )
    return TreeExplanation(
        processes=processes,
        pss_bytes=together if parts else None,
        uss_bytes=private if parts else None,
        shared_bytes=max(0, together - private) if parts else None,
        notes=tuple(notes),
    )


def _as_before(found: Explanation, parts: Mapping[str, int] | None) -> Explanation:
    """A process with its sums from before it was asked for names, and what the question has copied."""
    if not parts or found.pss_bytes is None:
        return found
    shared = _shared_anonymous(parts)
    copied = shared - (found.shared_anonymous_bytes or 0)
    notes = found.notes
    if found.way != "pages" and copied >= MIB:
        notes += (
            f"to look for names has copied {format_size(copied)} of pages that it shared by fork; sums are from before",
        )
    return replace(
        found, pss_bytes=parts.get("Pss"), uss_bytes=_private(parts), shared_anonymous_bytes=shared, notes=notes
    )


def with_limits(tree: TreeExplanation, limits: Sequence[Limit]) -> TreeExplanation:
    """The tree with the limit on its first process that leaves the least, and what the machine has."""
    machine = next((limit.nbytes for limit in limits if limit.kind == PHYSICAL), None)
    set_ = [limit for limit in limits if limit.kind not in {AVAILABLE, PHYSICAL}]
    least = tightest(set_, own_bytes=tree.top.rss_bytes)
    if least is None:
        return replace(tree, machine_bytes=machine)
    return replace(
        tree,
        limit_bytes=least.left_bytes(own_bytes=tree.top.rss_bytes),
        limit_source=f"{least.kind} ({least.detail})",
        machine_bytes=machine,
    )


def _counted(found: Explanation, timeout_s: float) -> Explanation:
    """What only the program itself can count, where it has an agent; a figure it cannot tell stays unknown."""
    if found.way == "pages":
        return found
    try:
        said: CountsAnswer = attach.ask(found.pid, {"ask": "counts"}, timeout_s=timeout_s)
    except AnalysisError:  # no agent any more, or no process
        return found
    return replace(
        found,
        open_figures=said.get("open_figures"),
        models_alive=said.get("models_alive"),
        free_heap_bytes=said.get("free_heap_bytes"),
        pauses_s=(*found.pauses_s, *said.get("pauses_s", ())),
    )


def explain_process(
    pid: int,
    *,
    names: bool = True,
    unsafe_attach: bool = False,
    trim: bool = False,
    timeout_s: float = 2.0,
    root: str = proc.PROC,
) -> Explanation:
    """One process, without its children."""
    process = living(pid, root=root)
    return _explained(process, names=names, unsafe_attach=unsafe_attach, trim=trim, timeout_s=timeout_s, root=root)


def _explained(
    process: Process, *, names: bool, unsafe_attach: bool, trim: bool, timeout_s: float, root: str
) -> Explanation:
    begin, notes = time.monotonic(), list[str]()
    way, said = _asked(process, notes, names=names, unsafe_attach=unsafe_attach, timeout_s=timeout_s, root=root)
    found = from_pages(process, said, notes, root=root)
    trimmed = _trimmed(process, notes) if trim else None
    if not is_same(process, root=root):
        notes.append("the process ended while it was looked at: what is shown may be a part")
    return replace(
        found, way=way, trimmed_bytes=trimmed, seconds=time.monotonic() - begin, notes=(*found.notes, *notes)
    )


def _asked(
    process: Process, notes: list[str], *, names: bool, unsafe_attach: bool, timeout_s: float, root: str
) -> tuple[str, WalkAnswer]:
    """The agent's walk, and how it was had."""
    if not names or root != proc.PROC:
        return "pages", {}
    if is_closed(process.pid, root=root):
        return "pages", {}  # whoever reads its pages says so
    if not is_python(process.pid, root=root):
        notes.append("not a Python program: memory by class only")
        return "pages", {}
    if process.is_stopped:
        notes.append("the process is stopped (SIGSTOP or a debugger) and cannot be asked: memory by class only")
        return "pages", {}
    ways = [("agent", None), ("remote-exec", attach.inject)]
    if unsafe_attach:
        ways.append(("debugger", attach.attach_debugger))
    told = []
    for way, enter in ways:
        try:
            if enter is not None:
                enter(process)
            elif attach.agent_socket(process) is None:
                continue
            answer: WalkAnswer = attach.ask(process, {"ask": "walk"}, timeout_s=timeout_s)
        except attach.NoAgent as error:
            if way == "agent" or (way == "debugger" and unsafe_attach) or hasattr(sys, "remote_exec"):
                told.append(str(error))
            if way == "agent":
                break  # it has an agent that does not answer: nobody else gets in now
            continue
        notes += answer.get("notes", [])
        return way, answer
    notes += told or [HOW_TO_NAME]
    return "pages", {}


def is_closed(pid: int, *, root: str = proc.PROC) -> bool:
    """Whether a process may not be looked into: another user's, or one that has shut itself off."""
    try:
        os.readlink(f"{root}/{pid}/exe")
    except PermissionError:
        return proc.read(f"{root}/{pid}/maps") is None
    except OSError:  # gone, or a thread of the kernel
        return False
    return False


def is_python(pid: int, *, root: str = proc.PROC) -> bool:
    """Whether a process runs a Python interpreter: by its program, or by the library it has loaded."""
    try:
        if "python" in os.path.basename(os.readlink(f"{root}/{pid}/exe")):
            return True
    except OSError:
        pass
    text = proc.read(f"{root}/{pid}/maps") or b""
    return b"libpython" in text or b"/python" in text


def from_pages(
    process: Process,
    said: WalkAnswer,
    notes: list[str],
    *,
    root: str = proc.PROC,
    methods: tuple[str, ...] = PAGE_METHODS,
) -> Explanation:
    """A process from its pages and what its agent said (nothing, without one)."""
    pid = process.pid
    pages = read_pages(pid, root=root, methods=methods)
    if pages is None or not pages.mappings:
        return _from_status(process, notes, root=root)
    stacks = stack_pointers(pid, root=root)
    limits = parse_rlimits((proc.read(f"{root}/{pid}/limits") or b"").decode("utf-8", "replace"))
    mapped = classify(pages.mappings, stack_bytes=limits.get("Max stack size", 8 * MIB), stack_pointers=stacks.values())
    pages = replace(pages, mappings=mapped)
    rows = said.get("rows", ())
    read = memory_reader(pid) if root == proc.PROC else no_memory
    holdings, portions, unexplained = attribute(segments(pages, rows, read), rows, pages.mappings)
    if pages.method == "smaps":
        notes.append("which pages are resident cannot be read here: shares of arrays within a mapping are estimated")
    told = said.get("progress")
    progress = Progress(**told) if told else None
    holdings = _to_the_end(_with_lines(holdings, pid, root), progress)
    rollup = proc.rollup(pid, root) or {}
    return Explanation(
        pid=pid,
        start=process.start,
        command=process.command,
        state=process.state,
        pages_from=pages.method,
        rss_bytes=pages.rss_bytes,
        pss_bytes=rollup.get("Pss"),
        uss_bytes=_private(rollup) if rollup else None,
        swap_bytes=rollup.get("Swap"),
        shared_anonymous_bytes=_shared_anonymous(rollup) if rollup else None,
        holdings=tuple(sorted(holdings, key=lambda each: -each.resident_bytes)),
        portions=portions,
        unexplained_bytes=unexplained,
        threads=threads(pid, pages, stacks, root=root),
        gpus=gpu_shares(pid, said.get("cuda", ())),
        progress=progress,
        phase=said.get("phase"),
        pauses_s=tuple(float(each) for each in said.get("pauses_s", ())),
        notes=pages.notes,
    )


def _with_lines(holdings: tuple[Holding, ...], pid: int, root: str) -> tuple[Holding, ...]:
    """Owners with the line of the program that adds to them: of large ones without an end, and of those with graphs."""
    wanted = [each for each in holdings if each.growth_bytes is None]
    wanted = [each for each in wanted if each.graphs or each.resident_bytes >= WORTH_LINES_BYTES]
    script = script_of(pid, root=root) if wanted else None
    if script is None:
        return holdings
    lines = {each.path: added_at(script, each.path, each.type) for each in wanted}
    return tuple(replace(each, added_at=lines.get(each.path, "")) for each in holdings)


def _to_the_end(holdings: tuple[Holding, ...], progress: Progress | None) -> tuple[Holding, ...]:
    """Owners with the rows that they will have when the run ends before they are full."""
    if progress is None or progress.total is None:
        return holdings
    return tuple(replace(each, run_rows=_rows_at_end(each, progress)) for each in holdings)


def _rows_at_end(holding: Holding, progress: Progress) -> int | None:
    """The rows used at the end of a run; None for all of them, and where that cannot be known.

    A replay buffer of SB3's takes a row for a step of all environments. Others are taken to go on at their pace so far; one
    that had another run's rows at the beginning seems faster than it is, and so to become full. A rollout buffer is
    full each time.
    """
    filled, capacity, left = holding.filled, holding.capacity, progress.rows_left
    if filled is None or not capacity or "rollout" in holding.type.lower():
        return None
    if "replay_buffer" in holding.path and left is not None:
        rows = filled + left
    elif filled and progress.step > 0 and progress.total is not None:
        rows = filled + math.ceil(max(0, progress.total - progress.step) * filled / progress.step)
    else:
        return None
    return rows if rows < capacity else None


def _from_status(process: Process, notes: list[str], *, root: str) -> Explanation:
    """The sums everybody may read, for a process of another user."""
    status = proc.status(process.pid, root)
    if status is None:
        if read_process(process.pid, root=root) is None:
            raise AnalysisError(f"process {process.pid} has ended")
        raise AnalysisError(f"process {process.pid} has no memory of its own (a thread of the kernel, or about to end)")
    notes.append(f"permission denied: {_refused(process.pid, root)}; sums are shown")
    portions = [(FILES, "RssFile"), (SHARED, "RssShmem")]
    rest = status["VmRSS"] - sum(status.get(key, 0) for _, key in portions)
    return Explanation(
        pid=process.pid,
        start=process.start,
        command=process.command,
        state=process.state,
        pages_from="status",
        rss_bytes=status["VmRSS"],
        swap_bytes=status.get("VmSwap"),
        portions=tuple(Portion(name=name, resident_bytes=status[key]) for name, key in portions if status.get(key)),
        unexplained_bytes=rest,
        threads=threads(process.pid, None, {}, root=root),
        gpus=gpu_shares(process.pid, ()),
    )


def _refused(pid: int, root: str) -> str:
    """Who may read the pages of a process, and what to do."""
    if os.geteuid() == 0:
        return (
            f"root may not read the pages of process {pid} here: a container needs the capability SYS_PTRACE "
            "(docker run --cap-add SYS_PTRACE)"
        )
    lines = (proc.read(f"{root}/{pid}/status") or b"").splitlines()
    uid = next((int(line.split()[1]) for line in lines if line.startswith(b"Uid:")), None)
    try:
        user = pwd.getpwuid(uid).pw_name if uid is not None else "its user"
    except KeyError:
        user = f"user {uid}"
    own = "" if uid == 0 else f"{user} and "
    run_as = "run" if uid == 0 else f"run rlmem as {user}, or"
    return (
        f'the pages of process {pid} may be read by {own}root only: {run_as} sudo "$(command -v rlmem)" explain {pid}'
    )


def elsewhere(pid: int) -> Explanation:
    """A process on a system without ``/proc`` (macOS): its sums, as psutil has them."""
    try:
        process = psutil.Process(pid)
        rss, command = process.memory_info().rss, " ".join(process.cmdline())
    except psutil.NoSuchProcess:
        raise AnalysisError(f"there is no process {pid}") from None
    except psutil.AccessDenied:
        raise AnalysisError(f"process {pid}: permission denied; run as its user") from None
    try:
        uss = int(process.memory_full_info().uss)
    except (psutil.Error, AttributeError):
        uss = None
    return Explanation(
        pid=pid,
        start=0,
        command=command,
        pages_from="status",
        rss_bytes=rss,
        uss_bytes=uss,
        unexplained_bytes=rss,
        notes=("pages and owners are read from Linux's /proc, which this system does not have: sums only",),
    )


def _private(parts: Mapping[str, int]) -> int:
    return parts.get("Private_Clean", 0) + parts.get("Private_Dirty", 0)


def _shared_anonymous(parts: Mapping[str, int]) -> int:
    """Anonymous pages that a fork shares: neither side has written to them since."""
    return max(0, parts.get("Anonymous", 0) - parts.get("Private_Dirty", 0) - parts.get("Private_Clean", 0))


def _trimmed(process: Process, notes: list[str]) -> int | None:
    try:
        said: TrimAnswer = attach.ask(process, {"ask": "trim"}, timeout_s=30.0)
    except attach.NoAgent as error:
        notes.append(f"malloc_trim was not tried: {error}")
        return None
    return max(0, int(said["before"]) - int(said["after"]))


def gpu_shares(pid: int, said: Sequence[CudaFacts]) -> tuple[GpuShare, ...]:
    """VRAM of a process: the driver's figure, and torch's own where an agent told them."""
    used = gpus.process_vram(pid)
    if not said:
        return tuple(GpuShare(gpu=name, used_bytes=nbytes) for name, nbytes in used.items())
    shares = []
    for each in said:
        name = next((name for name in used if name.startswith(each["gpu"]) or each["gpu"] in name), None)
        shares.append(
            GpuShare(
                gpu=each["gpu"],
                used_bytes=used.get(name) if name else None,
                allocated_bytes=each["allocated"],
                reserved_bytes=each["reserved"],
            )
        )
    return tuple(shares)
