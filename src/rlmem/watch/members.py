"""The processes that are watched: who they are and what each holds, from a few small files of each."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, replace

from rlmem.agent import proc
from rlmem.process.sampler import Pages, Reading, read_pages

_TICKS = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """One process. PSS and USS are from the last full reading and None where that is not allowed."""

    pid: int
    start: int
    parent: int
    state: str
    cpu_s: float
    threads: int
    pages: Pages
    command: str = ""
    role: str = "main"
    pss_bytes: int | None = None
    uss_bytes: int | None = None
    vram_bytes: int | None = None

    @property
    def rss_bytes(self) -> int:
        """Resident pages."""
        return self.pages.rss


def read_member(pid: int, root: str = proc.PROC) -> Member | None:
    """A process from ``stat`` and ``statm``; None when it is gone, a zombie or the kernel's own."""
    words, pages = proc.stat(pid, root), read_pages(pid, root)
    if words is None or pages is None or words[proc.STATE] in {b"Z", b"X", b"x"}:
        return None
    return Member(
        pid=pid,
        start=int(words[proc.START]),
        parent=int(words[proc.PARENT]),
        state=words[proc.STATE].decode("ascii", "replace"),
        cpu_s=(int(words[proc.USER_TICKS]) + int(words[proc.SYSTEM_TICKS])) / _TICKS,
        threads=int(words[proc.THREADS]),
        pages=pages,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class FullReading:
    """One walk over the pages of all: what they hold together, and each one's private bytes."""

    reading: Reading
    private: Mapping[int, int]

    def of(self, member: Member) -> Member:
        """A member with its share."""
        return replace(
            member, pss_bytes=self.reading.shares.get(member.pid), uss_bytes=self.private.get(member.pid)
        )  # fmt: skip


def read_fully(pids: list[int], root: str = proc.PROC) -> FullReading | None:
    """``smaps_rollup`` of every process (7 to 16 ms a GB); None when none may be read."""
    nbytes, found = proc.tree_parts(pids, root)
    if not found:
        return None
    pages, shares, private = {}, {}, {}
    for pid, parts in found.items():
        rss, anonymous = parts.get("Rss", 0), parts.get("Anonymous", 0)
        pages[pid] = Pages(anonymous=anonymous, shared=max(0, rss - anonymous))
        shares[pid] = parts.get("Pss", 0) + parts.get("SwapPss", 0)
        private[pid] = parts.get("Private_Clean", 0) + parts.get("Private_Dirty", 0)
    return FullReading(reading=Reading(nbytes=nbytes, pages=pages, shares=shares), private=private)
