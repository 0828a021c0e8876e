"""The paths of big arrays, mapped files and containers, found by the walk that ``rlmem explain`` names them with."""

import threading

from . import collector
from .walk import Walk

#: What variables of a script that has ended begin with: multiprocessing's name for a main program.
ENDED = "__mp_main__."
#: Nothing waits for this walk but the end of the dry run.
SECONDS, MOST_OBJECTS = 5.0, 2_000_000


class Naming(Walk):
    """A walk that remembers where it met some arrays, by address, and some containers, by identity."""

    def __init__(self, addresses, containers, files=()):
        super().__init__(seconds=SECONDS, most=MOST_OBJECTS, careful=True)
        self.wanted, self.ids, self.files = set(addresses), set(containers), list(files)
        self.nodes = {}

    def push(self, node, item, scale, *room):
        """The first path that leads to a container is its name."""
        if id(item) in self.ids:
            self.nodes.setdefault(id(item), node)
        super().push(node, item, scale, *room)

    def add(self, node, kind, item, address, nbytes, scale):
        """The same of an array, whose memory goes to the first path."""
        if address in self.wanted:
            self.nodes.setdefault(address, node)
        for begin, end in self.files:
            if kind in ("array", "tensor") and begin <= address < end:
                self.nodes.setdefault(begin, node)
        super().add(node, kind, item, address, nbytes, scale)

    def path(self, key):
        """A path as it is shown; ``None`` for what was not met."""
        node = self.nodes.get(key)
        if node is None:
            return None
        words = node.path().lstrip(".")
        return words[len(ENDED) :] if words.startswith(ENDED) else words


def name(state):
    """Add ``path`` to the rows of big arrays, mapped files and containers."""
    arrays, files = state.facts.get("arrays", ()), state.facts.get("files", ())
    containers = [*state.facts.get("containers", ()), *(state.facts.get("levels") or {}).get("containers", ())]
    walk = Naming(
        (row["address"] for row in arrays),
        (row["id"] for row in containers),
        ((row["address"], row["end"]) for row in files),
    )
    is_main = threading.current_thread() is threading.main_thread()
    with collector.HeldOff():
        walk.run(own_thread=None if is_main else threading.get_ident())
    for row in (*arrays, *files):
        row["path"] = walk.path(row["address"])
    for row in containers:
        row["path"] = walk.path(row["id"])
