"""Streams of transitions: as vectorised environments give them, and as they should not but may."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from gymnasium import spaces

Array = np.ndarray
Obs = Array | dict[str, Array]

#: What floats may hold that compares equal but is not the same, or differs from itself.
_SPECIALS = (0.0, -0.0, np.nan, -np.nan, np.inf, -np.inf, 1.0, -1.0, 1e-42)
#: How a part of an observation behaves: new everywhere, a few values at a time, the same always and in every
#: environment, the same for an episode, mostly zero, any bit pattern, special floats.
CONTENTS = ("noise", "walk", "constant", "still", "sparse", "bits", "special")


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One call of ``add``."""

    obs: Obs
    next_obs: Obs
    action: Array
    reward: Array
    done: Array
    infos: list[dict[str, Any]]

    def given(self) -> tuple[Any, ...]:
        """The arguments of ``add`` as copies: the buffer may not keep them, the caller may scribble on them."""
        parts = (self.obs, self.next_obs, self.action, self.reward, self.done)
        return (*(_copied(part) for part in parts), [dict(info) for info in self.infos])


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """How often things happen in each environment, per step."""

    terminated: float = 0.05
    truncated: float = 0.02
    #: The next obs is not the last next_obs although nothing ended: a reset from outside, an environment swapped.
    broken: float = 0.0
    #: TimeLimit.truncated without done, which only odd wrappers say.
    odd: float = 0.0


def _copied(part: Any) -> Any:
    return {key: value.copy() for key, value in part.items()} if isinstance(part, dict) else part.copy()


def scribble(arguments: tuple[Any, ...]) -> None:
    """Overwrite what was given to ``add``: environments reuse their arrays."""
    for part in arguments[:-1]:
        for array in part.values() if isinstance(part, dict) else (part,):
            array[...] = 1 if array.dtype == bool else 77


def parts_of(space: spaces.Space[Any]) -> dict[str, spaces.Space[Any]]:
    """The keys of a Dict space, or the space itself under the empty key."""
    return dict(space.spaces) if isinstance(space, spaces.Dict) else {"": space}


def together(space: spaces.Space[Any], parts: dict[str, Array]) -> Obs:
    """An observation from its parts."""
    return dict(parts) if isinstance(space, spaces.Dict) else parts[""]


def random_of(rng: np.random.Generator, space: spaces.Space[Any], content: str, n: int) -> Array:
    """n values of one part; bounds are not respected, since buffers do not ask for them."""
    if isinstance(space, spaces.Discrete):
        return (space.start + rng.integers(0, space.n, n)).astype(space.dtype)
    if isinstance(space, spaces.MultiDiscrete):
        return rng.integers(0, np.broadcast_to(space.nvec, (n, *space.shape))).astype(space.dtype)
    shape, dtype = (n, *space.shape), np.dtype(space.dtype)
    if dtype.kind == "b" or isinstance(space, spaces.MultiBinary):
        return rng.integers(0, 2, shape).astype(dtype)
    if content == "sparse":
        return (rng.integers(0, 100, shape) * (rng.random(shape) < 0.02)).astype(dtype)
    if dtype.kind in "iu" or content == "bits":
        words = np.dtype(f"u{dtype.itemsize}")
        return rng.integers(0, np.iinfo(words).max, shape, dtype=words, endpoint=True).view(dtype)
    if content == "special":
        return rng.choice(np.array(_SPECIALS), shape).astype(dtype)
    return rng.standard_normal(shape).astype(dtype)


class Part:
    """One part of the observation in n environments, as it changes."""

    def __init__(self, space: spaces.Space[Any], content: str, n_envs: int, rng: np.random.Generator) -> None:
        self.space, self.content, self.n_envs, self.rng = space, content, n_envs, rng
        self.now = self._fresh()
        if content == "constant":
            self.now[:] = self.now[:1]

    def _fresh(self) -> Array:
        return random_of(self.rng, self.space, self.content, self.n_envs)

    def step(self) -> Array:
        """Every environment takes a step; what it sees then."""
        if self.content not in ("constant", "still"):
            fresh = self._fresh()
            if self.content in ("walk", "special"):
                fresh = np.where(self.rng.random(fresh.shape) < 0.2, fresh, self.now)
            self.now = fresh
        return self.now.copy()

    def reset(self, which: Array) -> None:
        """The environments of the mask start again."""
        if self.content != "constant" and which.any():
            self.now = self.now.copy()
            self.now[which] = self._fresh()[which]


def record(
    space: spaces.Space[Any],
    action_space: spaces.Space[Any],
    *,
    n_envs: int,
    steps: int,
    seed: int,
    pace: Pace = Pace(),  # frozen
    contents: dict[str, str] | None = None,
) -> Iterator[Step]:
    """What n environments give in so many steps: final observations at ends, reset observations after them."""
    rng = np.random.default_rng(seed)
    chosen = contents or {}
    parts = {key: Part(part, chosen.get(key, "noise"), n_envs, rng) for key, part in parts_of(space).items()}
    yield from played(space, action_space, parts, n_envs=n_envs, steps=steps, rng=rng, pace=pace)


def played(
    space: spaces.Space[Any],
    action_space: spaces.Space[Any],
    parts: dict[str, Any],
    *,
    n_envs: int,
    steps: int,
    rng: np.random.Generator,
    pace: Pace,
) -> Iterator[Step]:
    """Step the parts (each with ``now``, ``step`` and ``reset``) and say what ends when."""
    for _ in range(steps):
        obs = {key: part.now.copy() for key, part in parts.items()}
        final = {key: part.step() for key, part in parts.items()}
        terminated = rng.random(n_envs) < pace.terminated
        truncated = (rng.random(n_envs) < pace.truncated) & ~terminated
        done, odd = terminated | truncated, rng.random(n_envs) < pace.odd
        infos: list[dict[str, Any]] = [{"bonus": float(rng.integers(8))} for _ in range(n_envs)]
        for env in np.flatnonzero(done):
            ending = {key: value[env].copy() for key, value in final.items()}
            infos[env] |= {"TimeLimit.truncated": bool(truncated[env]), "terminal_observation": together(space, ending)}
        for env in np.flatnonzero(odd):
            infos[env]["TimeLimit.truncated"] = True
        starts = done | (rng.random(n_envs) < pace.broken)
        for part in parts.values():
            part.reset(starts)
        yield Step(
            obs=together(space, obs),
            next_obs=together(space, final),
            action=random_of(rng, action_space, "noise", n_envs),
            reward=rng.standard_normal(n_envs).astype(np.float32),
            done=done,
            infos=infos,
        )
