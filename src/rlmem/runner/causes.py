"""What ended a run: a limit of its own, the kernel's killer, an exception for want of memory, a signal.

Each is told with its evidence (the limit, the counter, the size that was asked for), in which process it was, and what
to do. What no evidence is known for is said to be so, never guessed.
"""

from __future__ import annotations

import signal
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from rlmem.core.moments import Moment
from rlmem.core.signals import signal_name
from rlmem.process.limits import Limit, smallest
from rlmem.runner.deaths import Death, Exit
from rlmem.runner.guarding import Load
from rlmem.units import format_size

KILLED_EXITS = (-int(signal.SIGKILL), 128 + int(signal.SIGKILL))
#: A process that C++ aborted with so much of its limit in use is taken to have got no memory.
NEAR = 0.5
#: The kernel's limit of mappings is not reached to the last one: some calls need several.
MOST_MAPS = 0.99
_NEWLINE = "\n"
MAKE_SMALLER = (
    "make the run smaller, or raise that limit: rlmem plan says what a script needs, rlmem fit what to change"
)
FIND_LINE = "run it with python -X faulthandler: the line is printed where it ends so"
RAISE_LIMIT = (
    "raise that limit or leave it out (ulimit -v, resource.setrlimit): it counts reserved memory. "
    "--max-ram limits what is used"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Grown:
    """What one owner, or the rest, gained in the last part of a run."""

    name: str
    nbytes: int
    now_bytes: int
    items: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PostMortem:
    """The answer.

    ``kind`` is ``limit`` (rlmem stopped it), ``oom-killer``, ``memory-error``, ``cuda-oom``, ``killed`` (by SIGKILL, and
    nobody says why), or ``aborted`` (by its own C code, or by a memory access).
    """

    kind: str
    cause: str
    limit_bytes: int | None = None
    limit_name: str = ""
    #: What to do about this cause, beside changes that make the run smaller.
    todo: str = ""
    window_s: float = 0.0
    grown: tuple[Grown, ...] = ()
    #: Changes under which it would have fit.
    changes: tuple[str, ...] = ()
    #: What else makes it smaller, whether or not that is enough.
    advice: tuple[str, ...] = ()


def find_cause(
    *,
    returncode: int | None,
    stopped_for: Load | None,
    deaths: Sequence[Death],
    kills: Sequence[str],
    moments: Sequence[Moment],
    limits: Iterable[Limit] = (),
    exits: Sequence[Exit] = (),
    bounds: Mapping[int, Mapping[str, int]] | None = None,
) -> PostMortem | None:
    """What ended it, or a part of it; None for a run that did not die of memory, as far as can be told.

    ``exits`` are the processes that a signal ended, the command among them; ``bounds`` the resource limits of each process.
    """
    last = moments[-1] if moments else None
    limit, name = (last.limit_bytes, last.limit_name) if last else (None, "")
    if stopped_for is not None:
        cause = f"the limit was near: {stopped_for.sentence()}" if stopped_for.share < 1 else stopped_for.sentence()
        nbytes = stopped_for.limit if stopped_for.what == "RAM" else None
        return PostMortem(kind="limit", cause=cause, limit_bytes=nbytes, limit_name=stopped_for.name)
    if returncode in KILLED_EXITS and not any(each.is_main for each in exits):  # a shell says it so of its child
        exits = (Exit(pid=0, signal=signal.SIGKILL, is_main=True), *exits)
    killed = next((each for each in exits if each.signal == signal.SIGKILL and each.sender is None), None)
    # A worker that was killed may end its parent with an error of its own, so a kill in the command's own cgroups counts
    # with any error. The machine's counter counts everybody's.
    own = [where for where in kills if where != "machine"]
    if (own and (killed or (returncode or 0) > 0)) or (kills and killed):
        where = (own or kills)[0]
        found = smallest(each for each in limits if each.detail.startswith(where))
        nbytes = found.nbytes if found else limit
        place = "the machine" if where == "machine" else f"cgroup {where}"
        who = f"{_name(killed)} was " if killed and not killed.is_main else ""
        text = f"{who}ended by the kernel's OOM killer for {place}"
        text += f" (limit {format_size(nbytes)})" if nbytes else ""
        return PostMortem(kind="oom-killer", cause=text, limit_bytes=nbytes, limit_name=place, todo=MAKE_SMALLER)
    if memory := [death for death in deaths if death.memory]:
        # The first one that can be explained: those after it may be of its making, those before it did not end the run.
        first = min(memory, key=lambda death: (not (death.limits or _is_refused(death)), death.at))
        found_cause = _exception(first, limit, name, last, bounds or {})
        others = {(death.pid, death.thread) for death in memory} - {(first.pid, first.thread)}
        text = f"{found_cause.cause}; {len(others)} more ended for want of memory" if others else found_cause.cause
        return replace(found_cause, cause=text)
    # A worker that the program killed itself says something only of a run that failed.
    told = [each for each in exits if each.is_main or each.sender is None or returncode]
    told.sort(key=lambda each: (not each.is_main, each.sender is not None))
    return _signalled(told[0], limit, name, last) if told else None


def _exception(
    death: Death, limit: int | None, name: str, last: Moment | None, bounds: Mapping[int, Mapping[str, int]]
) -> PostMortem:
    wanted = death.wanted_bytes
    asked = f" when it asked for {format_size(wanted)}" if wanted else ""
    place = f" at {death.place}" if death.place else ""
    kind = death.type.rpartition(".")[2]
    if not {"MemoryError", "OutOfMemoryError"} & set(death.kinds):  # brought under another name, or by other words
        kind = f"no memory ({kind})"
    if death.memory == "cuda":
        nbytes = last.vram_limit_bytes if last else None
        text = f"CUDA was out of memory{asked}{place}{_in(death)}: {_short(death.message)}"
        return PostMortem(kind="cuda-oom", cause=text, limit_bytes=nbytes, limit_name="the GPU")
    pid, found = death.pid, death.limits
    if not found and (death.remote or not _is_refused(death)):  # brought from a process with a limit of its own
        others = {each: limits for each, limits in bounds.items() if limits and each != death.pid}
        pid, found = min(others.items(), key=lambda item: min(item[1].values()), default=(pid, {}))
    where = _in(death) if pid == death.pid else f" in worker {pid}"
    head = f"{kind}{asked}{place}{where}"
    if found:
        name, nbytes = min(found.items(), key=lambda item: item[1])
        text = f"{head}: {name} of {format_size(nbytes)}, which counts reserved memory too"
        return PostMortem(kind="memory-error", cause=text, limit_bytes=nbytes, limit_name=name, todo=RAISE_LIMIT)
    why, todo = _refusal(death)
    return PostMortem(kind="memory-error", cause=f"{head}: {why}", limit_bytes=limit, limit_name=name, todo=todo)


def _in(death: Death) -> str:
    if death.worker:
        return f" in worker {death.worker} ({death.pid})"
    if death.remote:
        return " in a worker process"
    return f" in thread {death.thread}" if death.thread not in {"", "MainThread"} else ""


def _is_refused(death: Death) -> bool:
    """Whether the kernel's own promises explain it."""
    return _refusal(death)[1] != ""


def _refusal(death: Death) -> tuple[str, str]:
    """Why the kernel refused memory to a process without a limit, and what to do; an unknown reason has nothing to do."""
    kernel, wanted = death.kernel, death.wanted_bytes
    if kernel.get("most_maps") and kernel.get("maps", 0) >= MOST_MAPS * kernel["most_maps"]:
        text = f"the process has {kernel['maps']:,} mappings, and the kernel allows {kernel['most_maps']:,}"
        return f"{text} (vm.max_map_count)", "map fewer and larger pieces, or raise vm.max_map_count"
    if kernel.get("overcommit") == 2 and (most := kernel.get("commit_limit")):
        text = f"the kernel promises {format_size(most)} to all processes together"
        text += f", and {format_size(kernel['committed'])} were promised" if kernel.get("committed") else ""
        return f"{text} (vm.overcommit_memory=2)", "reserve less, add swap, or raise vm.overcommit_ratio"
    most = kernel.get("ram", 0) + kernel.get("swap", 0)
    if wanted and most and wanted > most and kernel.get("overcommit") != 1:
        text = f"the kernel promises no more at once than the machine has, {format_size(most)} of RAM and swap"
        return f"{text} (overcommit)", "ask for less at once; rlmem plan says what the script needs, and what would fit"
    if wanted and most:
        return "no limit is known that refused it: the process has none, and the machine has more", ""
    return "the message does not say how much it asked for, and the process has no resource limit", ""


def _signalled(found: Exit, limit: int | None, name: str, last: Moment | None) -> PostMortem:
    """A process that a signal ended, and no counter says that it was for want of memory."""
    who = f"{_name(found)} was " if not found.is_main else ""
    text = f"{who}killed by {signal_name(found.signal)}"
    near = f"; the tree held {format_size(last.tree_bytes)}" if last else ""
    near += f" of {format_size(limit)} ({name})" if last and limit else ""
    if found.sender is not None:
        text += f", sent by process {found.sender} of the run itself"
        return PostMortem(kind="killed", cause=text, limit_bytes=limit, limit_name=name)
    if found.signal == signal.SIGKILL:
        text += f"{near}; no kernel counter of this cgroup says that it was for want of memory"
        todo = "ask who sent it: a batch system, earlyoom or systemd-oomd (journalctl), or a kill command"
        return PostMortem(kind="killed", cause=text, limit_bytes=limit, limit_name=name, todo=todo)
    if found.signal == signal.SIGBUS:
        text += f"{near}; a page of a mapped file could not be had: /dev/shm or the disk may be full"
        todo = "look at df -h /dev/shm; give a container more (docker run --shm-size)"
        return PostMortem(kind="aborted", cause=text, limit_bytes=limit, limit_name=name, todo=todo)
    if found.signal != signal.SIGABRT:
        return PostMortem(kind="aborted", cause=f"{text}{near}", limit_bytes=limit, limit_name=name, todo=FIND_LINE)
    why = "C++ ends a program so when it gets no memory (std::bad_alloc)"
    if found.limits:
        rlimit, nbytes = min(found.limits.items(), key=lambda item: item[1])
        space = found.space_bytes or 0
        used = f"{rlimit} is {format_size(nbytes)}, and {format_size(space)} were reserved when last looked at"
        if space >= NEAR * nbytes:
            cause = f"{text}: {why}; {used}"
            return PostMortem(
                kind="memory-error", cause=cause, limit_bytes=nbytes, limit_name=rlimit, todo=RAISE_LIMIT
            )  # fmt: skip
        near = f"; {used}"
    text += f"{near}. {why}, and on other errors: its last words above say which"
    return PostMortem(kind="aborted", cause=text, limit_bytes=limit, limit_name=name, todo=FIND_LINE)


def _name(found: Exit) -> str:
    """``worker 123 (python train.py), which held 1.20 GiB,``."""
    held = f", which held {format_size(found.held_bytes)}," if found.held_bytes else ""
    return f"worker {found.pid}{held}"


def _short(message: str) -> str:
    """The first line of a message, and of a long one the sentences that are whole."""
    line = message.partition(_NEWLINE)[0]
    return line if len(line) <= 200 else line[:200].rpartition(". ")[0] or line[:200]
