"""Verdicts on series of moments that are written down here: filling, leaking, stuck, normal, and too early to say."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from rlmem.holdings import Holding, Progress
from rlmem.moments import Judgement, Moment
from rlmem.units import GIB, MIB
from rlmem.watch.history import History
from rlmem.watch.judge import judge
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
    assert early.reasons == ("total grew 34.3 MiB/min for 4 min, without an owner: too early to call a leak",)
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
    series = [replace(moment, cpu_s=50.0) for moment in moments(lambda _: 19.8e9)]
    found = judge(series, (600_000_000, 800_000_000))
    assert found.state == "stuck"
    assert found.reasons[0] == "no CPU time and no step for 99 s" or "2 min" in found.reasons[0]
    assert "others that run the same command" in found.reasons[1]


@pytest.mark.parametrize("sign", ["cpu", "steps", "fill"])
def test_a_program_that_waits_but_moves_is_not_stuck(sign: str) -> None:
    owners = (lambda at: (infos(at, each=10),)) if sign == "fill" else none
    series = moments(flat, owners=owners, steps_per_s=5 if sign == "steps" else None)
    if sign != "cpu":
        series = [replace(moment, cpu_s=50.0) for moment in series]
    assert judge(series).state == "normal"


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
    found = judge(moments(lambda at: GIB + 1e8 * at, owners=none, count=60))
    assert found == Judgement(
        state="unknown",
        reasons=("too short to tell: 60 of 100 samples",),
        forecast=found.forecast,
    )


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
