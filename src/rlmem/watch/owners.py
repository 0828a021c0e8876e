"""Owners over time: which have an end, which have not, and how fast each grows.

An owner has an end when it was allocated whole (an array, a tensor) or says its capacity (a store, a bounded queue). A
list, a table or an array that is replaced by a larger one each time has none. Entries that come one by one under the
same name (``cache['a']``, ``cache['b']``) are one owner, ``cache``, however each of them is bounded.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from statistics import median

from rlmem.agent.nodes import MOST_ROWS
from rlmem.core.holdings import Holding
from rlmem.core.moments import Growth, Moment
from rlmem.watch.growth import ALPHA, drifts, is_steady, pairwise_slopes, rates_of

#: As many looks at owners are enough to tell a trend; more are thinned out.
MOST_LOOKS = 64
#: A count that rose this often and never fell does so by more than chance (1 in 64).
RISES = 6
#: More entries than this under one name are kept as one line.
MANY = 16
FIXED_KINDS = frozenset({"array", "tensor", "store"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """One owner in one look."""

    at_s: float
    nbytes: int
    resident_bytes: int
    filled: int | None = None
    capacity: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Owner:
    """One owner over time, the latest look last."""

    name: str
    kind: str
    type: str
    device: str
    points: tuple[Point, ...]
    is_bounded: bool
    keeps_graphs: bool
    growth: Growth
    #: The line of the program that adds to it, where that is known.
    added_at: str = ""

    @property
    def now(self) -> Point:
        """As it was last seen."""
        return self.points[-1]

    @property
    def gained_bytes(self) -> int:
        """What it gained since it was first seen."""
        return self.points[-1].resident_bytes - self.points[0].resident_bytes

    @property
    def keeps_rising(self) -> bool:
        """Whether it rose from look to look and never fell: too little to call it a leak, enough to name one seen."""
        # An array that was replaced while it was looked at shows its size, but no pages.
        series = [[point.resident_bytes for point in self.points], [point.nbytes for point in self.points]]
        counts = [point.filled for point in self.points if point.filled is not None]
        return any(_only_rises(values) for values in (*series, *([counts] if len(counts) == len(self.points) else [])))


def looks(moments: Iterable[Moment]) -> list[Moment]:
    """The moments in which owners were asked for, at most ``MOST_LOOKS`` of them, evenly thinned, with the last."""
    found = [moment for moment in moments if moment.holdings is not None]
    if len(found) <= MOST_LOOKS:
        return found
    step = (len(found) - 1) / (MOST_LOOKS - 1)
    return [found[round(index * step)] for index in range(MOST_LOOKS)]


def read_owners(seen: Sequence[Moment]) -> tuple[Owner, ...]:
    """Every owner that the last look still shows, with its history."""
    if not seen:
        return ()
    tracks: dict[str, list[tuple[float, Holding]]] = {}
    for moment, found in zip(seen, name_holdings(seen), strict=True):
        for name, holding in found.items():
            tracks.setdefault(name, []).append((moment.at_s, holding))
    last = seen[-1].at_s
    return tuple(_owner(name, track) for name, track in tracks.items() if track[-1][0] == last)


def name_holdings(seen: Sequence[Moment]) -> list[dict[str, Holding]]:
    """The owners of each look by name; entries that come one by one are one owner in all of them."""
    merged = _merged([moment.holdings or () for moment in seen])
    return [_named(moment.holdings or (), merged) for moment in seen]


def keeps_graphs(holding: Holding) -> bool:
    """Whether its tensors still have the autograd graph they came from."""
    return holding.kind == "graph" or bool(holding.graphs) or "graph" in holding.note or "grad_fn" in holding.note


def bounded_bytes(seen: Sequence[Moment], owners: Iterable[Owner], times: Sequence[float]) -> list[float]:
    """Resident bytes of all owners with an end, at given times within the looks; straight lines between the looks."""
    names = {owner.name: owner for owner in owners if owner.is_bounded and owner.device == "ram"}
    at = [moment.at_s for moment in seen]
    totals = [0.0] * len(at)
    places = {time: index for index, time in enumerate(at)}
    for owner in names.values():
        for point in owner.points:
            totals[places[point.at_s]] += point.resident_bytes
    return [_between(at, totals, time) for time in times]


def _between(xs: Sequence[float], ys: Sequence[float], x: float) -> float:
    right = min(len(xs) - 1, bisect_right(xs, x))
    left = max(0, right - 1)
    if xs[right] == xs[left]:
        return ys[right]
    share = min(1.0, max(0.0, (x - xs[left]) / (xs[right] - xs[left])))
    return ys[left] + share * (ys[right] - ys[left])


@lru_cache(maxsize=16384)
def _prefixes(path: str) -> tuple[tuple[str, str], ...]:
    """What stands before each bracket of a path, and the bracket.

    >>> _prefixes("env.envs[0].frames['a']")
    (('env.envs', '[0]'), ('env.envs[0].frames', "['a']"))
    """
    return tuple((path[: match.start()], match[0]) for match in re.finditer(r"\[[^\]]*\]", path))


def _merged(all_holdings: Sequence[tuple[Holding, ...]]) -> frozenset[str]:
    """Names under which entries come one by one: their number changes, or they are elements of an unbounded container."""
    least: dict[str, int] = {}
    most: dict[str, int] = {}
    unbounded: set[str] = set()
    for holdings in all_holdings:
        words: dict[str, set[str]] = {}
        for holding in holdings:
            for prefix, word in _prefixes(holding.path):
                words.setdefault(prefix, set()).add(word)
            if holding.kind == "container" and holding.capacity is None:
                unbounded.add(holding.path)
        for prefix in words.keys() | most.keys():
            count = len(words.get(prefix, ()))
            least[prefix] = min(least.get(prefix, count), count)
            most[prefix] = max(most.get(prefix, count), count)
    changing = {prefix for prefix, count in most.items() if count > max(1, least[prefix])}
    return frozenset(changing | (unbounded & most.keys()))


def _named(holdings: Sequence[Holding], merged: frozenset[str]) -> dict[str, Holding]:
    """The holdings of one look by owner, entries of the same owner added up."""
    groups: dict[str, list[Holding]] = {}
    is_cut = len(holdings) >= MOST_ROWS
    for holding in holdings:
        outer = next((prefix for prefix, _ in _prefixes(holding.path) if prefix in merged), holding.path)
        groups.setdefault(outer, []).append(holding)
    return {
        name: parts[0] if len(parts) == 1 and parts[0].path == name else add_up(name, parts, is_cut=is_cut)
        for name, parts in groups.items()
    }


def add_up(name: str, parts: Sequence[Holding], *, is_cut: bool = False) -> Holding:
    """Entries of one owner as one; where the agent left rows out, those not shown are taken to be like the others."""
    own = next((part for part in parts if part.path == name), None)
    entries = {word for part in parts for prefix, word in _prefixes(part.path) if prefix == name}
    filled = own.filled if own and own.filled is not None else len(entries)
    scale = filled / len(entries) if is_cut and 0 < len(entries) < filled else 1.0
    fills = {(part.filled, part.capacity) for part in parts if part is not own}
    rows, capacity = fills.pop() if len(fills) == 1 else (None, None)
    return Holding(
        path=name,
        kind="container" if capacity is None else "store",
        type=own.type if own and own.type else "container",
        nbytes=round(sum(part.nbytes * (1.0 if part is own else scale) for part in parts)),
        resident_bytes=round(sum(part.resident_bytes * (1.0 if part is own else scale) for part in parts)),
        filled=filled if capacity is None else rows,
        capacity=capacity,
        estimated=scale > 1 or any(part.estimated for part in parts),
        device=parts[0].device,
        note=next((part.note for part in parts if part.note), ""),
        graphs=sum(part.graphs for part in parts),
        graph_bytes=sum(part.graph_bytes for part in parts),
        added_at=next((part.added_at for part in parts if part.added_at), ""),
    )


def fold(holdings: Sequence[Holding]) -> tuple[Holding, ...]:
    """The same with many entries of one owner as one, to be kept for long: a table of 400 figures is one line."""
    counts: dict[str, set[str]] = {}
    for holding in holdings:
        for prefix, word in _prefixes(holding.path)[:1]:
            counts.setdefault(prefix, set()).add(word)
    return tuple(_named(holdings, frozenset(prefix for prefix, words in counts.items() if len(words) > MANY)).values())


def _owner(name: str, track: Sequence[tuple[float, Holding]]) -> Owner:
    points = tuple(
        Point(
            at_s=at_s,
            nbytes=holding.nbytes,
            resident_bytes=holding.resident_bytes,
            filled=holding.filled,
            capacity=holding.capacity,
        )
        for at_s, holding in track
    )
    last = track[-1][1]
    keeps = keeps_graphs(last)
    is_bounded = not keeps and _has_end(last, points)
    # An array that is replaced again and again has often moved before its pages are looked at.
    is_replaced = last.kind in FIXED_KINDS and not is_bounded
    return Owner(
        name=name,
        kind=last.kind,
        type=last.type,
        device=last.device,
        points=points,
        is_bounded=is_bounded,
        keeps_graphs=keeps,
        added_at=last.added_at,
        growth=_growth(name, points, estimated=last.estimated, by_size=is_replaced),
    )


def _has_end(last: Holding, points: Sequence[Point]) -> bool:
    if last.capacity is not None:
        return True
    grown = sum(after.nbytes > before.nbytes for before, after in pairwise(points))
    if last.kind in FIXED_KINDS:
        return grown < 3  # replaced by a larger one again and again (numpy.append), it is a list in disguise
    # A list of arrays that neither gets longer nor allocates more only fills what it has.
    return len(points) > 1 and not grown and len({point.filled for point in points}) == 1


def _growth(name: str, points: Sequence[Point], *, estimated: bool, by_size: bool) -> Growth:
    times = [point.at_s for point in points]
    if len(points) < 2 or times[-1] <= times[0]:
        return Growth(name=name, bytes_per_s=0.0, low=0.0, high=0.0, significant=False)
    sizes = [float(point.nbytes if by_size else point.resident_bytes) for point in points]
    slopes = pairwise_slopes((times, sizes))
    per_s, low, high = median(slopes), slopes[len(slopes) // 20], slopes[-1 - len(slopes) // 20]
    significant = rises(times, sizes) or rises(times, [float(point.nbytes) for point in points])
    items = None
    if all(point.filled is not None for point in points):
        counts = [float(point.filled or 0) for point in points]
        items = median(pairwise_slopes((times, counts)))
        significant = significant or rises(times, counts)
        if counts[-1] > 0 and items > 0 and (estimated or per_s <= 0):  # sampled sizes scatter, the count does not
            per_s = items * sizes[-1] / counts[-1]
            low, high = min(low, per_s), max(high, per_s)
    return Growth(name=name, bytes_per_s=per_s, low=low, high=high, significant=significant, items_per_s=items)


def _only_rises(values: Sequence[int]) -> bool:
    changes = [after - before for before, after in pairwise(values)]
    return len(changes) > 1 and min(changes) >= 0 and sum(change > 0 for change in changes) > len(changes) // 2


def rises(times: Sequence[float], values: Sequence[float]) -> bool:
    """Whether a short, nearly noiseless series rises all along: never falls, or drifts up through its falls."""
    rates = rates_of((times, values))
    if sum(rate > 0 for rate in rates) < RISES:
        return False
    return (min(rates) >= 0 or drifts(rates, ALPHA)) and is_steady(rates)
