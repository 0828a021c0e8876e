"""The program's finalizers run in the program's own threads and never because somebody looks at it."""

from __future__ import annotations

import gc
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from rlmem.agent import collector
from rlmem.process import attach
from rlmem.process.explain import explain_process

#: Cycles whose end is written down with the thread it came in, and whether the agent was at work there.
PROGRAM = """
import json, sys, threading, time
ended = {"own": 0, "foreign": 0}
class Connection:
    def __init__(self):
        self.itself, self.thread, self.texts = self, threading.get_ident(), [str(n) for n in range(50)]
    def __del__(self):
        frame, inside = sys._getframe(), False
        while frame is not None:
            inside = inside or "_rlmem_agent" in str(frame.f_globals.get("__name__"))
            frame = frame.f_back
        ended["foreign" if inside or threading.get_ident() != self.thread else "own"] += 1
kept = [{"n": n, "list": [n]} for n in range(20_000)]
def work(seconds, pause):
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        for _ in range(20): Connection()
        time.sleep(pause)
print("ready", flush=True)
for line in sys.stdin:
    exec(line)
    print(json.dumps(ended), flush=True)
"""


def run(tmp_path: Path, line: str, *, looks: int) -> dict[str, int]:
    script = tmp_path / "finalizers.py"
    script.write_text(PROGRAM)
    child = subprocess.Popen(
        [sys.executable, str(script)],
        env=attach.preload(os.environ),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert child.stdin is not None
        assert child.stdout is not None
        assert child.stdout.readline() == "ready\n"
        child.stdin.write(line + "\n")
        child.stdin.flush()
        for _ in range(looks):
            assert explain_process(child.pid).way == "agent"
            assert attach.ask(child.pid, {"ask": "counts"})
        counts: dict[str, int] = json.loads(child.stdout.readline())
        return counts
    finally:
        child.kill()
        child.communicate()


@pytest.mark.parametrize(
    "line",
    ["work(1.5, 0.002)", "work(0.3, 0.002); time.sleep(1.2)"],
    ids=["while it works", "while it sleeps"],
)
def test_finalizers_run_in_the_thread_that_made_the_garbage(tmp_path: Path, line: str) -> None:
    ended = run(tmp_path, line, looks=5)
    assert ended["own"] > 0
    assert ended["foreign"] == 0


def test_the_collector_goes_on_as_the_program_had_it() -> None:
    before = gc.get_threshold()
    with collector.HeldOff():
        with collector.HeldOff():
            assert gc.get_threshold() == collector.NEVER
        assert gc.get_threshold() == collector.NEVER
        gc.set_threshold(901, 11, 12)
    assert gc.get_threshold() == (901, 11, 12)
    gc.set_threshold(*before)
    with collector.HeldOff():
        gc.disable()
    assert not gc.isenabled()
    gc.enable()
    assert gc.get_threshold() == before


def test_a_child_that_was_forked_meanwhile_collects_its_garbage() -> None:
    before = gc.get_threshold()
    with collector.HeldOff():
        pid = os.fork()
        if pid == 0:
            collector.reset()
            os._exit(0 if gc.get_threshold() == before else 1)
    assert os.waitpid(pid, 0)[1] == 0
