"""The largest replay buffer, from spaces that only look like Gymnasium's."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import rlmem
from rlmem.app.max_buffer import algorithm_name, describe, largest_buffer, read_environment
from rlmem.budget import make_budget
from rlmem.errors import AnalysisError, UsageError
from rlmem.planner import Planner
from rlmem.remedies.base import over


class Box:
    def __init__(self, shape: tuple[int, ...], dtype: Any = np.float32) -> None:
        self.shape, self.dtype = shape, np.dtype(dtype)
        self.low, self.high = np.full(shape, 0, dtype), np.full(shape, 255, dtype)


class Env:
    def __init__(self, num_envs: int | None = None) -> None:
        self.observation_space, self.action_space = Box((84, 84, 3), np.uint8), Box((8,))
        if num_envs:
            self.num_envs = num_envs


class SAC:
    pass


class Mine(SAC):
    pass


def test_the_buffer_fits_with_its_upper_bound_and_one_more_row_does_not() -> None:
    size = rlmem.max_buffer_size(Env(), "sac", ram="16GB", margin=0.25)
    planner = Planner(make_budget(ram="12GB"))
    spaces = {
        "observation": {"type": "box", "shape": [84, 84, 3], "dtype": "uint8"},
        "action": {"type": "box", "shape": [8]},
    }
    for rows, fits in ((size, True), (size + 2, False)):
        plan = planner.plan(describe(spaces, "sac", {"buffer_size": rows}))
        assert (over(plan) <= 0) is fits


def test_a_vector_environment_says_how_many_it_is() -> None:
    size = rlmem.max_buffer_size(Env(4), SAC, 16 * 10**9)
    assert size % 4 == 0
    assert size == rlmem.max_buffer_size(Env(), Mine, "16GB", n_envs=4)


def test_settings_are_fields_of_a_run_file() -> None:
    plain = rlmem.max_buffer_size(Env(), "sac", "16GB")
    assert rlmem.max_buffer_size(Env(), "sac", "16GB", storage="compact") > 1.8 * plain
    assert rlmem.max_buffer_size(Env(), "sac", "16GB", network__net_arch=[4096, 4096]) < plain
    with pytest.raises(UsageError, match="did you mean 'batch_size'"):
        rlmem.max_buffer_size(Env(), "sac", "16GB", batch_sise=3)


@pytest.mark.parametrize(
    ("algo", "ram", "margin", "message"),
    [
        ("ppo", "16GB", 0.1, "ppo keeps no replay buffer; these do: dqn"),
        ("sacc", "16GB", 0.1, "did you mean 'sac'"),
        ("dqn", "16GB", 0.1, "dqn needs Discrete actions"),
        (Env, "16GB", 0.1, "'Env' is not an algorithm rlmem knows"),
        ("sac", "16", 0.1, "is only 16 B"),
        ("sac", "16GB", 1.0, "margin 1 is not a share"),
        ("sac", "200MB", 0.1, "not even a small buffer fits"),
    ],
)
def test_what_cannot_be_answered_is_said(algo: Any, ram: str, margin: float, message: str) -> None:
    with pytest.raises((UsageError, AnalysisError), match=message):
        rlmem.max_buffer_size(Env(), algo, ram, margin=margin)


def test_the_plan_behind_the_answer_is_given() -> None:
    spec = describe({"observation": {"type": "box", "shape": [3]}, "action": {"type": "box", "shape": [1]}}, "td3", {})
    found = largest_buffer(spec, "8GB", margin=0.5)
    assert (found.ram_bytes, found.limit_bytes) == (8 * 10**9, 4 * 10**9)
    assert found.plan.spec.count("buffer_size") >= found.buffer_size
    assert algorithm_name("Recurrent-PPO") == "recurrent_ppo"


def test_an_interpreter_without_gymnasium_is_named(tmp_path: Any) -> None:
    fake = tmp_path / "python"
    fake.write_text('#!/bin/sh\necho \'{"problem": "ModuleNotFoundError: No module named gymnasium"}\'\n')
    fake.chmod(0o755)
    with pytest.raises(AnalysisError, match=r"Pendulum-v1: ModuleNotFoundError.*--python PATH"):
        read_environment("Pendulum-v1", str(fake))
    fake.write_text("#!/bin/sh\nexit 3\n")
    with pytest.raises(AnalysisError, match="could not make it"):
        read_environment("Pendulum-v1", str(fake))
