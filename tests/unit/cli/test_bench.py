"""``rlmem bench`` without torch: a stand-in interpreter's answers, errors, the table and what is kept."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from rlmem.cli import run
from rlmem.cli.bench_progress import left_text
from rlmem.process.sampler import TreePeak
from rlmem.programs import bench as benches
from rlmem.programs import launch as launching
from rlmem.programs.launch import Answer
from rlmem.runner.child import Outcome
from rlmem.runner.store import open_store
from rlmem.units import GIB, MIB

ENOUGH = ("--ram", "24GB", "--cap", "8GB")


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[Mapping[str, Any]]:
    """The cases that programs were given; each answers like a short training."""
    cases: list[Mapping[str, Any]] = []

    def pretend(program: Path, body: Mapping[str, Any], python: str, **limits: Any) -> Answer:
        cases.append(body)
        if body["model_kwargs"].get("batch_size") == 512:
            outcome = Outcome(status="oom", returncode=-9, wall_s=2.0, peak=TreePeak(pss_bytes=8 * GIB))
            return Answer(outcome=outcome, status={"phase": "update"})
        if body["seed"] == 13:
            raise KeyboardInterrupt
        answer = {
            "steps": 600,
            "steps_per_s": 100.0 / len(cases),
            "mean_reward": 10.0 * len(cases) if body["env"] else 50.0,
            "episodes": 7,
            "reward_per_step": 0.5,
            "image": "rendered" if body["env"] else "noise",
            "env_bytes": 40 * MIB,
            "phases": {"update": {"tree": 900 * MIB}},
            "versions": {"stable_baselines3": "2.9.2"},
        }
        outcome = Outcome(status="ok", returncode=0, wall_s=6.0, peak=TreePeak(pss_bytes=800 * MIB))
        return Answer(outcome=outcome, body=answer)

    monkeypatch.setattr(benches, "launch", pretend)
    monkeypatch.setattr(launching, "missing_packages", lambda python, packages: ())
    return cases


def test_each_profile_is_a_row_with_speed_reward_memory_and_verdict(
    asked: list[Mapping[str, Any]], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["bench", "pidog-sac", "--timesteps", "600", "--profiles", "fast,balanced,quality", *ENOUGH]) == 0
    out = capsys.readouterr()
    assert "fastest: fast (100.0 steps/s); highest mean reward: quality (30.0)" in out.out
    assert "944 MB" in out.out
    assert "images are rendered by the environment" in out.out
    assert "[1/3] fast: 100.0 steps/s, peak 944 MB" in out.err
    assert [case["model_kwargs"]["buffer_size"] for case in asked] == [300_000, 400_000, 500_000]
    assert {case["env"] for case in asked} == {"Ant-v5"}
    assert asked[0]["training"] == {"train_freq": 2}


@pytest.mark.parametrize("more", [[], ["--set", "total_timesteps=300"]], ids=["endless", "a short run"])
def test_the_prediction_is_for_a_buffer_as_full_as_it_got_and_the_verdict_for_a_full_one(
    more: list[str], asked: list[Mapping[str, Any]], capsys: pytest.CaptureFixture[str]
) -> None:
    profile = ["--profiles", "quality", "--ram", "16GB", "--json"]
    assert run(["bench", "pidog-sac", "--timesteps", "600", *profile, *more]) == 0
    (row,) = json.loads(capsys.readouterr().out)["profiles"]
    assert row["predicted"]["expected"] < GIB
    assert row["predicted_full"]["expected"] > 19 * GIB
    assert row["verdict"] == "does-not-fit"


def test_a_profile_that_runs_out_of_memory_is_a_row_and_the_exit_code_says_so(
    asked: list[Mapping[str, Any]], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["bench", "pidog-sac", "--timesteps", "600", "--profiles", "aggressive,fast", *ENOUGH]) == 1
    out = capsys.readouterr().out
    assert "oom" in out
    assert "100.0" not in out  # the second has half of the speed
    assert "50.0" in out


def test_without_an_environment_the_reward_says_so(
    asked: list[Mapping[str, Any]], capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["bench", "pidog-sac", "--timesteps", "1k", "--profiles", "fast", "--env", "random", *ENOUGH]
    assert run(command) == 0
    assert "random env" in capsys.readouterr().out
    assert asked[0]["env"] is None


def test_a_profile_file_of_ones_own_and_tables_for_others(
    asked: list[Mapping[str, Any]], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    mine, table = tmp_path / "mine.yaml", tmp_path / "rows.csv"
    mine.write_text("small: {buffer_size: 5k, learning_rate: 0.001}\n", encoding="utf-8")
    saved = tmp_path / "bench.json"
    command = ["bench", "pidog-sac", "--timesteps", "600", "--profiles", str(mine), *ENOUGH]
    assert run([*command, "--csv", str(table), "-o", str(saved)]) == 0
    head, row = table.read_text(encoding="utf-8").splitlines()
    cells = dict(zip(head.split(","), row.split(","), strict=True))
    assert cells["set.buffer_size"] == "5k"
    (profile,) = json.loads(saved.read_text(encoding="utf-8"))["profiles"]
    for name in ("predicted", "predicted_full"):
        assert cells[f"{name}_expected_bytes"] == str(profile[name]["expected"])
    assert cells["predicted_expected_bytes"] != cells["predicted_full_expected_bytes"]
    assert asked[0]["model_kwargs"]["buffer_size"] == 5000
    assert run(["show", str(saved)]) == 0
    assert "small: buffer_size 5k, learning_rate 0.001" in capsys.readouterr().out


def test_a_benchmark_is_kept_and_can_be_shown_again(
    asked: list[Mapping[str, Any]], capsys: pytest.CaptureFixture[str]
) -> None:
    run(["bench", "pidog-sac", "--timesteps", "600", "--profiles", "fast", *ENOUGH])
    first = capsys.readouterr().out
    with open_store() as store:
        (kept,) = store.runs(kind="bench")
        assert [point.values for point in store.points(kept.id)] == [{"profile": "fast"}]
    assert kept.status == "ok"
    assert run(["show", kept.id]) == 0
    assert capsys.readouterr().out == first


def test_after_ctrl_c_nothing_half_done_is_kept(
    asked: list[Mapping[str, Any]], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["bench", "pidog-sac", "--timesteps", "600", "--seed", "13", *ENOUGH]) == 130
    assert "no profile was finished" in capsys.readouterr().err
    with open_store() as store:
        assert store.runs() == ()


def test_after_ctrl_c_finished_profiles_are_shown_and_kept(
    asked: list[Mapping[str, Any]], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    usual = benches.launch

    def interrupted(*given: Any, **limits: Any) -> Answer:
        if len(asked) == 2:
            raise KeyboardInterrupt
        return usual(*given, **limits)

    monkeypatch.setattr(benches, "launch", interrupted)
    assert run(["bench", "pidog-sac", "--timesteps", "600", "--profiles", "fast,balanced,quality", *ENOUGH]) == 130
    out = capsys.readouterr()
    assert "balanced" in out.out
    assert "2 of 3 profiles are kept in run" in out.err
    with open_store() as store:
        (kept,) = store.runs(kind="bench")
        assert (kept.status, len(kept.document["profiles"])) == ("interrupted", 2)


def test_a_benchmark_told_to_end_keeps_finished_profiles(
    asked: list[Mapping[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    usual = benches.launch

    def ended(*given: Any, **limits: Any) -> Answer:
        if asked:
            raise SystemExit(143)  # what SIGTERM becomes
        return usual(*given, **limits)

    monkeypatch.setattr(benches, "launch", ended)
    run(["bench", "pidog-sac", "--timesteps", "600", "--profiles", "fast,balanced", *ENOUGH])
    with open_store() as store:
        (kept,) = store.runs(kind="bench")
        assert (kept.status, len(kept.document["profiles"])) == ("interrupted", 1)


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (("drone-swarm", "--timesteps", "600"), "trains with Stable-Baselines3"),
        (("pidog-sac", "--timesteps", "0"), "at least one step"),
        (("pidog-sac", "--timesteps", "many"), "not a whole number"),
        (("pidog-sac", "--timesteps", "600", "--profiles", "fats"), "did you mean 'fast'"),
        (("pidog-sac", "--timesteps", "600", "--profiles", "no.yaml"), "no such file"),
        (("pyboy-ppo", "--timesteps", "600"), "profile memory-efficient sets buffer_size, which ppo does not have"),
        (("pidog-sac", "--timesteps", "600", "--python", "/no/python"), "no such interpreter"),
        (("pidog-sac", "--timesteps", "600", "--set", "vec_env=subproc"), "in one process"),
        (("nothing", "--timesteps", "600"), "unknown preset"),
        (("pidog-sac", "--timesteps", "600", "x"), "script arguments are for targets that are run"),
    ],
)
def test_a_wrong_request_is_one_line_and_exit_code_2(
    words: tuple[str, ...], problem: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["bench", *words]) == 2
    err = capsys.readouterr().err
    assert problem in err
    assert err.count("\n") == 1


@pytest.mark.parametrize(("seconds", "text"), [(40, "40 s"), (720, "12 min"), (12_000, "3 h 20 min")])
def test_time_left_reads_like_people_say_it(seconds: float, text: str) -> None:
    assert left_text(seconds) == text
