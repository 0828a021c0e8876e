"""What autograd graphs hold that somebody keeps: the tensors that their operations have saved, and the operations.

A kept tensor refers to the operation it came from, that one to the operations before it, and each to the tensors it
needs for a backward pass. All of it lies outside of Python's objects. Read in the main thread only, through
the attributes that torch gives operations, and never by asking for a saved tensor itself: that would call the
program's hooks. Older releases of torch do not show what is saved (2.13 does); then operations are all that is counted.
"""

import types

from . import strata
from .children import attributes, is_a, picks

#: An operation of torch's with its edges and its result's description, in the C library's heap: 1,050 bytes with
#: torch 2.13 on x86-64, measured over graphs of ten operations without saved tensors.
OPERATION = 1000
#: Operations looked at for one owner; about 10 µs each.
MOST_OPERATIONS = 4000
#: Lists within lists that a hook may have packed a tensor in.
DEEPEST = 4
#: Tensors of one owner whose graphs are looked at.
MOST_TENSORS = 128


class Graphs:
    """Tensors with a graph, by the path that keeps them, and what lies beneath."""

    def __init__(self, walk):
        self.walk, self.kept, self.types = walk, {}, {}
        self.unfinished, self.looked = False, 0  # of the owner that was looked at last
        self.seen = {}  # operations and the first kept one that led there; held, so that no number is given again

    def keep(self, node, item, scale):
        """Take note of a tensor that has one; a container's elements are its container's."""
        operation = self.walk.storages.operation_of(item)
        if operation is None:
            return
        above = node.parent
        if above is not None and above.kind == "container" and node.word[:1] == "[":
            node = above
        node.graphs += scale
        self.kept.setdefault(node, []).append((operation, scale))

    def look(self):
        """Look at what was kept since the last time, the most tensors first, in steps as long as a slice of the walk."""
        waiting, self.kept = sorted(self.kept.items(), key=lambda each: -len(each[1])), {}
        for node, kept in waiting:
            if self.walk.is_ended() or self.walk.careful:
                return
            owner = node
            if node.kind != "container":
                owner = node.child(".grad_fn")
                owner.kind, owner.type = "objects", "torch.autograd"
            yield from self._look_at(owner, kept)
            if self.unfinished and node.kind != "container":
                # The hidden state of a recurrent network that nobody detaches reaches back to the beginning of the run.
                owner.graph_more, owner.graphs = True, 1
                owner.note = "an autograd graph of more than {:,} operations".format(self.looked // 100 * 100)

    def forget(self):
        """Let all operations go."""
        self.kept = {}
        self.seen.clear()

    def _look_at(self, node, kept):
        """The graphs of one owner, or a sample of them; what graphs have in common counts once."""
        ram, vram, count, apart, seen = node.nbytes, node.vram, 0, True, []
        self.unfinished = False
        # From all over: where there is no time for all, those at the beginning of a list are not like those at its end.
        for index in sorted(picks(len(kept), MOST_TENSORS), key=lambda place: place * strata.GOLDEN % 1):
            if count > MOST_OPERATIONS or self.walk.is_ended() or self.walk.careful:
                break
            before = node.nbytes, node.vram
            new, met = yield from self._below(node, kept[index][0], MOST_OPERATIONS - count)
            count, apart = count + new, apart and not met
            seen.append((kept[index][1], node.nbytes - before[0], node.vram - before[1], new * OPERATION))
        self.looked = count
        whole, scales = sum(scale for _, scale in kept), sum(each[0] for each in seen)
        # The others are like these; graphs that run into each other are parts of one.
        times = whole / scales if scales and apart and whole > len(seen) else 0.0
        ram, vram, own = node.nbytes - ram, node.vram - vram, count * OPERATION
        if times:
            found = [sum(each[0] * each[place] for each in seen) * times for place in (1, 2, 3)]
            node.nbytes, node.vram = node.nbytes + int(found[0] - ram), node.vram + int(found[1] - vram)
            ram, vram, own = int(found[0]), int(found[1]), int(found[2])
            off = self._off([each[1] + each[3] for each in seen if each[0]], whole)
            node.less, node.more = node.less + off, node.more + off
        node.medium += own
        node.graph_bytes += ram + own
        node.estimated = node.estimated or bool(own)

    def _off(self, sizes, whole):
        """How much less or more the graphs of so many tensors may hold, of which some had these sizes."""
        count, average = len(sizes), sum(sizes) / len(sizes)
        variance = sum((size - average) ** 2 for size in sizes) / max(1, count - 1) / count
        return int(max(strata.DEVIATIONS * whole * variance**0.5, strata.LEAST * whole * average))

    def _below(self, node, root, most):
        """How many operations of a graph were new, and whether it leads into another one."""
        waiting, count, met = [root], 0, False
        while waiting and count <= most:
            if self.walk.is_over():
                yield
            if self.walk.is_ended() or self.walk.careful:
                break
            operation = waiting.pop()
            known = self.seen.get(id(operation))
            if known is not None:
                met = met or known[1] not in (None, id(root))
                continue
            name = type(operation).__name__
            if name == "AccumulateGrad":  # a parameter, which has a name of its own
                self.seen[id(operation)] = operation, None
                continue
            self.seen[id(operation)] = operation, id(root)
            count += 1
            following, saved = self._attributes(type(operation))
            for each in saved:
                self._saved(node, each.__get__(operation))
            for _, value in attributes(operation) or ():  # of an operation in Python
                self.walk.push(node, value, 1.0)
            if following is not None:
                waiting += [below for below, _ in following.__get__(operation) if below is not None]
        self.unfinished = self.unfinished or bool(waiting)
        return count, met

    def _attributes(self, kind):
        """How operations of a type are asked for those before them and for what they have saved: by torch alone."""
        found = self.types.get(kind)
        if found is None:
            given = [
                (name, value)
                for cls in reversed(kind.__mro__)
                for name, value in cls.__dict__.items()
                if type(value) is types.GetSetDescriptorType
            ]
            saved = [value for name, value in given if name.startswith("_raw_saved_")]
            found = self.types[kind] = dict(given).get("next_functions"), saved
        return found

    def _saved(self, node, saved):
        """What an operation has saved: a tensor, several, or what the program's own hook has made of it."""
        for each in saved if type(saved) in (tuple, list) else (saved,):
            data = type(each).__dict__.get("data")
            value = data.__get__(each) if type(data) is property else None
            self._packed(node, value)

    def _packed(self, node, value, depth=0):
        """A saved tensor, or what a hook made of it; None where a backward pass has freed it."""
        tensor = self.walk.storages.tensor
        if tensor is not None and is_a(value, tensor):
            self.walk.block(node, value, 1.0)
        elif type(value) in (tuple, list) and depth < DEEPEST:
            for part in value:
                self._packed(node, part, depth + 1)
        elif value is not None:
            self.walk.push(node.child(".saved"), value, 1.0)
