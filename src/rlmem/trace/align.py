"""Recordings of one update at small sizes, extended operation by operation to the size that is wanted.

The same update at two batch sizes runs the same operations, and each of them makes the same tensors, larger. So every
tensor has a line of its own, and the update at any size can be replayed: its curve, its peak, and who holds what there.
Extending the *peak* would be wrong, since another operation is at the peak of a large batch than of a small one.

Where the sequences differ (a loop over the steps of an episode, a last minibatch that is not full) the common part is
aligned by names. What an operation without a partner made is sized like its equals; and the bytes alive at every
aligned operation have a line too, which holds whatever lies between them.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from difflib import SequenceMatcher
from fractions import Fraction

from rlmem.agent.protocol import RecordingFacts
from rlmem.errors import AnalysisError


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """An operation: what it made (storage, bytes), which storages were freed before it, what its kernel works on."""

    op: str
    made: tuple[tuple[int, int], ...] = ()
    freed: tuple[int, ...] = ()
    work: tuple[int, ...] = ()

    @property
    def kind(self) -> tuple[str, int, int]:
        """Operations of one kind can be each other's partners."""
        return self.op, len(self.made), len(self.work)


@dataclass(frozen=True, slots=True, kw_only=True)
class Recording:
    """One update at a size along the axis (the batch), with what was alive before it."""

    size: int
    before: tuple[tuple[int, int], ...] = ()
    events: tuple[Event, ...] = ()

    @classmethod
    def from_plain(cls, size: int, plain: RecordingFacts) -> Recording:
        """From the recorder's lists."""
        events = (
            Event(
                op=event[0],
                made=tuple((int(storage), int(nbytes)) for storage, nbytes in event[1]),
                freed=tuple(event[2]),
                work=tuple(event[3]) if len(event) > 3 else (),
            )
            for event in plain["events"]
        )
        before = tuple((int(storage), int(nbytes)) for storage, nbytes in plain.get("before", ()))
        return cls(size=size, before=before, events=tuple(events))

    def live(self) -> Iterator[int]:
        """Bytes alive after every operation."""
        sizes = dict(self.before)
        total = sum(sizes.values())
        for event in self.events:
            for storage in event.freed:
                total -= sizes.pop(storage, 0)
            for storage, nbytes in event.made:
                total += nbytes - sizes.get(storage, 0)
                sizes[storage] = nbytes
            yield total


@dataclass(frozen=True, slots=True, kw_only=True)
class Peak:
    """Where most is alive: the operation, the bytes, and the bytes by the operation that made them, largest first."""

    index: int
    op: str
    nbytes: int
    holders: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Timeline:
    """The update at the wanted size, and how far it can be trusted."""

    recording: Recording
    #: Operations without a partner, of all.
    unaligned: int
    #: The largest extended live curve at aligned operations; equals the peak when everything is aligned.
    anchored_bytes: int
    #: Bytes by which tensors that could only be guessed may be off, at the worst moment.
    uncertain_bytes: int

    @property
    def curve(self) -> list[int]:
        """Bytes alive after every operation."""
        return list(self.recording.live())

    def peak(self) -> Peak:
        """The highest point of the curve, and what is alive there."""
        curve = self.curve
        if not curve:
            return Peak(index=0, op="", nbytes=sum(nbytes for _, nbytes in self.recording.before))
        index = max(range(len(curve)), key=curve.__getitem__)
        alive = {storage: ("before", nbytes) for storage, nbytes in self.recording.before}
        for event in self.recording.events[: index + 1]:
            for storage in event.freed:
                alive.pop(storage, None)
            alive.update({storage: (event.op, nbytes) for storage, nbytes in event.made})
        holders: dict[str, int] = {}
        for op, nbytes in alive.values():
            holders[op] = holders.get(op, 0) + nbytes
        ordered = dict(sorted(holders.items(), key=lambda item: -item[1]))
        return Peak(index=index, op=self.recording.events[index].op, nbytes=curve[index], holders=ordered)


def at(points: Sequence[tuple[int, int]], size: int) -> int:
    """A quantity seen at small sizes, extended: a line; a curve through three points that are not on one.

    Two points whose line starts below zero belong to something that grows faster than the size, such as a table of
    every row against every other; it is extended by its power.

    >>> at([(8, 100), (16, 180)], 512), at([(8, 64), (16, 256)], 32), at([(1, 2), (2, 5), (3, 10)], 10)
    (5140, 1024, 101)
    """
    known = sorted(dict(points).items())
    if len(known) == 1 or len({value for _, value in known}) == 1:
        return known[-1][1]
    if len(known) > 2 and not _straight(known):
        known = known[-3:]
    else:
        known = known[-2:]
        (x, y), (far, top) = known
        if 0 < y < top and y * far < top * x:
            power = math.log(top / y) / math.log(far / x)
            return round(top * math.pow(size / far, power))
    total = Fraction(0)
    for x, y in known:
        part = Fraction(y)
        for other, _ in known:
            if other != x:
                part *= Fraction(size - other, x - other)
        total += part
    return max(0, round(total))


def _straight(points: Sequence[tuple[int, int]]) -> bool:
    (x, y), (far, top) = points[0], points[-1]
    return all((value - y) * (far - x) == (top - y) * (place - x) for place, value in points)


def extend(recordings: Sequence[Recording], size: int) -> Timeline:
    """The update at ``size``, from recordings at two or more others."""
    known = sorted(recordings, key=lambda one: one.size)
    if len({one.size for one in known}) < 2:
        raise AnalysisError("an update can be extended from recordings at two sizes or more")
    base = known[-1]
    partners = [_partners(one, base) for one in known[:-1]]
    events: list[Event] = []
    lines: dict[int, int] = {}
    guesses: list[tuple[int, int]] = []
    for index, event in enumerate(base.events):
        met = [
            (one, one.events[pairs[index]]) for one, pairs in zip(known[:-1], partners, strict=True) if index in pairs
        ]
        if not met:
            guesses += [(index, place) for place in range(len(event.made))]
            events.append(event)
            continue
        seen = [*met, (base, event)]
        made = []
        for place, (storage, nbytes) in enumerate(event.made):
            made.append((storage, at([(one.size, other.made[place][1]) for one, other in seen], size)))
            lines[nbytes] = made[-1][1]
        work = [at([(one.size, other.work[place]) for one, other in seen], size) for place in range(len(event.work))]
        events.append(replace(event, made=tuple(made), work=tuple(work)))
    uncertain = _guess(base, events, guesses, lines, size)
    before = _before(known, size)
    recording = Recording(size=size, before=before, events=tuple(events))
    unaligned = sum(all(index not in pairs for pairs in partners) for index in range(len(base.events)))
    return Timeline(
        recording=recording,
        unaligned=unaligned,
        anchored_bytes=_anchored(known, partners, size) if unaligned else max(recording.live(), default=0),
        uncertain_bytes=uncertain,
    )


def _partners(one: Recording, base: Recording) -> dict[int, int]:
    """Operations of ``base`` with the operation of ``one`` that is the same step of the same update."""
    ours, theirs = [event.kind for event in one.events], [event.kind for event in base.events]
    shortest = min(len(ours), len(theirs))
    head = next((index for index in range(shortest) if ours[index] != theirs[index]), shortest)
    room = shortest - head
    tail = next((index for index in range(room) if ours[-1 - index] != theirs[-1 - index]), room)
    pairs = {index: index for index in range(head)}
    pairs |= {len(theirs) - 1 - index: len(ours) - 1 - index for index in range(tail)}
    middle = SequenceMatcher(
        None, ours[head : len(ours) - tail], theirs[head : len(theirs) - tail], autojunk=False
    ).get_matching_blocks()
    for block in middle:
        pairs |= {head + block.b + step: head + block.a + step for step in range(block.size)}
    return pairs


def _before(known: Sequence[Recording], size: int) -> tuple[tuple[int, int], ...]:
    base = known[-1]
    alike = [one for one in known if len(one.before) == len(base.before)]
    return tuple(
        (storage, at([(one.size, one.before[place][1]) for one in alike], size))
        for place, (storage, _) in enumerate(base.before)
    )


def _guess(
    base: Recording, events: list[Event], guesses: Sequence[tuple[int, int]], lines: Mapping[int, int], size: int
) -> int:
    """Size what has no partner like its equals, else with the batch; the most bytes alive that were guessed so."""
    guessed: dict[int, int] = {}
    for index, place in guesses:
        made = list(events[index].made)
        storage, nbytes = made[place]
        wanted = lines.get(nbytes)
        if wanted is None:
            wanted = nbytes * size // base.size
            guessed[storage] = abs(wanted - nbytes)
        made[place] = storage, wanted
        events[index] = replace(events[index], made=tuple(made))
    worst = alive = 0
    for event in events if guessed else ():
        alive -= sum(guessed.get(storage, 0) for storage in event.freed)
        alive += sum(guessed.get(storage, 0) for storage, _ in event.made)
        worst = max(worst, alive)
    return worst


def _anchored(known: Sequence[Recording], partners: Sequence[Mapping[int, int]], size: int) -> int:
    """The largest value of the live curve where it has a line of its own."""
    curves = [list(one.live()) for one in known]
    most = 0
    for index in set.intersection(*(set(pairs) for pairs in partners)):
        points = [(one.size, curve[pairs[index]]) for one, curve, pairs in zip(known, curves, partners, strict=False)]
        most = max(most, at([*points, (known[-1].size, curves[-1][index])], size))
    return most
