"""A replay buffer of images has a million rows, or as many as no machine at hand can hold.

SB3's off-policy algorithms keep 1,000,000 transitions when nobody says otherwise. That is right for vectors of a few
numbers. For images it is 2.4 GiB with the smallest that SB3's convolutions take (36×36) and 52.6 GiB with Atari's four
frames of 84×84. numpy reserves it without complaint on most systems and the run is killed hours later, or it fails at
the start::

    model = DQN("CnnPolicy", env)                            # 1,000,000 rows
    model = QRDQN("CnnPolicy", env, buffer_size=1_000_000)   # the same, written down

Use instead: the number of rows that fits. ``rlmem plan train.py`` says what a run needs, ``rlmem capacity`` which
buffer fits. Storing every frame once (``replay_buffer_class=CompactReplayBuffer`` of ``rlmem.sb3``) makes eight times as
many rows fit where four frames are stacked.

Rows that the run never writes cost nothing, where the script says how long it is; but all of them are asked for at the
start. A size that is written down is reported from 16 GiB on where the size of the images is known, and otherwise where even
the smallest images would take a gigabyte.

Fix: none; how many transitions an agent needs is not for a program to say.

Reference: vwxyzjn/cleanrl#453; DLR-RM/stable-baselines3#37, #1936; measured: RL Zoo's QR-DQN for Atari and CleanRL's
dqn_atari.py do not start on a machine of 24 GB.
"""

from __future__ import annotations

from collections.abc import Iterator

from rlmem.core.findings import Finding
from rlmem.rules.base import Rule
from rlmem.rules.observed import ATARI_STACK_BYTES, Replay, replays
from rlmem.scripts import Script
from rlmem.units import GIB, format_count, format_size

#: More than most machines at hand have; and what is much even for the smallest images.
LARGE_BYTES, SMALLEST_LARGE_BYTES = 16 * GIB, GIB


def check_script(rule: Rule, script: Script) -> Iterator[Finding]:
    """Off-policy buffers of images whose rows nobody chose, or that are too many whatever the images are."""
    for store in replays(script):
        if not store.seen.image or store.rows is None or store.filled is None or store.twice is None:
            continue
        cost = store.rows * store.copies * store.seen.least_bytes  # of a full one: all of it is asked for at the start
        exact = store.seen.nbytes is not None or store.seen.known_bytes > 0
        if cost < (LARGE_BYTES if exact else SMALLEST_LARGE_BYTES) and not (store.is_default and cost >= GIB):
            continue
        yield rule.finding(
            _title(store, cost, exact=exact),
            place=script.place(store.spot(script)),
            costs_bytes=store.sized(store.filled * store.copies * store.seen.least_bytes),
            remedy=f"set buffer_size to what fits ('rlmem max-buffer' says how much), or keep every frame once with {store.instead}",
        )


def _title(store: Replay, cost: int, *, exact: bool) -> str:
    rows = format_count(store.rows or 0)
    whose = f"{store.owner} keeps SB3's default of {rows} images" if store.is_default else f"a buffer of {rows} images"
    if exact and store.filled is not None and store.filled < (store.rows or 0):
        written = format_size(store.filled * store.copies * store.seen.least_bytes)
        return f"{whose}: {written} for the {format_count(store.filled)} that the run writes, {format_size(cost)} when full"
    if exact:
        return f"{whose}: {format_size(cost)}"
    usual = format_size((store.rows or 0) * store.copies * ATARI_STACK_BYTES)
    return f"{whose}: {format_size(cost)} with the smallest images, {usual} with Atari's 84×84×4"
