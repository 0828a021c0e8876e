"""From the facts of a dry run to a ledger and a plan; the facts here are small and made up, their form is the agent's."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from rlmem.app.subjects import change_dry_run, with_findings
from rlmem.budget import make_budget
from rlmem.core.quantity import Quantity
from rlmem.errors import AnalysisError
from rlmem.model.constants import Constants
from rlmem.planner import ClosedForm
from rlmem.process.sampler import TreePeak
from rlmem.rules import BREAKING
from rlmem.runner.child import Outcome
from rlmem.trace.describe import describe
from rlmem.trace.dryrun import DryRun
from rlmem.trace.gpu import move_to_gpu
from rlmem.trace.ledger import Growth, TracedLedger
from rlmem.trace.plan import plan_dry_run
from rlmem.trace.target import RunnableTarget

MB = 10**6


def reading(megabytes: int, peak: int | None = None, others: tuple[dict[str, Any], ...] = ()) -> dict[str, Any]:
    return {"tree": megabytes * MB, "rss": megabytes * MB, "peak": (peak or megabytes) * MB, "others": list(others)}


def array(name: str, megabytes: int, resident: int, address: int) -> dict[str, Any]:
    return {
        "name": name,
        "shape": [megabytes, MB],
        "dtype": "uint8",
        "nbytes": megabytes * MB,
        "resident": resident * MB,
        "address": address,
    }


def sac(**more: Any) -> dict[str, Any]:
    """SAC with 100 MB of buffer of which 10 MB are written."""
    return {
        "met": "learn",
        "stop": None,
        "notes": [],
        "versions": {"stable_baselines3": "2.9.2", "torch": "2.13.0"},
        "wall_s": 9.0,
        "phases": {
            "import": reading(250),
            "build": reading(350),
            "collect": reading(360),
            "update": reading(370, peak=400),
            "final": reading(371),
        },
        "arrays": [],
        "containers": [],
        "model": {
            "algorithm": "SAC",
            "bases": ["SAC", "OffPolicyAlgorithm"],
            "observation": {"type": "box", "shape": [64], "dtype": "float32"},
            "action": {"type": "box", "shape": [1], "dtype": "float32"},
            "settings": {"batch_size": 256, "buffer_size": 1_000_000, "n_envs": 1, "n_steps": 1, "gradient_steps": 1},
            "policy_kwargs": {},
            "buffers": {"replay_buffer": {"class": "ReplayBuffer", "arrays": [{"name": "timeouts"}]}},
            "env": ["DummyVecEnv"],
            "device": "cpu",
            "learner_device": "cpu",
            "optimizers": ["Adam"],
            "total_timesteps": 20_000,
            "callbacks": [],
        },
        "rehearsal": {
            "reached": {"batch_size": 256, "updates": 40},
            "recordings": [],
            "learner": {"gradients": 2 * MB, "optimizer": 4 * MB},
            "networks": {"actor": MB, "critic": MB},
            "buffers": {"replay_buffer": [array("observations", 60, 6, 1), array("next_observations", 40, 4, 2)]},
        },
        **more,
    }


def compact(**more: Any) -> dict[str, Any]:
    """The same with a compact buffer of Dict observations, of which 2 MB are resident."""
    facts = sac()
    key = {"obs_bytes": 21_168, "stack": 1, "codec": "none", "nbytes": 3 * MB, "resident": 2 * MB}
    store = {
        "rows": 250_000, "n_envs": 4, "paired": True, "full": False, "index_bytes": 0, "n_steps": 1, "prioritised_bytes": 0,
        "options": {"codec": "none", "stack": "auto", "budget": None}, "keys": {"image": key}, **more,
    }  # fmt: skip
    facts["model"]["buffers"]["replay_buffer"] = {"class": "CompactReplayBuffer", "arrays": [], "store": store}
    facts["model"]["observation"] = {
        "type": "dict",
        "spaces": {"image": {"type": "box", "shape": [84, 84, 3], "dtype": "uint8"}},
    }
    facts["model"]["settings"]["n_envs"] = 4
    facts["rehearsal"]["buffers"] = {"replay_buffer": [array("actions", 32, 1, 1)]}
    facts["rehearsal"]["stores"] = {"replay_buffer": store}
    return facts


def sized(**image: Any) -> dict[str, Any]:
    """What a sample may say about that buffer's images."""
    own = {
        "stack": 1,
        "unit_bytes": 21_168,
        "codec": "none",
        "constant": False,
        "low": 21_168,
        "expected": 21_168,
        "high": 21_168,
    }
    auto = {**own, "codec": "zstd-1 up", "block": 8, "low": 4_000, "expected": 5_000, "high": 7_000}
    return {
        "transitions": 768,
        "ends": 0.01,
        "keys": {"image": {**own, **image}},
        "auto": {"image": {**auto, **image}},
    }


def held(facts: dict[str, Any], component: str, phase: str = "update") -> Quantity:
    (entry,) = TracedLedger(facts).ledger().only(phase=phase, component=component).entries
    return entry.amount


def run_of(facts: dict[str, Any]) -> DryRun:
    target = RunnableTarget(
        kind="script", text="train.py", args=(), python="python", python_source="--python", folder=Path("/")
    )
    peak = TreePeak(pss_bytes=MB, rss_bytes=MB, processes=(), cgroup_bytes=None, samples=1)
    return DryRun(target=target, facts=facts, outcome=Outcome(status="ok", returncode=0, wall_s=9.0, peak=peak))


def total(facts: dict[str, Any], phase: str) -> int:
    return TracedLedger(facts).ledger().only(phase=phase).nbytes


def test_a_phase_is_what_was_seen_and_what_is_reserved_and_not_yet_written() -> None:
    facts = sac()
    assert total(facts, "import") == 250 * MB
    assert total(facts, "build") == 350 * MB
    assert total(facts, "update") == (400 + 90) * MB
    assert total(facts, "collect") == (370 + 90) * MB  # from the second round on, what an update leaves is there


def test_parts_are_named_and_the_rest_is_measured() -> None:
    entries = {entry.component: entry for entry in TracedLedger(sac()).ledger().only(phase="update").entries}
    assert entries["replay.observations"].nbytes == 60 * MB
    assert entries["learner.optimizer"].nbytes == 4 * MB
    assert entries["runtime.imports"].nbytes == 250 * MB
    assert entries["runtime.working-set"].nbytes == (400 - 250 - 10 - 2 - 4 - 2) * MB
    assert entries["runtime.working-set"].basis == "measured"
    reserved = [e for e in TracedLedger(sac()).ledger().only(phase="build").entries if e.residency == "reserved"]
    assert sum(entry.nbytes for entry in reserved) == 90 * MB


def test_workers_that_were_not_started_cost_what_one_has_for_itself() -> None:
    worker = {"pid": 2, "role": "worker", "bytes": 60 * MB, "private": 50 * MB}
    tracker = {"pid": 3, "role": "tracker", "bytes": 2 * MB, "private": MB}
    facts = sac(workers_asked=8, workers_started=2)
    facts["phases"]["update"] = reading(492, peak=522, others=(worker, worker, tracker))
    workers = TracedLedger(facts).ledger().only(phase="update", process="workers")
    assert workers.nbytes == (2 * 60 + 6 * 50) * MB
    main = TracedLedger(facts).ledger().only(phase="update", process="main")
    assert main.nbytes == (400 + 90) * MB


def test_a_deque_counts_at_its_capacity() -> None:
    facts = sac(containers=[{"kind": "deque", "capacity": 1000, "length": 100, "bytes_each": 1000}])
    assert total(facts, "update") == (400 + 90) * MB + 900 * 1000


def test_a_rollout_that_stopped_short_is_shown_at_its_real_size() -> None:
    facts = sac()
    rows = [array("observations[left]", 60, 60, 1), array("observations[right]", 20, 20, 2)]
    facts["rehearsal"]["buffers"] = {"rollout_buffer": rows}
    growth = tuple(
        Growth(phase=phase, component="extended.stores", amount=Quantity.of(size * MB, "n_steps", "closed forms"))
        for phase, size in (("collect", 40), ("update", 55))
    )
    found = TracedLedger(facts, growth, stretch=Fraction(3, 2)).ledger()
    for phase in ("collect", "update"):
        sizes = {entry.component: entry.nbytes for entry in found.only(phase=phase).entries}
        assert (sizes["rollout.observations[left]"], sizes["rollout.observations[right]"]) == (90 * MB, 30 * MB)
        assert "extended.stores" not in sizes
    # As much as the closed forms say, in all; what is more than the arrays are copies of them.
    assert found.only(phase="update").nbytes == (400 + 55) * MB
    assert {e.component: e.nbytes for e in found.only(component="extended").entries} == {"extended.copies": 15 * MB}


def test_an_array_that_no_update_wrote_is_counted_and_may_take_nothing() -> None:
    row = {**array("", 30, 0, 9), "made_by": "numpy.zeros", "where": "/x/train.py:5", "path": "config"}
    for cycles, low in ((3, 30 * MB), (200, 0)):
        facts = sac(arrays=[row], loop={"cycles": cycles, "updates": 200, "env_steps": 900})
        (entry,) = TracedLedger(facts).ledger().only(phase="update", component="arrays.config").entries
        assert (entry.amount.low, entry.nbytes, entry.amount.high) == (low, 30 * MB, 30 * MB)


def test_a_file_on_a_disk_is_shown_and_not_counted() -> None:
    disk = {"file": "/data/frames.dat", "address": 0, "end": 500 * MB, "nbytes": 500 * MB, "resident": 20 * MB}
    found = TracedLedger(sac(files=[{**disk, "in_ram": False, "path": "store"}])).ledger().only(phase="update")
    (row,) = found.only(component="files.store").entries
    assert (row.nbytes, row.residency, row.counts) == (500 * MB, "reclaimable", False)
    assert found.nbytes == (400 + 90) * MB
    # One in memory fills like any array, and a tensor that lies in it is the same memory.
    tensor = {**array("", 500, 0, 64), "made_by": "torch.zeros", "where": "/x/train.py:5"}
    held = sac(files=[{**disk, "in_ram": True, "path": "store"}], arrays=[tensor])
    assert total(held, "update") == (400 + 90 + 480) * MB


def test_what_a_model_holds_is_not_counted_under_another_name() -> None:
    resized = {**array("", 30, 30, 9), "made_by": "numpy.zeros", "where": "/x/buffers.py:749"}
    facts = sac(arrays=[resized])
    facts["rehearsal"]["held"] = [9]
    assert not [name for name in TracedLedger(facts).ledger().components if name.startswith("arrays.")]


def test_a_deque_counts_as_far_as_the_run_fills_it() -> None:
    deque = {"kind": "deque", "capacity": 1000, "length": 100, "bytes_each": 1000, "id": 7}
    looks = [{"rounds": n, "steps": n, "arrays": 0, "progress": [["t", n, 300]]} for n in (25, 50, 75, 100)]
    row = {**deque, "name": "memory", "grown": 75, "shortened": False}
    facts = sac(containers=[deque], levels={"points": [], "looks": looks, "containers": [row]})
    assert total(facts, "update") == (400 + 90) * MB + 200 * 1000
    beyond = [entry for entry in TracedLedger(facts).ledger().only(phase="update").entries if not entry.counts]
    assert [entry.nbytes for entry in beyond if entry.group == "containers"] == [700 * 1000]


def test_big_arrays_of_a_containers_elements_are_counted_with_it() -> None:
    own = {**array("", 2, 2, 77), "made_by": "numpy.ones", "where": "/x/train.py:5"}
    deque = {"kind": "deque", "capacity": 10, "length": 1, "bytes_each": 2 * MB, "arrays": [77]}
    assert total(sac(containers=[deque], arrays=[own]), "update") == (400 + 90) * MB + 18 * MB


def test_what_is_estimated_is_not_called_exact() -> None:
    deque = {"kind": "deque", "capacity": 1000, "length": 100, "bytes_each": 1000}
    for facts in (
        sac(containers=[deque]),
        compact(),
        {**compact(), "sized": sized(codec="zstd-1 up", block=8, low=4_000)},
    ):
        for entry in TracedLedger(facts).ledger().entries:
            assert entry.basis != "exact" or entry.amount.low == entry.nbytes == entry.amount.high, entry.component


def test_an_array_is_counted_once_under_its_owners_name() -> None:
    row = {**array("", 60, 6, 1), "made_by": "numpy.zeros", "where": "/x/buffers.py:213"}
    other = {**array("", 30, 0, 9), "made_by": "torch.zeros", "where": "/x/train.py:5"}
    facts = sac(arrays=[row, other])
    assert total(facts, "update") == (400 + 90 + 30) * MB
    assert "arrays.train.py:5" in TracedLedger(facts).ledger().components


def test_the_last_phases_that_ended_count_when_a_larger_size_did_not() -> None:
    facts = sac()
    facts["rehearsal"]["phases"] = {**facts["phases"], "update": reading(370, peak=380)}
    assert total(facts, "update") == (380 + 90) * MB


def test_a_plan_says_how_it_came_about_and_what_the_run_fills() -> None:
    plan = with_findings(plan_dry_run(run_of(sac()), make_budget(ram="1GB"))).plan
    assert plan.method == "dry run"
    assert plan.verdict == "fits"
    top = plan.top("ram")
    assert top is not None
    assert top.phase == "update"
    assert top.low_bytes < top.expected_bytes == 490 * MB < top.high_bytes
    assert "SAC.learn()" in plan.notes[0]
    assert "may be called again" in plan.notes[1]
    assert "MEM101" in {finding.code for finding in plan.findings}


@pytest.mark.parametrize(("text", "share"), [("model.learn(20_000)", 0.02), ("lib.train(model)", 1.0)])
def test_a_replay_buffer_is_added_as_far_as_the_run_comes(text: str, share: float, tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text(f"from stable_baselines3 import SAC\nmodel = SAC('MlpPolicy', 'Humanoid-v5')\n{text}\n")
    run = run_of(sac())
    plan = plan_dry_run(replace(run, target=replace(run.target, text=str(script))), make_budget(ram="1GB")).plan
    held = plan.ledger.only(device="ram", phase="update", component="replay").nbytes
    assert held == max(share * 100 * MB, 10 * MB)  # 10 MB of 100 were written in the dry run
    assert ("with a full one" in " ".join(plan.sentences)) == (share < 1)


def test_what_a_remedy_saves_does_not_depend_on_what_the_dry_run_saw() -> None:
    saved = []
    for peak in (400, 700):
        facts = sac()
        facts["phases"]["update"] = reading(370, peak=peak)
        plan = with_findings(plan_dry_run(run_of(facts), make_budget(ram="1GB"))).plan
        saved.append({finding.code: finding.saves_bytes for finding in plan.findings}["MEM101"])
    assert saved[0] == saved[1]


def test_another_limit_predicts_nothing_again_and_gives_the_same_plan() -> None:
    form, small = ClosedForm(), make_budget(ram="450MB", vram="1GB")
    subject = plan_dry_run(run_of(sac()), make_budget(ram="1GB"), form)
    predictions = form.predictions
    plan, other = subject.under(small).plan, plan_dry_run(run_of(sac()), small).plan
    assert form.predictions == predictions
    assert (plan.peaks, plan.unknown, plan.notes) == (other.peaks, other.unknown, other.notes)
    assert (subject.plan.verdict, plan.verdict) == ("fits", "does-not-fit")
    changed = subject.under(small).changed({"buffer_size": 1000})
    assert changed.peaks == plan_dry_run(run_of(sac()), small).changed({"buffer_size": 1000}).peaks
    assert form.predictions == predictions + 1


def test_a_run_that_was_tried_is_changed_with_findings_and_says_how() -> None:
    subject = plan_dry_run(run_of(sac()), make_budget(ram="1GB"))
    changed = change_dry_run(subject, {"buffer_size": 100_000_000}, "the link")
    assert changed.plan.peaks == subject.changed({"buffer_size": 100_000_000}).peaks
    assert changed.plan.notes[0].startswith("changed after its dry run")
    assert changed.asked.origin("buffer_size") == "the link"
    assert changed.plan.findings
    at_once = change_dry_run(subject, {"buffer_size": 100_000_000}, "the link", breaking_only=True)
    assert {finding.code for finding in at_once.plan.findings} <= set(BREAKING)
    assert at_once.plan.peaks == changed.plan.peaks


def test_a_description_holds_what_the_model_is() -> None:
    spec = describe(run_of(sac()))
    assert spec.text("algorithm") == "sac"
    assert spec.count("buffer_size") == 1_000_000
    assert "n_steps" not in spec
    assert spec.origin("batch_size") == "read from the live model"


def test_a_space_without_words_in_a_run_file_leaves_a_plan_without_findings() -> None:
    facts = sac()
    facts["model"]["observation"] = {"type": "graph"}
    plan = with_findings(plan_dry_run(run_of(facts), make_budget(ram="1GB"))).plan
    assert (plan.method, plan.findings) == ("dry run", ())
    top = plan.top("ram")
    assert top is not None
    assert top.expected_bytes == 490 * MB


def test_a_short_batch_is_extended_op_by_op() -> None:
    def recording(batch: int) -> dict[str, Any]:
        events = [["obs", [[1, batch * 1000]], []], ["mm", [[2, batch * 3000]], []], ["end", [], [1, 2]]]
        return {"batch": batch, "before": [[0, 5 * MB]], "events": events}

    facts = sac()
    facts["model"]["settings"]["batch_size"] = 100_000
    facts["rehearsal"]["reached"] = {"batch_size": 64, "updates": 2}
    facts["rehearsal"]["recordings"] = [recording(8), recording(16)]
    plan = plan_dry_run(run_of(facts), make_budget(ram="2GB")).plan
    top = plan.top("ram")
    assert top is not None
    assert top.expected_bytes == (370 + 90 + 400) * MB  # what an update leaves, the buffer, and the batch's tensors
    assert any("batch_size 64 of 100,000" in note for note in plan.notes)


def test_a_learner_on_a_gpu_moves_its_tensors_there() -> None:
    def recording(batch: int) -> dict[str, Any]:
        events = [["mm", [[2, batch * MB]], []], ["end", [], [2]]]
        return {"batch": batch, "before": [[0, 8 * MB]], "events": events}

    facts = sac()
    facts["rehearsal"]["recordings"] = [recording(8), recording(16)]
    before = TracedLedger(facts).ledger()
    moved = move_to_gpu(before, facts, 32, Constants())
    vram = moved.only(device="vram", phase="update")
    assert vram.only(component="learner").nbytes > 32 * MB
    assert vram.only(component="runtime.cuda-context").nbytes > 700 * MB
    assert moved.only(device="ram", phase="update", component="learner").nbytes == 0
    with pytest.raises(AnalysisError, match="no update was recorded"):
        move_to_gpu(before, sac(), 32, Constants())


def test_a_loop_without_an_update_is_planned_from_what_was_seen_and_says_so() -> None:
    facts = sac(met="time")
    del facts["model"], facts["rehearsal"], facts["phases"]["update"]
    plan = plan_dry_run(run_of(facts), make_budget(ram="1GB")).plan
    assert "without a full update" in plan.notes[0]
    top = plan.top("ram")
    assert top is not None
    assert top.phase == "collect"
    assert top.expected_bytes == 371 * MB


@pytest.mark.parametrize(
    ("facts", "said"),
    [
        ({"met": "end", "stop": None, "phases": {"final": reading(9)}, "wall_s": 1.0}, "without training"),
        ({"met": "time", "stop": None, "phases": {"import": reading(9), "final": reading(9)}, "wall_s": 5.0}, "time was over"),
        ({"met": None, "stop": {"kind": "raised", "message": "ImportError: No module named 'gym'", "where": "t.py:1"}, "phases": {}}, "--python PATH"),
    ],
)  # fmt: skip
def test_what_cannot_be_planned_says_why(facts: dict[str, Any], said: str) -> None:
    whole = {"notes": [], "versions": {}, "arrays": [], "containers": [], **facts}
    with pytest.raises(AnalysisError, match=said):
        plan_dry_run(run_of(whole), make_budget(ram="1GB"))


def test_a_compact_buffer_is_planned_full_and_not_as_its_views() -> None:
    images = held(compact(), "replay.observations")
    assert images.value == pytest.approx(1_005_000 * 21_168, rel=0.02)
    assert total(compact(), "update") == pytest.approx(400 * MB + images.value - 2 * MB + 31 * MB, rel=0.001)


def test_a_sample_says_what_a_transition_takes_and_how_often_episodes_end() -> None:
    assert held(compact() | {"sized": sized(constant=True)}, "replay.observations").high < 8 * MB
    stacked = held(compact() | {"sized": sized(stack=3)}, "replay.observations")
    assert stacked.value == pytest.approx(1_010_000 * 21_168 / 3, rel=0.02)
    coded = {"codec": "zstd-1 up", "block": 8, "low": 4_000, "expected": 5_000, "high": 7_000}
    amount = held(compact(options={"codec": "auto"}) | {"sized": sized(**coded)}, "replay.observations")
    assert (amount.low, amount.value, amount.high) == pytest.approx((4e9, 1.01 * 5e9, 1.02 * 7e9), rel=0.01)


def test_a_codec_nobody_could_look_at_is_planned_as_none_with_all_of_it_open() -> None:
    amount = held(compact(options={"codec": "auto"}), "replay.observations")
    assert amount.low == 0
    assert amount.value == held(compact(), "replay.observations").value


def test_a_full_compact_buffer_says_itself_what_it_takes() -> None:
    facts = compact(full=True, index_bytes=12)
    assert held(facts, "replay.observations").value == 3 * MB
    assert held(facts, "replay.tables").value == 12


def test_a_budget_holds_in_a_dry_run_too() -> None:
    assert held(compact(options={"codec": "none", "budget": 10**9}), "replay.observations").value == 10**9


@pytest.mark.parametrize(
    ("more", "fields"),
    [
        ({}, {"codec": "none", "replay.kind": "plain"}),
        ({"options": {"codec": {"image": "zstd", "vector": "none"}}}, {"codec": "zstd"}),
        ({"options": {"codec": "auto", "budget": 5000}}, {"codec": "auto", "spill_budget": 5000}),
        ({"n_steps": 3}, {"replay.kind": "n-step"}),
        ({"prioritised_bytes": 16}, {"replay.kind": "prioritised"}),
    ],
)
def test_a_compact_buffer_is_described_as_one(more: dict[str, Any], fields: dict[str, Any]) -> None:
    spec = describe(run_of(compact(**more)))
    assert spec.get("storage") == "compact"
    assert {name: spec.get(name) for name in fields} == fields


def test_what_a_sample_shows_enters_the_description_with_its_origin_and_the_remedy_with_what_it_saves() -> None:
    facts = compact() | {"sized": sized()}
    facts["model"]["buffers"]["replay_buffer"] = {"class": "DictReplayBuffer", "arrays": [{"name": "timeouts"}]}
    facts["rehearsal"]["stores"] = {}
    facts["rehearsal"]["buffers"] = {
        "replay_buffer": [array("observations[image]", 21_168, 6, 1), array("next_observations[image]", 21_168, 4, 2)]
    }
    spec = describe(run_of(facts))
    assert spec.get("coded_bytes") == {"image": (4_000, 5_000, 7_000)}
    assert "768 observations" in spec.origin("coded_bytes")
    made = with_findings(plan_dry_run(run_of(facts), make_budget(ram="64GB"))).plan
    remedy = next(finding.remedy or "" for finding in made.findings if finding.code == "MEM101")
    assert 'replay_buffer_kwargs={"codec": "auto"} saves' in remedy
    (note,) = [note for note in made.notes if note.startswith("bytes a transition")]
    assert "5,0" in note
    assert "image zstd-1 up" in note


@pytest.mark.parametrize(
    ("found", "words"),
    [({"missing": "numba"}, "has no numba (pip install"), ({"problem": "exit code 1"}, "exit code 1")],
)
def test_a_sample_that_cannot_be_looked_at_says_why(found: dict[str, Any], words: str) -> None:
    made = plan_dry_run(run_of(sac() | {"sized": found}), make_budget(ram="64GB")).plan
    assert any(words in note and "not known" in note for note in made.notes)


def test_a_range_has_two_sides_where_a_reading_is_nothing_but_libraries() -> None:
    phases = {"import": reading(300), "build": reading(300), "final": reading(301)}
    facts = {"met": "end", "stop": None, "phases": phases, "versions": {"numpy": "2"}, "wall_s": 1.0}
    plan = plan_dry_run(
        run_of({"notes": [], "arrays": [], "containers": [], "ended": True, **facts}), make_budget(ram="1GB")
    ).plan
    for peak in plan.peaks:
        assert peak.low_bytes < peak.expected_bytes < peak.high_bytes, peak.phase
