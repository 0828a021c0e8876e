"""The largest replay buffer, as a view."""

from __future__ import annotations

from rlmem.documents.max_buffer import MaxBufferDocument
from rlmem.report.text import size
from rlmem.report.view import Section, View
from rlmem.units import format_count


def max_buffer_view(document: MaxBufferDocument) -> View:
    """Arrange what ``rlmem max-buffer`` shows."""
    lines = [
        f"needs {size(document.expected_bytes)}, at most {size(document.high_bytes)}, of "
        f"{size(document.limit_bytes)}: {size(document.ram_bytes)} less a margin of {document.margin:.0%}",
    ]
    if document.compact_buffer_size:
        lines.append(f"with CompactReplayBuffer of rlmem.sb3: {format_count(document.compact_buffer_size)}")
    return View(
        title=f"{document.algorithm} on {document.env}, {document.n_envs} environment(s)",
        verdict=((f"buffer_size = {format_count(document.buffer_size)}", "good"),),
        sections=(Section(title="Why", lines=tuple(lines)),),
        notes=(
            "Closed form of the environment's spaces with SB3's defaults; 'rlmem plan train.py' knows your script.",
        ),
    )
