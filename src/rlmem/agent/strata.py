"""Which elements of a long container are looked at, what they stand for, and how far off that may be.

A few large elements among thousands of small ones hold most of it, and a few neighbours at four places miss them. So
elements are weighed first, all of them where there is time: what is seen of their size without looking into them. The
heaviest blocks of neighbours are then looked at for themselves, and of the others some of each weight for all.
Neighbours, as transitions share their observations with the next: what a block shares with the element before it is
not its own, so that one is looked at first and counts nothing.
"""

from . import children

#: Neighbours looked at together; the heaviest blocks, which stand for themselves; others, which stand for the rest.
BLOCK, HEAVIEST, SPREAD = 8, 4, 8
#: Parts of elements that are weighed in one container, and in a walk: 0.3 µs each.
MOST_PARTS, ALL_PARTS = 32_000, 64_000
#: Parts of one element that are weighed, and as how many of them it counts to look into a table or an object.
PARTS, OPENED = 16, 4
#: Longer tables and queues are not copied to be weighed.
COPIED = 2_000_000
GOLDEN = 0.6180339887
#: No sample is thought to be nearer than this share.
LEAST = 0.01
#: Half a range in standard deviations: 95 % for eight blocks.
DEVIATIONS = 2.4


class Block:
    """Neighbours that are looked at: their places, their weight and how many blocks like them they stand for."""

    __slots__ = ("count", "node", "scale", "start", "weight")

    def __init__(self, start, count, weight):
        self.start, self.count, self.weight = start, count, weight
        self.scale, self.node = 1.0, None


class Sample:
    """The blocks of one container that are looked at."""

    def __init__(self, read, length, storages, parts):
        self.length = length
        self.parts, blocks = _weighed(read, length, storages, min(parts, MOST_PARTS))
        #: How many blocks there are for each that was weighed.
        self.times = self.length / max(1, sum(block.count for block in blocks))
        blocks.sort(key=lambda block: -block.weight)
        self.heaviest, rest = blocks[:HEAVIEST], blocks[HEAVIEST:]
        self.rest = len(rest)
        step = max(1.0, len(rest) / SPREAD)
        self.spread = [rest[int((index + 0.5) * step)] for index in range(min(SPREAD, len(rest)))]
        weight, seen = sum(block.weight for block in rest), sum(block.weight for block in self.spread)
        for block in self.heaviest:
            block.scale = self.times
        for block in self.spread:
            block.scale = self.times * (weight / seen if seen else len(rest) / len(self.spread))
        average = sum(block.weight for block in blocks) / max(1, len(blocks))
        self.unlike = (
            sum((block.weight - average) ** 2 for block in blocks) / max(1, len(blocks) - 1) / max(1, len(blocks))
        )

    def blocks(self):
        """All that are looked at, in order."""
        return sorted(self.heaviest + self.spread, key=lambda block: block.start)

    def margins(self, totals):
        """How much less and more the container may hold than was reckoned, of what was found in each of its blocks.

        ``totals`` are bytes by block, for itself and not for those it stands for.
        """
        count = len(self.spread)
        if self.times <= 1 and self.rest <= count:
            return 0, 0
        reckoned = sum(totals[block] * block.scale for block in self.spread + self.heaviest)
        held, weight = sum(totals[block] for block in self.spread), sum(block.weight for block in self.spread)
        ratio = held / weight if weight else 0.0
        off = sum((totals[block] - ratio * block.weight) ** 2 for block in self.spread) / max(1, count - 1)
        number = self.rest * self.times
        variance = number * number * (1 - count / max(count, number)) * off / max(1, count)
        more = 0.0
        if self.times > 1:  # blocks that nobody has weighed may be unlike those that somebody has
            total = (self.rest + len(self.heaviest)) * self.times
            variance += (ratio * total) ** 2 * self.unlike * (1 - 1 / self.times)
            more = 3 * self.times * max(totals.values(), default=0)
        half = max(DEVIATIONS * variance**0.5, LEAST * reckoned)
        return int(half), int(half + more)


def reader(item):
    """A function that gives a container's elements from one place up to another; None for one that is too long for it.

    Lists and tuples are read where they are, others from a copy of their references.
    """
    for kind in (list, tuple):
        if children.is_a(item, kind):
            return lambda begin, end: kind.__getitem__(item, slice(begin, end))
    if children.length(item) > COPIED:
        return None
    try:
        if children.is_a(item, dict):
            found = list(dict.values(item))
        else:
            found = list(next(kind for kind in children.CONTAINERS if children.is_a(item, kind)).__iter__(item))
    except RuntimeError:  # changed meanwhile
        return None
    return lambda begin, end: found[begin:end]


def _weighed(read, length, storages, most):
    """Blocks of neighbours with their weights: all of them, or as many evenly spread as there is time for."""
    first = [_weight(value, storages) for value in read(0, BLOCK)]
    cost = sum(parts for _, parts in first) / max(1, len(first))
    number = -(-length // BLOCK)
    wanted = min(number, max(HEAVIEST + SPREAD, int(most / max(1.0, cost) / BLOCK)))
    step, spent, blocks = number / wanted, 0, []
    for index in range(wanted):
        # Somewhere in its part and not at its beginning: what comes again in a rhythm is met as often as others.
        start = int((index + (index * GOLDEN) % 1 * (step > 1)) * step) * BLOCK
        weight, found = 0, read(start, start + BLOCK)
        for value in found:
            own, parts = _weight(value, storages)
            weight, spent = weight + own, spent + parts
        if found:
            blocks.append(Block(start, len(found), weight))
    return spent, blocks


def _weight(value, storages, inner=True):
    """What is seen of an object's size, and how many parts were looked at for it."""
    kind = type(value)
    if storages.kinds and issubclass(kind, storages.kinds):
        return storages.own_bytes(value) + 112, 1
    weight, parts = children.size(value), 1
    if not inner or issubclass(kind, children.PLAIN):
        return weight, parts
    parts = 1 if issubclass(kind, (list, tuple)) else OPENED
    for part in _parts(value):
        own, _ = _weight(part, storages, inner=False)
        weight, parts = weight + own, parts + 1
    return weight, parts


def _parts(value):
    for kind in (list, tuple):
        if children.is_a(value, kind):
            return kind.__getitem__(value, slice(PARTS))
    if children.is_a(value, dict):
        return [part for _, part in children.copied(value)[:PARTS]] if dict.__len__(value) <= children.LONG else []
    if children.is_a(value, children.CONTAINERS):
        return []
    return [part for _, part in (children.attributes(value) or ())[:PARTS]]
