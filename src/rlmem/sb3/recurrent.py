"""The rollout buffer of sb3-contrib's RecurrentPPO, with each observation kept once."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

import numpy as np
import numpy.typing as npt
import torch as th
from gymnasium import spaces
from sb3_contrib.common.recurrent.buffers import RecurrentRolloutBuffer, create_sequencers
from sb3_contrib.common.recurrent.type_aliases import (
    RecurrentDictRolloutBufferSamples,
    RecurrentRolloutBufferSamples,
    RNNStates,
)
from stable_baselines3.common.vec_env import VecNormalize

from rlmem.sb3.rollout import CompactRolloutBuffer

Array = npt.NDArray[Any]
STATES = ("hidden_states_pi", "cell_states_pi", "hidden_states_vf", "cell_states_vf")


class CompactRecurrentRolloutBuffer(CompactRolloutBuffer, RecurrentRolloutBuffer):
    """sb3-contrib's ``RecurrentRolloutBuffer`` and ``RecurrentDictRolloutBuffer`` in one.

    ``RecurrentPPO`` has no argument for it: put it in place of ``model.rollout_buffer`` once the model is made.
    """

    _flattened = (*CompactRolloutBuffer._flattened, *STATES, "episode_starts")

    def __init__(
        self,
        buffer_size: int,
        observation_space: spaces.Space[Any],
        action_space: spaces.Space[Any],
        hidden_state_shape: tuple[int, int, int, int],
        device: th.device | str = "auto",
        gae_lambda: float = 1,
        gamma: float = 0.99,
        n_envs: int = 1,
        **storage: Any,
    ) -> None:
        self.hidden_state_shape = hidden_state_shape
        self.seq_start_indices: Any = None
        self.seq_end_indices: Any = None
        CompactRolloutBuffer.__init__(
            self, buffer_size, observation_space, action_space, device, gae_lambda, gamma, n_envs, **storage
        )

    @classmethod
    def like(cls, buffer: Any, **storage: Any) -> CompactRecurrentRolloutBuffer:
        """A compact one with the sizes of a model's own: ``model.rollout_buffer = …like(model.rollout_buffer)``."""
        return cls(
            buffer.buffer_size, buffer.observation_space, buffer.action_space, buffer.hidden_state_shape, buffer.device,
            buffer.gae_lambda, buffer.gamma, buffer.n_envs, **storage,
        )  # fmt: skip

    def reset(self) -> None:
        """Empty it for the next rollout."""
        CompactRolloutBuffer.reset(self)
        for name in STATES:
            setattr(self, name, np.zeros(self.hidden_state_shape, dtype=np.float32))

    def add(self, *args: Any, lstm_states: RNNStates, **kwargs: Any) -> None:  # type: ignore[override]
        """Store one step of every env with the LSTM's states."""
        for name, value in zip(STATES, (*lstm_states.pi, *lstm_states.vf), strict=True):
            getattr(self, name)[self.pos] = value.cpu().numpy()
        CompactRolloutBuffer.add(self, *args, **kwargs)

    def _flatten(self) -> None:
        if not self.generator_ready:
            for name in STATES:
                setattr(self, name, getattr(self, name).swapaxes(1, 2))
        super()._flatten()

    def get(self, batch_size: int | None = None) -> Generator[Any, None, None]:
        """Sequences in order from a random start, as sb3-contrib gives them."""
        assert self.full, "Rollout buffer must be full before sampling from it"
        self._flatten()
        total = self.buffer_size * self.n_envs
        split = np.random.randint(total)
        indices = np.concatenate((np.arange(split, total), np.arange(split)))
        changes = np.zeros((self.buffer_size, self.n_envs))
        changes[0] = 1.0
        changes = self.swap_and_flatten(changes)
        step = batch_size or total
        for start in range(0, total, step):
            yield self._get_samples(indices[start : start + step], changes)

    def _get_samples(self, batch_inds: Array, env_change: Array, env: VecNormalize | None = None) -> Any:  # type: ignore[override]
        self.seq_start_indices, self.pad, self.pad_and_flatten = create_sequencers(
            self.episode_starts[batch_inds], env_change[batch_inds], self.device
        )
        sequences = len(self.seq_start_indices)
        actions = self.pad(self.actions[batch_inds])
        padded = sequences * actions.shape[1]
        starts = batch_inds[self.seq_start_indices]
        states = [self.to_torch(getattr(self, name)[starts].swapaxes(0, 1)).contiguous() for name in STATES]
        taken = self._taken(batch_inds)
        if self._obs.is_dict:
            observations: Any = {
                key: self.pad(value).reshape((padded, *self.obs_shape[key])) for key, value in taken.items()
            }
        else:
            observations = self.pad(taken).reshape((padded, *self.obs_shape))
        kind = RecurrentDictRolloutBufferSamples if self._obs.is_dict else RecurrentRolloutBufferSamples
        return kind(
            observations=observations,
            actions=actions.reshape((padded, *self.actions.shape[1:])),
            old_values=self.pad_and_flatten(self.values[batch_inds]),
            old_log_prob=self.pad_and_flatten(self.log_probs[batch_inds]),
            advantages=self.pad_and_flatten(self.advantages[batch_inds]),
            returns=self.pad_and_flatten(self.returns[batch_inds]),
            lstm_states=RNNStates((states[0], states[1]), (states[2], states[3])),
            episode_starts=self.pad_and_flatten(self.episode_starts[batch_inds]),
            mask=self.pad_and_flatten(np.ones_like(self.returns[batch_inds])),
        )
