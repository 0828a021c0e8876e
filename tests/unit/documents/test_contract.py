"""A document is its fields: JSON, reader and schema follow from them, and agree."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import pytest
from jsonschema import Draft202012Validator

from rlmem.core.plan import Budget
from rlmem.documents.contract import Document, from_plain, schema_of, to_json, to_plain
from rlmem.documents.parts import PeakPart, Size, Verdict
from rlmem.documents.plan import PlanDocument, plan_document
from rlmem.errors import UsageError
from rlmem.planner import Planner
from rlmem.sources import load
from rlmem.sources.preset import PRESETS


@dataclass(frozen=True, slots=True, kw_only=True)
class SampleDocument(Document):
    """A document for these tests."""

    SCHEMA: ClassVar[str] = "rlmem.sample/2"
    TITLE: ClassVar[str] = "A sample"
    OLDER: ClassVar = {"rlmem.sample/1": lambda data: {**data, "verdict": data["answer"]}}

    verdict: Verdict
    peaks: tuple[PeakPart, ...] = ()
    count: Size = 3


SAMPLE: dict[str, Any] = {
    "schema": "rlmem.sample/2",
    "verdict": "fits",
    "peaks": [{"device": "ram", "phase": "update", "low_bytes": 1, "expected_bytes": 2, "high_bytes": 3}],
}


@pytest.mark.parametrize("preset", PRESETS)
def test_a_plan_reads_back_as_it_was_written(preset: str) -> None:
    plan = Planner(Budget(name="32 GB", ram_bytes=32 * 10**9, vram_bytes=10**9)).plan(load(preset))
    document = plan_document(plan)
    plain = to_plain(document)
    assert from_plain(PlanDocument, plain, "plan.json") == document
    Draft202012Validator(schema_of(PlanDocument)).validate(plain)


def test_the_schema_stands_first_and_the_version_is_kept() -> None:
    document = from_plain(SampleDocument, {**SAMPLE, "rlmem": "0.0.7"}, "sample.json")
    assert next(iter(to_plain(document))) == "schema"
    assert document.rlmem == "0.0.7"
    assert from_plain(SampleDocument, SAMPLE, "sample.json").rlmem == ""
    assert '"schema": "rlmem.sample/2"' in to_json(document)


def test_a_name_that_is_not_utf8_is_written_and_read() -> None:
    plan = Planner(Budget(name="caf\udce9")).plan(load("pidog-sac"))
    document = plan_document(plan)
    plain = to_plain(document)
    assert plain["machine"]["name"] == "caf\udce9"
    assert isinstance(plain["peaks"], list)
    assert from_plain(PlanDocument, plain, "plan.json") == document


def test_keys_of_a_newer_version_are_passed_over() -> None:
    assert from_plain(SampleDocument, {**SAMPLE, "colour": "red"}, "sample.json").verdict == "fits"


def test_an_older_version_is_brought_up_to_date() -> None:
    assert from_plain(SampleDocument, {"schema": "rlmem.sample/1", "answer": "tight"}, "old.json").verdict == "tight"
    with pytest.raises(UsageError, match=r"old\.json: not a complete rlmem\.sample/1 document: 'answer'"):
        from_plain(SampleDocument, {"schema": "rlmem.sample/1"}, "old.json")


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"verdict": "maybe"}, "verdict: 'maybe' is not one of does-not-fit, fits, grows, tight, unknown"),
        ({"peaks": [{**SAMPLE["peaks"][0], "phase": "lunch"}]}, "peaks[0].phase: 'lunch' is not one of build,"),
        ({"peaks": [{"device": "ram"}]}, "peaks[0].phase: missing"),
        ({"peaks": 3}, "peaks: expected array"),
        ({"peaks": [{**SAMPLE["peaks"][0], "limit_bytes": "much"}]}, "peaks[0].limit_bytes: expected integer or null"),
        ({"count": -1}, "count: expected integer"),
        ({"count": True}, "count: expected integer"),
    ],
)
def test_what_is_wrong_is_named_with_its_place(change: dict[str, Any], problem: str) -> None:
    with pytest.raises(UsageError) as raised:
        from_plain(SampleDocument, {**SAMPLE, **change}, "sample.json")
    assert str(raised.value).startswith(f"sample.json: not a complete sample document: {problem}")


@pytest.mark.parametrize("data", [None, 3, [], {}, {"schema": 1}])
def test_what_is_no_document_says_so(data: Any) -> None:
    with pytest.raises(UsageError, match="not a document written by rlmem"):
        from_plain(SampleDocument, data, "sample.json")


def test_another_schema_is_refused() -> None:
    with pytest.raises(UsageError, match=r"is not one this version reads; it reads rlmem\.sample/2, rlmem\.sample/1"):
        from_plain(SampleDocument, {**SAMPLE, "schema": "rlmem.sample/3"}, "sample.json")
