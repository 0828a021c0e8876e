"""What ended a run: a limit of its own, the kernel's killer, an exception for want of memory, a signal."""

from __future__ import annotations

import signal
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from rlmem.measure.limits import Limit, smallest
from rlmem.moments import Moment
from rlmem.runner.deaths import Death
from rlmem.runner.guarding import Load
from rlmem.units import format_size

KILLED_EXITS = (-int(signal.SIGKILL), 128 + int(signal.SIGKILL))
_NEWLINE = "\n"


@dataclass(frozen=True, slots=True, kw_only=True)
class Grown:
    """What one owner, or the rest, gained in the last part of a run."""

    name: str
    nbytes: int
    now_bytes: int
    items: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PostMortem:
    """The answer. ``kind`` is ``limit`` (rlmem stopped it), ``oom-killer``, ``memory-error``, ``cuda-oom`` or ``killed``."""

    kind: str
    cause: str
    limit_bytes: int | None = None
    limit_name: str = ""
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
) -> PostMortem | None:
    """Which limit it was; None for a run that did not die of memory, as far as can be told."""
    last = moments[-1] if moments else None
    limit, name = (last.limit_bytes, last.limit_name) if last else (None, "")
    if stopped_for is not None:
        cause = f"the limit was near: {stopped_for.sentence()}" if stopped_for.share < 1 else stopped_for.sentence()
        nbytes = stopped_for.limit if stopped_for.what == "RAM" else None
        return PostMortem(kind="limit", cause=cause, limit_bytes=nbytes, limit_name=stopped_for.name)
    memory = [death for death in deaths if death.memory]
    # A worker that was killed may end its parent with an error of its own, so a kill in the command's own cgroups counts
    # with any error. The machine's counter counts everybody's.
    own = [where for where in kills if where != "machine"]
    was_killed = returncode in KILLED_EXITS
    if (own and returncode and (was_killed or returncode > 0)) or (kills and was_killed):
        where = (own or kills)[0]
        found = smallest(each for each in limits if each.detail.startswith(where))
        nbytes = found.nbytes if found else limit
        place = "the machine" if where == "machine" else f"cgroup {where}"
        text = f"ended by the kernel's OOM killer for {place}" + (f" (limit {format_size(nbytes)})" if nbytes else "")
        return PostMortem(kind="oom-killer", cause=text, limit_bytes=nbytes, limit_name=place)
    if memory and returncode:
        return _exception(memory[0], limit, name, last)
    if returncode in KILLED_EXITS:
        near = f"; the tree held {format_size(last.tree_bytes)}" if last else ""
        of = f" of {format_size(limit)} ({name})" if last and limit else ""
        text = f"killed by SIGKILL{near}{of}; no kernel counter of this cgroup says that it was for want of memory"
        return PostMortem(kind="killed", cause=text, limit_bytes=limit, limit_name=name)
    return None


def _exception(death: Death, limit: int | None, name: str, last: Moment | None) -> PostMortem:
    wanted = death.wanted_bytes
    asked = f" when it asked for {format_size(wanted)}" if wanted else ""
    place = f" at {death.where}" if death.where else ""
    who = f" in worker {death.worker}" if death.worker else ""
    if death.memory == "cuda":
        nbytes = last.vram_limit_bytes if last else None
        text = f"CUDA was out of memory{asked}{place}{who}: {_short(death.message)}"
        return PostMortem(kind="cuda-oom", cause=text, limit_bytes=nbytes, limit_name="the GPU")
    if death.limits:
        name, nbytes = min(death.limits.items(), key=lambda item: item[1])
        text = f"{name} of {format_size(nbytes)}, which counts reserved memory too"
    else:
        text, nbytes = "the kernel would not promise that much (overcommit)", limit
    kind = death.type.rpartition(".")[2]
    return PostMortem(
        kind="memory-error", cause=f"{kind}{asked}{place}{who}: {text}", limit_bytes=nbytes, limit_name=name
    )


def _short(message: str) -> str:
    """The first line of a message, and of a long one the sentences that are whole."""
    line = message.partition(_NEWLINE)[0]
    return line if len(line) <= 200 else line[:200].rpartition(". ")[0] or line[:200]
