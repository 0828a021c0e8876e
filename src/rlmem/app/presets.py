"""The built-in runs."""

from __future__ import annotations

from rlmem.documents.presets import PresetPart, PresetsDocument
from rlmem.sources.preset import PRESETS


def list_presets() -> PresetsDocument:
    """Return the built-in runs."""
    return PresetsDocument(presets=tuple(PresetPart(name=name, about=about) for name, about in PRESETS.items()))
