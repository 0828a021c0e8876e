"""What samples are compared with beyond SB3's own buffers: normalisers, goal environments, n-step over Dict."""

from __future__ import annotations

import copy
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces
from stable_baselines3.common.buffers import NStepReplayBuffer
from stable_baselines3.common.type_aliases import DictReplayBufferSamples
from stable_baselines3.common.vec_env import DummyVecEnv, VecNormalize

from contract.strategies import Plan
from contract.streams import Step, parts_of, random_of


class Still(gym.Env[Any, Any]):
    """An environment that only has spaces, and a reward for goals."""

    def __init__(self, observation_space: spaces.Space[Any], action_space: spaces.Space[Any]) -> None:
        # VecNormalize writes into the Dict space it is given
        self.observation_space, self.action_space = copy.deepcopy(observation_space), action_space

    def compute_reward(self, achieved: np.ndarray, desired: np.ndarray, infos: Any) -> np.ndarray:
        """Distance, and what the infos say where they are kept."""
        bonus = np.array([info.get("bonus", 0.0) for info in infos])
        apart = np.abs(achieved.astype(np.float64) - desired).reshape(len(bonus), -1).sum(axis=1)
        return bonus - apart


def still_env(plan: Plan) -> DummyVecEnv:
    """A vectorised environment with the plan's spaces."""
    return DummyVecEnv([lambda: Still(plan.observation_space, plan.action_space)] * plan.n_envs)


def normalizer(plan: Plan, *, reward: bool = True) -> VecNormalize:
    """VecNormalize that has seen something: every Box part is normalised, images too."""
    rng = np.random.default_rng(plan.seed)
    parts = parts_of(plan.observation_space)
    floats = {
        key: part for key, part in parts.items() if isinstance(part, spaces.Box) and np.dtype(part.dtype).kind != "b"
    }
    named = isinstance(plan.observation_space, spaces.Dict)
    env = VecNormalize(
        still_env(plan),
        norm_obs=bool(floats),
        norm_reward=reward,
        clip_obs=5.0,
        norm_obs_keys=list(floats) if named and floats else None,
    )
    for key, part in floats.items():
        seen = random_of(rng, part, "noise", 20).astype(np.float64)
        (env.obs_rms[key] if named else env.obs_rms).update(seen)
    env.ret_rms.update(rng.standard_normal(20) * 3)
    return env


class _RewardsOnly(NStepReplayBuffer):
    """Step numbers must not be normalised."""

    @staticmethod
    def _normalize_obs(obs: Any, env: Any = None) -> Any:
        return obs


class NumberedNStep:
    """N-step over Dict: SB3's n-step buffer over the numbers of the transitions, the observations looked up by number."""

    def __init__(self, plan: Plan, *, n_steps: int, gamma: float) -> None:
        numbers = spaces.Box(0, 2**62, (1,), np.int64)
        self.numbered = _RewardsOnly(**{**plan.common, "observation_space": numbers}, n_steps=n_steps, gamma=gamma)
        self.n_envs, self.steps = plan.n_envs, list[Step]()

    def add(self, obs: Any, next_obs: Any, action: Any, reward: Any, done: Any, infos: Any) -> None:
        numbers = np.arange(self.n_envs).reshape(-1, 1) + len(self.steps) * self.n_envs
        self.numbered.add(numbers, numbers, action, reward, done, infos)
        kept = ({key: value.copy() for key, value in part.items()} for part in (obs, next_obs))
        obs, next_obs = kept
        self.steps.append(Step(obs=obs, next_obs=next_obs, action=action, reward=reward, done=done, infos=infos))

    def _looked_up(self, name: str, numbers: Any, env: Any) -> Any:
        pairs = [divmod(int(number), self.n_envs) for number in numbers.flatten()]
        rows = [getattr(self.steps[step], name) for step, _ in pairs]
        found = {
            # Discrete parts are given flat and stored as a column
            key: np.stack([np.atleast_1d(row[key][which]) for row, (_, which) in zip(rows, pairs, strict=True)])
            for key in rows[0]
        }
        normalized = found if env is None else env.normalize_obs(found)
        return {key: self.numbered.to_torch(value) for key, value in normalized.items()}

    def sample(self, batch: int, env: Any = None) -> DictReplayBufferSamples:
        numbers = self.numbered.sample(batch, env=env)
        return DictReplayBufferSamples(
            observations=self._looked_up("obs", numbers.observations, env),
            actions=numbers.actions,
            next_observations=self._looked_up("next_obs", numbers.next_observations, env),
            dones=numbers.dones,
            rewards=numbers.rewards,
            discounts=numbers.discounts,
        )
