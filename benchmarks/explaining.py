"""What an explanation costs: seconds for a large process, and how long the program stands still for it.

One child holds ``--gb`` of memory (half of it in huge pages if the kernel gives them, half not), a long list of small
objects and a replay buffer; it counts its own steps. It is explained, and beside it, in the same run, read as other
tools read it: psutil's ``memory_full_info`` (sums only) and ``memory_maps`` (every mapping). Run by ``make bench``:

    python benchmarks/explaining.py [--gb 20] [--rounds 5]
"""

from __future__ import annotations

import argparse
import os
import platform
import statistics
import subprocess
import sys
import time
from collections.abc import Callable

import psutil

from rlmem.process import attach
from rlmem.process.explain import explain_process
from rlmem.units import format_size

PROGRAM = r"""
import ctypes, mmap, sys, time
import numpy as np
half = int(float(sys.argv[1]) * 5e8)
huge = np.ones(half, np.uint8)
plain = mmap.mmap(-1, half, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
if hasattr(mmap, "MADV_NOHUGEPAGE"):
    plain.madvise(mmap.MADV_NOHUGEPAGE)
pages = np.frombuffer(plain, np.uint8)
pages[::4096] = 1
class Buffer:
    def __init__(self):
        self.capacity, self.size, self.states = 100_000, 1000, np.zeros((100_000, 100), np.float32)
buffer = Buffer()
transitions = [(n, float(n), (n, n)) for n in range(300_000)]
longest = 0.0
print("ready", flush=True)
before = time.perf_counter()
while True:
    now = time.perf_counter()
    longest = max(longest, now - before)
    before = now
"""


def timed(work: Callable[[], object], rounds: int) -> float:
    """Median seconds."""
    seconds = []
    for _ in range(rounds):
        begin = time.perf_counter()
        work()
        seconds.append(time.perf_counter() - begin)
    return statistics.median(seconds)


def main() -> None:
    """Start the child, read it in each way, print the figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gb", type=float, default=8.0)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    command = [sys.executable, "-c", PROGRAM, str(options.gb)]
    child = subprocess.Popen(command, env=attach.preload(os.environ), stdout=subprocess.PIPE, text=True)
    try:
        assert child.stdout is not None
        child.stdout.readline()
        process = psutil.Process(child.pid)
        found = [explain_process(child.pid, timeout_s=30) for _ in range(options.rounds)]
        ours = statistics.median(each.seconds for each in found)
        full = timed(process.memory_full_info, options.rounds)
        maps = timed(lambda: process.memory_maps(grouped=False), options.rounds)
        last = found[-1]
        print(
            f"Python {platform.python_version()}, Linux {platform.release()}, {os.cpu_count()} cores, psutil {psutil.__version__}"
        )
        print(f"resident {format_size(last.rss_bytes)}, pages by {last.pages_from}, names by {last.way}")
        print(f"rlmem explain                 {ours:7.3f} s   named {100 * last.named_bytes / last.rss_bytes:.1f} %")
        print(f"  of which the program stood  {max(each.paused_s for each in found):7.3f} s   (longest)")
        print(f"psutil memory_full_info       {full:7.3f} s   ({ours / full:.1f} × that for owners, classes and pages)")
        print(f"psutil memory_maps            {maps:7.3f} s   ({ours / maps:.1f} ×)")
    finally:
        child.kill()
        child.wait()


if __name__ == "__main__":
    main()
