"""torch has reserved much more VRAM than it uses.

The caching allocator keeps freed blocks for later and cannot join blocks of different segments. With sizes that change
(batches, sequences) much is reserved and nothing of it fits: "X GiB is reserved by PyTorch but unallocated".

Use instead: ``PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True`` in the environment of the program; batches of one size.
``torch.cuda.empty_cache()`` gives whole free segments back to others, and is slow in a loop.

Fix: none.

Reference: sgl-project/SpecForge#739; NovaSky-AI/SkyRL#1768; pytorch/pytorch#35901, #173049.
"""

from __future__ import annotations

from collections.abc import Iterator

from rlmem.core.findings import Finding
from rlmem.core.holdings import TreeExplanation
from rlmem.rules.base import Rule
from rlmem.units import MIB, format_size

WORTH_BYTES = 512 * MIB
WORTH_SHARE = 0.2


def check_live(rule: Rule, tree: TreeExplanation) -> Iterator[Finding]:
    """Fires when more than a fifth of what is reserved is not allocated."""
    for process in tree.processes:
        for share in process.gpus:
            if share.reserved_bytes is None or share.allocated_bytes is None:
                continue
            unused = share.reserved_bytes - share.allocated_bytes
            if unused < WORTH_BYTES or unused < WORTH_SHARE * share.reserved_bytes:
                continue
            yield rule.finding(
                f"{format_size(unused)} of {format_size(share.reserved_bytes)} reserved on {share.gpu} are not in use",
                location=f"{process.pid}",
                saves_bytes=unused,
                remedy="PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True; between updates some of it is only waiting",
            )
