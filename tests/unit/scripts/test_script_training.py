"""Models and environments as scripts build them."""

from __future__ import annotations

from textwrap import dedent

import pytest

from rlmem.scripts import UNKNOWN, parse_script
from rlmem.scripts.training import Environment, environment_of, models

IMPORTS = """
import gymnasium as gym
from functools import partial
from stable_baselines3 import PPO, DQN, SAC
from stable_baselines3.common.env_util import make_vec_env, make_atari_env
from stable_baselines3.common.monitor import Monitor
from stable_baselines3.common.vec_env import DummyVecEnv, SubprocVecEnv, VecFrameStack, VecNormalize
class MyEnv(gym.Env):
    def reset(self): ...
    def step(self, action): ...
def make(i):
    def thunk():
        env = gym.make("CarRacing-v3")
        return gym.wrappers.GrayscaleObservation(env)
    return thunk
N = 4
"""


def of(text: str) -> Environment | None:
    script = parse_script(IMPORTS + dedent(text) + "\nmodel = PPO('CnnPolicy', env)\n")
    return environment_of(script, models(script)[0].env)


@pytest.mark.parametrize(
    ("text", "kind", "name", "n_envs", "wrappers"),
    [
        ("env = gym.make('CartPole-v1')", "single", "CartPole-v1", 1, ()),
        ("env = 'x' and make_vec_env('CartPole-v1', 4)", None, None, None, None),
        ("env = make_vec_env('CartPole-v1', n_envs=N)", "dummy", "CartPole-v1", 4, ()),
        ("env = make_vec_env('CartPole-v1', 8, vec_env_cls=SubprocVecEnv)", "subproc", "CartPole-v1", 8, ()),
        ("env = make_vec_env(MyEnv, 2)", "dummy", None, 2, ()),
        ("env = make_vec_env(lambda: gym.make('CartPole-v1'), 2)", "dummy", "CartPole-v1", 2, ()),
        ("env = VecFrameStack(make_atari_env('PongNoFrameskip-v4', 8), 4)", "dummy", "PongNoFrameskip-v4", 8,
         ("VecFrameStack", "AtariWrapper")),
        ("env = SubprocVecEnv([make(i) for i in range(N)])", "subproc", "CarRacing-v3", 4, ("GrayscaleObservation",)),
        ("env = SubprocVecEnv([lambda: MyEnv()] * 3)", "subproc", None, 3, ()),
        ("env = DummyVecEnv([lambda: Monitor(gym.make('CartPole-v1'))])", "dummy", "CartPole-v1", 1, ("Monitor",)),
        ("env = DummyVecEnv([partial(gym.make, 'CartPole-v1')])", "dummy", None, 1, ()),
        ("env = gym.make('CartPole-v1')\nenv = Monitor(env)", "single", "CartPole-v1", 1, ("Monitor",)),
        ("env = VecNormalize(venv=DummyVecEnv([make(0)]))", "dummy", "CarRacing-v3", 1,
         ("VecNormalize", "GrayscaleObservation")),
        ("fns = [make(i) for i in range(2)]\nenv = SubprocVecEnv(fns)", "subproc", "CarRacing-v3", 2,
         ("GrayscaleObservation",)),
        ("env = something()", None, None, None, None),
        ("if video:\n    env = gym.make('CartPole-v1', render_mode='x')\nelse:\n    env = gym.make('CartPole-v1')\n"
         "env = Monitor(env)", "single", "CartPole-v1", 1, ("Monitor",)),
        ("if a:\n    env = gym.make('CartPole-v1')\nelse:\n    env = gym.make('Ant-v5')", None, None, None, None),
        ("from stable_baselines3.common.atari_wrappers import ClipRewardEnv\n"
         "env = ClipRewardEnv(gym.make('PongNoFrameskip-v4'))", "single", "PongNoFrameskip-v4", 1, ("ClipRewardEnv",)),
    ],
)  # fmt: skip
def test_an_environment_is_told_through_factories_and_wrappers(
    text: str, kind: str | None, name: str | None, n_envs: int | None, wrappers: tuple[str, ...] | None
) -> None:
    found = of(text)
    if kind is None:
        assert found is None
    else:
        assert found is not None
        assert (found.kind, found.id, found.n_envs, found.wrappers) == (kind, name, n_envs, wrappers)


def test_a_name_that_a_comprehension_binds_twice_is_no_environment() -> None:
    assert of("rows = [PPO('x', env) for env in a for env in b]\nenv = None") is None


def test_a_model_knows_its_arguments_and_its_learn_calls() -> None:
    script = parse_script(
        IMPORTS
        + dedent("""
            class Mine(SAC): ...
            kwargs = dict(buffer_size=int(5e4), batch_size=size())
            def train(env):
                model = Mine("MlpPolicy", env, **kwargs)
                model.learn(1000)
                model.learn(2000)
            DQN("CnnPolicy", None, **unknown).learn(3)
            """)
    )
    mine, dqn = models(script)
    assert (mine.algorithm, mine.policy, mine.off_policy, len(mine.learns)) == ("SAC", "MlpPolicy", True, 2)
    assert (mine.value("buffer_size"), mine.value("batch_size"), mine.value("tau")) == (50_000, UNKNOWN, None)
    assert (len(dqn.learns), dqn.value("buffer_size")) == (1, UNKNOWN)
