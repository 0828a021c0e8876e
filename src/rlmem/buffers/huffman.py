"""A Huffman coder with one table for a whole column: what differences of neighbouring pixels need, and quick to undo.

General compressors bring a table with every block, look for matches where there are none, and decode a symbol at a time.
Here the table is made once from the data and shared by all blocks; one look into it gives up to six symbols, and four
streams are decoded side by side, since each look has to wait for the one before it.
"""

from __future__ import annotations

import heapq

import numpy as np
import numpy.typing as npt
from numba import int64, uint8, void

from rlmem.buffers.native import compiled, inlined, load64, move_bytes, read_byte, store64, write_byte

Bytes = npt.NDArray[np.uint8]
Ints = npt.NDArray[np.int64]

#: The longest code. A table of this many bits, eight bytes an entry, is as much as a first-level cache, but few of its
#: entries are looked at often; with a bit less, the codes that rare bytes need would cost all others two percent.
LONGEST = 12
#: Symbols one look may give, and looks between two refills of 57 bits or more.
MOST, LOOKS = 6, 4
#: Bytes from the end of a stream where a round of looks, eight bytes written at each, could go over it.
MARGIN = MOST * LOOKS + 8
#: A block starts with the sizes of its first three streams, in 32 bits each.
HEAD = 12
#: Where the parts of a table are: entries of several symbols, entries of one, codes.
SINGLE, CODES, TABLE_BYTES = (1 << LONGEST) * 8, (1 << LONGEST) * 10, (1 << LONGEST) * 10 + 256 * 8


def code_lengths(counts: Ints) -> Bytes:
    """The bits of each byte's code; every byte has one, none is longer than the table allows."""
    weights = [int(count) + 1 for count in counts]
    while True:
        heap = [(weight, symbol) for symbol, weight in enumerate(weights)]
        heapq.heapify(heap)
        above = [0] * 511
        for node in range(256, 511):
            low = heapq.heappop(heap)
            high = heapq.heapreplace(heap, (low[0] + heap[0][0], node))
            above[low[1]] = above[high[1]] = node
        depths = [0] * 511
        for node in range(509, -1, -1):
            depths[node] = depths[above[node]] + 1
        if max(depths[:256]) <= LONGEST:
            return np.array(depths[:256], np.uint8)
        weights = [weight // 2 + 1 for weight in weights]


def coded_bytes(counts: Ints, lengths: Bytes) -> float:
    """What bytes that occur so often come to, without the head of a block."""
    return float((counts * lengths).sum()) / 8


def least_bytes(counts: Ints) -> float:
    """What no code of single bytes can go below: their entropy."""
    some = counts[counts > 0].astype(np.float64)
    return float((some * np.log2(some.sum() / some)).sum()) / 8


@compiled(void(uint8[::1], uint8[::1]))
def _fill_table(lengths: Bytes, table: Bytes) -> None:
    base = np.int64(table.ctypes.data)
    code = np.int64(0)
    for length in range(1, LONGEST + 1):
        for symbol in range(256):
            if lengths[symbol] != length:
                continue
            turned = np.int64(0)  # streams are read from the lowest bit
            for bit in range(length):
                turned |= ((code >> bit) & 1) << (length - 1 - bit)
            store64(base + CODES + symbol * 8, np.uint64(turned | (length << 32)))
            place = turned
            while place < (1 << LONGEST):
                write_byte(base + SINGLE + 2 * place, np.uint8(symbol))
                write_byte(base + SINGLE + 2 * place + 1, np.uint8(length))
                place += 1 << length
            code += 1
        code <<= 1
    for place in range(1 << LONGEST):
        rest, used, count, entry = place, 0, 0, np.int64(0)
        while count < MOST:
            length = np.int64(read_byte(base + SINGLE + 2 * rest + 1))
            if used + length > LONGEST:
                break
            entry |= np.int64(read_byte(base + SINGLE + 2 * rest)) << (8 * count)
            rest, used, count = rest >> length, used + length, count + 1
        store64(base + 8 * place, np.uint64(entry | (count << 48) | (used << 56)))


def make_table(lengths: Bytes) -> Bytes:
    """What coding and decoding need, from the lengths of the codes."""
    table = np.zeros(TABLE_BYTES, np.uint8)
    _fill_table(lengths, table)
    return table


@compiled(void(int64, int64, int64[::1]))
def count_bytes(address: int, size: int, counts: Ints) -> None:
    """Add up how often each byte occurs."""
    for i in range(size):
        counts[read_byte(address + i)] += 1


@inlined
def _put(word: int, bits: int, symbol: int, codes: int) -> tuple[int, int]:
    entry = load64(codes + np.int64(symbol) * 8)
    return word | ((entry & np.uint64(0xFFFFFFFF)) << bits), bits + (entry >> np.uint64(32))


@inlined
def _flush(place: int, word: int, bits: int) -> tuple[int, int, int]:
    store64(place, word)
    whole = bits >> np.uint64(3)
    return place + np.int64(whole), word >> (whole << np.uint64(3)), bits & np.uint64(7)


@compiled(int64(int64, int64, int64, uint8[::1]))
def encode(source: int, size: int, table: int, out: Bytes) -> int:
    """Code bytes (nine at least) at an address into ``out``; the size they took.

    ``out`` has room for three halves of them and 1,024 bytes: four streams are written side by side, then moved together.
    """
    codes = table + CODES
    part = (size + 3) // 4
    base = np.int64(out.ctypes.data)
    room = part + part // 2 + 64
    a0 = a1 = a2 = a3 = np.uint64(0)
    n0 = n1 = n2 = n3 = np.uint64(0)
    p0, p1, p2, p3 = base + HEAD, base + room, base + 2 * room, base + 3 * room
    s0, s1, s2, s3 = source, source + part, source + 2 * part, source + 3 * part
    last = size - 3 * part
    i = 0
    while i + LOOKS <= last:
        for j in range(i, i + LOOKS):
            a0, n0 = _put(a0, n0, read_byte(s0 + j), codes)
            a1, n1 = _put(a1, n1, read_byte(s1 + j), codes)
            a2, n2 = _put(a2, n2, read_byte(s2 + j), codes)
            a3, n3 = _put(a3, n3, read_byte(s3 + j), codes)
        p0, a0, n0 = _flush(p0, a0, n0)
        p1, a1, n1 = _flush(p1, a1, n1)
        p2, a2, n2 = _flush(p2, a2, n2)
        p3, a3, n3 = _flush(p3, a3, n3)
        i += LOOKS
    for j in range(i, part):
        a0, n0 = _put(a0, n0, read_byte(s0 + j), codes)
        a1, n1 = _put(a1, n1, read_byte(s1 + j), codes)
        a2, n2 = _put(a2, n2, read_byte(s2 + j), codes)
        p0, a0, n0 = _flush(p0, a0, n0)
        p1, a1, n1 = _flush(p1, a1, n1)
        p2, a2, n2 = _flush(p2, a2, n2)
        if j < last:
            a3, n3 = _put(a3, n3, read_byte(s3 + j), codes)
            p3, a3, n3 = _flush(p3, a3, n3)
    at = base + HEAD
    for stream in range(4):
        start = at if stream == 0 else base + stream * room
        end = p0 + (n0 > 0)
        if stream == 1:
            end = p1 + (n1 > 0)
        elif stream == 2:
            end = p2 + (n2 > 0)
        elif stream == 3:
            end = p3 + (n3 > 0)
        if stream:
            move_bytes(at, start, end - start)
        if stream < 3:
            for byte in range(4):
                write_byte(base + 4 * stream + byte, np.uint8(((end - start) >> (8 * byte)) & 255))
        at += end - start
    return at - base


@inlined
def _look(word: int, table: int) -> int:
    return load64(table + np.int64((word & np.uint64((1 << LONGEST) - 1)) << np.uint64(3)))


@inlined
def _refill(stream: int, bit: int) -> int:
    return load64(stream + np.int64(bit >> np.uint64(3))) >> (bit & np.uint64(7))


@inlined
def _finish(stream: int, length: int, bit: int, place: int, end: int, table: int) -> bool:
    """Decode the rest of one stream; whether it ends where its bytes do."""
    limit = np.uint64(length * 8)
    while place <= end - MARGIN and bit <= limit:
        word = _refill(stream, bit)
        for _ in range(LOOKS):
            entry = _look(word, table)
            store64(place, entry)
            word >>= entry >> np.uint64(56)
            bit += entry >> np.uint64(56)
            place += np.int64((entry >> np.uint64(48)) & np.uint64(255))
    while place < end and bit <= limit:
        single = table + SINGLE + 2 * np.int64(_refill(stream, bit) & np.uint64((1 << LONGEST) - 1))
        write_byte(place, read_byte(single))
        bit += np.uint64(read_byte(single + 1))
        place += 1
    return place == end and np.int64((bit + np.uint64(7)) >> np.uint64(3)) == length


@inlined
def decode(address: int, coded: int, target: int, size: int, table: int) -> bool:
    """Decode ``size`` bytes to an address; False when the streams do not end where they should."""
    part = (size + 3) // 4
    low = np.uint64(0xFFFFFFFF)
    l0, l1, l2 = (
        np.int64(load64(address) & low),
        np.int64(load64(address + 4) & low),
        np.int64(load64(address + 8) & low),
    )
    l3 = coded - HEAD - l0 - l1 - l2
    if coded < HEAD or l3 < 0 or l0 > coded or l1 > coded or l2 > coded:
        return False
    q0 = address + HEAD
    q1, q2, q3 = q0 + l0, q0 + l0 + l1, q0 + l0 + l1 + l2
    b0 = b1 = b2 = b3 = np.uint64(0)
    o0, o1, o2, o3 = target, target + part, target + 2 * part, target + 3 * part
    e0, e1, e2, e3 = o1 - MARGIN, o2 - MARGIN, o3 - MARGIN, target + size - MARGIN
    m0, m1, m2, m3 = np.uint64(8 * l0), np.uint64(8 * l1), np.uint64(8 * l2), np.uint64(8 * l3)
    count, used, mask = np.uint64(48), np.uint64(56), np.uint64(255)
    while o0 <= e0 and o1 <= e1 and o2 <= e2 and o3 <= e3:
        if b0 > m0 or b1 > m1 or b2 > m2 or b3 > m3:
            return False
        w0, w1, w2, w3 = _refill(q0, b0), _refill(q1, b1), _refill(q2, b2), _refill(q3, b3)
        for _ in range(LOOKS):
            x0, x1, x2, x3 = _look(w0, table), _look(w1, table), _look(w2, table), _look(w3, table)
            store64(o0, x0)
            store64(o1, x1)
            store64(o2, x2)
            store64(o3, x3)
            k0, k1, k2, k3 = x0 >> used, x1 >> used, x2 >> used, x3 >> used
            w0, w1, w2, w3 = w0 >> k0, w1 >> k1, w2 >> k2, w3 >> k3
            b0, b1, b2, b3 = b0 + k0, b1 + k1, b2 + k2, b3 + k3
            o0 += np.int64((x0 >> count) & mask)
            o1 += np.int64((x1 >> count) & mask)
            o2 += np.int64((x2 >> count) & mask)
            o3 += np.int64((x3 >> count) & mask)
    return (
        _finish(q0, l0, b0, o0, target + part, table)
        and _finish(q1, l1, b1, o1, target + 2 * part, table)
        and _finish(q2, l2, b2, o2, target + 3 * part, table)
        and _finish(q3, l3, b3, o3, target + size, table)
    )
