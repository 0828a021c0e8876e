"""Added up, the sizes of the processes are far more than what they use.

The resident size of a process (RSS) counts pages that others have too: libraries, shared memory, what a fork has in common
with its parent, Ray's object store. Eight workers that share 4 GiB look like 32 GiB. A scheduler that adds RSS up may end
the run for it.

Use instead: the proportional size (PSS), which adds up, and the unique size (USS) for what ends with a process. ``rlmem
explain`` shows both. Where a scheduler counts RSS, a smaller object store is the only help.

Fix: none: nothing is wrong with the program.

Reference: ray-project/ray#5318, #4877.
"""

from __future__ import annotations

from collections.abc import Iterator

from rlmem.core.findings import Finding
from rlmem.core.holdings import TreeExplanation
from rlmem.rules.base import Rule
from rlmem.units import MIB, format_size

WORTH_BYTES = 512 * MIB
WORTH_RATIO = 1.3


def check_live(rule: Rule, tree: TreeExplanation) -> Iterator[Finding]:
    """Fires when the sum of RSS is much more than the sum of PSS."""
    if tree.pss_bytes is None or len(tree.processes) < 2:
        return
    added = sum(process.rss_bytes for process in tree.processes)
    if added < WORTH_RATIO * tree.pss_bytes or added - tree.pss_bytes < WORTH_BYTES:
        return
    yield rule.finding(
        f"{len(tree.processes)} processes look like {format_size(added)} by RSS and hold {format_size(tree.pss_bytes)}",
        location=f"{tree.top.pid}",
        remedy="judge them by PSS, in which shared pages count once",
    )
