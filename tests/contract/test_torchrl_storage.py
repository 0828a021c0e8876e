"""``rlmem.torchrl.CompactStorage`` against ``LazyTensorStorage``: same writes, same seed, same bits out."""

from __future__ import annotations

import copy
import io
import multiprocessing
import pickle
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("torchrl", reason="torchrl is not installed")

import torch
from hypothesis import given
from hypothesis import strategies as st
from tensordict import TensorDict, TensorDictBase, tensorclass
from torchrl import torchrl_logger
from torchrl.data import (
    LazyTensorStorage,
    ReplayBuffer,
    RoundRobinWriter,
    SamplerWithoutReplacement,
    SliceSampler,
    TensorDictReplayBuffer,
)

from contract.strategies import examples
from rlmem.buffers.store import Store
from rlmem.errors import AnalysisError, UsageError
from rlmem.torchrl import CompactStorage

pytestmark = pytest.mark.truth
torchrl_logger.setLevel("ERROR")

#: What an observation may hold; the key of each part, its shape and dtype.
PARTS: dict[Any, tuple[tuple[int, ...], torch.dtype]] = {
    "pixels": ((3, 6, 5), torch.uint8),
    "observation": ((4,), torch.float32),
    ("agents", "state"): ((2, 3), torch.bfloat16),
    "step_count": ((), torch.int64),
    "flag": ((1,), torch.bool),
}
CLASSES = (ReplayBuffer, TensorDictReplayBuffer)


class World:
    """An environment's stream of transitions, true final observations at its ends included."""

    def __init__(self, seed: int, parts: Any = tuple(PARTS), *, ends: float = 0.1, n_envs: int = 1) -> None:
        self.rng, self.parts, self.ends, self.n_envs = torch.Generator().manual_seed(seed), parts, ends, n_envs
        self.now = self.fresh()

    def fresh(self) -> TensorDict:
        made = TensorDict(batch_size=[self.n_envs])
        if ("agents", "state") in self.parts:
            made["agents"] = TensorDict(batch_size=[self.n_envs, 2])
        for part in self.parts:
            shape, dtype = PARTS[part]
            values = torch.randint(0, 200, (self.n_envs, *shape), generator=self.rng)
            made[part] = values.to(dtype)
            if part == "observation":
                made[part][values == 1], made[part][values == 2] = torch.nan, -0.0
        return made

    def step(self) -> TensorDict:
        """One step of every env."""
        then, n = self.fresh(), self.n_envs
        terminated, truncated = (torch.rand(n, 1, generator=self.rng) < self.ends / 2 for _ in range(2))
        flags = {"terminated": terminated, "truncated": truncated, "done": terminated | truncated}
        made = self.now.clone()
        made["action"] = torch.randn(n, 2, generator=self.rng)
        made["next"] = then.clone()
        made["next"].update({"reward": torch.randn(n, 1, generator=self.rng), **flags})
        made.update({name: torch.zeros_like(flag) for name, flag in flags.items()})
        starts = flags["done"].squeeze(-1)
        self.now = torch.where(starts, self.fresh(), then) if starts.any() else then
        return made

    def take(self, count: int) -> TensorDict:
        return torch.cat([self.step() for _ in range(count)])


def pair(kind: Any = ReplayBuffer, size: int = 100, sampler: Callable[[], Any] | None = None, **options: Any) -> Any:
    """A buffer on our storage and one on TorchRL's."""
    storages = (CompactStorage(size, **options), LazyTensorStorage(size))
    return tuple(kind(storage=s, batch_size=32, sampler=sampler() if sampler else None) for s in storages)


def bits(value: torch.Tensor) -> bytes:
    kinds = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}
    return value.view(kinds[value.element_size()]).numpy().tobytes()


def assert_same(ours: TensorDictBase, theirs: TensorDictBase) -> None:
    assert type(ours) is type(theirs)
    assert (ours.batch_size, ours.device) == (theirs.batch_size, theirs.device)
    assert set(ours.keys()) == set(theirs.keys())
    for key, value in theirs.items():
        mine = ours[key]
        if isinstance(value, TensorDictBase):
            assert_same(mine, value)
            continue
        assert (mine.dtype, mine.shape, mine.device) == (value.dtype, value.shape, value.device), key
        assert bits(mine) == bits(value), key


def assert_same_sample(ours: Any, theirs: Any, seed: int = 0) -> None:
    drawn = []
    for buffer in (ours, theirs):
        torch.manual_seed(seed)
        drawn.append((buffer.sample(), torch.rand(1).item()))
    assert_same(drawn[0][0], drawn[1][0])
    assert drawn[0][1] == drawn[1][1]


def assert_same_buffers(ours: Any, theirs: Any, seed: int = 0) -> None:
    assert len(ours) == len(theirs)
    assert_same_sample(ours, theirs, seed)
    assert_same(ours[:], theirs[:])


def extended(data: TensorDict, *buffers: Any) -> None:
    """Give the same to each; what was given is overwritten afterwards.

    TorchRL's storage gets it in parts no longer than itself: it leaves to chance (torch's ``index_put_``, with
    threads) which row of one write stays in a slot written twice. Ours keeps the last.
    """
    indices = []
    for buffer in buffers:
        given, storage = data.clone(), buffer.storage
        parts = given.split(storage.max_size) if isinstance(storage, LazyTensorStorage) else [given]
        indices.append(torch.cat([buffer.extend(part) for part in parts]))
        given.zero_()
    assert all(torch.equal(index, indices[0]) for index in indices)


@given(
    seed=st.integers(0, 2**32),
    parts=st.lists(st.sampled_from(list(PARTS)), min_size=1, max_size=4, unique=True),
    ends=st.sampled_from((0.0, 0.05, 0.4, 1.0)),
    size=st.sampled_from((1, 7, 60, 300)),
    writes=st.lists(st.integers(0, 90), min_size=1, max_size=8),
    kind=st.sampled_from(CLASSES),
    codec=st.sampled_from(("none", "auto", "zstd")),
)
@examples(18)
def test_any_writes_give_the_same_samples(
    seed: int, parts: list[Any], ends: float, size: int, writes: list[int], kind: Any, codec: str
) -> None:
    world = World(seed, parts, ends=ends)
    ours, theirs = pair(kind, size, codec=codec)
    for number, count in enumerate(writes):
        if count:
            extended(world.take(count), ours, theirs)
        else:
            one = world.take(1)[0]
            assert ours.add(one.clone()) == theirs.add(one.clone())
        assert_same_buffers(ours, theirs, number)


@pytest.mark.parametrize("codec", ["none", "lz4", {"pixels": "zstd", ("agents", "state"): "auto"}])
def test_a_long_stream_wraps_many_times(codec: Any) -> None:
    ours, theirs = pair(TensorDictReplayBuffer, 540, codec=codec)
    data = World(3).take(600)
    for number, count in enumerate((300, 1, 239, 400, 541)):
        extended(data[:count], ours, theirs)
        assert_same_buffers(ours, theirs, number)
    assert ours.storage.describe()["keys"].keys() == {"pixels", "observation", "agents.state", "step_count", "flag"}


@pytest.mark.parametrize("n_envs", [2, 5])
def test_steps_of_several_envs_are_kept_once_too(n_envs: int) -> None:
    world = World(4, ("pixels", "observation"), n_envs=n_envs)
    ours, theirs = pair(TensorDictReplayBuffer, 300 * n_envs, n_envs=n_envs)
    for number in range(230):
        extended(world.take(1 + number % 3), ours, theirs)
        if number % 40 == 0:
            assert_same_buffers(ours, theirs, number)
    assert_same_buffers(ours, theirs)
    plain = sum(value.nbytes for value in theirs[:].values(True, True))
    assert ours.storage.nbytes < 0.7 * plain
    with pytest.raises(UsageError, match="n_envs"):
        ours.extend(world.take(1)[:1])


def test_any_index_reads() -> None:
    world = World(5)
    ours, theirs = pair(size=50)
    extended(world.take(70), ours, theirs)
    picks: tuple[Any, ...] = (
        0, -1, slice(2, 9), slice(None, None, 7), slice(40, None), [3, 3, 0], range(4), np.array([1, 49]),
        torch.tensor([[0, 1, 2], [49, -50, 3]]), torch.arange(50) % 3 == 0, torch.tensor(7), (torch.tensor([4, 5]),),
        torch.empty(0, dtype=torch.long),
    )  # fmt: skip
    for pick in picks:
        assert_same(ours.storage.get(pick), theirs.storage.get(list(pick) if isinstance(pick, range) else pick))
    for wrong in (50, -51, [0, 77]):
        with pytest.raises(IndexError):
            ours.storage.get(wrong)
    assert 49 in ours.storage
    assert 50 not in ours.storage
    assert len(list(ours.storage)) == 50


@pytest.mark.parametrize("written", ["scalars", "slices", "ranges", "tensors", "arrays", "lists"])
def test_a_storage_can_be_written_in_any_words(written: str) -> None:
    world, size = World(6), 40
    ours, theirs = CompactStorage(size), LazyTensorStorage(size)
    data, start = world.take(100), 0
    while start < 100:
        count = 1 if written == "scalars" else min(7, size - start % size, 100 - start)
        at, part = start % size, data[start : start + count]
        cursors = {"scalars": at, "slices": slice(at, at + count), "ranges": range(at, at + count),
                   "tensors": torch.arange(at, at + count), "arrays": np.arange(at, at + count)}  # fmt: skip
        cursor = cursors.get(written, list(range(at, at + count)))
        ours.set(cursor, part[0] if written == "scalars" else part.clone())
        theirs.set(torch.arange(at, at + count), part.clone())
        start += count
    assert_same(ours[:], theirs[:])
    assert len(ours) == len(theirs) == size


# -- real streams and samplers -----------------------------------------------------------------------------------------


def collected() -> Iterator[TensorDictBase]:
    """CartPole cut off after 15 steps, as TorchRL plays it."""
    from torchrl.envs import GymEnv, StepCounter, TransformedEnv

    env = TransformedEnv(GymEnv("CartPole-v1"), StepCounter(max_steps=15))
    env.set_seed(0)
    torch.manual_seed(0)
    yield from (env.rollout(64, break_when_any_done=False) for _ in range(10))


def test_truncated_episodes_keep_their_final_observation() -> None:
    ours, theirs = pair(TensorDictReplayBuffer, 256)
    truncated = 0
    for number, batch in enumerate(collected()):
        truncated += int(batch["next", "truncated"].sum())
        extended(batch, ours, theirs)
        assert_same_buffers(ours, theirs, number)
    assert truncated > 10
    described = ours.storage.describe()["keys"]
    assert {"observation", "step_count"} <= described.keys()
    assert not {"done", "reward", "terminated", "truncated", "action"} & described.keys()


def slices() -> Any:
    return SliceSampler(num_slices=4, end_key=("next", "done"), strict_length=False)


@pytest.mark.parametrize("sampler", [SamplerWithoutReplacement, slices])
def test_other_samplers_draw_the_same(sampler: Callable[[], Any]) -> None:
    world = World(8, ("pixels",), ends=0.05)
    ours, theirs = pair(TensorDictReplayBuffer, 200, sampler)
    for number in range(8):
        extended(world.take(60), ours, theirs)
        for again in range(3):
            assert_same_sample(ours, theirs, 10 * number + again)


def test_a_sampler_that_looks_at_everything_reads_only_what_it_draws(monkeypatch: pytest.MonkeyPatch) -> None:
    ours, _ = pair(TensorDictReplayBuffer, 500, slices)
    ours.extend(World(9, ("pixels",), ends=0.05).take(500))
    read, gather = [], Store.gather
    monkeypatch.setattr(
        Store, "gather", lambda self, slots, *rest: (read.append(slots.size), gather(self, slots, *rest))
    )
    ours.sample()
    # The sampler itself looks at the ends of what it has drawn.
    assert sum(read) <= 2 * 32


def test_everything_held_reads_as_tensors() -> None:
    ours, theirs = pair(size=50)
    extended(World(10).take(60), ours, theirs)
    for key in ("pixels", ("next", "pixels"), ("next", "agents", "state"), "step_count"):
        mine, other = ours[:][key], theirs[:][key]
        assert (mine.shape, mine.dtype, mine.device, len(mine)) == (other.shape, other.dtype, other.device, len(other))
        assert torch.equal(mine, other) and torch.equal(other, mine)
        assert (
            torch.equal(mine[3:9], other[3:9])
            and torch.equal(mine[[4, 1]], other[[4, 1]])
            and torch.equal(mine[-1], other[-1])
        )
        assert torch.equal(mine[..., None], other[..., None]) and torch.equal(mine + 1, other + 1)
        assert torch.equal(torch.stack([mine, mine]), torch.stack([other, other]))
        assert torch.equal(mine.clone(), other) and mine.tolist() == other.tolist()
        assert torch.equal(pickle.loads(pickle.dumps(mine)), other)
        if other.dtype is not torch.bfloat16:
            assert np.array_equal(mine.numpy(), other.numpy()) and np.array_equal(np.asarray(mine), other.numpy())
    assert_same(ours[:][5:9], theirs[:][5:9])
    assert_same(ours[:].to_tensordict(), theirs[:])


def test_batches_fetched_ahead_by_threads_are_whole() -> None:
    storage = CompactStorage(500)
    buffer = ReplayBuffer(storage=storage, batch_size=64, prefetch=3)
    world = World(11, ("pixels",))
    kept = []
    for _ in range(20):
        data = world.take(40)
        # The reward says what the picture is.
        data["next", "reward"] = data["pixels"].float().mean((1, 2, 3)).unsqueeze(-1)
        buffer.extend(data)
        kept += [buffer.sample() for _ in range(3)]
    for batch in kept:
        assert torch.equal(batch["next", "reward"], batch["pixels"].float().mean((1, 2, 3)).unsqueeze(-1))


# -- saving ------------------------------------------------------------------------------------------------------------


def through_state_dict(buffer: Any, folder: Path) -> Any:
    file = io.BytesIO()
    torch.save(buffer.storage.state_dict(), file)
    file.seek(0)
    state = {**buffer.state_dict(), "_storage": torch.load(file, weights_only=True)}
    other = type(buffer)(storage=CompactStorage(buffer.storage.max_size, codec="zstd"), batch_size=32)
    other.load_state_dict(state)
    return other


def through_a_folder(buffer: Any, folder: Path) -> Any:
    buffer.dumps(folder / "buffer")
    other = type(buffer)(storage=CompactStorage(buffer.storage.max_size, codec="zstd"), batch_size=32)
    other.loads(folder / "buffer")
    return other


def through_deepcopy(buffer: Any, folder: Path) -> Any:
    return copy.deepcopy(buffer)


def through_pickle(buffer: Any, folder: Path) -> Any:
    return pickle.loads(pickle.dumps(buffer))


@pytest.mark.parametrize(
    ("way", "kind"),
    list(zip((through_state_dict, through_a_folder, through_deepcopy, through_pickle), CLASSES * 2, strict=True)),
)
def test_a_storage_goes_on_after_a_round_trip(way: Callable[..., Any], kind: Any, tmp_path: Path) -> None:
    data = World(12, ("pixels", ("agents", "state"))).take(560)
    ours, theirs = pair(kind, 530, codec="zstd")
    extended(data, ours, theirs)
    again = way(ours, tmp_path)
    assert_same_buffers(again, theirs)
    extended(data[:333], again, theirs)
    assert_same_buffers(again, theirs, 1)


def test_what_does_not_fit_is_not_loaded(tmp_path: Path) -> None:
    ours, theirs = pair(size=50)
    extended(World(13).take(60), ours, theirs)
    ours.storage.dumps(tmp_path)
    for other in (CompactStorage(51), CompactStorage(50, n_envs=5)):
        with pytest.raises(AnalysisError, match="50"):
            other.loads(tmp_path)
        with pytest.raises(AnalysisError, match="50"):
            other.load_state_dict(ours.storage.state_dict())
    with pytest.raises(AnalysisError):
        CompactStorage(50).loads(tmp_path / "nowhere")
    with pytest.raises(AnalysisError, match="nothing"):
        CompactStorage(50).dumps(tmp_path)
    fresh = CompactStorage(50)
    fresh.load_state_dict(CompactStorage(50).state_dict())
    assert len(fresh) == 0


def test_other_processes_cannot_have_it() -> None:
    ours, _ = pair(size=50)
    ours.extend(World(14).take(9))
    child = multiprocessing.get_context("spawn").Process(target=print, args=(ours.storage,))
    with pytest.raises(AnalysisError, match="process"):
        child.start()


def test_an_emptied_buffer_starts_again() -> None:
    world = World(15)
    ours, theirs = pair(size=80)
    for count in (100, 30, 90):
        for buffer in (ours, theirs):
            buffer.empty()
        assert len(ours) == 0
        assert len(ours.storage.describe()["keys"]) == (len(PARTS) if count < 100 else 0)
        extended(world.take(count), ours, theirs)
        assert_same_buffers(ours, theirs)


# -- memory ------------------------------------------------------------------------------------------------------------


def stacked(count: int) -> TensorDict:
    """Four frames of noise in every observation: Atari's layout."""
    frames = torch.randint(0, 255, (count + 4, 36, 36), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))
    windows = frames.unfold(0, 4, 1).permute(0, 3, 1, 2).contiguous()
    nothing = torch.zeros(count, 1)
    return TensorDict(
        {"pixels": windows[:-1], "next": {"pixels": windows[1:], "reward": nothing, "done": nothing.bool()}}, [count]
    )


@pytest.mark.parametrize("options", [{}, {"stack": 4}, {"stack": {"pixels": 4}, "stack_axis": {"pixels": 0}}])
def test_a_stack_is_an_eighth(options: dict[str, Any]) -> None:
    ours, theirs = pair(size=1000, **options)
    extended(stacked(1000), ours, theirs)
    assert_same_buffers(ours, theirs)
    assert ours.storage.describe()["keys"]["pixels"]["stack"] == 4
    plain = sum(value.nbytes for value in theirs[:].values(True, True))
    assert ours.storage.nbytes < plain / 6
    assert ours.storage.nbytes <= ours.storage.reserved_nbytes


def test_a_budget_is_held(tmp_path: Path) -> None:
    ours, theirs = pair(size=1500, stack=None, budget="3MB", spill=tmp_path)
    for _ in range(2):
        extended(stacked(1000), ours, theirs)
    assert_same_sample(ours, theirs)
    assert ours.storage.spilled_nbytes > 3_000_000
    assert ours.storage.nbytes < 3_000_000 + 1500 * 5
    assert_same(ours[200:700], theirs[200:700])


# -- refusals ----------------------------------------------------------------------------------------------------------


@tensorclass
class Named:
    """Data that is no TensorDict."""

    observation: torch.Tensor


def one_sentence(caught: pytest.ExceptionInfo[Any], word: str) -> None:
    message = str(caught.value)
    assert word in message and "\n" not in message and len(message) < 300, message


@pytest.mark.parametrize(
    ("options", "word"),
    [
        ({"max_size": 0}, "max_size"),
        ({"max_size": 10, "n_envs": 3}, "n_envs"),
        ({"n_envs": 0}, "n_envs"),
        ({"codec": "gzip"}, "gzip"),
        ({"budget": "1GB"}, "spill"),
        ({"threads": 0}, "threads"),
    ],
)
def test_wrong_arguments_are_named(options: dict[str, Any], word: str) -> None:
    with pytest.raises(UsageError) as caught:
        CompactStorage(**{"max_size": 10, **options})
    one_sentence(caught, word)


@pytest.mark.parametrize(
    ("options", "word"),
    [
        ({"keys": ["observatoin"]}, "observation"),
        ({"keys": ["action"]}, "action"),
        ({"codec": {"pixels": "zstd"}}, "pixels"),
        ({"stack": 3}, "stack"),
    ],
)
def test_wrong_keys_are_named_at_the_first_write(options: dict[str, Any], word: str) -> None:
    with pytest.raises(UsageError) as caught:
        ReplayBuffer(storage=CompactStorage(10, **options)).extend(World(0, ("observation",)).take(4))
    one_sentence(caught, word)


def test_only_declared_keys_are_kept_once() -> None:
    ours, theirs = pair(size=50, keys=["pixels", ("agents", "state")])
    extended(World(16).take(70), ours, theirs)
    assert_same_buffers(ours, theirs)
    assert set(ours.storage.describe()["keys"]) == {"pixels", "agents.state"}


def without(data: TensorDict, *keys: Any) -> TensorDict:
    return data.exclude(*keys)


@pytest.mark.parametrize(
    ("change", "word"),
    [
        (lambda data: without(data, "action"), "action"),
        (lambda data: data.clone().set("novel", torch.zeros(len(data))), "novel"),
        (lambda data: data.clone().set("action", torch.zeros(len(data), 3)), "action"),
        (lambda data: data.clone().set("action", torch.zeros(len(data), 2).double()), "action"),
        (lambda data: data.clone().set("words", ["a"] * len(data)), "words"),
        (lambda data: data["observation"], "TensorDict"),
        (lambda data: Named(observation=data["observation"], batch_size=[len(data)]), "TensorDict"),
    ],
)
def test_entries_of_another_kind_are_refused(change: Callable[[TensorDict], Any], word: str) -> None:
    world = World(17, ("observation",))
    ours, theirs = pair(size=20)
    extended(world.take(30), ours, theirs)
    with pytest.raises(UsageError) as caught:
        ours.extend(change(world.take(4)))
    one_sentence(caught, word)
    assert_same(ours[:], theirs[:])
    # The writer has moved on without the storage: the next write says so, and how to go on.
    with pytest.raises(UsageError, match="cursor"):
        ours.extend(world.take(4))
    ours.writer._cursor = 10
    extended(world.take(4), ours, theirs)
    assert_same(ours[:], theirs[:])


def test_data_without_next_is_refused() -> None:
    with pytest.raises(UsageError, match="next"):
        ReplayBuffer(storage=CompactStorage(10)).extend(TensorDict({"observation": torch.zeros(4, 3)}, [4]))


def test_only_ring_order_is_accepted() -> None:
    world = World(18, ("observation",))
    ours, theirs = pair(size=20)
    assert isinstance(ours.writer, RoundRobinWriter)
    extended(world.take(12), ours, theirs)
    for cursor in (11, 13, range(13, 15), torch.tensor([12, 14]), slice(0, 2), torch.tensor([12, 12])):
        count = 1 if isinstance(cursor, int) else 2
        data = world.take(count)
        with pytest.raises(UsageError, match="ring order"):
            ours.storage.set(cursor, data[0] if isinstance(cursor, int) else data)
    with pytest.raises(UsageError, match="places"):
        ours.storage.set(range(12, 15), world.take(2))
    with pytest.raises(UsageError, match="assigned"):
        ours[3] = world.take(1)[0]
    assert_same_buffers(ours, theirs)


def test_nothing_can_be_read_from_nothing() -> None:
    storage = CompactStorage(10)
    assert (len(storage), storage.nbytes, storage.bytes_per_transition, storage.describe()["keys"]) == (0, 0, 0, {})
    with pytest.raises(RuntimeError, match="non-initialized"):
        storage.get(0)
    assert "CompactStorage of 0 of 10 transitions (0 %), 0 B" in repr(ReplayBuffer(storage=storage))
