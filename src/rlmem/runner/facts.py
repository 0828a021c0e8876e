"""What a result must say about where it came from: the machine and the versions."""

from __future__ import annotations

import platform
from typing import Any

from rlmem.process.gpus import read_gpus
from rlmem.process.limits import PHYSICAL, cpu_count, read_limits, tightest
from rlmem.version import __version__


def machine_facts() -> dict[str, Any]:
    """System, cores, memory, the limit that decides and the GPUs; no names of people or machines."""
    limits = read_limits()
    best = tightest(limits)
    return {
        "system": f"{platform.system()} {platform.release()} {platform.machine()}",
        "cores": cpu_count(),
        "ram_bytes": next((limit.nbytes for limit in limits if limit.kind == PHYSICAL), None),
        "limit_bytes": best.left_bytes() if best else None,
        "limit_source": f"{best.kind} ({best.detail})" if best else None,
        "gpus": [gpu.name for gpu in read_gpus()],
    }


def own_versions() -> dict[str, str]:
    """Versions of rlmem and of the Python it runs in; a point has those of its own interpreter."""
    return {"rlmem": __version__, "python": platform.python_version()}
