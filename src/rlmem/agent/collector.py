"""Hold Python's garbage collector off while the agent works.

The collector runs in whichever thread allocates the object that is one too many, and with it every ``__del__`` of the
garbage it finds. Left alone, the agent's own tables start it: in the agent's thread, where a program's SQLite
connection or OpenGL context fails, or in the middle of a walk.
"""

import gc
import threading

#: Generations as large as this are never full. ``gc.disable()`` would not do: a program that calls ``gc.disable()`` or
#: ``gc.enable()`` itself meanwhile would find its own call undone; and from Python 3.12 on a collection that was due
#: before is run later, in any thread.
NEVER = (0x7FFFFFFF,) * 3
_state = {"lock": threading.Lock(), "holders": 0, "before": None}


class HeldOff:
    """A context in which no thread's allocations start the collector; a ``gc.collect()`` of the program's still works."""

    def __enter__(self):
        hold()

    def __exit__(self, *_):
        release()


def hold():
    """Hold it off, until as many releases."""
    _state["lock"].acquire()  # ``with`` would make an object of the method, and so start what this is to prevent
    if not _state["holders"]:
        threshold = gc.get_threshold()
        gc.set_threshold(*NEVER)
        _state["before"] = threshold
    _state["holders"] += 1
    _state["lock"].release()


def release():
    """Let it go on as the program has it. A collection may be due now: the next to allocate an object runs it."""
    with _state["lock"]:
        _state["holders"] -= 1
        if not _state["holders"] and gc.get_threshold() == NEVER:  # else the program has set its own meanwhile
            gc.set_threshold(*_state["before"])


def reset():
    """After a fork: whoever held it off is not here."""
    _state["lock"] = threading.Lock()
    if _state["holders"]:
        _state["holders"] = 1
        release()
