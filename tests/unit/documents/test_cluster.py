"""The document of a cluster: what version 0 wrote, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from rlmem.documents.cluster import ClusterDocument
from rlmem.documents.contract import from_plain, schema_of, to_plain
from rlmem.errors import UsageError

WRITTEN = Path(__file__).parents[2] / "golden" / "written_by_0" / "cluster.json"


def written() -> Any:
    return json.loads(WRITTEN.read_text())


def test_what_version_0_wrote_is_read_and_fits_the_schema() -> None:
    document = from_plain(ClusterDocument, written(), "cluster.json")
    plain = to_plain(document)
    Draft202012Validator(schema_of(ClusterDocument)).validate(plain)
    assert [process.pid for process in document.processes] == [
        process["pid"] for node in written()["nodes"] for process in node["processes"]
    ]
    assert from_plain(ClusterDocument, plain, "cluster.json") == document


@pytest.mark.parametrize(
    ("path", "value", "problem"),
    [
        ("nodes", ..., "nodes: missing"),
        ("nodes.0.store.spilled_bytes", ..., "nodes[0].store.spilled_bytes: missing"),
        ("nodes.0.processes.0.pid", "seven", "nodes[0].processes[0].pid: expected integer"),
        ("nodes.0.processes.0.way", "magic", "nodes[0].processes[0].way: 'magic' is not one of agent,"),
        ("complete", 1, "complete: expected boolean"),
        ("roles", {}, "roles: expected array"),
    ],
)
def test_what_is_wrong_is_named_with_its_place(path: str, value: Any, problem: str) -> None:
    plain = written()
    part: Any = plain
    *way, last = [int(word) if word.isdigit() else word for word in path.split(".")]
    for word in way:
        part = part[word]
    if value is ...:
        del part[last]
    else:
        part[last] = value
    with pytest.raises(UsageError) as raised:
        from_plain(ClusterDocument, plain, "x.json")
    assert str(raised.value).startswith(f"x.json: not a complete cluster document: {problem}")
