"""Measuring by a request: ``rlmem.measure``."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

import rlmem
from rlmem.app import measure as module
from rlmem.app.measure import MeasureInterruptedError, MeasureRequest
from rlmem.core.points import Axis, Point, PointLimits, Values
from rlmem.core.target import Target
from rlmem.errors import UsageError
from rlmem.runner.store import open_store
from rlmem.runner.sweep import Done, Running
from rlmem.sources.target import parse_target
from rlmem.units import MIB


@pytest.fixture(autouse=True)
def _fakes(monkeypatch: pytest.MonkeyPatch) -> None:
    def fake(target: Target, values: Values, limits: PointLimits) -> Point:
        if values["agents"] == 300:
            raise KeyboardInterrupt
        assert limits.cap_bytes is not None  # most of what may be used here
        return Point(values=values, status="ok", peak_bytes=MIB * int(values["agents"]))

    monkeypatch.setattr(module, "measure_point", fake)


def request(*values: int, target: str = "drone-swarm") -> MeasureRequest:
    return MeasureRequest(target=parse_target(target), axes=(Axis(name="agents", values=values),))


def test_a_request_gives_a_document_whose_points_are_ledgers() -> None:
    document = rlmem.measure(request(100, 200))
    assert [row.measured_bytes for row in document.rows] == [100 * MIB, 200 * MIB]
    assert document.is_ok
    assert [point.ledger().peaks()[0].expected_bytes for point in document.points] == [100 * MIB, 200 * MIB]


def test_points_are_heard_of_once() -> None:
    heard: list[int | str] = []

    @contextmanager
    def watch(running: Running) -> Iterator[Callable[[Done], None]]:
        heard.append(running.left)
        yield lambda done: heard.append(done.point.values["agents"])

    rlmem.measure(request(100), watch)
    rlmem.measure(request(100, 200), watch)
    assert heard == [1, 100, 1, 200]


def test_ctrl_c_says_what_is_kept() -> None:
    with pytest.raises(MeasureInterruptedError) as caught:
        rlmem.measure(request(100, 300))
    with open_store() as store:
        assert store.find(caught.value.run).status == "interrupted"
    assert (caught.value.kept, caught.value.total) == (1, 2)


@pytest.mark.parametrize(
    ("target", "axis", "message"),
    [
        ("drone-swarm", "agent", "agent: unknown key"),
        ("drone-swarmm", "agents", "unknown preset 'drone-swarmm'"),
        ("no-such.py", "agents", "no-such.py: no such file"),
    ],
)
def test_a_wrong_request_is_refused_before_anything_runs(target: str, axis: str, message: str) -> None:
    wrong = MeasureRequest(target=parse_target(target), axes=(Axis(name=axis, values=(1,)),))
    with pytest.raises(UsageError, match=message):
        rlmem.measure(wrong)
