"""``rlmem.snapshot()``: what this very process holds, from inside; two of them can be subtracted."""

from __future__ import annotations

import os
import threading
from dataclasses import dataclass

from rlmem.agent import walk
from rlmem.core.holdings import Explanation
from rlmem.process.explain import from_pages
from rlmem.process.processes import living
from rlmem.units import format_size


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """One owner or class between two snapshots."""

    path: str
    nbytes: int
    items: int | None = None


@dataclass(frozen=True, slots=True)
class Snapshot:
    """What was held at one moment. ``print(snapshot)`` lists it; ``later - earlier`` says what changed."""

    found: Explanation

    @property
    def rss_bytes(self) -> int:
        """Resident memory; named owners, classes and the unexplained rest add up to it."""
        return self.found.rss_bytes

    def __sub__(self, earlier: Snapshot) -> tuple[Change, ...]:
        """What grew or shrank since, most first."""
        now, then = self._parts(), earlier._parts()
        changes = [
            Change(
                path=path,
                nbytes=now.get(path, (0, None))[0] - then.get(path, (0, None))[0],
                items=_difference(now.get(path, (0, None))[1], then.get(path, (0, None))[1]),
            )
            for path in {**now, **then}
        ]
        return tuple(sorted((each for each in changes if each.nbytes), key=lambda each: -abs(each.nbytes)))

    def _parts(self) -> dict[str, tuple[int, int | None]]:
        parts: dict[str, tuple[int, int | None]] = {
            each.path: (each.resident_bytes, each.filled) for each in self.found.holdings if each.device == "ram"
        }
        parts |= {f"({each.name})": (each.resident_bytes, None) for each in self.found.portions}
        return parts | {"unexplained": (self.found.unexplained_bytes, None)}

    def __str__(self) -> str:
        lines = [f"{format_size(self.rss_bytes)} resident in process {self.found.pid}"]
        rows = sorted(self._parts().items(), key=lambda part: -part[1][0])[:20]
        lines += [f"  {format_size(nbytes):>10}  {path}" for path, (nbytes, _) in rows]
        return "\n".join(lines)


def _difference(now: int | None, then: int | None) -> int | None:
    return None if now is None or then is None else now - then


def snapshot() -> Snapshot:
    """What this process holds now, by owner, by class, and the rest."""
    process = living(os.getpid())
    said = walk.walked(5.0, careful=threading.current_thread() is not threading.main_thread())
    notes: list[str] = list(said["notes"])
    return Snapshot(from_pages(process, said, notes))
