"""Owners are told to be components of a plan by their paths and types."""

from __future__ import annotations

import pytest

from rlmem import Planner, load, make_budget
from rlmem.core.components import component_of


@pytest.mark.parametrize(
    ("path", "kind", "type_name", "component"),
    [
        ("model.replay_buffer.observations", "array", "numpy.ndarray", "replay.observations"),
        ("model.replay_buffer.observations['image']", "array", "numpy.ndarray", "replay.observations[image]"),
        ("rb.rewards", "array", "numpy.ndarray", "replay.rewards"),
        ("agent._replay.dones", "array", "numpy.ndarray", "replay.dones"),
        ("model.replay_buffer", "store", "rlmem.sb3.CompactReplayBuffer", "replay"),
        ("model.replay_buffer", "objects", "stable_baselines3.ReplayBuffer", "replay.objects"),
        ("model.rollout_buffer.log_probs", "array", "numpy.ndarray", "rollout.log_probs"),
        ("model.policy.optimizer.state[…]", "objects", "dict", "learner.optimizer"),
        ("optimizer.state[…].exp_avg", "tensor", "torch.Tensor", "learner.optimizer"),
        ("model.critic.qf0.0.weight", "tensor", "torch.Parameter", "learner.parameters"),
        ("model.q_net.batch_norm.running_mean", "tensor", "torch.Tensor", "learner.parameters"),
        ("model.critic_target.qf0.0.weight", "tensor", "torch.Parameter", "learner.targets"),
        ("q_network.0.weight.grad", "tensor", "torch.Parameter", "learner.gradients"),
        ("model.env.envs[0].frames", "array", "numpy.ndarray", "workers"),
        ("vec_env.buf_obs", "array", "numpy.ndarray", "workers"),
        ("callback.eval_env.envs[0].frames", "array", "numpy.ndarray", "eval"),
        ("model", "objects", "stable_baselines3.DQN", "runtime"),
        ("losses", "container", "list", "other.losses"),
        ("data['images']", "array", "numpy.ndarray", "other.data"),
        ("environment_names", "container", "list", "other.environment_names"),
    ],
)
def test_an_owner_is_a_component(path: str, kind: str, type_name: str, component: str) -> None:
    assert component_of(path, kind, type_name) == component


def test_a_list_of_steps_is_a_replay_buffer_whatever_it_is_called() -> None:
    assert component_of("episodes", "container", "collections.deque", has_transitions=True) == "replay"


@pytest.mark.parametrize("preset", ["pidog-sac", "pyboy-ppo"])
def test_fields_of_buffers_are_called_as_in_a_plan(preset: str) -> None:
    components = Planner(make_budget(ram="64GB")).plan(load(preset)).ledger.components
    store = "replay" if preset == "pidog-sac" else "rollout"
    planned = {name.partition("[")[0] for name in components if name.startswith(f"{store}.")}
    seen = {
        component_of(f"model.{store}_buffer.{field}", "array", "numpy.ndarray")
        for field in ("observations", "actions", "rewards")
    }
    assert seen <= planned
