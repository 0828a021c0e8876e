"""How serious a script rule on buffers and dtypes takes what it finds: by the bytes that the run can really fill."""

from __future__ import annotations

import textwrap

import pytest

from rlmem.rules import find_in_script
from rlmem.scripts import parse_script


def severities(code: str, text: str) -> list[str]:
    """The severities of one rule's findings, in order."""
    return [found.severity for found in find_in_script(parse_script(textwrap.dedent(text))) if found.code == code]


@pytest.mark.parametrize(("rows", "severity"), [(100_000, "info"), (231_000, "info"), (232_000, "warning")])
def test_objects_of_transitions_are_a_warning_from_64_mib_on(rows: int, severity: str) -> None:
    text = f"""
        import random
        from collections import deque

        memory = deque(maxlen={rows})

        def train(env, state):
            memory.append((state, 0, 0.0, state, False))
            return random.sample(memory, 32)
    """
    assert severities("MEM111", text) == [severity]


@pytest.mark.parametrize(("steps", "expected"), [(1_000_000, ["warning"]), (200_000, ["info"]), (50_000, [])])
def test_float64_observations_count_the_rows_that_the_run_fills(steps: int, expected: list[str]) -> None:
    text = f"""
        from stable_baselines3 import SAC

        model = SAC("MlpPolicy", "HalfCheetah-v5", buffer_size=1_000_000)
        model.learn({steps})
    """
    assert severities("MEM202", text) == expected


def test_learning_in_a_loop_fills_as_many_rows_as_its_rounds_take() -> None:
    text = """
        from stable_baselines3 import SAC

        model = SAC("MlpPolicy", "HalfCheetah-v5", buffer_size=1_000_000)
        for _ in range(20):
            model.learn(50_000, reset_num_timesteps=False)
    """
    assert severities("MEM202", text) == ["warning"]


@pytest.mark.parametrize(("used", "severity"), [("env = Scale(gym.make('CarRacing-v3'))", "warning"), ("", "info")])
def test_a_wrapper_that_its_file_never_builds_is_information(used: str, severity: str) -> None:
    text = f"""
        import gymnasium as gym

        class Scale(gym.ObservationWrapper):
            def observation(self, observation):
                return observation / 255.0

        {used}
    """
    assert severities("MEM201", text) == [severity]


@pytest.mark.parametrize(("name", "severity"), [("CameraEnv", "warning"), ("DummyImageEnv", "info")])
def test_the_space_of_a_made_up_environment_is_information(name: str, severity: str) -> None:
    text = f"""
        import gymnasium as gym
        import numpy as np

        class {name}(gym.Env):
            def __init__(self):
                self.observation_space = gym.spaces.Box(0.0, 1.0, shape=(84, 84, 3), dtype=np.float32)
    """
    assert severities("MEM201", text) == [severity]


@pytest.mark.parametrize(("wrapper", "severity"), [("env = FrameStack(env, 4)", "warning"), ("num_frames = 4", "info")])
def test_a_row_of_frames_is_a_warning_where_frames_overlap(wrapper: str, severity: str) -> None:
    text = f"""
        import numpy as np

        {wrapper}

        class ReplayBuffer:
            def __init__(self, capacity=50_000):
                self.frames = np.zeros((capacity, 4, 84, 84), dtype=np.uint8)
    """
    assert severities("MEM102", text) == [severity]


@pytest.mark.parametrize(("steps", "expected"), [(9_000, []), (20_000, ["info"]), (1_000_000, ["warning"])])
def test_what_a_long_loop_appends_is_judged_by_its_bytes(steps: int, expected: list[str]) -> None:
    text = f"""
        import gymnasium as gym

        env = gym.make("Pendulum-v1")
        seen = []
        for _ in range({steps}):
            state, reward, terminated, truncated, info = env.step(env.action_space.sample())
            seen.append(state)
    """
    assert severities("MEM114", text) == expected


def test_what_a_loop_collects_for_later_is_information() -> None:
    text = """
        import gymnasium as gym

        env = gym.make("CarRacing-v3")
        seen = []
        for _ in range(100_000):
            state, reward, terminated, truncated, info = env.step(env.action_space.sample())
            seen.append(state)
        train(seen)
    """
    assert severities("MEM114", text) == ["info"]
