"""Run something in the program's main thread, between two of its own steps.

Tensors are not safe to look into from another thread: while the main thread is inside a call of torch's, without
Python's lock, gradients are exchanged beneath whoever reads them. Python runs "pending calls" in the main thread when
it is between two instructions, which is also how signal handlers come to run; there nothing of the program is under way.
"""

import ctypes
import signal
import sys
import threading
import time

#: Frames that must be free on the main thread's stack.
SPARE_FRAMES = 150
_tasks = []
_state = {"queued": False, "trampoline": None, "lock": threading.Lock()}


class Task:
    """A function waiting for its turn; it runs once, unless whoever asked has given up by then."""

    def __init__(self, function):
        self.function = function
        self.begun, self.done = threading.Event(), threading.Event()
        self.cancelled = self.foreign = False
        self.result = self.error = None
        self.signals = []

    def run(self):
        """Run, and keep what comes of it; signals wait until it is over."""
        try:
            with Held(self.signals):
                self.begun.set()
                self.result = self.function()
        except BaseException as error:  # told to whoever asked
            self.error = error
            self.foreign = not issubclass(type(error), Exception)
        finally:
            self.done.set()


class Held:
    """The main thread's signals, held back: a handler that raises would raise into us instead of into the program.

    Handlers written in Python are exchanged for one that takes a note, and put back at the end. What was noted is sent
    again afterwards, from another thread.
    """

    def __init__(self, noted):
        self.noted, self.handlers, self.wakeup = noted, {}, -1

    def __enter__(self):
        for number in signal.valid_signals():
            handler = signal.getsignal(number)
            if handler is not None and handler not in (signal.SIG_DFL, signal.SIG_IGN):
                self.handlers[number] = handler
        if self.handlers:
            self.wakeup = signal.set_wakeup_fd(-1)
        for number in self.handlers:
            signal.signal(number, self._note)

    def _note(self, number, _frame):
        self.noted.append(number)

    def __exit__(self, *_):
        for number, handler in self.handlers.items():
            if signal.getsignal(number) == self._note:
                signal.signal(number, handler)
        if self.wakeup != -1:
            signal.set_wakeup_fd(self.wakeup, warn_on_full_buffer=False)


def _hand_on(task):
    """Give the program what was meant for it, now that its main thread is its own again: from another thread only."""
    for number in task.signals:
        signal.pthread_kill(threading.main_thread().ident, number)
    if task.foreign:  # raised here by somebody from outside, who could not give more than its type
        ident = ctypes.c_ulong(threading.main_thread().ident)
        ctypes.pythonapi.PyThreadState_SetAsyncExc(ident, ctypes.py_object(type(task.error)))


def _work(_argument):
    """What the interpreter calls."""
    with _state["lock"]:
        _state["queued"] = False
        waiting = [task for task in _tasks if not task.cancelled]
        del _tasks[:]
        for task in waiting:
            task.begun.set()
    for task in waiting:
        task.run()
    return 0


def reset():
    """After a fork: nobody waits here, whoever held the lock is not here, and what was queued is not run."""
    _state["lock"] = threading.Lock()
    for task in _tasks:
        task.cancelled = True
    _state["queued"] = False


def _queue(task):
    with _state["lock"]:
        _tasks.append(task)
        if _state["queued"]:
            return True
        if _state["trampoline"] is None:
            _state["trampoline"] = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_void_p)(_work)
        _state["queued"] = ctypes.pythonapi.Py_AddPendingCall(_state["trampoline"], None) == 0
        return _state["queued"]


def is_ready():
    """Whether Python code can be run in the main thread.

    Not inside a function that torch compiles, which would compile ours as well, and not close to the end of the stack.
    """
    frame, depth = sys._current_frames().get(threading.main_thread().ident), 0
    while frame is not None:
        if "/torch/_dynamo/" in frame.f_code.co_filename:
            return False
        frame, depth = frame.f_back, depth + 1
    return depth + SPARE_FRAMES < sys.getrecursionlimit()


def call(function, seconds):
    """Run a function in the main thread; ``(True, result)``, or ``(False, None)`` when it did not come to it in time.

    The main thread comes to it when it is in Python code. In a long call of C, asleep or waiting for another process,
    it does not, and nothing is run later.
    """
    if sys.implementation.name != "cpython" or not threading.main_thread().is_alive():
        return False, None
    deadline = time.monotonic() + seconds
    while not is_ready():
        if time.monotonic() > deadline:
            return False, None
        time.sleep(0.005)
    task = Task(function)
    if threading.current_thread() is threading.main_thread():
        return True, function()
    if not _queue(task) or not task.begun.wait(seconds):
        with _state["lock"]:
            task.cancelled = not task.begun.is_set()
        if task.cancelled:
            return False, None
    task.done.wait()
    if threading.current_thread() is not threading.main_thread():
        _hand_on(task)
    if task.error is not None:
        raise task.error
    return True, task.result
