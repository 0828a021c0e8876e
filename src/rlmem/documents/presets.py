"""The built-in runs as a document: ``rlmem.presets/1``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from rlmem.documents.contract import Document


@dataclass(frozen=True, slots=True, kw_only=True)
class PresetPart:
    """One built-in run."""

    name: str
    about: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PresetsDocument(Document):
    """The built-in runs."""

    SCHEMA: ClassVar[str] = "rlmem.presets/1"
    TITLE: ClassVar[str] = "rlmem presets"

    presets: tuple[PresetPart, ...]
