"""Saved and loaded, pickled or copied, a buffer goes on as if nothing had happened."""

from __future__ import annotations

import copy
import pickle
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from gymnasium import spaces
from hypothesis import given
from hypothesis import strategies as st
from stable_baselines3 import SAC
from stable_baselines3.common.buffers import NStepReplayBuffer
from stable_baselines3.common.envs import BitFlippingEnv

from contract.compare import assert_same_counters, assert_same_rows, assert_same_sample, fill, reference
from contract.disk import no_file_longer_than
from contract.envs import TinyPoint
from contract.stacks import Stacking, stack_plan
from contract.strategies import CODECS, Plan, box, examples, plans
from contract.streams import Pace
from rlmem.errors import RlmemError
from rlmem.sb3 import CompactHerReplayBuffer, CompactReplayBuffer

pytestmark = pytest.mark.truth

DICT = Plan(
    observation_space=spaces.Dict({"image": box((3, 8, 8), "uint8"), "vector": box((5,), "float32")}),
    action_space=spaces.Box(-1, 1, (2,), np.float32),
    n_envs=2,
    buffer_size=500,
    steps=900,
    seed=4,
    pace=Pace(),
    contents={"image": "walk"},
)
STACK = stack_plan(Stacking(layout="channels first"), buffer_size=500, steps=900)
PLANS = {
    "dict": DICT,
    "stack": STACK,
    "barely begun": replace(DICT, steps=3),
    "wraps at once": replace(DICT, buffer_size=2),
}


def through_pickle(buffer: Any, folder: Path) -> Any:
    return pickle.loads(pickle.dumps(buffer, protocol=pickle.HIGHEST_PROTOCOL))


def through_deepcopy(buffer: Any, folder: Path) -> Any:
    return copy.deepcopy(buffer)


def through_a_file(buffer: Any, folder: Path) -> Any:
    buffer.save(folder / "buffer.rlmem")
    return type(buffer).load(folder / "buffer.rlmem")


def through_a_name(buffer: Any, folder: Path) -> Any:
    buffer.save(str(folder / "buffer.rlmem"))
    return type(buffer).load(str(folder / "buffer.rlmem"))


def through_restore(buffer: Any, folder: Path) -> Any:
    """Into a buffer that already holds other things."""
    buffer.save(folder / "buffer.rlmem")
    other = copy.deepcopy(buffer)
    fill(list(STACK.play() if buffer.observation_space == STACK.observation_space else DICT.play())[:50], other)
    other.restore(folder / "buffer.rlmem")
    return other


WAYS = {
    "pickle": through_pickle,
    "deepcopy": through_deepcopy,
    "save and load": through_a_file,
    "a path as text": through_a_name,
    "restore": through_restore,
}


@pytest.mark.parametrize("way", WAYS.values(), ids=list(WAYS))
@pytest.mark.parametrize("codec", ["none", "zstd", "huffman"])
@pytest.mark.parametrize("plan", PLANS.values(), ids=list(PLANS))
def test_a_buffer_goes_on_after_a_round_trip(plan: Plan, codec: str, way: Callable[..., Any], tmp_path: Path) -> None:
    ours, theirs = CompactReplayBuffer(**plan.common, codec=codec), reference(plan)
    steps = list(plan.play())
    half = len(steps) // 2
    fill(steps[:half], ours, theirs)
    again = way(ours, tmp_path)
    if half:
        assert_same_sample(again, theirs, 50)
    assert_same_counters(again, theirs)
    fill(steps[half:], again, theirs)
    assert_same_sample(again, theirs, 50, seed=1)
    assert_same_rows(again, theirs)


@given(plan=plans(), codec=st.sampled_from(CODECS), cut=st.floats(0, 1))
@examples(30)
def test_any_buffer_goes_on_after_pickling(plan: Plan, codec: str, cut: float) -> None:
    ours, theirs = CompactReplayBuffer(**plan.common, codec=codec), reference(plan)
    steps = list(plan.play())
    half = int(len(steps) * cut)
    fill(steps[:half], ours, theirs)
    again = pickle.loads(pickle.dumps(ours))
    fill(steps[half:], again, theirs)
    assert_same_sample(again, theirs, 30)
    assert_same_counters(again, theirs)
    assert_same_rows(again, theirs)


@pytest.mark.parametrize("way", WAYS.values(), ids=list(WAYS))
def test_the_copy_and_the_original_are_two(way: Callable[..., Any], tmp_path: Path) -> None:
    ours, theirs, other = CompactReplayBuffer(**STACK.common, codec="lz4"), reference(STACK), reference(STACK)
    steps = list(STACK.play())
    fill(steps[:400], ours, theirs, other)
    again = way(ours, tmp_path)
    fill(steps[400:], ours, theirs)
    fill(reversed(steps), again, other)
    assert_same_rows(ours, theirs)
    assert_same_rows(again, other)


def test_options_survive(tmp_path: Path) -> None:
    ours = CompactReplayBuffer(**STACK.common, n_steps=3, gamma=0.9, codec="zstd", stack=4, stack_axis=0)
    theirs = NStepReplayBuffer(**STACK.common, n_steps=3, gamma=0.9)
    steps = list(STACK.play())
    fill(steps[:500], ours, theirs)
    ours.save(tmp_path / "buffer")
    again = CompactReplayBuffer.load(tmp_path / "buffer")
    assert (again.n_steps, again.gamma) == (3, 0.9)
    fill(steps[500:], again, theirs)
    assert_same_sample(again, theirs, 64)


def test_a_pickle_is_no_larger_than_the_buffer() -> None:
    ours = CompactReplayBuffer(**replace(STACK, steps=400).common, codec="zstd")
    fill(STACK.play(), ours)
    assert len(pickle.dumps(ours)) < 1.5 * ours.nbytes + 200_000


def test_restoring_another_kind_of_buffer_is_refused(tmp_path: Path) -> None:
    dicts, stacks = CompactReplayBuffer(**DICT.common), CompactReplayBuffer(**STACK.common)
    fill(DICT.play(), dicts)
    dicts.save(tmp_path / "buffer")
    with pytest.raises(RlmemError):
        stacks.restore(tmp_path / "buffer")


def model(buffer_class: Any, **options: Any) -> SAC:
    if buffer_class is CompactHerReplayBuffer:
        env: Any = BitFlippingEnv(n_bits=4, continuous=True)
        policy = "MultiInputPolicy"
    else:
        env, policy = TinyPoint(), "MlpPolicy"
    small: dict[str, Any] = {
        "policy_kwargs": {"net_arch": [8]},
        "learning_starts": 20,
        "train_freq": 20,
        "seed": 1,
        "device": "cpu",
    }
    return SAC(policy, env, replay_buffer_class=buffer_class, buffer_size=300, **small, **options)


@pytest.mark.parametrize("buffer_class", [CompactReplayBuffer, CompactHerReplayBuffer])
@pytest.mark.parametrize("named", [True, False], ids=["path", "open file"])
def test_a_model_saves_and_loads_its_buffer(buffer_class: Any, named: bool, tmp_path: Path) -> None:
    learned, fresh = model(buffer_class), model(buffer_class)
    learned.learn(130)
    path = tmp_path / "buffer.pkl"
    if named:
        learned.save_replay_buffer(path)
        fresh.load_replay_buffer(path, truncate_last_traj=False)
    else:
        with path.open("wb") as file:
            learned.save_replay_buffer(file)
        with path.open("rb") as file:
            fresh.load_replay_buffer(file, truncate_last_traj=False)
    assert type(fresh.replay_buffer) is type(learned.replay_buffer)
    assert_same_rows(fresh.replay_buffer, learned.replay_buffer)
    assert_same_sample(fresh.replay_buffer, learned.replay_buffer, 40)
    fresh.learn(60)


def test_a_saved_model_carries_the_class_not_the_data(tmp_path: Path) -> None:
    learned = model(CompactReplayBuffer, replay_buffer_kwargs={"codec": "lz4"})
    learned.learn(60)
    learned.save(tmp_path / "model")
    again = SAC.load(tmp_path / "model", env=TinyPoint())
    assert again.replay_buffer_class is CompactReplayBuffer
    assert again.replay_buffer.size() == 0
    again.learn(60)


@pytest.mark.parametrize("limit_bytes", [0, 1000, 100_000])
def test_a_save_that_fails_leaves_the_old_file(limit_bytes: int, tmp_path: Path) -> None:
    ours, theirs = CompactReplayBuffer(**DICT.common), reference(DICT)
    steps = list(DICT.play())
    fill(steps[:100], ours, theirs)
    ours.save(tmp_path / "buffer")
    before = (tmp_path / "buffer").read_bytes()
    fill(steps[100:], ours)
    with no_file_longer_than(limit_bytes), pytest.raises((RlmemError, OSError)):
        ours.save(tmp_path / "buffer")
    assert (tmp_path / "buffer").read_bytes() == before
    assert {path.name for path in tmp_path.iterdir()} <= {"buffer", "rlmem-cache", "rlmem-data"}
    assert_same_rows(CompactReplayBuffer.load(tmp_path / "buffer"), theirs)
    ours.save(tmp_path / "buffer")


SAVING = """
import sys
from pathlib import Path
import numpy as np
from gymnasium import spaces
from rlmem.sb3 import CompactReplayBuffer
path = Path(sys.argv[1])
buffer = CompactReplayBuffer(4000, spaces.Box(0, 255, (500,), np.uint8), spaces.Discrete(2), device="cpu")
rng, infos = np.random.default_rng(0), [{}]
for number in range(4000):
    obs = np.full((1, 500), number % 251, np.uint8)
    obs[0, 250:] = rng.integers(0, 255, 250)
    buffer.add(obs, obs, np.zeros(1, int), np.array([number % 251]), np.zeros(1), infos)
for number in range(1, 10_000):
    buffer.save(path)
    print(number, flush=True)
"""


def test_a_process_killed_while_saving_leaves_a_whole_file(tmp_path: Path) -> None:
    path = tmp_path / "buffer"
    child = subprocess.Popen([sys.executable, "-c", SAVING, str(path)], stdout=subprocess.PIPE, text=True)
    try:
        assert child.stdout is not None
        assert child.stdout.readline().strip() == "1", "it never saved"
        for number in range(4):
            child.stdout.readline()
            time.sleep(0.003 * number)
    finally:
        child.send_signal(signal.SIGKILL)
        child.wait()
    again = CompactReplayBuffer.load(path)
    assert again.size() == 4000
    assert (np.asarray(again.observations[:, 0, 0]) == again.rewards[:, 0]).all()


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises((RlmemError, FileNotFoundError), match="nowhere"):
        CompactReplayBuffer.load(tmp_path / "nowhere")
