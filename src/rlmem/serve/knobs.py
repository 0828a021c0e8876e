"""The knobs that matter in one run: which fields to turn, between what, and what they are now."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from math import prod
from typing import Any

from rlmem.core.fields import BY_PATH
from rlmem.core.spaces import Box, DictSpace, Space, Window, nbytes
from rlmem.core.spec import RunSpec
from rlmem.serve.state import value_text

#: What a field is called beside its knob.
_LABELS = {
    "agents": "agents",
    "n_envs": "environments",
    "vec_env": "run as",
    "n_steps": "rollout steps",
    "buffer_size": "replay buffer",
    "batch_size": "batch",
    "frame_stack": "frame stack",
    "history": "history",
    "observation": "observation dtype",
    "storage": "store",
    "codec": "codec",
    "optimize_memory_usage": "next observations inside",
    "rollout.dtype": "stream dtype",
    "precision": "precision",
    "device": "learner on",
}
#: How far a slider goes: from a sixteenth to sixteen times.
REACH = 16
#: A box of two or three dimensions with as many numbers is a picture.
_PIXELS = 1024
_WORDS = ("uint8", "float16", "float32", "float64")


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """One value of a knob that has a few."""

    value: str
    label: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Knob:
    """One control: a number with a slider, or a choice."""

    path: str
    label: str
    doc: str
    value: str
    #: The run's own value.
    own: str
    #: Whether somebody chose it; what nobody turned follows the rest.
    is_turned: bool = False
    choices: tuple[Choice, ...] = ()
    low: int = 1
    high: int = 1


def knobs(own: RunSpec, now: RunSpec, turned: Collection[str] = ()) -> tuple[Knob, ...]:
    """The knobs of a run; ``own`` is as it was given, ``now`` as it is asked for with the fields that were ``turned``."""
    found = (_knob(path, own, now) for path in _LABELS if _matters(path, now))
    return tuple(replace(knob, is_turned=knob.path in turned) for knob in found if knob is not None)


def _matters(path: str, spec: RunSpec) -> bool:
    special: dict[str, Callable[[], bool]] = {
        "agents": lambda: spec.get("agents", 1) > 1 or spec.get("framework.name") == "swarm",
        "frame_stack": lambda: "frame_stack" in spec or _is_picture(spec),
        "history": lambda: isinstance(spec.get("observation"), Window),
        "observation": lambda: _largest(spec.get("observation")) is not None,
        "storage": lambda: "buffer_size" in spec or "n_steps" in spec,
        "codec": lambda: spec.get("storage") in ("compact", "frames-once") and "buffer_size" in spec,
        "rollout.dtype": lambda: spec.get("storage") == "stream",
        "precision": lambda: True,
        "device": lambda: True,
    }
    return special[path]() if path in special else path in spec


def _is_picture(spec: RunSpec) -> bool:
    boxes = (space for _, space in _arrays(spec.get("observation")) if isinstance(space, Box))
    return any(len(box.shape) in (2, 3) and prod(box.shape) >= _PIXELS for box in boxes)


def shown(path: str, spec: RunSpec) -> str:
    """The value of a field as its knob shows it; one that a run does not have is shown as what stands for nothing."""
    value, row = spec.get(path), BY_PATH[path]
    if value is not None:
        return value_text(path, value)
    return str(row.minimum) if row.kind == "count" else "false" if row.kind == "flag" else (*row.choices, "none")[0]


def _knob(path: str, own: RunSpec, now: RunSpec) -> Knob | None:
    row = BY_PATH[path]
    if path == "observation":
        return _dtype_knob(own, now)
    # What a run as it was given does not have, such as the dtype of a stream, is its own as another change made it.
    value = shown(path, now)
    before = shown(path, own) if path in own else value
    if row.kind == "count":
        low, high = max(row.minimum, min(int(before) // REACH, int(value))), max(int(before) * REACH, int(value), 16)
        return Knob(path=path, label=_LABELS[path], doc=row.doc, value=value, own=before, low=low, high=high)
    words = ("true", "false") if row.kind == "flag" else _choices(path, now)
    return Knob(
        path=path,
        label=_LABELS[path],
        doc=row.doc,
        value=value,
        own=before,
        choices=tuple(Choice(value=word, label={"true": "yes", "false": "no"}.get(word, word)) for word in words),
    )


def _choices(path: str, spec: RunSpec) -> tuple[str, ...]:
    """The values that can be chosen here: a stream is for windows, frames-once is an older name."""
    words = BY_PATH[path].choices
    if path != "storage":
        return words
    window = isinstance(spec.get("observation"), Window)
    return tuple(word for word in words if word != "frames-once" and (word != "stream" or window))


# -- the dtype of what is observed --------------------------------------------------------------------------------------


def _arrays(space: Any, name: str = "") -> list[tuple[str, Box | Window]]:
    """Arrays of numbers in an observation, by dotted name."""
    if isinstance(space, (Box, Window)):
        return [(name, space)]
    if isinstance(space, DictSpace):
        return [found for key, sub in space.spaces for found in _arrays(sub, f"{name}.{key}" if name else key)]
    return []


def _largest(space: Any) -> str | None:
    """The name of the largest array in an observation; None when there is none."""
    found = _arrays(space)
    return max(found, key=lambda pair: nbytes(pair[1]))[0] if found else None


def _dtype_knob(own: RunSpec, now: RunSpec) -> Knob | None:
    space, name = now.get("observation"), _largest(now.get("observation"))
    if name is None:
        return None
    choices = tuple(
        Choice(value=value_text("observation", with_dtype(space, name, word)), label=word) for word in _WORDS
    )
    value = value_text("observation", space)
    if value not in {choice.value for choice in choices}:
        choices = (Choice(value=value, label=dict(_arrays(space))[name].dtype), *choices)
    return Knob(
        path="observation",
        label=f"{_LABELS['observation']} of {name}" if name else _LABELS["observation"],
        doc="What the numbers of an observation are stored as.",
        value=value,
        own=value_text("observation", own.get("observation")),
        choices=choices,
    )


def with_dtype(space: Space, name: str, dtype: str, here: str = "") -> Space:
    """The space with another dtype of one of its arrays, given by dotted name."""
    if isinstance(space, DictSpace):
        subs = ((key, with_dtype(sub, name, dtype, f"{here}.{key}" if here else key)) for key, sub in space.spaces)
        return DictSpace(spaces=tuple(subs))
    return replace(space, dtype=dtype) if isinstance(space, (Box, Window)) and here == name else space
