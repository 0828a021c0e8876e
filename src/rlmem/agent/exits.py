"""Children that a signal ended: their parent collects them, and nobody else can learn what ended them.

``subprocess``, ``multiprocessing`` (its fork server too), joblib and torch collect with ``os.waitpid``. Who sent such a
signal is noted where the program did so itself: a worker that the program kills did not die of memory.
"""

import functools
import os
import signal
import time

from . import deaths

#: Signals that end a process against its will; SIGTERM, SIGINT and the like are how programs end their workers.
_NAMES = ("SIGKILL", "SIGABRT", "SIGSEGV", "SIGBUS", "SIGILL", "SIGFPE")
TOLD = frozenset(int(getattr(signal, name)) for name in _NAMES)


def install():
    """From now on, note which children of this process and of its forks a signal ended."""
    os.waitpid = _noting(os.waitpid)
    os.kill, os.killpg = _telling(os.kill), _telling(os.killpg)


def _noting(original):
    @functools.wraps(original)
    def waitpid(*args):
        pid, status = original(*args)
        if pid > 0 and os.WIFSIGNALED(status) and os.WTERMSIG(status) in TOLD:
            deaths.leave("exit", {"pid": pid, "signal": os.WTERMSIG(status), "parent": os.getpid(), "at": time.time()})
        return pid, status

    return waitpid


def _telling(original):
    @functools.wraps(original)
    def kill(pid, number):
        if number in TOLD and abs(pid) != os.getpid():
            deaths.leave("kill", {"pid": pid, "sender": os.getpid()})
        return original(pid, number)

    return kill
