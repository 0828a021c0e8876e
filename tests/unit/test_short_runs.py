"""A run that ends before its replay buffer is full is planned with the rows that it writes; both figures are said."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rlmem.capacity import largest
from rlmem.core.plan import Budget, Plan
from rlmem.core.quantity import Quantity
from rlmem.core.schedule import reached
from rlmem.core.spec import RunSpec
from rlmem.documents.plan import plan_document
from rlmem.lint.linter import Linter
from rlmem.lint.settings import Asked, settings_for
from rlmem.model.constants import Constants
from rlmem.planner import Planner
from rlmem.report.plan import verdict_lines
from rlmem.rules.lengths import learns_once
from rlmem.scripts import parse_script
from rlmem.units import GIB

DQN: dict[str, Any] = {
    "framework.name": "sb3",
    "algorithm": "dqn",
    "observation": {"type": "box", "shape": [84, 84, 1], "dtype": "uint8"},
    "action": {"type": "discrete", "n": 6},
    "frame_stack": 4,
    "buffer_size": 1_000_000,
}
ATARI = """
from stable_baselines3 import DQN
from stable_baselines3.common.env_util import make_atari_env
from stable_baselines3.common.vec_env import VecFrameStack

env = VecFrameStack(make_atari_env("PongNoFrameskip-v4"), n_stack=4)
model = DQN("CnnPolicy", env, buffer_size=1_000_000)
"""
#: Two observations of four frames, an int64 action, reward, done and timeout.
ROW_BYTES = 2 * 84 * 84 * 4 + 8 + 3 * 4


def planned(*, cores: int | None = 8, ram: int = 64 * GIB, **fields: Any) -> Plan:
    budget = Budget(name="test", ram_bytes=ram, cores=cores)
    return Planner(budget, Constants()).plan(RunSpec().having({**DQN, **fields}, "test"))


def stored(plan: Plan) -> int:
    return plan.ledger.only(device="ram", phase="update", component="replay").nbytes


@pytest.mark.parametrize(("steps", "n_envs", "rows"), [(100_000, 1, 100_000), (100_001, 4, 100_004), (10, 64, 64)])
def test_the_rows_that_a_run_writes_count(steps: int, n_envs: int, rows: int) -> None:
    assert stored(planned(total_timesteps=steps, n_envs=n_envs)) == rows * ROW_BYTES


@pytest.mark.parametrize("more", [{"total_timesteps": 1_000_000}, {"total_timesteps": 10**8}, {}])
def test_a_run_as_long_as_its_buffer_or_of_unknown_length_fills_it(more: dict[str, Any]) -> None:
    assert stored(planned(**more)) == 1_000_000 * ROW_BYTES
    assert "with a full one" not in " ".join(planned(**more).sentences)


def test_a_saved_buffer_that_is_loaded_may_be_full() -> None:
    found = planned(total_timesteps=1000, **{"resume.replay_buffer": "into-new"})
    assert stored(found) == 1_000_000 * ROW_BYTES


def test_both_figures_are_said_the_runs_own_first() -> None:
    short, full = planned(total_timesteps=100_000), planned()
    assert short.verdict == "fits"
    top = full.top("ram")
    assert top is not None
    said = short.sentences
    assert said[0].startswith("RAM peaks at 5.")
    assert said[1].startswith("this run writes 100,000 of the 1,000,000 transitions of its replay buffer")
    assert said[1].endswith(f"peaks at {top.expected_bytes / GIB:.1f} GiB")
    document = plan_document(short)
    assert [line for line, _ in verdict_lines(document)] == list(said) == list(document.summary)


def test_a_compact_buffer_is_as_short() -> None:
    short, full = planned(total_timesteps=100_000, storage="compact"), planned(storage="compact")
    assert stored(short) == pytest.approx(stored(full) / 10, rel=0.05)
    assert "this run writes 100,000 of the 1,000,000" in short.sentences[1]


def test_objects_that_a_buffer_makes_at_once_are_all_there() -> None:
    fields = {"replay.kind": "her", "observation": {"type": "dict", "spaces": {"observation": DQN["observation"]}}}
    parts = planned(total_timesteps=1000, **fields), planned(**fields)
    infos = [plan.ledger.only(device="ram", phase="update", component="replay.infos").nbytes for plan in parts]
    assert infos[0] == infos[1] > 0


def test_what_is_loaded_is_the_whole_buffer_whatever_the_run_writes() -> None:
    slots = Quantity.of(1000, "slots", "test")
    spec = RunSpec().having({"total_timesteps": 10, "n_envs": 4}, "test")
    assert (reached(spec, slots) or slots).value == 12
    assert reached(spec.having({"resume.replay_buffer": "beside-live"}, "test"), slots) is None
    assert reached(RunSpec(), slots) is None


def test_no_buffer_is_larger_than_the_run_and_no_workers_are_more_than_the_cores() -> None:
    def planner(cores: int | None) -> Any:
        return Planner(Budget(name="test", ram_bytes=1000 * GIB, cores=cores), Constants())

    spec = RunSpec().having({**DQN, "buffer_size": 1000, "total_timesteps": 50_000}, "test")
    found = largest(spec, "buffer_size", lambda other: planner(8).plan(other))
    assert (found.value, found.unlimited) == (50_000, False)
    ppo = {**DQN, "algorithm": "ppo", "buffer_size": None, "vec_env": "subproc"}
    many = RunSpec().having({**ppo, "n_envs": 1}, "test")
    assert largest(many, "n_envs", lambda other: planner(2).plan(other)).value == 2
    more = many.having({"n_envs": 6}, "test")  # somebody has chosen that
    assert largest(more, "n_envs", lambda other: planner(2).plan(other)).value == 6
    in_process = many.having({"vec_env": "dummy"}, "test")
    found = largest(in_process, "n_envs", lambda other: planner(2).plan(other))
    assert (found.value or 0) > 6


MODEL = "from stable_baselines3 import DQN\nmodel = DQN('MlpPolicy', 'CartPole-v1')\n"


@pytest.mark.parametrize(
    ("text", "once"),
    [
        (MODEL + "model.learn(1000)", True),
        (MODEL + "for _ in range(10):\n    model.learn(1000, reset_num_timesteps=False)", False),
        (MODEL + "model.learn(1000)\nmodel.learn(1000)", False),
        (MODEL + "while True:\n    model.learn(1000)", False),
        ("from stable_baselines3 import DQN\nfor n in (1, 2):\n    DQN('MlpPolicy', 'CartPole-v1').learn(1000)", True),
        ("from lib import make\n\ndef main():\n    make().learn(1000)\n\nmain()", True),
        ("from lib import make\n\ndef main(model):\n    model.learn(1000)\n\nfor _ in range(3):\n    main(make())", False),
        ("from lib import make\n\ndef train(model):\n    model.learn(1000)\n\ntrain(make())\ntrain(make())", False),
        ("import lib\n\nlib.train()", False),
    ],
)  # fmt: skip
def test_what_the_first_learn_asks_for_is_the_whole_run_where_it_is_the_only_one(text: str, once: bool) -> None:
    assert learns_once(parse_script(text)) is once


def test_lint_says_the_rows_of_the_run_first(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text(ATARI + "model.learn(100_000)\n")
    report = Linter(settings_for([script], Asked()), Budget(name="test")).lint(script)
    (finding,) = (found.finding for found in report.shown if found.finding.code == "MEM106")
    assert finding.title.endswith("1,000,000 images: 5.26 GiB for the 100,000 that the run writes, 52.6 GiB when full")
    assert finding.costs_bytes == 100_000 * 2 * 84 * 84 * 4


def test_rllib_keeps_the_episodes_of_the_run() -> None:
    fields = {"framework.name": "rllib", "frame_stack": 1}
    short, full = planned(total_timesteps=100_000, **fields), planned(**fields)
    trees = short.ledger.only(device="ram", phase="update", component="replay.trees").nbytes  # whole from the start
    assert stored(short) - trees == pytest.approx((stored(full) - trees) / 10, rel=0.05)
    assert any("with a full one RAM peaks at" in text for text in short.sentences)
