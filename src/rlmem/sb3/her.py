"""Hindsight experience replay on a compact store, drawing a batch in time that does not grow with the buffer."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import torch as th
from gymnasium import spaces
from stable_baselines3.common.type_aliases import DictReplayBufferSamples
from stable_baselines3.common.vec_env import VecEnv, VecNormalize
from stable_baselines3.her.goal_selection_strategy import KEY_TO_GOAL_STRATEGY, GoalSelectionStrategy
from stable_baselines3.her.her_replay_buffer import HerReplayBuffer

from rlmem.errors import UsageError, did_you_mean
from rlmem.sb3.base import tensor, tensors
from rlmem.sb3.replay import CompactReplayBuffer

Array = npt.NDArray[Any]
#: Transitions whose valid ones are counted together.
GROUP = 1024


class CompactHerReplayBuffer(CompactReplayBuffer, HerReplayBuffer):
    """SB3's ``HerReplayBuffer`` with every observation kept once; the same draws, the same bits out.

    Arguments are SB3's (``n_sampled_goal``, ``goal_selection_strategy``, ``copy_info_dict``) and those of
    ``CompactReplayBuffer`` except n-step and prioritised sampling.
    """

    _not_saved = ("env",)

    def __init__(
        self,
        buffer_size: int,
        observation_space: spaces.Dict,
        action_space: spaces.Space[Any],
        env: VecEnv,
        device: th.device | str = "auto",
        n_envs: int = 1,
        optimize_memory_usage: bool = False,
        handle_timeout_termination: bool = True,
        n_sampled_goal: int = 4,
        goal_selection_strategy: GoalSelectionStrategy | str = "future",
        copy_info_dict: bool = False,
        *,
        codec: str | Mapping[str, str] = "none",
        **storage: Any,
    ) -> None:
        for name in ("n_steps", "prioritized"):
            if name in storage:
                raise UsageError(f"{name} does not go together with hindsight replay")
        from rlmem.buffers import hindsight  # noqa: F401  # compiled with the buffer, not with its first batch

        assert isinstance(observation_space, spaces.Dict), "hindsight replay needs a Dict observation space"
        CompactReplayBuffer.__init__(
            self, buffer_size, observation_space, action_space, device, n_envs,
            optimize_memory_usage, handle_timeout_termination, codec=codec, **storage,
        )  # fmt: skip
        self.env, self.copy_info_dict, self.n_sampled_goal = env, copy_info_dict, n_sampled_goal
        if isinstance(goal_selection_strategy, str):
            name = goal_selection_strategy.lower()
            if name not in KEY_TO_GOAL_STRATEGY:
                raise UsageError(
                    f"goal_selection_strategy={name!r} is not one of {', '.join(KEY_TO_GOAL_STRATEGY)}{did_you_mean(name, KEY_TO_GOAL_STRATEGY)}"
                )
            goal_selection_strategy = KEY_TO_GOAL_STRATEGY[name]
        self.goal_selection_strategy = goal_selection_strategy
        self.her_ratio = 1 - (1.0 / (self.n_sampled_goal + 1))
        # SB3 keeps a dict for every transition, asked for or not.
        self.infos = np.full((self.buffer_size, n_envs), None, dtype=object) if copy_info_dict else None
        self.ep_start = np.zeros((self.buffer_size, n_envs), dtype=np.int32)
        self.ep_length = np.zeros((self.buffer_size, n_envs), dtype=np.int32)
        self._current_ep_start = np.zeros(n_envs, dtype=np.int64)
        self._count_all()

    def _count_all(self) -> None:
        lengths = self.ep_length.reshape(-1)
        self._counts = np.add.reduceat(lengths > 0, np.arange(0, lengths.size, GROUP), dtype=np.int64)

    def _recount(self, rows: Array) -> None:
        """Count the groups some rows are in."""
        lengths = self.ep_length.reshape(-1)
        first = np.unique(np.concatenate((rows * self.n_envs // GROUP, ((rows + 1) * self.n_envs - 1) // GROUP)))
        for group in first:
            self._counts[group] = np.count_nonzero(lengths[group * GROUP : (group + 1) * GROUP])

    def add(
        self, obs: Any, next_obs: Any, action: Array, reward: Array, done: Array, infos: list[dict[str, Any]]
    ) -> None:
        """Store one step of every env; an episode about to be overwritten can no longer be drawn."""
        with self._obs.store.lock:
            for env_idx in np.flatnonzero(self.ep_length[self.pos]):
                end = int(self.ep_start[self.pos, env_idx]) + int(self.ep_length[self.pos, env_idx])
                rows = np.arange(self.pos, end) % self.buffer_size
                self.ep_length[rows, env_idx] = 0
                self._recount(rows)
            self.ep_start[self.pos] = self._current_ep_start
            if self.infos is not None:
                self.infos[self.pos] = infos
            CompactReplayBuffer.add(self, obs, next_obs, action, reward, done, infos)
            for env_idx in np.flatnonzero(done):
                self._compute_episode_length(int(env_idx))

    def _compute_episode_length(self, env_idx: int) -> None:
        start, end = int(self._current_ep_start[env_idx]), self.pos
        super()._compute_episode_length(env_idx)
        self._recount(np.arange(start, end + self.buffer_size if end < start else end) % self.buffer_size)

    def take_episodes(self, plain: HerReplayBuffer) -> None:
        """Where the episodes of one of SB3's own buffers begin and end, once its rows were taken."""
        for name in ("ep_start", "ep_length", "_current_ep_start"):
            getattr(self, name)[...] = getattr(plain, name)
        if self.infos is not None:
            self.infos[...] = plain.infos
        self._count_all()

    def reset(self) -> None:
        """Forget everything held."""
        super().reset()
        self.ep_length[:] = 0
        self._current_ep_start[:] = 0
        self._count_all()

    def _resized(self, order: Array) -> None:
        # Episodes are named by row numbers, and rows have moved: whole ones that are left are found again by their ends.
        self.ep_length[:] = 0
        held = self.buffer_size if self.full else self.pos
        for env_idx in range(self.n_envs):
            start = 0
            for end in np.flatnonzero(self.dones[:held, env_idx]) + 1:
                self.ep_start[start:end, env_idx], self.ep_length[start:end, env_idx] = start, end - start
                start = int(end)
            self.ep_start[start:held, env_idx] = start
            self._current_ep_start[env_idx] = start % self.buffer_size
        self._count_all()

    def sample(self, batch_size: int, env: VecNormalize | None = None) -> DictReplayBufferSamples:
        """A batch of real and relabelled transitions, drawn with the same random numbers as SB3's."""
        from rlmem.buffers.hindsight import select

        with self._obs.store.lock:
            sums = np.cumsum(self._counts)
            if not sums[-1]:
                raise RuntimeError(
                    "Unable to sample before the end of the first episode. We recommend choosing a value "
                    "for learning_starts that is greater than the maximum number of timesteps in the environment."
                )
            found = np.empty(batch_size, np.int64)
            select(GROUP, np.random.randint(0, sums[-1], size=batch_size), sums, self.ep_length.reshape(-1), found)
            rows, envs = np.divmod(found, self.n_envs)
            virtual = int(self.her_ratio * batch_size)
            # Real transitions come first in the batch, though they were drawn last.
            order = np.concatenate((np.arange(virtual, batch_size), np.arange(virtual)))
            return self._relabelled(rows[order], envs[order], batch_size - virtual, env)

    def _relabelled(self, rows: Array, envs: Array, real: int, env: VecNormalize | None) -> DictReplayBufferSamples:
        obs, after = self._obs.gather(rows, envs)
        goals = self._sample_goals(rows[real:], envs[real:])
        assert self.env is not None, "set_env() is needed so that rewards of relabelled transitions can be computed"
        infos: Any = [{} for _ in range(len(rows) - real)]
        if self.infos is not None:
            infos = copy.deepcopy(self.infos[rows[real:], envs[real:]])
        computed = self.env.env_method("compute_reward", after["achieved_goal"][real:], goals, infos, indices=[0])[0]
        flat = rows * self.n_envs + envs
        rewards = np.concatenate(
            (
                self._normalize_reward(self._take(self.rewards, flat[:real]).reshape(-1, 1), env),
                self._normalize_reward(computed.astype(np.float32).reshape(-1, 1), env),
            )
        )
        for batch in (obs, after):
            if goals.dtype == batch["desired_goal"].dtype:
                batch["desired_goal"][real:] = goals
            else:
                batch["desired_goal"] = np.concatenate((batch["desired_goal"][:real], goals))
        if env is not None:
            obs, after = self._normalize_obs(obs, env), self._normalize_obs(after, env)
        dones = self._ends(flat)
        return DictReplayBufferSamples(
            observations=tensors(obs, self.device),
            actions=tensor(self.actions.reshape(-1, self.action_dim).take(flat, axis=0), self.device),
            next_observations=tensors(after, self.device),
            dones=tensor(dones, self.device),
            rewards=tensor(rewards, self.device),
        )
