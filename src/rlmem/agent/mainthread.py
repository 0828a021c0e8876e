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
#: Of the interpreter's places for calls, so many may wait for one main thread.
MOST_GIVEN = 8
#: A task that has begun is waited for no longer; the program may be stopped meanwhile.
LONGEST = 60.0
_tasks = []
_state = {"given": 0, "run": None, "lock": threading.Lock()}


class Interrupted(Exception):  # noqa: N818  # a state of things
    """Something of the program's came between; told to whoever asked. The program has got it as if nobody had asked."""


class Task:
    """A function waiting for its turn; it runs once, unless whoever asked has given up by then."""

    def __init__(self, function):
        self.function = function
        self.begun, self.done = threading.Event(), threading.Event()
        self.cancelled = self.finished = False
        self.result = self.error = None
        self.signals = []
        self.paused_s = 0.0

    def run(self):
        """Run, and keep what comes of it; signals wait until it is over.

        What is raised here by somebody else (a handler that ran before its signal was held back, another thread) goes
        on into the program, whose it is.
        """
        begin = time.monotonic()
        try:
            with Held(self.signals):
                self.begun.set()
                try:
                    self.result = self.function()
                except Exception as error:  # told to whoever asked
                    self.error = error
                self.finished = True
        except BaseException as error:
            if not self.finished:
                self.error = interrupted(error)
            raise
        finally:
            self.paused_s = time.monotonic() - begin
            self.done.set()


def interrupted(error):
    """What whoever asked is told of an error that is the program's."""
    return Interrupted("the program was interrupted meanwhile (%s)" % type(error).__name__)


class Held:
    """The main thread's signals, held back: a handler that raises would raise into us instead of into the program.

    Handlers written in Python are exchanged for one that takes a note, and put back at the end. What was noted is sent
    again afterwards, from another thread. A signal may come at any step of this: then its handler is still, or again,
    the program's, what it raises goes on, and all handlers are put back.
    """

    def __init__(self, noted):
        self.noted, self.handlers, self.wakeup = noted, {}, -1

    def __enter__(self):
        try:
            for number in signal.valid_signals():
                handler = signal.getsignal(number)
                if handler is not None and handler not in (signal.SIG_DFL, signal.SIG_IGN):
                    self.handlers[number] = handler
            if self.handlers:
                self.wakeup = signal.set_wakeup_fd(-1)
            for number in self.handlers:
                signal.signal(number, self._note)
        except BaseException:
            self._put_back()
            raise

    def _note(self, number, _frame):
        self.noted.append(number)

    def __exit__(self, *_):
        self._put_back()

    def _put_back(self):
        try:
            if self.wakeup != -1:
                signal.set_wakeup_fd(self.wakeup, warn_on_full_buffer=False)
            for number, handler in self.handlers.items():
                if signal.getsignal(number) == self._note:
                    signal.signal(number, handler)
        except BaseException:  # of a handler that is back already: the others are still to come
            self._put_back()
            raise


def _hand_on(task):
    """Give the program what was meant for it, now that its main thread is its own again: from another thread only."""
    for number in task.signals:
        signal.pthread_kill(threading.main_thread().ident, number)


class Waiting:
    """All tasks that wait, as an object that runs them when it is asked whether it is true.

    The interpreter's list of calls takes a C function. ``PyObject_IsTrue`` is one that runs Python code and hands on
    what that raises. One made by ctypes prints it and goes on: a Ctrl-C at its first instruction was lost, with a
    traceback on the user's terminal.
    """

    def __bool__(self):
        waiting = []
        try:
            with _state["lock"]:
                _state["given"] = 0
                waiting += [task for task in _tasks if not task.cancelled]
                del _tasks[:]
                for task in waiting:
                    task.begun.set()
            for task in waiting:
                task.run()
        except BaseException as error:
            for task in waiting:
                if not task.done.is_set():
                    task.error = interrupted(error)
                    task.done.set()
            raise error.with_traceback(None)  # noqa: B904  # the same error, without our lines
        return False


_waiting = Waiting()


def reset():
    """After a fork: nobody waits here, whoever held the lock is not here, and what was queued is not run."""
    _state["lock"] = threading.Lock()
    for task in _tasks:
        task.cancelled = True
    _state["given"] = 0


def _queue(task):
    """Have the interpreter run what waits; whether it will.

    What it was given and has not run (it may have been interrupted at the first instruction) is given again for the
    next task. A main thread in a long call comes to none of them: its list has 32 places, and is not filled.
    """
    with _state["lock"]:
        _tasks.append(task)
        if _state["given"] >= MOST_GIVEN:
            return True
        if _state["run"] is None:
            _state["run"] = ctypes.cast(ctypes.pythonapi.PyObject_IsTrue, ctypes.c_void_p)
        _state["given"] += 1
        return ctypes.pythonapi.Py_AddPendingCall(_state["run"], ctypes.py_object(_waiting)) == 0


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


def call(function, seconds, pauses=None):
    """Run a function in the main thread; ``(True, result)``, or ``(False, None)`` when it did not come to it in time.

    The main thread comes to it when it is in Python code. In a long call of C, asleep or waiting for another process,
    it does not, and nothing is run later. How long the program stood still for it, in seconds, is added to ``pauses``.
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
        begin = time.monotonic()
        task.result = function()
        task.paused_s = time.monotonic() - begin
    else:
        if not _queue(task) or not task.begun.wait(seconds):
            with _state["lock"]:
                task.cancelled = not task.begun.is_set()
            if task.cancelled:
                return False, None
        if not task.done.wait(LONGEST):
            raise Interrupted("the main thread did not come to an end with what it was asked")
        _hand_on(task)
    if pauses is not None:
        pauses.append(task.paused_s)
    if task.error is not None:
        raise task.error
    return True, task.result
