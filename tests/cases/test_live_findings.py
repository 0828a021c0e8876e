"""Rules on real processes: a kept graph, open figures and forgotten models are found while they run."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

pytest.importorskip("stable_baselines3", reason="stable-baselines3 is not installed")

from rlmem.core.findings import Finding
from rlmem.process import attach
from rlmem.process.explain import explain_tree, with_limits
from rlmem.process.limits import read_limits
from rlmem.rules import find_live

pytestmark = pytest.mark.truth


@contextmanager
def started(tmp_path: Path, program: str) -> Iterator[subprocess.Popen[str]]:
    script = tmp_path / "train.py"
    script.write_text(textwrap.dedent(program), encoding="utf-8")
    child = subprocess.Popen(
        [sys.executable, str(script)], env=attach.preload(os.environ), stdout=subprocess.PIPE, text=True
    )
    try:
        assert child.stdout is not None
        assert child.stdout.readline().strip() == "ready"
        yield child
    finally:
        child.kill()
        child.communicate()


def findings(child: subprocess.Popen[str]) -> dict[str, Finding]:
    tree = with_limits(explain_tree(child.pid, timeout_s=20), read_limits(pid=str(child.pid)))
    return {finding.code: finding for finding in find_live(tree)}


LEAKY = """
import time, torch
import gymnasium as gym
from stable_baselines3 import DQN
from stable_baselines3.common.callbacks import BaseCallback

torch.set_num_threads(1)

class Keeper(BaseCallback):
    def __init__(self):
        super().__init__()
        self.values = []
    def _on_step(self):
        observation = torch.as_tensor(self.locals["new_obs"])
        self.values.append(self.model.q_net(observation))
        if self.n_calls == 2500:
            print("ready", flush=True)
            while True: time.sleep(0.01)
        return True

model = DQN("MlpPolicy", gym.make("CartPole-v1"), buffer_size=3_000_000, learning_starts=10_000, device="cpu")
model.learn(3_000_000, callback=Keeper())
"""


def test_a_filling_buffer_and_a_kept_graph_are_found_in_a_real_training(tmp_path: Path) -> None:
    with started(tmp_path, LEAKY) as child:
        found = findings(child)
        command = [sys.executable, "-m", "rlmem", "explain", str(child.pid), "--json", "--timeout", "20"]
        said = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    kept = found["MEM601"]
    assert kept.severity == "warning"
    assert "2,500 tensors" in kept.title
    assert "values" in kept.title
    assert "MEM113" in found, sorted(found)
    assert {"MEM601", "MEM113"} <= {each["code"] for each in said["findings"]}


CLEAN = """
import time, torch
import gymnasium as gym
from stable_baselines3 import DQN
from stable_baselines3.common.callbacks import BaseCallback

torch.set_num_threads(1)

class Stop(BaseCallback):
    def _on_step(self):
        if self.n_calls == 300:
            print("ready", flush=True)
            while True: time.sleep(0.01)
        return True

model = DQN("MlpPolicy", gym.make("CartPole-v1"), buffer_size=2000, learning_starts=50, device="cpu")
model.learn(10_000, callback=Stop())
"""


def test_nothing_is_found_in_a_training_that_is_fine(tmp_path: Path) -> None:
    with started(tmp_path, CLEAN) as child:
        found = findings(child)
    assert {code for code in found if code[:4] in {"MEM6", "MEM7", "MEM0"}} == set()


FORGOTTEN = """
import gc, time, torch
import gymnasium as gym
from stable_baselines3 import PPO

torch.set_num_threads(1)
gc.disable()  # as large arrays do: nothing asks for a collection
for seed in range(4):
    model = PPO("MlpPolicy", gym.make("CartPole-v1"), n_steps=16, batch_size=16, n_epochs=1, device="cpu")
    model.learn(16)
    del model
print("ready", flush=True)
while True: time.sleep(0.01)
"""


def test_models_that_only_cycles_keep_are_counted(tmp_path: Path) -> None:
    with started(tmp_path, FORGOTTEN) as child:
        tree = explain_tree(child.pid, timeout_s=20)
    assert tree.top.models_alive == 4
    (finding,) = (each for each in find_live(tree) if each.code == "MEM612")
    assert "4 models" in finding.title


FIGURES = """
import time, matplotlib
matplotlib.use("Agg")
from matplotlib import pyplot as plt
plt.rcParams["figure.max_open_warning"] = 0
for n in range(30):
    plt.figure(); plt.plot([1, 2, 3])
for n in range(5):
    plt.close(plt.figure())
print("ready", flush=True)
while True: time.sleep(0.01)
"""


def test_open_figures_are_counted(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib", reason="matplotlib is not installed")
    with started(tmp_path, FIGURES) as child:
        found = findings(child)
    assert "30 figures" in found["MEM606"].title
