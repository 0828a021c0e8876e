"""What a rule on hand-written buffers does not know, it does not advise: how rows follow each other."""

from __future__ import annotations

import textwrap

import pytest

from rlmem.rules import find_in_script
from rlmem.scripts import parse_script

BUFFER = """
import numpy as np


class ReplayBuffer:
    def __init__(self, capacity=100_000):
        self.capacity, self.at = capacity, 0
        self.frames = np.zeros((capacity, 84, 84), dtype=np.uint8)
        self.next_frames = np.zeros((capacity, 84, 84), dtype=np.uint8)

    def add(self, frame, next_frame):
        self.frames[self.at], self.next_frames[self.at] = frame, next_frame
        self.at = (self.at + 1) % self.capacity

    def add_batch(self, frames, next_frames):
        rows = (self.at + np.arange(len(frames))) % self.capacity
        self.frames[rows], self.next_frames[rows] = frames, next_frames
        self.at = (self.at + len(frames)) % self.capacity


buffer = ReplayBuffer()
"""
CALLERS = {
    "one environment": "buffer.add(frame, next_frame)",
    "several environments": "for i in range(8):\n    buffer.add(frames[i], next_frames[i])",
    "batches": "buffer.add_batch(frames, next_frames)",
    "returns over several steps": "buffer.add(window[0].frame, window[-1].next_frame)",
}


@pytest.mark.parametrize("caller", CALLERS.values(), ids=CALLERS)
def test_no_row_is_said_to_follow_another(caller: str) -> None:
    script = parse_script(textwrap.dedent(BUFFER) + "while True:\n" + textwrap.indent(caller, "    "))
    (found,) = (finding for finding in find_in_script(script) if finding.code == "MEM101")
    assert "rlmem.buffers.Replay" in (found.remedy or "")
    assert "row" not in f"{found.title} {found.remedy}"
    assert found.fix is None
