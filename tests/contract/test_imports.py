"""The classes cost next to nothing: numba and LLVM are imported when a buffer is built, not by every worker."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("stable_baselines3")
pytest.importorskip("numba")

SCRIPT = """
import sys
import gymnasium as gym
import numpy as np
from stable_baselines3 import PPO
from stable_baselines3.common.vec_env import SubprocVecEnv
from rlmem.buffers import Replay
from rlmem.sb3 import CompactHerReplayBuffer, CompactReplayBuffer, CompactRolloutBuffer

COMPILED = ("numba", "llvmlite")


class Seen(gym.Env):
    observation_space = gym.spaces.Box(0, 255, (8,), np.uint8)
    action_space = gym.spaces.Discrete(2)

    def reset(self, seed=None, options=None):
        return self.observation_space.sample(), {}

    def imported(self):
        return [name for name in COMPILED if name in sys.modules]


if __name__ == "__main__":
    env = SubprocVecEnv([Seen], start_method="spawn")
    print(env.env_method("imported")[0], [name for name in COMPILED if name in sys.modules])
    PPO("MlpPolicy", env, n_steps=8, rollout_buffer_class=CompactRolloutBuffer, device="cpu")
    print(env.env_method("imported")[0], [name for name in COMPILED if name in sys.modules])
    env.close()
"""


def test_workers_that_import_the_classes_import_no_compiler(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text(SCRIPT)
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == ["[] []", "[] ['numba', 'llvmlite']"]
