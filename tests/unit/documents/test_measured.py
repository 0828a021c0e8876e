"""Sweeps, benchmarks, comparisons of sweeps and lists of runs, as files of other versions and broken ones have them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from rlmem.documents.bench import BenchDocument
from rlmem.documents.contract import Document, from_plain, schema_of, to_plain
from rlmem.documents.runs import RunsDocument
from rlmem.documents.sweep import SweepDocument
from rlmem.documents.sweep_comparison import SweepComparisonDocument
from rlmem.errors import UsageError
from subset import assert_holds

FOLDER = Path(__file__).parents[2] / "golden" / "written_by_0"
KINDS: dict[str, type[Document]] = {
    "sweep": SweepDocument,
    "bench": BenchDocument,
    "compare-sweeps": SweepComparisonDocument,
    "runs": RunsDocument,
}


def written(name: str) -> dict[str, Any]:
    data: dict[str, Any] = json.loads((FOLDER / f"{name}.json").read_text(encoding="utf-8"))
    return data


@pytest.mark.parametrize("name", [name for name, kind in KINDS.items() if not kind.OLDER])
def test_what_version_0_wrote_is_read_and_loses_nothing(name: str) -> None:
    data = written(name)
    plain = to_plain(from_plain(KINDS[name], data, name))
    assert_holds(plain, data)
    jsonschema.validate(plain, schema_of(KINDS[name]))
    jsonschema.validate(data, schema_of(KINDS[name]))


def test_components_of_two_sweeps_of_version_1_are_those_of_ram() -> None:
    data = written("compare-sweeps")
    plain = to_plain(from_plain(SweepComparisonDocument, data, "file"))
    jsonschema.validate(plain, schema_of(SweepComparisonDocument))
    (ram,) = plain["devices"]
    rows = [{"name": row.pop("component"), **row} for row in ram.pop("components")]
    assert rows == data.pop("components")
    phases = [{"name": row.pop("phase"), **row} for row in plain.pop("phases")]
    assert phases == data.pop("phases")
    point = next(point for point in data["points"] if point["values"] == data["at"])
    assert (ram["left_bytes"], ram["right_bytes"]) == (point["left_bytes"], point["right_bytes"])
    assert_holds(plain, {**data, "schema": "rlmem.compare-sweeps/2"})


@pytest.mark.parametrize(
    ("name", "change", "message"),
    [
        ("bench", {"profiles": [{}]}, r"bench document: profiles\[0\]\.profile: missing"),
        ("bench", {"timesteps": "many"}, "bench document: timesteps: expected integer"),
        ("bench", {"limit_bytes": -1}, "bench document: limit_bytes: expected"),
        ("bench", {"target": []}, "bench document: target: expected object"),
        ("bench", {"schema": "rlmem.bench/2"}, "schema 'rlmem.bench/2' is not one this version reads"),
        ("compare-sweeps", {"points": [1]}, r"compare-sweeps/1 document: 'int' object is not subscriptable"),
        ("runs", {"runs": [{"id": 3}]}, r"runs document: runs\[0\]\.id: expected string"),
        ("runs", {"runs": {}}, "runs document: runs: expected array"),
        ("compare-sweeps", {"left": {}}, r"compare-sweeps document: left\.label: missing"),
    ],
)
def test_what_is_not_complete_is_refused(name: str, change: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        from_plain(KINDS[name], {**written(name), **change}, "file")
