"""The GPUs of this machine and what is free on them, without starting a CUDA context.

Importing torch to ask would itself take hundreds of MiB; NVML and sysfs cost nothing.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

from rlmem.process.files import parse_whole, read_text

ROOT = Path("/")


@dataclass(frozen=True, slots=True, kw_only=True)
class Gpu:
    """One GPU as its driver reports it; ``free_bytes`` is None where the driver does not say."""

    name: str
    total_bytes: int
    free_bytes: int | None


def read_gpus(*, root: Path = ROOT) -> tuple[Gpu, ...]:
    """NVIDIA GPUs through NVML, else AMD ones through sysfs, else none.

    All GPUs of the machine, in bus order: CUDA_VISIBLE_DEVICES hides some from a run, not from this list.
    AMD is read only where there is no NVIDIA card: beside one, a processor's own graphics would mislead.
    """
    if root == ROOT:
        try:
            nvml: Any = import_module("pynvml")
        except ImportError:  # the nvidia-ml-py package is optional
            nvml = None
        if nvml is not None and (found := nvml_gpus(nvml)):
            return found
    return amd_gpus(root)


def nvml_gpus(nvml: Any) -> tuple[Gpu, ...]:
    """The GPUs the ``pynvml`` module reports; none without a driver, less those that cannot be asked."""
    try:
        nvml.nvmlInit()
    except nvml.NVMLError:  # no driver, or a library that does not match it
        return ()
    gpus = []
    try:
        for index in range(nvml.nvmlDeviceGetCount()):
            try:
                handle = nvml.nvmlDeviceGetHandleByIndex(index)
                memory, name = nvml.nvmlDeviceGetMemoryInfo(handle), nvml.nvmlDeviceGetName(handle)
            except nvml.NVMLError:  # no permission, a lost device, or a GPU without memory of its own
                continue
            text = name.decode() if isinstance(name, bytes) else str(name)  # bytes in older releases
            gpus.append(Gpu(name=text, total_bytes=int(memory.total), free_bytes=int(memory.free)))
    except nvml.NVMLError:
        pass
    finally:
        nvml.nvmlShutdown()
    return tuple(gpus)


def amd_gpus(root: Path) -> tuple[Gpu, ...]:
    """AMD GPUs from ``/sys/class/drm``; a processor's own graphics shows only what firmware set aside."""
    drm = root / "sys/class/drm"
    # card0-DP-1 and the like are connectors of card0, not cards.
    cards = ((match, path) for path in drm.glob("card*") if (match := re.fullmatch(r"card(\d+)", path.name)))
    gpus = []
    for _, path in sorted(cards, key=lambda card: int(card[0][1])):
        device = path / "device"
        total = parse_whole(read_text(device / "mem_info_vram_total"))
        if not total:
            continue
        used = parse_whole(read_text(device / "mem_info_vram_used"))
        free = None if used is None else max(0, total - used)
        name = (read_text(device / "product_name") or "").strip() or f"AMD GPU ({path.name})"
        gpus.append(Gpu(name=name, total_bytes=total, free_bytes=free))
    return tuple(gpus)


def process_vram(pid: int, *, root: Path = ROOT) -> dict[str, int]:
    """VRAM a process takes on each GPU as its driver counts it: NVML, else what amdgpu says of its open files."""
    if root == ROOT:
        try:
            nvml: Any = import_module("pynvml")
        except ImportError:
            nvml = None
        if nvml is not None and (found := nvml_process(nvml, pid)):
            return found
    return amd_process(pid, root)


@cache
def _held_open(nvml: Any) -> bool:
    """Start NVML for as long as this process lives: it counts its users, and starting it anew takes tens of ms."""
    try:
        nvml.nvmlInit()
    except nvml.NVMLError:
        return False
    return True


def nvml_process(nvml: Any, pid: int) -> dict[str, int]:
    """Bytes by GPU; a container may hide whose they are, and then there is nothing."""
    if not _held_open(nvml):
        return {}
    found: dict[str, int] = {}
    try:
        for index in range(nvml.nvmlDeviceGetCount()):
            try:
                handle = nvml.nvmlDeviceGetHandleByIndex(index)
                name = nvml.nvmlDeviceGetName(handle)
                running = nvml.nvmlDeviceGetComputeRunningProcesses(handle)
            except nvml.NVMLError:
                continue
            text = name.decode() if isinstance(name, bytes) else str(name)
            used = sum(int(each.usedGpuMemory or 0) for each in running if each.pid == pid)
            if used:
                key = text if text not in found else f"{text} #{index}"
                found[key] = used
    except nvml.NVMLError:
        pass
    return found


def amd_process(pid: int, root: Path) -> dict[str, int]:
    """amdgpu's ``fdinfo``: a file opened twice shows the same client, which counts once."""
    clients: dict[tuple[str, str], int] = {}
    try:
        files = sorted((root / "proc" / str(pid) / "fdinfo").iterdir())
    except OSError:
        return {}
    for file in files:
        fields = {
            name.strip(): rest.strip()
            for name, _, rest in (line.partition(":") for line in (read_text(file) or "").splitlines())
        }
        if fields.get("drm-driver") != "amdgpu":
            continue
        words = fields.get("drm-memory-vram", "").split()
        size = parse_whole(words[0]) if words else None
        if size is not None:
            scale = {"KiB": 1 << 10, "MiB": 1 << 20}.get(words[1] if len(words) > 1 else "", 1)
            clients[fields.get("drm-pdev", "?"), fields.get("drm-client-id", file.name)] = size * scale
    found: dict[str, int] = {}
    for (device, _), nbytes in clients.items():
        found[f"AMD GPU ({device})"] = found.get(f"AMD GPU ({device})", 0) + nbytes
    return {name: nbytes for name, nbytes in found.items() if nbytes}
