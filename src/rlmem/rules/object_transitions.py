"""Transitions are kept as Python objects, one tuple at a time.

A deque or a list of ``(state, action, reward, next_state, done)`` takes about 290 bytes a transition beside the numbers
themselves: the tuple, the headers of two arrays, boxed floats, and one allocation for each of them. For small vectors
that is most of the memory, and what is freed returns to the system late or never::

    self.memory = deque(maxlen=1_000_000)
    self.memory.append((state, action, reward, next_state, done))
    batch = random.sample(self.memory, 64)

Use instead: arrays that are allocated once and written in a ring, ``self.states = np.zeros((capacity, dim), np.float32)``
and so on; or ``rlmem.buffers.Replay``, which also keeps every observation once.

It is found where a deque or list with a bound of 50,000 or more is sampled at random. It is information only below
64 MiB, which are 231,000 transitions (or steps of the run, where the script says how long it is), and beside images,
whose pixels are far more. In a running process it is found by the length of such a container and by what its elements
are made of: an observation, and at least two more numbers or arrays.

Fix: none; the code that samples changes with it.

Reference: thu-ml/tianshou#225 (48 GB with ListReplayBuffer); vwxyzjn/cleanrl#35; pytorch/tutorials#1620. 290 bytes: RSS
over 300,000 transitions of two float32 arrays, an int and a float, CPython 3.11, numpy 2.4 (306 with 4 values, 402 with 27).
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from rlmem.core.findings import Finding
from rlmem.core.holdings import TreeExplanation
from rlmem.rules.base import Rule
from rlmem.rules.float_image_script import check_script as float_images
from rlmem.rules.lengths import run_steps
from rlmem.rules.memories import MEMORY, memories, parts
from rlmem.rules.observed import WORTH_BYTES, severity
from rlmem.scripts import Script
from rlmem.units import format_count

MANY_ROWS = 50_000
#: Bytes of a transition's objects beside its numbers; see above.
OBJECT_BYTES = 290
_REMEDY = "preallocated arrays written in a ring, or rlmem.buffers.Replay"


_CONVOLUTIONS = ("Conv2d", "Conv2D", "Convolution2D", "conv2d", "conv_2d")
_PICTURES = re.compile(r"atari|\b84, ?84\b|frame_?stack|gr[ae]y_?scale|pixels|planes", re.IGNORECASE)


def check_script(rule: Rule, script: Script) -> Iterator[Finding]:
    """A bounded list or deque of tuples or objects, drawn from at random."""
    for memory in memories(script):
        if memory.kind == "dict" or not memory.is_replay or (memory.capacity or 0) < MANY_ROWS:
            continue
        if not any(parts(script, put) is not None for put in memory.puts):
            continue
        capacity, steps = memory.capacity or 0, run_steps(script)
        rows = capacity if steps is None else min(capacity, steps)
        images = _convolves(script)
        if rows < MANY_ROWS or (images and any(float_images(rule, script))):
            continue
        cost = rows * OBJECT_BYTES
        yield rule.finding(
            f"{memory.text} holds {format_count(rows)} transitions as Python objects"
            + (", small beside their images" if images else ""),
            severity="info" if images else severity(cost),
            place=script.place(memory.made),
            costs_bytes=cost,
            remedy=_REMEDY,
        )


def _convolves(script: Script) -> bool:
    """Whether the network of a script reads images: their pixels are what counts then."""
    return any(True for _ in script.calls_of(*_CONVOLUTIONS)) or bool(_PICTURES.search(script.text))


def check_live(rule: Rule, found: TreeExplanation) -> Iterator[Finding]:
    """A long list or deque of transitions, whose path says that it is a replay memory."""
    for process in found.processes:
        for holding in process.holdings:
            kind = holding.type.rsplit(".", maxsplit=1)[-1]
            if holding.kind != "container" or kind not in {"deque", "list"} or not MEMORY.search(holding.path):
                continue
            if (holding.filled or 0) < MANY_ROWS or not holding.has_transitions:
                continue
            yield rule.finding(
                f"{holding.path} holds {format_count(holding.filled or 0)} transitions as Python objects",
                severity="warning" if (holding.filled or 0) * OBJECT_BYTES >= WORTH_BYTES else "info",
                location=holding.path,
                costs_bytes=(holding.filled or 0) * OBJECT_BYTES,
                remedy=_REMEDY,
            )
