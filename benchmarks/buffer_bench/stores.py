"""The stores, one row each: what they are called, what they need installed, and how they are built.

A store is driven the same way whatever its API: ``prepare`` turns transitions into what the library takes (not timed),
``add`` is the library's own call, ``sample`` is one batch as the library returns it, and ``decode`` turns that into
arrays for checking (not timed).
"""

# ruff: noqa: D102  # what the methods do is said once, in Store
from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from buffer_bench.recording import Layout, Shape, Step

BATCH = 256


@dataclass(frozen=True, slots=True, kw_only=True)
class Sampled:
    """A batch as plain arrays; ``number`` says which transition of the recording each one is."""

    number: np.ndarray
    obs: Any
    next_obs: Any
    action: np.ndarray
    terminal: np.ndarray


class Store:
    """The interface; also what every library has in common."""

    chunk = 1  # transitions handed over at once

    def __init__(self, layout: Layout, capacity: int, scratch: Path) -> None:
        self.layout, self.capacity, self.scratch = layout, capacity, scratch

    def prepare(self, steps: Sequence[Step]) -> Any:
        """What ``add`` takes."""
        raise NotImplementedError

    def add(self, prepared: Any) -> None:
        """The library's call."""
        raise NotImplementedError

    def sample(self) -> Any:
        """One batch, as the library returns it."""
        raise NotImplementedError

    def decode(self, batch: Any) -> Sampled:
        """The same as arrays."""
        raise NotImplementedError

    def describe(self) -> dict[str, Any]:
        """What the store says of itself."""
        return {}


def plain(value: Any) -> Any:
    """Numpy arrays from tensors, in dicts too."""
    if isinstance(value, dict):
        return {key: plain(each) for key, each in value.items()}
    return np.asarray(value.cpu() if hasattr(value, "cpu") else value)


def spaces(layout: Layout) -> tuple[Any, Any]:
    """Gymnasium's spaces for the observations and actions."""
    from gymnasium import spaces as gym

    def box(shape: Shape) -> Any:
        if shape.dtype == "uint8":
            return gym.Box(0, 255, shape.shape, np.uint8)
        return gym.Box(-np.inf, np.inf, shape.shape, np.dtype(shape.dtype).type)

    boxes = {key: box(layout.observation(key)) for key in layout.units}
    action = gym.Discrete(layout.actions) if layout.actions else gym.Box(-1, 1, layout.action.shape, np.float32)
    return boxes["obs"] if layout.plain else gym.Dict(boxes), action


class SB3Like(Store):
    """Anything with the API of Stable-Baselines3's replay buffers."""

    buffer: Any

    def prepare(self, steps: Sequence[Step]) -> Any:
        (step,) = steps
        done = step.terminated or step.truncated
        infos = [{"TimeLimit.truncated": step.truncated}]
        return step.obs, step.next_obs, step.action, np.array([step.number], np.float32), np.array([done]), infos

    def add(self, prepared: Any) -> None:
        self.buffer.add(*prepared)

    def sample(self) -> Any:
        return self.buffer.sample(BATCH)

    def decode(self, batch: Any) -> Sampled:
        return Sampled(
            number=plain(batch.rewards).ravel().astype(np.int64),
            obs=plain(batch.observations),
            next_obs=plain(batch.next_observations),
            action=plain(batch.actions),
            terminal=plain(batch.dones).ravel() != 0,
        )


class SB3(SB3Like):
    """Stable-Baselines3 itself."""

    def __init__(self, layout: Layout, capacity: int, scratch: Path, *, optimized: bool = False) -> None:
        super().__init__(layout, capacity, scratch)
        from stable_baselines3.common import buffers

        cls = buffers.ReplayBuffer if layout.plain else buffers.DictReplayBuffer
        self.buffer = cls(
            capacity, *spaces(layout), device="cpu",
            optimize_memory_usage=optimized, handle_timeout_termination=not optimized,
        )  # fmt: skip


class Extra(SB3Like):
    """sb3-extra-buffers: one codec for every array, and one element type for every key of a Dict."""

    def __init__(
        self, layout: Layout, capacity: int, scratch: Path,
        *, method: str, optimized: bool = False, element: str | None = None,
    ) -> None:  # fmt: skip
        super().__init__(layout, capacity, scratch)
        from sb3_extra_buffers import compressed

        cls = compressed.CompressedReplayBuffer if layout.plain else compressed.CompressedDictReplayBuffer
        largest = max((layout.observation(key) for key in layout.units), key=lambda each: int(np.prod(each.shape)))
        dtypes = compressed.find_buffer_dtypes(
            largest.shape, elem_dtype=np.dtype(element or largest.dtype).type, compression_method=method
        )
        self.buffer = cls(
            capacity, *spaces(layout), device="cpu", dtypes=dtypes, compression_method=method,
            optimize_memory_usage=optimized, handle_timeout_termination=not optimized,
        )  # fmt: skip


class Compact(SB3Like):
    """This package's buffer for SB3."""

    def __init__(self, layout: Layout, capacity: int, scratch: Path, **options: Any) -> None:
        super().__init__(layout, capacity, scratch)
        from rlmem.sb3 import CompactReplayBuffer

        self.buffer = CompactReplayBuffer(capacity, *spaces(layout), device="cpu", **options)

    def describe(self) -> dict[str, Any]:
        return {
            "nbytes": self.buffer.nbytes,
            "bytes_per_transition": self.buffer.bytes_per_transition,
            "describe": self.buffer.describe(),
        }


class Neutral(Store):
    """This package's framework-neutral store, as a CleanRL-style loop uses it: numpy in, numpy out."""

    def __init__(self, layout: Layout, capacity: int, scratch: Path, **options: Any) -> None:
        super().__init__(layout, capacity, scratch)
        from rlmem.buffers import Replay

        shapes = {key: layout.observation(key) for key in layout.units}
        observation = {key: (each.shape, each.dtype) for key, each in shapes.items()}
        self.replay = Replay(
            capacity=capacity,
            observation=observation["obs"] if layout.plain else observation,
            fields={
                "action": (layout.action.shape, layout.action.dtype),
                "reward": ((), "float32"),
                "terminated": ((), "bool"),
            },
            **options,
        )
        self.rng = np.random.default_rng(0)

    def prepare(self, steps: Sequence[Step]) -> Any:
        (step,) = steps
        number, terminated = np.array([step.number], np.float32), np.array([step.terminated])
        return (step.obs, step.next_obs), {"action": step.action, "reward": number, "terminated": terminated}

    def add(self, prepared: Any) -> None:
        self.replay.add(*prepared[0], **prepared[1])

    def sample(self) -> Any:
        return self.replay.sample(BATCH, self.rng)

    def decode(self, batch: Any) -> Sampled:
        return Sampled(
            number=batch["reward"].ravel().astype(np.int64), obs=batch["obs"], next_obs=batch["next_obs"],
            action=batch["action"], terminal=batch["terminated"].ravel().astype(bool),
        )  # fmt: skip


def cpprb(*args: Any, **options: Any) -> Store:
    """Of ``peers``; imported when it is asked for."""
    from buffer_bench.peers import Cpprb

    return Cpprb(*args, **options)


def torchrl(*args: Any, **options: Any) -> Store:
    """Likewise."""
    from buffer_bench.peers import TorchRL

    return TorchRL(*args, **options)


def tianshou(*args: Any, **options: Any) -> Store:
    """Likewise."""
    from buffer_bench.peers import Tianshou

    return Tianshou(*args, **options)


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One store of the tables."""

    name: str
    label: str
    build: Callable[..., Store]
    options: dict[str, Any]
    install: str = ""  # what pip calls it
    only: Callable[[Layout], bool] | None = None  # layouts it can take, or is worth showing for


def boxes(layout: Layout) -> bool:
    """Not a Dict."""
    return layout.plain


def dicts(layout: Layout) -> bool:
    """A Dict."""
    return not layout.plain


def stacks(layout: Layout) -> bool:
    """Frame stacks."""
    return bool(layout.stack)


def row(name: str, label: str, build: Callable[..., Store], install: str, only: Any = None, **options: Any) -> Row:
    """A line of the table below."""
    return Row(name=name, label=label, build=build, options=options, install=install, only=only)


EXTRA = "sb3-extra-buffers"
#: Every replay store. The first is what the others are compared with.
ROWS = {
    each.name: each
    for each in (
        row("sb3", "SB3", SB3, "stable-baselines3"),
        row("sb3-optimized", "SB3, optimize_memory_usage", SB3, "stable-baselines3", boxes, optimized=True),
        row("rlmem", "rlmem", Compact, "rlmem"),
        row("rlmem-auto", "rlmem, codec=auto", Compact, "rlmem", codec="auto"),
        row("rlmem-lz4", "rlmem, codec=lz4", Compact, "rlmem", codec="lz4"),
        row("rlmem-zstd", "rlmem, codec=zstd", Compact, "rlmem", codec="zstd"),
        row("rlmem-huffman", "rlmem, codec=huffman", Compact, "rlmem", codec="huffman"),
        row("rlmem-replay", "rlmem.buffers.Replay (numpy)", Neutral, "rlmem"),
        row("extra-none", "sb3-extra, none", Extra, EXTRA, boxes, method="none"),
        row("extra-rle", "sb3-extra, RLE", Extra, EXTRA, stacks, method="rle-jit"),
        row("extra-gzip1", "sb3-extra, gzip1", Extra, EXTRA, stacks, method="gzip1"),
        row("extra-igzip1", "sb3-extra, igzip1", Extra, EXTRA, boxes, method="igzip1"),
        row("extra-zstd-3", "sb3-extra, zstd-3", Extra, EXTRA, boxes, method="zstd-3"),
        row("extra-zstd3", "sb3-extra, zstd3", Extra, EXTRA, stacks, method="zstd3"),
        row("extra-lz4-frame", "sb3-extra, LZ4 frame", Extra, EXTRA, stacks, method="lz4-frame"),
        row("extra-lz4-block", "sb3-extra, LZ4 block", Extra, EXTRA, boxes, method="lz4-block"),
        row("extra-lz4-optimized", "sb3-extra, LZ4 block, optimised", Extra, EXTRA, stacks,
            method="lz4-block", optimized=True),
        row("extra-dict-zstd-3", "sb3-extra Dict, zstd-3, uint8", Extra, EXTRA, dicts, method="zstd-3"),
        row("extra-dict-lz4", "sb3-extra Dict, LZ4 block, uint8", Extra, EXTRA, dicts, method="lz4-block"),
        row("extra-dict-lz4-float", "sb3-extra Dict, LZ4 block, float32", Extra, EXTRA, dicts,
            method="lz4-block", element="float32"),
        row("cpprb", "cpprb", cpprb, "cpprb"),
        row("cpprb-next-of", "cpprb, next_of", cpprb, "cpprb", next_of=True),
        row("cpprb-stack", "cpprb, next_of and stack_compress", cpprb, "cpprb", stacks, next_of=True, stack=True),
        row("torchrl-tensor", "TorchRL LazyTensorStorage", torchrl, "torchrl", storage="LazyTensorStorage"),
        row("torchrl-memmap", "TorchRL LazyMemmapStorage", torchrl, "torchrl", storage="LazyMemmapStorage"),
        row("torchrl-compressed", "TorchRL CompressedListStorage", torchrl, "torchrl", storage="CompressedListStorage"),
        row("tianshou", "Tianshou", tianshou, "tianshou"),
        row("tianshou-next", "Tianshou, ignore_obs_next", tianshou, "tianshou", ignore_obs_next=True),
        row("tianshou-stack", "Tianshou, stack_num", tianshou, "tianshou", stacks, ignore_obs_next=True, stack=True),
    )
}  # fmt: skip


def rows_for(layout: Layout) -> list[Row]:
    """The stores a workload is measured with."""
    return [each for each in ROWS.values() if each.only is None or each.only(layout)]
