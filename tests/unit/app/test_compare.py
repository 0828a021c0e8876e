"""One comparer of ledgers: plans, points, recorded runs and processes, line by line."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import pytest

from rlmem import make_budget
from rlmem.app.compare import CompareRequest, compare, compare_documents
from rlmem.core.ledger import Entry, Ledger
from rlmem.core.points import Point
from rlmem.core.quantity import Quantity
from rlmem.documents.comparison import ComparisonDocument, Side, SidePart, compare_sides
from rlmem.documents.contract import from_plain, to_plain
from rlmem.documents.plan import PlanDocument, plan_document
from rlmem.documents.sweep import SweepDocument
from rlmem.errors import UsageError
from rlmem.planner import Planner
from rlmem.report.compare import compare_view
from rlmem.report.render import render_view
from rlmem.runner.store import open_store
from rlmem.runner.sweep import PointOptions
from rlmem.sources import load
from rlmem.sources.target import parse_target


@contextmanager
def quiet(_: str) -> Iterator[None]:
    yield


def entry(component: str, nbytes: int, phase: str = "update", device: str = "ram", **more: str) -> Entry:
    amount = Quantity.literal(nbytes)
    values = {"process": "main", "basis": "exact", **more}
    return Entry(component=component, device=device, phase=phase, amount=amount, **values)


def side(*entries: Entry, source: str = "predicted", is_moment: bool = False) -> Side:
    about = SidePart(label="it", name="it", source=source)  # type: ignore[arg-type]
    return Side(about=about, ledger=Ledger(entries), is_moment=is_moment)


def plan(target: str = "pidog-sac", *sets: str) -> PlanDocument:
    return plan_document(Planner(make_budget(ram="30GB")).plan(load(target, sets)))


def sweep(*points: Point) -> SweepDocument:
    return SweepDocument(
        run="abcd",
        target="pidog-sac",
        command=(),
        started="",
        status="ok",
        machine={},
        axes=(),
        repeat=1,
        options=PointOptions(),
        points=points,
    )


def test_what_is_not_in_a_plan_is_nothing_and_what_is_not_measured_is_unknown() -> None:
    left = side(entry("runtime", 100), entry("replay", 50))
    right = side(entry("runtime", 90), entry("other.losses", 7), source="measured")
    (ram,) = compare_sides(left, right).devices
    rows = {row.component: (row.left_bytes, row.right_bytes) for row in ram.components}
    assert rows == {"runtime": (100, 90), "replay": (50, None), "other.losses": (0, 7)}
    assert (ram.left_bytes, ram.right_bytes) == (150, 97)


def test_predicted_parts_are_added_up_where_only_their_sum_was_measured() -> None:
    left = side(entry("runtime.imports", 60), entry("runtime.interpreter", 40))
    right = side(entry("runtime", 90), source="measured")
    (ram,) = compare_sides(left, right).devices
    assert [(row.component, row.left_bytes, row.right_bytes) for row in ram.components] == [("runtime", 100, 90)]


def test_two_plans_keep_their_parts() -> None:
    (ram,) = compare_sides(side(entry("runtime.imports", 60)), side(entry("runtime", 90))).devices
    assert {row.component for row in ram.components} == {"runtime.imports", "runtime"}


def test_a_plan_is_taken_in_the_phase_in_which_a_process_was_looked_at() -> None:
    left = side(entry("replay", 50, "collect"), entry("replay", 50), entry("batch", 30))
    right = side(entry("replay", 20, "collect"), source="measured", is_moment=True)
    (ram,) = compare_sides(left, right).devices
    assert (ram.left_phase, ram.right_phase) == ("collect", "collect")
    assert (ram.left_bytes, ram.right_bytes) == (50, 20)
    (own,) = compare_sides(left, replace(right, is_moment=False)).devices
    assert (own.left_phase, own.right_phase) == ("update", "collect")


def test_a_device_that_was_not_measured_is_unknown() -> None:
    left = side(entry("replay", 50), entry("learner", 9, device="vram"))
    right = side(entry("replay", 20), source="measured")
    vram = compare_sides(left, right).devices[1]
    assert (vram.device, vram.left_bytes, vram.right_bytes, vram.right_phase) == ("vram", 9, None, None)


def test_a_plan_beside_a_sweep_takes_the_point_of_its_values() -> None:
    points = (
        Point(values={"buffer_size": 100_000}, status="ok", peak_bytes=5 << 30, phases={"update": 5 << 30}),
        Point(values={"buffer_size": 400_000}, status="ok", peak_bytes=17 << 30, phases={"update": 17 << 30}),
    )
    document = compare_documents((plan("pidog-sac", "buffer_size=100k"), sweep(*points)), ("plan", "run"))
    assert isinstance(document, ComparisonDocument)
    assert (document.left.source, document.right.source) == ("predicted", "measured")
    assert document.devices[0].right_bytes == 5 << 30
    assert from_plain(ComparisonDocument, to_plain(document), "it") == document
    text = render_view(document, compare_view, "text", None)
    assert "left predicted, in update" in text
    assert "unexplained" in text
    with pytest.raises(UsageError, match="no point has a measured peak at the values of the plan"):
        compare_documents((plan("pidog-sac", "buffer_size=7"), sweep(*points)), ("plan", "run"))


def test_a_recorded_run_without_a_peak_is_refused() -> None:
    with open_store(write=True) as store:
        run = store.begin("run", "train.py", document={"target": "train.py"})
    with pytest.raises(UsageError, match="peak not known: it ended before it could be looked at"):
        compare(request("pidog-sac", run.id), quiet)


def request(left: str, right: str, sets: tuple[str, ...] = ()) -> CompareRequest:
    return CompareRequest(
        left=parse_target(left, sets=sets),
        right=parse_target(right),
        labels=(left, right),
        budget=make_budget(ram="30GB"),
    )


def test_a_plan_compares_with_a_process() -> None:
    document = compare(request("pidog-sac", f"pid:{os.getpid()}"), quiet)
    assert isinstance(document, ComparisonDocument)
    assert document.right.source == "measured"
    assert str(os.getpid()) in document.right.summary[0]
    ram = document.devices[0]
    assert ram.right_bytes and ram.left_phase == ram.right_phase


def test_the_number_of_a_process_is_enough() -> None:
    document = compare(request(str(os.getpid()), "pidog-sac"), quiet)
    assert isinstance(document, ComparisonDocument)
    assert document.left.source == "measured"


def test_a_number_that_is_a_run_and_a_process_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rlmem.app.compare._lives", lambda pid: True)
    with open_store(write=True) as store:
        run = store.begin("plan", "pidog-sac", document=to_plain(plan()))
        with store._connection:
            store._connection.execute("UPDATE runs SET id = '424242aa' WHERE id = ?", (run.id,))
    with pytest.raises(UsageError, match="424242 names a stored run and a process: write pid:424242, or more letters"):
        compare(request("424242", "pidog-sac"), quiet)


@pytest.mark.parametrize(
    ("left", "problem"),
    [
        ("pid:", "pid:: write the number of a process, such as pid:4242"),
        ("pid:now", "pid:now: write the number of a process"),
        ("pid:999999999", "there is no process 999999999"),
        ("99999999", "no run starts with '99999999'"),
    ],
)
def test_what_is_no_process_is_refused(left: str, problem: str) -> None:
    with pytest.raises(Exception, match=problem):
        compare(request(left, "pidog-sac"), quiet)


def test_settings_of_a_process_cannot_be_changed() -> None:
    with pytest.raises(UsageError, match="is a process: --set cannot change it"):
        compare(request(f"pid:{os.getpid()}", "pidog-sac", ("n_envs=2",)), quiet)
