"""Predictions against the real thing: SB3, sb3-contrib, ElegantRL and the swarm, each in a fresh process."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch", reason="the 'truth' extra is not installed; 'make test' installs it")

from rlmem.core.ledger import Ledger, Peak
from rlmem.core.spec import RunSpec
from rlmem.frameworks import resolve
from rlmem.frameworks.sb3.networks import networks
from rlmem.sources import load
from rlmem.units import MIB
from truth import PINNED, elegantrl_case, predicted, run_truth, sb3_case, swarm_case

pytestmark = pytest.mark.truth

ATARI = {"type": "box", "shape": [84, 84, 1], "dtype": "uint8"}
VECTOR = {"type": "box", "shape": [27], "dtype": "float32"}
FLOAT64 = {"type": "box", "shape": [348], "dtype": "float64"}
MIXED = {
    "type": "dict",
    "spaces": {
        "image": {"type": "box", "shape": [84, 84, 3], "dtype": "uint8"},
        "vector": {"type": "box", "shape": [31]},
    },
}
GOAL = {
    "type": "dict",
    "spaces": {
        "observation": {"type": "box", "shape": [10]},
        "achieved_goal": {"type": "box", "shape": [3]},
        "desired_goal": {"type": "box", "shape": [3]},
    },
}
CONTINUOUS, BUTTONS = {"type": "box", "shape": [8]}, {"type": "discrete", "n": 6}
#: A wide net over algorithms, spaces and sizes. The allocator, quantile, LSTM and CrossQ constants were set while looking at
#: runs like these; benchmarks/peaks.py has others that were not.
CASES: dict[str, dict[str, Any]] = {
    "ppo on a vector": {"algorithm": "ppo", "observation": VECTOR, "action": CONTINUOUS, "n_envs": 4, "n_steps": 512},
    "ppo on stacked frames": {"algorithm": "ppo", "observation": ATARI, "action": BUTTONS, "frame_stack": 4, "n_envs": 8,
                              "n_steps": 256, "batch_size": 1024, "n_epochs": 1},
    "a2c on multi-binary": {"algorithm": "a2c", "observation": {"type": "multibinary", "n": 64},
                            "action": {"type": "multidiscrete", "nvec": [3, 4]}, "n_envs": 4},
    "dqn on stacked frames": {"algorithm": "dqn", "observation": ATARI, "action": BUTTONS, "frame_stack": 4,
                              "buffer_size": 15_000, "batch_size": 32},
    "dqn sharing next observations": {"algorithm": "dqn", "observation": ATARI, "action": BUTTONS, "frame_stack": 4,
                                      "buffer_size": 15_000, "batch_size": 64, "optimize_memory_usage": True},
    "sac on a Dict": {"algorithm": "sac", "observation": MIXED, "action": CONTINUOUS, "n_envs": 4, "buffer_size": 15_000,
                      "batch_size": 64},
    "td3 on a Dict": {"algorithm": "td3", "observation": MIXED, "action": CONTINUOUS, "n_envs": 2, "buffer_size": 10_001,
                      "batch_size": 128},
    "sac on float64": {"algorithm": "sac", "observation": FLOAT64, "action": CONTINUOUS, "buffer_size": 100_000},
    "sac with hindsight": {"algorithm": "sac", "observation": GOAL, "action": CONTINUOUS, "buffer_size": 100_000,
                           "replay.kind": "her"},
    "tqc on a vector": {"algorithm": "tqc", "observation": VECTOR, "action": CONTINUOUS, "buffer_size": 50_000},
    "qrdqn on a vector": {"algorithm": "qrdqn", "observation": VECTOR, "action": BUTTONS, "buffer_size": 50_000},
    "recurrent ppo": {"algorithm": "recurrent_ppo", "observation": VECTOR, "action": CONTINUOUS, "n_envs": 4, "n_steps": 128,
                      "network.lstm_hidden": 128},
    "maskable ppo": {"algorithm": "maskable_ppo", "observation": VECTOR, "action": BUTTONS, "n_envs": 4, "n_steps": 512},
    "crossq on a vector": {"algorithm": "crossq", "observation": VECTOR, "action": CONTINUOUS, "buffer_size": 50_000},
}  # fmt: skip


def spec_of(case: dict[str, Any]) -> RunSpec:
    return RunSpec().having({"framework.name": "sb3", **case}, "test")


def peak(ledger: Ledger, phase: str) -> Peak:
    return next(p for p in ledger.peaks() if p.device == "ram" and p.phase == phase)


def stored(ledger: Ledger) -> dict[str, int]:
    """The store's arrays by name, as reserved or made at build."""
    entries = ledger.only(phase="build").entries
    return {e.component.split(".", 1)[1]: e.nbytes for e in entries if e.group in ("replay", "rollout")}


#: Told apart by ``make long``; one of each kind is left for every run of the tests.
LONG = (
    "maskable ppo",
    "ppo on stacked frames", "td3 on a Dict", "sac on float64", "tqc on a vector", "qrdqn on a vector", "recurrent ppo",
    "crossq on a vector", "sac with hindsight", "dqn sharing next observations", "a2c on multi-binary",
)  # fmt: skip


@pytest.mark.parametrize("name", [pytest.param(name, marks=[pytest.mark.long] * (name in LONG)) for name in CASES])
def test_sb3_arrays_and_parameters_are_exact_and_the_update_peaks_where_predicted(name: str) -> None:
    spec = spec_of(CASES[name])
    ledger, truth = predicted(spec), run_truth("sb3_run.py", sb3_case(spec))

    arrays = {key: size for key, size in truth["buffer"]["nbytes"].items() if not key.startswith("_")}
    ours = stored(ledger)
    if "infos" in arrays:  # numpy counts the pointers, the process pays for the dicts
        assert ours.pop("infos") > arrays.pop("infos")
    assert ours == arrays
    assert sum(network.parameters for network in networks(resolve(spec))) == truth["params"]["policy"]["count"]

    expected, measured = peak(ledger, "update"), truth["phases"]["update"]["hwm"]
    assert expected.expected_bytes == pytest.approx(measured, rel=0.12)
    assert expected.low_bytes * 0.98 <= measured <= expected.high_bytes * 1.02


@pytest.mark.long
def test_exact_arithmetic_is_within_three_percent_when_malloc_returns_what_is_freed() -> None:
    case = {**CASES["ppo on stacked frames"], "batch_size": 2048}
    ledger = predicted(spec_of(case))
    slack = ledger.only(phase="update", component="runtime.allocator").nbytes
    truth = run_truth("sb3_run.py", sb3_case(spec_of(case)), env=PINNED)
    assert peak(ledger, "update").expected_bytes - slack == pytest.approx(truth["phases"]["update"]["hwm"], rel=0.03)


@pytest.mark.long
def test_loading_a_buffer_beside_a_live_one_adds_the_predicted_bytes_and_saving_adds_next_to_none() -> None:
    spec = spec_of({**CASES["sac on a Dict"], "resume.replay_buffer": "beside-live"})
    ledger = predicted(spec)
    truth = run_truth("sb3_run.py", {**sb3_case(spec), "checkpoint": True, "resume": True})
    phases = truth["phases"]
    added = phases["resume"]["hwm"] - phases["checkpoint"]["rss"]
    assert ledger.only(phase="resume", component="resume").nbytes == pytest.approx(added, rel=0.02)
    assert phases["checkpoint"]["hwm"] - phases["update"]["hwm"] < 8 * MIB


@pytest.mark.long
def test_worker_processes_add_what_is_predicted_in_proportional_size() -> None:
    spec = spec_of({**CASES["ppo on a vector"], "vec_env": "subproc"})
    truth = run_truth("sb3_run.py", sb3_case(spec))
    children = truth["phases"]["update"]["children"]
    private = sum(child["uss"] for child in children)
    workers = predicted(spec).only(phase="update", process="workers").nbytes
    assert workers == pytest.approx(private, rel=0.10)


@pytest.mark.long
def test_an_older_sb3_stores_float32_rollouts_as_predicted() -> None:
    old = next(Path(sys.prefix, "sb3-2.7.0").glob("lib/python*/site-packages"), None)
    if old is None:
        pytest.skip("no stable-baselines3 2.7.0 beside the environment; 'make test' installs it")
    spec = spec_of({**CASES["ppo on stacked frames"], "framework.version": "2.7.0"})
    truth = run_truth("sb3_run.py", {**sb3_case(spec), "sb3_path": str(old)})
    assert truth["versions"]["stable_baselines3"] == "2.7.0"
    assert stored(predicted(spec)) == truth["buffer"]["nbytes"]
    assert peak(predicted(spec), "update").expected_bytes == pytest.approx(truth["phases"]["update"]["hwm"], rel=0.12)


@pytest.mark.long
@pytest.mark.parametrize(
    "sets",
    [
        pytest.param((), id="as assessed"),
        pytest.param(("history=100",), id="short history"),
        pytest.param(("rollout.keeps_graph=false",), id="no_grad"),
        pytest.param(("batch_size=2048",), id="minibatches"),
    ],
)
def test_a_drone_costs_what_is_predicted(sets: tuple[str, ...]) -> None:
    ours, theirs = [], []
    for agents in (40, 120):
        spec = load("drone-swarm", (f"agents={agents}", *sets))
        ledger = predicted(spec)
        slack = ledger.only(phase="update", component="runtime.allocator").nbytes
        ours.append(peak(ledger, "update").expected_bytes - slack)
        theirs.append(run_truth("swarm_run.py", swarm_case(spec), env=PINNED)["phases"]["update"]["hwm"])
    assert ours[1] - ours[0] == pytest.approx(theirs[1] - theirs[0], rel=0.03)
    assert ours[1] == pytest.approx(theirs[1], rel=0.04)


def test_elegantrl_has_no_target_networks_and_peaks_where_predicted() -> None:
    pytest.importorskip("elegantrl")
    spec = load("crypto-ppo", ("rollout.store=array",)).having({"env.imports": None, "threads": None}, "test")
    truth = run_truth("elegantrl_run.py", elegantrl_case(spec))
    assert truth["act_target_is_act"] is True
    update = peak(predicted(spec), "update")
    assert update.low_bytes * 0.98 <= truth["phases"]["update"]["hwm"] <= update.high_bytes * 1.02
