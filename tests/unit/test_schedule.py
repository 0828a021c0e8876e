"""The arithmetic of a run's loop."""

from __future__ import annotations

from typing import Any

import pytest

from rlmem.core.schedule import schedule
from rlmem.core.spec import RunSpec


def run(**knobs: Any) -> RunSpec:
    return RunSpec().having({"n_steps": 100, "n_envs": 4, "agents": 1, **knobs}, "test")


def test_a_rollout_is_cut_into_minibatches_with_a_smaller_last_one() -> None:
    found = schedule(run(batch_size=150, n_epochs=10))
    assert found is not None
    assert (found.samples, found.minibatches, found.remainder, found.updates) == (400, 3, 100, 30)


def test_a_batch_larger_than_the_rollout_is_the_rollout() -> None:
    found = schedule(run(batch_size=1000))
    assert found is not None
    assert (found.batch, found.minibatches, found.updates) == (400, 1, 1)


def test_sampling_with_replacement_keeps_the_asked_batch() -> None:
    found = schedule(run(batch_size=1000, n_epochs=10, **{"rollout.sampling": "with-replacement"}))
    assert found is not None
    assert (found.batch, found.remainder, found.updates) == (1000, 0, 4)


def test_the_last_iteration_runs_to_its_end() -> None:
    found = schedule(run(total_timesteps=1001, **{"checkpoint.save_freq": 50}))
    assert found is not None
    assert (found.iterations, found.save_timesteps, found.save_iterations) == (3, 200, 0.5)


def test_what_the_description_does_not_say_stays_unknown() -> None:
    found = schedule(run())
    assert found is not None
    assert (found.batch, found.iterations, found.save_timesteps, found.save_iterations) == (400, None, None, None)


@pytest.mark.parametrize("knobs", [{"n_steps": None}, {"buffer_size": 10}])
def test_a_run_without_rollouts_has_no_schedule(knobs: dict[str, Any]) -> None:
    assert schedule(run(**knobs)) is None
