"""How much rules about scripts make of what they find: the same line may be a warning in one place and a remark in another."""

from __future__ import annotations

import json
from textwrap import dedent

import pytest

from rlmem.rules import find_in_script
from rlmem.scripts.reading import parse_script

KERAS = """
    import gymnasium as gym
    import keras


    class {name}:
        def __init__(self):
            self.model = keras.models.load_model("m.keras")

        def reset(self, seed=None, options=None):
            return 0, {{}}

        def {method}(self, state):
            return 0, self.model.predict(state), bool(state), False, {{}}
"""
RAY = """
    import ray
    from ray.rllib.algorithms.ppo import PPOConfig


    {init}
    PPOConfig().environment("ALE/Pong-v5").build().train()
"""
HUMAN = """
    import gymnasium as gym
    from stable_baselines3 import PPO

    env = gym.make("Hopper-v5", render_mode="{mode}")
    PPO("MlpPolicy", env).learn({steps})
"""
LOADED = """
    import gymnasium as gym
    from stable_baselines3 import SAC

    env = {env}
    model = SAC.load("model")
    action, _ = model.predict(env.reset()[0])
"""
PICKLED = """
    import pickle
    from tianshou.data import ReplayBuffer

    buffer = ReplayBuffer({rows})
    pickle.dump(buffer, open("buffer.pkl", "wb"))
"""
HISTORY = """
    import gymnasium as gym
    from stable_baselines3 import PPO


    class Trading(gym.Env):
        def __init__(self):
            self.history = []

        def reset(self, seed=None, options=None):
            return 0, {{}}

        def step(self, action):
            self.history.append(self.worth())
            return 0, 0.0, self.broke(), False, {{}}


    env = Trading()
    PPO("MlpPolicy", env).learn(1_000_000)
    {after}
"""
INFO = """
    import gymnasium as gym
    import numpy as np


    class Camera(gym.Env):
        def reset(self, seed=None, options=None):
            return 0, {{}}

        def step(self, action):
            frame = np.zeros({shape}, np.uint8)
            return 0, 0.0, self.over(), False, {{"frame": frame}}
"""
EPISODES = """
    from stable_baselines3.common.callbacks import BaseCallback


    class Recorder(BaseCallback):
        def __init__(self):
            super().__init__()
            self.rewards = []

        def _on_step(self):
            for info in {over}:
                self.rewards.append(info["r"])
            return True
"""
CAMERAS = """
    from isaaclab_tasks.utils import parse_env_cfg

    config = parse_env_cfg("Isaac-Cartpole-RGB-Camera-Direct-v0", num_envs={count})
"""
BULLET = """
    import gymnasium as gym
    import pybullet as p


    class Arm(gym.Env):
        def reset(self, seed=None, options=None):
            {first}
            self.arm = p.loadURDF("arm.urdf")
            return 0, {{}}

        def step(self, action):
            return 0, 0.0, self.over(), False, {{}}
"""
CELLS = """
    import gymnasium as gym


    class Maze(gym.Env):
        def __init__(self):
            self.visited = set()

        def step(self, action):
            self.visited.add({added})
            return 0, 0.0, self.over(), False, {{}}
"""
LOSSES = """
    import torch

    losses, loss = [], None
    for step in range(1000):
        {first}
        if step > 100:
            loss = torch.nn.functional.mse_loss(net(x), y)
            loss.backward({given})
            {inside}
        {outside}
"""
KEPT = """
    from stable_baselines3 import SAC


    class Agent:
        def __init__(self):
            self.model = SAC.load("best")

        def act(self, obs):
            return self.model.predict(obs)[0]


    {after}
"""
DUMPED = """
    import pickle

    pickle.dump(replay_buffer, file{protocol})
"""
KEEP = "losses.append(loss)"
#: What is found, and whether its fix leaves the program as it is.
FIXES = (
    ("MEM601", "safe", LOSSES.format(first="", given="", inside=KEEP, outside="")),
    ("MEM601", "unsafe", LOSSES.format(first="loss = 0.0", given="", inside="", outside=KEEP)),
    ("MEM601", "unsafe", LOSSES.format(first="", given="", inside="", outside=f"if loss is not None: {KEEP}")),
    ("MEM601", "unsafe", LOSSES.format(first="", given="create_graph=True", inside=KEEP, outside="")),
    ("MEM805", "safe", KEPT.format(after="print(Agent().act(0))")),
    ("MEM805", "unsafe", KEPT.format(after="Agent().model.predict(0)")),
    ("MEM805", "unsafe", KEPT.format(after="class Other(Agent): pass")),
    ("MEM805", "unsafe", KEPT.format(after='model = Agent().model; model.save("again")')),
    ("MEM806", "safe", DUMPED.format(protocol="")),
    ("MEM806", "unsafe", DUMPED.format(protocol=", protocol=2")),
)
CASES = (
    ("MEM603", "info", CELLS.format(added="(self.x, self.y)")),
    ("MEM603", "info", CELLS.format(added="tuple(self.agent_pos)")),
    ("MEM603", "warning", CELLS.format(added="self.picture()")),
    ("MEM609", "warning", KERAS.format(name="Judged(gym.Env)", method="step")),
    ("MEM609", "info", KERAS.format(name="Agent", method="act")),
    ("MEM701", "warning", RAY.format(init="ray.init()")),
    ("MEM701", "info", RAY.format(init="ray.init(num_cpus=8)")),
    ("MEM701", "info", RAY.format(init="if not ray.is_initialized(): ray.init()")),
    ("MEM701", "info", RAY.format(init="def start(): ray.init()")),
    ("MEM506", "warning", HUMAN.format(mode="human", steps="500_000")),
    ("MEM506", "info", HUMAN.format(mode="human", steps="10_000")),
    ("MEM506", "info", HUMAN.format(mode="rgb_array", steps="500_000")),
    ("MEM805", "warning", LOADED.format(env='gym.make("Humanoid-v5")')),
    ("MEM805", "warning", LOADED.format(env="make_my_environment()")),
    ("MEM805", "info", LOADED.format(env='gym.make("Hopper-v5")')),
    ("MEM806", "warning", PICKLED.format(rows="1_000_000")),
    ("MEM806", "warning", PICKLED.format(rows="rows")),
    ("MEM806", "info", PICKLED.format(rows="20_000")),
    ("MEM603", "warning", HISTORY.format(after="")),
    ("MEM603", "info", HISTORY.format(after="print(env.history)")),
    ("MEM608", "warning", INFO.format(shape="(480, 640, 3)")),
    ("MEM608", "info", INFO.format(shape="(84, 84)")),
    ("MEM607", "warning", EPISODES.format(over="self.model.ep_info_buffer")),
    ("MEM607", "info", EPISODES.format(over="self.finished")),
    ("MEM509", "warning", CAMERAS.format(count=8192)),
    ("MEM509", "info", CAMERAS.format(count=1024)),
    ("MEM604", "warning", BULLET.format(first="p.setGravity(0, 0, -10)")),
    ("MEM604", "info", BULLET.format(first="p.resetSimulation()")),
)


@pytest.mark.parametrize(("code", "severity", "text"), CASES, ids=[f"{c}-{s}-{n}" for n, (c, s, _) in enumerate(CASES)])
def test_a_finding_is_as_severe_as_what_the_script_shows_of_its_cost(code: str, severity: str, text: str) -> None:
    found = [finding for finding in find_in_script(parse_script(dedent(text))) if finding.code == code]
    assert [finding.severity for finding in found] == [severity]


@pytest.mark.parametrize(("code", "safety", "text"), FIXES, ids=[f"{c}-{s}-{n}" for n, (c, s, _) in enumerate(FIXES)])
def test_a_fix_is_safe_only_where_the_program_is_sure_to_do_the_same(code: str, safety: str, text: str) -> None:
    found = [finding for finding in find_in_script(parse_script(dedent(text))) if finding.code == code]
    assert [finding.fix and finding.fix.safety for finding in found] == [safety]


def test_a_fix_in_a_notebook_with_a_cell_that_cannot_be_read_is_unsafe() -> None:
    lines = ["from stable_baselines3 import SAC\n", 'model = SAC.load("best")\n', "model.predict(0)\n"]
    cells = [{"cell_type": "code", "source": source} for source in (lines, ["model.learn(\n"])]
    for kept, safety in ((cells[:1], "safe"), (cells, "unsafe")):
        script = parse_script(json.dumps({"cells": kept, "nbformat": 4}), "train.ipynb")
        found = [finding for finding in find_in_script(script) if finding.code == "MEM805"]
        assert [finding.fix and finding.fix.safety for finding in found] == [safety]


@pytest.mark.parametrize(
    "line",
    [
        'PPO("MlpPolicy", gym.make("Hopper-v5", render_mode=["human"])).learn(1_000_000)',
        'PPO("MlpPolicy", gym.make("Hopper-v5", render_mode={"a": 1})).learn(1_000_000)',
        'torch.compile(net, mode=["reduce-overhead"])',
        'wandb.watch(net, log=["all"])',
    ],
)
def test_a_list_where_a_word_is_meant_stops_no_rule(line: str) -> None:
    heads = "import gymnasium as gym\nimport torch\nimport wandb\nfrom stable_baselines3 import PPO\n"
    assert not [finding for finding in find_in_script(parse_script(heads + line)) if finding.severity != "info"]


def test_keras_is_told_to_call_the_model_only_where_it_is_plainly_the_second_tensorflow() -> None:
    old = KERAS.format(name="Agent", method="act").replace("import gymnasium as gym", "import gym")
    new = KERAS.format(name="Agent", method="act")
    remedies = [find_in_script(parse_script(dedent(text)))[0].remedy for text in (old, new)]
    assert remedies == ["model.predict_on_batch(x)", "model.predict_on_batch(x), or model(x, training=False)"]
