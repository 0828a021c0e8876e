"""Run something in the program's main thread, between two of its own steps.

Tensors are not safe to look into from another thread: while the main thread is inside a call of torch's, without
Python's lock, gradients are exchanged beneath whoever reads them. Python runs "pending calls" in the main thread when
it is between two instructions, which is also how signal handlers come to run; there nothing of the program is under way.
"""

import ctypes
import sys
import threading
import time

_lock = threading.Lock()
_tasks = []
_state = {"queued": False, "trampoline": None}


class Task:
    """A function waiting for its turn; it runs once, unless whoever asked has given up by then."""

    def __init__(self, function):
        self.function = function
        self.begun, self.done = threading.Event(), threading.Event()
        self.cancelled = self.foreign = False
        self.result = self.error = None

    def run(self):
        """Run, and keep what comes of it. An exception a signal handler raised here is the program's own."""
        self.begun.set()
        try:
            self.result = self.function()
        except BaseException as error:  # told to whoever asked
            self.error = error
            self.foreign = not (_is_ours(error) and issubclass(type(error), Exception))
        finally:
            self.done.set()


def _is_ours(error):
    """Whether an exception began in our own code, and not in a handler of a signal that came meanwhile."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    return trace is None or str(trace.tb_frame.f_globals.get("__name__", "")).split(".")[0] in ("_rlmem_agent", "rlmem")


def _hand_on(error):
    """Raise it again where it belongs: in the main thread's own code, at its next step. Not to be called from there."""
    ident = ctypes.c_ulong(threading.main_thread().ident)
    ctypes.pythonapi.PyThreadState_SetAsyncExc(ident, ctypes.py_object(type(error)))


def _work(_argument):
    """What the interpreter calls."""
    with _lock:
        _state["queued"] = False
        waiting = [task for task in _tasks if not task.cancelled]
        del _tasks[:]
        for task in waiting:
            task.begun.set()
    for task in waiting:
        task.run()
    return 0


def _queue(task):
    with _lock:
        _tasks.append(task)
        if _state["queued"]:
            return True
        if _state["trampoline"] is None:
            _state["trampoline"] = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_void_p)(_work)
        _state["queued"] = ctypes.pythonapi.Py_AddPendingCall(_state["trampoline"], None) == 0
        return _state["queued"]


def is_compiling():
    """Whether the main thread is inside a function torch compiles: Python code run there would be compiled as well."""
    frame = sys._current_frames().get(threading.main_thread().ident)
    while frame is not None:
        if "/torch/_dynamo/" in frame.f_code.co_filename:
            return True
        frame = frame.f_back
    return False


def call(function, seconds):
    """Run a function in the main thread; ``(True, result)``, or ``(False, None)`` when it did not come to it in time.

    The main thread comes to it when it is in Python code. In a long call of C, asleep or waiting for another process,
    it does not, and nothing is run later.
    """
    if sys.implementation.name != "cpython" or not threading.main_thread().is_alive():
        return False, None
    deadline = time.monotonic() + seconds
    while is_compiling():
        if time.monotonic() > deadline:
            return False, None
        time.sleep(0.005)
    task = Task(function)
    if threading.current_thread() is threading.main_thread():
        task.run()
    elif not _queue(task) or not task.begun.wait(seconds):
        with _lock:
            task.cancelled = not task.begun.is_set()
        if task.cancelled:
            return False, None
    task.done.wait()
    if task.error is not None:
        if task.foreign and threading.current_thread() is not threading.main_thread():
            _hand_on(task.error)
        raise task.error
    return True, task.result
