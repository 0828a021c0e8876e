"""A replay buffer for SB3: Box and Dict, any number of envs, n-step, prioritised; each observation kept once."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch as th
from gymnasium import spaces
from stable_baselines3.common.buffers import BaseBuffer, ReplayBuffer
from stable_baselines3.common.type_aliases import DictReplayBufferSamples, ReplayBufferSamples
from stable_baselines3.common.vec_env import VecNormalize

from rlmem.errors import UsageError
from rlmem.sb3.base import Observations, check_sizes, make_options, tensor, tensors
from rlmem.sb3.loading import convert_on_load
from rlmem.sb3.saving import Saved

if TYPE_CHECKING:
    from rlmem.buffers.priorities import Priorities

Array = npt.NDArray[Any]


class PrioritizedSamples(NamedTuple):
    """What SB3's samples hold, the weight of each in the loss, and the indices to hand back with new priorities."""

    observations: Any
    actions: th.Tensor
    next_observations: Any
    dones: th.Tensor
    rewards: th.Tensor
    discounts: th.Tensor | None
    weights: th.Tensor
    indices: Array


class CompactReplayBuffer(Saved, ReplayBuffer):
    """SB3's replay buffer with every observation kept once.

    Drop-in for ``ReplayBuffer``, ``DictReplayBuffer`` and ``NStepReplayBuffer``: the same arguments, the same random
    numbers, the same bits out. Options beyond theirs:

    :param n_steps: n-step returns as in ``NStepReplayBuffer``, for Dict observations as well.
    :param gamma: discount of the n-step returns.
    :param codec: ``"none"``, ``"auto"`` (chosen from the data), ``"lz4"``, ``"zstd"``, ``"huffman"``, or a dict of them by key. Lossless.
    :param stack: frames in a stack, or steps in a sliding window: ``"auto"`` recognises them, a number declares them,
        ``None`` stores observations whole; or a dict by key.
    :param stack_axis: the axis they are stacked along, for a declared stack.
    :param budget: bytes that may stay in RAM (``"8GiB"``); the oldest experience goes to ``spill`` beyond it.
    :param spill: a folder on a disk.
    :param speed: the slowest sampling ``codec="auto"`` may choose, as a share of SB3's.
    :param lossy: ``{"key": "float16" | "uint8"}``: smaller, and no longer equal.
    :param prioritized: proportional prioritised sampling, with ``alpha`` and ``beta``.
    :param pin: assemble batches in page-locked memory, for a GPU.
    :param threads: threads a batch is assembled by; up to four by default.
    """

    def __init__(
        self,
        buffer_size: int,
        observation_space: spaces.Space[Any],
        action_space: spaces.Space[Any],
        device: th.device | str = "auto",
        n_envs: int = 1,
        optimize_memory_usage: bool = False,
        handle_timeout_termination: bool = True,
        n_steps: int = 1,
        gamma: float = 0.99,
        *,
        codec: str | Mapping[str, str] = "none",
        stack: int | str | Mapping[str, int | str | None] | None = "auto",
        stack_axis: int | str | Mapping[str, int | str] = "auto",
        budget: int | str | None = None,
        spill: str | os.PathLike[str] | None = None,
        speed: float = 0.4,
        lossy: Mapping[str, str] | str | None = None,
        prioritized: bool = False,
        alpha: float = 0.6,
        beta: float = 0.4,
        pin: bool = False,
        threads: int | None = None,
    ) -> None:
        convert_on_load()
        options = make_options(codec, stack, stack_axis, budget, spill, speed, threads)
        check_sizes(buffer_size, n_envs)
        if n_steps < 1:
            raise UsageError(f"n_steps={n_steps} is not a number of steps")
        BaseBuffer.__init__(self, buffer_size, observation_space, action_space, device, n_envs=n_envs)
        self.buffer_size = max(buffer_size // n_envs, 1)
        self.optimize_memory_usage = optimize_memory_usage
        self.handle_timeout_termination = handle_timeout_termination
        self.n_steps, self.gamma = n_steps, gamma
        self._obs = Observations(
            observation_space, self.obs_shape, self.buffer_size, n_envs, options, paired=True, lossy=lossy, pin=pin
        )
        lines = (self.buffer_size, self.n_envs)
        self._action_shape = (self.n_envs, self.action_dim)
        self.actions = np.zeros((*lines, self.action_dim), dtype=self._maybe_cast_dtype(action_space.dtype))
        self.rewards = np.zeros(lines, dtype=np.float32)
        self.dones = np.zeros(lines, dtype=np.bool_)
        self.timeouts = np.zeros(lines, dtype=np.bool_)
        self.priorities: Priorities | None = None
        if prioritized:
            from rlmem.buffers.priorities import Priorities

            self.priorities = Priorities(self.buffer_size * n_envs, alpha=alpha, beta=beta)

    # -- SB3's own face ----------------------------------------------------------------------------------------------

    @property
    def observations(self) -> Any:
        """Array-like: read it by index, or whole with ``np.asarray``."""
        return self._obs.view(following=False)

    @property
    def next_observations(self) -> Any:
        """Array-like, with the true final observation where an episode ended."""
        return self._obs.view(following=True)

    def add(
        self, obs: Any, next_obs: Any, action: Array, reward: Array, done: Array, infos: list[dict[str, Any]]
    ) -> None:
        """Store one step of every env."""
        pos = self.pos
        with self._obs.store.lock:
            self._obs.add(obs, next_obs)
            self.actions[pos] = action if action.shape == self._action_shape else action.reshape(self._action_shape)
            self.rewards[pos] = reward
            self.dones[pos] = done
            if self.handle_timeout_termination:
                self.timeouts[pos] = 0
                for env, info in enumerate(infos):
                    if info.get("TimeLimit.truncated", False):
                        self.timeouts[pos, env] = 1
            if self.priorities is not None:
                self.priorities.add(pos * self.n_envs, self.n_envs)
            self.pos += 1
            if self.pos == self.buffer_size:
                self.full = True
                self.pos = 0

    def take_rows(self, plain: ReplayBuffer) -> None:
        """The rows of one of SB3's own buffers of the same size, each in its place, so that the same draws give the same bits.

        With ``optimize_memory_usage`` a full one has a row that is half overwritten; it is left out, and the others move up.
        """
        rows = np.arange(self.buffer_size if plain.full else plain.pos)
        if plain.full and plain.optimize_memory_usage:
            rows = np.roll(rows, -plain.pos)[1:]
        with self._obs.store.lock:
            # A ring is written on from its oldest row: the rows before it are written twice.
            for row in (*rows, *(rows[: plain.pos] if rows.size == self.buffer_size else ())):
                self._obs.add(*_observations(plain, row))
            for name in ("actions", "rewards", "dones", "timeouts"):
                getattr(self, name)[: rows.size] = getattr(plain, name)[rows]
            if self.priorities is not None:
                self.priorities.add(0, rows.size * self.n_envs)
            self.full = rows.size == self.buffer_size
            self.pos = plain.pos if self.full else rows.size

    def reset(self) -> None:
        """Forget everything held."""
        super().reset()
        self._obs.store.clear()
        if self.priorities is not None:
            self.priorities.clear()

    def _resized(self, order: Array) -> None:
        if self.priorities is not None:
            kept = (order[:, None] * self.n_envs + np.arange(self.n_envs)).reshape(-1)
            self.priorities = self.priorities.moved(kept, self.buffer_size * self.n_envs)

    def sample(self, batch_size: int, env: VecNormalize | None = None) -> Any:
        """A batch, drawn with the same random numbers as SB3's."""
        with self._obs.store.lock:
            if self.priorities is None:
                return BaseBuffer.sample(self, batch_size, env)
            indices, weights = self.priorities.sample(batch_size, self.size() * self.n_envs, np.random)
            rows, envs = np.divmod(indices, self.n_envs)
            plain = self._samples(rows, envs, env)
            return PrioritizedSamples(
                observations=plain.observations,
                actions=plain.actions,
                next_observations=plain.next_observations,
                dones=plain.dones,
                rewards=plain.rewards,
                discounts=getattr(plain, "discounts", None),
                weights=tensor(weights.reshape(-1, 1), self.device),
                indices=indices,
            )

    def update_priorities(self, indices: Array, priorities: Array) -> None:
        """New priorities (for instance absolute TD errors) for transitions a prioritised sample returned."""
        if self.priorities is None:
            raise UsageError("this buffer was not made with prioritized=True")
        with self._obs.store.lock:
            self.priorities.update(np.asarray(indices), np.asarray(priorities))

    def _get_samples(self, batch_inds: Array, env: VecNormalize | None = None) -> Any:
        env_indices = np.random.randint(0, high=self.n_envs, size=(len(batch_inds),))
        with self._obs.store.lock:
            return self._samples(batch_inds, env_indices, env)

    # -- assembling --------------------------------------------------------------------------------------------------

    def _samples(self, rows: Array, envs: Array, env: VecNormalize | None) -> Any:
        flat = rows * self.n_envs + envs
        later = n_step = None
        if self.n_steps > 1:
            later, *n_step = self._n_step(rows, envs, env)
        small: dict[str, th.Tensor] = {}

        def take_small() -> None:
            """What is not an observation; other threads are at those meanwhile."""
            if n_step is not None:
                named = dict(zip(("dones", "rewards", "discounts"), n_step, strict=True))
            else:
                rewards = self._normalize_reward(self._take(self.rewards, flat).reshape(-1, 1), env)
                named = {"dones": self._ends(flat), "rewards": rewards}
            named["actions"] = self.actions.reshape(-1, self.action_dim).take(flat, axis=0)
            small.update((name, tensor(array, self.device)) for name, array in named.items())

        now, after = self._obs.gather(rows, envs, later, meanwhile=take_small)
        if env is not None:
            now, after = self._normalize_obs(now, env), self._normalize_obs(after, env)
        kind = DictReplayBufferSamples if self._obs.is_dict else ReplayBufferSamples
        return kind(observations=tensors(now, self.device), next_observations=tensors(after, self.device), **small)

    def _ends(self, flat: Array) -> Array:
        """1 where an episode ended other than by a time limit."""
        ended = self._take(self.dones, flat) & ~self._take(self.timeouts, flat)
        return ended.astype(np.float32).reshape(-1, 1)

    @staticmethod
    def _take(values: Array, flat: Array) -> Array:
        return values.reshape(-1).take(flat)

    def _n_step(self, rows: Array, envs: Array, env: VecNormalize | None) -> tuple[Array, Array, Array, Array]:
        """Where each n-step transition ends, whether in a terminal state, its return and its discount.

        Step for step what ``NStepReplayBuffer`` computes, in the same precision: the results are to be equal.
        """
        steps = np.arange(self.n_steps)
        window = (rows[:, None] + steps) % self.buffer_size
        lanes = envs[:, None]
        rewards = self._normalize_reward(self.rewards[window, lanes], env)
        dones, timeouts = self.dones[window, lanes].astype(np.float32), self.timeouts[window, lanes].astype(np.float32)
        # The newest row is followed by the oldest one: nothing may run on past it.
        newest = window == (self.pos - 1) % self.buffer_size
        timeouts = np.where(newest, np.logical_or(timeouts, np.logical_not(dones)).astype(np.float32), timeouts)
        ends = np.logical_or(dones, timeouts)
        last = np.where(ends.any(axis=1), ends.argmax(axis=1), self.n_steps - 1)
        mask = steps[None] <= last[:, None]
        discounts = self.gamma ** mask.sum(axis=1, keepdims=True).astype(np.float32)
        weights = self.gamma ** np.arange(self.n_steps, dtype=np.float32).reshape(1, -1)
        returns = (rewards * weights * mask).sum(axis=1, keepdims=True)
        index = np.arange(len(rows))
        final = dones[index, last][:, None] * (1.0 - timeouts[index, last][:, None])
        return (rows + last) % self.buffer_size, final, returns, discounts


def _observations(plain: ReplayBuffer, row: int) -> tuple[Any, Any]:
    """Observations and next observations of a row of one of SB3's buffers."""
    now, then, after = plain.observations, getattr(plain, "next_observations", None), row
    if then is None:  # optimize_memory_usage: they are the observations of the row that follows
        then, after = now, (row + 1) % plain.buffer_size
    if isinstance(now, dict):
        return {key: value[row] for key, value in now.items()}, {key: value[after] for key, value in then.items()}
    return now[row], then[after]
