"""Verdicts on series of moments that are written down here: filling, leaking, stuck, normal, and too early to say."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import replace

import pytest

from rlmem.core.holdings import Holding, Progress
from rlmem.core.moments import Judgement, Moment
from rlmem.units import GIB, MIB
from rlmem.watch.forecast import read_pace
from rlmem.watch.history import History
from rlmem.watch.judge import before_end, judge
from rlmem.watch.owners import fold, looks, read_owners

Owners = Callable[[float], tuple[Holding, ...]]
Size = Callable[[float], float]


def store(filled: int, capacity: int = 1_000_000, row: int = 20_000) -> Holding:
    return Holding(
        path="model.replay_buffer.observations", kind="array", type="numpy.ndarray", nbytes=capacity * row,
        resident_bytes=filled * row, filled=filled, capacity=capacity,
    )  # fmt: skip


def infos(count: float, each: int = 800, **more: object) -> Holding:
    fields = {
        "path": "self.episode_infos", "kind": "container", "type": "list", "nbytes": int(count * each),
        "resident_bytes": int(count * each), "filled": int(count), **more,
    }  # fmt: skip
    return Holding(**fields)  # type: ignore[arg-type]


def moments(
    size: Size, *, owners: Owners | None = None, count: int = 240, every: int = 15, interval: float = 1.0,
    steps_per_s: float | None = None, total: int | None = None, **more: object,
) -> list[Moment]:  # fmt: skip
    """A moment a second; owners (and the step) every ``every`` of them."""
    made = []
    for index in range(count):
        at = index * interval
        look = owners is not None and index % every == 0
        moment = Moment(
            at_s=at, tree_bytes=int(size(at)), rss_bytes=int(size(at)), cpu_s=1.0 + at, limit_bytes=24 * GIB,
            holdings=owners(at) if look and owners else None,
            progress=Progress(step=int(steps_per_s * at), total=total) if look and steps_per_s else None,
        )  # fmt: skip
        made.append(replace(moment, **more))
    return made


def idle(series: list[Moment]) -> list[Moment]:
    """The same without CPU time."""
    return [replace(moment, idle_s=moment.at_s, cpu_s=50.0) for moment in series]


def flat(_: float) -> float:
    return 500.0 * MIB


def none(_: float) -> tuple[Holding, ...]:
    return ()


def test_a_flat_run_is_normal() -> None:
    found = judge(moments(flat, owners=none))
    assert (found.state, found.culprit) == ("normal", None)
    assert found.reasons == ("nothing grows over 4 min",)


def test_a_replay_buffer_that_fills_is_filling_and_its_end_is_computed() -> None:
    series = moments(
        lambda at: 500 * MIB + 80 * at * 20_000, owners=lambda at: (store(int(80 * at)),), steps_per_s=80, count=600
    )
    found = judge(series)
    assert found.state == "filling"
    assert found.culprit is None
    assert found.forecast.full_at_step == pytest.approx(1_000_000, rel=0.01)
    assert found.forecast.full_in_s == pytest.approx((1_000_000 - 80 * 585) / 80, rel=0.02)
    assert found.forecast.final_bytes == pytest.approx(500 * MIB + 20e9, rel=0.02)
    assert found.forecast.fits is True
    assert found.reasons[0].startswith("fills at step 1.0 M in 3 h ")
    assert found.reasons[0].endswith(" GiB of 24: fits")
    assert "allocated 18.6 GiB" in found.reasons[1]
    assert "% full" in found.reasons[1]


def test_a_buffer_larger_than_the_limit_does_not_fit_and_the_hour_is_told() -> None:
    series = moments(
        lambda at: 500 * MIB + 80 * at * 40_000, owners=lambda at: (store(int(80 * at), row=40_000),), steps_per_s=80
    )
    found = judge(series)
    assert (found.state, found.forecast.fits) == ("filling", False)
    room = 24 * GIB - series[-1].tree_bytes
    assert found.forecast.oom_in_s == pytest.approx(room / (80 * 40_000), rel=0.02)
    assert "does not fit, OOM in 2 h " in found.reasons[0]


def test_a_run_that_ends_before_its_buffer_is_full_is_judged_at_its_end() -> None:
    series = moments(
        lambda at: 500 * MIB + 80 * at * 40_000, owners=lambda at: (store(int(80 * at), row=40_000),), steps_per_s=80,
        total=50_000,
    )  # fmt: skip
    found = judge(series)
    assert found.forecast.fits is True
    assert found.forecast.final_bytes == pytest.approx(500 * MIB + 50_000 * 40_000, rel=0.05)
    assert found.reasons[0].startswith("fills until the run ends in ")


def test_a_full_buffer_is_normal() -> None:
    assert judge(moments(lambda _: 20e9, owners=lambda _: (store(1_000_000),))).state == "normal"


def test_a_growing_list_outside_any_buffer_is_a_leak_with_a_culprit_and_an_hour() -> None:
    per_s = 41e6 / 60
    series = moments(
        lambda at: 19 * GIB + per_s * at, owners=lambda at: (store(1_000_000), infos(3_100 * at / 60, each=13_000))
    )
    found = judge(series)
    assert (found.state, found.culprit) == ("leaking", "self.episode_infos")
    assert found.residual is not None
    assert found.residual.bytes_per_s == pytest.approx(per_s, rel=0.02)
    room = 24 * GIB - series[-1].tree_bytes
    assert found.forecast.oom_in_s == pytest.approx(room / per_s, rel=0.02)
    assert found.forecast.oom_low_s is not None
    assert found.forecast.oom_high_s is not None
    assert found.forecast.oom_low_s <= found.forecast.oom_in_s <= found.forecast.oom_high_s
    assert found.reasons[0].startswith("residual grows 39.1 MiB/min outside any buffer: leak suspected, OOM in 2 h 0")
    assert found.reasons[0].endswith(", owner: `self.episode_infos` (list, +3.1 k/min)")


def test_a_leak_beside_a_filling_buffer_is_told_apart_from_it() -> None:
    found = judge(
        moments(
            lambda at: GIB + 80 * at * 20_000 + 100_000 * at,
            owners=lambda at: (store(int(80 * at)), infos(at, each=100_000)),
            steps_per_s=80,
        )
    )
    assert (found.state, found.culprit) == ("leaking", "self.episode_infos")
    assert found.residual is not None
    assert found.residual.bytes_per_s == pytest.approx(100_000, rel=0.1)
    assert found.reasons[1].startswith("fills at step 1.0 M")


def test_tensors_kept_with_their_graph_are_named_though_their_own_bytes_are_few() -> None:
    note = "holds 500 tensors with the graphs they came from"
    owners = lambda at: (infos(at, each=600, note=note),)  # noqa: E731
    found = judge(moments(lambda at: GIB + 1e6 * at, owners=owners))
    assert (found.state, found.culprit) == ("leaking", "self.episode_infos")
    assert "detach()" in found.reasons[1]


def test_a_list_that_grows_a_little_is_not_blamed_for_a_large_leak() -> None:
    found = judge(moments(lambda at: GIB + 1e6 * at, owners=lambda at: (infos(at, each=32),), count=600))
    assert (found.state, found.culprit) == ("leaking", None)
    assert found.reasons[0].endswith("no owner known")


def test_growth_without_an_owner_is_believed_in_proportion_to_how_long_it_was_seen() -> None:
    def size(at: float) -> float:
        return GIB + 6e5 * at

    early = judge(moments(size, owners=none))
    assert early.state == "unknown"
    assert early.reasons == (
        "total grows 34.3 MiB/min for 4 min, OOM in 11 h 22 if that goes on; no owner grew with it in 16 looks: too early "
        "to call a leak; a leak if it lasts 10 min longer",
    )
    late = judge(moments(size, owners=none, count=900))
    assert (late.state, late.culprit) == ("leaking", None)
    near = judge([replace(moment, limit_bytes=2 * GIB) for moment in moments(size, owners=none)])
    assert near.state == "leaking"


def test_a_list_of_returns_that_never_matters_is_normal() -> None:
    assert judge(moments(flat, owners=lambda at: (infos(at / 10, each=32),))).state == "normal"


def test_a_counted_leak_is_found_under_the_noise_of_the_total() -> None:
    found = judge(
        moments(lambda at: 4 * GIB + (at % 37) * 50 * MIB + 2e5 * at, owners=lambda at: (infos(at, each=200_000),))
    )
    assert (found.state, found.culprit) == ("leaking", "self.episode_infos")


def test_a_list_that_is_emptied_again_and_again_is_normal() -> None:
    found = judge(
        moments(lambda at: GIB + (at % 40) * 1e6, owners=lambda at: (infos(at % 40, each=1_000_000),), every=7)
    )
    assert found.state == "normal"


def test_entries_that_come_one_by_one_are_one_owner() -> None:
    def figures(at: float) -> tuple[Holding, ...]:
        return tuple(
            Holding(path=f"plots['{n}'].canvas", kind="array", type="numpy.ndarray", nbytes=MIB, resident_bytes=MIB)
            for n in range(int(at / 10))
        )

    found = judge(moments(lambda at: GIB + at / 10 * MIB, owners=figures))
    assert (found.state, found.culprit) == ("leaking", "plots")
    history = History()
    for moment in moments(lambda at: GIB + at / 10 * MIB, owners=figures):
        history.add(moment)
    assert max(len(moment.holdings) for moment in looks(history.moments) if moment.holdings is not None) <= 16
    assert judge(history.moments).culprit == "plots"


def test_many_keys_of_one_store_stay_a_store_that_fills() -> None:
    def keys(at: float) -> tuple[Holding, ...]:
        return tuple(replace(store(int(80 * at), row=1_000), path=f"buffer.observations['key {n}']") for n in range(20))

    (owner,) = read_owners([Moment(at_s=0, tree_bytes=1, rss_bytes=1, holdings=fold(keys(10.0)))])
    assert (owner.is_bounded, owner.now.filled, owner.now.capacity) == (True, 800, 1_000_000)
    found = judge(moments(lambda at: GIB + 80 * at * 20_000, owners=lambda at: fold(keys(at))))
    assert found.state == "filling"


def test_arrays_in_a_list_that_gets_no_longer_only_fill() -> None:
    def rows(at: float) -> tuple[Holding, ...]:
        return (infos(20, nbytes=4 * GIB, resident_bytes=int(at * 5 * MIB)),)

    assert judge(moments(lambda at: GIB + at * 5 * MIB, owners=rows)).state == "filling"


def test_an_array_replaced_by_larger_ones_has_no_end() -> None:
    def states(at: float) -> tuple[Holding, ...]:
        size = int(at * MIB)
        return (Holding(path="states", kind="array", type="numpy.ndarray", nbytes=size, resident_bytes=size),)

    found = judge(moments(lambda at: GIB + at * MIB, owners=states))
    assert (found.state, found.culprit) == ("leaking", "states")


def test_growth_without_names_is_said_and_not_called_a_leak() -> None:
    found = judge(moments(lambda at: GIB + 1e6 * at))
    assert (found.state, found.culprit) == ("unknown", None)
    assert "cannot be told without names of owners" in found.reasons[0]
    assert found.forecast.oom_in_s is not None


def test_growth_without_names_is_a_leak_when_others_stay_small() -> None:
    series = moments(lambda at: 19.8e9 + 1e6 * at)
    others = (600_000_000, 700_000_000, 800_000_000)
    found = judge(series, others)
    assert found.state == "leaking"
    assert "29 times the 668 MiB of 3 others that run the same command" in found.reasons[-1]
    assert judge(series, (18_000_000_000, 20_000_000_000)).state == "unknown"
    assert judge(series, (600_000_000,)).state == "unknown"


def test_a_program_that_does_nothing_is_stuck_also_when_it_is_large() -> None:
    found = judge(idle(moments(lambda _: 19.8e9)), (600_000_000, 800_000_000))
    assert found.state == "stuck"
    assert found.reasons[0] == "no CPU time and no change for 4 min"
    assert "others that run the same command" in found.reasons[1]


@pytest.mark.parametrize("sign", ["cpu", "steps", "fill", "memory"])
def test_a_program_that_waits_but_moves_is_not_stuck(sign: str) -> None:
    owners = (lambda at: (infos(at, each=10),)) if sign == "fill" else none
    size = (lambda at: 500 * MIB + at * 0.05 * MIB) if sign == "memory" else flat
    series = moments(size, owners=owners, steps_per_s=5 if sign == "steps" else None)
    if sign != "cpu":
        series = idle(series)
    assert judge(series).state != "stuck"


def test_a_slow_loop_that_takes_little_cpu_time_is_not_stuck() -> None:
    """At 0.3 % of a core the kernel's clock ticks every three seconds."""
    series = [
        replace(moment, idle_s=moment.at_s % 3, cpu_s=0.003 * moment.at_s) for moment in moments(flat, owners=none)
    ]
    assert judge(series).reasons == ("nothing grows over 4 min",)


def test_a_pause_like_those_before_is_not_stuck_and_a_longer_one_is() -> None:
    def waits(at: float) -> float:
        return at % 150 if at < 900 else at - 900

    for count, state in ((1100, "normal"), (1300, "stuck")):
        series = [replace(moment, idle_s=waits(moment.at_s)) for moment in moments(flat, owners=none, count=count)]
        assert judge(series).state == state


@pytest.mark.parametrize("share", [0.0, 0.003])
@pytest.mark.parametrize(
    ("name", "size"),
    [
        ("native code, 1.2 MB/s", lambda at: 300 * MIB + 1.2e6 * at),
        ("a thread", lambda at: 300 * MIB + 4e5 * at),
        ("stairs", lambda at: 300 * MIB + (at // 20) * 20 * MIB),
    ],
)
def test_a_leak_that_takes_hardly_any_cpu_time_is_not_hidden(name: str, size: Size, share: float) -> None:
    series = [
        replace(moment, cpu_s=share * moment.at_s, idle_s=moment.at_s % 3 if share else moment.at_s)
        for moment in moments(size, owners=none)
    ]
    found = judge(series)
    assert found.state == "unknown", name
    assert "total grows" in found.reasons[0]
    assert "OOM in" in found.reasons[0]
    near = judge([replace(moment, limit_bytes=2 * GIB) for moment in series])
    assert near.state == "leaking", name


def test_a_line_after_one_early_step_is_never_said_to_be_nothing() -> None:
    """From 435 to 596 MiB in a straight line, after the step of a start."""

    def size(at: float) -> float:
        return (300 if at < 12 else 435 + 161 * (at - 12) / 300) * MIB

    for count in range(40, 310, 10):
        found = judge(moments(size, owners=none, count=count))
        assert "nothing grows" not in found.reasons[0], count
        assert found.state != "normal", count
    assert "total grows 32.2 MiB/min" in found.reasons[0]


@pytest.mark.parametrize("worker", [False, True])
def test_an_owner_with_most_of_the_growth_makes_it_a_leak_as_soon_as_the_growth_is_certain(worker: bool) -> None:
    """Though owners were asked four times only, and the last time long ago: each look costs."""
    path = "worker 4711: self.env.history" if worker else "self.episode_infos"
    asked = {10, 20, 40, 80}

    def made(count: int) -> Judgement:
        series = moments(
            lambda at: 400 * MIB + 8e5 * at, owners=lambda at: (infos(at, each=780_000, path=path),), every=1
        )
        return judge([moment if moment.at_s in asked else replace(moment, holdings=None) for moment in series[:count]])

    found = made(110)
    assert (found.state, found.culprit) == ("leaking", path)
    assert f"`{path}` (list" in found.reasons[0]
    assert "took 98 % of it in 4 looks" in found.reasons[-1]
    early = judge(
        [replace(moment, holdings=None) if 20 < moment.at_s < 90 else moment for moment in moments(
            lambda at: 400 * MIB + 8e5 * at, owners=lambda at: (infos(at, each=780_000),), count=110
        )][:105]
    )  # fmt: skip
    assert early.state in {"unknown", "leaking"}
    assert "`self.episode_infos`" in early.reasons[0]


def test_a_list_that_takes_little_of_the_growth_of_the_total_is_not_blamed_early() -> None:
    series = moments(lambda at: 400 * MIB + 8e5 * at, owners=lambda at: (infos(at, each=8_000),), every=40, count=115)
    found = judge(series)
    assert (found.state, found.culprit) == ("unknown", None)


def test_fast_large_growth_of_a_list_is_a_leak_within_half_a_minute() -> None:
    series = moments(
        lambda at: 400 * MIB + 150 * MIB * at, owners=lambda at: (infos(at * 160, each=MIB * 0.9),), count=32, every=10
    )
    found = judge(series)
    assert (found.state, found.culprit) == ("leaking", "self.episode_infos")
    assert "OOM in" in found.reasons[0]


def test_fast_large_growth_without_an_owner_is_said_and_not_called_a_leak() -> None:
    found = judge(moments(lambda at: 400 * MIB + 150 * MIB * at, owners=none, count=32))
    assert (found.state, found.culprit) == ("unknown", None)
    assert found.reasons[0].startswith("total grows 8.79 GiB/min for 31 s, OOM in 2 min if that goes on; no owner grew")


def test_a_rise_that_has_ended_is_said() -> None:
    found = judge(moments(lambda at: (400 + (80 if at > 60 else 0)) * MIB, owners=none))
    assert found.state == "normal"
    assert found.reasons[0] == "rose from 400 MiB to 480 MiB, and nothing grew in the last 3 min"


def test_what_comes_and_goes_is_said() -> None:
    found = judge(moments(lambda at: (400 + (at % 50) * 4) * MIB, owners=none))
    assert found.state == "normal"
    assert found.reasons[0].startswith("comes and goes between 4")


def test_growth_that_slows_down_is_said_with_what_is_left_of_it() -> None:
    found = judge(moments(lambda at: (400 + 300 * (1 - math.exp(-at / 80))) * MIB, owners=none))
    assert found.state == "normal"
    assert re.match(r"grew \d+ MiB in 4 min, and slows down: [\d.]+ MiB/min by now", found.reasons[0])


def test_two_steps_up_are_no_leak_and_not_nothing() -> None:
    found = judge(moments(lambda at: (400 + 90 * (at > 70) + 90 * (at > 230)) * MIB, owners=none))
    assert found.state == "unknown"
    assert found.reasons[0].startswith("rose from 400 MiB to 580 MiB in 4 min, unevenly: too early")


def test_a_bounded_cache_fills_until_it_is_full() -> None:
    """``functools.lru_cache(maxsize=1000)`` of 1 MB each."""

    def cache(at: float) -> tuple[Holding, ...]:
        return (infos(min(2 * at, 1000), each=10**6, path="embed", type="functools.lru_cache", capacity=1000),)

    def size(at: float) -> float:
        return 400 * MIB + min(2 * at, 1000) * 10**6

    found = judge(moments(size, owners=cache))
    assert (found.state, found.culprit) == ("filling", None)
    assert found.forecast.final_bytes == pytest.approx(400 * MIB + 10**9, rel=0.02)
    assert judge(moments(size, owners=cache, count=800)).state == "normal"


def test_vram_that_grows_without_end_is_a_leak_of_its_own() -> None:
    series = [
        replace(moment, vram_bytes=int(4 * GIB + moment.at_s * MIB), vram_limit_bytes=8 * GIB)
        for moment in moments(flat, owners=none)
    ]
    found = judge(series)
    assert found.state == "leaking"
    assert found.reasons[0].startswith("VRAM grows 60.0 MiB/min")
    assert found.forecast.oom_in_s == pytest.approx(4 * 1024 - 239, rel=0.02)


def test_a_counted_leak_on_a_gpu_is_found_where_the_driver_is_asked_seldom() -> None:
    def kept(at: float) -> tuple[Holding, ...]:
        return (infos(at, each=4 * MIB, device="vram", path="kept"),)

    series = [
        replace(moment, vram_bytes=4 * GIB + int(moment.at_s // 60) * 240 * MIB, vram_limit_bytes=80 * GIB)
        for moment in moments(flat, owners=kept)
    ]
    found = judge(series)
    assert (found.state, found.culprit) == ("leaking", "kept")
    assert found.reasons[0].startswith("VRAM grows 240 MiB/min")


def test_growth_that_would_take_months_to_matter_is_normal() -> None:
    assert judge(moments(lambda at: GIB + 4096 * (at // 4), owners=none)).state == "normal"


def test_too_short_a_series_is_unknown() -> None:
    assert judge([]).state == "unknown"
    found = judge(moments(lambda at: GIB + 1e6 * at, owners=none, count=60))
    reason = "too short to tell: 60 of 100 samples; so far from 1.00 GiB to 1.05 GiB in 59 s"
    assert found == Judgement(state="unknown", reasons=(reason,), forecast=found.forecast)
    assert judge(moments(flat, count=60)).reasons == ("too short to tell: 60 of 100 samples",)


def test_days_of_watching_stay_small_and_judged() -> None:
    history = History()
    for moment in moments(lambda at: GIB + 20_000 * at, owners=lambda at: (infos(at, each=20_000),), count=60_000):
        history.add(moment)
    assert len(history.moments) < 2_500
    assert 100 < sum(moment.holdings is not None for moment in history.moments) < 800
    found = judge(history.moments)
    assert (found.state, found.culprit) == ("leaking", "self.episode_infos")
    assert found.residual is not None
    assert found.residual.bytes_per_s == pytest.approx(20_000, rel=0.01)


def test_a_list_in_sixteen_workers_is_blamed_though_two_of_them_were_asked() -> None:
    def asked(at: float) -> tuple[Holding, ...]:
        return tuple(infos(at, each=50_000, path=f"worker {pid}: env.history") for pid in (7, 9))

    found = judge(moments(lambda at: GIB + 16 * 50_000 * at, owners=asked, processes=17))
    assert found.state == "leaking"
    assert found.culprit in {"worker 7: env.history", "worker 9: env.history"}
    assert "took all of it" in found.reasons[-1]
    alone = judge(moments(lambda at: GIB + 16 * 50_000 * at, owners=lambda at: asked(at)[:1], processes=17))
    assert alone.culprit is None


@pytest.mark.parametrize("count", range(1, 25))
def test_the_first_samples_are_judged_without_a_complaint(count: int) -> None:
    assert judge(moments(lambda at: GIB + 1e6 * at, owners=none, count=count, every=1)).state == "unknown"


def filling_since(look: float, *, count: int, slower: float = 1.0, beside: Size = flat) -> Judgement:
    """A store of 100,000 rows of 20 kB at 80 rows a second; owners were last asked at ``look``; then it may get slower."""

    def rows(at: float) -> float:
        return min(100_000, 80 * min(at, look) + 80 * slower * max(0.0, at - look))

    series = moments(
        lambda at: beside(at) + rows(at) * 20_000, owners=lambda at: (store(int(rows(at)), capacity=100_000),),
        count=count, steps_per_s=80,
    )  # fmt: skip
    return judge([replace(each, holdings=None, progress=None) if each.at_s > look else each for each in series])


@pytest.mark.parametrize("age", [0, 100, 390, 840])
def test_a_forecast_does_not_drift_with_the_age_of_the_last_look(age: int) -> None:
    found = filling_since(405, count=406 + age)
    final = found.forecast.final_bytes
    assert found.state == ("filling" if age < 840 else "normal")
    assert final == pytest.approx(500 * MIB + 2e9, rel=0.01)
    assert found.forecast.final_low_bytes is not None
    assert found.forecast.final_high_bytes is not None
    assert found.forecast.final_low_bytes <= 500 * MIB + 2e9 + 1 <= found.forecast.final_high_bytes + 2
    if age < 840:
        assert found.forecast.full_in_s == pytest.approx(100_000 / 80 - 405 - age, abs=2)
        assert found.forecast.full_at_step == pytest.approx(100_000, rel=0.01)


def test_a_store_that_fills_slower_since_the_last_look_is_not_thought_full() -> None:
    found = filling_since(405, count=800, slower=0.25)
    left = 100_000 - 80 * 405 - 80 * 0.25 * 394
    assert found.forecast.final_bytes == pytest.approx(500 * MIB + 2e9, rel=0.01)
    assert found.forecast.full_in_s == pytest.approx(left / 20, rel=0.05)


def test_the_range_of_a_forecast_is_as_wide_as_what_comes_and_goes_beside_the_store() -> None:
    found = filling_since(405, count=420, beside=lambda at: (500 + 4 * (at % 50)) * MIB).forecast
    assert found.final_low_bytes is not None
    assert found.final_high_bytes is not None
    assert found.final_low_bytes == pytest.approx(500 * MIB + 2e9, rel=0.02)
    assert found.final_high_bytes == pytest.approx(700 * MIB + 2e9, rel=0.02)


def test_a_range_with_the_limit_in_it_may_not_fit() -> None:
    series = moments(
        lambda at: (500 + 4 * (at % 50)) * MIB + 80 * at * 20_000, owners=lambda at: (store(int(80 * at), 100_000),),
        count=405,
    )  # fmt: skip
    found = judge([replace(moment, limit_bytes=int(600 * MIB + 2e9)) for moment in series])
    assert found.forecast.fits is None
    assert found.reasons[0].endswith(": may not fit")
    assert re.search(r"GiB \(2\.\d\d–2\.\d\d\) of 2\.", found.reasons[0])


def test_the_end_of_the_run_comes_nearer_after_the_last_step_that_was_seen() -> None:
    series = moments(flat, owners=none, count=600, steps_per_s=10, total=10_000)
    late = [replace(each, progress=None, holdings=None) if each.at_s > 300 else each for each in series]
    pace = read_pace(late)
    assert pace is not None
    assert pace.end_in_s == pytest.approx(1000 - 599, abs=1)


def test_a_cache_that_is_full_is_said_to_be() -> None:
    def size(at: float) -> float:
        return 40 * MIB + 5e6 * min(at, 150)

    def cache(at: float) -> tuple[Holding, ...]:
        count = int(10 * min(at, 150))
        return (infos(count, each=500_000, path="render", kind="container", type="functools.lru_cache", capacity=1500),)

    found = judge(moments(size, owners=cache, count=200))
    assert found.state == "normal"
    assert found.reasons[0].startswith("`render` is full (1,500 of 1,500, 715 MiB): grew 6")


def test_memory_that_is_given_back_at_the_end_is_no_part_of_a_verdict() -> None:
    def size(at: float) -> float:
        return (500 * MIB + 80 * at * 20_000) * (0.3 if at >= 238 else 1.0)

    series = moments(size, owners=lambda at: (store(int(80 * at)),), count=240)
    kept = before_end(series)
    assert [moment.at_s for moment in kept[-2:]] == [236, 237]
    assert judge(kept).forecast.final_bytes == pytest.approx(500 * MIB + 20e9, rel=0.02)
    assert before_end(moments(flat, count=3)) == moments(flat, count=3)


def test_the_owner_of_what_grew_is_named_before_there_are_enough_samples() -> None:
    series = moments(lambda at: GIB + 1e6 * at, owners=lambda at: (infos(at, each=10**6),), count=40)
    (reason,) = judge(series).reasons
    assert reason.startswith("too short to tell: 40 of 100 samples; so far from 1.00 GiB to ")
    assert reason.endswith(", all of it in `self.episode_infos`")


def test_threads_that_are_never_joined_are_said_with_what_grows() -> None:
    def started(each: Moment, threads: float) -> Moment:
        return replace(each, threads=int(threads))

    series = moments(lambda at: GIB + 2e6 * at, owners=none, count=200)
    rising = judge([started(each, 3 + each.at_s / 2) for each in series])
    assert "threads rose from 1" in rising.reasons[0]
    assert "to 102: join them, or use a pool" in rising.reasons[0]
    for threads in (40, 3):  # a pool, at its start or by and by
        pool = judge([started(each, min(threads + each.at_s, 40)) for each in series])
        assert "threads" not in pool.reasons[0]
