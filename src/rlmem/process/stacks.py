"""The threads of a process and their stacks."""

from __future__ import annotations

import os
from collections.abc import Mapping

from rlmem.agent import proc
from rlmem.core.holdings import ThreadStack
from rlmem.core.memory_classes import STACKS
from rlmem.process.maps import Mapping as Mapped
from rlmem.process.pagemap import Pages


def stack_pointers(pid: int, *, root: str = proc.PROC) -> dict[int, int]:
    """Where each sleeping thread's stack is; threads that run or may not be asked are left out."""
    found = {}
    for tid in _tasks(pid, root):
        words = (proc.read(f"{root}/{pid}/task/{tid}/syscall") or b"").split()
        if len(words) >= 3 and words[-2].startswith(b"0x"):
            found[tid] = int(words[-2], 16)
    return found


def _tasks(pid: int, root: str) -> list[int]:
    try:
        return sorted(int(name) for name in os.listdir(f"{root}/{pid}/task") if name.isdigit())
    except OSError:
        return []


def threads(pid: int, pages: Pages | None, stacks: Mapping[int, int], *, root: str) -> tuple[ThreadStack, ...]:
    """Every thread with its name and, where it could be found, its stack."""
    places: list[tuple[Mapped, int]] = []
    if pages is not None:
        every = zip(pages.mappings, pages.resident, strict=True)
        places = [(mapping, resident) for mapping, resident in every if mapping.kind == STACKS]
    found = []
    for tid in _tasks(pid, root):
        name = (proc.read(f"{root}/{pid}/task/{tid}/comm") or b"").decode("utf-8", "replace").strip()
        pointer = stacks.get(tid)
        place = next((each for each in places if pointer and each[0].start <= pointer < each[0].end), None)
        if place is None and tid == pid:
            place = next((each for each in places if each[0].path == "[stack]"), None)
        found.append(
            ThreadStack(
                tid=tid,
                name=name,
                reserved_bytes=place[0].nbytes if place else None,
                resident_bytes=place[1] if place else None,
            )
        )
    return tuple(found)
