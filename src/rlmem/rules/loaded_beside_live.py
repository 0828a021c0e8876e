"""A replay buffer is loaded while another one lives.

``load_replay_buffer`` unpickles the whole capacity, used or not, into new arrays and only then drops the old buffer:
beside a filled one that is two buffers at once. (Saving is cheap: it streams and adds next to nothing.)

Use instead: load into a freshly built model, whose own arrays have never been written, or drop the old buffer first. The
compact buffers of ``rlmem.sb3`` have ``save`` and ``restore``, which lets the old content go first.

Reference: measured with SB3 2.9.2; thu-ml/tianshou#260.
"""

from __future__ import annotations

from collections.abc import Iterator

from rlmem.findings import Finding
from rlmem.frameworks.sb3.compact import is_compact
from rlmem.rules.base import Context, Rule


def check(rule: Rule, context: Context) -> Iterator[Finding]:
    """Fires when the description loads beside a live buffer."""
    if context.spec.get("resume.replay_buffer") != "beside-live" or "buffer_size" not in context.spec:
        return
    changes = {"resume.replay_buffer": "into-new"}
    yield rule.finding(
        "a saved replay buffer is loaded beside a live one: two whole buffers at once",
        saves_bytes=context.saving(changes, "load into a new model") or None,
        location="resume.replay_buffer",
        remedy="model.replay_buffer.restore(path) lets the old content go first"
        if is_compact(context.spec)
        else "load into a freshly built model, before any step is taken",
        changes=changes,
    )
