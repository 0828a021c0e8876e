"""The runs of a script, described without running it."""

from __future__ import annotations

from textwrap import dedent

import pytest

from rlmem.core.spaces import Box, Discrete
from rlmem.scripts import parse_script
from rlmem.sources.script import ScriptRun, runs

ATARI = """
from stable_baselines3 import DQN
from stable_baselines3.common.env_util import make_atari_env
from stable_baselines3.common.vec_env import VecFrameStack
SIZE = 1_000_000
env = make_atari_env("PongNoFrameskip-v4", n_envs=4)
env = VecFrameStack(env, n_stack=4)
model = DQN("CnnPolicy", env, buffer_size=SIZE, learning_starts=1000, verbose=1)
model.learn(int(1e7))
"""
SAC = 'from stable_baselines3 import SAC\nmodel = SAC("MlpPolicy", "HalfCheetah-v5"{more})\n'


def of(text: str) -> tuple[ScriptRun, ...]:
    return runs(parse_script(dedent(text), "train.py"))


def test_a_run_is_described_with_the_line_of_every_field() -> None:
    (run,) = of(ATARI)
    spec = run.spec
    assert spec.get("observation") == Box(shape=(84, 84, 1), dtype="uint8", low=0, high=255)
    assert spec.get("action") == Discrete(n=6)
    known = {path: spec.get(path) for path in ("algorithm", "n_envs", "frame_stack", "buffer_size", "total_timesteps")}
    assert known == {
        "algorithm": "dqn", "n_envs": 4, "frame_stack": 4, "buffer_size": 1_000_000, "total_timesteps": 10_000_000,
    }  # fmt: skip
    assert spec.origin("buffer_size") == "train.py:8"
    assert run.places["frame_stack"].line == 7
    assert run.place.line == 8


@pytest.mark.parametrize(
    ("more", "path", "value"),
    [
        (", batch_size=2**9", "batch_size", 512),
        (", buffer_size=int(1e5)", "buffer_size", 100_000),
        (", optimize_memory_usage=True", "optimize_memory_usage", True),
        (', policy_kwargs=dict(net_arch=[400, 300])', "network.net_arch", (400, 300)),
        (', replay_buffer_kwargs={"handle_timeout_termination": False}', "handle_timeout_termination", False),
        (", n_steps=3", "replay.kind", "n-step"),
    ],
)  # fmt: skip
def test_arguments_become_fields(more: str, path: str, value: object) -> None:
    (run,) = of(SAC.format(more=more))
    assert run.spec.get(path) == value


@pytest.mark.parametrize(
    "text",
    [
        SAC.format(more=", **options"),
        SAC.format(more=", buffer_size=size()"),
        SAC.format(more=", policy_kwargs=dict(features_extractor_class=Mine)"),
        SAC.format(more=", replay_buffer_class=Mine"),
        SAC.format(more=", brand_new_argument=1"),
        SAC.format(more="").replace("HalfCheetah-v5", "Unheard-of-v0"),
        SAC.format(more="").replace('"MlpPolicy"', "MyPolicy"),
        ATARI.replace("n_envs=4", "n_envs=count()"),
        ATARI.replace("VecFrameStack(env, n_stack=4)", "Strange(env)"),
        ATARI.replace("n_stack=4", "n_stack=stack()"),
    ],
)
def test_a_run_that_is_not_known_well_enough_is_left_out(text: str) -> None:
    assert of(text) == ()
