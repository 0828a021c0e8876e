"""What a walk has found, as a tree of paths; folded into the rows of an explanation."""

#: Rows under this many bytes are added to the path they hang on.
FOLD = 64 << 10
MOST_ROWS = 500
#: Paths have no more words: what lies further down belongs to the last that has one.
DEEPEST = 48
#: So many times the same word in a row (``.next.next``) is a chain of objects, which has one name, ``root.next…``.
CHAIN = 16
#: What elements of a long container are called.
ELEMENTS = ("[…]", ".keys", "{…}")
#: Of a longer path, the words at its beginning and its end that are shown.
SHOWN = 6, 4


class Node:
    """One path, and what was found at it."""

    __slots__ = (
        "base", "beyond", "capacity", "chained", "children", "covered", "depth", "device", "estimated", "extents",
        "filled", "folds", "graph_bytes", "graph_more", "graphs", "kind", "less", "medium", "more", "nbytes", "note", "parent", "small", "store", "transitions", "type",
        "vram", "whole", "word",
    )  # fmt: skip

    def __init__(self, parent, word):
        self.parent, self.word = parent, word
        self.children = None
        self.depth = parent.depth + 1 if parent is not None else 0
        self.chained = parent.chained + 1 if parent is not None and parent.word == word else 0
        self.beyond = 0
        self.kind = self.type = self.note = ""
        self.device = "ram"
        self.nbytes = self.small = self.medium = self.covered = self.vram = self.graphs = self.graph_bytes = 0
        self.less = self.more = 0
        self.extents = []
        self.filled = self.capacity = self.transitions = self.base = None
        self.graph_more = self.estimated = self.folds = self.store = self.whole = False

    def child(self, word):
        """The node one word further; the same one for the same word."""
        if not word:
            return self
        if self.depth >= DEEPEST:
            self.beyond += word == self.word
            return self
        if self.children is None:
            self.children = {}
        found = self.children.get(word)
        if found is None:
            found = self.children[word] = Node(self, word)
            if found.chained == CHAIN:
                found.first().whole = True
        return found

    def first(self):
        """The first node of the chain this one is in."""
        node = self
        while node.chained:
            node = node.parent
        return node

    def links(self):
        """How many nodes of one word hang below each other from here; 0 for fewer than make a chain."""
        count, node = 1, self
        while node.children and self.word in node.children:
            count, node = count + 1, node.children[self.word]
        return count + node.beyond if count > CHAIN else 0

    def path(self):
        """The words from the variable on; of a long path those at both ends."""
        words, node = [], self
        while node.parent is not None:
            words.append(node.word)
            node = node.parent
        words.reverse()
        begin, end = SHOWN
        if len(words) > begin + end + 1:
            words[begin:-end] = ["…(%d more)" % (len(words) - begin - end)]
        return "".join(words)

    @property
    def total(self):
        """Everything found here, in RAM or not."""
        return self.nbytes + self.small + self.medium + self.vram

    def all_bytes(self):
        """Everything found here and below."""
        return self.total + sum(below.all_bytes() for below in (self.children or {}).values())

    def merge(self, other):
        """Take over what a node of another path holds, and what is below it, word by word."""
        self.absorb(other)
        for name in ("kind", "type", "filled", "capacity", "transitions"):
            if not getattr(self, name):
                setattr(self, name, getattr(other, name))
        self.device = other.device if other.device != "ram" else self.device
        self.folds, self.store, self.whole = (
            self.folds or other.folds,
            self.store or other.store,
            self.whole or other.whole,
        )
        self.graph_more = self.graph_more or other.graph_more
        for word, below in (other.children or {}).items():
            self.child(word).merge(below)

    def absorb(self, other):
        """Take over what a node below holds."""
        self.nbytes += other.nbytes
        self.small += other.small
        self.medium += other.medium
        self.covered += other.covered
        self.vram += other.vram
        self.graphs += other.graphs
        self.graph_bytes += other.graph_bytes
        self.less += other.less
        self.more += other.more
        self.extents += other.extents
        self.estimated = self.estimated or other.estimated
        self.note = self.note or other.note


def rows(top):
    """The paths that hold something, largest first; small ones are added to what they hang on."""
    found = _folded(top)
    found.sort(key=lambda node: -node.total)
    kept, rest = found[:MOST_ROWS], found[MOST_ROWS:]
    for node in rest:
        top.absorb(node)
    return [row(node) for node in kept if node.word] + ([row(top, "(small objects)")] if top.total else [])


def _folded(top):
    """The nodes that are rows of their own, with what was added to them; those below a node stand before it."""
    found, waiting = [], [(top, None)]
    while waiting:
        node, begin = waiting.pop()
        if begin is None:  # first what is below
            waiting.append((node, len(found)))
            waiting += [(below, None) for below in (node.children or {}).values()]
            continue
        if node.folds or node.whole:  # what elements of a long list hold further down is the list's
            below, found[begin:] = found[begin:], []
            for each in below:
                if _is_inside(each, node):
                    node.absorb(each)
                else:
                    found.append(each)
        above = node.parent
        if above is None:
            break
        together = above.folds and node.word in ELEMENTS
        if above is not top and (together or node.total < FOLD):
            above.absorb(node)
        elif node.total < FOLD:
            top.absorb(node)
        else:
            found.append(node)
    return found


def _is_inside(node, container):
    while node is not None and node.parent is not container:
        node = node.parent
    return node is not None and (container.whole or node.word in ELEMENTS)


def row(node, path=None):
    """A node as JSON; rows used are its own or those of the store around it."""
    holder, filled, capacity = node, node.filled, node.capacity
    for _ in range(4):
        if filled is not None or holder is None:
            break
        holder = holder.parent
        if holder is not None and holder.store:
            filled, capacity = holder.filled, holder.capacity
    kind, note, path = node.kind or "objects", node.note, path or node.path()
    links = node.links() if node.whole else 0
    if links:
        kind, filled, capacity, path = "container", links, None, path + "…"
        note = note or "a chain of {:,} objects".format(links)
    elif node.beyond:
        kind, note = "container", note or "and what is linked below it"
    if node.graphs >= 1 and node.kind == "container":
        note = note or "holds %d tensors with the graphs they came from" % round(node.graphs)
    return {
        "path": path.lstrip("."),
        "kind": kind,
        "type": node.type,
        "nbytes": node.nbytes,
        "covered": node.covered,
        "extents": node.extents,
        "small": node.small,
        "medium": node.medium,
        "vram": node.vram,
        "filled": filled,
        "capacity": capacity,
        "transitions": node.transitions,
        "estimated": node.estimated,
        "less": node.less,
        "more": node.more,
        "graphs": round(node.graphs),
        "graph_bytes": node.graph_bytes,
        "graph_more": node.graph_more,
        "note": note,
    }


def type_name(item):
    """``numpy.ndarray``, ``list``."""
    kind = type(item)
    module = kind.__module__
    return kind.__name__ if module in ("builtins", "collections") else "%s.%s" % (module.split(".")[0], kind.__name__)
