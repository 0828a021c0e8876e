"""What watching costs: ``rlmem watch`` at one sample a second, as a share of one core, beside peers that poll psutil.

All watch the same process at the same time, each from a process of its own; the CPU time of each is read from
``/proc`` over the same stretch, after a start-up that does not count (the first looks at owners come at once). The target sleeps, so that its own CPU time in that
stretch is what being asked costs it. The goal is under 0.5 % of one core, whatever the size of the target.

    python benchmarks/watching.py --gb 4 --seconds 600
"""

from __future__ import annotations

import argparse
import os
import pty
import subprocess
import sys
import threading
import time

from rlmem.agent import proc
from rlmem.process.attach import preload
from rlmem.watch.members import read_member

TARGET = """
import sys, time
import numpy
kept = [numpy.ones(2**25 // 8) for _ in range(int(float(sys.argv[1]) * 32))]
infos = [{"r": float(n), "l": n} for n in range(20_000)]
print("ready", flush=True)
time.sleep(10_000)
"""
#: What a script written in an afternoon does, what psrecord does, and what 'mprof run' does (memory_profiler).
PSUTIL_FULL = """
import sys, time, psutil
process = psutil.Process(int(sys.argv[1]))
while True:
    for each in (process, *process.children(recursive=True)):
        info = each.memory_full_info(); each.num_threads(); each.cpu_times()
    print(info.pss, flush=True)
    time.sleep(1)
"""
PSRECORD = """
import sys, time, psutil
process = psutil.Process(int(sys.argv[1]))
while True:
    for each in (process, *process.children(recursive=True)):
        each.cpu_percent(); info = each.memory_info()
    print(info.rss, flush=True)
    time.sleep(1)
"""
GOAL = 0.005


def peers(pid: int) -> dict[str, list[str]]:
    """Every way to watch, by name."""
    rlmem = [sys.executable, "-m", "rlmem", "watch", str(pid)]
    return {
        "psutil memory_full_info": [sys.executable, "-c", PSUTIL_FULL, str(pid)],
        "psutil memory_info (psrecord, mprof)": [sys.executable, "-c", PSRECORD, str(pid)],
        "rlmem watch --plain": [*rlmem, "--plain"],
        "rlmem watch --json": [*rlmem, "--json"],
        "rlmem watch (dashboard)": rlmem,
    }


def start(name: str, command: list[str]) -> subprocess.Popen[bytes]:
    """A watcher; the dashboard gets a terminal, whose output is thrown away."""
    if "dashboard" not in name:
        return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    parent, terminal = pty.openpty()
    environment = {**os.environ, "TERM": "xterm-256color", "COLUMNS": "120", "LINES": "40"}
    process = subprocess.Popen(command, stdin=terminal, stdout=terminal, stderr=subprocess.DEVNULL, env=environment)
    os.close(terminal)
    threading.Thread(target=drain, args=(parent,), daemon=True).start()
    return process


def drain(file: int) -> None:
    """Read until the other end closes."""
    try:
        while os.read(file, 65536):
            pass
    except OSError:
        pass


def spent(pid: int) -> float:
    """CPU seconds of a process so far."""
    member = read_member(pid)
    if member is None:
        raise SystemExit(f"process {pid} ended too early")
    return member.cpu_s


def main() -> None:
    """Start everybody, wait, and compare."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--gb", type=float, default=2.0, help="resident size of the target (default 2)")
    parser.add_argument("--seconds", type=float, default=240.0, help="how long to measure (default 240)")
    parser.add_argument("--settle", type=float, default=45.0, help="start-up that does not count (default 45)")
    options = parser.parse_args()
    target = subprocess.Popen(
        [sys.executable, "-c", TARGET, str(options.gb)], stdout=subprocess.PIPE, env=preload(os.environ)
    )
    running: dict[str, subprocess.Popen[bytes]] = {}
    try:
        assert target.stdout is not None
        target.stdout.readline()
        running = {name: start(name, command) for name, command in peers(target.pid).items()}
        time.sleep(options.settle)
        begin = {name: spent(process.pid) for name, process in running.items()}
        asked, at = spent(target.pid), time.monotonic()
        time.sleep(options.seconds)
        elapsed = time.monotonic() - at
        shares = {name: (spent(process.pid) - begin[name]) / elapsed for name, process in running.items()}
        size = proc.rss(target.pid)
        print(f"target {size / 2**30:.1f} GiB, {elapsed:.0f} s, one sample a second, Python {sys.version.split()[0]}")
        first = next(iter(shares.values()))
        print(f"{'watcher':38} {'of one core':>11} {'ratio':>7}")
        for name, share in shares.items():
            print(
                f"{name:38} {share:10.2%} {share / first:7.2f}" + ("" if share < GOAL else "   over the goal of 0.5 %")
            )
        print(f"{'the target, asked by all of them':38} {(spent(target.pid) - asked) / elapsed:10.2%}")
    finally:
        for process in (*running.values(), target):
            process.kill()
            process.wait()


if __name__ == "__main__":
    main()
