"""A run, described: the knobs that decide its memory, each with its origin."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any

from rlmem.core.fields import FIELDS, find_field, plain_value, read_value
from rlmem.core.quantity import Quantity
from rlmem.core.spaces import Box, DictSpace, Leaf, Space, TupleSpace, Window, leaves
from rlmem.errors import SpecError


@dataclass(frozen=True, slots=True)
class RunSpec:
    """Checked values by dotted path, and for each where it came from (file line, option, framework default)."""

    values: Mapping[str, Any] = field(default_factory=dict)
    origins: Mapping[str, str] = field(default_factory=dict)

    def __contains__(self, path: object) -> bool:
        """Whether a knob has a value."""
        return path in self.values

    def __iter__(self) -> Iterator[str]:
        """Paths with a value, in table order."""
        return (row.path for row in FIELDS if row.path in self.values)

    @property
    def key(self) -> str:
        """What runs of the same size share: their values, wherever those come from."""
        return repr(sorted(self.values.items()))

    def get(self, path: str, default: Any = None) -> Any:
        """The value of a knob, or ``default``."""
        find_field(path)
        return self.values.get(path, default)

    def need(self, path: str) -> Any:
        """The value of a knob this run cannot be planned without."""
        if path not in self.values:
            doc = find_field(path).doc
            problem = f"missing: {doc[0].lower()}{doc[1:]} Add it to the description or pass --set {path}=…"
            files = (origin.rpartition(":") for origin in self.origins.values())
            raise SpecError(path, problem, where=next((name for name, _, line in files if line.isdigit()), None))
        return self.values[path]

    def count(self, path: str) -> int:
        """A needed whole number."""
        return int(self.need(path))

    def text(self, path: str) -> str:
        """A needed text."""
        return str(self.need(path))

    def flag(self, path: str) -> bool:
        """A flag; unset is off."""
        return bool(self.values.get(path, False))

    def origin(self, path: str) -> str:
        """Where a knob's value came from."""
        return self.origins.get(path, "not set")

    def q(self, path: str, name: str | None = None) -> Quantity:
        """A needed count as a quantity that carries its origin into formulas."""
        return Quantity.of(self.count(path), name or path, self.origin(path))

    def having(self, changes: Mapping[str, Any], origin: str) -> RunSpec:
        """This run with other values, checked; ``None`` removes a knob."""
        values, origins = dict(self.values), dict(self.origins)
        for path, value in changes.items():
            row = find_field(path)
            if value is None:
                values.pop(path, None)
                origins.pop(path, None)
                continue
            values[path] = read_value(row, value)
            origins[path] = origin
        return RunSpec(MappingProxyType(values), MappingProxyType(origins))

    def filled(self, defaults: Mapping[str, Any], origin: str) -> RunSpec:
        """This run with defaults for knobs that have no value yet."""
        missing = {path: value for path, value in defaults.items() if path not in self.values and value is not None}
        if not missing:
            return self
        values = {**self.values, **missing}
        origins = {**self.origins, **dict.fromkeys(missing, origin)}
        return RunSpec(MappingProxyType(values), MappingProxyType(origins))

    @property
    def name(self) -> str:
        """The run's name."""
        return str(self.values.get("name", "run"))

    @property
    def observation(self) -> Space:
        """The observation space as the learner sees it: stacked, windows at their length."""
        return _shaped(self.need("observation"), self.get("frame_stack", 1), self.get("history", 1))

    @property
    def observation_leaves(self) -> tuple[Leaf, ...]:
        """The arrays of one observation."""
        return leaves(self.observation, "")

    @property
    def window(self) -> Window | None:
        """The sliding window, when the observation is one."""
        space = self.observation
        return space if isinstance(space, Window) else None

    def to_dict(self) -> dict[str, Any]:
        """Nested plain data, the content of a run file."""
        out: dict[str, Any] = {}
        for row in FIELDS:
            if row.path in self.values:
                *sections, last = row.path.split(".")
                place = out
                for section in sections:
                    place = place.setdefault(section, {})
                place[last] = plain_value(row, self.values[row.path])
        return out


def _shaped(space: Space, stack: int, history: int) -> Space:
    match space:
        case Box(shape=()) if stack > 1:
            return replace(space, shape=(stack,))
        case Box() if stack > 1:
            # Frames are stacked along the channels of an image (first or last), and along the last axis otherwise.
            (leaf,) = leaves(space, "")
            axis = 0 if leaf.is_channels_first else len(space.shape) - 1
            return replace(space, shape=tuple(s * stack if i == axis else s for i, s in enumerate(space.shape)))
        case Window():
            return replace(space, length=history)
        case DictSpace():
            return DictSpace(spaces=tuple((key, _shaped(sub, stack, history)) for key, sub in space.spaces))
        case TupleSpace():
            return TupleSpace(spaces=tuple(_shaped(sub, stack, history) for sub in space.spaces))
        case _:
            return space
