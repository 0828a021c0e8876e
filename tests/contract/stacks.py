"""Observations that repeat their past: frame stacks of every layout and padding, sliding windows of vectors."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from random import Random
from typing import Any

import numpy as np
from gymnasium import spaces

from contract.strategies import ACTION_SPACES, Plan, any_pace, box
from contract.streams import Array, Pace, Part, Step, parts_of, played

#: Shape of one frame, and the axis of the observation along which frames are joined. A frame without that axis gets it.
LAYOUTS: dict[str, tuple[tuple[int, ...], int, bool]] = {
    "channels first": ((1, 9, 8), 0, False),
    "channels last": ((9, 8, 1), 2, False),
    "RGB first": ((3, 7, 6), 0, False),
    "RGB last": ((7, 6, 3), 2, False),
    "gymnasium grey": ((9, 8), 0, True),
    "gymnasium RGB": ((7, 6, 3), 0, True),
    "window": ((5,), 0, True),
    "flat window": ((5,), 0, False),
}
PADDINGS = ("zero", "repeat")


@dataclass(frozen=True, slots=True, kw_only=True)
class Stacking:
    """How frames make an observation."""

    layout: str
    frames: int = 4
    padding: str = "zero"
    dtype: str = "uint8"
    content: str = "noise"
    #: The first episode is joined in its middle: its stack is full of frames that were never given.
    middle: bool = False

    @property
    def axis(self) -> int:
        return LAYOUTS[self.layout][1]

    @property
    def frame(self) -> spaces.Box:
        return box(LAYOUTS[self.layout][0], self.dtype)

    @property
    def space(self) -> spaces.Box:
        return box(self.joined([np.zeros(self.frame.shape)] * self.frames).shape, self.dtype)

    def joined(self, frames: list[Array], *, batched: int = 0) -> Array:
        """The observation of these frames, oldest first; ``batched`` is 1 with an axis of environments in front."""
        _, axis, new = LAYOUTS[self.layout]
        return (np.stack if new else np.concatenate)(frames, axis=axis + batched)


class Stacked:
    """A part of the observation that stacks what another part sees."""

    def __init__(self, stacking: Stacking, n_envs: int, rng: np.random.Generator) -> None:
        self.stacking = stacking
        self.source = Part(stacking.frame, stacking.content, n_envs, rng)
        self.frames = [self.source.now.copy() for _ in range(stacking.frames)]
        if stacking.middle:
            self.frames = [self.source.step() for _ in range(stacking.frames)]
        else:
            self._pad(np.ones(n_envs, bool))

    @property
    def now(self) -> Array:
        return self.stacking.joined(self.frames, batched=1)

    def _pad(self, which: Array) -> None:
        newest = self.source.now[which]
        for number in range(self.stacking.frames):
            last = number == self.stacking.frames - 1
            self.frames[number] = self.frames[number].copy()
            self.frames[number][which] = newest if last or self.stacking.padding == "repeat" else 0

    def step(self) -> Array:
        self.frames = [*self.frames[1:], self.source.step()]
        return self.now

    def reset(self, which: Array) -> None:
        self.source.reset(which)
        self._pad(which)


@dataclass(frozen=True, slots=True, kw_only=True)
class StackPlan(Plan):
    """A plan with stacked parts; the others are as in any plan."""

    stacked: dict[str, Stacking]

    def play(self) -> Iterator[Step]:
        rng = np.random.default_rng(self.seed)
        made: dict[str, Any] = {}
        for key, part in parts_of(self.observation_space).items():
            stacking = self.stacked.get(key)
            content = self.contents.get(key, "noise")
            made[key] = Stacked(stacking, self.n_envs, rng) if stacking else Part(part, content, self.n_envs, rng)
        yield from played(
            self.observation_space,
            self.action_space,
            made,
            n_envs=self.n_envs,
            steps=self.steps,
            rng=rng,
            pace=self.pace,
        )


def stack_plan(stacking: Stacking, *, named: bool = False, **options: Any) -> StackPlan:
    """A plan over one stack, or over a Dict of a stack and a vector."""
    given: dict[str, Any] = {"n_envs": 2, "buffer_size": 600, "steps": 900, "seed": 3, "pace": Pace(), **options}
    space: Any = stacking.space
    if named:
        space = spaces.Dict({"image": space, "vector": box((3,), "float32")})
    return StackPlan(
        observation_space=space, action_space=ACTION_SPACES[3], stacked={"image" if named else "": stacking}, **given
    )


def any_stacking(rng: Random) -> Stacking:
    return Stacking(
        layout=rng.choice(tuple(LAYOUTS)),
        frames=rng.randint(2, 5),
        padding=rng.choice(PADDINGS),
        dtype=rng.choice(("uint8", "uint8", "float32", "int16")),
        content=rng.choice(("noise", "walk", "constant", "still", "sparse", "special")),
        middle=rng.choice((False, True)),
    )


def any_stack_plan(rng: Random) -> StackPlan:
    stacking, named = any_stacking(rng), rng.choice((False, True))
    return stack_plan(
        stacking,
        named=named,
        n_envs=rng.randint(1, 4),
        buffer_size=rng.choice((1, 7, 40, 350, 1100)),
        steps=rng.randint(*rng.choice(((1, 60), (350, 900)))),
        pace=any_pace(rng),
        seed=rng.randint(0, 999),
    )
