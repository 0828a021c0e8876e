"""Descriptions as cases of the programs that run them."""

from __future__ import annotations

from typing import Any

import pytest

from rlmem.core.spec import RunSpec
from rlmem.errors import UsageError
from rlmem.programs.cases import elegantrl_case, make_case, sb3_case, swarm_case
from rlmem.sources import load
from rlmem.sources.preset import PRESETS

VECTOR = {"type": "box", "shape": [27], "dtype": "float32"}


def run(**fields: Any) -> RunSpec:
    plain = {"framework.name": "sb3", "algorithm": "ppo", "observation": VECTOR, "action": {"type": "discrete", "n": 4}}
    return RunSpec().having(plain | {name.replace("__", "."): value for name, value in fields.items()}, "test")


@pytest.mark.parametrize("preset", PRESETS)
def test_every_preset_has_a_program(preset: str) -> None:
    case = make_case(load(preset))
    assert case.path.is_file()
    assert "torch" in case.packages


@pytest.mark.parametrize(
    ("preset", "path", "key"),
    [
        ("drone-swarm", "agents", "agents"),
        ("drone-swarm", "n_steps", "steps"),
        ("drone-swarm", "history", "history"),
        ("drone-swarm", "batch_size", "batch"),
        ("crypto-ppo", "n_steps", "horizon_len"),
        ("crypto-ppo", "n_envs", "num_envs"),
        ("crypto-ppo", "batch_size", "batch_size"),
        ("pyboy-ppo", "frame_stack", "frame_stack"),
        ("pyboy-ppo", "n_envs", "n_envs"),
        ("pidog-sac", "threads", "threads"),
    ],
)
def test_what_may_be_varied_reaches_the_program(preset: str, path: str, key: str) -> None:
    assert make_case(load(preset, (f"{path}=60",))).body[key] == 60


@pytest.mark.parametrize("path", ["buffer_size", "batch_size", "gradient_steps"])
def test_sizes_of_a_model_are_arguments_of_its_constructor(path: str) -> None:
    assert sb3_case(load("pidog-sac", (f"{path}=64",)))["model_kwargs"][path] == 64


def test_a_swarm_carries_its_layers_with_their_shapes_and_a_mirrored_decoder() -> None:
    modules = swarm_case(load("drone-swarm", ("history=100",)))["modules"]
    assert modules["encoder"][0] == {"kind": "conv1d", "in": [6, 100], "out": [16, 50], "k": 5, "s": 2, "p": 2, "o": 0}
    assert modules["decoder"][-1]["out"] == [6, 100]


def test_a_full_batch_is_no_minibatch() -> None:
    assert swarm_case(load("drone-swarm"))["batch"] is None


def test_the_redundant_history_is_part_of_the_swarms_first_version_only() -> None:
    assert swarm_case(load("drone-swarm-v0"))["imu_history"] is True
    assert swarm_case(load("drone-swarm"))["imu_history"] is False


def test_layers_of_ones_own_become_an_extractor() -> None:
    extractor = sb3_case(load("pidog-sac"))["extractor"]
    assert list(extractor["branches"]) == ["image", "vector"]
    assert extractor["fusion"][0] == {"kind": "linear", "in": [640], "out": [256], "k": 1, "s": 1, "p": 0, "o": 0}
    assert "extractor" not in sb3_case(run())


def test_a_window_is_the_box_it_looks_like_and_its_history_can_be_varied() -> None:
    spec = run(observation={"type": "window", "sample": 6, "extra": 4}, history=10)
    assert sb3_case(spec)["observation"] == {"type": "box", "shape": [64], "dtype": "float32"}


def test_frames_are_stacked_by_sb3_and_by_the_environment_of_a_loop() -> None:
    image = {"type": "box", "shape": [84, 84, 1], "dtype": "uint8"}
    assert sb3_case(run(observation=image, frame_stack=4))["observation"]["shape"] == [84, 84, 1]
    loop = make_case(run(framework__name="cleanrl", observation=image, frame_stack=4))
    assert loop.body["observation"]["shape"] == [84, 84, 4]


def test_epochs_are_left_out_and_that_is_said() -> None:
    case = make_case(run(n_epochs=20))
    assert case.body["model_kwargs"]["n_epochs"] == 1
    assert case.notes == ("one epoch an update (more need no more memory)",)


def test_networks_and_optimizers_have_sb3s_names() -> None:
    spec = run(network__activation="elu", optimizer="sgd-momentum", network__net_arch={"pi": [8], "vf": [16]})
    assert sb3_case(spec)["model_kwargs"]["policy_kwargs"] == {
        "net_arch": {"pi": [8], "vf": [16]},
        "activation_fn": "ELU",
        "optimizer_class": "SGD",
        "optimizer_kwargs": {"momentum": 0.9},
    }


def test_what_an_environment_holds_and_imports_is_part_of_the_case() -> None:
    case = make_case(load("pyboy-ppo")).body
    assert (case["env_bytes"], case["imports"]) == (2 << 20, ["pyboy"])
    assert case["eval"] == {"n_envs": 1, "vec_env": "dummy"}
    assert case["evaluate"] is False


def test_a_list_of_tuples_is_run_as_one() -> None:
    assert elegantrl_case(load("crypto-ppo"))["store"] == "list-of-tuples"


@pytest.mark.parametrize(
    ("target", "sets", "field"),
    [
        ("pidog-sac", ("precision=bfloat16",), "precision"),
        ("pidog-sac", ("replay.kind=prioritised",), "replay.kind"),
        ("crypto-ppo", ("algorithm=sac",), "algorithm"),
        ("drone-swarm", ("rollout.store=list-of-tuples",), "rollout.store"),
    ],
)
def test_what_can_be_planned_but_not_run_is_refused_in_one_line(target: str, sets: tuple[str, ...], field: str) -> None:
    with pytest.raises(UsageError, match=f"^{field}: .* can be planned, but not run"):
        make_case(load(target, sets))


def test_sb3_contrib_is_needed_where_it_is_used() -> None:
    assert "sb3_contrib" in make_case(run(algorithm="maskable_ppo")).packages
    assert "sb3_contrib" not in make_case(run()).packages


def test_a_swarm_that_keeps_its_stream_is_run_by_the_drones_own_code() -> None:
    case = make_case(load("drone-swarm", ("storage=stream", "agents=50")), updates=2)
    assert case.packages == ("torch", "rlmem")
    assert case.body["iterations"] == 2
    settings = case.body["settings"]
    assert (settings["agents"], settings["rung"], settings["minibatches"]) == (50, "gyro", 1)


def test_a_stream_of_other_shapes_is_planned_but_not_run() -> None:
    with pytest.raises(UsageError, match=r"history: .* only the drones' own can be run"):
        make_case(load("drone-swarm", ("storage=stream", "history=100")))
