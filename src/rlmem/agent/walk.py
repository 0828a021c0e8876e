"""The walk: from the variables of a program to every array, tensor and container it can name, each counted once.

Breadth first, so that the shortest path names an object. Arrays and tensors are looked at as soon as they are seen and
never kept waiting, so that the walk does not prolong the life of a large temporary. Long containers are sampled and
their rows marked as estimates. A walk ends at its limits of time and objects, and says so.

It is done in slices, between which the program goes on: time is what a clock on the wall says, as on a busy machine a
thread that wants the processor for 0.1 s may wait a second for it, and the program waits with it.
"""

import collections
import sys
import threading
import time

from . import caches, children, collector, fills, mainthread, nodes, roots, strata
from .graphs import Graphs
from .nodes import Node, type_name
from .storages import Storages

#: Texts and byte strings from this size on are rows of their own.
BIG = 64 << 10
MOST_OBJECTS = 400_000
#: The main thread stands still for a walk: in all no longer than this, and no longer than a slice at once. What is
#: begun is brought to its end: one object of up to 1024 parts, about 5 ms.
SECONDS, SLICE = 0.15, 0.03
#: How long the main thread may take to come to it; afterwards the agent's own thread walks, with care.
WAIT = 0.5
MOST_INTERRUPTIONS = 3
#: When the main thread's time is spent (on a busy machine), the agent's own goes on for so long, beside the program.
BESIDE = 0.3
TIME_OVER = (
    "the program was not to stand still for longer: the last names were looked for beside it, "
    "without gradients and graphs of tensors"
)
CAREFUL = "the program was in a long call or asleep: gradients and graphs of tensors were not looked at"
#: What a Python object around an array or a tensor costs.
ARRAY_OBJECT, TENSOR_OBJECT = 112, 600
#: Above this an object is the C library's, beneath it Python's own allocator's.
SMALL = 512
#: An object with more references than this belongs to nobody alone.
SHARED = 8


#: Elements of a container within one that is looked at by strata.
ROOM = max(children.SAMPLE_LENGTH, children.LONG // (strata.BLOCK * (strata.HEAVIEST + strata.SPREAD)))


class Walk:
    """One walk over the objects of this process."""

    def __init__(self, seconds=SECONDS, slice_s=SLICE, most=MOST_OBJECTS, clock=time.monotonic, careful=False):
        self.storages = Storages()
        self.graphs = Graphs(self)
        self.careful = careful  # not in the main thread: gradients and graphs may be exchanged meanwhile
        self.top = Node(None, "")
        self.seen, self.addresses, self._traits = set(), {}, {}
        self.queue, self.samples, self.parts = collections.deque(), [], strata.ALL_PARTS
        self.progress = self.phase = self.total = None
        self.objects, self.complete = 0, True
        self._limit, self._slice, self._most, self._clock = seconds, slice_s, most, clock
        self.spent_s, self._until, self._end, self._steps = 0.0, 0.0, 0.0, None

    def run(self, named=None, own_thread=None):
        """Walk from the given ``(name, value)`` pairs, else from everything this process can name.

        ``own_thread`` is the one thread whose variables are left out: that of an agent.
        """
        while self.advance(named, own_thread):
            pass
        return self

    def advance(self, named=None, own_thread=None, slice_s=None):
        """Go on for a slice of time; whether there is more to do. The next slice may be in another thread."""
        begin = self._clock()
        self._end = begin + self._limit - self.spent_s
        self._until = min(begin + (self._slice if slice_s is None else slice_s), self._end)
        if self._steps is None:
            self._steps = self._walk(named, own_thread)
        try:
            with self.storages.undisturbed():
                next(self._steps)
        except StopIteration:
            return False
        except BaseException:
            self.complete = False
            raise
        finally:
            self.spent_s += max(0.0, self._clock() - begin)
        return True

    def is_over(self):
        """Whether this slice of time is, and another one is to come."""
        return self._until < self._clock() < self._end

    def is_ended(self):
        """Whether all time is spent."""
        return self._clock() >= self._end

    def _walk(self, named, own_thread):
        for table in (self.seen, self.queue, self.addresses, self.__dict__):
            self.seen.add(id(table))
        self.seen.add(id(self))
        self.phase = fills.phase_of(sys._current_frames().get(threading.main_thread().ident))
        tiers = roots.tiers(own_thread) if named is None else iter([(named, False)])
        named = None
        for tier, foreign in tiers:
            for name, value in tier:
                self._begin_at(name, value, foreign)
                if type(tier) is not list:  # which would be kept meanwhile
                    del value
                    if self.is_over():
                        yield
                    if self.is_ended():
                        break
            tier = value = None  # noqa: PLW2901  # what the program lets go meanwhile is not kept by us
            yield from self._empty()
            yield from self.graphs.look()
            yield from self._empty()
            if self.is_ended():
                self.complete = False
            if not self.complete:
                break
        if self.progress is not None and self.progress["source"] == "global_step":
            self.progress["total"] = self.total
        self.graphs.forget()

    def _begin_at(self, name, value, foreign):
        if foreign and self._flat(name, value):
            return
        self.push(self.top.child(name), value, 1.0)
        if name == "global_step" and type(value) is int and self.progress is None:
            self.progress = {"step": value, "total": None, "source": name}
        elif name in fills.TOTALS and type(value) is int and self.total is None:
            self.total = value

    def _empty(self):
        while self.queue:
            if self.is_over():
                yield
            if self.is_ended() or self.objects >= self._most:
                self.complete = False
                self.queue.clear()
                return
            self.visit(*self.queue.popleft())
            self.objects += 1

    def _flat(self, name, value):
        """Count a library's table of texts and functions by its own size; whether it was one."""
        if not children.is_a(value, children.CONTAINERS):
            return False
        count = children.length(value)
        if not children.is_flat(value, count):
            return False
        if id(value) not in self.seen:
            self.seen.add(id(value))
            node = self.top.child(name)
            node.kind, node.type, node.filled = "container", type_name(value), count
            self.count(node, children.size(value), 1)
        return True

    def traits(self, kind):
        """What is known of a type."""
        found = self._traits.get(kind)
        if found is None:
            found = self._traits[kind] = children.Traits(kind, self.storages)
        return found

    def push(self, node, item, scale, room=children.LONG):
        """See an object: plain values and arrays are settled at once, the others wait for their turn.

        ``room`` is for how many elements of a container below; lists within lists share it.
        """
        how = self.traits(type(item)).how
        if how == children.SKIP:
            return
        if how == children.PLAIN_VALUE:
            self.plain(node, item, scale)
            return
        if id(item) in self.seen:
            return
        self.seen.add(id(item))
        # What many others refer to as well is not one element's own, and must not be counted once for each.
        if scale > 1 and sys.getrefcount(item) > SHARED:
            scale = 1.0
        if how == children.STORAGE:
            self.storage(node, item, scale)
        else:
            self.queue.append((node, item, scale, room))

    def plain(self, node, item, scale):
        """A number or a text; small numbers are shared by everyone."""
        if item is None or item is True or item is False or (type(item) is int and -6 < item < 257):
            return
        if sys.getrefcount(item) > SHARED:  # one text in a thousand places is one text
            if id(item) in self.seen:
                return
            self.seen.add(id(item))
            scale = 1.0
        nbytes = children.size(item)
        if nbytes >= BIG and type(item) in (str, bytes):
            if id(item) not in self.addresses:
                self.addresses[id(item)] = nbytes
                self.add(node, "array", item, id(item), nbytes, scale)
        else:
            self.count(node, nbytes, scale)

    def count(self, node, nbytes, scale):
        """Bytes of a Python object, in Python's own allocator or in the C library's."""
        if nbytes <= SMALL:
            node.small += int(nbytes * scale)
        else:
            node.medium += int(nbytes * scale)
        node.estimated = node.estimated or scale not in (0, 1)

    def add(self, node, kind, item, address, nbytes, scale):
        """A block of memory under a node."""
        node.kind = node.kind or kind
        node.type = node.type or type_name(item)
        node.nbytes += int(nbytes * scale)
        node.covered += nbytes
        node.extents += (address, nbytes)
        node.estimated = node.estimated or scale not in (0, 1)

    def storage(self, node, item, scale):
        """An array or a tensor: its memory goes to the first path that leads to it."""
        if not self.careful:
            self.graphs.keep(node, item, scale)
        is_tensor = self.storages.tensor is not None and children.is_a(item, self.storages.tensor)
        # The object around it is whoever's refers to it, so that an array's row is its values.
        self.count(node.parent or node, TENSOR_OBJECT if is_tensor else ARRAY_OBJECT, scale)
        if not self.block(node, item, scale):
            return
        count, parts = self.storages.objects(item)
        if parts:
            node.filled, node.capacity, node.folds = count, count, True
        for part in parts:
            self.push(node.child("[…]"), part, scale * count / len(parts))
        gradient = None if self.careful else self.storages.gradient_of(item)
        if gradient is not None:
            self.push(node.child(".grad"), gradient, scale)

    def block(self, node, item, scale):
        """The memory of an array or a tensor, if nobody has it yet; whether there is any."""
        found = self.storages.beneath(item)
        if found is None:
            return False
        kind, address, nbytes, device, owner = found
        if device == "vram":
            if ("vram", address) not in self.addresses:
                self.addresses["vram", address] = nbytes
                node.kind, node.type, node.device = node.kind or kind, node.type or type_name(item), "vram"
                node.vram += int(nbytes * scale)
        elif nbytes and address and self.addresses.get(address, 0) < nbytes:
            already = self.addresses.get(address, 0)
            self.addresses[address] = nbytes
            if not already:
                self.add(node, kind, item, address, nbytes, scale)
        if owner is not None and type(owner).__name__ == "mmap":
            node.note = node.note or "a mapped file or shared memory"
        return True

    def visit(self, node, item, scale, room=children.LONG):
        """Look into one object."""
        traits = self.traits(type(item))
        if traits.how == children.CONTAINER:
            self.container(node, item, scale, room)
            if type(item) in children.CONTAINERS:
                return
        elif type(item) is bytearray:
            node.type = node.type or "bytearray"
            node.medium += int(len(item) * scale)
            return
        else:
            self.count(node, children.size(item), scale)
        if traits.how == children.CONTAINER:  # its elements are seen already; what a subclass adds is in variables
            found = [("." + name, value) for name, value in children.attributes(item) or ()]
        else:
            found = children.referents(item)
            if type(item) is caches.KIND:
                self.cache(node, item, scale, room)
        self.recognise(node, item, found)
        for word, value in found:
            if value is None:
                continue
            if traits.optimizer and word == ".state":
                self.optimizer_state(node.child(".state"), value, scale)
            elif not (traits.optimizer and word == ".param_groups"):  # parameters have better names in their networks
                self.push(self.below(node, item, traits, word, value), value, scale, room)

    def below(self, node, item, traits, word, value):
        """The node of what an object refers to; wrappers are passed over as the program passes over them."""
        base = node.base or node
        if traits.wrapper and word == ".env":
            inner = self.traits(type(value)).wrapper
            found = node.child(".env") if inner else base.child(".unwrapped")
            found.base = base if inner else None
            return found
        if traits.vector and word == ".venv":
            inner = self.traits(type(value)).vector
            found = node.child(".venv") if inner else base
            found.base = base if inner else found.base
            return found
        if node.store and word == "._obs" and type(item).__module__.startswith("rlmem."):
            return self.compact(node)
        return node.child(word)

    def container(self, node, item, scale, room):
        """A list, table or queue: its own memory, and its elements or a sample of them."""
        count = children.length(item)
        self.count(node, children.size(item), scale)
        if count > children.LONG == room and scale == 1 and self.strata(node, item, count):
            return
        found = children.elements(item, count, room)
        looked = sum(word != ".keys" for word, _ in found)
        if scale == 1:
            self.describe(node, item, count, [value for _, value in found[:4]])
        each = scale * count / looked if looked and children.sampled(count, room) < count else scale
        left = max(children.SAMPLE_LENGTH, room // max(looked, 1)) if looked > children.INDEXED else room
        for word, value in found:
            self.push(node.child(word), value, each, left)

    def describe(self, node, item, count, first):
        """What kind of container a node is; ``first`` are some of its elements."""
        if children.is_a(item, (tuple, frozenset)) or node.kind:
            return
        node.kind, node.type = "container", type_name(item)
        node.filled = count
        if children.is_a(item, collections.deque):
            node.capacity = item.maxlen
        node.folds = count > children.INDEXED
        if count > children.LONG:
            node.transitions = all(fills.is_transition(value, self.storages) for value in first)

    def strata(self, node, item, count):
        """Look at a long container by the weight of its elements; whether that could be done."""
        read = strata.reader(item) if self.parts > 0 else None
        if read is None:
            return False
        keys = children.copied(item) if children.is_a(item, dict) else None
        self.describe(node, item, count, read(0, 4))
        sample = strata.Sample(read, count, self.storages, self.parts)
        self.parts -= sample.parts
        self.samples.append((node, sample))
        after = 0
        for block in sample.blocks():
            block.node = Node(node, "[…]")
            values = read(block.start, block.start + block.count)
            if block.start > after:  # what this one shares with the block is not the block's own
                for value in read(block.start - 1, block.start):
                    self.push(block.node, value, 0.0, ROOM)
            for value in values:
                self.push(block.node, value, block.scale, ROOM)
            for key, _ in keys[block.start : block.start + block.count] if keys is not None else ():
                self.push(
                    block.node if type(key) in children.PLAIN else block.node.child(".keys"), key, block.scale, ROOM
                )
            after = block.start + block.count
        return True

    def settle(self):
        """Bring together what was found in the blocks of long containers, and how far off that may be."""
        while self.samples:
            node, sample = self.samples.pop()
            totals = {block: int(block.node.all_bytes() / block.scale) for block in sample.blocks()}
            below = node.child("[…]")
            for block in sample.blocks():
                below.merge(block.node)
            target = node if node.folds else below
            less, more = sample.margins(totals)
            target.less, target.more = target.less + less, target.more + more
            target.estimated = True

    def cache(self, node, item, scale, room):
        """The results that a function with a cache keeps, or a sample of them."""
        count, bound = caches.facts(item)
        if not node.kind:
            node.kind, node.type, node.folds = "container", caches.NAME, True
            node.filled, node.capacity = count, bound
        found = caches.entries(item, count, bound, room)
        self.count(node, caches.LINK, scale * count)
        for key, value in found:
            self.push(node.child(".keys"), key, scale * count / len(found), room)
            self.push(node.child("[…]"), value, scale * count / len(found), room)

    def compact(self, node):
        """The observations of a buffer of rlmem's own: blocks that are made as it fills, under one name."""
        below = node.child(".observations")
        below.kind, below.type, below.whole = "store", node.type, True
        below.filled, below.capacity = node.filled, node.capacity
        return below

    def optimizer_state(self, node, table, scale):
        """An optimizer's state is keyed by parameters: one row for each of their words, ``.exp_avg``."""
        if not children.is_a(table, dict):
            return
        self.seen.add(id(table))
        self.count(node, children.size(table), scale)
        below = node.child("[…]")
        for _, entry in children.copied(table):
            if children.is_a(entry, dict):
                self.seen.add(id(entry))
                self.count(below, children.size(entry), scale)
                for key, value in children.copied(entry):
                    self.push(below.child(".%s" % key), value, scale)
            else:
                self.push(below, entry, scale)

    def recognise(self, node, item, found):
        """Stores with their fill, and algorithms with their progress."""
        if not any(word[1:] in fills.TELLING for word, _ in found):
            return
        fields = {word[1:]: value for word, value in found}
        fill = fills.fill_of(item, fields, self.storages)
        if fill is not None:
            node.store, node.type = True, type_name(item)
            node.filled, node.capacity = fill
        total = fills.whole(fields.get("total_timesteps"))
        if total and self.total is None:
            self.total = total
        progress = fills.progress_of(item, fields)
        if progress is not None and (self.progress is None or self.progress["step"] < progress["step"]):
            self.progress = progress

    def rows(self):
        """The paths that hold something, largest first."""
        self.settle()
        return nodes.rows(self.top)


def answer(request):
    """The walk as an answer to a question from outside, without a collection of garbage in it.

    In the main thread if that comes to it in time, a slice at a time; after each the program goes on for as long. What
    the main thread does not come to, or has no more time for, is done in this one, with care.
    """
    begin, pauses, note = time.monotonic(), [], ""
    seconds, wait = float(request.get("seconds", SECONDS)), float(request.get("wait", WAIT))
    walk = Walk(seconds=seconds + BESIDE, most=int(request.get("objects", MOST_OBJECTS)))
    own = None if threading.current_thread() is threading.main_thread() else threading.get_ident()
    with collector.HeldOff():
        more, interruptions = True, 0
        while more:
            slice_begin = time.monotonic()
            left = seconds - sum(pauses)
            if not walk.careful and left > 0:
                try:
                    done, more = mainthread.call(
                        lambda: walk.advance(own_thread=own, slice_s=min(SLICE, left)),  # noqa: B023  # run at once
                        wait,
                        pauses,
                    )
                except mainthread.Interrupted:  # by the program's own signal: it goes on first
                    interruptions += 1
                    if interruptions > MOST_INTERRUPTIONS:
                        raise
                    continue
                walk.careful, note = not done, "" if done else CAREFUL
            elif not walk.careful:
                walk.careful, note = True, TIME_OVER
            if walk.careful:
                more = walk.advance(own_thread=own, slice_s=SLICE / 3)
            if more:
                time.sleep(min(SLICE, time.monotonic() - slice_begin))
        said = told(walk)
    said["notes"] += [note] if note else []
    return dict(said, pauses_s=pauses, wall_s=time.monotonic() - begin)


def walked(seconds, careful=False):
    """A walk in this thread, at once, without a collection of garbage in it."""
    with collector.HeldOff():
        return told(Walk(seconds=seconds, slice_s=seconds, careful=careful).run())


def told(walk):
    """A walk as plain data."""
    notes = (
        [] if walk.complete else ["the walk ended at its limit after %d objects; the rest has no name" % walk.objects]
    )
    return {
        "rows": walk.rows(),
        "progress": walk.progress,
        "phase": walk.phase,
        "cuda": walk.storages.cuda(),
        "objects": walk.objects,
        "complete": walk.complete,
        "notes": notes,
    }
