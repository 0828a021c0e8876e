"""A journal of what the target does to files, so that all of it can be undone when the dry run is over.

An audit hook sees every ``open`` for writing, ``mkdir``, ``rename`` and ``remove`` of this process (and of those forked
from it) before it happens. New paths are noted; what is about to be changed is copied aside first. The parent undoes
the journal (``rlmem.trace.undo``), so a killed child leaves no more behind than one that ended well.
"""

import json
import os
import sys
import threading

#: What is larger than this is not copied aside; changing it stops the dry run instead of risking it.
LARGEST = 256 << 20
#: How audit events say that a path is not relative to an open folder.
NO_FOLDER = (-1, None)
WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND


class Journal:
    """Appends one JSON line for each thing to undo; the last line is undone first."""

    def __init__(self, folder, keep=()):
        self.path = os.path.join(folder, "journal.jsonl")
        self.copies = os.path.join(folder, "copies")
        os.makedirs(self.copies, exist_ok=True)
        #: Beneath these, nothing needs undoing: the job's own folder, devices, processes.
        own = (os.path.realpath(item) + os.sep for item in (folder, *keep))
        self.keep = (*own, "/dev/", "/proc/", "/sys/")
        self.seen = set()
        self.count = 0
        self.lock = threading.RLock()
        self.mine = threading.local()

    def start(self):
        """From now on, here and in forks; a fork may be made while another thread holds the lock."""
        sys.addaudithook(self.hook)
        os.register_at_fork(after_in_child=self.forked)

    def forked(self):
        """The holder of the lock is not here."""
        self.lock, self.mine = threading.RLock(), threading.local()

    def hook(self, event, args):
        """Called by the interpreter; quick for everything that does not write."""
        if not (event == "open" or event.startswith(("os.", "shutil.", "sqlite3."))):
            return
        noted = EVENTS.get(event)
        if noted is None or getattr(self.mine, "busy", False):
            return
        self.mine.busy = True
        try:
            with self.lock:
                noted(self, *args)
        finally:
            self.mine.busy = False

    def writing(self, path, *_):
        """A file is about to be written, wherever its link leads."""
        path = place(path)
        if path is not None and os.path.islink(path):
            path = os.path.realpath(path)
        self.note(path)

    def note(self, path):
        """A path is about to be written, made or removed."""
        if path is None or path in self.seen or (path + os.sep).startswith(self.keep):
            return
        self.seen.add(path)
        if os.path.islink(path):
            self.write({"link": path, "to": os.readlink(path)})
        elif not os.path.exists(path):
            self.write({"made": path})
        elif os.path.isfile(path) or os.path.isdir(path):
            self.put_aside(path)

    def put_aside(self, path):
        """Copy what is about to be changed, or refuse."""
        import shutil

        if size(path) > LARGEST:
            raise PermissionError("the dry run does not touch %s: too large to be put back afterwards" % path)
        self.count += 1
        copy = os.path.join(self.copies, "%d-%d" % (os.getpid(), self.count))
        if os.path.isdir(path):
            shutil.copytree(path, copy, symlinks=True)
        else:
            shutil.copy2(path, copy)
        self.write({"changed": path, "copy": copy})

    def making(self, path, _mode, descriptor):
        """A folder."""
        path = place(path) if descriptor in NO_FOLDER else None
        if path is not None and not os.path.exists(path):
            self.note(path)

    def removing(self, path, descriptor=-1):
        """A file or a link; what is relative to an open folder is part of a removal whose top was seen already."""
        if descriptor in NO_FOLDER:
            self.note(place(path))

    def removing_folder(self, path, descriptor=-1):
        """An empty folder."""
        path = place(path) if descriptor in NO_FOLDER else None
        if path is not None and os.path.isdir(path) and not (path + os.sep).startswith(self.keep):
            self.write({"emptied": path})

    def renaming(self, source, target, source_descriptor, target_descriptor):
        """Undone by renaming back; what stood at the new name is put aside first."""
        if source_descriptor == target_descriptor == -1:
            source, target = place(source), place(target)
            if source is None or target is None or (target + os.sep).startswith(self.keep):
                return
            self.note(target)
            self.write({"moved": source, "to": target})

    def linking(self, _source, target, *_):
        """A new name for something."""
        self.note(place(target))

    def database(self, path, *_):
        """SQLite opens its files itself."""
        if isinstance(path, (str, bytes, os.PathLike)) and os.fsdecode(path) not in ("", ":memory:"):
            for ending in ("", "-journal", "-wal", "-shm"):
                self.writing(os.fsdecode(path) + ending)

    def write(self, row):
        """One line, on disk at once."""
        with open(self.path, "a") as file:
            file.write(json.dumps(row) + "\n")

    def watch_torch(self, torch):
        """``torch.save`` hands a path to C++, where no audit hook sees it."""
        original = torch.save

        def save(obj, f, *args, **kwargs):
            self.hook("open", (f, "w", 0))
            return original(obj, f, *args, **kwargs)

        torch.save = save

    def watch_h5py(self, h5py):
        """So does h5py."""
        journal, base = self, h5py.File.__init__

        def init(file, name, mode="r", *args, **kwargs):
            if mode != "r":
                journal.hook("open", (name, "w", 0))
            base(file, name, mode, *args, **kwargs)

        h5py.File.__init__ = init


def _open(journal, path, mode, flags):
    writes = any(letter in mode for letter in "wax+") if isinstance(mode, str) else bool((flags or 0) & WRITING)
    if writes and isinstance(path, (str, bytes, os.PathLike)):
        journal.writing(path)


EVENTS = {
    "open": _open,
    "os.truncate": Journal.writing,
    "os.mkdir": Journal.making,
    "os.remove": Journal.removing,
    "os.rmdir": Journal.removing_folder,
    "shutil.rmtree": Journal.removing,
    "os.rename": Journal.renaming,
    "os.link": Journal.linking,
    "os.symlink": Journal.linking,
    "sqlite3.connect": Journal.database,
}


def place(path):
    """An absolute path with the links of its folders resolved, but not its own; ``None`` for what is no path."""
    if not isinstance(path, (str, bytes, os.PathLike)):
        return None
    path = os.path.abspath(os.fsdecode(path))
    folder, name = os.path.split(path)
    return os.path.join(os.path.realpath(folder), name)


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
