"""What is known of a process that dies: the exception that ended it, and how far it was, left in the run's folder.

Hooks are chained and never replaced: whatever the program or its environment had set is called as before. How far the
run was stands in a small mapped file, which costs no system call to write and is still there after SIGKILL.
"""

import functools
import json
import mmap
import os
import struct
import sys
import threading
import time

#: By number in the mapped file; the empty one is all that is outside of learning.
PHASES = ("", "collect", "update", "evaluate", "checkpoint")
#: Phase, step, total steps (-1: not known).
MARK = struct.Struct("<qqq")
_state = {"folder": None, "mark": None, "pid": None}


def install(folder):
    """Leave word of this process in a folder from now on."""
    if _state["folder"]:
        return
    _state["folder"] = folder
    sys.excepthook = _chained(sys.excepthook)
    threading.excepthook = _chained_thread(threading.excepthook)
    from . import exits, pressure
    from .imports import After

    after = next((finder for finder in sys.meta_path if isinstance(finder, After)), None)
    if after is None:
        after = After()
        sys.meta_path.insert(0, after)
    after.add("multiprocessing.process", _watch_multiprocessing)
    after.add("resource", _watch_limits)
    exits.install()
    pressure.install(after)


def _chained(before):
    def excepthook(kind, error, trace):
        note(error, trace)
        before(kind, error, trace)

    return excepthook


def _chained_thread(before):
    def excepthook(args):
        if args.exc_type is not SystemExit:
            note(args.exc_value or args.exc_type(), args.exc_traceback)
        before(args)

    return excepthook


def _watch_multiprocessing(module):
    """Worker processes print their exceptions themselves and call no hook."""
    original = module.BaseProcess.run

    def run(self):
        try:
            original(self)
        except Exception as error:
            note(error, error.__traceback__, worker=self.name)
            raise

    module.BaseProcess.run = run


def note(error, trace, worker=None):
    """Write down an exception that nobody caught; never fails."""
    try:
        phase, step, _ = read_mark(_state["mark"][:]) if _state["pid"] == os.getpid() else ("", -1, -1)
        said = {
            "pid": os.getpid(),
            "type": "%s.%s" % (type(error).__module__, type(error).__name__),
            "kinds": [base.__name__ for base in type(error).__mro__],
            "message": str(error)[:2000],
            "where": _where(trace),
            "line": _where(trace, own=True),
            "remote": _remote(error),
            "thread": threading.current_thread().name,
            "worker": worker,
            "phase": phase,
            "step": None if step < 0 else step,
            "limits": _limits(),
            "at": time.time(),
        }
        if "MemoryError" in said["kinds"]:
            said["kernel"] = _kernel()
        leave("death", said)
    except Exception:  # the program's own last words matter more
        pass


def _limits():
    """Finite resource limits on memory, which a program may have set itself."""
    import resource

    found = {name: resource.getrlimit(getattr(resource, name))[0] for name in ("RLIMIT_AS", "RLIMIT_DATA")}
    return {name: soft for name, soft in found.items() if soft != resource.RLIM_INFINITY}


def _watch_limits(module):
    """A limit that a process sets itself counts for what it allocates right after, before anybody looks."""
    original = module.setrlimit

    @functools.wraps(original)
    def setrlimit(*args):
        original(*args)
        limits = _limits()
        if limits:
            leave("limit", {"pid": os.getpid(), "limits": limits})

    module.setrlimit = setrlimit


def _kernel():
    """What the kernel goes by when it promises memory: its policy, the machine's size, and how many mappings there are."""
    from . import proc

    memory = proc.sizes(proc.read("/proc/meminfo") or b"")
    found = {
        "ram": memory.get("MemTotal"),
        "swap": memory.get("SwapTotal"),
        "commit_limit": memory.get("CommitLimit"),
        "committed": memory.get("Committed_AS"),
        "overcommit": int(proc.read("/proc/sys/vm/overcommit_memory") or 0),
        "most_maps": int(proc.read("/proc/sys/vm/max_map_count") or 0),
        "maps": (proc.read("/proc/self/maps") or b"").count(b"\n"),
    }
    return {name: number for name, number in found.items() if number is not None}


def _remote(error):
    """The traceback of another process that an exception was brought from, as its text; None for one of our own."""
    cause = error.__cause__
    if cause is not None and type(cause).__name__.endswith("RemoteTraceback"):  # Pool, ProcessPoolExecutor, joblib
        return str(cause)[-4000:]
    message = str(error)
    return message[-4000:] if "Traceback (most recent call last)" in message else None  # DataLoader, Ray


def leave(kind, said):
    """Put a few facts into the run's folder, whole or not at all; where there is none, or no room, nothing happens."""
    if not _state["folder"]:
        return
    path = os.path.join(_state["folder"], "%s-%d-%d.json" % (kind, os.getpid(), time.monotonic_ns()))
    try:
        with open(path + ".part", "w") as file:
            json.dump(said, file, default=str)
        os.replace(path + ".part", path)
    except (OSError, ValueError, TypeError):
        pass


def _where(trace, own=False):
    """``file:line`` of the innermost frame, or of the innermost in the program's own files.

    What formats a traceback is not loaded for it.
    """
    place = None
    while trace is not None:
        file = trace.tb_frame.f_code.co_filename
        if not own or not _is_installed(file):
            place = "%s:%d" % (_from_here(file) if own else file, trace.tb_lineno)
        trace = trace.tb_next
    return place


def _from_here(file):
    """A path as seen from where the program runs, where it lies beneath."""
    try:
        return os.path.relpath(file) if file.startswith(os.getcwd() + os.sep) else file
    except OSError:  # the folder is gone
        return file


def _is_installed(file):
    """Whether a file is of a package or of Python itself."""
    here = os.path.dirname(os.path.abspath(__file__))
    parts = file.replace(os.sep, "/").split("/")
    return (
        "site-packages" in parts
        or "dist-packages" in parts
        or file.startswith((os.path.dirname(os.__file__) + os.sep, here, "<frozen"))
    )


def mark():
    """This process's own mapped file, made when it is first needed; None where there is no run's folder."""
    if _state["pid"] == os.getpid():
        return _state["mark"]
    if not _state["folder"]:
        return None
    _state["pid"], _state["mark"] = os.getpid(), None
    try:
        with open(os.path.join(_state["folder"], "mark-%d" % os.getpid()), "w+b") as file:
            file.write(MARK.pack(0, -1, -1))
            file.flush()
            _state["mark"] = mmap.mmap(file.fileno(), MARK.size)
    except (OSError, ValueError):
        pass
    return _state["mark"]


def read_mark(data):
    """Phase, step and total from the bytes of a mapped file; -1 where they are not known."""
    if len(data) < MARK.size:
        return "", -1, -1
    phase, step, total = MARK.unpack_from(data)
    return PHASES[phase] if 0 <= phase < len(PHASES) else "", step, total
