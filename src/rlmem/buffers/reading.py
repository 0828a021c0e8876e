"""The compiled way out of a store: batches put together by all threads that have time, straight from blocks.

Everything comes by address in arrays of numbers, one for the call, one line for each column: a call with dozens of arrays
would spend more time on unpacking them than on a small batch.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import carray, int64, void

from rlmem.buffers.codec import (
    DEPTH,
    END,
    GEOMETRY,
    INNER,
    KEY,
    MADE,
    MASK_BITS,
    NEXT,
    OBS,
    OUTER,
    PATTERN,
    PLACE_BITS,
    RAW,
    RING,
    ROOM,
    ROOMS,
    RUNS,
    SCRATCH,
    SIZE_BITS,
    SPARSE,
    STORED,
    TURN,
    UNIT,
    WHERE,
    WORK,
    K,
    decode,
    unpacked,
)
from rlmem.buffers.kernels import AGE_BITS, CHAINED, MAX_DEPTH, PREFIX, ZEROS, unit_of
from rlmem.buffers.native import (
    at,
    compiled,
    copy_bytes,
    fetch_ahead,
    fill_zero,
    inlined,
    let_others,
    load64,
    read_byte,
    read_pipe,
    take_ticket,
    write_byte,
)
from rlmem.buffers.sparse import follow

#: Positions in a call. First what threads agree by: whether it is open, threads that came and threads that left (both only
#: ever grow), seats taken, rows taken. Then how many threads may have a seat, a row that could not be read, how many rows
#: there are, their slots, the slots of the next ones, their envs, the order to go in (0: as they come), how many are taken
#: at a time; the columns, the rooms of each thread; the ring of rows.
OPEN, CAME, LEFT, SEATS, TAKEN, THREADS, DAMAGED, COUNT, SLOTS, LATER, ENVS, ORDER, CHUNK = range(13)
COLUMNS, N_COLUMNS, WORKERS, N_ENVS, POS, HEADS, ANCHORS, BITS, OLD_ANCHORS, OLD_BITS, WORDS = range(13, 24)
CALL = 24
#: Positions in the line of a column.
OUT, AFTER, PATCH, GEO, TABLE, SEGMENTS, LOG, PATTERNS, MARKS, MODELS = range(10)
LINE = 10
#: How many rows ahead memory is asked for, and up to which size of a unit: the processor follows longer copies by itself.
AHEAD, AHEAD_BYTES = 4, 2048


@inlined
def _entry(env: int, block: int, g: Any, column: Any) -> tuple[int, int]:
    """Where a block is, and how it is coded."""
    entry = column[TABLE] + 16 * (env * g[RING] + block % g[RING])
    return np.int64(load64(entry)), np.int64(load64(entry + 8))


@inlined
def _at(segments: int, entry: int) -> int:
    return np.int64(load64(segments + 8 * (entry >> 32))) + (entry & 0xFFFFFFFF)


@inlined
def _make(room: Any, index: int, g: Any, model: int) -> bool:
    """Make the units of a sparse block up to one."""
    while room[MADE] <= index:
        place = room[WHERE] + room[MADE] * g[UNIT]
        before = place - g[UNIT] if room[MADE] else model
        room[NEXT] = follow(place, before, g[UNIT], room[NEXT], room[END])
        if room[NEXT] == 0:
            return False
        room[MADE] += 1
    return True


@inlined
def _locate(env: int, unit: int, target: int, g: Any, column: Any, work: Any) -> int:
    """The address of a unit, decoding its block if need be; 0 when the block is damaged.

    A block that is a single unit is decoded to the ``target`` right away, where there is one. Some blocks stay decoded.
    """
    block = unit // g[K]
    index = unit - block * g[K]
    entry, info = _entry(env, block, g, column)
    place = (info >> SIZE_BITS) & ((1 << PLACE_BITS) - 1)
    if place == RAW:
        return _at(column[SEGMENTS], entry) + index * g[UNIT]
    if place == PATTERN:
        return np.int64(load64(column[PATTERNS] + 8 * env))
    address = _at(column[LOG], entry)
    mask = (info >> (SIZE_BITS + PLACE_BITS)) & ((1 << MASK_BITS) - 1)
    if place == STORED and not mask:
        return address + index * g[UNIT]
    model = np.int64(load64(column[MODELS] + 8 * (info >> (SIZE_BITS + PLACE_BITS + MASK_BITS))))
    # Blocks of an env come one after the other, so this names one of all envs.
    key = block * (1 << 20) + env + 1
    for n in range(g[ROOMS]):
        room = work[ROOM + 5 * n : ROOM + 5 * n + 5]
        if room[KEY] == key:
            if mask & SPARSE and not _make(room, index, g, model):
                room[KEY] = 0
                return 0
            return room[WHERE] + index * g[UNIT]
    turn = work[TURN]
    work[TURN] = (turn + 1) % g[ROOMS]
    room = work[ROOM + 5 * turn : ROOM + 5 * turn + 5]
    total, size = g[K] * g[UNIT], info & ((1 << SIZE_BITS) - 1)
    room[KEY] = 0
    room[WHERE] = target if target and g[K] == 1 else work[SCRATCH] + turn * total
    if mask & SPARSE:
        room[MADE], room[NEXT], room[END] = 0, address, address + size
        if place != STORED:
            most = total // 2
            room[NEXT] = work[RUNS] + turn * most
            size = unpacked(place, address, size, room[NEXT], most, work)
            if not 0 < size <= most:
                return 0
            room[END] = room[NEXT] + size
        if not _make(room, index, g, model):
            return 0
    elif not decode(place, mask, model, address, size, g, room[WHERE], work):
        return 0
    room[KEY] = key
    return room[WHERE] + index * g[UNIT]


@inlined
def _place_frame(target: int, source: int, j: int, g: Any) -> None:
    """Put one frame at its place in a stack; a source of -1 is zeros."""
    inner, depth = g[INNER], g[DEPTH]
    if g[OUTER] == 1:
        if source == -1:
            fill_zero(target + j * inner, inner)
        else:
            copy_bytes(target + j * inner, source, inner)
        return
    span = depth * inner
    to = target + j * inner
    for o in range(g[OUTER]):
        if source == -1:
            fill_zero(to + o * span, inner)
        elif inner == 1:
            write_byte(to + o * span, read_byte(source + o))
        else:
            copy_bytes(to + o * span, source + o * inner, inner)


@inlined
def _build(target: int, env: int, unit: int, age: int, kind: int, g: Any, column: Any, work: Any) -> int:
    """Rebuild one stack; 0 fine, 1 older frames are kept aside, -1 a block is damaged."""
    depth = g[DEPTH]
    if age == depth - 1 and g[OUTER] == 1:
        # Frames of one raw block, one after the other, as in the stack itself: one copy.
        block = (unit - age) // g[K]
        if unit // g[K] == block:
            entry, info = _entry(env, block, g, column)
            if (info >> SIZE_BITS) & ((1 << PLACE_BITS) - 1) == RAW:
                copy_bytes(target, _at(column[SEGMENTS], entry) + (unit - age - block * g[K]) * g[UNIT], g[OBS])
                return 0
    state = 0
    for j in range(depth):
        back = depth - 1 - j
        if back > age:
            if kind == ZEROS:
                _place_frame(target, -1, j, g)
                continue
            if kind == PREFIX:
                state = 1
                continue
            back = age
        source = _locate(env, unit - back, 0, g, column, work)
        if source == 0:
            return -1
        _place_frame(target, source, j, g)
    return state


@inlined
def _ask_ahead(env: int, unit: int, g: Any, column: Any) -> None:
    """Fetch the beginning of a raw unit and of the next one."""
    block = unit // g[K]
    entry, info = _entry(env, block, g, column)
    if (info >> SIZE_BITS) & ((1 << PLACE_BITS) - 1) == RAW:
        start = _at(column[SEGMENTS], entry) + (unit - block * g[K]) * g[UNIT]
        for line in range(0, 2 * g[UNIT], 64):
            fetch_ahead(start + line)


@inlined
def _fill(i: int, want: int, slots: Any, later: Any, envs: Any, ring: Any, g: Any, column: Any, work: Any) -> bool:
    """One row of one column; False when a block of it is damaged."""
    heads, anchors, bits, old_anchors, old_bits, pos = ring
    env, depth, size, patch = envs[i], g[DEPTH], g[OBS], 0
    for which in range(2):
        if not want >> which & 1:
            continue
        slot = later[i] if which else slots[i]
        unit = unit_of(env, slot, anchors, bits, old_anchors, old_bits, heads[env], pos) + which
        target = column[AFTER if which else OUT] + i * size
        if depth == 1:
            source = _locate(env, unit, target, g, column, work)
            if source == 0:
                return False
            if source != target:
                copy_bytes(target, source, size)
            continue
        mark_at = column[MARKS] + 2 * (slot * heads.size + env)
        mark = np.int64(read_byte(mark_at)) | np.int64(read_byte(mark_at + 1)) << 8
        age, kind = mark & (MAX_DEPTH - 1), (mark >> AGE_BITS) & 3
        if which:
            following = mark >> (AGE_BITS + 2)
            age = min(age + 1, depth - 1)
            if following != CHAINED:
                age, kind = 0, following
        state = _build(target, env, unit, age, kind, g, column, work)
        if state < 0:
            return False
        patch |= state << which
    if column[PATCH]:
        write_byte(column[PATCH] + i, np.uint8(patch))
    return True


@inlined
def _worker(call: Any, me: int, c: int) -> int:
    return np.int64(load64(call[WORKERS] + 8 * (me * call[N_COLUMNS] + c)))


@inlined
def _column(call: Any, c: int) -> Any:
    return carray(at(call[COLUMNS] + 8 * LINE * c), (LINE,), np.int64)


@inlined
def _forget(call: Any, me: int) -> None:
    """What is in a thread's rooms from its last batch may have been written over since."""
    for c in range(call[N_COLUMNS]):
        worker = _worker(call, me, c)
        if worker:
            work = carray(at(worker), (WORK,), np.int64)
            work[TURN] = 0
            for n in range(carray(at(_column(call, c)[GEO]), (GEOMETRY,), np.int64)[ROOMS]):
                work[ROOM + 5 * n + KEY] = 0


@inlined
def _take_part(address: int, me: int) -> None:
    """Fill rows of a batch until all are taken."""
    call = carray(at(address), (CALL,), np.int64)
    n, n_envs, words, order = call[COUNT], call[N_ENVS], call[WORDS], call[ORDER]
    slots, later, envs = (
        carray(at(call[SLOTS]), (n,), np.int64), carray(at(call[LATER]), (n,), np.int64), carray(at(call[ENVS]), (n,), np.int64)
    )  # fmt: skip
    ring = (
        carray(at(call[HEADS]), (n_envs,), np.int64), carray(at(call[ANCHORS]), (n_envs, words), np.uint32),
        carray(at(call[BITS]), (n_envs, words), np.uint64), carray(at(call[OLD_ANCHORS]), (n_envs,), np.uint32),
        carray(at(call[OLD_BITS]), (n_envs,), np.uint64), call[POS],
    )  # fmt: skip
    heads, anchors, bits, old_anchors, old_bits, pos = ring
    _forget(call, me)
    while True:
        start = take_ticket(address + 8 * TAKEN, call[CHUNK])
        if start >= n:
            break
        end = min(start + call[CHUNK], n)
        for c in range(call[N_COLUMNS]):
            column = _column(call, c)
            g = carray(at(column[GEO]), (GEOMETRY,), np.int64)
            work = carray(at(_worker(call, me, c)), (WORK,), np.int64)
            want = (1 if column[OUT] else 0) | (2 if column[AFTER] else 0)
            for m in range(start, end):
                if g[UNIT] <= AHEAD_BYTES and m + AHEAD < end:
                    i = m + AHEAD if order == 0 else np.int64(load64(order + 8 * (m + AHEAD)))
                    unit = unit_of(envs[i], slots[i], anchors, bits, old_anchors, old_bits, heads[envs[i]], pos)
                    _ask_ahead(envs[i], unit, g, column)
                i = m if order == 0 else np.int64(load64(order + 8 * m))
                if not _fill(i, want, slots, later, envs, ring, g, column, work):
                    call[DAMAGED] = i


@compiled(void(int64))
def begin(address: int) -> None:
    """Open a call to threads that ``serve``."""
    call = carray(at(address), (CALL,), np.int64)
    call[SEATS] = call[TAKEN] = 0
    call[DAMAGED] = -1
    take_ticket(address + 8 * OPEN, 1)


@compiled(void(int64, int64))
def finish(address: int, rows: int) -> None:
    """Fill what is left of a batch, wait for the threads that have begun, and close it; with no ``rows``, only close it."""
    if rows:
        _take_part(address, 0)
    else:
        take_ticket(address + 8 * TAKEN, carray(at(address), (CALL,), np.int64)[COUNT])
    # Whoever comes from now on finds it closed; whoever came before has to be waited for.
    take_ticket(address + 8 * OPEN, -1)
    # First who left, then who came: the other way round, one who comes late and leaves in between stands for one still at work.
    turns, left = 0, take_ticket(address + 8 * LEFT, 0)
    while take_ticket(address + 8 * CAME, 0) != left:
        left = take_ticket(address + 8 * LEFT, 0)
        turns += 1
        if turns > 2_000:
            let_others()


@compiled(void(int64))
def serve(pipe: int) -> None:
    """Help with every call whose address comes through a pipe, until that is closed. A thread's whole life, without the GIL."""
    message = np.zeros(1, np.int64)
    failures = 0
    while failures < 100:
        got = read_pipe(pipe, np.int64(message.ctypes.data), 8)
        if got == 0:
            return
        if got < 8:  # interrupted
            failures += 1
            continue
        failures = 0
        address = message[0]
        # Comes first, looks then: the one who closes does it the other way round.
        take_ticket(address + 8 * CAME, 1)
        if take_ticket(address + 8 * OPEN, 0):
            me = take_ticket(address + 8 * SEATS, 1) + 1
            if me < carray(at(address), (CALL,), np.int64)[THREADS]:
                _take_part(address, me)
        take_ticket(address + 8 * LEFT, 1)
