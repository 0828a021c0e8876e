"""The built-in runs, as a view."""

from __future__ import annotations

from rlmem.documents.presets import PresetsDocument
from rlmem.report.view import Column, Section, Table, View


def presets_view(document: PresetsDocument) -> View:
    """Arrange the list of built-in runs."""
    columns = (Column(title="preset", right=False), Column(title="what it is", right=False))
    table = Table(title="", columns=columns, rows=tuple((preset.name, preset.about) for preset in document.presets))
    return View(
        title="rlmem presets",
        verdict=(),
        sections=(Section(title="Built-in runs", tables=(table,)),),
        notes=("'rlmem presets --show NAME' prints one.",),
    )
