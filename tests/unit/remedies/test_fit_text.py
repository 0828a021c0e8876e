"""Steps as text: edits of a script that leave the rest as it was written, hyperparameters, fields."""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest
import yaml

from rlmem.budget import make_budget
from rlmem.core.edits import apply
from rlmem.core.plan import Plan
from rlmem.planner import ClosedForm
from rlmem.remedies.base import Constraints, Steps
from rlmem.remedies.program import run_file, snippet, with_hyperparameters, zoo, zoo_hyperparameters
from rlmem.remedies.script import edit_loop_buffer, edit_script, loop_knob
from rlmem.remedies.search import Search
from rlmem.scripts import parse_script
from rlmem.sources import load

CODED = 'coded_bytes={"image": [8000, 9000, 10000], "vector": [100, 124, 124]}'


@cache
def found(name: str, ram: str, *sets: str, vram: str = "80GB", **constraints: Any) -> tuple[Plan, Steps]:
    subject = ClosedForm().subject(load(name, sets), make_budget(ram=ram, vram=vram))
    return subject.plan, Search(subject, Constraints(**constraints)).fit().steps


def edited(text: str, plan: Plan, steps: Steps) -> tuple[str, tuple[str, ...]]:
    script = parse_script(text)
    result = edit_script(script, plan.spec, steps)
    after = apply(script.text, result.edits)
    parse_script(after)
    return after, result.by_hand


SAC = '''\
"""Train."""
import stable_baselines3 as sb3

SIZE = 400_000  # what the paper has
model = sb3.SAC("MultiInputPolicy", make(), buffer_size=SIZE)  # memory
model.learn(SIZE * 2)
'''


def test_the_buffers_class_is_an_argument_and_an_import() -> None:
    after, left = edited(SAC, *found("pidog-sac", "12GB"))
    assert left == ()
    assert after == SAC.replace("sb3\n\n", "sb3\nfrom rlmem.sb3 import CompactReplayBuffer\n\n", 1).replace(
        "buffer_size=SIZE)", "buffer_size=SIZE, replay_buffer_class=CompactReplayBuffer)"
    )


def test_a_constant_that_others_use_keeps_its_value() -> None:
    after, left = edited(SAC, *found("pidog-sac", "8GB", kinds=("learning",)))
    assert left == ()
    assert "SIZE = 400_000  # what the paper has" in after
    assert "buffer_size=170_000)  # memory" in after


@pytest.mark.parametrize(
    ("given", "after"),
    [
        ("buffer_size=400_000", "buffer_size=170_000"),
        ("buffer_size=400000", "buffer_size=170000"),
        ("buffer_size=int(4e5)", "buffer_size=170000"),
        ("**dict(buffer_size=400_000)", "**dict(buffer_size=170_000)"),
    ],
)
def test_a_number_is_replaced_where_it_is_written(given: str, after: str) -> None:
    text = f"from stable_baselines3 import SAC\nmodel = SAC('MlpPolicy', env, {given})\nmodel.learn(1)\n"
    result, left = edited(text, *found("pidog-sac", "8GB", kinds=("learning",)))
    assert (result, left) == (text.replace(given, after), ())


def test_an_options_default_is_replaced() -> None:
    text = (
        "import argparse\nfrom stable_baselines3 import SAC\np = argparse.ArgumentParser()\n"
        "p.add_argument('--buffer-size', type=int, default=400_000)  # rows\nargs = p.parse_args()\n"
        "SAC('MlpPolicy', env, buffer_size=args.buffer_size).learn(1)\n"
    )
    after, left = edited(text, *found("pidog-sac", "8GB", kinds=("learning",)))
    assert (after, left) == (text.replace("400_000", "170_000"), ())


def test_a_value_that_came_from_elsewhere_is_left_with_a_reason() -> None:
    """The script says 300k and the run had 400k: the command line decided, and an edit would do nothing."""
    text = "from stable_baselines3 import SAC\nSAC('MlpPolicy', env, buffer_size=300_000).learn(1)\n"
    after, left = edited(text, *found("pidog-sac", "8GB", kinds=("learning",)))
    assert after == text
    assert left == ("buffer_size: 300_000 is 300000 in the script and was 400000 in the run; it has to become 170000",)


def test_a_default_that_is_not_written_becomes_an_argument() -> None:
    text = "from stable_baselines3 import SAC\nSAC('MlpPolicy', env).learn(1)\n"
    after, _ = edited(text, *found("pidog-sac", "8GB", kinds=("learning",)))
    assert "SAC('MlpPolicy', env, buffer_size=170_000)" in after


@pytest.mark.parametrize(
    ("given", "after"),
    [
        ("", ', replay_buffer_kwargs=dict(codec="auto")'),
        (', replay_buffer_kwargs={"n_steps": 3}', ', replay_buffer_kwargs={"n_steps": 3, "codec": "auto"}'),
        (", replay_buffer_kwargs=dict(n_steps=3)", ', replay_buffer_kwargs=dict(n_steps=3, codec="auto")'),
    ],
)
def test_options_join_those_that_are_there(given: str, after: str) -> None:
    text = f"from stable_baselines3 import SAC\nSAC('MlpPolicy', env{given}).learn(1)\n"
    result, left = edited(text, *found("pidog-sac", "8GB", CODED))
    assert left == ()
    assert after in result


def test_a_buffer_of_the_users_own_is_not_replaced() -> None:
    text = "from stable_baselines3 import SAC\nSAC('P', env, replay_buffer_class=Mine).learn(1)\n"
    after, left = edited(text, *found("pidog-sac", "12GB"))
    assert after == text
    assert left[0].startswith("storage: replay_buffer_class is Mine")
    own = text.replace("Mine", "HerReplayBuffer").replace("SAC\n", "SAC, HerReplayBuffer\n", 1)
    assert "replay_buffer_class=CompactReplayBuffer" in edited(own, *found("pidog-sac", "12GB"))[0]


def test_arguments_that_cannot_be_seen_are_not_added_twice() -> None:
    text = "from stable_baselines3 import SAC\nSAC('P', env, **options()).learn(1)\n"
    after, left = edited(text, *found("pidog-sac", "12GB"))
    assert after == text
    assert "may be among the arguments" in left[0]


def test_two_models_are_not_guessed_between() -> None:
    text = "from stable_baselines3 import SAC\na = SAC('P', e)\nb = SAC('P', e)\na.learn(1)\nb.learn(1)\n"
    after, left = edited(text, *found("pidog-sac", "12GB"))
    assert after == text
    assert "2 places that build it" in left[0]


def test_workers_move_into_the_process() -> None:
    text = (
        "from stable_baselines3 import PPO\nfrom stable_baselines3.common.env_util import make_vec_env\n"
        "from stable_baselines3.common.vec_env import SubprocVecEnv\n"
        "env = make_vec_env(make, n_envs=2, vec_env_cls=SubprocVecEnv)\nPPO('CnnPolicy', env).learn(1)\n"
    )
    plan, steps = found("pyboy-ppo", "8GB", kinds=("speed",))
    step = next(step for step in steps if step.remedy.name == "environments-in-process")
    after, left = edited(text, plan, (step,))
    assert left == ()
    assert "vec_env_cls=DummyVecEnv)" in after
    assert "import DummyVecEnv\n" in after


def test_a_run_file_gets_fields_that_give_the_same_run() -> None:
    plan, steps = found("drone-swarm", "2GB")
    fields = yaml.safe_load(run_file(steps).text)
    assert fields == {
        "storage": "stream",
        "batch_size": 11378,
        "rollout": {"dtype": "float32"},
        "network": {"encoding": "window"},
    }
    assert plan.spec.get("batch_size") == 102_400


def test_fields_of_one_section_are_written_together() -> None:
    _, steps = found("drone-swarm", "1.15GB", "agents=64", keep=frozenset({"storage"}), kinds=("lossless",))
    fields = yaml.safe_load(run_file(steps).text)
    assert fields["rollout"] == {"store": "array", "keeps_graph": False}


def test_a_factory_gets_a_snippet() -> None:
    written = snippet(*_start(found("pidog-sac", "8GB")))
    assert written.kind == "python"
    assert "from rlmem.sb3 import CompactReplayBuffer" in written.text
    assert 'replay_buffer_kwargs=dict(budget="6784MiB", spill=".")' in written.text


def _start(pair: tuple[Plan, Steps]) -> tuple[Any, Steps]:
    return pair[0].spec, pair[1]


def test_a_zoo_entry_gets_yaml_that_rl_zoo3_evaluates_and_a_command() -> None:
    written = zoo("zoo:sac/Robot-v0", ("--seed", "1"), *_start(found("pidog-sac", "12GB")))
    entry = yaml.safe_load(written.text)["Robot-v0"]
    assert entry == {"replay_buffer_class": '__import__("rlmem.sb3",fromlist=["sb3"]).CompactReplayBuffer'}
    given, _ = zoo_hyperparameters(*_start(found("pidog-sac", "12GB")))
    once = eval(given["replay_buffer_class"])  # rl_zoo3's --hyperparams does
    assert once == entry["replay_buffer_class"]
    assert "--algo sac --env Robot-v0 --seed 1 --hyperparams" in written.text


def test_hyperparameters_join_those_of_the_command_line() -> None:
    args = ("--hyperparams", "batch_size:64", "buffer_size:10", "--seed", "1")
    assert with_hyperparameters(args, {"buffer_size": "5"}) == (
        "--hyperparams", "batch_size:64", "buffer_size:5", "--seed", "1",
    )  # fmt: skip
    assert with_hyperparameters(("-n", "9"), {"buffer_size": "5"}) == ("-n", "9", "--hyperparams", "buffer_size:5")
    assert with_hyperparameters(("-n", "9"), {}) == ("-n", "9")


LOOP = '''\
from dataclasses import dataclass
from stable_baselines3.common.buffers import ReplayBuffer

@dataclass
class Args:
    buffer_size: int = 1_000_000
    """the replay memory"""
    learning_starts: int = int(8e4)

args = Args()
rb = ReplayBuffer(args.buffer_size, space, action, device)  # as CleanRL
'''


def test_a_loops_buffer_is_swapped_and_its_count_found() -> None:
    script = parse_script(LOOP)
    after = apply(LOOP, edit_loop_buffer(script, "CompactReplayBuffer", "rlmem.sb3"))
    assert "rb = CompactReplayBuffer(args.buffer_size, space, action, device)  # as CleanRL" in after
    assert "from rlmem.sb3 import CompactReplayBuffer\n" in after
    knob = loop_knob(script, "buffer_size")
    assert knob is not None
    assert (knob.name, knob.value) == ("buffer_size", 1_000_000)
    assert "buffer_size: int = 250_000\n" in apply(LOOP, [knob.edit(script, 250_000)])
    early = loop_knob(script, "learning_starts")
    assert early is not None
    assert early.value == 80_000


def test_a_loop_with_two_buffers_of_one_name_is_not_guessed_about() -> None:
    script = parse_script("class A:\n    buffer_size: int = 10\nclass B:\n    buffer_size: int = 20\n")
    assert loop_knob(script, "buffer_size") is None
