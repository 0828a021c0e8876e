"""The compiled way into a store: compare, number, write. It knows bytes, addresses and blocks; nothing of dtypes or frameworks."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import carray, int64, uint32, uint64, void

from rlmem.buffers.codec import DEPTH, GEOMETRY, INNER, OBS, OUTER, RING, UNIT, Ints, K
from rlmem.buffers.native import at, compiled, copy_bytes, count_bits, inlined, read_byte, same_bytes, write_byte

#: What stands before the first frame of a stream: nothing (zeros), that frame again, or frames kept aside.
ZEROS, REPEAT, PREFIX, CHAINED = range(4)
#: A row's mark: frames of history in the stream (12 bits), what stands before them, and the same for its next observation.
AGE_BITS = 12
MAX_DEPTH = 1 << AGE_BITS
#: Positions in the first line of what ``commit`` takes, and in the line of a column.
N_ENVS, STATE, PAIRED, SLOT, NUMBERED, BROKEN, UNITS, HEADS, ANCHORS, BITS, OLD_ANCHORS, OLD_BITS, WORDS = range(13)
NOW, AFTER, LAST, SIZE, GEO, TABLE, SEGMENTS, SEGMENT_COUNT, MARKS, MARK_COUNT, TOPS, ASIDE, OPENED = range(13)
CONTEXT = 13


@inlined
def unit_of(env: int, slot: int, anchors: Any, bits: Any, old_anchors: Any, old_bits: Any, head: int, pos: int) -> int:
    """The unit of a row: 64 rows share an anchor, and a bit says where a row was not the one before it, continued."""
    word = slot >> 6
    if (pos & 63) != 0 and word == pos >> 6 and slot >= pos:
        anchor, marks = old_anchors[env], old_bits[env]
    else:
        anchor, marks = anchors[env, word], bits[env, word]
    offset = np.uint64(slot & 63)
    below = marks & ((np.uint64(1) << offset) - np.uint64(1))
    low = (np.int64(anchor) + np.int64(offset) + count_bits(below)) & 0xFFFFFFFF
    # Anchors keep 32 bits; the unit is the nearest one at or before the head.
    return head - ((head - low) & 0xFFFFFFFF)


@compiled(
    void(
        int64, int64[::1], int64[::1], int64[::1], uint32[:, ::1], uint64[:, ::1], uint32[::1], uint64[::1], int64[::1]
    )
)
def number(
    pos: int,
    slots: Ints,
    envs: Ints,
    heads: Ints,
    anchors: Any,
    bits: Any,
    old_anchors: Any,
    old_bits: Any,
    units: Ints,
) -> None:
    """The units of many rows."""
    for i in range(slots.size):
        env = envs[i]
        units[i] = unit_of(env, slots[i], anchors, bits, old_anchors, old_bits, heads[env], pos)


@inlined
def _home(env: int, unit: int, g: Any, table: Any, raw: Any) -> int:
    """Where a unit being written belongs: its block is open, and so raw."""
    block = unit // g[K]
    entry = table[env, block % g[RING], 0]
    return raw[entry >> 32] + (entry & 0xFFFFFFFF) + (unit - block * g[K]) * g[UNIT]


@inlined
def _take_newest(source: int, target: int, g: Any) -> None:
    """Copy the newest frame of a stack."""
    inner, depth = g[INNER], g[DEPTH]
    if g[OUTER] == 1:
        copy_bytes(target, source + (depth - 1) * inner, inner)
        return
    source += (depth - 1) * inner
    for o in range(g[OUTER]):
        if inner == 1:
            write_byte(target + o, read_byte(source + o * depth))
        else:
            copy_bytes(target + o * inner, source + o * depth * inner, inner)


@inlined
def _follows(after: int, before: int, g: Any) -> bool:
    """Whether a stack is the one before it, moved on by a frame."""
    span, inner = g[DEPTH] * g[INNER], g[INNER]
    for o in range(g[OUTER]):  # noqa: SIM110 (numba compiles loops, not generators)
        if not same_bytes(after + o * span, before + o * span + inner, span - inner):
            return False
    return True


@inlined
def _padding(stack: int, g: Any) -> int:
    """What stands before the newest frame of a stack with no history."""
    span, inner, outer = g[DEPTH] * g[INNER], g[INNER], g[OUTER]
    zeros, repeat = True, True
    for o in range(outer):
        newest = stack + o * span + span - inner
        for j in range(g[DEPTH] - 1):
            frame = stack + o * span + j * inner
            if repeat and not same_bytes(frame, newest, inner):
                repeat = False
            if zeros:
                for i in range(inner):
                    if read_byte(frame + i) != 0:
                        zeros = False
                        break
            if not zeros and not repeat:
                return PREFIX
    return ZEROS if zeros else REPEAT


@inlined
def _write_pair(
    env: int, pos: int, unit: int, broken: int, now: int, then: int, g: Any, table: Any, raw: Any, marks: Any, tops: Any
) -> int:
    """Write an observation where it is new, and its next one; bits say whose older frames have to be kept aside."""
    depth, aside = g[DEPTH], 0
    if depth == 1:
        if broken:
            copy_bytes(_home(env, unit, g, table, raw), now, g[OBS])
        copy_bytes(_home(env, unit + 1, g, table, raw), then, g[OBS])
        return 0
    if broken:
        kind = _padding(now, g)
        tops[env] = np.uint16(kind << AGE_BITS)
        if kind == PREFIX:
            aside |= 1
        _take_newest(now, _home(env, unit, g, table, raw), g)
    top = np.int64(tops[env])
    age, kind = top & (MAX_DEPTH - 1), (top >> AGE_BITS) & 3
    if _follows(then, now, g):
        following = CHAINED
        age_then, kind_then = min(age + 1, depth - 1), kind
    else:
        following = _padding(then, g)
        age_then, kind_then = 0, following
        if following == PREFIX:
            aside |= 2
    marks[pos, env] = np.uint16(age | (kind << AGE_BITS) | (following << (AGE_BITS + 2)))
    tops[env] = np.uint16(age_then | (kind_then << AGE_BITS))
    _take_newest(then, _home(env, unit + 1, g, table, raw), g)
    return aside


@inlined
def _write_one(
    env: int, pos: int, unit: int, first: int, now: int, last: int, g: Any, table: Any, raw: Any, marks: Any, tops: Any
) -> int:
    """Write one observation as a unit of its own; ``first`` where nothing comes before it."""
    depth, aside, home = g[DEPTH], 0, _home(env, unit, g, table, raw)
    if depth == 1:
        copy_bytes(home, now, g[OBS])
        return 0
    if not first and _follows(now, last, g):
        top = np.int64(tops[env])
        age, kind = min((top & (MAX_DEPTH - 1)) + 1, depth - 1), (top >> AGE_BITS) & 3
    else:
        age, kind = 0, _padding(now, g)
        if kind == PREFIX:
            aside = 1
    tops[env] = np.uint16(age | (kind << AGE_BITS))
    marks[pos, env] = tops[env] | np.uint16(CHAINED << (AGE_BITS + 2))
    _take_newest(now, home, g)
    return aside


@inlined
def _number(pos: int, broken: Any, units: Any, row: Any) -> None:
    """Number the row: its units, the bit for a break before it, and the new heads."""
    n_envs, words = row[N_ENVS], row[WORDS]
    heads = carray(at(row[HEADS]), (n_envs,), np.int64)
    anchors = carray(at(row[ANCHORS]), (n_envs, words), np.uint32)
    bits = carray(at(row[BITS]), (n_envs, words), np.uint64)
    old_anchors = carray(at(row[OLD_ANCHORS]), (n_envs,), np.uint32)
    old_bits = carray(at(row[OLD_BITS]), (n_envs,), np.uint64)
    word, offset = pos >> 6, pos & 63
    for env in range(n_envs):
        # A row with no next observation is always the unit its env's head is at.
        unit = heads[env] + (1 if broken[env] and (row[PAIRED] or heads[env] < 0) else 0)
        units[env] = unit
        if offset == 0:
            old_anchors[env], old_bits[env] = anchors[env, word], bits[env, word]
            anchors[env, word], bits[env, word] = np.uint32(unit & 0xFFFFFFFF), np.uint64(0)
        elif broken[env] and row[PAIRED]:
            bits[env, word] |= np.uint64(1) << np.uint64(offset - 1)
        heads[env] = unit + 1


@compiled(int64(int64[:, ::1]))
def commit(ctx: Ints) -> int:  # noqa: PLR0912 (one call a row is the point)
    """Write the row that is waiting in the columns' staging areas.

    The answer is -1, and nothing was written, when a block has to be opened first; above 0 when frames have to be kept aside.

    Everything comes by address in one array, a line for the row and one for each column: a call with twenty arrays would
    spend more time on unpacking them than on a row of a small observation.
    """
    row = ctx[0]
    n_envs, paired, numbered = row[N_ENVS], row[PAIRED], row[NUMBERED]
    broken = carray(at(row[BROKEN]), (n_envs,), np.uint8)
    units = carray(at(row[UNITS]), (n_envs,), np.int64)
    state = carray(at(row[STATE]), (4,), np.int64)
    pos = row[SLOT] if numbered else state[0]
    if not numbered:
        heads = carray(at(row[HEADS]), (n_envs,), np.int64)
        for c in range(1, ctx.shape[0]):
            block = carray(at(ctx[c, GEO]), (GEOMETRY,), np.int64)[K]
            opened = carray(at(ctx[c, OPENED]), (n_envs,), np.int64)
            for env in range(n_envs):
                if max(heads[env] + (2 if paired else 0), 0) // block > opened[env]:
                    return -1
        for env in range(n_envs):
            broken[env] = 0 if state[2] else 1
        if paired and state[2]:
            for c in range(1, ctx.shape[0]):
                size = ctx[c, SIZE]
                for env in range(n_envs):
                    if not broken[env] and not same_bytes(ctx[c, NOW] + env * size, ctx[c, LAST] + env * size, size):
                        broken[env] = 1
        _number(pos, broken, units, row)
    aside = 0
    for c in range(1, ctx.shape[0]):
        column = ctx[c]
        size = column[SIZE]
        g = carray(at(column[GEO]), (GEOMETRY,), np.int64)
        table = carray(at(column[TABLE]), (n_envs, g[RING], 2), np.int64)
        raw = carray(at(column[SEGMENTS]), (column[SEGMENT_COUNT],), np.int64)
        marks = carray(at(column[MARKS]), (column[MARK_COUNT], n_envs), np.uint16)
        tops = carray(at(column[TOPS]), (n_envs,), np.uint16)
        flags = carray(at(column[ASIDE]), (n_envs,), np.uint8)
        for env in range(n_envs):
            now = column[NOW] + env * size
            if paired:
                flag = _write_pair(
                    env, pos, units[env], broken[env], now, column[AFTER] + env * size, g, table, raw, marks, tops
                )
            else:
                flag = _write_one(
                    env, pos, units[env], broken[env], now, column[LAST] + env * size, g, table, raw, marks, tops
                )
            flags[env] = flag
            aside |= flag
    if not numbered:
        state[0] = pos + 1 if pos + 1 < state[3] else 0
        state[1] = min(state[1] + 1, state[3])
        state[2] = 1
    return aside
