"""A machine that is the same everywhere: what rlmem reads of the one it runs on, in golden outputs.

The files of ``/proc`` and ``/sys`` are those of a container with 24 GiB of a machine with 64 GiB; there is one GPU where a case asks for it.
"""

from __future__ import annotations

import contextlib
import hashlib
import itertools
import os
import platform
import socket
import sys
import uuid
from collections.abc import Callable, Iterator
from datetime import datetime, timezone
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest import mock

GIB = 1 << 30
CORES = 16
GPU = ("NVIDIA GeForce RTX 4090", 24 * GIB - 12 * 1024 * 1024, 20 * GIB)
#: The time at which everything is written.
NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=timezone.utc)

_FILES = {
    "/proc/meminfo": f"MemTotal: {64 << 20} kB\nMemAvailable: {40 << 20} kB\n",
    "/proc/self/cgroup": "0::/\n",
    "/proc/self/mountinfo": "30 24 0:27 / /sys/fs/cgroup ro,nosuid - cgroup2 cgroup rw\n",
    "/proc/self/limits": f"{'Max address space':25} unlimited            unlimited            bytes\n",
    "/sys/fs/cgroup/memory.max": f"{24 * GIB}\n",
    "/sys/fs/cgroup/memory.high": "max\n",
    "/sys/fs/cgroup/memory.current": f"{3 * GIB}\n",
    "/sys/fs/cgroup/memory.stat": f"active_file {GIB // 2}\ninactive_file {GIB // 2}\n",
    "/sys/fs/cgroup/cpu.max": "max 100000\n",
}
_read_text = Path.read_text


def _read(path: Path, *args: Any, **options: Any) -> str:
    """The text of a file; of the system's own folders those of the machine above."""
    name = os.fspath(path)
    if name.startswith(("/proc/", "/sys/")):
        if name not in _FILES:
            raise FileNotFoundError(2, "No such file or directory", name)
        return _FILES[name]
    return _read_text(path, *args, **options)


class _Clock(datetime):
    """A clock that stands."""

    @classmethod
    def now(cls, tz: Any = None) -> _Clock:
        return cls.fromtimestamp(NOW.timestamp(), tz)


def _numbered() -> Callable[[], uuid.UUID]:
    """Names of stored runs that are the same each time: c4ca4238, c81e728d, eccbc87e."""
    numbers = itertools.count(1)
    return lambda: uuid.UUID(hashlib.md5(str(next(numbers)).encode(), usedforsecurity=False).hexdigest())


def _nvml(name: str, total: int, free: int) -> Any:
    """What ``pynvml`` says of one GPU."""
    return SimpleNamespace(
        NVMLError=OSError,
        nvmlInit=lambda: None,
        nvmlShutdown=lambda: None,
        nvmlDeviceGetCount=lambda: 1,
        nvmlDeviceGetHandleByIndex=lambda index: index,
        nvmlDeviceGetName=lambda handle: name,
        nvmlDeviceGetMemoryInfo=lambda handle: SimpleNamespace(total=total, free=free),
    )


@contextlib.contextmanager
def _module(name: str, module: Any) -> Iterator[None]:
    """A module in place of another one; ``None`` for one that is not there."""
    absent = object()
    before = sys.modules.get(name, absent)
    sys.modules[name] = module
    try:
        yield
    finally:
        if before is absent:
            del sys.modules[name]
        else:
            sys.modules[name] = before


@contextlib.contextmanager
def steady_machine(*, gpu: bool = False) -> Iterator[None]:
    """Memory, cores, GPUs, names and time of the machine above, for as long as the block lasts."""
    with contextlib.ExitStack() as stack:
        stack.enter_context(mock.patch.object(Path, "read_text", _read))
        stack.enter_context(mock.patch.object(os, "sched_getaffinity", lambda pid: set(range(CORES)), create=True))
        stack.enter_context(mock.patch.object(os, "cpu_count", lambda: CORES))
        stack.enter_context(mock.patch.object(socket, "gethostname", lambda: "trainer-7"))
        for name, value in (
            ("system", "Linux"),
            ("release", "6.1.0"),
            ("machine", "x86_64"),
            ("python_version", "3.12.0"),
        ):
            stack.enter_context(mock.patch.object(platform, name, lambda value=value: value))
        stack.enter_context(mock.patch("rlmem.runner.store.datetime", _Clock))
        stack.enter_context(mock.patch.object(uuid, "uuid4", _numbered()))
        stack.enter_context(_module("pynvml", _nvml(*GPU) if gpu else None))
        yield
