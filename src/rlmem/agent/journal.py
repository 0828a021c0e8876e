"""A journal of what the target does to files, so that all of it can be undone when the dry run is over.

An audit hook sees every ``open`` for writing, ``mkdir``, ``rename`` and ``remove`` of this process (and of those forked
from it) before it happens. New paths are noted; what is about to be changed is copied aside first. The parent undoes
the journal, so a killed child leaves no more behind than one that ended well.
"""

import json
import os
import sys

#: Files larger than this are not copied aside; opening one for writing stops the dry run instead of risking it.
LARGEST = 256 << 20
WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND


class Journal:
    """Appends one JSON line for each thing to undo."""

    def __init__(self, folder, keep=()):
        self.path = os.path.join(folder, "journal.jsonl")
        self.copies = os.path.join(folder, "copies")
        os.makedirs(self.copies, exist_ok=True)
        #: Beneath these, nothing needs undoing: the job's own folder, devices, processes.
        own = (os.path.realpath(item) + os.sep for item in (folder, *keep))
        self.keep = (*own, "/dev/", "/proc/", "/sys/")
        self.seen = set()
        self.busy = False

    def start(self):
        """From now on."""
        sys.addaudithook(self.hook)

    def hook(self, event, args):
        """Called by the interpreter; quick for everything that does not write."""
        if self.busy or not (event == "open" or event.startswith("os.") or event.startswith("shutil.")):
            return
        paths = _changed(event, args)
        if not paths:
            return
        self.busy = True
        try:
            for path, new in paths:
                self.note(path, new)
        finally:
            self.busy = False

    def note(self, path, new):
        """A path that is about to be written, made, moved or removed."""
        if isinstance(path, bytes):
            path = os.fsdecode(path)
        if not isinstance(path, str):
            return
        path = os.path.realpath(path) if os.path.exists(path) else os.path.abspath(path)
        if path in self.seen or (path + os.sep).startswith(self.keep):
            return
        self.seen.add(path)
        if not os.path.lexists(path):
            self.write({"made": path})
        elif os.path.isfile(path) or (os.path.isdir(path) and not new):
            self.put_aside(path)

    def put_aside(self, path):
        """Copy what is about to be changed, or refuse."""
        import shutil

        if size(path) > LARGEST:
            raise PermissionError("the dry run does not touch %s: too large to be put back afterwards" % path)
        copy = os.path.join(self.copies, str(len(self.seen)))
        if os.path.isdir(path):
            shutil.copytree(path, copy, symlinks=True)
        else:
            shutil.copy2(path, copy)
        self.write({"changed": path, "copy": copy})

    def write(self, row):
        """One line, on disk at once."""
        with open(self.path, "a") as file:
            file.write(json.dumps(row) + "\n")


def size(path):
    """Bytes of a file, or of all files beneath a folder."""
    if os.path.isfile(path):
        return os.path.getsize(path)
    return sum(
        os.path.getsize(os.path.join(folder, name))
        for folder, _, names in os.walk(path)
        for name in names
        if os.path.isfile(os.path.join(folder, name))
    )


def _changed(event, args):
    """The paths an event is about to change, each with whether it only makes something new.

    A path relative to an open folder (``dir_fd``) is part of a removal whose top was seen already.
    """
    if event == "open":
        path, mode, flags = args
        if isinstance(path, int):
            return ()
        writes = any(letter in mode for letter in "wax+") if isinstance(mode, str) else bool((flags or 0) & WRITING)
        return ((path, True),) if writes else ()
    if event == "os.mkdir":
        return ((args[0], True),) if args[2] == -1 else ()
    if event == "os.rename":
        return ((args[0], False), (args[1], False)) if args[2] == args[3] == -1 else ()
    if event == "os.remove":
        return ((args[0], False),) if args[1] == -1 else ()
    if event in ("os.truncate", "shutil.rmtree"):
        return ((args[0], False),)
    if event in ("os.link", "os.symlink"):
        return ((args[1], True),)
    return ()
