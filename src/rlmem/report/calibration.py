"""Measured constants, as a view."""

from __future__ import annotations

from rlmem.documents.calibration import CalibrationDocument
from rlmem.report.text import size
from rlmem.report.view import Column, Section, Table, View


def calibration_view(document: CalibrationDocument) -> View:
    """Arrange what ``rlmem calibrate`` shows."""
    columns = (
        Column(title="constant", right=False),
        Column(title="here"),
        Column(title="shipped"),
        Column(title="how", right=False),
    )
    rows = tuple(
        (constant.name, size(constant.expected_bytes), size(constant.shipped_bytes), constant.how)
        for constant in document.constants
    )
    missing = [name for name, version in document.versions.items() if "Error" in version]
    lines = (f"not importable here, shipped constants stay: {', '.join(missing)}",) if missing else ()
    section = Section(title="Constants", lines=lines, tables=(Table(title="", columns=columns, rows=rows),))
    return View(
        title=f"Calibrated {document.python}",
        verdict=(),
        sections=(section,),
        notes=(f"kept in {document.file}",),
    )
