"""Ray's exceptions told apart: how a point ended, in one line, and whether another try can help."""

from __future__ import annotations

import re
from dataclasses import dataclass

#: ``… was 31.00GB / 32.00GB (0.97), …``, as Ray's memory monitor writes it; 2.60 has ``2.86GB used / 23.54GB limit``.
_USE = re.compile(r"(\d[\d.]*\s*[KMGT]?i?B)(?: used)?\s*/\s*(\d[\d.]*\s*[KMGT]?i?B)")
_MOST_LETTERS = 300


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """An end that was not the work's own; ``status`` is one of a point's."""

    status: str
    note: str
    #: Whether it may well go better elsewhere, or later.
    again: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class _Row:
    """Classes of ``ray.exceptions`` by name (older versions lack some), and what they mean; ``told`` adds Ray's own words."""

    names: frozenset[str]
    status: str
    text: str
    again: bool = False
    told: bool = False


def _row(names: str, status: str, text: str, *, again: bool = False, told: bool = False) -> _Row:
    return _Row(names=frozenset(names.split()), status=status, text=text, again=again, told=told)


#: The first row that has one of an exception's classes decides.
_ROWS = (
    # The monitor may end several workers at once: it need not have been this one that took too much.
    _row("OutOfMemoryError", "oom", "killed by Ray's memory monitor{where}, not by a crash{use}", again=True),
    _row("TaskCancelledError", "interrupted", "cancelled{where}"),
    _row("NodeDiedError LocalRayletDiedError", "killed", "its node died{where}", again=True),
    _row("WorkerCrashedError", "killed", "its worker was killed, or crashed{where}", again=True),
    _row("ActorUnavailableError RpcError", "killed", "its worker could not be reached{where}", again=True),
    _row("RayActorError", "killed", "its actor died{where}", again=True),
    _row("OutOfDiskError", "failed", "the disk that Ray spills objects to is full{where}", told=True),
    _row("ObjectStoreFullError", "failed", "Ray's object store is full{where}", again=True, told=True),
    _row("ObjectLostError", "killed", "its answer was lost with the node that had it{where}", again=True),
    _row("GetTimeoutError", "timeout", "no answer in time{where}"),
    _row("RuntimeEnvSetupError", "failed", "Ray could not set up the runtime environment{where}", told=True),
    _row("TaskUnschedulableError ActorUnschedulableError", "failed", "no node can run it", told=True),
    _row("RayTaskError", "failed", "failed{where}", told=True),
)
_OTHER = _row("", "failed", "Ray gave up{where}", told=True)


def fault_of(error: BaseException, node: str | None = None) -> Fault:
    """What became of a task that raised this."""
    where = f" on {node}" if node else ""
    said = [line.strip() for line in str(error).splitlines() if line.strip()]
    if any("No module named 'rlmem" in line for line in said):
        return Fault(status="failed", note=f"rlmem is not installed{where}; install the same version on every node")
    names = {kind.__name__ for kind in type(error).__mro__}
    row = next((row for row in _ROWS if row.names & names), _OTHER)
    note = row.text.format(where=where, use=_use(" ".join(said)))
    if row.told:
        # Of a traceback, the last line says what it was.
        last = said[-1] if "RayTaskError" in names and said else " ".join(said) or type(error).__name__
        note = f"{note}: {last[:_MOST_LETTERS]}"
    return Fault(status=row.status, note=note, again=row.again)


def _use(text: str) -> str:
    found = _USE.search(text)
    return f": {found[1]} of {found[2]} were in use there" if found else ": the node ran low on memory"
