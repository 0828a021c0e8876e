"""Recorded runs, moments and lists of runs as documents: read back, and refused where something is wrong with them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from rlmem.documents.capacity import CapacityCurvePart
from rlmem.documents.contract import Document, from_plain, schema_of, to_plain
from rlmem.documents.moment import MomentDocument
from rlmem.documents.recorded import RecordedDocument
from rlmem.documents.recorded_comparison import RecordedComparisonDocument
from rlmem.documents.report import ReportDocument
from rlmem.documents.runs import RunsDocument
from rlmem.errors import UsageError
from subset import assert_holds

WRITTEN = Path(__file__).parents[2] / "golden" / "written_by_0"
KINDS: dict[str, type[Document]] = {
    "recorded": RecordedDocument,
    "recorded-with-plan": RecordedDocument,
    "compare-recorded": RecordedComparisonDocument,
    "moment": MomentDocument,
    "runs": RunsDocument,
}


def written(name: str) -> Any:
    return json.loads((WRITTEN / f"{name}.json").read_text(encoding="utf-8"))


def changed(name: str, path: str, value: Any) -> Any:
    """The document with the value at ``peak.members.0.pid`` changed, or taken out for ``...``."""
    data = written(name)
    part, (*way, last) = data, [int(word) if word.isdigit() else word for word in path.split(".")]
    for word in way:
        part = part[word]
    if value is ...:
        del part[last]
    else:
        part[last] = value
    return data


@pytest.mark.parametrize("name", KINDS)
def test_what_version_0_wrote_is_read_and_reads_back_as_it_is_written_now(name: str) -> None:
    data = written(name)
    document = from_plain(KINDS[name], data, "it")
    plain = json.loads(json.dumps(to_plain(document)))
    Draft202012Validator(schema_of(KINDS[name])).validate(plain)
    assert from_plain(KINDS[name], plain, "it") == document
    if isinstance(document, RecordedDocument):  # moments are written without what is not known or is zero
        data["moments"] = [{key: value for key, value in moment.items() if value} for moment in data["moments"]]
    assert_holds(plain, {**data, "schema": KINDS[name].SCHEMA})


def test_the_capacity_of_a_recording_of_version_1_is_read() -> None:
    curve = written("report")["capacity"]
    document = from_plain(RecordedDocument, {**written("recorded-with-plan"), "capacity": curve}, "it")
    assert document.capacity is not None
    assert_peaks(document.capacity, curve)


def test_the_capacity_of_a_report_of_version_1_is_read() -> None:
    data = written("report")
    document = from_plain(ReportDocument, data, "it")
    assert document.capacity is not None
    assert {row["verdict"] for row in data["capacity"]["rows"]} > {"fits"}
    assert_peaks(document.capacity, data["capacity"])


def assert_peaks(curve: CapacityCurvePart, written: Any) -> None:
    """Whether a curve has the values, verdicts and sizes that version 1 wrote."""
    names = ("device", "phase", "low_bytes", "expected_bytes", "high_bytes", "limit_bytes")
    assert [
        (row.value, row.verdict, *(getattr(peak, name) for name in names)) for row in curve.rows for peak in row.peaks
    ] == [(row["value"], row["verdict"], *(row[name] for name in names)) for row in written["rows"]]


def test_moments_of_a_recording_are_written_without_what_is_not_known() -> None:
    moments = to_plain(from_plain(RecordedDocument, written("recorded"), "it"))["moments"]
    assert not any({"vram_bytes", "cache_bytes", "phase"} & set(moment) for moment in moments)
    owners = next(moment["holdings"] for moment in moments if "holdings" in moment)
    assert not {"note", "graphs"} & set(owners[0])


@pytest.mark.parametrize(
    ("name", "path", "value", "said"),
    [
        ("recorded", "peak", ..., "peak: missing"),
        ("recorded", "peak.members.0.pid", "one", r"peak\.members\[0\]\.pid: expected integer"),
        ("recorded", "moments.0.tree_bytes", -1, r"moments\[0\]\.tree_bytes: "),
        ("recorded", "ended.postmortem.cause", ..., r"ended\.postmortem\.cause: missing"),
        ("recorded", "judgement.state", "fine", "judgement.state: 'fine' is not one of "),
        ("recorded-with-plan", "plan.peaks", None, r"plan\.peaks: expected array"),
        ("recorded", "schema", "rlmem.recorded/9", "is not one this version reads"),
        ("compare-recorded", "left.summary", "x", r"left\.summary: expected array"),
        ("moment", "moment.at_s", ..., r"moment\.at_s: missing"),
        ("moment", "members.0.rss_bytes", "many", r"members\[0\]\.rss_bytes: expected integer"),
        ("runs", "runs.0.id", 7, r"runs\[0\]\.id: expected string"),
    ],
)
def test_what_is_wrong_with_a_document_is_said_in_a_line(name: str, path: str, value: Any, said: str) -> None:
    with pytest.raises(UsageError, match=said) as error:
        from_plain(KINDS[name], changed(name, path, value), "it")
    assert "\n" not in str(error.value)
