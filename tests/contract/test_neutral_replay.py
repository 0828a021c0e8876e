"""``rlmem.buffers.Replay`` against a dict of plain arrays: any observation, any stream, sampled, saved and resized at any time."""

from __future__ import annotations

import copy
import pickle
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from gymnasium import spaces
from hypothesis import example, given
from hypothesis import strategies as st

from contract.compare import assert_same
from contract.disk import no_file_longer_than
from contract.stacks import LAYOUTS, PADDINGS, Stacking, StackPlan, any_stack_plan, stack_plan
from contract.strategies import CODECS, Plan, box, chosen, examples, plans
from contract.streams import Pace, Step, parts_of, scribble
from rlmem.buffers import Replay
from rlmem.errors import AnalysisError, UsageError

pytestmark = pytest.mark.truth

PARTS = {"image": box((3, 8, 8), "uint8"), "vector": box((5,), "float32"), "mode": spaces.Discrete(4)}
PLAIN = Plan(
    observation_space=spaces.Dict(PARTS),
    action_space=spaces.Box(-1, 1, (2,), np.float32),
    n_envs=2,
    buffer_size=200,
    steps=400,
    seed=1,
    pace=Pace(),
    contents={"image": "walk", "vector": "noise", "mode": "still"},
)
VECTOR = replace(PLAIN, observation_space=box((4,), "float32"), contents={"": "walk"})
STACK = stack_plan(Stacking(layout="channels first"), buffer_size=400, steps=500)


def fields_of(plan: Plan) -> dict[str, Any]:
    flag = ((), "bool")
    return {"action": plan.action_space, "reward": ((), "float32"), "terminated": flag, "truncated": flag}


def made(plan: Plan, **options: Any) -> Replay:
    return Replay(plan.buffer_size, plan.observation_space, plan.n_envs, fields=fields_of(plan), **options)


def values(step: Step) -> dict[str, Any]:
    cut = np.array([bool(info.get("TimeLimit.truncated", False)) for info in step.infos])
    return {"action": step.action, "reward": step.reward, "terminated": step.done & ~cut, "truncated": cut}


def added(step: Step, *buffers: Any) -> None:
    """Give one step to each; what was given is overwritten afterwards."""
    for buffer in buffers:
        obs, next_obs, *_ = step.given()
        fields = {name: value.copy() for name, value in values(step).items()}
        buffer.add(obs, next_obs, **fields)
        scribble((obs, next_obs, *fields.values(), []))


@dataclass
class Reference:
    """A ring of plain arrays."""

    plan: Plan
    capacity: int

    def __post_init__(self) -> None:
        self.rows, self.count, self.kept = max(self.capacity // self.plan.n_envs, 1), 0, dict[int, dict[str, Any]]()

    def add(self, obs: Any, next_obs: Any, **fields: Any) -> None:
        self.kept[self.count % self.rows] = copy.deepcopy({"obs": obs, "next_obs": next_obs, **fields})
        self.count += 1

    @property
    def filled(self) -> int:
        return min(self.count, self.rows)

    @property
    def newest(self) -> int:
        return (self.count - 1) % self.rows

    def _typed(self, name: str, key: str, array: Any) -> Any:
        known = {"reward": np.float32, "terminated": np.bool_, "truncated": np.bool_}
        space = parts_of(self.plan.observation_space)[key] if name in ("obs", "next_obs") else self.plan.action_space
        return np.asarray(array, known.get(name, space.dtype)).reshape(-1, *(() if name in known else space.shape))

    def gather(self, rows: Any, envs: Any) -> dict[str, Any]:
        def taken(name: str) -> Any:
            entries = [self.kept[row][name] for row in range(self.filled)]
            if isinstance(entries[0], dict):
                return {
                    key: self._typed(name, key, np.stack([entry[key] for entry in entries])[rows, envs])
                    for key in entries[0]
                }
            return self._typed(name, "", np.stack(entries)[rows, envs])

        return {name: taken(name) for name in self.kept[0]}

    def resized(self, capacity: int) -> Reference:
        """The newest entries, in a ring of another size."""
        other = Reference(self.plan, capacity)
        for number in range(max(self.count - min(self.rows, other.rows), 0), self.count):
            other.kept[other.count] = self.kept[number % self.rows]
            other.count += 1
        return other


def assert_equal(ours: Replay, theirs: Reference, seed: int = 0) -> None:
    """Every transition, and a batch drawn with the same numbers."""
    n = theirs.plan.n_envs
    assert (len(ours), ours.capacity) == (theirs.filled * n, theirs.rows * n)
    if not theirs.count:
        return
    rows, envs = (index.reshape(-1) for index in np.mgrid[: theirs.filled, :n])
    assert_same(ours.gather(rows, envs), theirs.gather(rows, envs), "gathered")
    batch = ours.sample(33, np.random.default_rng(seed))
    numbers = np.random.default_rng(seed).integers(0, theirs.filled * n, 33)
    assert_same(batch, theirs.gather(*np.divmod(numbers, n)), "sampled")


def checked(plan: Plan, ours: Replay) -> None:
    theirs, looks = Reference(plan, plan.buffer_size), plan.looks
    for number, step in enumerate(plan.play()):
        added(step, ours, theirs)
        if number in looks:
            assert_equal(ours, theirs, number)


@given(plan=plans(), codec=st.sampled_from(CODECS))
@example(plan=PLAIN, codec="zstd")
@example(plan=replace(PLAIN, buffer_size=1, n_envs=1, steps=9), codec="none")
@example(plan=replace(PLAIN, buffer_size=3, n_envs=5, steps=9), codec="lz4")
@examples(22)
def test_every_transition_comes_back(plan: Plan, codec: str) -> None:
    checked(plan, made(plan, codec=codec))


@given(plan=chosen(any_stack_plan), codec=st.sampled_from(CODECS), declared=st.booleans())
@examples(10)
def test_every_stack_comes_back(plan: StackPlan, codec: str, declared: bool) -> None:
    options: dict[str, Any] = {"codec": codec}
    if declared:
        for name, part in (("stack", "frames"), ("stack_axis", "axis")):
            by_key = {key: getattr(stacking, part) for key, stacking in plan.stacked.items()}
            options[name] = by_key.get("", by_key)
    checked(plan, made(plan, **options))


@pytest.mark.parametrize("padding", PADDINGS)
@pytest.mark.parametrize("layout", ["gymnasium grey", "channels last", "window"])
def test_a_stack_is_recognised(layout: str, padding: str) -> None:
    assert layout in LAYOUTS
    plan = stack_plan(Stacking(layout=layout, padding=padding), named=True, buffer_size=600, steps=300)
    ours = made(plan)
    for step in plan.play():
        added(step, ours)
    described = ours.describe()
    assert described["keys"]["image"]["stack"] == 4
    assert described["transitions"] == len(ours) == 600


def test_specs_may_be_tuples_spaces_or_arrays() -> None:
    ways = (
        ((4,), "float32"),
        [4, np.float32],
        ((4,), np.dtype("float32"), -1, 1),
        box((4,), "float32"),
        np.zeros(4, np.float32),
    )
    for way in ways:
        ours = Replay(10, way, fields={"action": spaces.Discrete(3)})
        ours.add([1, 2, 3, 4], [[5, 6, 7, 8]], action=2)
        batch = ours.sample(3)
        assert_same(batch["next_obs"], np.array([[5, 6, 7, 8]] * 3, np.float32))
        assert_same(batch["action"], np.array([2, 2, 2]))


# -- n-step returns ----------------------------------------------------------------------------------------------------


def followed(theirs: Reference, row: int, env: int, n_steps: int, gamma: float) -> tuple[int, float, float, bool, bool]:
    """One step after another, to the end of the episode or the newest row."""
    total, discount = 0.0, 1.0
    for step in range(n_steps):
        at = (row + step) % theirs.rows
        entry = theirs.kept[at]
        total += discount * float(entry["reward"][env])
        discount *= gamma
        terminated, truncated = bool(entry["terminated"][env]), bool(entry["truncated"][env])
        if terminated or truncated or at == theirs.newest:
            break
    return at, total, discount, terminated, truncated


@given(
    plan=plans(steps=lambda rng: rng.randint(1, 150), size=lambda rng: rng.randint(1, 120)),
    n_steps=st.integers(2, 9),
    gamma=st.sampled_from((0.99, 1.0, 0.5, 0.0)),
)
@examples(18)
def test_n_step_returns_are_those_of_a_loop(plan: Plan, n_steps: int, gamma: float) -> None:
    ours, theirs = made(plan, n_steps=n_steps, gamma=gamma), Reference(plan, plan.buffer_size)
    looks = plan.looks
    for number, step in enumerate(plan.play()):
        added(step, ours, theirs)
        if number not in looks:
            continue
        rows, envs = (index.reshape(-1) for index in np.mgrid[: theirs.filled, : plan.n_envs])
        batch, plain = ours.gather(rows, envs), theirs.gather(rows, envs)
        ends = [followed(theirs, int(row), int(env), n_steps, gamma) for row, env in zip(rows, envs, strict=True)]
        last, totals, discounts, terminated, truncated = (np.array(part) for part in zip(*ends, strict=True))
        assert_same(batch["next_obs"], theirs.gather(last, envs)["next_obs"], "next_obs")
        assert_same(batch["reward"], totals.astype(np.float32), "reward")
        assert_same(batch["discount"], discounts.astype(np.float32), "discount")
        assert_same(batch["terminated"], terminated, "terminated")
        assert_same(batch["truncated"], truncated, "truncated")
        for name in ("obs", "action"):
            assert_same(batch[name], plain[name], name)


def test_rewards_may_be_vectors_and_whole_numbers() -> None:
    flag = ((1,), "uint8")
    fields = {"reward": ((2,), "int32"), "terminated": flag, "truncated": flag}
    ours = Replay(10, ((), "int64"), fields=fields, n_steps=3, gamma=0.5)
    for number in range(4):
        ours.add(number, number + 1, reward=[[number, 10]], terminated=[[0]], truncated=[[number == 2]])
    batch = ours.gather([0, 1, 3])
    assert_same(batch["reward"], np.array([[0 + 0.5 + 0.5, 17.5], [1 + 1, 15], [3, 10]], np.float32))
    assert_same(batch["next_obs"], np.array([3, 3, 4]))
    assert_same(batch["discount"], np.array([0.125, 0.25, 0.5], np.float32))
    assert_same(batch["truncated"], np.array([[1], [1], [0]], np.uint8))


# -- priorities --------------------------------------------------------------------------------------------------------


def numbered(**options: Any) -> Replay:
    """Sixty transitions of three envs, each with its index; twelve rows written over."""
    ours = Replay(60, ((), "int64"), 3, fields={"number": ((), "int64")}, **options)
    for row in range(32):
        number = (row % 20) * 3 + np.arange(3)
        ours.add(number, number, number=number)
    return ours


def assert_proportional(ours: Replay, expected: np.ndarray, beta: float) -> None:
    rng, counts = np.random.default_rng(0), np.zeros(expected.size)
    chances = expected / expected.sum()
    for _ in range(30):
        batch = ours.sample(500, rng)
        assert_same(batch["number"], batch["indices"])
        counts += np.bincount(batch["indices"], minlength=expected.size)
        weights = (expected.size * chances[batch["indices"]]) ** -beta
        np.testing.assert_allclose(batch["weights"], weights / weights.max(), rtol=1e-5)
    drawn = 30 * 500
    # Five standard deviations of independent draws; stratified ones vary less.
    assert (np.abs(counts - drawn * chances) <= 5 * np.sqrt(drawn * chances) + 1).all()


@pytest.mark.parametrize("alpha", [0.0, 0.6, 1.0])
def test_draws_are_in_proportion_to_priorities(alpha: float, tmp_path: Path) -> None:
    ours = numbered(prioritized=True, alpha=alpha, beta=0.5)
    assert_proportional(ours, np.ones(60), 0.5)
    given = np.random.default_rng(1).random(60) * 4
    ours.update_priorities(np.arange(60), given)
    assert_proportional(ours, (given + 1e-6) ** alpha, 0.5)
    ours.save(tmp_path / "buffer")
    for again in (Replay.load(tmp_path / "buffer"), copy.deepcopy(ours)):
        assert_proportional(again, (given + 1e-6) ** alpha, 0.5)
        assert_same(again.sample(50, np.random.default_rng(3)), ours.sample(50, np.random.default_rng(3)))


@pytest.mark.parametrize("capacity", [9, 60, 61, 5000])
def test_priorities_move_with_their_transitions(capacity: int) -> None:
    ours = numbered(prioritized=True, alpha=1.0)
    given = 1 + np.arange(60.0)
    ours.update_priorities(np.arange(60), given)
    before = {int(n): given[n] for n in range(60)}
    ours.resize(capacity)
    left = ours.gather(*(index.reshape(-1) for index in np.mgrid[: len(ours) // 3, :3]))["number"]
    expected = np.array([before[int(number)] for number in left]) + 1e-6
    counts = np.zeros(len(ours))
    rng = np.random.default_rng(0)
    for _ in range(40):
        batch = ours.sample(500, rng)
        assert_same(batch["number"], left[batch["indices"]])
        counts += np.bincount(batch["indices"], minlength=len(ours))
    share = 20_000 * expected / expected.sum()
    assert (np.abs(counts - share) <= 5 * np.sqrt(share) + 1).all()
    for row in range(700):
        ours.add(np.full(3, row), np.full(3, row), number=np.full(3, row))
    assert ours.sample(500)["indices"].max() < len(ours)


def test_new_transitions_get_the_largest_priority_and_cleared_ones_none() -> None:
    ours = numbered(prioritized=True, alpha=1.0)
    ours.update_priorities(np.arange(60), np.full(60, 9.0))
    ours.clear()
    assert len(ours) == 0
    ours.add(np.zeros(3), np.ones(3), number=np.arange(3))
    assert set(ours.sample(100)["indices"]) == {0, 1, 2}
    ours.update_priorities([0, 1], [0.0, 0.0])
    assert (ours.sample(1000, np.random.default_rng(0))["indices"] == 2).mean() > 0.99


@pytest.mark.parametrize("indices", [[-1], [60], [3, 10**9]])
def test_priorities_of_what_is_not_there_are_refused(indices: list[int]) -> None:
    ours = numbered(prioritized=True)
    with pytest.raises(UsageError, match="index"):
        ours.update_priorities(indices, np.ones(len(indices)))
    with pytest.raises(UsageError, match="prioritized"):
        numbered().update_priorities([0], [1.0])


# -- saving and resizing -----------------------------------------------------------------------------------------------


def through_pickle(buffer: Replay, folder: Path) -> Replay:
    return pickle.loads(pickle.dumps(buffer))


def through_deepcopy(buffer: Replay, folder: Path) -> Replay:
    return copy.deepcopy(buffer)


def through_a_file(buffer: Replay, folder: Path) -> Replay:
    assert buffer.save(folder / "buffer") == (folder / "buffer").stat().st_size
    return Replay.load(str(folder / "buffer"))


def through_restore(buffer: Replay, folder: Path) -> Replay:
    """Into a buffer that already holds other things."""
    buffer.save(str(folder / "buffer"))
    other = copy.deepcopy(buffer)
    other.resize(77)
    other.restore(folder / "buffer")
    return other


WAYS = {
    "pickle": through_pickle,
    "deepcopy": through_deepcopy,
    "save and load": through_a_file,
    "restore": through_restore,
}
PLANS = {
    "dict": replace(PLAIN, buffer_size=400, steps=500),
    "stack": STACK,
    "barely begun": replace(PLAIN, steps=3),
    "empty": replace(PLAIN, steps=1),
}


@pytest.mark.parametrize("way", WAYS.values(), ids=list(WAYS))
@pytest.mark.parametrize("codec", ["none", "zstd"])
@pytest.mark.parametrize("plan", PLANS.values(), ids=list(PLANS))
def test_a_buffer_goes_on_after_a_round_trip(plan: Plan, codec: str, way: Callable[..., Any], tmp_path: Path) -> None:
    ours, theirs = made(plan, codec=codec, n_steps=1, seed=5), Reference(plan, plan.buffer_size)
    steps = list(plan.play())
    half = len(steps) // 2
    for step in steps[:half]:
        added(step, ours, theirs)
    again = way(ours, tmp_path)
    assert_equal(again, theirs)
    if half:
        assert_same(again.sample(9), ours.sample(9), "its own generator goes on too")
    for step in steps[half:]:
        added(step, again, theirs)
    assert_equal(again, theirs)
    assert again.describe().keys() == ours.describe().keys()


@given(plan=plans(), codec=st.sampled_from(CODECS), cut=st.floats(0, 1))
@examples(10)
def test_any_buffer_goes_on_after_pickling(plan: Plan, codec: str, cut: float) -> None:
    ours, theirs = made(plan, codec=codec), Reference(plan, plan.buffer_size)
    for number, step in enumerate(plan.play()):
        if number == int(cut * plan.steps):
            ours = pickle.loads(pickle.dumps(ours))
        added(step, ours, theirs)
    assert_equal(ours, theirs)


@given(plan=plans(), sizes=st.lists(st.integers(1, 900), min_size=1, max_size=3), codec=st.sampled_from(CODECS))
@examples(12)
def test_a_resized_buffer_keeps_the_newest(plan: Plan, sizes: list[int], codec: str) -> None:
    ours, theirs = made(plan, codec=codec), Reference(plan, plan.buffer_size)
    steps = list(plan.play())
    share = max(len(steps) // (len(sizes) + 1), 1)
    for number, size in enumerate([*sizes, None]):
        for step in steps[number * share : (number + 1) * share]:
            added(step, ours, theirs)
        assert_equal(ours, theirs)
        if size is not None:
            ours.resize(size)
            theirs = theirs.resized(size)
            assert_equal(ours, theirs)


def test_a_file_needs_no_pickle_and_another_kind_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ours, theirs = made(STACK, codec="lz4"), Reference(STACK, STACK.buffer_size)
    for step in STACK.play():
        added(step, ours, theirs)
    with monkeypatch.context() as patched:
        for name in ("dumps", "dump", "loads", "load"):
            patched.setattr(pickle, name, None)
        ours.save(tmp_path / "stack")
        assert_equal(Replay.load(tmp_path / "stack"), theirs)
    for other in (made(PLAIN), Replay(400, STACK.observation_space, 2), Replay(400, STACK.observation_space, 1)):
        with pytest.raises(AnalysisError, match="stack"):
            other.restore(tmp_path / "stack")
        assert len(other) == 0
    with pytest.raises(AnalysisError, match="nowhere"):
        Replay.load(tmp_path / "nowhere")


def test_a_damaged_file_is_refused_and_nothing_is_lost(tmp_path: Path) -> None:
    ours, theirs = made(VECTOR), Reference(VECTOR, VECTOR.buffer_size)
    for step in VECTOR.play():
        added(step, ours, theirs)
    ours.save(tmp_path / "buffer")
    whole = (tmp_path / "buffer").read_bytes()
    for damaged in (whole[:-100], whole[:3000] + bytes([whole[3000] ^ 1]) + whole[3001:], b"else", whole + b"more"):
        (tmp_path / "buffer").write_bytes(damaged)
        with pytest.raises(AnalysisError):
            ours.restore(tmp_path / "buffer")
        assert_equal(ours, theirs)
    with no_file_longer_than(1000), pytest.raises(AnalysisError):
        ours.save(tmp_path / "buffer")


# -- options -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("codec", ["none", "zstd"])
def test_a_budget_is_held(codec: str, tmp_path: Path) -> None:
    plan = replace(PLAIN, observation_space=box((3, 32, 32), "uint8"), contents={}, buffer_size=2000, steps=1300)
    ours, theirs = made(plan, codec=codec, budget="2MB", spill=tmp_path), Reference(plan, plan.buffer_size)
    for step in plan.play():
        added(step, ours, theirs)
    assert_equal(ours, theirs)
    assert ours.spilled_nbytes > 2_000_000
    assert ours.nbytes < 2_000_000 + sum(field.nbytes for field in ours.fields.values())


def test_lossy_observations_are_near(tmp_path: Path) -> None:
    parts = {"half": ((3,), "float32"), "steps": ((3,), "float64", -1.0, 1.0), "exact": ((), "float32")}
    ours = Replay(50, parts, lossy={"half": "float16", "steps": "uint8"})
    given = np.random.default_rng(0).uniform(-1, 1, (80, 3))
    for now, then in pairwise(given):
        ours.add(*({"half": one, "steps": one, "exact": one[0]} for one in (now, then)))
    ours.save(tmp_path / "buffer")
    newest = given[29:79]
    for again in (ours, Replay.load(tmp_path / "buffer")):
        batch = again.gather((np.arange(50) + 29) % 50)["obs"]
        assert_same(batch["half"], newest.astype(np.float32).astype(np.float16).astype(np.float32))
        assert_same(batch["exact"], newest[:, 0].astype(np.float32))
        assert batch["steps"].dtype == np.float64
        assert np.abs(batch["steps"] - newest).max() <= 1 / 255 + 1e-12
        assert again.describe()["keys"]["steps"]["lossy"]
    with pytest.raises(UsageError, match="shape"):
        ours.add(*({"half": now, "steps": now[:2], "exact": 0},) * 2)


def test_a_batch_kept_stays_what_it_was() -> None:
    ours = made(PLAIN, codec="auto")
    kept = []
    for number, step in enumerate(PLAIN.play()):
        added(step, ours)
        if number % 90 == 5:
            batch = ours.sample(16, np.random.default_rng(number))
            kept.append((batch, copy.deepcopy(batch)))
    for mine, copied in kept:
        assert_same(mine, copied)


def test_memory_is_counted_as_it_fills() -> None:
    ours = Replay(10**6, ((3, 84, 84), "uint8"), fields={"action": ((), "int64")})
    assert ours.nbytes < 100_000
    assert ours.bytes_per_transition == 0
    still = np.random.default_rng(0).integers(0, 255, (200, 1, 3, 84, 84), np.uint8)
    for now, then in pairwise(still):
        ours.add(now, then, action=0)
    assert 1.0 < ours.bytes_per_transition / still[0].size < 1.6
    assert ours.reserved_nbytes >= ours.nbytes
    assert repr(ours).startswith("<Replay of 199 of 1,000,000 transitions (0.0199 %), ")
    assert f"{ours.bytes_per_transition:,.0f} B a transition: obs (3, 84, 84) uint8>" in repr(ours)


# -- refusals ----------------------------------------------------------------------------------------------------------

IMAGE = ((4, 9, 8), "uint8")
WRONG: dict[str, tuple[dict[str, Any], str]] = {
    "no room": ({"capacity": 0}, "capacity"),
    "no environments": ({"n_envs": 0}, "n_envs"),
    "an unknown codec": ({"codec": "zstandard"}, "zstandard"),
    "a codec for an unknown key": ({"codec": {"imaeg": "zstd"}}, "imaeg"),
    "a stack that does not divide": ({"stack": 3, "stack_axis": 0}, "stack"),
    "a budget with no folder": ({"budget": "1GB"}, "spill"),
    "a speed below nothing": ({"speed": -1}, "speed"),
    "less than no threads": ({"threads": -1}, "threads"),
    "a loss of whole numbers": ({"lossy": "float16"}, "lossy"),
    "a negative exponent": ({"prioritized": True, "alpha": -1}, "alpha"),
    "no steps": ({"n_steps": 0}, "n_steps"),
    "steps without ends": ({"n_steps": 3, "fields": {"reward": ((), "float32")}}, "terminated"),
    "many ends for an env": (
        {"n_steps": 3, "fields": dict.fromkeys(("reward", "terminated", "truncated"), ((2,), "float32"))},
        "terminated",
    ),
    "a field called obs": ({"fields": {"obs": ((), "int64")}}, "obs"),
    "a field without a dtype": ({"fields": {"action": (2,)}}, "action"),
    "a field of objects": ({"fields": {"info": ((), "object")}}, "object"),
    "an unknown dtype": ({"observation": ((3,), "floaty")}, "floaty"),
    "a negative shape": ({"observation": ((-3,), "float32")}, "-3"),
    "a dict in a dict": ({"observation": {"a": {"b": IMAGE}}}, "flatten"),
    "an empty dict": ({"observation": {}}, "dict"),
    "nothing with a shape": ({"observation": 5}, "5"),
    "a space of texts": ({"observation": spaces.Text(5)}, "Text"),
    "a space of two": ({"observation": spaces.Tuple([spaces.Discrete(2)] * 2)}, "dict"),
}


def one_sentence(caught: pytest.ExceptionInfo[Any], word: str) -> None:
    message = str(caught.value)
    assert word in message and "\n" not in message and len(message) < 300, message


@pytest.mark.parametrize(("options", "word"), WRONG.values(), ids=list(WRONG))
def test_wrong_arguments_are_named(options: dict[str, Any], word: str) -> None:
    with pytest.raises(UsageError) as caught:
        Replay(**{"capacity": 100, "observation": IMAGE, **options})
    one_sentence(caught, word)


def wrong_values(step: Step) -> Iterator[tuple[dict[str, Any], str]]:
    obs, next_obs, *_ = step.given()
    right = {"obs": obs, "next_obs": next_obs, **values(step)}
    for name in ("obs", "next_obs"):
        yield {**right, name: obs[:1]}, "shape"
        yield {**right, name: np.concatenate((obs, obs))}, "shape"
        yield {**right, name: obs.T}, "shape"
        yield {**right, name: {"image": obs}}, "array"
    yield {**right, "reward": [1.0]}, "reward"
    yield {**right, "reward": ["a", "b"]}, "reward"
    yield {**right, "action": 3}, "action"
    yield {**right, "rewrad": step.reward}, "reward"
    yield {key: value for key, value in right.items() if key != "truncated"}, "truncated"


def test_wrong_values_are_named_and_harm_nothing() -> None:
    ours, theirs = made(VECTOR), Reference(VECTOR, VECTOR.buffer_size)
    for step in VECTOR.play():
        added(step, ours, theirs)
    for wrong, word in wrong_values(step):
        with pytest.raises(UsageError) as caught:
            ours.add(**wrong)
        one_sentence(caught, word)
    assert_equal(ours, theirs)
    with pytest.raises(UsageError, match="dict of image"):
        made(PLAIN).add(step.obs, step.next_obs, **values(step))


@pytest.mark.parametrize(("rows", "envs"), [([100], [0]), ([-1], [0]), ([0], [2]), ([0.5], [0]), ([[0, 1]], [0])])
def test_rows_that_are_not_there_are_refused(rows: Any, envs: Any) -> None:
    ours = made(VECTOR)
    for step in VECTOR.play():
        added(step, ours)
    with pytest.raises(UsageError):
        ours.gather(rows, envs)


def test_there_is_no_sampling_from_nothing() -> None:
    with pytest.raises(UsageError, match="add"):
        made(VECTOR).sample(4)
    with pytest.raises(UsageError, match="batch_size"):
        made(VECTOR).sample(0)
    with pytest.raises(UsageError, match="capacity"):
        made(VECTOR).resize(0)


ALONE = """
import sys
import numpy as np
from rlmem.buffers import Replay
replay = Replay(100, {"image": ((3, 8, 8), "uint8")}, n_envs=2)
replay.add({"image": np.zeros((2, 3, 8, 8))}, {"image": np.ones((2, 3, 8, 8))})
replay.sample(4)
print(sorted({"torch", "gymnasium", "stable_baselines3"} & set(sys.modules)))
"""
BARE = """
import sys
sys.modules["numba"] = None
import rlmem.buffers
try:
    rlmem.buffers.Replay
except rlmem.errors.AnalysisError as problem:
    print(problem)
"""


@pytest.mark.parametrize(("code", "said"), [(ALONE, "[]"), (BARE, "Replay needs numba: pip install 'rlmem[buffers]'")])
def test_it_needs_numpy_and_numba_and_says_so(code: str, said: str) -> None:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == said
