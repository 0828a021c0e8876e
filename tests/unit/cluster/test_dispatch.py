"""Tasks are asked for a few at a time, and what ends is told at once. The cluster here is a list; tests/ray has real ones."""

from __future__ import annotations

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

    def get(self, handle: int) -> dict[str, int]:
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
