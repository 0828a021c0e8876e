"""RLlib in closed form: default networks as RLlib builds them, processes by role, copies where they are."""

from __future__ import annotations

from typing import Any

import pytest

from rlmem.core.ledger import Ledger
from rlmem.core.spec import RunSpec
from rlmem.errors import SpecError, UsageError
from rlmem.frameworks import find_adapter, predict, resolve
from rlmem.frameworks.rllib.counts import counts
from rlmem.model.constants import Constants
from rlmem.programs.cases import make_case

CARTPOLE = ({"type": "box", "shape": [4], "dtype": "float32"}, {"type": "discrete", "n": 2})
CHEETAH = ({"type": "box", "shape": [17], "dtype": "float64"}, {"type": "box", "shape": [6], "dtype": "float32"})
ATARI = ({"type": "box", "shape": [84, 84, 4], "dtype": "float32"}, {"type": "discrete", "n": 6})
SMALL_ATARI = ({"type": "box", "shape": [64, 64, 4], "dtype": "float32"}, {"type": "discrete", "n": 6})


def run(algorithm: str, spaces: tuple[dict[str, Any], dict[str, Any]] = CARTPOLE, **changes: Any) -> RunSpec:
    values = {"framework.name": "rllib", "algorithm": algorithm, "observation": spaces[0], "action": spaces[1]}
    return resolve(RunSpec().having({**values, **{k.replace("__", "."): v for k, v in changes.items()}}, "test"))


def ledger(spec: RunSpec) -> Ledger:
    return predict(spec, Constants())


def held(found: Ledger, process: str, phase: str = "update", component: str | None = None) -> int:
    return found.only(process=process, phase=phase, component=component).nbytes


@pytest.mark.parametrize(
    ("algorithm", "spaces", "learner", "runner", "targets"),
    [
        # Counted on RLModules that Ray 2.60.0 built.
        ("ppo", CARTPOLE, 134_915, 67_586, 0),
        ("ppo", CHEETAH, 144_141, 73_484, 0),
        ("ppo", ATARI, 2_224_487, 1_189_686, 0),
        ("ppo", SMALL_ATARI, 360_935, 185_590, 0),
        ("impala", CARTPOLE, 67_843, 67_586, 0),
        ("impala", ATARI, 1_220_663, 1_189_686, 0),
        ("appo", CARTPOLE, 134_915, 67_586, 134_658),
        ("dqn", CARTPOLE, 67_843, 67_843, 67_843),
        ("dqn", SMALL_ATARI, 187_639, 187_639, 187_639),
        ("sac", CHEETAH, 1_400_078, 73_484, 1_326_594),
        ("sac", ATARI, 3_569_058, 1_189_686, 2_379_372),
    ],
)
def test_default_networks_have_the_parameters_that_rllib_builds(
    algorithm: str, spaces: Any, learner: int, runner: int, targets: int
) -> None:
    spec = run(algorithm, spaces)

    assert spec.count("rllib.parameters") == learner
    assert spec.count("rllib.runner_parameters") == runner
    assert spec.count("rllib.target_parameters") == targets


def test_a_dense_graph_keeps_one_value_a_unit_and_sample() -> None:
    spec = run("ppo")

    assert spec.count("rllib.value_bytes") - 16 == 2048  # 2 × 256 floats; the input is there anyway
    assert spec.count("rllib.saved_bytes") - 2 * 16 == 4096


def test_every_actor_is_counted() -> None:
    spec = run("impala", rllib__num_env_runners=5, rllib__num_learners=2, rllib__num_aggregators=2)

    assert counts(spec) == {"driver": 1, "env-runner": 5, "learner": 2, "aggregator": 2, "state-server": 1}
    one, five = (held(ledger(run("impala", rllib__num_env_runners=n)), "env-runner") for n in (1, 5))
    assert five == 5 * one


def test_without_actors_the_driver_collects_and_learns() -> None:
    found = ledger(run("ppo", rllib__num_env_runners=0))

    assert set(found.processes) == {"driver", "ray", "object-store"}
    assert held(found, "driver", component="learner.optimizer") == 8 * 134_915
    assert held(found, "ray", component="runtime.idle-workers") > 0


def test_a_learner_actor_takes_the_update_out_of_the_driver_and_doubles_the_store() -> None:
    here, there = (ledger(run("ppo", rllib__train_batch=8000, rllib__num_learners=n)) for n in (0, 1))

    assert held(here, "driver", component="learner.columns") == held(there, "learner", component="learner.columns")
    assert held(there, "driver", component="learner") == 0
    assert held(there, "object-store", component="store.episodes") == 2 * held(
        here, "object-store", component="store.episodes"
    )


def test_the_value_pass_of_ppo_keeps_a_graph_of_the_whole_train_batch() -> None:
    spec = run("ppo", SMALL_ATARI, rllib__train_batch=4000, batch_size=64)
    by_value_pass = spec.count("rllib.value_bytes") * 4000

    grown = ledger(spec.having({"rllib.train_batch": 8000}, "test"))
    update = max(peak.expected_bytes for peak in grown.peaks() if peak.phase == "update")
    less = max(peak.expected_bytes for peak in ledger(spec).peaks() if peak.phase == "update")
    assert update - less > by_value_pass


def test_an_env_runner_keeps_the_chunks_of_an_episode_that_is_not_over() -> None:
    step, long = (
        held(
            ledger(run("dqn", CHEETAH, rllib__num_env_runners=1, rllib__fragment=n, episode_length=1000)),
            "env-runner",
            "collect",
            "rollout.ongoing",
        )
        for n in (1, 100)
    )

    assert step > 5 * long  # four observations and 2 KB a step, where one would do


def test_a_replay_buffer_holds_each_observation_once_and_trees_for_the_next_power_of_two() -> None:
    spec = run("dqn", SMALL_ATARI, buffer_size=50_000, episode_length=1000)
    found = ledger(spec)

    assert 50_000 * 65_536 < held(found, "driver", component="replay.steps") < 1.01 * 50_000 * 65_536
    assert held(found, "driver", component="replay.trees") == 151 * 65_536
    assert held(found, "driver", "build", "replay.steps") == 0  # reserved until it fills


def test_requests_in_flight_fill_the_store_and_not_the_runners() -> None:
    one, four = (ledger(run("impala", CHEETAH, rllib__in_flight=n, rllib__fragment=500)) for n in (1, 4))

    assert held(one, "env-runner") == held(four, "env-runner")
    assert held(four, "object-store") > held(one, "object-store")


def test_appo_keeps_batches_to_use_again() -> None:
    impala, appo = (ledger(run(name, CHEETAH, rllib__train_batch=5000)) for name in ("impala", "appo"))

    assert held(appo, "learner", component="learner.columns") > 2 * held(impala, "learner", component="learner.columns")


def test_a_gpu_learner_moves_tensors_to_vram_and_leaves_episodes() -> None:
    found = ledger(run("ppo", SMALL_ATARI, device="cuda", rllib__num_learners=1, rllib__train_batch=2000))

    assert found.only(device="vram", process="learner", component="learner.columns", phase="update").nbytes > 0
    assert found.only(device="ram", process="learner", component="learner.episodes", phase="update").nbytes > 0
    assert not found.only(device="vram", process="driver").entries


def test_evaluation_has_actors_of_its_own() -> None:
    found = ledger(run("ppo", rllib__eval_env_runners=3))

    assert held(found, "eval-env-runner") > 0
    assert "evaluate" in found.phases


def test_an_evaluation_holds_all_its_episodes_at_once() -> None:
    sizes = {"rllib__eval_env_runners": 2, "episode_length": 1000}
    two, ten = (
        held(ledger(run("ppo", ATARI, rllib__eval_duration=n, **sizes)), "eval-env-runner", "collect") for n in (2, 10)
    )
    whole = held(
        ledger(run("ppo", ATARI, rllib__eval_duration=100, rllib__eval_unit="timesteps", **sizes)), "eval-env-runner"
    )

    # Five episodes each instead of one, of 1,000 steps of 84 × 84 × 4 floats.
    assert ten - two == pytest.approx(2 * 4 * 1000 * 112_896, rel=0.02)
    assert whole < two


def test_environments_that_evaluate_side_by_side_all_begin_an_episode() -> None:
    one, eight = (
        held(
            ledger(run("ppo", ATARI, rllib__eval_env_runners=1, rllib__eval_envs=n, rllib__eval_duration=1)),
            "eval-env-runner",
        )
        for n in (1, 8)
    )

    assert eight > one + 6 * 500 * 112_896


def test_an_evaluation_that_never_comes_holds_no_episode() -> None:
    found = ledger(run("ppo", ATARI, rllib__eval_env_runners=1, rllib__eval_duration=0))

    assert held(found, "eval-env-runner", component="rollout.episodes") == 0
    assert held(found, "eval-env-runner") > 0
    assert "evaluate" not in found.phases


def test_without_evaluating_actors_the_driver_has_environments_and_episodes_of_its_own() -> None:
    found = ledger(run("ppo", ATARI, rllib__eval_in_driver=True, rllib__eval_duration=4))

    assert held(found, "driver", "evaluate", "rollout.episodes") > 4 * 500 * 112_896
    assert held(found, "driver", "update", "rollout.episodes") == 0
    assert held(found, "driver", component="workers.simulator") > 0


def test_whole_episodes_make_a_batch_as_large_as_a_round_of_all_environments() -> None:
    sizes = {"rllib__num_env_runners": 8, "n_envs": 16, "episode_length": 200, "rllib__train_batch": 4000}
    cut, whole = (ledger(run("ppo", CHEETAH, rllib__complete_episodes=flag, **sizes)) for flag in (False, True))

    one = held(cut, "driver", component="learner.columns") // 4000
    assert held(whole, "driver", component="learner.columns") == 25_600 * one
    cut_store, whole_store = (held(each, "object-store", component="store.episodes") for each in (cut, whole))
    assert whole_store == pytest.approx(25_600 / 4000 * cut_store, rel=0.01)


def test_a_recurrent_module_keeps_its_state_by_step_and_fills_up_its_sequences() -> None:
    plain = run("ppo", rllib__train_batch=4000)
    recurrent = plain.having({"rllib.beside_bytes": 2080, "rllib.sequence": 20, "episode_length": 100}, "test")

    assert (
        held(ledger(recurrent), "env-runner", "collect", "rollout.episodes")
        > held(ledger(plain), "env-runner", "collect", "rollout.episodes") + 4000 * 2000
    )
    assert (
        held(ledger(recurrent), "driver", component="learner.columns")
        == 110 * held(ledger(plain), "driver", component="learner.columns") // 100
    )


def test_a_batch_has_observations_as_the_module_sees_them_and_episodes_as_connectors_leave_them() -> None:
    plain = run("ppo", rllib__train_batch=4000)
    wide = ledger(plain.having({"rllib.seen_bytes": 2000}, "test"))
    written = ledger(plain.having({"rllib.observation_bytes": 2000}, "test"))
    seen, episodes = "learner.columns", "learner.episodes"

    assert held(wide, "driver", component=seen) - held(ledger(plain), "driver", component=seen) == 4000 * (2000 - 16)
    assert held(wide, "driver", component=episodes) == held(ledger(plain), "driver", component=episodes)
    assert held(written, "driver", component=episodes) > 4000 * 2000


def test_env_runners_with_a_part_of_a_gpu_have_a_context_on_it_each() -> None:
    spec = run("ppo", rllib__num_env_runners=3, rllib__runner_gpus=0.1)
    found = ledger(spec)

    assert found.only(device="vram", process="env-runner", phase="update").nbytes > 3 * 500_000_000
    assert found.only(process="env-runner", component="runner.parameters", device="ram").nbytes == 0
    assert not found.only(device="vram", process="driver").entries  # the local one is on the CPU


def test_environments_may_have_processes_of_their_own() -> None:
    inside, outside = (ledger(run("ppo", n_envs=4, vec_env=kind)) for kind in ("dummy", "subproc"))

    assert held(outside, "env-runner") - held(inside, "env-runner") == 2 * 4 * 23_000_000


def test_a_network_that_could_not_be_tried_is_assumed_and_said() -> None:
    network = {"rllib__parameters": 1000, "rllib__runner_parameters": 900, "rllib__target_parameters": 0}
    spec = run("ppo", ({"type": "box", "shape": [50, 50, 3], "dtype": "float32"}, CARTPOLE[1]), **network)

    assert spec.count("rllib.saved_bytes") == spec.count("rllib.value_bytes") == 8 * 4 * 7500
    assert spec.origin("rllib.saved_bytes").startswith("not known")
    told = spec.having({"rllib.untried": ("a forward pass of the module failed: ümlaut",)}, "test")
    assert any("ümlaut" in note for note in find_adapter(told).notes(told))


def test_several_agents_are_refused_in_a_sentence() -> None:
    with pytest.raises(SpecError, match="multi-agent"):
        run("ppo", agents=4)


def test_an_image_without_default_filters_is_refused_in_a_sentence() -> None:
    with pytest.raises(SpecError, match="no default filters"):
        run("ppo", ({"type": "box", "shape": [50, 50, 3], "dtype": "uint8"}, CARTPOLE[1]))


def test_a_description_is_planned_and_not_run() -> None:
    with pytest.raises(UsageError, match=r"rlmem measure rllib:FILE\.py:NAME"):
        make_case(run("ppo"))
