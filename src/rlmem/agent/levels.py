"""What a loop holds after each of its updates, and which of its containers get longer: how a leak shows itself.

Levels are cheap and taken all the time. A few *looks* in between also read what grows and will stop: big arrays that
fill, bounded deques and caches; and the length of every container. Judged by the parent (``rlmem.trace.growth``); here
it is only decided whether the dry run should go on to see more.
"""

import functools
import gc
import os
import sys
import time
from collections import deque

from . import children, growing, lazy, proc, roots
from .arrays import span
from .state import OWN

#: Levels kept, evenly spread; taken not more often than this.
MOST_LEVELS, EVERY_S = 256, 0.02
#: So many looks in any case, seconds between them, and the most of the time that more of them may take.
LOOKS, LOOK_S, LOOK_SHARE = 4, 0.7, 0.15
#: Of classes with more objects than this, attributes are not looked through.
MOST_OBJECTS = 500
#: A loop is watched for so long, and for so long if its level rises, without the time it waited for a core; what is left
#: of the job's time then.
LEAST_S, LONGEST_S, LEFT_S = 2.5, 12.0, 4.0
#: After so many bytes more than at first nothing is left to be learned: nothing settles like that, nor, when all looks
#: were taken and the collector was called, like this.
ENOUGH, CLEAR = 256 << 20, 32 << 20
#: Shorter containers are not followed, nor more than this many of those that grow.
LEAST_LENGTH, MOST_CONTAINERS = 3, 12
#: Fewer updates than this are few. Of more, the first part is left out, and the rest is looked at in stretches.
FEW, SETTLING, STRETCHES, SHORTER = 5, 0.2, 4, 10
#: A level that rises by less than this is not a rise; by this much, it is worth a longer look.
LEAST_RISE, LEAST_SHARE, HINT = 2 << 20, 0.005, 3 << 18
#: Each stretch rises by at least this part of the mean, the last by this: what settles rises less and less.
STEADY, LAST = 0.35, 0.6
_KINDS = (list, dict, set, deque)


class Levels:
    """Bytes after each update, and looks at what grows."""

    def __init__(self, state, arrays, containers):
        self.state, self.arrays, self.containers = state, arrays, containers
        self.begin(None)
        state.closers.append(self.close)

    def begin(self, per):
        """Begin anew, with rounds of another kind: what was there before the first update is nothing to go by."""
        self.per = per
        self.points, self.looks = [], []
        self.lengths = {}
        self.began = self.looked = None
        self.took, self.every, self.level, self.next = 0.0, EVERY_S, 0, 0.0
        self.wants_more = True
        self.first_arrays = set()

    def after(self, per, rounds, steps):
        """A round is behind us: an update, or an environment or optimizer step where no more is seen."""
        if per != self.per:
            self.begin(per)
        elif time.monotonic() < self.next:
            return
        self.next, now = time.monotonic() + self.every, worked()
        if self.began is None:
            self.began = now
        self.points.append((rounds, steps, held()))
        self.wants_more = self._wants_more(now)
        if len(self.points) > MOST_LEVELS:
            del self.points[1:-1:2]
            self.every *= 2
        rare = len(self.looks) >= LOOKS and self.took > LOOK_SHARE * (now - self.began)
        level = self.points[-1][2]
        fast = level - self.level > ENOUGH // 6
        if self.looked is None or fast or (now - self.looked > LOOK_S and not rare):
            self.level = level
            if rises(self.points, HINT) is not None:
                gc.collect()  # garbage that waits for the collector rises as a leak does, until it comes
            self.look(rounds, steps)

    def look(self, rounds, steps):
        """Read what fills and how long containers are."""
        if self.looks and self.looks[-1]["rounds"] == rounds:
            return
        began = worked()
        with self.state.own():
            self.looks.append({"rounds": rounds, "steps": steps, "arrays": self._filling(), "progress": progress()})
            self._census()
        self.looked = worked()
        self.took += self.looked - began

    def _filling(self):
        """Bytes written of the big arrays that were there at the first look, here and in workers."""
        arrays = {span(array)[0]: array for array, _, _ in self.arrays.alive()}
        if not self.looks:
            self.first_arrays = set(arrays)
        found, total = lazy.written(), 0
        for address in self.first_arrays & set(arrays):
            way = lazy.way_at(address)
            if way == lazy.PRIVATE:
                total += lazy.held(address, span(arrays[address])[1], found)
            elif way is None and address:
                total += proc.resident(*span(arrays[address]))
        return total + sum(row["resident"] for row in self.arrays.of_workers())

    def _census(self):
        """Lengths of containers; from the third look on only of those that have become longer, and never shorter."""
        first, number = len(self.looks) == 1, len(self.looks)
        grown = {}
        for item in containers():
            kind = type(item)
            base = next(base for base in _KINDS if issubclass(kind, base))
            count = base.__len__(item)
            if count < LEAST_LENGTH:
                continue
            earlier = () if first else self.lengths.get(id(item))
            # One that was too short for the first look has not been followed from the beginning.
            if earlier is None and number == 2:
                earlier = (0,)
            if earlier is not None and (number < 3 or count > earlier[0]) and (not earlier or count >= earlier[-1]):
                grown[id(item)] = (*earlier, count)
        self.lengths = grown

    def _wants_more(self, now):
        """Whether the loop should go on: a little in any case, and longer for a level that rises as a leak's would."""
        seen = now - self.began
        if self.state.left() < LEFT_S or (seen > LONGEST_S and not self.is_open):
            return False
        if len(self.points) > 4 and self.points[-1][2] - self.points[1][2] > ENOUGH:
            return False
        if seen < LEAST_S or len(self.looks) < LOOKS or self.is_open:
            return True
        found = rises(self.points, HINT)
        return found is not None and found[1] < CLEAR

    @property
    def is_open(self):
        """Whether updates are so long that those that were seen do not tell a leak from a heap that settles."""
        points = self.points
        return 1 < len(points) < FEW and points[-1][2] - points[-2][2] > LEAST_RISE

    def close(self):
        """Levels, looks and the containers that grew, by name."""
        if self.points:
            self.look(*self.points[-1][:2])
        if len(self.looks) < 2:
            return
        if len(self.looks) >= 3:
            grown = [item for item in containers() if is_growing(self.lengths.get(id(item), ()))]
            found = growing.describe(grown, {key: self.lengths[key] for key in map(id, grown)})[:MOST_CONTAINERS]
        else:
            found = []
        self.state.facts["levels"] = {
            "per": self.per,
            "points": self.points,
            "looks": self.looks,
            "containers": [row for row, _ in found],
        }
        # A deque has a row of its own, and a cache is sized already.
        self.containers.bounded += [(row, item) for row, item in found if row["capacity"] and not row["sized"]]


def containers():
    """Every container the collector knows, and dictionaries it does not know.

    It leaves out those that hold only what cannot be part of a cycle, such as arrays, numbers and texts. Of these the ones
    are found that the program has variables for: of its modules, its functions and its own objects, and caches.
    """
    places, tables = roots.library_places(), [roots.variables(frame) for frame in growing.frames()]
    tables += [
        vars(module) for module in list(sys.modules.values()) if is_own(getattr(module, "__name__", None), places)
    ]
    found, classes = {}, {}
    for item in gc.get_objects():
        kind = type(item)
        if issubclass(kind, _KINDS):
            found[id(item)] = item
        elif kind is functools._lru_cache_wrapper:
            tables.append(dict(enumerate(gc.get_referents(item))))
        else:
            if kind not in classes:
                classes[kind] = [] if is_own(kind.__module__, places) else None
            if classes[kind] is not None and len(classes[kind]) <= MOST_OBJECTS:
                classes[kind].append(item)
    for objects in classes.values():
        if objects and len(objects) <= MOST_OBJECTS:
            tables += [dict(children.attributes(item) or ()) for item in objects]
    found.update((id(value), value) for table in tables for value in list(table.values()) if type(value) is dict)
    return list(found.values())


def is_own(name, places):
    """Whether a module is the program's: the script itself, or a file that is neither installed nor ours."""
    file = getattr(sys.modules.get(name), "__file__", None)
    return name == "__main__" or not (roots.is_library(file, places) or file.startswith(OWN))


def is_growing(lengths):
    """Whether a container got longer in the first half of the looks, and still did in the second."""
    return len(lengths) > 2 and lengths[0] < lengths[len(lengths) // 2] < lengths[-1]


def worked():
    """Seconds on a clock that stands still while this process waits for a core: on a busy machine a loop is seen longer."""
    return time.monotonic() - proc.waited()


def rises(points, least=LEAST_RISE):
    """``(bytes per round, rise, least per round, most)`` of levels that go up steadily to the end; else ``None``.

    By their lower envelope; least and most are those of its stretches.

    Of points ``(round, steps, bytes)``; the first fifth, in which a heap settles, is left out, unless they are few: then
    they must rise by more.
    """
    if len(points) < 3:
        return None
    few = len(points) < FEW
    first, last = points[0][0], points[-1][0]
    settled = [point for point in points if few or point[0] > first + SETTLING * (last - first)]
    lows = envelope(settled, STRETCHES)
    if len(lows) < 3:
        return None
    steps = [lows[index + 1][1] - lows[index][1] for index in range(len(lows) - 1)]
    rise, mean = lows[-1][1] - lows[0][1], (lows[-1][1] - lows[0][1]) / len(steps)
    if (
        rise < max(least, least / LEAST_RISE * LEAST_SHARE * lows[0][1]) * (4 if few else 1)
        or lows[-1][0] <= lows[0][0]
    ):
        return None
    if min(steps) < STEADY * mean or steps[-1] < LAST * mean:
        return None
    # Shorter ones: blocks fall into the heap's holes for a while, and for a while they do not.
    short = lows if len(points) < 2 * SHORTER else envelope(points, SHORTER)[1:]
    slopes = [(short[index + 1][1] - low) / (short[index + 1][0] - at) for index, (at, low) in enumerate(short[:-1])]
    each = rise / (lows[-1][0] - lows[0][0])
    return each, rise, max(0.0, min(each, *slopes)), max(each, *slopes)


def envelope(points, count):
    """``(round, bytes)`` of the lowest level in each of so many stretches of the rounds; of each round if there are few."""
    if len(points) < 2 * count:
        return [(point[0], point[2]) for point in points]
    first, last, lowest = points[0][0], points[-1][0], {}
    for point in points:
        part = min(count - 1, int(count * (point[0] - first) / (last - first)))
        lowest[part] = min(lowest.get(part, point), point, key=lambda low: low[2])
    return [(lowest[part][0], lowest[part][2]) for part in sorted(lowest)]


def held():
    """Anonymous bytes of this process and its children: libraries and files do not leak."""
    return anonymous("self") + sum(map(anonymous, descendants()))


def anonymous(pid):
    """Resident bytes that are of no file; 0 for a process that is gone."""
    words = (proc.read("%s/%s/statm" % (proc.PROC, pid)) or b"").split()
    return (int(words[1]) - int(words[2])) * proc.PAGE if len(words) > 2 else 0


def descendants():
    """Children of all threads, as the kernel lists them."""
    found = []
    try:
        for thread in os.listdir(proc.PROC + "/self/task"):
            found += (proc.read("%s/self/task/%s/children" % (proc.PROC, thread)) or b"").decode().split()
    except OSError:
        pass
    return found


def progress():
    """How far the loops of the program are: ``[name, where it is, where it ends]``, the outermost first."""
    from .progress import loops

    try:
        return loops()
    except Exception:  # a help, and not worth a run
        return []
