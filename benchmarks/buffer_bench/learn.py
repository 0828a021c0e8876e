"""SB3's ``learn()`` end to end with one buffer or another, on recorded experience that is played as an environment."""

from __future__ import annotations

import hashlib
import time
from pathlib import Path
from typing import Any

import numpy as np

from buffer_bench.recording import Recording
from buffer_bench.stores import spaces
from buffer_bench.workloads import WORKLOADS, recorded

#: name → label, what pip calls it, arguments of this package's buffer (None: SB3's own).
ROWS: dict[str, tuple[str, str, dict[str, Any] | None]] = {
    "sb3": ("SB3", "stable-baselines3", None),
    "rlmem": ("rlmem", "rlmem", {}),
    "rlmem-auto": ("rlmem, codec=auto", "rlmem", {"codec": "auto"}),
    "rlmem-lz4": ("rlmem, codec=lz4", "rlmem", {"codec": "lz4"}),
    "rlmem-zstd": ("rlmem, codec=zstd", "rlmem", {"codec": "zstd"}),
}


def environment(recording: Recording) -> Any:
    """Plays the recording whatever the actions are."""
    import gymnasium

    class Played(gymnasium.Env):
        """One episode after another."""

        observation_space, action_space = spaces(recording.layout)

        def __init__(self) -> None:
            self.at = -1

        def _seen(self, unit: int) -> Any:
            obs = recording.observation(unit)
            return obs[0] if recording.layout.plain else {key: array[0] for key, array in obs.items()}

        def reset(self, **_: Any) -> Any:
            self.at = (self.at + 1) % len(recording)
            while recording.first[recording.unit[self.at]] != recording.unit[self.at]:
                self.at = (self.at + 1) % len(recording)
            self.at -= 1
            return self._seen(int(recording.unit[self.at + 1])), {}

        def step(self, _action: Any) -> Any:
            self.at += 1
            reward, terminated = float(recording.reward[self.at]), bool(recording.terminated[self.at])
            truncated = bool(recording.truncated[self.at])
            return self._seen(int(recording.unit[self.at]) + 1), reward, terminated, truncated, {}

    return Played()


def small_extractor() -> type:
    """A network so small that the buffer's share of a step shows."""
    import torch
    from stable_baselines3.common.torch_layers import BaseFeaturesExtractor

    class Small(BaseFeaturesExtractor):
        """One convolution over 8×8 patches, and the vector as it is."""

        def __init__(self, space: Any) -> None:
            super().__init__(space, 64 + space["vector"].shape[0])
            self.image = torch.nn.Sequential(
                torch.nn.Conv2d(3, 8, 12, 12), torch.nn.ReLU(), torch.nn.Flatten(),
                torch.nn.Linear(8 * 7 * 7, 64), torch.nn.ReLU(),
            )  # fmt: skip

        def forward(self, seen: dict[str, Any]) -> Any:
            return torch.cat([self.image(seen["image"]), seen["vector"]], dim=1)

    return Small


class LearnSession:
    """Answers the parent's commands."""

    def __init__(self, *, workload: str, store: str, capacity: int, folder: str, seed: int) -> None:
        import stable_baselines3

        chosen = WORKLOADS[workload]
        recording = Recording(Path(folder) / chosen.recording, chosen.layout, recorded(capacity))
        options: dict[str, Any] = {}
        if ROWS[store][2] is not None:
            from rlmem.sb3 import CompactReplayBuffer

            options = {"replay_buffer_class": CompactReplayBuffer, "replay_buffer_kwargs": ROWS[store][2]}
        common = {"buffer_size": capacity, "learning_starts": 0, "seed": seed, "device": "cpu"}
        env = environment(recording)
        if workload == "sac":
            network = {"features_extractor_class": small_extractor(), "net_arch": [64, 64]}
            self.model = stable_baselines3.SAC(
                "MultiInputPolicy", env, batch_size=256, policy_kwargs=network, **common, **options
            )
        else:
            self.model = stable_baselines3.DQN(
                "CnnPolicy", env, batch_size=32, train_freq=4, target_update_interval=1_000, **common, **options
            )
        for number in range(capacity):  # a full buffer, as most of a training has
            step = recording.step(number)
            reward, ended = recording.reward[number : number + 1], step.terminated or step.truncated
            infos = [{"TimeLimit.truncated": step.truncated}]
            self.model.replay_buffer.add(step.obs, step.next_obs, step.action, reward, np.array([ended]), infos)

    def learn(self, steps: int) -> dict[str, Any]:
        """Train for so many steps."""
        start, busy = time.perf_counter(), time.process_time()
        self.model.learn(steps, reset_num_timesteps=False, log_interval=10**9)
        return {"seconds": time.perf_counter() - start, "cpu_s": time.process_time() - busy}

    def parameters(self) -> dict[str, Any]:
        """A digest of everything learned: the same with every exact buffer."""
        digest = hashlib.sha256()
        for name, tensor in sorted(self.model.policy.state_dict().items()):
            digest.update(name.encode() + tensor.numpy().tobytes())
        return {"digest": digest.hexdigest()}
