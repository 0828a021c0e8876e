"""A built-in run, as ``rlmem presets --json`` lists them."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class PresetPart:
    """One built-in run."""

    name: str
    about: str
