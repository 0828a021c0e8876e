"""What lint found as a document: files of earlier versions, files that are none."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from rlmem.documents.contract import from_plain, to_plain
from rlmem.documents.lint import BaselineDocument, LintDocument
from rlmem.errors import UsageError
from rlmem.lint.baseline import read_baseline
from rlmem.report.lint_formats import render_baseline

WRITTEN = json.loads((Path(__file__).parents[2] / "golden" / "written_by_0" / "lint.json").read_text(encoding="utf-8"))


def changed(**values: Any) -> dict[str, Any]:
    """The file with another first finding."""
    first, *more = WRITTEN["findings"]
    return {**WRITTEN, "findings": [{**first, **values}, *more]}


def test_a_file_of_the_first_version_is_read_with_nothing_lost() -> None:
    document = from_plain(LintDocument, WRITTEN, "lint.json")
    assert to_plain(document) == WRITTEN
    assert document.findings[0].code == "MEM101"


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        (changed(severity="grave"), "severity: 'grave' is not one of error, info, warning"),
        (changed(line="three"), r"findings\[0\].line: expected integer"),
        (changed(fix={"title": "once", "safety": "odd", "edits": []}), "'odd' is not one of safe, unsafe"),
        ({**WRITTEN, "findings": {}}, "findings: expected array"),
        ({**WRITTEN, "hidden": None}, "hidden: expected integer"),
        ({**WRITTEN, "schema": "rlmem.lint/7"}, "it reads rlmem.lint/1"),
    ],
)
def test_a_file_that_is_none_is_refused_with_the_place(data: dict[str, Any], problem: str) -> None:
    with pytest.raises(UsageError, match=problem):
        from_plain(LintDocument, data, "lint.json")


@pytest.mark.parametrize("name", ["files", "findings", "stale", "fixed", "problems"])
def test_a_file_that_was_cut_short_is_refused(name: str) -> None:
    data = {key: value for key, value in WRITTEN.items() if key != name}
    with pytest.raises(UsageError, match=f"lint.json: not a complete lint document: {name}: missing"):
        from_plain(LintDocument, data, "lint.json")


def test_a_baseline_is_read_with_nothing_lost_and_written_as_it_was(tmp_path: Path) -> None:
    file = Path(__file__).parents[2] / "golden" / "written_by_0" / "lint-baseline.json"
    known = read_baseline(file)
    text = render_baseline(BaselineDocument(findings=tuple(known.values())))
    (tmp_path / "again.json").write_text(text, encoding="utf-8")
    assert read_baseline(tmp_path / "again.json") == known
    assert len(known) == len(json.loads(file.read_text(encoding="utf-8"))["findings"])


@pytest.mark.parametrize(
    "entry", [{}, {"path": "a.py", "code": "MEM101"}, {"path": 1, "code": "a", "fingerprint": ""}, 3]
)
def test_an_entry_that_is_none_is_refused_with_the_place(entry: Any) -> None:
    data = {"schema": "rlmem.lint-baseline/1", "findings": [entry]}
    with pytest.raises(UsageError, match=r"not a complete lint-baseline document: findings\[0\]"):
        from_plain(BaselineDocument, data, "known.json")
