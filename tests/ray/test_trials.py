"""Tune's trials, for real: sized by their plan, never started when they cannot fit, measured when they run."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import ray
from ray import tune
from ray.air.execution._internal.actor_manager import RayActorManager
from ray.tune.execution.tune_controller import TuneController
from ray.tune.search.optuna import OptunaSearch

from rlmem.errors import UsageError
from rlmem.model.constants import Constants
from rlmem.ray import hooks, placement_group_for, trainable_with_memory, trial_outcome
from rlmem.ray.requests import merged
from rlmem.sources import load
from rlmem.trace import dryrun
from rlmem.trials import MEASURED, PREDICTED, PRUNED, REASON, REQUESTED

MB = 10**6
#: What a trial's process holds before it does anything, at least.
LEAST = 80 * MB


@pytest.fixture(scope="module", autouse=True)
def node(ray_folder: Path) -> Iterator[None]:
    """One node with two CPUs and 2 GB to give away."""
    os.environ["TUNE_DISABLE_AUTO_CALLBACK_LOGGERS"] = "1"
    ray.cloudpickle.register_pickle_by_value(sys.modules[__name__])  # workers cannot import a test
    ray.init(address="local", num_cpus=2, _memory=2000 * MB, **quiet(ray_folder))
    yield
    ray.shutdown()


def quiet(folder: Path) -> dict[str, Any]:
    return {
        "include_dashboard": False,
        "object_store_memory": 100 * 2**20,
        "_temp_dir": str(folder),
        "log_to_driver": False,
        "logging_level": "error",
    }


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """A busy machine needs more than a dry run's usual time; nothing else is decided by it."""
    monkeypatch.setattr(dryrun, "TIME_S", 240.0)


@pytest.fixture
def fit(tmp_path: Path) -> Callable[..., Any]:
    """Run an experiment to its end: a trainable, what is sampled, and Tune's settings."""

    def run(trainable: Any, space: Any, *, stop: Any = None, **settings: Any) -> Any:
        run_config = tune.RunConfig(storage_path=str(tmp_path / "results"), verbose=0, stop=stop)
        config = tune.TuneConfig(**settings)
        return tune.Tuner(trainable, param_space=space, tune_config=config, run_config=run_config).fit()

    return run


def allocate(config: dict[str, Any]) -> None:
    """Hold so many MB, say that it ran and what it was given, and end as it is told to."""
    Path(config["folder"], config["case"]).touch()
    block = bytearray(b"x") * (config["mb"] * MB)
    given = ray.get_runtime_context().get_assigned_resources()
    tune.report({"held": len(block), "memory": given["memory"], "score": config["mb"]})
    if config["case"] == "grows":
        more = bytearray(b"x") * (200 * MB)
        assert len(more) > len(block)
    elif config["case"] == "raises":
        raise RuntimeError("the user's own mistake")
    elif config["case"] == "dies":
        os._exit(3)


def need(config: dict[str, Any]) -> int:
    if config["case"] == "unknown":
        raise KeyError("no such environment")
    return (300 + config["mb"]) * MB


CASES = {"small": 10, "large": 200, "huge": 3000, "unknown": 20, "grows": 15, "raises": 25, "dies": 35}


def test_every_trial_gets_what_it_needs_and_what_cannot_fit_never_starts(
    fit: Any, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    cases = tune.grid_search(list(CASES))
    space = {"case": cases, "mb": tune.sample_from(lambda config: CASES[config["case"]]), "folder": str(tmp_path)}
    grid = fit(trainable_with_memory(allocate, need), space)

    results = {result.config["case"]: result for result in grid}
    assert {case: trial_outcome(result).kind for case, result in results.items()} == {
        "small": "finished",
        "large": "finished",
        "huge": "pruned",
        "unknown": "not-planned",
        "grows": "finished",
        "raises": "failed",
        "dies": "crashed",
    }
    # Never started: no process of theirs has left its file.
    assert {case for case in CASES if (tmp_path / case).exists()} == set(CASES) - {"huge", "unknown"}
    huge = results["huge"].metrics
    assert (huge[PREDICTED], huge[PRUNED]) == (3300 * MB, True)
    assert huge[REASON] == (
        "the trial does not fit these nodes: process needs 3.38 GiB of memory that Ray admits, "
        "the nearest node has 1.86 GiB (margin: 10 %)"
    )
    assert "pid" not in huge
    lines = [record.getMessage() for record in caplog.records if record.name == "rlmem"]
    assert any("case: 'huge'" in line and huge[REASON] in line for line in lines)
    unknown = results["unknown"]
    assert "need raised KeyError: 'no such environment'" in str(unknown.error)
    assert "case: 'unknown'" in trial_outcome(unknown).line

    for case in ("small", "large", "grows"):
        metrics, mb = results[case].metrics, CASES[case]
        assert metrics[PREDICTED] == (300 + mb) * MB
        assert metrics["memory"] == metrics[REQUESTED] == round((300 + mb) * MB * 1.1)
        assert metrics[MEASURED] > LEAST + metrics["held"]
        assert metrics[PRUNED] is False
    small, large, grows = (results[case].metrics[MEASURED] for case in ("small", "large", "grows"))
    assert large - small == pytest.approx(190 * MB, rel=0.15)
    assert grows - small == pytest.approx(205 * MB, rel=0.15)  # what came after the last report is told at the end
    assert results["grows"].metrics["score"] == 15
    assert "mistake" in trial_outcome(results["raises"]).line
    best = grid.get_best_result("score", "max")
    assert best.config["case"] == "large"  # and not the pruned one


def test_optuna_hears_that_a_trial_was_pruned(fit: Any, tmp_path: Path) -> None:
    points = [{"mb": 20}, {"mb": 5000}]
    searcher = OptunaSearch(metric="score", mode="max", points_to_evaluate=points)
    space = {"case": "optuna", "mb": tune.randint(1, 6000), "folder": str(tmp_path)}
    grid = fit(
        trainable_with_memory(allocate, need), space, search_alg=searcher, num_samples=2, max_concurrent_trials=1
    )
    assert [trial_outcome(result).kind for result in grid] == ["finished", "pruned"]
    assert [trial.state.name for trial in searcher._ot_study.trials] == ["COMPLETE", "PRUNED"]
    assert grid.num_errors == 0


def test_an_experiment_that_is_restored_plans_no_finished_trial_again(fit: Any, tmp_path: Path) -> None:
    notes = tmp_path / "asked"

    def counted(config: dict[str, Any]) -> int:
        with notes.open("a") as file:  # Tune has a copy of us
            print(config["mb"], file=file)
        return need(config)

    space = {"case": "restored", "mb": tune.grid_search([10, 20]), "folder": str(tmp_path)}
    wrapped = trainable_with_memory(allocate, counted)
    before = fit(wrapped, space)
    assert sorted(notes.read_text().split()) == ["10", "20"]
    again = tune.Tuner.restore(before.experiment_path, trainable=wrapped).fit()
    assert sorted(notes.read_text().split()) == ["10", "20"]
    assert [trial_outcome(result).kind for result in again] == ["finished", "finished"]
    assert {result.metrics[PREDICTED] for result in again} == {310 * MB, 320 * MB}


class Learner(tune.Trainable):
    """Two steps, 150 MB of its own and as much in an actor of its own."""

    def setup(self, config: dict[str, Any]) -> None:
        self.block = bytearray(b"x") * (150 * MB)
        self.actor = ray.remote(num_cpus=0.5)(Holder).remote(150 * MB)
        ray.get(self.actor.size.remote())

    def step(self) -> dict[str, Any]:
        return {"score": 1.0, "given": self.trial_resources.bundles, "done": self.iteration == 1}

    def save_checkpoint(self, checkpoint_dir: str) -> None:
        """Nothing to keep."""


class Holder:
    """An actor with a block of memory."""

    def __init__(self, nbytes: int) -> None:
        self.block = bytearray(b"x") * nbytes

    def size(self) -> int:
        return len(self.block)


def test_a_class_is_measured_with_its_actors_and_keeps_its_own_resources(fit: Any) -> None:
    bundles = tune.PlacementGroupFactory([{"CPU": 0.5}, {"CPU": 0.5}])
    wrapped = trainable_with_memory(tune.with_resources(Learner, bundles), lambda config: 900 * MB)
    assert wrapped.__name__ == "Learner"
    (result,) = fit(wrapped, {})
    assert trial_outcome(result).kind == "finished"
    assert result.metrics["training_iteration"] == 2
    assert result.metrics["given"] == [{"CPU": 0.5, "memory": 990.0 * MB}, {"CPU": 0.5}]
    assert result.metrics[MEASURED] > 2 * 150 * MB + LEAST
    assert result.metrics[PREDICTED] == 900 * MB


def test_without_a_plan_trials_are_only_measured(fit: Any, tmp_path: Path) -> None:
    def train(config: dict[str, Any], data: Any = None) -> dict[str, Any]:
        return {"score": len(bytearray(b"x") * (100 * MB)), "rows": len(data)}

    (result,) = fit(trainable_with_memory(tune.with_parameters(train, data=[1, 2]), plan=None), {})
    assert result.metrics["rows"] == 2
    assert result.metrics[MEASURED] > LEAST
    assert PREDICTED not in result.metrics


def learn(config: dict[str, Any], shape: tuple[int, ...] = (84, 84)) -> None:
    """SB3 as users have it: nobody says how much memory that takes."""
    import gymnasium as gym
    import numpy as np
    from stable_baselines3 import DQN

    class Frames(gym.Env):
        observation_space = gym.spaces.Box(0, 255, shape, np.uint8)
        action_space = gym.spaces.Discrete(2)

        def reset(self, **_: Any) -> Any:
            return np.ones(shape, np.uint8), {}

        def step(self, action: Any) -> Any:
            return np.ones(shape, np.uint8), 0.0, False, False, {}

    Path(config["folder"], str(config["rows"])).touch()
    rows = config["rows"]
    model = DQN("MlpPolicy", Frames(), buffer_size=rows, learning_starts=rows, batch_size=32, device="cpu")
    model.learn(rows + 8)
    tune.report({"updates": model._n_updates})


@pytest.mark.long
def test_a_trainable_is_planned_by_trying_it_with_the_sampled_configuration(fit: Any, tmp_path: Path) -> None:
    wrapped = trainable_with_memory(tune.with_parameters(learn, shape=(160, 160)))
    grid = fit(wrapped, {"rows": tune.grid_search([4_000, 1_000_000]), "folder": str(tmp_path)})
    small, large = grid
    assert [trial_outcome(result).kind for result in grid] == ["finished", "pruned"]
    assert small.metrics["updates"] > 0
    assert small.metrics[MEASURED] > 2 * 4_000 * 160 * 160 + LEAST
    assert small.metrics[MEASURED] == pytest.approx(small.metrics[PREDICTED], rel=0.1)
    assert small.metrics[REQUESTED] > small.metrics[MEASURED]
    assert large.metrics[PREDICTED] == pytest.approx(2 * 1_000_000 * 160 * 160, rel=0.1)
    assert large.metrics[REASON].startswith("the trial does not fit these nodes: trial needs")
    # Dry runs put files back, and a trial that fits nowhere never started.
    assert {file.name for file in tmp_path.iterdir()} == {"results", "4000"}


class Taught(tune.Trainable):
    """The same as a class."""

    def setup(self, config: dict[str, Any]) -> None:
        self.settings = config

    def step(self) -> dict[str, Any]:
        learn(self.settings)
        return {"done": True}


def test_a_class_is_tried_too(tmp_path: Path) -> None:
    request = trainable_with_memory(Taught).default_resource_request({"rows": 4_000, "folder": str(tmp_path)})
    assert request.metrics[PREDICTED] > 2 * 4_000 * 84 * 84 + LEAST
    assert not list(tmp_path.iterdir())


@pytest.mark.long
def test_an_algorithm_is_described_with_the_environment_that_is_registered() -> None:
    from ray.rllib.algorithms.ppo import PPO, PPOConfig

    def make(config: Any) -> Any:
        import gymnasium as gym

        return gym.make("CartPole-v1")

    tune.register_env("mine", make)
    config = PPOConfig().environment("mine").env_runners(num_env_runners=40)
    request = trainable_with_memory(PPO).default_resource_request(config.to_dict())
    assert request.refusal.startswith("the trial does not fit these nodes: ")


def test_what_is_wrapped_afterwards_would_not_be_sized() -> None:
    with pytest.raises(UsageError, match=r"write trainable_with_memory\(tune.with_resources\(trainable"):
        tune.with_resources(trainable_with_memory(allocate, need), {"cpu": 2})


class Unlucky(tune.Trainable):
    """Never gets as far as a step."""

    def setup(self, config: dict[str, Any]) -> None:
        raise ValueError("my set-up is wrong")


def test_an_error_of_ones_own_is_no_crash_and_its_line_is_the_error(fit: Any) -> None:
    (result,) = fit(trainable_with_memory(Unlucky, lambda config: 300 * MB), {})
    outcome = trial_outcome(result)
    assert (outcome.kind, outcome.line) == ("failed", "ValueError: my set-up is wrong")


def test_a_trial_of_which_a_dry_run_learns_nothing_asks_for_what_it_would_ask_for_anyway(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def train(config: dict[str, Any]) -> None:
        raise RuntimeError(f"an unlucky {config['number']}")

    theirs = tune.PlacementGroupFactory([{"CPU": 0.5}])
    wrapped = trainable_with_memory(tune.with_resources(train, theirs))
    assert wrapped.default_resource_request({"number": 13}) is theirs
    assert "a trial is measured, not sized and not pruned: no plan for {number: 13}" in caplog.text
    assert "RuntimeError: an unlucky 13" in caplog.text


def test_where_the_controller_cannot_be_met_the_users_code_does_not_run_either(
    fit: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wrapped = trainable_with_memory(allocate, need)
    monkeypatch.setattr(TuneController, "add_trial", TuneController.add_trial.__wrapped__)
    (result,) = fit(wrapped, {"case": "huge", "mb": 5000, "folder": str(tmp_path)})
    assert trial_outcome(result).kind == "pruned"
    assert result.metrics[PREDICTED] == 5300 * MB
    assert not (tmp_path / "huge").exists()


def test_where_the_controller_cannot_be_met_a_trial_without_a_plan_fails_as_such(
    fit: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wrapped = trainable_with_memory(allocate, need)
    monkeypatch.setattr(TuneController, "add_trial", TuneController.add_trial.__wrapped__)
    (result,) = fit(wrapped, {"case": "unknown", "mb": 20, "folder": str(tmp_path)})
    outcome = trial_outcome(result)
    assert (outcome.kind, result.error is not None) == ("not-planned", True)
    assert "need raised KeyError: 'no such environment'" in outcome.line
    assert not outcome.line.startswith("rlmem.")
    assert not (tmp_path / "unknown").exists()


def test_a_controller_of_another_kind_is_left_alone_and_told_once(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert hooks.join()  # now there is something to take away
    monkeypatch.delattr(TuneController, hooks._MARK)
    monkeypatch.delattr(TuneController, "add_trial")
    before = RayActorManager._actor_task_failed
    hooks._warn.cache_clear()
    assert (hooks.join(), hooks.join()) == (False, False)
    assert RayActorManager._actor_task_failed is before
    assert len([record for record in caplog.records if "cannot be extended in Ray" in record.message]) == 1


def test_a_search_in_which_nothing_fits_ends(fit: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hooks, "MOST_REFUSALS", 5)
    space = {"case": "huge", "mb": tune.randint(5000, 6000), "folder": str(tmp_path)}
    grid = fit(trainable_with_memory(allocate, need), space, num_samples=-1)
    assert [trial_outcome(result).kind for result in grid] == ["pruned"] * 5


def test_a_preset_is_planned_with_the_sampled_values_and_asks_for_its_upper_bound() -> None:
    wrapped = trainable_with_memory(allocate, "pidog-sac-vector", fields={"rows": "buffer_size"})
    small, large = (wrapped.default_resource_request({"rows": rows, "lr": 0.1}) for rows in (1000, 1_000_000))
    for request, rows in ((small, 1000), (large, 1_000_000)):
        spec = load("pidog-sac-vector").having({"buffer_size": rows}, "test")
        (bundle,) = placement_group_for(spec).bundles
        tune_itself = Constants().quantity("ray.trial").high * 1.1
        assert request.bundles == [{**bundle, "memory": pytest.approx(bundle["memory"] + tune_itself, abs=2)}]
        assert request.metrics[REQUESTED] == request.bundles[0]["memory"]
        assert request.metrics[PREDICTED] < request.metrics[REQUESTED]
    assert large.metrics[PREDICTED] > small.metrics[PREDICTED] + 200 * MB


def test_a_cluster_that_grows_is_given_in_words(caplog: pytest.LogCaptureFixture) -> None:
    config = {"case": "huge", "mb": 5000}
    here, there = (
        trainable_with_memory(allocate, need, nodes=nodes).default_resource_request(config)
        for nodes in (None, "2x16GB")
    )
    assert "of memory that Ray admits" in here.refusal
    assert (there.refusal, there.bundles[0]["memory"]) == (None, 5830 * MB)


def test_parameters_are_passed_inside() -> None:
    wrapped = trainable_with_memory(allocate, need)
    with pytest.raises(UsageError, match=r"write trainable_with_memory\(tune.with_parameters\(function"):
        wrapped.setup(object.__new__(wrapped), {}, data=[1, 2])


@pytest.mark.long
def test_an_algorithm_of_rllib_is_planned_by_role_and_measured_with_its_runners(fit: Any, tmp_path: Path) -> None:
    from ray.rllib.algorithms.ppo import PPOConfig

    file = tmp_path / "my_config.py"
    file.write_text(
        "from ray.rllib.algorithms.ppo import PPOConfig\n"
        "config = PPOConfig().environment('CartPole-v1').env_runners(num_env_runners=1)\n"
        "config.training(train_batch_size_per_learner=500, minibatch_size=100, num_epochs=1)\n",
        encoding="utf-8",
    )
    space = PPOConfig().environment("CartPole-v1").env_runners(num_env_runners=tune.grid_search([1, 40]))
    space.training(train_batch_size_per_learner=500, minibatch_size=100, num_epochs=1)
    grid = fit(trainable_with_memory("PPO", f"rllib:{file}:config"), space, stop={"training_iteration": 1})
    one, many = grid
    assert [trial_outcome(result).kind for result in grid] == ["finished", "pruned"]
    assert one.metrics[MEASURED] == pytest.approx(one.metrics[PREDICTED], rel=0.1)
    assert "env-runner find no place" in many.metrics[REASON]


@pytest.mark.parametrize(
    ("trainable", "options", "says"),
    [
        (17, {}, "is not a trainable"),
        (Holder, {}, "no tune.Trainable"),
        (allocate, {"plan": "pidog-sack"}, "did you mean 'pidog-sac'"),
        (allocate, {"plan": need, "margin": 10}, "a share from 0 to 1"),
        (allocate, {"plan": None, "nodes": "4x64GB"}, "nodes= goes with a plan"),
        (allocate, {"fields": {"envs": "n_envs"}}, "a dry run is given the configuration itself"),
        (allocate, {"plan": need, "interval_s": "x"}, "give seconds"),
    ],
)
def test_mistakes_are_told_when_the_trainable_is_wrapped(trainable: Any, options: dict[str, Any], says: str) -> None:
    with pytest.raises(UsageError, match=says):
        trainable_with_memory(trainable, **options)


def test_memory_is_added_to_what_a_trainable_asks_for() -> None:
    def bundles(*given: dict[str, float]) -> tune.PlacementGroupFactory:
        return tune.PlacementGroupFactory(list(given))

    one, two = [{"CPU": 1, "memory": 7}], [{"CPU": 1, "memory": 7}, {"CPU": 1, "memory": 3}]
    assert merged(bundles({"CPU": 4}), one) == [{"CPU": 4, "memory": 7}]
    assert merged(bundles({"CPU": 4, "memory": 9}), one) == [{"CPU": 4, "memory": 9}]
    assert merged(bundles({"CPU": 4}, {"CPU": 2}), two) == [{"CPU": 4, "memory": 7}, {"CPU": 2, "memory": 3}]
    assert merged(bundles({"CPU": 4}), two) == [{"CPU": 4, "memory": 10}]
    assert merged(bundles({}, {"CPU": 2}), one) == [{"memory": 7}, {"CPU": 2}]
    assert merged(bundles({}, {"CPU": 2}), two) == [{"memory": 7}, {"CPU": 2, "memory": 3}]  # no CPU for the head


def test_what_a_trainable_asks_for_itself_must_find_a_place_too() -> None:
    def asked(given: Any) -> Any:
        wrapped = trainable_with_memory(tune.with_resources(allocate, given), "pidog-sac-vector", nodes="3x16GB")
        return wrapped.default_resource_request({"buffer_size": 2_000_000})

    request = asked(tune.PlacementGroupFactory([{}, {"CPU": 2}], bundle_label_selector=[{"zone": "a"}]))
    assert request.refusal is None
    assert request._kwargs == {"bundle_label_selector": [{}, {"zone": "a"}]}
    assert [sorted(bundle) for bundle in request.bundles] == [["memory"], ["CPU"]]
    for given in (
        tune.PlacementGroupFactory([{"CPU": 1, "memory": 20 * 10**9}]),
        tune.PlacementGroupFactory([{"CPU": 1}, {"memory": 9 * 10**9}, {"memory": 9 * 10**9}], strategy="STRICT_PACK"),
    ):
        assert "in the bundles it asks for itself" in asked(given).refusal
