"""What ``rlmem workers``, ``rlmem plan --stacks`` and the swarm write is read again, or refused in a line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from rlmem.documents.contract import to_plain
from rlmem.documents.kinds import read_document
from rlmem.errors import UsageError
from rlmem.report.views import view_of

WRITTEN = Path(__file__).parents[2] / "golden" / "written_by_0"
KINDS = ("placement", "stacks", "swarm-ladder", "swarm-train")


def written(kind: str) -> dict[str, Any]:
    data: dict[str, Any] = json.loads((WRITTEN / f"{kind}.json").read_text(encoding="utf-8"))
    return data


@pytest.mark.parametrize("kind", KINDS)
def test_what_was_written_before_is_read_shown_and_written_as_it_was(kind: str) -> None:
    document = read_document(written(kind), "old.json")
    assert view_of(document).title
    assert to_plain(document) == {**written(kind), "rlmem": ""}


@pytest.mark.parametrize("kind", KINDS)
def test_a_key_that_is_missing_is_named(kind: str) -> None:
    data = written(kind)
    key = {"placement": "bundles", "stacks": "formula", "swarm-ladder": "rows", "swarm-train": "settings"}[kind]
    del data[key]
    with pytest.raises(UsageError, match=rf"old\.json: not a complete {kind} document: {key}: missing"):
        read_document(data, "old.json")


@pytest.mark.parametrize(
    ("kind", "path", "value", "message"),
    [
        (
            "placement",
            ("strategy",),
            "LOOSE",
            r"strategy: 'LOOSE' is not one of PACK, SPREAD, STRICT_PACK, STRICT_SPREAD",
        ),
        ("placement", ("bundles", 0, "memory_bytes", 0), -1, r"bundles\[0\]\.memory_bytes\[0\]: expected integer"),
        ("placement", ("nodes", 0, "cpus"), "16", r"nodes\[0\]\.cpus: expected"),
        ("stacks", ("stacks", 0, "factor"), "two", r"stacks\[0\]\.factor: expected integer"),
        ("swarm-ladder", ("rows", 0, "points", 0, "agents"), None, r"agents: expected integer"),
        ("swarm-train", ("status",), "finished", r"status: 'finished' is not one of done, interrupted"),
        ("swarm-train", ("iterations",), {}, r"iterations: expected array"),
    ],
)
def test_a_value_of_another_type_is_named(kind: str, path: tuple[Any, ...], value: Any, message: str) -> None:
    data = written(kind)
    part: Any = data
    for step in path[:-1]:
        part = part[step]
    part[path[-1]] = value
    with pytest.raises(UsageError, match=message):
        read_document(data, "old.json")
