"""Rollout buffers for SB3 that keep each frame once and are never flattened into a second copy."""

from __future__ import annotations

from collections.abc import Generator, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import torch as th
from gymnasium import spaces
from stable_baselines3.common.buffers import BaseBuffer, RolloutBuffer
from stable_baselines3.common.type_aliases import DictRolloutBufferSamples, RolloutBufferSamples
from stable_baselines3.common.vec_env import VecNormalize

from rlmem.buffers.text import fill_text
from rlmem.sb3.base import Observations, check_sizes, make_options, tensor, tensors

Array = npt.NDArray[Any]


class CompactRolloutBuffer(RolloutBuffer):
    """SB3's ``RolloutBuffer`` and ``DictRolloutBuffer`` in one, with frame stacks and windows kept once.

    The same arguments, the same random numbers, the same bits out; ``codec``, ``stack``, ``stack_axis``, ``speed`` and
    ``threads`` as for ``CompactReplayBuffer``.
    """

    #: Small arrays SB3 flattens for ``get``.
    _flattened: tuple[str, ...] = ("actions", "values", "log_probs", "advantages", "returns")

    def __init__(
        self,
        buffer_size: int,
        observation_space: spaces.Space[Any],
        action_space: spaces.Space[Any],
        device: th.device | str = "auto",
        gae_lambda: float = 1,
        gamma: float = 0.99,
        n_envs: int = 1,
        *,
        codec: str | Mapping[str, str] = "none",
        stack: int | str | Mapping[str, int | str | None] | None = "auto",
        stack_axis: int | str | Mapping[str, int | str] = "auto",
        speed: float = 0.4,
        threads: int | None = None,
    ) -> None:
        options = make_options(codec, stack, stack_axis, None, None, speed, threads)
        check_sizes(buffer_size, n_envs)
        BaseBuffer.__init__(self, buffer_size, observation_space, action_space, device, n_envs=n_envs)
        self.gae_lambda, self.gamma = gae_lambda, gamma
        self._obs = Observations(observation_space, self.obs_shape, buffer_size, n_envs, options, paired=False)
        self.generator_ready = False
        self.reset()

    @property
    def observations(self) -> Any:
        """Array-like, flattened once ``get`` was called, as SB3's is."""
        return self._obs.view(following=False, flat=self.generator_ready)

    @property
    def nbytes(self) -> int:
        """Bytes of RAM the rollout takes now."""
        return int(self._obs.store.nbytes) + sum(v.nbytes for v in self.__dict__.values() if isinstance(v, np.ndarray))

    @property
    def bytes_per_transition(self) -> float:
        """``nbytes`` by the transitions held; 0 when there are none."""
        held = self.pos * self.n_envs
        return self.nbytes / held if held else 0.0

    def __repr__(self) -> str:
        held, capacity = self.pos * self.n_envs, self.buffer_size * self.n_envs
        return f"<{fill_text(type(self).__name__, held, capacity, self.nbytes, n_envs=self.n_envs)}>"

    def reset(self) -> None:
        """Empty it for the next rollout; the memory stays."""
        lines = (self.buffer_size, self.n_envs)
        self.actions = np.zeros((*lines, self.action_dim), dtype=self.action_space.dtype)
        for name in ("rewards", "returns", "episode_starts", "values", "log_probs", "advantages"):
            setattr(self, name, np.zeros(lines, dtype=np.float32))
        self.generator_ready = False
        self._obs.store.clear()
        BaseBuffer.reset(self)

    def add(
        self, obs: Any, action: Array, reward: Array, episode_start: Array, value: th.Tensor, log_prob: th.Tensor
    ) -> None:
        """Store one step of every env."""
        if len(log_prob.shape) == 0:
            log_prob = log_prob.reshape(-1, 1)
        self._obs.add(obs)
        self.actions[self.pos] = np.reshape(action, (self.n_envs, self.action_dim))
        self.rewards[self.pos] = reward
        self.episode_starts[self.pos] = episode_start
        self.values[self.pos] = value.clone().cpu().numpy().flatten()
        self.log_probs[self.pos] = log_prob.clone().cpu().numpy()
        self.pos += 1
        if self.pos == self.buffer_size:
            self.full = True

    def _flatten(self) -> None:
        """Flatten the small arrays, once a rollout. Observations stay where they are."""
        if not self.generator_ready:
            for name in self._flattened:
                self.__dict__[name] = self.swap_and_flatten(self.__dict__[name])
            self.generator_ready = True

    def get(self, batch_size: int | None = None) -> Generator[Any, None, None]:
        """Minibatches in random order, drawn with the same random numbers as SB3's."""
        assert self.full, ""
        indices = np.random.permutation(self.buffer_size * self.n_envs)
        self._flatten()
        step = batch_size or self.buffer_size * self.n_envs
        for start in range(0, indices.size, step):
            yield self._get_samples(indices[start : start + step])

    def _taken(self, batch_inds: Array) -> Any:
        """Observations by flattened index: env after env, each in time order."""
        envs, rows = np.divmod(batch_inds, self.buffer_size)
        return self._obs.gather(rows, envs, following=False)[0]

    def _get_samples(self, batch_inds: Array, env: VecNormalize | None = None) -> Any:
        kind = DictRolloutBufferSamples if self._obs.is_dict else RolloutBufferSamples
        return kind(
            tensors(self._taken(batch_inds), self.device),
            # SB3 casts actions to float32 as well; MultiBinary would fail otherwise.
            tensor(self.actions[batch_inds].astype(np.float32, copy=False), self.device),
            *(
                tensor(getattr(self, name)[batch_inds].flatten(), self.device)
                for name in ("values", "log_probs", "advantages", "returns")
            ),
        )
