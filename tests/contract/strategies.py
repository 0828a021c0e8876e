"""What hypothesis draws: spaces, streams over them, and when to look."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from random import Random
from typing import Any, TypeVar

import numpy as np
from gymnasium import spaces
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st

from contract.streams import CONTENTS, Pace, Step, parts_of, record

T = TypeVar("T")
Space = spaces.Space[Any]

CODECS = ("none", "auto", "lz4", "zstd", "huffman")
DTYPES = ("float32", "float32", "float64", "uint8", "float16", "int8", "int16", "uint16", "int32", "int64", "bool")
SHAPES = ((1,), (3,), (2, 3), (17,), (1, 5, 1))
IMAGES = ((3, 6, 5), (6, 5, 3), (1, 8, 8), (4, 7, 7), (7, 7, 4))
DISCRETES = (spaces.Discrete(5), spaces.Discrete(3, start=-2), spaces.MultiDiscrete([4, 2, 9]), spaces.MultiBinary(6))
ACTION_SPACES = (
    spaces.Box(-1, 1, (2,), np.float32),
    spaces.Box(-1, 1, (1, 3), np.float64),
    spaces.Box(-5, 5, (2,), np.int32),
    spaces.Discrete(4, start=-1),
    spaces.MultiDiscrete([3, 2]),
    spaces.MultiBinary(3),
)


def examples(count: int) -> settings:
    """Half as many examples, as slow as they are; RLMEM_CONTRACT_SCALE=20 makes it twenty times as many."""
    slow = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.large_base_example]
    # what fails was built by chance; making its seed smaller makes it no simpler
    phases = (Phase.explicit, Phase.reuse, Phase.generate)
    return settings(
        max_examples=max(1, round(count * float(os.environ.get("RLMEM_CONTRACT_SCALE", "0.5")))),
        deadline=None,
        suppress_health_check=slow,
        phases=phases,
    )


def chosen(build: Callable[[Random], T]) -> st.SearchStrategy[T]:
    """What is built by chance. Hypothesis only chooses the seed: left to itself it draws the small and the simple over and
    over, and a hundred examples never see most spaces.
    """

    @st.composite  # shows in a failure what was built, not from which seed
    def built(draw: st.DrawFn) -> T:
        return build(Random(draw(st.integers(0, 2**32 - 1))))

    return built()


def box(shape: tuple[int, ...], dtype: str) -> spaces.Box:
    """A Box as wide as its type allows, or unbounded."""
    kind = np.dtype(dtype).kind
    if kind == "f":
        return spaces.Box(-np.inf, np.inf, shape, np.dtype(dtype))
    low, high = (0, 1) if kind == "b" else (np.iinfo(dtype).min, np.iinfo(dtype).max)
    return spaces.Box(low, high, shape, np.dtype(dtype))


def vector(rng: Random) -> Space:
    return box(rng.choice(SHAPES), rng.choice(DTYPES))


def image(rng: Random) -> Space:
    return box(rng.choice(IMAGES), "uint8")


def plain(rng: Random) -> Space:
    """Anything but a Dict."""
    return rng.choice((vector, image, lambda rng: rng.choice(DISCRETES)))(rng)


def named(rng: Random) -> Space:
    """A Dict of up to three."""
    names = rng.choice((("image",), ("vector", "image"), ("z", "a"), ("vector", "a", "image")))
    return spaces.Dict({name: plain(rng) for name in names})


def anything(rng: Random) -> Space:
    return rng.choice((plain, named))(rng)


def any_pace(rng: Random) -> Pace:
    return Pace(
        terminated=rng.choice((0.02, 0.0, 0.3, 1.0)),
        truncated=rng.choice((0.0, 0.02, 0.3)),
        broken=rng.choice((0.0, 0.0, 0.05, 1.0)),
        odd=rng.choice((0.0, 0.0, 0.1)),
    )


def any_length(rng: Random) -> int:
    """Often short; sometimes long enough for any layout to be decided and for many wraps."""
    return rng.randint(*rng.choice(((1, 70), (1, 70), (350, 1300))))


def any_size(rng: Random) -> int:
    return rng.randint(*rng.choice(((1, 12), (13, 150), (500, 1500))))


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """A buffer to build and a stream to feed it with."""

    observation_space: Space
    action_space: Space
    n_envs: int
    buffer_size: int
    steps: int
    seed: int
    pace: Pace
    contents: dict[str, str] = field(default_factory=dict)
    timeouts: bool = True

    @property
    def common(self) -> dict[str, Any]:
        """What SB3's constructor and ours share."""
        return {
            "buffer_size": self.buffer_size,
            "observation_space": self.observation_space,
            "action_space": self.action_space,
            "n_envs": self.n_envs,
            "handle_timeout_termination": self.timeouts,
            "device": "cpu",
        }

    @property
    def looks(self) -> set[int]:
        """After which steps to sample: at the beginning, around the first wrap, now and then, at the end."""
        rows = max(self.buffer_size // self.n_envs, 1)
        often = range(0, self.steps, max(1, self.steps // 5))
        return {0, 1, rows - 2, rows - 1, rows, self.steps - 1, *often}

    def play(self) -> Iterator[Step]:
        """The stream; the same each time."""
        yield from record(
            self.observation_space,
            self.action_space,
            n_envs=self.n_envs,
            steps=self.steps,
            seed=self.seed,
            pace=self.pace,
            contents=self.contents,
        )


def plans(
    space: Callable[[Random], Space] = anything,
    pace: Callable[[Random], Pace] = any_pace,
    steps: Callable[[Random], int] = any_length,
    size: Callable[[Random], int] = any_size,
) -> st.SearchStrategy[Plan]:
    """Any stream over any space."""

    def build(rng: Random) -> Plan:
        observation_space = space(rng)
        return Plan(
            observation_space=observation_space,
            action_space=rng.choice(ACTION_SPACES),
            n_envs=rng.randint(1, 5),
            buffer_size=size(rng),
            steps=steps(rng),
            seed=rng.randint(0, 2**32 - 1),
            pace=pace(rng),
            contents={key: rng.choice(CONTENTS) for key in parts_of(observation_space)},
            timeouts=rng.choice((True, False)),
        )

    return chosen(build)
