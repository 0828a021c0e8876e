"""What is asked of a program runs in its main thread, between two of its steps, and leaves no trace in it."""

from __future__ import annotations

import ast
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from rlmem.agent import mainthread

SRC = str(Path(mainthread.__file__).parents[2])


def from_a_thread(work: Any) -> list[Any]:
    """Run ``work`` in a thread while this one stays in Python code."""
    results: list[Any] = []

    def target() -> None:
        try:
            results.append(work())
        except BaseException as error:
            results.append(error)

    thread = threading.Thread(target=target)
    thread.start()
    while thread.is_alive():
        time.sleep(0.001)
    return results


def test_it_runs_in_the_main_thread() -> None:
    assert from_a_thread(lambda: mainthread.call(threading.get_ident, 5)) == [(True, threading.main_thread().ident)]


def test_in_the_main_thread_itself_it_runs_at_once() -> None:
    assert mainthread.call(lambda: 7, 0) == (True, 7)


def test_an_error_goes_to_the_one_who_asked_and_not_into_the_program() -> None:
    def broken() -> None:
        raise mainthread.threading.ThreadError("mine")

    broken.__globals__["__name__"] = "rlmem.test"
    try:
        (found,) = from_a_thread(lambda: mainthread.call(broken, 5))
        for _ in range(1000):
            pass
    finally:
        broken.__globals__["__name__"] = __name__
    assert str(found) == "mine"


def test_many_at_once_all_get_their_turn() -> None:
    results: list[Any] = []
    threads = [threading.Thread(target=lambda n=n: results.append(mainthread.call(lambda: n, 10))) for n in range(60)]
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        time.sleep(0.001)
    assert sorted(results) == [(True, n) for n in range(60)]


def test_a_main_thread_that_is_busy_elsewhere_is_not_waited_for_and_nothing_runs_later() -> None:
    program = f"""
import sys, threading, time
sys.path.insert(0, {SRC!r})
from rlmem.agent import mainthread
ran = []
def ask(): time.sleep(0.3); ran.append(mainthread.call(lambda: ran.append("late"), 0.1))
thread = threading.Thread(target=ask); thread.start()
time.sleep(1)
thread.join()
for _ in range(10000): pass
print(ran)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[(False, None)]"


@pytest.mark.parametrize("kind", ["KeyboardInterrupt", "Alarm"])
def test_a_signal_that_comes_meanwhile_still_reaches_the_program(kind: str) -> None:
    program = f"""
import os, signal, sys, threading, time
sys.path.insert(0, {SRC!r})
from rlmem.agent import mainthread
class Alarm(Exception): pass
def handler(*_): raise Alarm("now")
signal.signal(signal.SIGALRM, handler)
def slow():
    os.kill(os.getpid(), signal.SIGINT if {kind!r} == "KeyboardInterrupt" else signal.SIGALRM)
    for _ in range(10**6): pass
def ask():
    try: mainthread.call(slow, 5)
    except BaseException: pass
threading.Thread(target=ask).start()
try:
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline: time.sleep(0.001)
    print("lost")
except {kind} as error:
    print("came", error.args)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.strip() == ("came ()" if kind == "KeyboardInterrupt" else "came ('now',)")


@pytest.mark.parametrize("moment", ["before", "entering", "leaving"])
def test_a_signal_at_the_worst_moment_is_the_programs_own(moment: str) -> None:
    """Before its handler is held back, between two handlers that are, and when it is back while another is not."""
    program = f"""
import os, signal, sys, threading, time
sys.path.insert(0, {SRC!r})
from rlmem.agent import mainthread
def other(*_): pass
signal.signal(signal.SIGTERM, other)
real, valid, moment, sent = signal.signal, signal.valid_signals, {moment!r}, []
def interrupt():
    if not sent:
        sent.append(1)
        signal.raise_signal(signal.SIGINT)
def exchanged(number, handler):
    if number == signal.SIGTERM and (moment == "leaving") == (handler is other): interrupt()
    return real(number, handler)
if moment == "before":
    signal.valid_signals = lambda: (interrupt(), valid())[1]
else:
    signal.signal = exchanged
said = []
def ask():
    try: said.append(mainthread.call(lambda: 7, 5))
    except Exception as error: said.append(type(error).__name__)
asking = threading.Thread(target=ask)
try:
    asking.start()
    while asking.is_alive(): time.sleep(0.001)
    time.sleep(0.2)
    print("lost")
except KeyboardInterrupt:
    print("came")
asking.join()
print(said, signal.getsignal(signal.SIGINT) is signal.default_int_handler, signal.getsignal(signal.SIGTERM) is other)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60)
    assert done.stderr == ""
    came, said = done.stdout.splitlines()
    assert came == "came"
    assert said.endswith(" True True")
    assert said.startswith(("[(True, 7)]", "['Interrupted']"))


def test_the_signals_of_this_process_are_as_they_were() -> None:
    before = signal.getsignal(signal.SIGINT)
    from_a_thread(lambda: mainthread.call(os.getpid, 5))
    assert signal.getsignal(signal.SIGINT) is before


def test_nothing_is_imported_between_a_fork_and_the_program() -> None:
    """A module that the agent's thread was importing when the program forked stays locked in the child for ever."""
    source = (Path(__file__).parents[3] / "src" / "rlmem" / "agent" / "server.py").read_text(encoding="utf-8")
    (forked,) = [node for node in ast.parse(source).body if isinstance(node, ast.FunctionDef) and node.name == "forked"]
    assert not [node for node in ast.walk(forked) if isinstance(node, (ast.Import, ast.ImportFrom))]
