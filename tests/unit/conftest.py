"""Every view that a unit test draws as text is also looked at in terminals of 80, 100 and 160 columns."""

from __future__ import annotations

from typing import Any

import pytest

from rlmem.report import render
from rlmem.report.view import View
from unit.report.widths import check_view


@pytest.fixture(autouse=True)
def _in_terminals_of_other_widths(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = render._text

    def text(view: View, **how: Any) -> str:
        check_view(view)
        return whole(view, **how)

    monkeypatch.setattr(render, "_text", text)
