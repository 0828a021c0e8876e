"""The agent's ear: a socket only its owner can open, one thread asleep until somebody asks.

Questions and answers are JSON, one line each. The thread costs nothing while nobody asks, is a daemon, survives no
fork (a child gets its own) and never lets an error out. The socket's name holds the process's number and start time,
so that a number given again is not mistaken for it.
"""

import ctypes
import importlib
import json
import os
import socket
import stat
import struct
import sys
import threading
import time

from . import PROTOCOL, collector, proc

#: What can be asked: the function that answers, in a module of this package that is loaded when it is first needed.
HANDLERS = {
    "hello": "server:hello",
    "walk": "walk:answer",
    "phase": "server:phase",
    "counts": "counts:answer",
    "describe": "models:answer",
    "trim": "server:trim",
    "checkpoint": "pressure:checkpoint",
}
LONGEST_QUESTION = 1 << 16
#: A client that says nothing does not keep others waiting.
PATIENCE = 2.0
_PACKAGE = __name__.rpartition(".")[0]
_state = {"pid": None, "socket": None, "path": None, "identity": None, "hooked": False}


def folders():
    """Where sockets may lie: folders of this user's alone, the preferred one first."""
    base = os.environ.get("XDG_RUNTIME_DIR")
    paths = [os.path.join(base, "rlmem")] if base and os.path.isdir(base) else []
    paths.append("/tmp/rlmem-%d" % os.getuid())
    found = []
    for path in paths:
        try:
            os.makedirs(path, mode=0o700, exist_ok=True)
            seen = os.lstat(path)
        except (OSError, ValueError):
            continue
        # A folder that somebody else put there first is not ours, whatever it is called.
        if stat.S_ISDIR(seen.st_mode) and seen.st_uid == os.getuid() and not seen.st_mode & 0o077:
            found.append(path)
    return found


def start():
    """Open the socket and begin to listen; once in a process. Whether there is an agent now."""
    if _state["pid"] == os.getpid():
        return True
    words = proc.stat()
    if words is None or not hasattr(socket, "AF_UNIX"):
        return False
    ear = path = None
    for place in folders():
        path = os.path.join(place, "%d-%d.sock" % (os.getpid(), int(words[proc.START])))
        try:
            tidy(place)
            if os.path.exists(path):
                if is_answered(path):  # another agent of this very process
                    return True
                os.unlink(path)
            ear = opened(path)
            break
        except (OSError, ValueError):  # the name is too long for a socket, the disk is full
            continue
    if ear is None:
        return False
    # What the thread will need is imported before there is a thread: a program that forks in the middle of an import has
    # children in which that module can never be imported.
    from . import models, walk  # noqa: F401

    _state.update(pid=os.getpid(), socket=ear, path=path, identity=identity(ear))
    threading.Thread(target=listen, args=(ear,), name="rlmem-agent", daemon=True).start()
    if not _state["hooked"]:
        _state["hooked"] = True
        import atexit

        atexit.register(stop)
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=forked)
    return True


def opened(path):
    """A socket that listens; its folder is the user's alone, and so is it."""
    ear = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        ear.settimeout(None)  # whatever the program has made the default
        ear.bind(path)
        os.chmod(path, 0o600)
        ear.listen(8)
    except BaseException:
        ear.close()
        raise
    return ear


def identity(ear):
    """Which open file a socket is; None when its number was closed."""
    try:
        seen = os.fstat(ear.fileno())
    except OSError:
        return None
    return seen.st_dev, seen.st_ino


def is_ours(ear):
    """Whether the number of our socket still is our socket: a program that closes all files may have given it away."""
    return _state["identity"] is not None and identity(ear) == _state["identity"]


def stop():
    """Take the socket away; only its own process does."""
    if _state["pid"] == os.getpid() and _state["path"]:
        try:
            os.unlink(_state["path"])
        except OSError:
            pass


def forked():
    """A child has a number of its own: close the parent's socket and open one.

    Nothing is imported here: a module that another thread was just importing stays locked in the child for ever.
    """
    ear = _state["socket"]
    try:
        collector.reset()
        mainthread = sys.modules.get(__package__ + ".mainthread")
        if hasattr(mainthread, "reset"):
            mainthread.reset()
        if ear is not None:
            if is_ours(ear):
                ear.close()
            else:
                ear.detach()
        _state.update(pid=None, socket=None, path=None, identity=None)
        start()
    except Exception:  # a child without an agent is still a child
        pass


def tidy(place):
    """Remove sockets of processes that are gone."""
    for name in os.listdir(place):
        number, path = name.partition("-")[0], os.path.join(place, name)
        if name.endswith(".sock") and number.isdigit() and not os.path.exists("/proc/%s" % number):
            try:
                if not is_answered(path):  # by somebody whose number is another one here: in a container
                    os.unlink(path)
            except OSError:
                pass


def is_answered(path):
    """Whether somebody listens at a socket."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.settimeout(0.2)
        try:
            probe.connect(path)
        except OSError:
            return False
        return True


def listen(ear):
    """Answer for as long as the process lives, with the collector held off but for the waiting.

    What stands between a release and the next hold makes no object that the collector counts, and so cannot start in
    this thread a collection that is due: the C library's ``accept4`` returns a number, Python's ``accept`` objects.
    """
    accept, asked = ctypes.CDLL(None).accept4, (ear.fileno(), None, None, getattr(socket, "SOCK_CLOEXEC", 0))
    collector.hold()
    try:
        while is_ours(ear):
            collector.release()
            number = accept(*asked)
            collector.hold()
            if number < 0:  # interrupted, or the program has no file to spare
                time.sleep(0.05)
                continue
            try:
                serve(socket.socket(fileno=number))
            except (
                BaseException
            ):  # a client that goes away is no trouble of the program's, nor is one who interrupts us
                continue
        ear.detach()
    finally:
        collector.release()


def serve(other):
    """Answer one question, if it is one and by somebody who may ask."""
    with other:
        other.settimeout(PATIENCE)
        text = question(other) if is_owner(other) else b""
        if text:
            other.sendall(reply(text))


def is_owner(other):
    """Whether the other end is this user, or root."""
    if not hasattr(socket, "SO_PEERCRED"):
        return True
    _, uid, _ = struct.unpack("3i", other.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i")))
    return uid in (0, os.getuid())


def question(other):
    """One line of text; empty when none comes."""
    text = b""
    while not text.endswith(b"\n"):
        part = other.recv(4096)
        if not part or len(text) > LONGEST_QUESTION:
            return b""
        text += part
    return text


def reply(text):
    """The answer to a question, or what went wrong, told to the one who asked."""
    try:
        said = handle(json.loads(text.decode("utf-8")))
    except Exception as error:
        said = {"error": "%s: %s" % (type(error).__name__, error)}
    return json.dumps(dict(said, protocol=PROTOCOL), default=str).encode("utf-8") + b"\n"


def handle(request):
    """The answer of the function that knows."""
    place = HANDLERS.get(request.get("ask"))
    if place is None:
        return {"error": "unknown question %r" % request.get("ask")}
    module, _, name = place.partition(":")
    function = getattr(importlib.import_module("%s.%s" % (_PACKAGE, module)), name)
    return function(request)


def hello(request):
    """Who this is."""
    return {
        "pid": os.getpid(),
        "python": "%d.%d.%d" % sys.version_info[:3],
        "implementation": sys.implementation.name,
        "asks": sorted(HANDLERS),
        "argv": [str(word) for word in getattr(sys, "argv", [])],
    }


def phase(request):
    """Which part of a run the main thread is in; None when that cannot be told."""
    from . import fills

    frame = sys._current_frames().get(threading.main_thread().ident)
    return {"phase": fills.phase_of(frame)}


def trim(request):
    """Ask the C library to hand free memory back; how much resident memory that gave."""
    library = ctypes.CDLL(None)
    if not hasattr(library, "malloc_trim"):
        return {"error": "this C library has no malloc_trim"}
    before = proc.rss()
    library.malloc_trim(0)
    return {"before": before, "after": proc.rss()}
