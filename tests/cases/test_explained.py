"""Real training processes, explained while they train: what they hold is named, and they are none the worse for it."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

pytest.importorskip("stable_baselines3", reason="stable-baselines3 is not installed")

from rlmem.app.advice import advise
from rlmem.core.holdings import Explanation, TreeExplanation
from rlmem.process import attach
from rlmem.process.explain import explain_process, explain_tree

pytestmark = pytest.mark.truth


@contextmanager
def started(tmp_path: Path, program: str, *words: str) -> Iterator[subprocess.Popen[str]]:
    script = tmp_path / "train.py"
    script.write_text(textwrap.dedent(program), encoding="utf-8")
    command = [sys.executable, str(script), *words]
    child = subprocess.Popen(command, env=attach.preload(os.environ), stdout=subprocess.PIPE, text=True)
    try:
        yield child
    finally:
        child.kill()
        child.communicate()


def said(child: subprocess.Popen[str]) -> str:
    assert child.stdout is not None
    return child.stdout.readline().strip()


def held(found: Explanation) -> dict[str, int]:
    return {each.path: each.resident_bytes for each in found.holdings}


REPLAY = """
import numpy as np, gymnasium as gym, torch
from gymnasium import spaces
from stable_baselines3 import SAC
from stable_baselines3.common.callbacks import BaseCallback

class Camera(gym.Env):
    observation_space = spaces.Dict({"image": spaces.Box(0, 255, (36, 36, 3), np.uint8),
                                     "vector": spaces.Box(-1, 1, (5,), np.float32)})
    action_space = spaces.Box(-1, 1, (2,), np.float32)
    def __init__(self): self._frames, self.t = np.ones((300, 36, 36, 3), np.uint8), 0
    def seen(self): return {"image": self._frames[self.t % 300], "vector": np.zeros(5, np.float32)}
    def reset(self, seed=None, options=None): self.t = 0; return self.seen(), {}
    def step(self, action): self.t += 1; return self.seen(), 0.0, False, self.t >= 100, {}

class Stop(BaseCallback):
    def _on_step(self):
        if self.n_calls == 600:
            print("ready", flush=True); import time
            while True: time.sleep(0.01)
        return True

def main():
    env = gym.wrappers.TimeLimit(Camera(), 90)
    model = SAC("MultiInputPolicy", env, buffer_size=100_000, learning_starts=500, batch_size=16, train_freq=40, device="cpu")
    model.learn(60_000, callback=Stop())
main()
"""


def test_a_replay_buffer_its_networks_and_its_environment_are_named(tmp_path: Path) -> None:
    with started(tmp_path, REPLAY) as child:
        assert said(child) == "ready"
        found = explain_process(child.pid, timeout_s=20)
        advice = advise(found, timeout_s=20)
    assert found.way == "agent"
    names = held(found)
    image = next(each for each in found.holdings if each.path == "model.replay_buffer.observations['image']")
    assert (image.filled, image.capacity) == (599, 100_000)  # SB3 adds after the callback
    assert image.nbytes == 100_000 * 36 * 36 * 3
    assert 599 * 36 * 36 * 3 <= image.resident_bytes <= 600 * 36 * 36 * 3 + (2 << 20)
    assert image.run_rows == 59_999
    assert image.growth_bytes == pytest.approx(59_999 * 36 * 36 * 3 - image.resident_bytes, abs=2)
    assert image.full_growth_bytes == image.nbytes - image.resident_bytes
    assert names["env.unwrapped._frames"] == 300 * 36 * 36 * 3
    assert "model.critic.optimizer.state[…].exp_avg" in names
    assert found.progress is not None
    assert (found.progress.step, found.progress.total) == (600, 60_000)
    assert found.phase == "collect"
    assert found.unexplained_bytes < 0.1 * found.rss_bytes
    parts = found.named_bytes + sum(each.resident_bytes for each in found.portions) + found.unexplained_bytes
    assert parts == found.rss_bytes
    twice = next(each for each in advice if each.finding.code == "MEM101")
    buffer = sum(nbytes for path, nbytes in names.items() if "replay_buffer" in path)
    assert twice.returns_bytes is not None
    assert 0.25 * buffer < twice.returns_bytes < 0.6 * buffer


WORKERS = """
import sys, time, numpy as np, gymnasium as gym
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.vec_env import SubprocVecEnv
class Tables(gym.Wrapper):
    def __init__(self, env): super().__init__(env); self.table = np.ones((1000, 500))
if __name__ == "__main__":
    shared = np.ones(5_000_000)
    env = make_vec_env(lambda: Tables(gym.make("CartPole-v1")), n_envs=2, vec_env_cls=SubprocVecEnv,
                       vec_env_kwargs={"start_method": sys.argv[1]})
    env.reset()
    print("ready", flush=True)
    time.sleep(600)
"""


@pytest.mark.parametrize("method", ["fork", "forkserver"])
def test_workers_are_part_of_the_tree_and_what_a_fork_shares_is_told_apart(tmp_path: Path, method: str) -> None:
    with started(tmp_path, WORKERS, method) as child:
        assert said(child) == "ready"
        tree = explain_tree(child.pid, timeout_s=20)
        named = explain_tree(child.pid, timeout_s=20, fork_names=True)
        for each in tree.processes[1:]:
            os.kill(each.pid, 9)
    workers = [each for each in tree.processes if each.role == "worker"]
    assert len(workers) == 2
    # Asking for names writes to the pages that a fork shares, so a fork is asked only when told to.
    assert {worker.way for worker in workers} == {"pages" if method == "fork" else "agent"}
    for worker in [each for each in named.processes if each.role == "worker"]:
        assert worker.way == "agent"
        assert any(path.endswith(".table") and nbytes == 4_000_000 for path, nbytes in held(worker).items())
    for worker in workers:
        assert worker.shared_anonymous_bytes is not None
        assert (worker.shared_anonymous_bytes > 40_000_000) == (method == "fork")
    assert _sum(tree) < sum(each.rss_bytes for each in tree.processes)


def _sum(tree: TreeExplanation) -> int:
    assert tree.pss_bytes is not None
    return tree.pss_bytes


TRAINING = """
import hashlib, os, sys, time, torch
import gymnasium as gym
from stable_baselines3 import DQN
torch.set_num_threads(1)
class Slow(gym.Wrapper):
    def step(self, action):
        time.sleep(float(sys.argv[1])); return self.env.step(action)
model = DQN("MlpPolicy", Slow(gym.make("CartPole-v1")), buffer_size=2000, learning_starts=50, batch_size=16, seed=3, device="cpu")
print("ready", flush=True)
model.learn(4000)
digest = hashlib.sha256()
for value in model.policy.state_dict().values():
    digest.update(value.numpy().tobytes())
digest.update(model.replay_buffer.observations.tobytes())
digest.update(str(torch.rand(1).item()).encode())
print(digest.hexdigest(), flush=True)
"""


@pytest.mark.parametrize("times", [10, pytest.param(200, marks=pytest.mark.long)])
def test_any_number_of_explanations_changes_nothing_of_what_is_learned(tmp_path: Path, times: int) -> None:
    with started(tmp_path, TRAINING, "0") as child:
        assert said(child) == "ready"
        unwatched = said(child)
    with started(tmp_path, TRAINING, str(times / 20_000)) as child:
        assert said(child) == "ready"
        begin, count, named = time.monotonic(), 0, 0
        while count < times and child.poll() is None and time.monotonic() - begin < 240:
            found = explain_process(child.pid, timeout_s=20)
            named += found.way == "agent"
            count += 1
        assert (count, named) == (times, times)
        assert said(child) == unwatched


def test_torchrls_storage_tells_its_fill(tmp_path: Path) -> None:
    pytest.importorskip("torchrl", reason="torchrl is not installed")
    program = """
    import time, torch
    from tensordict import TensorDict
    from torchrl.data import LazyTensorStorage, ReplayBuffer
    buffer = ReplayBuffer(storage=LazyTensorStorage(5000))
    buffer.extend(TensorDict({"pixels": torch.ones(700, 3000, dtype=torch.uint8)}, [700]))
    print("ready", flush=True); time.sleep(600)
    """
    with started(tmp_path, program) as child:
        while said(child) != "ready":  # TorchRL says what it does
            assert child.poll() is None
        found = explain_process(child.pid, timeout_s=20)
    pixels = next(each for each in found.holdings if "pixels" in each.path)
    assert (pixels.filled, pixels.capacity, pixels.nbytes) == (700, 5000, 15_000_000)
    assert pixels.resident_bytes < 5_000_000
