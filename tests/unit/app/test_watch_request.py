"""Watching by a typed request: events in their order, the end, and who draws."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator

import pytest

from rlmem.app.watch import LiveTargets, WatchRequest, watch
from rlmem.documents.moment import MomentDocument
from rlmem.documents.watch import MessagePart, WatchEndPart, WatchEvent
from rlmem.errors import UsageError
from rlmem.watch.watching import Watching

QUICK = 0.05


@pytest.fixture
def pid() -> Iterator[str]:
    process = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    yield str(process.pid)
    process.kill()
    process.wait()


def test_moments_are_told_and_then_the_end(pid: str) -> None:
    events: list[WatchEvent] = []
    end = watch(WatchRequest(pids=(pid,), interval_s=QUICK, duration="0.4s", warn_at="1kB"), events.append)
    *before, last = events
    assert last is end
    assert [title for title, _ in end.targets] == [pid]
    seen = end.targets[0][1]
    assert seen is not None
    moments = [event for event in before if isinstance(event, MomentDocument)]
    assert len(moments) > 2
    assert seen.peak_bytes == max(moment.moment.tree_bytes for moment in moments)
    warnings = [event for event in before if isinstance(event, MessagePart)]
    assert [warning.is_aside for warning in warnings] == [True]
    assert not end.failure


def test_a_size_that_is_passed_ends_the_watch_with_a_failure(pid: str) -> None:
    end = watch(WatchRequest(pids=(pid,), interval_s=QUICK, duration="10s", fail_at="1kB"), lambda event: None)
    assert end.failure.startswith(f"{pid} holds ")


def test_ctrl_c_ends_the_watch_once_something_was_seen(pid: str) -> None:
    events: list[WatchEvent] = []

    def tell(event: WatchEvent) -> None:
        events.append(event)
        if isinstance(event, MomentDocument):
            raise KeyboardInterrupt

    watch(WatchRequest(pids=(pid,), interval_s=QUICK), tell)
    assert [type(event) for event in events] == [MomentDocument, MessagePart, WatchEndPart]


def test_ctrl_c_before_anything_was_seen_goes_through(pid: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Watching, "step", interrupted)
    with pytest.raises(KeyboardInterrupt):
        watch(WatchRequest(pids=(pid,)), lambda event: None)


def test_who_draws_is_told_of_the_end_alone(pid: str) -> None:
    events: list[WatchEvent] = []
    drawn = []

    def draw(targets: LiveTargets) -> bool:
        targets.step()
        targets.step()
        drawn.append(targets.target(0))
        return True

    end = watch(WatchRequest(pids=(pid,)), events.append, draw=draw)
    assert events == [end]
    assert (drawn[0].target, len(drawn[0].moments), drawn[0].end) == (pid, 2, "")
    assert drawn[0].last is not None
    assert drawn[0].last.members[0].pid == int(pid)


@pytest.mark.parametrize(
    ("asked", "problem"),
    [
        (WatchRequest(), "what to watch"),
        (WatchRequest(pids=("x",)), "'x' is not the number of a process"),
        (WatchRequest(pids=(str(os.getpid()),), duration="soon"), "'soon' is not a time"),
        (WatchRequest(pids=(str(os.getpid()),), every="often"), "'often' is not a time"),
        (WatchRequest(pids=(str(os.getpid()),), fail_at="120%"), "--fail-at '120%' is not between"),
    ],
)
def test_a_request_for_nothing_is_refused(asked: WatchRequest, problem: str) -> None:
    with pytest.raises(UsageError, match=problem):
        watch(asked, lambda event: None)
