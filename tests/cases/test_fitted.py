"""Runs that do not fit, fitted, applied and run under the very cap they did not fit."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from rlmem.cli import run as cli
from rlmem.runner.child import run_child
from rlmem.units import parse_size

pytestmark = pytest.mark.truth
ROOT = Path(__file__).parents[2]

ROBOT = '''\
"""A robot with a camera."""
import gymnasium as gym
import numpy as np
from stable_baselines3 import SAC
from stable_baselines3.common.env_util import make_vec_env


class Robot(gym.Env):
    observation_space = gym.spaces.Dict({
        "image": gym.spaces.Box(0, 255, (84, 84, 3), np.uint8),
        "vector": gym.spaces.Box(-10, 10, (31,), np.float32),
    })
    action_space = gym.spaces.Box(-1, 1, (8,), np.float32)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.steps = 0
        return self.observation_space.sample(), {}

    def step(self, action):
        self.steps += 1
        return self.observation_space.sample(), 1.0, False, self.steps >= 100, {}


if __name__ == "__main__":
    model = SAC(
        "MultiInputPolicy",
        make_vec_env(Robot, n_envs=2),
        buffer_size=28_000,  # as much as the machine had
        batch_size=16,
    )
    model.learn(1_000_000)
'''

LOOP = '''\
# A DQN loop as CleanRL writes it, on frames that stand for a game's.
from dataclasses import dataclass

import gymnasium as gym
import numpy as np
import torch
from stable_baselines3.common.buffers import ReplayBuffer


@dataclass
class Args:
    total_timesteps: int = 1_500
    buffer_size: int = 30_000
    """the replay memory"""
    batch_size: int = 32
    learning_starts: int = 1_000


class Frames(gym.Env):
    observation_space = gym.spaces.Box(0, 255, (4, 84, 84), np.uint8)
    action_space = gym.spaces.Discrete(4)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.frames = np.zeros((4, 84, 84), np.uint8)
        return self.frames.copy(), {}

    def step(self, action):
        self.frames = np.roll(self.frames, -1, 0)
        self.frames[-1] = self.np_random.integers(0, 255, (84, 84), np.uint8)
        return self.frames.copy(), 1.0, False, False, {}


if __name__ == "__main__":
    args = Args()
    env = Frames()
    network = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(4 * 84 * 84, 4))
    optimizer = torch.optim.Adam(network.parameters())
    rb = ReplayBuffer(args.buffer_size, env.observation_space, env.action_space, "cpu")  # frames, twice and four times
    obs, _ = env.reset(seed=1)
    for step in range(args.total_timesteps):
        action = env.action_space.sample()
        next_obs, reward, terminated, truncated, _ = env.step(action)
        rb.add(obs[None], next_obs[None], np.array([action]), np.array([reward]), np.array([terminated]), [{}])
        obs = next_obs
        if step > args.learning_starts:
            data = rb.sample(args.batch_size)
            loss = network(data.observations.float() / 255).gather(1, data.actions).square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    print("trained", rb.size())
'''


def fit(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, dict[str, Any], str]:
    code = cli(["fit", "--json", *arguments])
    captured = capsys.readouterr()
    assert captured.out, captured.err
    return code, json.loads(captured.out), captured.err


@pytest.mark.long
def test_a_script_is_edited_and_runs_where_it_did_not(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path = tmp_path / "train.py"
    path.write_text(ROBOT)
    arguments = (str(path), "--ram", "1.4GB", "--python", sys.executable, "--timeout", "60", "--apply", "--verify")
    code, document, err = fit(capsys, *arguments)
    assert (code, document["status"]) == (0, "fits"), err
    assert [step["name"] for step in document["steps"]] == ["compact-store"]
    assert path.with_name("train.py.orig").read_text() == ROBOT
    edited = path.read_text()
    assert "        replay_buffer_class=CompactReplayBuffer,\n" in edited
    assert "# as much as the machine had" in edited
    assert set(ROBOT.splitlines()) <= set(edited.splitlines())
    verified = document["verified"]
    assert verified["before"]["status"] == "oom"
    assert verified["after"]["status"] == "ok"
    assert verified["after"]["peak_bytes"] < parse_size("1.4GB")
    assert verified["after"]["peak_bytes"] == pytest.approx(document["after"]["peaks"][0]["expected_bytes"], rel=0.12)
    assert not list(tmp_path.glob(".rlmem*"))


@pytest.mark.long
def test_a_loop_of_its_own_gets_another_buffer_and_runs(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path = tmp_path / "dqn.py"
    path.write_text(LOOP)
    arguments = (str(path), "--ram", "1.4GB", "--python", sys.executable, "--timeout", "60", "--apply")
    code, document, err = fit(capsys, *arguments)
    assert (code, document["status"]) == (0, "fits"), err
    assert [step["name"] for step in document["steps"]] == ["compact-store"]
    before, after = (document[side]["peaks"][0] for side in ("before", "after"))
    assert before["expected_bytes"] - after["expected_bytes"] > 1_200_000_000  # 30,000 × 56,448 B, a frame of it kept
    assert "rb = CompactReplayBuffer(args.buffer_size" in path.read_text()
    outcome = run_child([sys.executable, str(path)], cwd=tmp_path, cap_bytes=parse_size("1.4GB"), time_limit_s=120)
    assert (outcome.status, outcome.stdout.strip()) == ("ok", "trained 1500"), outcome.stderr


@pytest.mark.long
def test_a_described_run_is_measured_before_and_after(capsys: pytest.CaptureFixture[str]) -> None:
    """The swarm without the graph of its collection, by the program that runs described runs."""
    arguments = ("drone-swarm", "--set", "agents=64", "--ram", "1.3GB", "--keep", "storage,batch_size,agents")
    code, document, err = fit(capsys, *arguments, "--lossless", "--verify", "--python", sys.executable)
    assert (code, document["status"]) == (0, "fits"), err
    verified = document["verified"]
    assert verified["after"]["status"] == "ok"
    assert verified["took_effect"]
    assert verified["before"]["status"] == "ok", verified
    assert verified["real_saving_bytes"] == pytest.approx(verified["predicted_saving_bytes"], rel=0.5)


@pytest.mark.long
def test_dqn_on_atari_with_a_million_frames_is_made_to_start(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """The script's default needs 53 GiB; with the buffer it is told it runs under the cap, updates included."""
    pytest.importorskip("ale_py")
    path = tmp_path / "dqn_atari.py"
    path.write_text((ROOT / "accuracy" / "scripts" / "dqn_atari.py").read_text())
    arguments = (str(path), "--ram", "3GB", "--python", sys.executable, "--timeout", "60", "--apply", "--verify")
    code, document, err = fit(capsys, *arguments, "--", "--learning-starts", "2000")
    assert (code, document["status"]) == (0, "fits"), err
    assert [step["name"] for step in document["steps"]] == ["buffer-size"]
    size = document["changes"]["buffer_size"]
    assert 35_000 < size < 50_000
    assert f"default={size:_})" in path.read_text()
    assert document["verified"]["before"]["status"] == "oom"
    assert document["verified"]["after"]["status"] == "ok"
    assert document["verified"]["after"]["peak_bytes"] < 3_000_000_000


@pytest.mark.long
def test_qrdqn_of_the_zoo_runs_with_its_million_frames(capsys: pytest.CaptureFixture[str]) -> None:
    """RL Zoo's default of 1M transitions on Atari needs 53 GiB, and 8 with every frame once: the same run, bit for bit."""
    pytest.importorskip("ale_py")
    pytest.importorskip("rl_zoo3")
    arguments = (
        "zoo:qrdqn/PongNoFrameskip-v4",
        "--ram",
        "12GB",
        "--python",
        sys.executable,
        "--timeout",
        "60",
        "--verify",
    )
    code, document, err = fit(capsys, *arguments)
    assert (code, document["status"]) == (0, "fits"), err
    assert [step["name"] for step in document["steps"]] == ["compact-store"]
    assert "buffer_size" not in document["changes"]
    assert document["verified"]["before"]["status"] == "oom"
    assert document["verified"]["after"]["status"] == "ok"
    assert document["verified"]["after"]["peak_bytes"] < 12_000_000_000
