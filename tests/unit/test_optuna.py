"""Optuna's trials: pruned before they begin, measured when they run."""

from __future__ import annotations

from typing import Any

import pytest

from rlmem.core.plan import Budget
from rlmem.errors import AnalysisError, UsageError
from rlmem.optuna import BEFORE, memory_aware
from rlmem.trials import MEASURED, PREDICTED, PRUNED, REASON

optuna = pytest.importorskip("optuna")
MB = 10**6


@pytest.fixture
def study() -> Any:
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    return optuna.create_study(sampler=optuna.samplers.RandomSampler(seed=1))


def test_a_trial_that_cannot_fit_never_begins_and_the_others_go_on(study: Any, caplog: Any) -> None:
    begun = []

    def objective(trial: Any) -> float:
        begun.append(trial.suggest_categorical("mb", [100, 700, 900]))
        return float(begun[-1])

    def plan(trial: Any) -> int:
        return int(trial.suggest_categorical("mb", [100, 700, 900])) * MB

    for size in (100, 900, 700):
        study.enqueue_trial({"mb": size})
    study.optimize(memory_aware(objective, plan, budget="800MB"), n_trials=3)

    assert begun == [100, 700]
    states = [trial.state.name for trial in study.trials]
    assert states == ["COMPLETE", "PRUNED", "COMPLETE"]
    pruned = study.trials[1].user_attrs
    assert pruned[PREDICTED] == 900 * MB
    assert pruned[PRUNED] is True
    assert pruned[REASON].endswith("800MB has 763 MiB of RAM")
    assert MEASURED not in pruned
    assert [record.getMessage() for record in caplog.records if record.name == "rlmem"] == [
        f"trial 1 with {{mb: 900}} not started: {pruned[REASON]}"
    ]


def test_the_margin_decides_too(study: Any) -> None:
    study.optimize(memory_aware(lambda trial: 0.0, lambda trial: 760 * MB, budget=800 * MB), n_trials=1)
    study.optimize(memory_aware(lambda trial: 0.0, lambda trial: 760 * MB, budget=800 * MB, margin=0.05), n_trials=1)
    assert [trial.state.name for trial in study.trials] == ["PRUNED", "COMPLETE"]


def test_what_an_objective_allocates_is_measured(study: Any) -> None:
    def objective(trial: Any) -> float:
        block = bytearray(b"x") * (150 * MB)
        return float(len(block))

    study.optimize(memory_aware(objective), n_trials=1)
    attrs = study.trials[0].user_attrs
    assert attrs[MEASURED] - attrs[BEFORE] == pytest.approx(150 * MB, rel=0.1)
    assert PREDICTED not in attrs


def test_a_later_trial_does_not_inherit_the_peak_of_an_earlier_one(study: Any) -> None:
    sizes = iter((200, 0))
    objective = memory_aware(lambda trial: float(len(bytearray(b"x") * (next(sizes) * MB))))
    study.optimize(objective, n_trials=2)
    first, second = (trial.user_attrs[MEASURED] for trial in study.trials)
    assert first - second > 100 * MB


def test_a_preset_is_planned_with_what_the_space_samples(study: Any) -> None:
    space = {
        "buffer_size": optuna.distributions.IntDistribution(1000, 10_000_000, log=True),
        "n_envs": optuna.distributions.CategoricalDistribution([1, 2]),
        "lr": optuna.distributions.FloatDistribution(1e-5, 1e-3, log=True),
    }

    def objective(trial: Any) -> float:
        return trial.suggest_float("lr", 1e-5, 1e-3, log=True)  # the value that was sampled before

    study.enqueue_trial({"buffer_size": 9_000_000})
    study.enqueue_trial({"buffer_size": 1000})
    study.optimize(memory_aware(objective, "pidog-sac-vector", space=space, budget="1GB"), n_trials=2)
    large, small = study.trials
    assert (large.state.name, small.state.name) == ("PRUNED", "COMPLETE")
    assert large.user_attrs[PREDICTED] > 2 * small.user_attrs[PREDICTED]
    assert small.value == small.params["lr"]


def test_a_function_samples_and_renames(study: Any) -> None:
    def space(trial: Any) -> dict[str, Any]:
        return {"rows": trial.suggest_int("rows", 1000, 1000)}

    wrapped = memory_aware(lambda trial: 0.0, "pidog-sac-vector", space=space, fields={"rows": "buffer_size"})
    study.optimize(wrapped, n_trials=1)
    assert study.trials[0].user_attrs[PREDICTED] < 10**9


def test_an_objective_that_fails_is_measured_all_the_same(study: Any) -> None:
    def objective(trial: Any) -> float:
        raise RuntimeError("boom")

    with pytest.raises(RuntimeError, match="boom"):
        study.optimize(memory_aware(objective), n_trials=1)
    assert study.trials[0].user_attrs[MEASURED] > 0


def test_a_plan_that_fails_fails_the_trial_before_it_begins(study: Any) -> None:
    def plan(trial: Any) -> int:
        raise KeyError("env")

    begun: list[int] = []
    study.optimize(memory_aware(lambda trial: begun.append(1) or 0.0, plan), n_trials=2, catch=AnalysisError)
    assert [trial.state.name for trial in study.trials] == ["FAIL", "FAIL"]
    assert not begun


def test_vram_is_judged_as_well(study: Any) -> None:
    budget = Budget(name="a laptop", ram_bytes=64 * 10**9, vram_bytes=10**9)
    wrapped = memory_aware(lambda trial: 0.0, "pyboy-ppo", space=lambda trial: {"device": "cuda"}, budget=budget)
    study.optimize(wrapped, n_trials=1)
    assert "of VRAM; a laptop has" in study.trials[0].user_attrs[REASON]


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"plan": "pidog-sac"}, "space= is missing"),
        ({"budget": "16GB"}, "go with plan="),
        ({"plan": len, "budget": "16"}, "add a unit"),
        ({"plan": len, "margin": 20}, "a share from 0 to 1"),
    ],
)
def test_mistakes_are_told_before_the_study_begins(options: dict[str, Any], says: str) -> None:
    with pytest.raises(UsageError, match=says):
        memory_aware(lambda trial: 0.0, **options)


def test_a_space_that_is_none_is_told(study: Any) -> None:
    with pytest.raises(UsageError, match=r"space\['n_envs'\] is a tuple"):
        study.optimize(memory_aware(lambda trial: 0.0, "pidog-sac", space={"n_envs": (1, 8)}), n_trials=1)
