"""Growth over steps and the capacity of a knob, from plans."""

from __future__ import annotations

import pytest

from rlmem import Planner, load, make_budget
from rlmem.app.capacity import capacity_curve
from rlmem.app.report import remedies, report_document
from rlmem.core.fields import fields_diff
from rlmem.core.points import Point, PredictedPeak
from rlmem.core.spec import RunSpec
from rlmem.core.subject import Subject
from rlmem.documents.growth import GrowthCurvePart, growth_curve
from rlmem.documents.plan import PlanDocument, plan_document
from rlmem.planner import ClosedForm
from rlmem.rules import with_findings
from rlmem.runner.store import open_store
from rlmem.sources.target import parse_target
from rlmem.units import GIB


def plan(target: str, *sets: str, ram: str = "10GB") -> PlanDocument:
    return plan_document(Planner(make_budget(ram=ram)).plan(load(target, sets)))


def grown(target: str, *sets: str, ram: str = "10GB") -> GrowthCurvePart:
    found = growth_curve(plan(target, *sets, ram=ram))
    assert found is not None
    return found


def test_a_replay_buffer_grows_from_the_first_step_until_it_is_full() -> None:
    found = grown("pidog-sac")
    assert found.full_at == 400_000
    assert found.rows[0].step == 0
    assert found.rows[-1].expected_bytes == found.full_bytes
    rise = found.rows[-1].expected_bytes - found.rows[1].expected_bytes
    assert rise == found.store_bytes


def test_the_limit_is_reached_where_the_line_crosses_it() -> None:
    found = grown("pidog-sac")
    step = found.over_limit_at
    assert step is not None and found.limit_bytes is not None
    assert found.at(step).expected_bytes <= found.limit_bytes < found.at(step + 2).expected_bytes


def test_a_run_that_fits_never_reaches_the_limit() -> None:
    assert grown("pidog-sac", ram="100GB").over_limit_at is None


def test_a_run_that_ends_early_never_fills_its_buffer() -> None:
    found, full = grown("pidog-sac", "total_timesteps=100k"), grown("pidog-sac")
    assert [row.step for row in found.rows][-1] == found.full_at == 100_000
    assert found.rows[-1].expected_bytes < full.full_bytes / 3
    assert found.store_bytes == pytest.approx(full.store_bytes / 4, rel=0.001)


def test_before_learning_starts_there_is_no_update() -> None:
    found = grown("pidog-sac", "learning_starts=50k")
    steps = [row.step for row in found.rows]
    assert steps == [0, 50_000, 50_000, 400_000, 500_000]
    before, after = found.rows[1:3]
    assert before.expected_bytes < after.expected_bytes


def test_learning_that_starts_after_the_end_never_updates() -> None:
    found = grown("pidog-sac", "learning_starts=50k", "total_timesteps=10k")
    assert [row.step for row in found.rows] == [0, 10_000]


def test_a_rollout_fills_before_its_first_update() -> None:
    found = grown("pyboy-ppo", "total_timesteps=1M")
    assert found.full_at == 8192 * 2
    assert [row.step for row in found.rows] == [0, 16_384, 16_384, 1_000_000]


def test_a_run_that_reserves_nothing_has_no_growth() -> None:
    assert growth_curve(plan("crypto-ppo")) is None


@pytest.mark.parametrize("target", ["pidog-sac", "pyboy-ppo", "drone-swarm"])
def test_growth_never_falls(target: str) -> None:
    sizes = [row.expected_bytes for row in grown(target).rows]
    assert sizes == sorted(sizes)


def test_capacity_has_the_run_itself_and_the_largest_that_fits_among_its_values() -> None:
    subject = with_findings(ClosedForm().subject(load("pidog-sac"), make_budget(ram="10GB")))
    found = capacity_curve(subject)
    assert found is not None
    values = [row.value for row in found.rows]
    assert values == sorted(values)
    assert {400_000, found.largest_safe} <= set(values)
    best = next(row for row in found.rows if row.value == found.largest_safe).peaks[0]
    assert best.limit_bytes is not None and best.high_bytes <= best.limit_bytes


def test_remedies_come_with_what_they_save_most_first_and_the_exact_change() -> None:
    found = remedies(with_findings(ClosedForm().subject(load("pidog-sac"), make_budget(ram="10GB"))))
    saved = [row.saves_bytes["ram"] for row in found]
    assert saved == sorted(saved, reverse=True)
    assert found[0].name == "compact-store"
    assert found[0].diff == "+ storage: compact"
    assert found[0].fits
    smaller = next(row for row in found if row.name == "buffer-size")
    assert smaller.kind == "learning"
    assert smaller.diff.splitlines()[0] == "- buffer_size: 400000"


def test_a_field_that_stays_is_not_in_the_diff() -> None:
    assert (
        fields_diff({"n_envs": 4, "batch_size": 64}, {"n_envs": 4, "batch_size": 32})
        == "- batch_size: 64\n+ batch_size: 32"
    )


def test_a_report_shows_the_newest_measurement_of_its_target() -> None:
    point = Point(
        values={"n_envs": 1}, status="ok", peak_bytes=GIB, predicted=PredictedPeak(low=1, expected=GIB, high=2 * GIB)
    )
    with open_store(write=True) as store:
        for target in ("pidog-sac", "other"):
            run = store.begin("measure", target, document={"axes": [], "repeat": 1})
            store.add(run.id, point)
            store.finish(run.id, "ok", {"axes": [], "repeat": 1})
    subject = with_findings(ClosedForm().subject(load("pidog-sac"), make_budget(ram="10GB")))
    document = report_document(subject, target=parse_target("pidog-sac"), command=["rlmem"])
    assert document.measured is not None
    assert document.measured.target == "pidog-sac"
    assert document.measured.rows[0].measured_bytes == GIB
    assert report_document(subject, target=parse_target("pidog-td3"), command=[]).measured is None


def test_a_measurement_that_cannot_be_read_costs_no_report() -> None:
    with open_store(write=True) as store:
        store.begin("measure", "pidog-sac", document={"axes": [{"name": "n_envs"}]})
    subject = with_findings(ClosedForm().subject(load("pidog-sac"), make_budget(ram="10GB")))
    assert report_document(subject, target=parse_target("pidog-sac"), command=[]).measured is None


def test_a_measurement_of_another_run_is_said_to_be_one() -> None:
    header = {"axes": [{"name": "n_envs", "values": [1, 2]}], "repeat": 1, "options": {"sets": ["buffer_size=1000"]}}
    with open_store(write=True) as store:
        run = store.begin("measure", "pidog-sac", document=header)
        store.finish(run.id, "ok", header)

    def planned(spec: RunSpec) -> Subject:
        return with_findings(ClosedForm().subject(spec, make_budget(ram="10GB")))

    other = report_document(planned(load("pidog-sac", ["n_envs=7"])), target=parse_target("pidog-sac"), command=[])
    assert other.differs == ("buffer_size 1000 (here 400000)",)  # n_envs was varied
    same = planned(load("pidog-sac", ["buffer_size=1000"]))
    assert report_document(same, target=parse_target("pidog-sac"), command=[]).differs == ()


@pytest.mark.parametrize(
    ("target", "limits"), [("drone-swarm", {"ram": "4GB"}), ("pyboy-ppo", {"ram": "6GB", "vram": "6GB"})]
)
def test_the_diff_of_a_remedy_is_all_that_it_takes(target: str, limits: dict[str, str]) -> None:
    subject = with_findings(ClosedForm().subject(load(target), make_budget(**limits)))
    for row in remedies(subject):
        added = [line[2:].replace(": ", "=", 1) for line in row.diff.splitlines() if line.startswith("+ ")]
        after = subject.plan_of(load(target, [text.replace("True", "true").replace("None", "none") for text in added]))
        before = {top.device: top.expected_bytes for top in subject.plan.tops}
        saved = {top.device: before[top.device] - top.expected_bytes for top in after.tops}
        assert saved == {device: row.saves_bytes[device] for device in saved}, row.name


def test_remedies_are_ranked_on_the_device_that_decides_and_then_by_what_they_save_elsewhere() -> None:
    found = remedies(with_findings(ClosedForm().subject(load("pyboy-ppo"), make_budget(ram="30GB", vram="6GB"))))
    saved = [(row.saves_bytes.get("vram", 0), row.saves_bytes["ram"]) for row in found]
    assert saved == sorted(saved, reverse=True)


def test_capacity_keeps_devices_apart() -> None:
    found = capacity_curve(with_findings(ClosedForm().subject(load("pyboy-ppo"), make_budget(ram="30GB", vram="8GB"))))
    assert found is not None
    for row in found.rows:
        assert {peak.device for peak in row.peaks} == {"ram", "vram"}
