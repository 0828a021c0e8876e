"""Children, figures and how much is measured."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from rlmem.sources.preset import PRESETS
from rlmem.watch.members import read_member

#: Capacity and remedies are asked for 300 ms after a picture: the server is done with them.
IDLE = "() => !document.querySelector('.later')"
PATIENCE_MS = 30_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Amount:
    """How much is measured."""

    loads: int = 15
    inputs: int = 30
    pauses: int = 10
    settle_s: float = 20.0
    seconds: float = 30.0
    presets: tuple[str, ...] = tuple(PRESETS)


QUICK = Amount(
    loads=5, inputs=8, pauses=3, settle_s=6.0, seconds=8.0, presets=("drone-swarm", "pyboy-ppo", "pidog-sac")
)


@contextlib.contextmanager
def child(command: Sequence[str], env: Mapping[str, str], *, is_heard: bool = True) -> Iterator[subprocess.Popen[str]]:
    """A child in a session of its own, so that Ctrl-C reaches us first; at the end all of the session is ended."""
    process = subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE if is_heard else subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        text=True,
        env=env,
        start_new_session=True,
    )
    try:
        yield process
    finally:
        process.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(8)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


@dataclass(frozen=True, slots=True, kw_only=True)
class Server:
    """A server that answers."""

    url: str
    token: str
    pid: int

    @property
    def bearer(self) -> dict[str, str]:
        """The header that allows to watch."""
        return {"authorization": f"Bearer {self.token}"}


@contextlib.contextmanager
def serving(env: Mapping[str, str]) -> Iterator[Server]:
    """``rlmem serve`` on a free port."""
    with child([sys.executable, "-m", "rlmem", "serve", "--port", "0"], env) as process:
        assert process.stdout is not None
        link = re.search(r"(http://\S+/)token/(\S+)", process.stdout.readline())
        if link is None:
            raise SystemExit("rlmem serve did not start")
        yield Server(url=link[1], token=link[2], pid=process.pid)


def spent(pid: int) -> float:
    """CPU seconds of a process so far, all its threads."""
    member = read_member(pid)
    if member is None:
        raise SystemExit(f"process {pid} ended too early")
    return member.cpu_s


def settled(pid: int) -> None:
    """Wait until a process has nothing to do: what a page asked for last may still be worked on."""
    before, end = -1.0, time.monotonic() + 20
    while spent(pid) != before and time.monotonic() < end:
        before = spent(pid)
        time.sleep(0.4)


def middle(values: Sequence[float]) -> dict[str, float]:
    """Median, 95th percentile (nearest rank) and largest."""
    if not values:
        return {"count": 0, "median": float("nan"), "p95": float("nan"), "max": float("nan")}
    rows = sorted(values)
    rank = max(0, -(-95 * len(rows) // 100) - 1)
    return {"count": len(rows), "median": statistics.median(rows), "p95": rows[rank], "max": rows[-1]}


def goal(is_met: bool, words: str) -> str:
    """A line that judges and fails nothing."""
    return f"goal {'met' if is_met else 'missed'}: {words}"


def busy_and_all() -> tuple[float, float]:
    """Clock ticks of all cores so far: at work, and altogether."""
    numbers = [float(word) for word in Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:9]]
    return sum(numbers) - numbers[3] - numbers[4], sum(numbers)


@dataclass(slots=True)
class Load:
    """How busy the machine is over a stretch: everybody, this benchmark with its children among them."""

    begin: tuple[float, float] = field(default_factory=busy_and_all)

    def words(self) -> str:
        """The load so far."""
        busy, total = (end - start for end, start in zip(busy_and_all(), self.begin, strict=True))
        averages = ", ".join(f"{each:.1f}" for each in os.getloadavg()[:2])
        return (
            f"load averages {averages}; {os.cpu_count()} cores {100 * busy / max(total, 1):.0f} % busy, we among them"
        )
