"""There is less shared memory than the run wants.

``AsyncVectorEnv``, TorchRL's ``ParallelEnv``, ``DataLoader`` and Ray hand arrays over in ``/dev/shm``. A container of Docker has 64 MB
of it unless told otherwise, and a process that writes more ends with ``Bus error``: no exception, no traceback. Ray falls back to
``/tmp``, which is a disk.

In a plan for this machine the observations of all environments are compared with the size of ``/dev/shm``. In a running program the
rule looks at the file system of the process itself, its container's, and fires when little is left. In a script it fires (for
information) where the observations of all workers are known to exceed 64 MB.

Example::

    envs = gymnasium.vector.AsyncVectorEnv([make_env] * 256)      # observations of 480 × 640 × 3: 225 MiB

Use instead: ``docker run --shm-size=2g``, or ``shared_memory=False``.

Fix: none.

Reference: ray-project/ray#13619, #14535.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from rlmem.core.findings import Finding
from rlmem.core.holdings import TreeExplanation
from rlmem.core.spaces import nbytes
from rlmem.core.subject import Subject
from rlmem.rules.base import Rule
from rlmem.rules.observed import of_environment
from rlmem.rules.workers import with_workers
from rlmem.scripts import Script
from rlmem.units import MIB, format_size

DOCKER_BYTES = 64 * MIB
#: Less than this share left is worth a warning.
LOW_SHARE = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedMemory:
    """The size of a ``/dev/shm`` and what is free of it."""

    size_bytes: int
    free_bytes: int


def read_shared_memory(pid: int | None = None) -> SharedMemory | None:
    """The ``/dev/shm`` of a process, in its own container; of this one without a pid; ``None`` where it cannot be read."""
    try:
        found = os.statvfs(f"/proc/{pid}/root/dev/shm" if pid is not None else "/dev/shm")
    except OSError:
        return None
    return SharedMemory(size_bytes=found.f_frsize * found.f_blocks, free_bytes=found.f_frsize * found.f_bavail)


def check(
    rule: Rule, subject: Subject, read: Callable[[], SharedMemory | None] = read_shared_memory
) -> Iterator[Finding]:
    """Fires when the run hands observations over in shared memory and this machine has too little."""
    spec = subject.spec
    if not spec.get("env.shared_memory", False) or subject.plan.budget.name != "this machine":
        return
    wanted = spec.count("n_envs") * spec.count("agents") * nbytes(spec.observation)
    shared = read()
    if shared is not None and wanted > shared.size_bytes:
        yield rule.finding(
            f"observations take {format_size(wanted)} of shared memory and /dev/shm has {format_size(shared.size_bytes)}",
            location="env.shared_memory",
            remedy="docker run --shm-size=…, or shared_memory=False",
            changes={"env.shared_memory": False},
        )


def check_live(
    rule: Rule, found: TreeExplanation, read: Callable[[int], SharedMemory | None] = read_shared_memory
) -> Iterator[Finding]:
    """Fires when the ``/dev/shm`` of the program is nearly full, or is Docker's 64 MB beside workers that use it."""
    shared = read(found.top.pid)
    if shared is None or not shared.size_bytes:
        return
    left = format_size(shared.free_bytes)
    if shared.free_bytes * LOW_SHARE < shared.size_bytes:
        yield rule.finding(
            f"{left} of shared memory are left of {format_size(shared.size_bytes)}; the next one to write gets a bus error",
            location="/dev/shm",
            remedy="docker run --shm-size=…, or fewer workers",
        )
    elif shared.size_bytes <= DOCKER_BYTES and shared.free_bytes < shared.size_bytes:
        yield rule.finding(
            f"/dev/shm has {format_size(shared.size_bytes)}, a container's default, and {left} are left",
            severity="info",
            location="/dev/shm",
            remedy="docker run --shm-size=… before more workers are started",
        )


def check_script(rule: Rule, script: Script) -> Iterator[Finding]:
    """Shared observations that are known to be larger than a container's default."""
    for environment in with_workers(script):
        if environment.kind not in ("async", "parallel") or environment.n_envs is None:
            continue
        given = script.argument(environment.call, "shared_memory")
        each = of_environment(script, environment).nbytes
        if (given is not None and script.value(given) is False) or each is None:
            continue
        if each * environment.n_envs > DOCKER_BYTES:
            yield rule.finding(
                f"{environment.n_envs} environments share {format_size(each * environment.n_envs)} of observations; "
                "a container has 64 MB unless told otherwise",
                severity="info",
                place=script.place(environment.call),
                costs_bytes=each * environment.n_envs,
                remedy="docker run --shm-size=…, or shared_memory=False",
            )
