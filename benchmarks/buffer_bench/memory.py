"""What a process holds, without the recording it reads."""

from __future__ import annotations

import ctypes
import gc
from pathlib import Path


def settle() -> None:
    """Give back what is free, so that only what is held is counted."""
    gc.collect()
    try:
        ctypes.CDLL("libc.so.6").malloc_trim(0)
    except (OSError, AttributeError):  # not glibc
        return


def resident(source: Path | None = None) -> int:
    """Bytes of RAM this process holds for its own: anonymous pages, and shared mappings other than the recording.

    Shared mappings are how a store keeps data in a file or in shared memory. Pages of libraries are left out: they come
    and go with what ran last.
    """
    total, shared = 0, False
    # Line by line: the whole text would be a megabyte of its own in what it tells.
    with Path("/proc/self/smaps").open(encoding="utf-8") as lines:
        for line in lines:
            name, _, rest = line.partition(" ")
            if not name.endswith(":"):  # a mapping starts: address, permissions, offset, device, inode, path
                parts = line.split(maxsplit=5)
                path = parts[5].strip() if len(parts) > 5 else ""
                shared = "s" in parts[1] and not (source and path.startswith(f"{source}/"))
            elif name == ("Rss:" if shared else "Anonymous:"):
                total += int(rest.split()[0]) * 1024
    return total


def restart_peak() -> bool:
    """Start the kernel's record of the peak anew."""
    try:
        Path("/proc/self/clear_refs").write_text("5", encoding="utf-8")
    except OSError:
        return False
    return True


def status(name: str) -> int:
    """A line of ``/proc/self/status`` in bytes: ``VmHWM`` is the peak, ``VmRSS`` what is resident."""
    for line in Path("/proc/self/status").read_text(encoding="utf-8").splitlines():
        if line.startswith(f"{name}:"):
            return int(line.split()[1]) * 1024
    raise LookupError(f"/proc/self/status has no {name}")
