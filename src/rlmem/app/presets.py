"""The built-in runs."""

from __future__ import annotations

from rlmem.documents.presets import PresetPart
from rlmem.sources.preset import PRESETS


def list_presets() -> tuple[PresetPart, ...]:
    """Return the built-in runs."""
    return tuple(PresetPart(name=name, about=about) for name, about in PRESETS.items())
