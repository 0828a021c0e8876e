"""Finds environments that no library of ours knows, and where importing ends.

A Python function called ``step``, of an object that can also be reset, is an environment's: dm_env, PettingZoo, Tianshou's
vectors, a class of the script's own. Calls are looked at until the first one; imports, which are most of the calls until
then, go unwatched. From then on the class itself is patched, and nothing else is slowed down.
"""

import builtins
import inspect
import sys
import threading

from . import proc
from .state import OWN

#: Of these, environments are known already, or what has a ``step`` is none.
KNOWN = frozenset(("gymnasium", "gym", "torch", "optax", "ray"))
#: Bytes by which the process changes before importing is read again.
WORTH = 1 << 20
#: What learners have and environments have not.
LEARNERS = ("zero_grad", "state_dict", "backward")
_NO_PLAIN_CALL = inspect.CO_GENERATOR | inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR


class Steps:
    """Tells of the first environment step, and of every import of the target."""

    def __init__(self, state, found, imported):
        self.state, self.found, self.imported = state, found, imported
        self.over = False
        self._import, self._depth, self._rss = builtins.__import__, threading.local(), 0

    def start(self):
        """Begin to look, in this thread and those to come."""
        builtins.__import__ = self._importing
        threading.setprofile(self._called)
        sys.setprofile(self._called)

    def stop(self):
        """Enough was seen."""
        if not self.over:
            self.over = True
            builtins.__import__ = self._import
            threading.setprofile(None)
            if sys.getprofile() == self._called:
                sys.setprofile(None)

    def _importing(self, name, *args, **kwargs):
        """``import`` itself: what modules do while they are loaded is not looked at."""
        if getattr(self._depth, "now", 0) or self.over or self.state.forked:
            return self._import(name, *args, **kwargs)
        count, mine = len(sys.modules), sys.getprofile() == self._called
        self._depth.now = 1
        if mine:
            sys.setprofile(None)
        try:
            return self._import(name, *args, **kwargs)
        finally:
            self._depth.now = 0
            if mine and not self.over:
                sys.setprofile(self._called)
            if len(sys.modules) != count and threading.current_thread() is threading.main_thread():
                self._imported()

    def _imported(self):
        """A module was loaded: worth a reading if it is of any size."""
        now = proc.rss()
        if abs(now - self._rss) > WORTH:
            self._rss = now
            self.imported()

    def _called(self, frame, event, _):
        if self.over or self.state.forked:
            sys.setprofile(None)
        elif event == "call" and frame.f_code.co_name == "step":
            owner = environment_class(frame)
            if owner is not None:
                self.stop()
                self.found(owner)


def environment_class(frame):
    """The class whose ``step`` a frame runs, when it is an environment's; else ``None``."""
    code = frame.f_code
    if frame.f_back is not None and frame.f_back.f_code.co_filename.startswith(OWN):
        return None  # hooked already
    if not code.co_argcount or code.co_flags & _NO_PLAIN_CALL or code.co_filename.startswith(OWN):
        return None
    given = frame.f_locals
    kind = type(given.get(code.co_varnames[0]))
    if not callable(getattr(kind, "reset", None)) or any(hasattr(kind, name) for name in LEARNERS):
        return None
    if any("Tracer" in type(value).__name__ for value in given.values()):  # compiled by JAX, and called once
        return None
    for owner in kind.__mro__:
        function = vars(owner).get("step")
        while function is not None and getattr(function, "__code__", None) is not code:
            function = getattr(function, "__wrapped__", None)
        if function is not None:
            return None if owner.__module__.split(".")[0] in KNOWN else owner
    return None
