"""Plans of real scripts against the same scripts measured in fresh processes."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from rlmem.cli import run as cli
from rlmem.core.points import PointLimits
from rlmem.sources.target import parse_target
from rlmem.trace.dryrun import DryRun, dry_run
from rlmem.trace.points import measure_point
from rlmem.trace.target import find_runnable

pytestmark = pytest.mark.truth
ROOT = Path(__file__).parents[2]

SAC = """
import argparse
from stable_baselines3 import SAC
from stable_baselines3.common.callbacks import CheckpointCallback
parser = argparse.ArgumentParser()
parser.add_argument("--buffer-size", type=int, default=100_000)
args = parser.parse_args()
model = SAC("MlpPolicy", "Pendulum-v1", buffer_size=args.buffer_size, tensorboard_log="tensorboard")
model.learn(50_000, callback=CheckpointCallback(10, "checkpoints"))
model.save("model")
"""
IMAGES = """
import gymnasium as gym
import numpy as np
from stable_baselines3 import PPO
from stable_baselines3.common.env_util import make_vec_env

class Camera(gym.Env):
    observation_space = gym.spaces.Box(0, 255, (64, 64, 3), np.uint8)
    action_space = gym.spaces.Discrete(4)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.steps = 0
        return self.observation_space.sample(), {}

    def step(self, action):
        self.steps += 1
        return self.observation_space.sample(), 1.0, False, self.steps >= 50, {}

def make_model(device="auto"):
    return PPO("CnnPolicy", make_vec_env(Camera, n_envs=2), n_steps=256, batch_size=64, device=device)

if __name__ == "__main__":
    make_model().learn(5000)
"""
ROBOT = """
import gymnasium as gym
import numpy as np
from stable_baselines3 import SAC
from stable_baselines3.common.env_util import make_vec_env
KWARGS = {}

class Robot(gym.Env):
    observation_space = gym.spaces.Dict({
        "image": gym.spaces.Box(0, 255, (64, 64, 3), np.uint8),
        "vector": gym.spaces.Box(-10, 10, (12,), np.float32),
        "off": gym.spaces.Box(0, 255, (36, 36, 1), np.uint8),
    })
    action_space = gym.spaces.Box(-1, 1, (3,), np.float32)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.steps, self.at = 0, self.np_random.uniform(10, 50, 2)
        return self.see(), {}

    def see(self):
        y, x = np.mgrid[:64, :64]
        image = np.stack([x * 2, y * 3, x + y], -1).astype(np.uint8)
        image[(x - self.at[0]) ** 2 + (y - self.at[1]) ** 2 < 60] = 255
        vector = self.np_random.standard_normal(12).astype(np.float32)
        return {"image": image, "vector": vector, "off": np.zeros((36, 36, 1), np.uint8)}

    def step(self, action):
        self.steps += 1
        self.at = np.clip(self.at + action[:2] * 2, 8, 56)
        return self.see(), 0.0, False, self.steps >= 100, {}

if __name__ == "__main__":
    SAC("MultiInputPolicy", make_vec_env(Robot, n_envs=2), buffer_size=12_000, batch_size=32, **KWARGS).learn(50_000)
"""
COMPACT = ROBOT.replace(
    "KWARGS = {}",
    "from rlmem.sb3 import CompactReplayBuffer\nKWARGS = {'replay_buffer_class': CompactReplayBuffer}",
)
CODED = COMPACT.replace("Buffer}", "Buffer, 'replay_buffer_kwargs': {'codec': 'auto'}}")
SUBPROC = """
from stable_baselines3 import A2C
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.vec_env import SubprocVecEnv
if __name__ == "__main__":
    A2C("MlpPolicy", make_vec_env("CartPole-v1", n_envs=3, vec_env_cls=SubprocVecEnv)).learn(10_000)
"""
OWN = """
import argparse, collections, random
import gymnasium as gym, numpy as np, torch
parser = argparse.ArgumentParser()
parser.add_argument("--buffer-size", type=int, default=400_000)
args = parser.parse_args()
env = gym.make("CartPole-v1")
states = np.zeros((args.buffer_size, 4), np.float32)
later = torch.zeros(args.buffer_size, 16)
recent = collections.deque(maxlen=20_000)
net = torch.nn.Sequential(torch.nn.Linear(4, 256), torch.nn.ReLU(), torch.nn.Linear(256, 2))
optimizer = torch.optim.Adam(net.parameters())
obs, _ = env.reset()
for step in range(1_000_000):
    action = env.action_space.sample()
    obs, reward, terminated, truncated, _ = env.step(action)
    states[step % len(states)] = obs
    recent.append((obs, action, reward))
    if terminated or truncated:
        obs, _ = env.reset()
    if step > 200:
        batch = torch.as_tensor(states[np.random.randint(0, step, 128) % len(states)])
        loss = net(batch).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    if step == 100:
        open("log.txt", "w").write("a line")
"""


def script(folder: Path, text: str, name: str = "train.py") -> str:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return str(path)


def plan_of(folder: Path, text: str, capsys: pytest.CaptureFixture[str], *options: str) -> dict[str, object]:
    code = cli(["plan", script(folder, text), "--python", sys.executable, "--json", *options])
    captured = capsys.readouterr()
    assert code == 0, captured.err
    document: dict[str, object] = json.loads(captured.out)
    return document


def try_out(folder: Path, target: str, **options: object) -> DryRun:
    python = options.pop("python", sys.executable)
    found = find_runnable(parse_target(target, python=str(python)), folder=folder)
    return dry_run(found, **options)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("text", "within"),
    [
        pytest.param(SAC, 0.04, id="sac", marks=pytest.mark.long),
        pytest.param(IMAGES, 0.05, id="images", marks=pytest.mark.long),
        pytest.param(SUBPROC, 0.05, id="subproc"),
        pytest.param(OWN, 0.05, id="own", marks=pytest.mark.long),
        pytest.param(COMPACT, 0.04, id="compact", marks=pytest.mark.long),
        pytest.param(CODED, 0.04, id="coded", marks=pytest.mark.long),
    ],
)
def test_a_script_peaks_where_its_dry_run_says(tmp_path: Path, text: str, within: float) -> None:
    if "rlmem" in text:
        pytest.importorskip("numba", reason="the 'buffers' extra is not installed; 'make test' installs it")
        # Compiled before, not by the dry run alone: LLVM at work takes 70 MB more than what it leaves in the cache.
        subprocess.run([sys.executable, "-c", "import rlmem.buffers.store, rlmem.buffers.priorities"], check=True)
    point = measure_point(
        parse_target(script(tmp_path, text), python=sys.executable), {}, PointLimits(updates=60, time_limit_s=120)
    )
    assert point.status == "ok", point.note
    assert point.predicted is not None
    assert point.predicted.expected == pytest.approx(point.peak_bytes, rel=within)
    assert point.peak_bytes <= point.predicted.high * 1.02
    for name in ("replay.observations[image]", "replay.actions"):
        if name in point.components:  # a compact buffer's own figure, when it is full
            assert point.predicted_components[name] == pytest.approx(point.components[name], rel=0.2)


@pytest.mark.long
def test_a_sample_of_real_observations_says_what_a_codec_would_make_of_them(tmp_path: Path) -> None:
    pytest.importorskip("numba", reason="the 'buffers' extra is not installed; 'make test' installs it")
    pytest.importorskip("zstandard")
    run = try_out(tmp_path, script(tmp_path, ROBOT))
    assert run.facts["sample"]["transitions"] >= 64
    found = run.facts["sized"]
    assert found["auto"]["off"]["constant"]
    image = found["auto"]["image"]
    assert 0 < image["low"] <= image["expected"] <= image["high"] < image["unit_bytes"] / 8
    assert found["ends"] == pytest.approx(0.01, abs=0.01)


@pytest.mark.long
def test_frames_of_a_stack_are_recognised_in_a_sample(tmp_path: Path) -> None:
    pytest.importorskip("numba", reason="the 'buffers' extra is not installed; 'make test' installs it")
    text = IMAGES.replace(
        "make_vec_env(Camera, n_envs=2), n_steps=256", "VecFrameStack(make_vec_env(Camera, n_envs=2), 4), n_steps=1024"
    )
    text = "from stable_baselines3.common.vec_env import VecFrameStack\n" + text
    run = try_out(tmp_path, script(tmp_path, text))
    assert run.facts["sized"]["keys"]["observation"]["stack"] == 4


def test_a_dry_run_leaves_no_log_checkpoint_or_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for text in (SAC, OWN):
        run = try_out(tmp_path, script(tmp_path, text))
        assert run.stop is None, run.stop
        assert run.outcome.peak.pss_bytes < 1.5 * 2**30
        assert [path.name for path in tmp_path.iterdir()] == ["train.py"]


@pytest.mark.long
def test_a_change_reaches_the_model_or_the_scripts_own_option(tmp_path: Path) -> None:
    target = script(tmp_path, SAC)
    run = try_out(tmp_path, target, changes={"batch_size": 32, "buffer_size": 5000})
    assert run.facts["model"]["settings"]["batch_size"] == 32
    assert run.facts["model"]["settings"]["buffer_size"] == 5000
    refused = try_out(tmp_path, target, changes={"n_quantiles": 5})
    assert refused.stop is not None
    assert "SAC takes no n_quantiles" in refused.stop["message"]


@pytest.mark.long
def test_a_change_that_nothing_takes_is_refused_in_a_loop_of_its_own_too(tmp_path: Path) -> None:
    run = try_out(tmp_path, script(tmp_path, OWN), changes={"n_steps": 5})
    assert run.stop is not None
    assert "n_steps" in run.stop["message"]


@pytest.mark.long
def test_a_learner_with_arguments_of_its_own_is_rehearsed(tmp_path: Path) -> None:
    text = """
from sb3_contrib import MaskablePPO
from sb3_contrib.common.envs import InvalidActionEnvDiscrete
MaskablePPO("MlpPolicy", InvalidActionEnvDiscrete(dim=20, n_invalid_actions=10), n_steps=64).learn(1000, use_masking=True)
"""
    run = try_out(tmp_path, script(tmp_path, text))
    assert run.stop is None, run.stop
    assert run.facts["rehearsal"]["reached"]["n_steps"] == 64


@pytest.mark.long
def test_versions_and_sizes_are_those_of_the_named_interpreter(tmp_path: Path) -> None:
    old = Path(sys.prefix) / "sb3-2.7.0" / "bin" / "python"
    if not old.exists():
        pytest.skip("no environment with stable-baselines3 2.7.0; 'make test' makes one")
    script(tmp_path, IMAGES, "project.py")
    sizes = {}
    for python in (sys.executable, str(old)):
        run = try_out(tmp_path, "project:make_model", python=python)
        assert run.met == "learn", run.stop
        version = run.facts["versions"]["stable_baselines3"]
        rows = run.facts["rehearsal"]["buffers"]["rollout_buffer"]
        sizes[version] = next(row["nbytes"] for row in rows if row["name"] == "observations")
    assert sizes == {"2.9.2": 512 * 64 * 64 * 3, "2.7.0": 512 * 64 * 64 * 3 * 4}


def test_a_run_that_stops_after_the_model_is_described_is_planned_in_closed_form(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = IMAGES.replace("self.steps = 0", "raise RuntimeError('no display')")
    document = plan_of(tmp_path, text, capsys)
    assert document["method"] == "closed form"
    notes = document["notes"]
    assert isinstance(notes, list)
    assert "no display" in notes[0]
    assert "train.py:13" in notes[0]


def test_a_factory_that_returns_no_model_is_told_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    script(tmp_path, "def make():\n    return {'a': 1}\n", "project.py")
    run = try_out(tmp_path, "project:make")
    assert run.stop is not None
    assert "returned dict, which has no learn()" in run.stop["message"]


def test_a_script_is_planned_changed_like_a_preset(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    target = script(tmp_path, SAC)
    vary = ("--vary", "buffer_size=20k,40k", "--machines", "4GB", "--python", sys.executable, "--json")
    assert cli(["capacity", target, *vary, "--", "--buffer-size", "100000"]) == 0
    document = json.loads(capsys.readouterr().out)
    (slope,) = document["per_unit"]
    assert slope["bytes"] == 2 * 3 * 4 + 4 * 4  # Pendulum: two observations of three floats, and four arrays of one
    assert slope["fixed_bytes"] > 250e6  # what was measured, imports and all
    assert [machine["largest"] for machine in document["machines"]] == [100_000]  # more than its 50,000 steps


@pytest.mark.long
def test_two_scripts_compare_and_a_script_is_assessed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    target = script(tmp_path, SAC)
    python = ("--python", sys.executable, "--json")
    assert cli(["compare", target, target, "--set-right", "buffer_size=200k", *python]) == 0
    rows = {row["component"]: row for row in json.loads(capsys.readouterr().out)["devices"][0]["components"]}
    assert rows["replay.observations"]["right_bytes"] == 2 * rows["replay.observations"]["left_bytes"]
    assert cli(["assess", target, "--ram", "16GB", *python]) == 0
    units = {row["unit"]: row["bytes_each"] for row in json.loads(capsys.readouterr().out)["units"]}
    assert units["transition"] == 40


def test_a_loop_of_its_own_says_that_it_has_no_description_to_change(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = OWN.replace("range(1_000_000)", "range(300)")
    assert cli(["assess", script(tmp_path, text), "--python", sys.executable]) == 3
    assert "a loop of its own has no description" in capsys.readouterr().err
