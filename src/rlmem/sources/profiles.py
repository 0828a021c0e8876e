"""Profiles for ``rlmem bench``: named settings, built in or from a user's file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from importlib import resources
from math import isfinite
from pathlib import Path
from typing import Any

from rlmem.core.fields import BY_PATH, find_field, flatten, read_value
from rlmem.errors import SpecError, UsageError, did_you_mean
from rlmem.sources.config import parse_yaml, read_text

#: Settings of training that change no memory, and so are no fields of a run: name to the kind of number it takes.
TRAINING = {
    "learning_rate": float,
    "train_freq": int,
    "gamma": float,
    "tau": float,
    "ent_coef": float,
    "clip_range": float,
}
SUFFIXES = (".yaml", ".yml", ".json")


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """Fields of the run that a profile sets, and settings of its training."""

    name: str
    fields: Mapping[str, Any]
    training: Mapping[str, float | int]

    @property
    def settings(self) -> dict[str, Any]:
        """All of it, for a table."""
        return {**self.fields, **self.training}


def load_profiles(choice: str) -> tuple[Profile, ...]:
    """``all``, some of the built-in names, or all profiles of a file."""
    path = Path(choice)
    if path.suffix.lower() in SUFFIXES or path.is_file():
        return parse_profiles(read_text(path), where=str(path))
    known = {profile.name: profile for profile in builtin_profiles()}
    if choice.strip() == "all":
        return tuple(known.values())
    names = [name.strip() for name in choice.split(",") if name.strip()]
    if not names:
        raise UsageError(f"--profiles: name some of {', '.join(known)}, or 'all', or a YAML file")
    for name in names:
        if name not in known:
            raise UsageError(
                f"--profiles: unknown profile {name!r}{did_you_mean(name, known)}; known: {', '.join(known)}, or a YAML file"
            )
    return tuple(known[name] for name in dict.fromkeys(names))


def builtin_profiles() -> tuple[Profile, ...]:
    """The five of the package."""
    text = resources.files("rlmem").joinpath("profiles.yaml").read_text(encoding="utf-8")
    return parse_profiles(text, where="profiles.yaml")


def parse_profiles(text: str, *, where: str) -> tuple[Profile, ...]:
    """Profiles from YAML: a mapping from names to settings."""
    data, lines = parse_yaml(text, where)
    if not isinstance(data, Mapping) or not data:
        raise UsageError(
            f"{where}: expected a mapping from profile names to settings, such as 'small: {{buffer_size: 100k}}'"
        )
    return tuple(_profile(str(name), settings, where, lines) for name, settings in data.items())


def _profile(name: str, settings: Any, where: str, lines: Mapping[str, int]) -> Profile:
    place = f"{where}:{lines.get(name, 1)}"
    if not isinstance(settings, Mapping):
        raise UsageError(f"{place}: {name}: expected settings such as {{buffer_size: 100k}}, got {settings!r}")
    training = {key: _number(key, settings[key], place) for key in settings if key in TRAINING}
    try:
        fields = flatten({str(key): value for key, value in settings.items() if key not in TRAINING})
        for path, value in fields.items():
            read_value(find_field(path), value)
    except SpecError as error:
        line = lines.get(f"{name}.{error.path}", lines.get(name, 1))
        if error.path not in BY_PATH and did_you_mean(error.path, TRAINING):
            raise SpecError(
                error.path, f"unknown setting{did_you_mean(error.path, TRAINING)}", where=f"{where}:{line}"
            ) from None
        raise error.located(f"{where}:{line}") from None
    return Profile(name=name, fields=fields, training=training)


def _number(key: str, value: Any, place: str) -> float | int:
    whole = TRAINING[key] is int
    try:
        number = int(value) if whole else float(value)
    except (TypeError, ValueError, OverflowError):
        number = 0
    if isinstance(value, bool) or not isfinite(number) or number <= 0:
        kind = "whole number" if whole else "number"
        raise SpecError(key, f"expected a positive {kind}, got {value!r}", where=place)
    return number
