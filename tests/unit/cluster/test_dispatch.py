"""Tasks are asked for a few at a time, and what ends is told at once. The cluster here is a list; tests/ray has real ones."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from typing import Any

import pytest

from rlmem.ray import dispatch
from rlmem.ray.dispatch import Dispatch, Ended, HeadLostError, Step
from rlmem.ray.reserving import Need

NODE = {"Alive": True, "NodeID": "n1", "NodeManagerHostname": "here", "Resources": {"CPU": 2, "memory": 10**12}}


class Ray:
    """Tasks end as soon as they are asked for."""

    def __init__(self, *, is_lost: bool = False) -> None:
        self.asked, self.is_lost = 0, is_lost

    def nodes(self) -> list[dict[str, Any]]:
        return [NODE]

    def remote(self, *args: Any, **_: Any) -> Any:
        if args and isinstance(args[0], dict):
            self.asked += 1
            return self.asked
        return lambda function: self

    def options(self, **_: Any) -> Ray:
        return self

    def wait(self, handles: list[int], **_: Any) -> tuple[list[int], list[int]]:
        if self.is_lost:
            raise ConnectionError("GRPC connection failed")
        return handles[:1], handles[1:]

    def get(self, handle: int, **_: Any) -> dict[str, int]:
        return {"result": handle}

    def cancel(self, *_: Any, **__: Any) -> None:
        """Nothing runs."""


def items(count: int, planned: list[int]) -> Iterator[tuple[int, Step]]:
    for key in range(count):
        planned.append(key)
        yield key, Step(work=None, need=Need(expected_bytes=1, high_bytes=1))


def run(ray: Ray, count: int, planned: list[int]) -> Iterator[Ended]:
    return Dispatch(ray, print, streams=False).run(items(count, planned))


def test_what_ends_is_told_while_the_others_are_not_even_planned() -> None:
    planned: list[int] = []
    found = run(Ray(), 500, planned)
    assert next(found).key == 0
    assert len(planned) < 5
    assert sorted([ended.key for ended in found]) == list(range(1, 500))


def test_no_more_than_some_are_asked_for_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dispatch, "MOST_ASKED", 3)
    monkeypatch.setattr(
        Ray, "wait", lambda self, handles, **_: (handles[:1] if len(handles) == 3 or self.asked == 9 else [], [])
    )
    ray = Ray()
    for number, _ in enumerate(run(ray, 9, [])):
        assert ray.asked - number <= 3


def test_a_lost_connection_is_one_line() -> None:
    with pytest.raises(
        HeadLostError, match=r"the connection to Ray was lost \(GRPC connection failed\); what was finished is kept"
    ):
        list(run(Ray(is_lost=True), 2, []))


# -- what is there already when it has to end ----------------------------------------------------------------------------


def answering(ray: Ray, monkeypatch: pytest.MonkeyPatch, *, stop: Any, step: Step | None = None) -> list[Any]:
    """Keys that were told, of five points that end while the first of them is looked at; then comes ``stop``."""
    found = []
    monkeypatch.setattr(dispatch, "MOST_ASKED", 5)
    monkeypatch.setattr(
        Ray, "wait", lambda self, handles, **named: (handles[: named["num_returns"]] if self.asked >= 5 else [], [])
    )
    chosen = [(key, step or Step(work=None, need=Need(expected_bytes=1, high_bytes=1))) for key in range(6)]
    with pytest.raises((KeyboardInterrupt, HeadLostError)):
        for ended in Dispatch(ray, print, streams=False).run(iter(chosen)):
            found.append(ended.key)
            if len(found) == 1:
                stop()
    return found


def test_after_a_signal_what_has_ended_is_told_and_nothing_is_started(monkeypatch: pytest.MonkeyPatch) -> None:
    ray = Ray()
    found = answering(ray, monkeypatch, stop=lambda: signal.raise_signal(signal.SIGINT))
    assert (sorted(found), ray.asked) == ([0, 1, 2, 3, 4], 5)


def test_of_a_lost_head_what_has_ended_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    def lose() -> None:
        monkeypatch.setattr(Dispatch, "_ready", lost)

    def lost(*_: Any) -> Any:
        raise HeadLostError("the head went away")

    assert sorted(answering(Ray(), monkeypatch, stop=lose))[:5] == [0, 1, 2, 3, 4]


def test_a_plan_that_came_too_late_starts_no_point(monkeypatch: pytest.MonkeyPatch) -> None:
    need = Need(expected_bytes=1, high_bytes=1)
    planned: list[Any] = []

    def then(result: Any) -> Step:
        planned.append(result)
        signal.raise_signal(signal.SIGINT)
        return Step(work=None, need=need)

    ray = Ray()
    found = answering(ray, monkeypatch, stop=lambda: None, step=Step(work=None, need=need, then=then))
    assert (found, len(planned), ray.asked) == ([0], 1, 6)  # five plans, and the point of the first, which ends at once


# -- what waits ----------------------------------------------------------------------------------------------------------

SMALL = {**NODE, "NodeID": "n2", "NodeManagerHostname": "there", "Resources": {"CPU": 2, "memory": 10**9}}
NEED, WHOLE = Need(expected_bytes=1, high_bytes=1), Need(expected_bytes=1, high_bytes=1).alone()


class Told:
    """A task that says things."""

    def __init__(self, *said: dict[str, Any]) -> None:
        self.said = list(said)

    def __next__(self) -> dict[str, Any]:
        return self.said.pop(0)


class Held(Ray):
    """Two nodes; tasks that ask for more than ``free`` bytes never start, others do and do not end; over after a while."""

    def __init__(self, *, free: int, node: str = "n2", over: float = 200.0, streams: bool = True) -> None:
        super().__init__()
        self.now, self.over, self.free, self.node, self.streams = 0.0, over, free, node, streams
        self.wanted: int = 0

    def nodes(self) -> list[dict[str, Any]]:
        return [NODE, SMALL]

    def options(self, **named: Any) -> Ray:
        self.wanted = named.get("memory", 0)
        return self

    def remote(self, *args: Any, **_: Any) -> Any:
        if not (args and isinstance(args[0], dict)):
            return lambda function: self
        return Told(*([{"node": self.node}] if self.wanted <= self.free else []))

    def wait(self, handles: list[Any], **named: Any) -> tuple[list[Any], list[Any]]:
        self.now += named["timeout"]
        if self.now > self.over:
            raise ConnectionError("over")
        return [handle for handle in handles if self.streams and handle.said][:1], []

    def get(self, said: Any, **_: Any) -> Any:
        return said


def words(ray: Held, *needs: Need) -> list[tuple[float, str]]:
    """What was said, and when."""
    said: list[tuple[float, str]] = []
    steps = [(key, Step(work=None, need=need)) for key, need in enumerate(needs)]
    made = Dispatch(ray, lambda text: said.append((ray.now, text)), streams=ray.streams, clock=lambda: ray.now)
    with pytest.raises(HeadLostError):
        list(made.run(iter(steps)))
    return said


def test_what_waits_for_others_is_said_again_once_a_minute() -> None:
    said = words(Held(free=0), NEED, NEED)
    assert [when for when, _ in said] == [16.0, 76.0, 136.0, 196.0]
    assert said[0][1] == (
        "waiting for a node: each of 2 points asks for 1 CPU and up to 160 MiB of memory, and others hold them ('ray status')"
    )


def test_a_point_that_waits_for_a_whole_node_is_told_while_others_of_ours_run_elsewhere() -> None:
    said = words(Held(free=10**9), NEED, WHOLE)
    assert [when for when, _ in said] == [16.0, 76.0, 136.0, 196.0]
    assert said[0][1] == (
        "waiting for a node: a point asks for 1 CPU and up to 931 GiB of memory, all that here (n1) has, and others hold "
        "them ('ray status')"
    )


def test_a_point_that_waits_for_others_of_ours_is_not_told() -> None:
    assert words(Held(free=10**9, node="n1"), NEED, WHOLE) == []


def test_where_nobody_says_what_has_started_silence_is_told_once_a_minute() -> None:
    said = words(Held(free=0, streams=False), NEED)
    assert [when for when, _ in said] == [60.0, 120.0, 180.0]
    assert said[0][1].startswith(
        "nothing ended in the last 60 s: points run, or wait for a node; each asks for 1 CPU and"
    )
