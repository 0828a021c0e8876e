"""Recorded experience on disk: single frames and episode ends, mapped into memory, from which every transition is rebuilt."""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

SCHEMA = 2
#: The transition's own columns, beside the units.
COLUMNS = {"unit": "int64", "reward": "float32", "terminated": "bool", "truncated": "bool"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """One array of a unit (an observation, or the newest frame of a stack), or an action."""

    shape: tuple[int, ...]
    dtype: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """What a workload's observations and actions are."""

    units: dict[str, Shape]
    action: Shape
    actions: int | None = None  # how many, where they are discrete
    stack: int | None = None  # frames in a stack, on a new first axis; an episode starts with zeros

    @property
    def plain(self) -> bool:
        """One array, not a Dict."""
        return set(self.units) == {"obs"}

    def observation(self, key: str) -> Shape:
        """One array of an observation."""
        unit = self.units[key]
        return Shape(shape=(self.stack, *unit.shape), dtype=unit.dtype) if self.stack else unit

    @property
    def nbytes(self) -> int:
        """One observation."""
        every = [self.observation(key) for key in self.units]
        return sum(int(np.prod(each.shape)) * np.dtype(each.dtype).itemsize for each in every)


class Recorder:
    """Writes a recording; the folder appears under its name only when it is whole."""

    def __init__(self, folder: Path, layout: Layout) -> None:
        self.folder, self.layout = folder, layout
        folder.parent.mkdir(parents=True, exist_ok=True)
        self.partial = Path(tempfile.mkdtemp(prefix=f"{folder.name}.partial-", dir=folder.parent))
        self.files = {key: (self.partial / f"{key}.bin").open("wb") for key in layout.units}
        self.columns: dict[str, list[Any]] = {name: [] for name in (*COLUMNS, "action")}
        self.starts: list[int] = []
        self.units = 0

    def unit(self, **arrays: np.ndarray) -> int:
        """One more observation (or newest frame)."""
        for key, file in self.files.items():
            shape = self.layout.units[key]
            array = np.ascontiguousarray(arrays[key], dtype=shape.dtype)
            if array.shape != shape.shape:
                raise ValueError(f"{key} is {array.shape}, not {shape.shape}")
            file.write(array.tobytes())
        self.units += 1
        return self.units - 1

    def first(self, **arrays: np.ndarray) -> None:
        """An episode starts with this."""
        self.starts.append(self.unit(**arrays))

    def step(self, *, action: Any, reward: float, terminated: bool, truncated: bool, **arrays: np.ndarray) -> None:
        """A transition to this observation."""
        row = {"unit": self.units - 1, "action": action, "reward": reward, "terminated": terminated}
        for name, value in (row | {"truncated": truncated and not terminated}).items():
            self.columns[name].append(value)
        self.unit(**arrays)

    def __len__(self) -> int:
        """Transitions."""
        return len(self.columns["unit"])

    def close(self, seed: int) -> None:
        """Everything is written: put the folder in its place."""
        for file in self.files.values():
            file.close()
        for name, dtype in (COLUMNS | {"action": self.layout.action.dtype}).items():
            np.save(self.partial / f"{name}.npy", np.array(self.columns[name], dtype=dtype))
        np.save(self.partial / "starts.npy", np.array(self.starts, dtype=np.int64))
        facts = {"schema": SCHEMA, "transitions": len(self), "units": self.units, "seed": seed}
        (self.partial / "facts.json").write_text(json.dumps(facts), encoding="utf-8")
        self.partial.chmod(0o755)
        shutil.rmtree(self.folder, ignore_errors=True)
        self.partial.rename(self.folder)


def transitions_in(folder: Path) -> int:
    """How many transitions a finished recording holds; 0 where there is none, or an old one."""
    try:
        facts = json.loads((folder / "facts.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return 0
    return int(facts["transitions"]) if facts.get("schema") == SCHEMA else 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One transition as a training loop would hand it over: arrays have a leading axis of one environment."""

    obs: Any
    next_obs: Any
    action: np.ndarray
    number: int  # of the transition in the recording; stored as its reward, so that a sample can be checked
    terminated: bool
    truncated: bool


class Recording:
    """Reads a recording; the frames stay in the file until they are asked for."""

    def __init__(self, folder: Path, layout: Layout, transitions: int) -> None:
        facts = json.loads((folder / "facts.json").read_text(encoding="utf-8"))
        if facts["transitions"] < transitions:
            raise ValueError(f"{folder} holds {facts['transitions']:,} transitions, not {transitions:,}")
        self.folder, self.layout, self.transitions = folder, layout, transitions
        self.units = {
            key: np.memmap(folder / f"{key}.bin", shape.dtype, "r", shape=(facts["units"], *shape.shape))
            for key, shape in layout.units.items()
        }
        read = {name: np.load(folder / f"{name}.npy")[:transitions] for name in (*COLUMNS, "action")}
        self.unit, self.action, self.reward = read["unit"], read["action"], read["reward"]
        self.terminated, self.truncated = read["terminated"], read["truncated"]
        # The recording is played in a circle, so it has to end with the end of an episode.
        self.truncated[-1] = not self.terminated[-1]
        starts = np.load(folder / "starts.npy")
        self.first = starts[np.searchsorted(starts, np.arange(facts["units"]), side="right") - 1]

    def __len__(self) -> int:
        """Transitions."""
        return self.transitions

    def _array(self, key: str, units: np.ndarray) -> np.ndarray:
        source, stack = self.units[key], self.layout.stack
        if not stack:
            return np.asarray(source[units])
        frames = units[:, None] + np.arange(1 - stack, 1)
        before = frames < self.first[units][:, None]
        out = np.asarray(source[np.maximum(frames, 0)])
        out[before] = 0
        return out

    def observations(self, units: np.ndarray) -> Any:
        """The observations of these units, as an array or a dict of arrays."""
        arrays = {key: self._array(key, units) for key in self.units}
        return arrays["obs"] if self.layout.plain else arrays

    def _one(self, key: str, unit: int) -> np.ndarray:
        """A fresh array, as an environment gives, with the axis of one environment."""
        source, stack = self.units[key], self.layout.stack
        if not stack:
            return np.array(source[unit : unit + 1])
        out = np.empty((1, stack, *source.shape[1:]), source.dtype)
        known = min(unit - int(self.first[unit]) + 1, stack)
        out[0, : stack - known] = 0
        out[0, stack - known :] = source[unit + 1 - known : unit + 1]
        return out

    def observation(self, unit: int) -> Any:
        """One observation, with a leading axis of one."""
        if self.layout.plain:
            return self._one("obs", unit)
        return {key: self._one(key, unit) for key in self.units}

    def step(self, number: int) -> Step:
        """A transition; past the end the recording starts again."""
        number %= self.transitions
        unit = int(self.unit[number])
        return Step(
            obs=self.observation(unit),
            next_obs=self.observation(unit + 1),
            action=self.action[number : number + 1].copy(),
            number=number,
            terminated=bool(self.terminated[number]),
            truncated=bool(self.truncated[number]),
        )

    def steps(self, start: int) -> Iterator[Step]:
        """All transitions from one on, without end."""
        while True:
            yield self.step(start)
            start += 1
