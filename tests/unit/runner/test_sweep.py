"""Sweeps: axes, order, going on after an interruption, and what is measured again."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from rlmem.core.points import Axis, Point, PointLimits, Values
from rlmem.core.target import Target
from rlmem.errors import AnalysisError, UsageError
from rlmem.runner.store import Store, open_store
from rlmem.runner.sweep import Running, Sweep, parse_axes, parse_axis
from rlmem.sources.target import parse_target

AGENTS = Axis(name="agents", values=(1, 2, 3))


class Fake:
    """Measures nothing, and counts; ``ends`` says how a value ends."""

    def __init__(self, ends: Callable[[int], str] = lambda _: "ok") -> None:
        self.ends = ends
        self.asked: list[int | str] = []

    def __call__(self, target: Target, values: Values, limits: PointLimits, /) -> Point:
        value = values.get("agents", 0)
        self.asked.append(value)
        status = self.ends(int(value))
        if status == "ctrl-c":
            raise KeyboardInterrupt
        if status == "error":
            raise AnalysisError("no interpreter there")
        if status == "usage":
            raise UsageError("no such knob")
        return Point(values=values, status=status, peak_bytes=100 * int(value))


def sweep(
    *axes: Axis, repeat: int = 1, cap: int | None = None, target: str = "größe.py", args: tuple[str, ...] = ()
) -> Sweep:
    return Sweep(target=parse_target(target, args), axes=axes, repeat=repeat, limits=PointLimits(cap_bytes=cap))


def go(store: Store, asked: Sweep, fake: Fake, *, fresh: bool = False) -> Running:
    running = Running(asked, fake, store, fresh=fresh)
    list(running.points())
    running.finish()
    return running


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("agents=100,1k,2.5k", (100, 1000, 2500)),
        ("agents=1e5,1M", (100_000, 1_000_000)),
        (" agents = 20_000 ", (20_000,)),
        ("agents=100..20000/5", (100, 5075, 10_050, 15_025, 20_000)),
        ("agents=1..4/4,10", (1, 2, 3, 4, 10)),
        ("agents=0", (0,)),
        ("agents=Hopper-v5,_x", ("Hopper-v5", "_x")),
    ],
)
def test_values_are_read_as_people_write_them(text: str, values: tuple[int | str, ...]) -> None:
    assert parse_axis(text) == Axis(name="agents", values=values)


@pytest.mark.parametrize(
    ("texts", "message"),
    [
        (["x"], "write it as name=values"),
        (["=1"], "write it as name=values"),
        (["x="], "no values"),
        (["x=,"], "no values"),
        (["x=1,,2"], "a value is empty"),
        (["x=1,"], "a value is empty"),
        (["x=1q"], "unknown suffix 'q'"),
        (["x=1.5"], "not a whole number"),
        (["x=-5"], "below zero"),
        (["x=?"], "not a whole number"),
        (["x=1,two"], "numbers and words"),
        (["x=1,1"], "1 is there twice; --repeat"),
        (["x=1k,1000"], "1000 is there twice"),
        (["x=1..5"], "say how many values"),
        (["x=5..1/3"], "not a range"),
        (["x=1..5/1"], "not a range"),
        (["x=1..3/9"], "not a range"),
        (["x=..5/2"], "not a whole number"),
        (["x=1e999"], "absurdly large"),
        (["x=1", "x=2"], "--vary x is given twice"),
        (["x=1..100/100", "y=1..100/100"], "10,000 points are more than 1,000"),
    ],
)
def test_axes_that_make_no_sense_are_refused(texts: list[str], message: str) -> None:
    with pytest.raises(UsageError, match=message) as caught:
        parse_axes(texts)
    assert str(caught.value).startswith("--vary")


def test_several_axes_are_combined_in_order_and_repeats_come_round_again() -> None:
    jobs = sweep(Axis(name="a", values=(1, 2)), Axis(name="b", values=("x", "y")), repeat=2).jobs
    once = [{"a": 1, "b": "x"}, {"a": 1, "b": "y"}, {"a": 2, "b": "x"}, {"a": 2, "b": "y"}]
    assert [job.values for job in jobs] == once * 2
    assert [job.repeat for job in jobs] == [0] * 4 + [1] * 4


def test_without_an_axis_there_is_one_point() -> None:
    (job,) = sweep().jobs
    assert (job.values, job.repeat) == ({}, 0)


def test_every_ending_is_a_row_and_the_run_says_so() -> None:
    ends = {1: "ok", 2: "oom", 3: "error"}
    with open_store(write=True) as store:
        running = go(store, sweep(AGENTS), Fake(ends.__getitem__))
        points = list(store.points(running.run.id))
        assert [point.status for point in points] == ["ok", "oom", "failed"]
        assert points[2].note == "no interpreter there"
        assert store.find(running.run.id).status == "partial"


def test_an_interrupted_sweep_keeps_its_points_and_goes_on_in_the_same_run() -> None:
    with open_store(write=True) as store:
        first = Running(sweep(AGENTS), Fake(lambda value: "ctrl-c" if value == 3 else "ok"), store)
        with pytest.raises(KeyboardInterrupt):
            list(first.points())
        assert store.find(first.run.id).status == "interrupted"
        assert len(store.points(first.run.id)) == 2
        fake = Fake()
        second = Running(sweep(AGENTS), fake, store)
        assert (second.run.id, second.left) == (first.run.id, 1)
        done = list(second.points())
        assert [entry.is_known for entry in done] == [True, True, False]
        assert second.finish().status == "ok"
        assert fake.asked == [3]
        assert len(store.runs()) == 1


def test_an_interruption_before_the_first_point_leaves_no_run() -> None:
    with open_store(write=True) as store:
        with pytest.raises(KeyboardInterrupt):
            list(Running(sweep(AGENTS), Fake(lambda _: "ctrl-c"), store).points())
        assert store.runs() == ()


def test_a_wrong_request_ends_the_sweep_and_leaves_no_run() -> None:
    with open_store(write=True) as store:
        with pytest.raises(UsageError, match="no such knob"):
            list(Running(sweep(AGENTS), Fake(lambda _: "usage"), store).points())
        assert store.runs() == ()


def test_a_reader_that_stops_early_keeps_what_is_done() -> None:
    with open_store(write=True) as store:
        running = Running(sweep(AGENTS), Fake(), store)
        points = running.points()
        next(points)
        points.close()
        assert store.find(running.run.id).status == "interrupted"


def test_the_same_sweep_again_measures_nothing_and_makes_no_new_run() -> None:
    with open_store(write=True) as store:
        first = go(store, sweep(AGENTS), Fake())
        before = store.find(first.run.id)
        fake = Fake()
        again = go(store, sweep(AGENTS), fake)
        assert fake.asked == []
        assert store.find(again.run.id) == before


def test_fresh_measures_everything_in_a_run_of_its_own() -> None:
    with open_store(write=True) as store:
        go(store, sweep(AGENTS), Fake())
        fake = Fake()
        go(store, sweep(AGENTS), fake, fresh=True)
        assert fake.asked == [1, 2, 3]
        assert len(store.runs()) == 2


def test_a_wider_sweep_takes_what_is_known_along() -> None:
    with open_store(write=True) as store:
        go(store, sweep(AGENTS), Fake())
        fake = Fake()
        wide = go(store, sweep(Axis(name="agents", values=(3, 4)), repeat=2), fake)
        assert fake.asked == [4, 3, 4]
        assert len(store.points(wide.run.id)) == 4


@pytest.mark.parametrize(
    ("status", "again"), [("failed", True), ("timeout", True), ("killed", True), ("oom", False), ("ok", False)]
)
def test_what_might_end_otherwise_is_tried_again(status: str, again: bool) -> None:
    with open_store(write=True) as store:
        go(store, sweep(AGENTS, cap=100), Fake(lambda value: status if value == 2 else "ok"))
        fake = Fake()
        go(store, sweep(AGENTS, cap=100), fake)
        assert fake.asked == ([2] if again else [])


@pytest.mark.parametrize(("cap", "again"), [(100, False), (104, False), (50, False), (200, True), (None, True)])
def test_a_point_that_ran_out_is_tried_again_under_a_higher_cap(cap: int | None, again: bool) -> None:
    with open_store(write=True) as store:
        go(store, sweep(AGENTS, cap=100), Fake(lambda value: "oom" if value == 3 else "ok"))
        fake = Fake()
        go(store, sweep(AGENTS, cap=cap), fake)
        assert fake.asked == ([3] if again else [])


@pytest.mark.parametrize("target", ["rllib:{}:config", "{}:make"])
def test_a_name_in_a_file_is_another_target_when_the_file_says_something_else(target: str, tmp_path: Path) -> None:
    file = tmp_path / "größe.py"
    file.write_text("a = 1")
    base = sweep(AGENTS, target=target.format(file))
    keys = {base.key, sweep(AGENTS, target=target.format(file) + "r").key}
    file.write_text("a = 2")
    keys.add(base.key)
    assert len(keys) == 3


def test_other_arguments_another_interpreter_or_an_edited_script_share_nothing(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text("a = 1")
    base = sweep(AGENTS, target=str(script))
    keys = {base.key, sweep(AGENTS, target=str(script), args=("--seed", "1")).key, sweep(target=str(script)).key}
    keys.add(Sweep(target=parse_target(str(script), python="/other/python"), axes=(AGENTS,)).key)
    script.write_text("a = 2")
    keys.add(base.key)
    assert len(keys) == 5
