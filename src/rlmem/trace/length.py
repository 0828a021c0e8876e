"""How long a run is that is tried: whether the steps that the first ``learn()`` asks for are all of it."""

from __future__ import annotations

from rlmem.errors import RlmemError
from rlmem.rules.lengths import learns_once
from rlmem.scripts import read_script
from rlmem.trace.target import RunnableTarget


def is_whole_run(target: RunnableTarget) -> bool:
    """Whether the first ``learn()`` is the only one, as far as the text of a script tells."""
    if target.kind != "script":
        return target.kind == "zoo"  # rl_zoo3 learns once; whoever calls a factory learns as long as they like
    try:
        return learns_once(read_script(target.text))
    except (RlmemError, OSError):
        return False
