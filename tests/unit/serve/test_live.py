"""Finding and watching real processes for the live page."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator

import pytest

from rlmem.app.explain import ExplainRequest, explain
from rlmem.errors import AnalysisError
from rlmem.serve import live
from rlmem.serve.live import Finder, Hub, polled_moment

AGENT = "import rlmem.preload, sys, time\nkept = bytearray(30 << 20)\nprint('ready', flush=True)\ntime.sleep(600)\n"
PLAIN = "import sys, time\nprint('ready', flush=True)\ntime.sleep(600)\n"


@pytest.fixture
def start() -> Iterator[Callable[..., subprocess.Popen[str]]]:
    children: list[subprocess.Popen[str]] = []

    def begin(code: str, *args: str) -> subprocess.Popen[str]:
        child = subprocess.Popen([sys.executable, "-c", code, *args], stdout=subprocess.PIPE, text=True)
        children.append(child)
        assert child.stdout is not None
        assert child.stdout.readline() == "ready\n"
        return child

    yield begin
    for child in children:
        child.kill()
        child.wait()
        if child.stdout:
            child.stdout.close()


@pytest.fixture
def hub() -> Iterator[Hub]:
    made = Hub()
    yield made
    made.close()


def until(is_so: Callable[[], bool], what: str) -> None:
    end = time.monotonic() + 20
    while not is_so():
        assert time.monotonic() < end, what
        time.sleep(0.05)


def test_a_process_with_an_agent_is_found_and_one_that_only_sleeps_is_not(
    start: Callable[..., subprocess.Popen[str]],
) -> None:
    trained, idle = start(AGENT, "<script>alert(1)</script>"), start(PLAIN)
    found = {each.pid: each for each in Finder().find()}
    assert idle.pid not in found
    assert os.getpid() not in found
    assert found[trained.pid].can_name
    assert "<script>" in found[trained.pid].command


def test_what_is_not_found_at_first_is_looked_at_again(
    start: Callable[..., subprocess.Popen[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [0.0]
    finder = Finder(clock=lambda: now[0])
    child = start(PLAIN)
    assert child.pid not in {each.pid for each in finder.find()}
    monkeypatch.setattr(live, "LIBRARIES", ("python",))
    assert child.pid not in {each.pid for each in finder.find()}
    now[0] += live.LOOK_AGAIN_S + 1
    assert child.pid in {each.pid for each in finder.find()}


def test_one_sampler_serves_all_who_look_on(start: Callable[..., subprocess.Popen[str]], hub: Hub) -> None:
    child = start(AGENT)
    watches = [hub.look(child.pid) for _ in range(50)]
    assert len({id(each) for each in watches}) == 1
    assert sum(thread.name == f"rlmem-watch-{child.pid}" for thread in threading.enumerate()) == 1
    until(lambda: watches[0].frame is not None, "nothing was seen")
    moment = polled_moment(watches[0])
    assert moment.moment.tree_bytes > 30 << 20
    drawn = [hub.drawn(watches[0], "", lambda: str(time.monotonic_ns())) for _ in range(3)]
    assert len(set(drawn)) <= 2  # a new moment may come in between


def test_a_watch_ends_with_its_process_and_says_so(start: Callable[..., subprocess.Popen[str]], hub: Hub) -> None:
    child = start(AGENT)
    watched = hub.look(child.pid)
    until(lambda: watched.frame is not None, "nothing was seen")
    child.send_signal(signal.SIGKILL)
    child.wait()
    until(lambda: bool(watched.end), "the end was not seen")
    assert "ended" in watched.end
    assert hub.look(child.pid) is watched  # what was seen of it is still there


def test_a_watch_that_nobody_looks_at_ends(
    start: Callable[..., subprocess.Popen[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(live, "FORGOTTEN_S", 0.2)
    monkeypatch.setattr(live, "INTERVAL_S", 0.1)
    child = start(PLAIN)
    name = f"rlmem-watch-{child.pid}"
    Hub().look(child.pid)
    until(lambda: not any(thread.name == name for thread in threading.enumerate()), "the sampler went on")


def test_what_was_seen_of_an_ended_process_is_let_go_when_nobody_looks(
    start: Callable[..., subprocess.Popen[str]],
) -> None:
    now = [0.0]
    hub = Hub(clock=lambda: now[0])
    ended, other = start(PLAIN), start(PLAIN)
    watched = hub.look(ended.pid)
    ended.kill()
    ended.wait()
    until(lambda: bool(watched.end), "the end was not seen")
    now[0] += live.FORGOTTEN_S + 1
    hub.look(other.pid)
    assert list(hub._watches) == [other.pid]
    hub.close()


def test_a_sampler_that_fails_says_so_on_its_page(start: Callable[..., subprocess.Popen[str]], hub: Hub) -> None:
    watched = hub.look(start(PLAIN).pid)
    until(lambda: watched.frame is not None, "nothing was seen")

    def fail() -> None:
        raise ValueError("ours")

    watched.watching.step = fail  # type: ignore[method-assign]
    until(lambda: bool(watched.end), "the end was not seen")
    assert watched.end == "cannot look at it any more: ValueError: ours"


def test_a_process_that_is_gone_cannot_be_watched(hub: Hub) -> None:
    child = subprocess.Popen([sys.executable, "-c", ""])
    child.wait()
    with pytest.raises(AnalysisError, match="no process"):
        hub.look(child.pid)


def test_no_more_than_a_few_are_watched_at_once(
    start: Callable[..., subprocess.Popen[str]], hub: Hub, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(live, "MOST_WATCHES", 1)
    hub.look(start(PLAIN).pid)
    with pytest.raises(live.UsageError, match="being watched already"):
        hub.look(start(PLAIN).pid)


def test_explaining_names_what_holds_the_memory(start: Callable[..., subprocess.Popen[str]]) -> None:
    document = explain(ExplainRequest(pid=start(AGENT).pid))
    assert any("kept" in holding.path for holding in document.top.holdings)
