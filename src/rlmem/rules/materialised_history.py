"""A sliding history is stored whole at every step.

An observation that is a window over a stream shares almost all of its samples with the one before: of 300 samples
290 are the same after a step that appends 10. Storing every window stores the stream dozens of times.

Use instead: store the stream once and cut the windows out when a batch is taken. In an SB3 run the compact buffers of
``rlmem.sb3`` do: a window is a stack of steps along its first axis, recognised from the data or declared
(``replay_buffer_kwargs={"stack": 30}``). Values that do not slide need a key of their own, so that the window is an
array by itself. In a PPO loop of your own ``rlmem.buffers.WindowRollout`` does (torch, any device): it takes each step's new
samples, and ``gather(agents, steps)`` gives the windows of a minibatch as a store of whole windows would hold them. A description
says so with ``storage: stream``; ``rollout.dtype`` and ``rollout.derived`` say what a sample takes.

Reference: "Store observation windows once, not per rollout step" (TorchTrade #440).
"""

from __future__ import annotations

from collections.abc import Iterator

from rlmem.core.findings import Finding
from rlmem.core.subject import Subject
from rlmem.frameworks.base import Swap
from rlmem.frameworks.sb3.compact import is_compact
from rlmem.frameworks.stream import is_stream
from rlmem.rules import once
from rlmem.rules.base import Rule

#: Frameworks whose rollout is the user's own code, and the store for it.
OWN_LOOPS = ("cleanrl", "swarm")
WINDOWS = Swap(
    store="WindowRollout",
    module="rlmem.buffers",
    change="append() each step's new samples, gather(agents, steps) the windows of a minibatch",
)


def check(rule: Rule, subject: Subject) -> Iterator[Finding]:
    """Fires for window observations kept whole."""
    window = subject.spec.window
    if window is None or window.length <= window.step:
        return
    own = "n_steps" in subject.spec and subject.spec.text("framework.name") in OWN_LOOPS
    if is_stream(subject.spec) if own else _kept_once(subject, bool(window.extra)):
        return
    changes = {"storage": "stream"}
    saves = subject.saving(changes)
    shared = window.length - window.step
    swap = once.swap_for(subject)
    remedy = "store the stream once and cut windows out of it per minibatch"
    if own:
        remedy = once.remedy(subject, WINDOWS, changes)
    elif swap and saves > 0:
        alone = f"with the {window.extra} other values in a key of their own" if window.extra else ""
        remedy = once.remedy(subject, swap, changes, also=alone)
    yield rule.finding(
        f"consecutive windows share {shared} of {window.length} samples and are stored whole",
        saves_bytes=saves or None,
        location="history",
        remedy=remedy,
        changes=changes,
    )


def _kept_once(subject: Subject, extra: bool) -> bool:
    return subject.spec.get("storage") == "stream" or (is_compact(subject.spec) and not extra)
