"""The peak of this process and its children, from inside."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator

import pytest

from rlmem.runner.own import OwnPeak

MB = 10**6
HOLD = "import sys; block = bytearray(b'x') * 120_000_000; print(len(block), flush=True); sys.stdin.read()"


@pytest.fixture
def holder() -> Iterator[subprocess.Popen[str]]:
    """A process that holds 120 MB until it is told to end."""
    with subprocess.Popen(
        [sys.executable, "-c", HOLD], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as child:
        assert child.stdout is not None
        child.stdout.readline()
        yield child
        child.kill()


def test_a_spike_that_is_over_is_in_the_peak() -> None:
    with OwnPeak(interval_s=60) as peak:
        before = peak.peak_bytes()
        block = bytearray(b"x") * (200 * MB)
        del block
        assert peak.peak_bytes(full=True) - before == pytest.approx(200 * MB, rel=0.1)


def test_a_new_beginning_forgets_what_was_given_back() -> None:
    with OwnPeak(interval_s=60) as peak:
        block = bytearray(b"x") * (200 * MB)
        del block
        spiked = peak.peak_bytes(full=True)
        peak.start()
        assert peak.peak_bytes(full=True) < spiked - 150 * MB


def test_children_are_counted(holder: subprocess.Popen[str]) -> None:
    with OwnPeak(interval_s=60) as peak:
        with_child = peak.peak_bytes(full=True)
        holder.communicate("")
        peak.start()
        assert with_child - peak.peak_bytes(full=True) > 100 * MB


def test_processes_that_belong_are_counted_too() -> None:
    child = subprocess.Popen(
        ["setsid", "--fork", sys.executable, "-c", f"import os; print(os.getpid(), flush=True); {HOLD}"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert child.stdout is not None
    pid = int(child.stdout.readline())
    child.stdout.readline()
    try:
        with OwnPeak(interval_s=60) as alone, OwnPeak(interval_s=60, others=lambda: (pid,)) as together:
            assert together.peak_bytes(full=True) - alone.peak_bytes(full=True) > 100 * MB
    finally:
        child.communicate("")


def test_a_fork_carries_no_watch_along() -> None:
    with OwnPeak(interval_s=60) as peak:
        seen = peak.peak_bytes()
        child = os.fork()
        if not child:
            block = bytearray(b"x") * (100 * MB)
            os._exit(int(peak.peak_bytes(full=True) != seen or not block))
        assert os.waitpid(child, 0)[1] == 0


def test_the_thread_ends() -> None:
    peak = OwnPeak(interval_s=60).start()
    assert peak.is_watching
    peak.stop()
    assert not peak.is_watching
    peak.stop()
