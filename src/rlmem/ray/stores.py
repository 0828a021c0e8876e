"""A node's object store, read from outside: its files through the raylet, and each process's part of their pages.

Ray keeps objects in one file in ``/dev/shm``, or in a folder where that is too small; objects that find no place in it
while it is full have files of their own in the session's folder (checked with Ray 2.60). All are deleted as soon as they
are open, so they have no names but the raylet's.
"""

from __future__ import annotations

import os
import re
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from rlmem.agent import proc

_FILE = re.compile(r"/plasma\w{6}\b")
_MEMORY = "/dev/shm/"


@dataclass(frozen=True, slots=True, kw_only=True)
class Store:
    """The files of an object store. ``resident_bytes`` are those in shared memory; of files on a disk only processes know."""

    size_bytes: int | None = None
    resident_bytes: int | None = None
    has_disk: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreShare:
    """A process's part of the store's pages, each page in equal parts for those who have it; ``disk_bytes`` are of files.

    ``only_bytes`` are pages that no other process has: they would stay in the store without it.
    """

    nbytes: int = 0
    disk_bytes: int = 0
    only_bytes: int = 0


def is_store(file: str) -> bool:
    """Whether a mapped file is an object store's.

    >>> is_store("/dev/shm/plasmaXa3kPq (deleted)"), is_store("/home/me/plasma.npy")
    (True, False)
    """
    return bool(_FILE.search(file))


def find_store(raylet: int, *, root: str = proc.PROC) -> Store:
    """The store of a raylet; nothing is known of another user's."""
    try:
        files = os.listdir(f"{root}/{raylet}/fd")
    except OSError:
        return Store()
    found: dict[tuple[int, int], tuple[bool, int, int]] = {}
    for name in files:
        path = f"{root}/{raylet}/fd/{name}"
        with suppress(OSError):
            link = os.readlink(path)
            if is_store(link):
                seen = os.stat(path)
                found[seen.st_dev, seen.st_ino] = (link.startswith(_MEMORY), seen.st_size, seen.st_blocks * 512)
    if not found:
        return Store()
    in_memory = [(size, blocks) for is_memory, size, blocks in found.values() if is_memory]
    # Blocks of a file on a disk are not memory: how much of it is cached is told by those who have it mapped.
    return Store(
        size_bytes=sum(size for size, _ in in_memory) or max(size for _, size, _ in found.values()),
        resident_bytes=sum(blocks for _, blocks in in_memory) if in_memory else None,
        has_disk=len(in_memory) < len(found),
    )


def read_share(pid: int, rollup: dict[str, int], store: Store, *, root: str = proc.PROC) -> StoreShare | None:
    """What of the store a process has in memory; None where its pages may not be read."""
    if not rollup:
        return None
    if store.resident_bytes is not None and not store.has_disk and rollup.get("Pss_Shmem") == 0:
        return StoreShare()  # nothing of any shared memory: no need to go through its mappings
    text = proc.read(f"{root}/{pid}/smaps")
    return None if text is None else store_share(text)


def store_share(smaps: bytes) -> StoreShare:
    """PSS of the store's mappings in the text of ``smaps``; most mappings are of something else."""
    total = on_disk = only = 0
    inside = is_disk = False
    for line in smaps.splitlines():
        if line[:1].isdigit() or line[:1] in b"abcdef":  # a mapping begins; its figures begin with capitals
            inside = b"/plasma" in line and is_store(line.decode("utf-8", "replace"))
            is_disk = inside and _MEMORY.encode() not in line
        elif inside and line.startswith(b"Pss:"):
            nbytes = int(line.split()[1]) * 1024
            total += nbytes
            on_disk += nbytes if is_disk else 0
        elif inside and line.startswith((b"Private_Clean:", b"Private_Dirty:")):
            only += int(line.split()[1]) * 1024
    return StoreShare(nbytes=total, disk_bytes=on_disk, only_bytes=only)


def spilled_bytes(session: str, node_id: str) -> int | None:
    """Objects on the disk where Ray puts them unless told otherwise; None where nothing was ever put there."""
    total = 0
    try:
        with os.scandir(Path(session) / f"ray_spilled_objects_{node_id}") as entries:
            for entry in entries:
                with suppress(OSError):
                    total += entry.stat().st_size
    except OSError:
        return None
    return total
