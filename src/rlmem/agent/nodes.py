"""What a walk has found, as a tree of paths; folded into the rows of an explanation."""

#: Rows under this many bytes are added to the path they hang on.
FOLD = 64 << 10
MOST_ROWS = 500


class Node:
    """One path, and what was found at it."""

    __slots__ = (
        "base", "capacity", "children", "covered", "device", "estimated", "extents", "filled", "folds", "graphs",
        "kind", "medium", "nbytes", "note", "parent", "small", "store", "type", "vram", "whole", "word",
    )  # fmt: skip

    def __init__(self, parent, word):
        self.parent, self.word = parent, word
        self.children = None
        self.kind = self.type = self.note = ""
        self.device = "ram"
        self.nbytes = self.small = self.medium = self.covered = self.vram = self.graphs = 0
        self.extents = []
        self.filled = self.capacity = self.base = None
        self.estimated = self.folds = self.store = self.whole = False

    def child(self, word):
        """The node one word further; the same one for the same word."""
        if not word:
            return self
        if self.children is None:
            self.children = {}
        found = self.children.get(word)
        if found is None:
            found = self.children[word] = Node(self, word)
        return found

    def path(self):
        """The words from the variable on."""
        words, node = [], self
        while node is not None:
            words.append(node.word)
            node = node.parent
        return "".join(reversed(words))

    @property
    def total(self):
        """Everything found here, in RAM or not."""
        return self.nbytes + self.small + self.medium + self.vram

    def absorb(self, other):
        """Take over what a node below holds."""
        self.nbytes += other.nbytes
        self.small += other.small
        self.medium += other.medium
        self.covered += other.covered
        self.vram += other.vram
        self.graphs += other.graphs
        self.extents += other.extents
        self.estimated = self.estimated or other.estimated
        self.note = self.note or other.note


def rows(top):
    """The paths that hold something, largest first; small ones are added to what they hang on."""
    found = []
    _fold(top, top, found)
    found.sort(key=lambda node: -node.total)
    kept, rest = found[:MOST_ROWS], found[MOST_ROWS:]
    for node in rest:
        top.absorb(node)
    return [row(node) for node in kept if node.word] + ([row(top, "(small objects)")] if top.total else [])


def _fold(top, node, found):
    for below in list((node.children or {}).values()):
        _fold(top, below, found)
        together = node.folds and below.word in ("[…]", ".keys", "{…}")
        if node.parent is not None and (together or below.total < FOLD):
            node.absorb(below)
        elif below.total < FOLD:
            top.absorb(below)
        else:
            found.append(below)
    if node.folds or node.whole:  # what elements of a long list hold further down is the list's
        inside = [below for below in found if _is_inside(below, node)]
        for below in inside:
            node.absorb(below)
            found.remove(below)


def _is_inside(node, container):
    while node is not None and node.parent is not container:
        node = node.parent
    return node is not None and (container.whole or node.word in ("[…]", ".keys", "{…}"))


def row(node, path=None):
    """A node as JSON; rows used are its own or those of the store around it."""
    holder, filled, capacity = node, node.filled, node.capacity
    for _ in range(4):
        if filled is not None or holder is None:
            break
        holder = holder.parent
        if holder is not None and holder.store:
            filled, capacity = holder.filled, holder.capacity
    note = node.note
    if node.graphs >= 1 and node.kind == "container":
        note = note or "holds %d tensors with the graphs they came from" % round(node.graphs)
    return {
        "path": (path or node.path()).lstrip("."),
        "kind": node.kind or "objects",
        "type": node.type,
        "nbytes": node.nbytes,
        "covered": node.covered,
        "extents": node.extents,
        "small": node.small,
        "medium": node.medium,
        "vram": node.vram,
        "filled": filled,
        "capacity": capacity,
        "estimated": node.estimated,
        "graphs": round(node.graphs),
        "note": note,
    }


def type_name(item):
    """``numpy.ndarray``, ``list``."""
    kind = type(item)
    module = kind.__module__
    return kind.__name__ if module in ("builtins", "collections") else "%s.%s" % (module.split(".")[0], kind.__name__)
