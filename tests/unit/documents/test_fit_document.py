"""What fit found as a document: words of its vocabularies, files of earlier versions, files that are none."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from rlmem.documents.contract import from_plain, schema_of, to_plain
from rlmem.documents.fit import FitDocument, RemedyPart
from rlmem.errors import UsageError
from rlmem.remedies.base import KINDS

WRITTEN = json.loads((Path(__file__).parents[2] / "golden" / "written_by_0" / "fit.json").read_text(encoding="utf-8"))


def with_value(path: str, value: Any) -> dict[str, Any]:
    """The file with the value at ``steps.0.kind`` changed, or taken out where there is none."""
    data = copy.deepcopy(WRITTEN)
    *outer, last = path.split(".")
    part = data
    for name in outer:
        part = part[int(name) if name.isdigit() else name]
    if value is None:
        del part[last]
    else:
        part[last] = value
    return data


def test_a_file_of_the_first_version_is_read_and_written_with_nothing_lost() -> None:
    document = from_plain(FitDocument, WRITTEN, "fit.json")
    assert document.steps[0].saves_bytes == WRITTEN["steps"][0]["saves_bytes"]
    plain = to_plain(document)
    Draft202012Validator(schema_of(FitDocument)).validate(plain)
    Draft202012Validator(schema_of(FitDocument)).validate(WRITTEN)
    for name in ("schema", "status", "steps", "changes", "alone", "machines", "write", "notes"):
        assert plain[name] == WRITTEN[name]
    assert plain["before"]["peaks"] == [{**peak, "is_peak": True} for peak in WRITTEN["before"]["peaks"]]


def test_the_classes_of_change_are_those_of_the_remedies() -> None:
    assert set(schema_of(FitDocument)["$defs"]["StepPart"]["properties"]["kind"]["enum"]) == set(KINDS)


def test_a_remedy_is_a_step_with_more() -> None:
    part = RemedyPart(**WRITTEN["alone"][0], after=("RAM peaks at 1 GB",), diff="+ batch_size: 8")
    assert part.fits == WRITTEN["alone"][0]["fits"]
    assert part.text is None


@pytest.mark.parametrize(
    ("path", "value", "problem"),
    [
        ("status", "maybe", "status: 'maybe' is not one of already, expected, fits, grows, no, unknown"),
        ("status", None, "status: missing"),
        ("steps.0.kind", "cheap", "steps[0].kind: 'cheap' is not one of learning, lossless, speed"),
        ("steps.0.saves_bytes", [1], "steps[0].saves_bytes: expected object"),
        ("before.peaks.0.high_bytes", "17 GB", "before.peaks[0].high_bytes: expected integer"),
        ("before.peaks.0.expected_bytes", None, "before.peaks[0].expected_bytes: missing"),
        ("write.text", 7, "write.text: expected string or null"),
        ("alone.0.fits", None, "alone[0].fits: missing"),
        ("schema", "rlmem.fit/9", "schema 'rlmem.fit/9' is not one this version reads; it reads rlmem.fit/1"),
    ],
)
def test_a_file_that_is_no_fit_is_refused_with_the_place(path: str, value: Any, problem: str) -> None:
    with pytest.raises(UsageError) as error:
        from_plain(FitDocument, with_value(path, value), "fit.json")
    assert str(error.value).startswith("fit.json: ")
    assert problem in str(error.value)
