"""The agent in a process that the target spawned: big arrays are held lazily there too, and written down.

A fork has what its parent has. ``multiprocessing`` starts other workers, and the server that forks them, with a program
of a line; a line before it brings this file in.
"""

import importlib
import importlib.util
import os
import sys


class Worker:
    """What the record of arrays asks of a state, in a process that is not planned itself."""

    forked = True

    def __init__(self, folder):
        self.job, self.facts, self.closers = {"folder": folder}, {}, []

    def note(self, text):
        """Told by the process that is planned."""


def main(folder, package):
    """Hold arrays lazily from now on."""
    holding = importlib.import_module(package + ".arrays")
    arrays = holding.Arrays(Worker(folder))
    after = importlib.import_module(package + ".imports").After()
    sys.meta_path.insert(0, after)
    importlib.import_module(package + ".lazy").raise_limits()
    after.add("numpy", arrays.watch_numpy)
    after.add("torch", arrays.watch_torch)
    after.add("torch", importlib.import_module(package + ".learners").Learner(folder).watch_torch)
    after.add("torch", lambda _: after.add("torch._dynamo", holding.dynamo_knows))


def start(path, folder):
    """The same, from a line in front of a worker's own program."""
    spec = importlib.util.spec_from_file_location("_rlmem_entry", os.path.join(os.path.dirname(path), "entry.py"))
    entry = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(entry)
    main(folder, entry.load(os.path.dirname(path)))


def follow(util, folder):
    """``multiprocessing.util`` is there: put the line in front of what it spawns."""
    original = util.spawnv_passfds
    here = os.path.abspath(__file__)
    line = "import runpy; runpy.run_path(%r)['start'](%r, %r); " % (here, here, folder)

    def spawnv_passfds(path, args, passfds):
        args = list(args)
        if "-c" in args[:-1] and "resource_tracker" not in str(args):
            place = args.index("-c") + 1
            program = args[place]
            args[place] = os.fsencode(line) + program if isinstance(program, bytes) else line + program
        return original(path, args, passfds)

    util.spawnv_passfds = spawnv_passfds
