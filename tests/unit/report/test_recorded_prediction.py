"""A recorded run's prediction beside what was measured, and its processes at the peak."""

from __future__ import annotations

import json
from typing import Any

import pytest

from rlmem.app.recorded import recorded_document
from rlmem.core.holdings import Holding, Progress
from rlmem.core.moments import Moment
from rlmem.documents.contract import from_plain, read_part, to_plain
from rlmem.documents.recorded import RecordedDocument, Recording
from rlmem.errors import UsageError
from rlmem.report.prediction import prediction_curve
from rlmem.report.recorded import recorded_view
from rlmem.report.render import render_view
from rlmem.units import GIB, MIB

FACTS: dict[str, Any] = {
    "model": {
        "algorithm": "DQN",
        "bases": ["DQN", "OffPolicyAlgorithm", "BaseAlgorithm", "ABC", "object"],
        "observation": {"type": "box", "shape": [4], "dtype": "float32"},
        "action": {"type": "discrete", "n": 2},
        "settings": {"n_envs": 1, "batch_size": 32, "buffer_size": 200_000, "train_freq": [4, "step"]},
        "policy_kwargs": {},
        "optimizers": ["Adam"],
        "buffers": {"replay_buffer": {"class": "ReplayBuffer", "arrays": [{"name": "timeouts"}]}},
        "env": ["DummyVecEnv"],
        "device": "cpu",
        "learner_device": "cpu",
        "total_timesteps": 6000,
    },
    "versions": {"stable_baselines3": "2.9.2", "torch": "2.13.0"},
}
#: 200,000 rows, of which a run of 6,000 steps writes 305 KiB, of two observations of 16 bytes, an action of 8, reward, done and timeout of 4 each.
REPLAY_BYTES = 200_000 * (2 * 16 + 8 + 3 * 4)


def row(pid: int, role: str = "worker", command: str = "python train.py", mib: int = 100) -> dict[str, Any]:
    sizes = {"rss_bytes": mib * MIB, "pss_bytes": mib * MIB // 2, "uss_bytes": None}
    return {"pid": pid, "role": role, "command": command, **sizes, "threads": 2}


def moments(nbytes: int = 340 * MIB, step: int = 5800, **fields: Any) -> list[Moment]:
    held = Holding(
        path="model.replay_buffer.observations",
        kind="array",
        type="ndarray",
        nbytes=REPLAY_BYTES,
        resident_bytes=REPLAY_BYTES // 2,
    )
    values: dict[str, Any] = {"limit_bytes": 2 * GIB, "limit_name": "--max-ram", "holdings": (held,), **fields}
    progress = Progress(step=step, total=6000, source="DQN")
    one = Moment(at_s=5.0, tree_bytes=nbytes, rss_bytes=nbytes, progress=progress, **values)
    return [Moment(at_s=0.0, tree_bytes=MIB, rss_bytes=MIB), one]


def recorded(header: dict[str, Any], **seen: Any) -> RecordedDocument:
    return recorded_document(read_part(Recording, header), moments(**seen))


def reread(data: Any) -> RecordedDocument:
    return from_plain(RecordedDocument, json.loads(json.dumps(data)), "it")


def document(facts: dict[str, Any] | None = FACTS, rows: Any = (), status: str = "ok", **seen: Any) -> RecordedDocument:
    peak = {"nbytes": 341 * MIB, "at_s": 6.0, "phase": "", "step": None, "seen": False, "members": tuple(rows)}
    ended = {"returncode": 0, "exit_code": 0, "status": status, "wall_s": 7.0, "peak": peak, "described": facts}
    return recorded({"target": "train.py", "command": ["python"], "ended": ended}, **seen)


def text(made: RecordedDocument) -> str:
    return render_view(reread(to_plain(made)), recorded_view, "text", None)


def test_the_plan_is_a_whole_plan_document_against_the_runs_limit() -> None:
    made = to_plain(document())
    plan = made["plan"]
    assert plan["target"]["name"] == "train.py"
    assert plan["target"]["spec"]["framework"]["version"] == "2.9.2"
    machine = plan["machine"]
    assert (machine["name"], machine["ram_bytes"], machine["ram_source"]) == ("the run's limit", 2 * GIB, "--max-ram")
    assert plan["verdict"] == "fits"
    assert made["versions"] == FACTS["versions"]
    assert to_plain(reread(made)) == made


def test_without_a_limit_the_verdict_is_unknown() -> None:
    plan = to_plain(document(limit_bytes=None, limit_name=""))["plan"]
    assert (plan["machine"]["ram_bytes"], plan["verdict"]) == (None, "unknown")


@pytest.mark.parametrize(
    ("facts", "why"),
    [
        (None, ""),
        ({}, ""),
        ({"model": {}}, "does not tell the framework.name of its model"),
        (
            {"model": {**FACTS["model"], "bases": ["Mine"]}},
            "does not tell the algorithm of its model",
        ),  # no algorithm the closed form knows
        ({"model": {**FACTS["model"], "observation": {"type": "graph"}}}, "does not tell the observation of its model"),
        ({"model": {"settings": 3}}, "cannot be read (KeyError: 'algorithm')"),
        ({"model": [1]}, "cannot be read (AttributeError"),
    ],
)
def test_there_is_no_plan_where_nothing_is_known_or_the_closed_form_refuses(facts: Any, why: str) -> None:
    made = document(facts)
    assert made.plan is None
    assert why in made.no_plan if why else not made.no_plan
    shown = " ".join(text(made).split())
    assert ("no prediction: " in shown) == bool(why)
    assert "Predicted beside measured" not in shown


def test_facts_of_another_protocol_cost_the_prediction_and_the_verdict_says_so() -> None:
    header = {"target": "train.py", "rlmem": "9.1", "described": {**FACTS, "protocol": 7}}
    made = recorded(header)
    assert made.plan is None
    why = "no prediction: rlmem 9.1 recorded the model in protocol 7; this rlmem reads protocol 1"
    assert why in " ".join(text(made).split())


def test_a_recording_that_was_cut_short_has_both_in_its_header() -> None:
    rows = (row(1, "main"), row(2))
    made = recorded({"target": "train.py", "described": FACTS, "members": rows})
    assert made.ended is None
    assert made.plan is not None
    assert made.plan.target.spec["algorithm"] == "dqn"
    assert [member.pid for member in made.peak.members] == [1, 2]
    assert {"Predicted beside measured", "Processes at the peak"} <= {s.title for s in recorded_view(made).sections}


def test_recordings_and_documents_of_older_versions_still_read() -> None:
    end = {"returncode": 0, "exit_code": 0, "status": "ok", "wall_s": 7.0}
    end["peak"] = {"nbytes": 341 * MIB, "at_s": 6.0, "phase": "", "step": None, "seen": True}
    made = to_plain(recorded({"target": "x", "command": ["x"], "ended": end}))
    assert (made["plan"], made["versions"], made["peak"]["members"]) == (None, {}, [])
    del made["plan"], made["versions"], made["peak"]["members"]
    titles = {section.title for section in recorded_view(reread(made)).sections}
    assert not titles & {"Predicted beside measured", "Processes at the peak"}


@pytest.mark.parametrize("plan", ["none", {}, {"peaks": []}])
def test_a_document_with_a_broken_plan_is_refused(plan: Any) -> None:
    with pytest.raises(UsageError, match="plan"):
        reread({**to_plain(document()), "plan": plan})


def test_a_document_with_a_broken_member_is_refused() -> None:
    made = to_plain(document(rows=[row(1)]))
    made["peak"]["members"][0]["pid"] = "one"
    with pytest.raises(UsageError, match=r"peak\.members\[0\]\.pid"):
        reread(made)


def test_prediction_and_truth_are_in_one_table_and_buffers_below() -> None:
    made = document()
    (section,) = [each for each in recorded_view(made).sections if each.title == "Predicted beside measured"]
    peaks, buffers = section.tables
    assert made.plan is not None
    top = next(peak for peak in made.plan.peaks if peak.is_peak)
    (device, *_, measured, difference), reached = peaks.rows
    assert (device, measured) == ("RAM", "341 MiB")
    assert difference == f"{top.expected_bytes / (341 * MIB) - 1:+.1%}"
    assert reached[0].startswith("RAM by step")
    assert buffers.rows == (("replay_buffer", "305 KiB", "4.96 MiB", "9.92 MiB"),)
    assert section.lines == ("The measured peak of RAM is within the range that was predicted for as far as it came.",)


def test_buffers_whose_owners_are_not_known_are_unknown() -> None:
    (section,) = [s for s in recorded_view(document(holdings=None)).sections if s.title == "Predicted beside measured"]
    assert section.tables[1].rows == (("replay_buffer", "305 KiB", "unknown", "unknown"),)


def test_vram_has_a_row_where_the_model_is_on_a_gpu() -> None:
    facts = {**FACTS, "model": {**FACTS["model"], "learner_device": "cuda:0"}}
    (section,) = [
        s for s in recorded_view(document(facts, vram_bytes=600 * MIB)).sections if "Predicted" in s.title
    ]  # fmt: skip
    rows = {line[0]: line for line in section.tables[0].rows}
    assert rows["VRAM"][4] == "600 MiB"
    (section,) = [s for s in recorded_view(document(facts)).sections if "Predicted" in s.title]
    assert {line[0]: line[4:] for line in section.tables[0].rows}["VRAM"] == ("", "")  # nobody could read it


@pytest.mark.parametrize(
    ("step", "status", "told"),
    [(5800, "ok", False), (3000, "ok", False), (3000, "oom", True), (5800, "oom", False), (60_000, "ok", True)],
)
def test_a_run_that_did_not_do_the_steps_of_its_plan_is_said_so(step: int, status: str, told: bool) -> None:
    out = text(document(step=step, status=status))
    assert (f"Predicted for 6,000 steps; it was last seen at step {step:,}." in out) == told


def test_the_processes_are_listed_when_there_are_several() -> None:
    assert "Processes at the peak" not in text(document(rows=[row(1, "main")]))
    out = text(document(rows=[row(11, "main", mib=300), row(12, command="python " + "x" * 100)], processes=70))
    assert "Processes at the peak" in out
    assert "150 MiB" in out
    assert "xxx…" in out
    assert "68 smaller ones are not listed." in out


@pytest.mark.parametrize(
    ("rows", "method"),
    [
        ([], None),
        ([row(1, "main"), row(2)], "fork"),
        ([row(1, "main"), row(2, command="python -c from multiprocessing.spawn import …")], "spawn"),
        ([row(1, "main"), row(2, "forkserver"), row(3)], "forkserver"),
    ],
)
def test_how_workers_were_started_is_read_from_the_processes(rows: list[dict[str, Any]], method: str | None) -> None:
    facts = {**FACTS, "model": {**FACTS["model"], "env": ["VecMonitor", "SubprocVecEnv"]}}
    plan = to_plain(document(facts, rows))["plan"]
    assert plan["target"]["origins"].get("env.start_method") == (method and "the processes that were seen")
    if method:
        assert plan["target"]["spec"]["env"]["start_method"] == method
    assert (
        "env.start_method" not in to_plain(document(FACTS, rows))["plan"]["target"]["origins"]
    )  # no workers of its own


def test_the_curve_of_a_prediction_has_the_steps_that_were_seen() -> None:
    (early,), (late,) = (prediction_curve(document(step=step)) for step in (100, 5800))
    assert early.at_s == late.at_s == 5.0
    assert late.expected_bytes - early.expected_bytes == pytest.approx(5700 / 200_000 * REPLAY_BYTES, abs=100)
    assert early.low_bytes <= early.expected_bytes <= early.high_bytes
    assert prediction_curve(document(facts=None)) == ()
