"""DQN of Stable-Baselines3 on camera-like frames under Ray Tune: every trial gets the memory its own buffer needs.

    pip install 'rlmem[rllib]' stable-baselines3
    python docs/examples/tune_memory.py
    python docs/examples/tune_memory.py --buffers 2000,8000,5000000 --memory 3GB

The trial whose replay buffer fits no node never starts. ``docs/ray.md`` tells how.
"""

from __future__ import annotations

import argparse
import tempfile
from typing import Any

import gymnasium as gym
import numpy as np
import ray
from ray import tune

from rlmem import parse_size
from rlmem.ray import trainable_with_memory, trial_outcome

#: What decides the memory of these trials; the sampled buffer_size is set on it.
RUN = {
    "framework": {"name": "sb3"},
    "algorithm": "dqn",
    "observation": {"type": "box", "shape": [4, 84, 84], "dtype": "uint8"},
    "action": {"type": "discrete", "n": 4},
    "n_envs": 1,
    "batch_size": 32,
}


class Frames(gym.Env):
    """Noise to look at; episodes of 100 steps."""

    observation_space = gym.spaces.Box(0, 255, (4, 84, 84), np.uint8)
    action_space = gym.spaces.Discrete(4)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        """Begin an episode."""
        super().reset(seed=seed)
        self.left = 100
        return self.look(), {}

    def step(self, action: int) -> Any:
        """One more frame."""
        self.left -= 1
        return self.look(), float(action == 0), self.left == 0, False, {}

    def look(self) -> np.ndarray:
        """A frame of one brightness."""
        return np.full((4, 84, 84), self.np_random.integers(256), np.uint8)


def plan(config: dict[str, Any]) -> dict[str, Any]:
    """The run that a sampled configuration stands for."""
    return {**RUN, "buffer_size": config["buffer_size"]}


def train(config: dict[str, Any]) -> None:
    """Fill the buffer, then learn a little."""
    from stable_baselines3 import DQN

    rows = config["buffer_size"]
    model = DQN("CnnPolicy", Frames(), buffer_size=rows, batch_size=32, learning_starts=rows, device="cpu")
    model.learn(rows + 40)
    tune.report({"updates": model._n_updates})


def main() -> None:
    """Run the experiment on a cluster of its own, and show what was predicted and measured."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--buffers", default="1000,5000,1000000", help="replay buffers to try, in transitions")
    parser.add_argument("--memory", default="3GB", help="what Ray may give away on this machine")
    options = parser.parse_args()
    ray.init(
        address="local",
        num_cpus=2,
        _memory=parse_size(options.memory),
        object_store_memory=100 * 2**20,
        include_dashboard=False,
        log_to_driver=False,
    )
    sizes = [int(size) for size in options.buffers.split(",")]
    with tempfile.TemporaryDirectory(prefix="tune-memory-") as folder:
        results = tune.Tuner(
            trainable_with_memory(train, plan),
            param_space={"buffer_size": tune.grid_search(sizes)},
            run_config=tune.RunConfig(storage_path=folder, verbose=0),
        ).fit()
    print("buffer_size  ended     predicted    requested     measured")
    for result in results:
        names = ("predicted_bytes", "requested_bytes", "measured_peak_bytes")
        found = [result.metrics.get(f"rlmem/{name}") for name in names]
        columns = "".join(f"{nbytes / 2**20:9,.0f} MiB" if nbytes else f"{'':13}" for nbytes in found)
        outcome = trial_outcome(result)
        print(f"{result.config['buffer_size']:11,}  {outcome.kind:8}{columns}  {outcome.line}".rstrip())
    ray.shutdown()


if __name__ == "__main__":
    main()
