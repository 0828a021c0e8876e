"""The device a swarm lives on: whether it is there, what is free on it, a cap on it, and what was taken at most."""

from __future__ import annotations

import re
import sys
from types import ModuleType
from typing import Any

from rlmem.agent import proc
from rlmem.errors import AnalysisError, UsageError
from rlmem.units import format_size

NAMES = re.compile(r"cpu|cuda(:\d+)?", re.ASCII)


def check_name(name: str) -> str:
    """A name we know, whether or not the device is there; no torch is needed to say so."""
    if not NAMES.fullmatch(name):
        raise UsageError(f"--device {name!r} is not one of cpu, cuda, cuda:0, cuda:1 …")
    return name


def need_torch() -> ModuleType:
    """Torch, or how to get it."""
    try:
        import torch
    except ImportError as error:
        broken = "" if getattr(error, "name", None) == "torch" else f" ({error})"
        raise AnalysisError(
            f"training needs torch, which {sys.executable} cannot import{broken}; install it with "
            f"'{sys.executable} -m pip install torch'"
        ) from None
    module: ModuleType = torch
    return module


def torch_facts() -> tuple[int, str]:
    """Return how many threads torch computes with, and its version."""
    torch = need_torch()
    return torch.get_num_threads(), str(torch.__version__)


def find_device(name: str) -> Any:
    """The device as torch names it, or an error that says which there are."""
    torch = need_torch()
    if name == "cpu":
        return torch.device("cpu")
    count = torch.cuda.device_count() if torch.cuda.is_available() else 0
    if not count:
        why = "no GPU can be used here" if torch.backends.cuda.is_built() else f"torch {torch.__version__} has no CUDA"
        raise UsageError(f"--device {name}: {why}; there is: cpu")
    index = int(name.partition(":")[2] or torch.cuda.current_device())
    if index >= count:
        there = ", ".join(f"cuda:{number} ({torch.cuda.get_device_name(number)})" for number in range(count))
        raise UsageError(f"--device {name}: no such GPU; there are: cpu, {there}")
    torch.cuda.set_device(index)  # kernels that are not torch's own run on the current device
    return torch.device("cuda", index)


def free_vram(device: Any) -> tuple[int, int]:
    """Bytes free and in all, as the driver says."""
    torch = need_torch()
    free, total = torch.cuda.mem_get_info(device)
    return int(free), int(total)


def cap_vram(device: Any, nbytes: int) -> None:
    """No more than this for torch's allocator on the GPU: what does not fit fails here as it would on a smaller card."""
    torch = need_torch()
    _, total = free_vram(device)
    if nbytes > total:
        name = torch.cuda.get_device_name(device)
        raise UsageError(f"--vram: {format_size(nbytes)} are more than the {format_size(total)} of {device} ({name})")
    torch.cuda.set_per_process_memory_fraction(nbytes / total, device)


def peak_bytes(device: Any) -> tuple[int | None, str]:
    """The most that was held, and where the figure is from; ``None`` where nobody counts."""
    if device.type == "cuda":
        torch = need_torch()
        return int(torch.cuda.max_memory_allocated(device)), "torch.cuda.max_memory_allocated"
    return own_peak_bytes()


def own_peak_bytes() -> tuple[int | None, str]:
    """The high-water mark of this process."""
    if nbytes := proc.peak():
        return int(nbytes), "VmHWM"
    try:
        import resource
    except ImportError:
        return None, "not counted here"
    scale = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * scale, "ru_maxrss"
