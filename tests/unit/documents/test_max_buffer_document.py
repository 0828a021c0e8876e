"""The largest replay buffer as a document: files of earlier versions, files that are none."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from rlmem.documents.contract import from_plain, to_plain
from rlmem.documents.max_buffer import MaxBufferDocument
from rlmem.errors import UsageError

WRITTEN = json.loads(
    (Path(__file__).parents[2] / "golden" / "written_by_0" / "max-buffer.json").read_text(encoding="utf-8")
)


def test_a_file_of_the_first_version_is_read_with_nothing_lost() -> None:
    document = from_plain(MaxBufferDocument, WRITTEN, "max-buffer.json")
    assert document.rlmem == ""
    assert to_plain(document) == {**WRITTEN, "rlmem": "", "limit_source": ""}


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"buffer_size": "many"}, "buffer_size: expected integer"),
        ({"limit_bytes": -1}, "limit_bytes: expected integer"),
        ({"schema": "rlmem.max-buffer/7"}, "it reads rlmem.max-buffer/1"),
        ({"spec": []}, "spec: expected object"),
    ],
)
def test_a_file_that_is_none_is_refused_with_the_place(change: dict[str, Any], problem: str) -> None:
    with pytest.raises(UsageError, match=problem):
        from_plain(MaxBufferDocument, {**WRITTEN, **change}, "max-buffer.json")


@pytest.mark.parametrize("name", ["buffer_size", "spec", "margin"])
def test_a_file_that_was_cut_short_is_refused(name: str) -> None:
    data = {key: value for key, value in WRITTEN.items() if key != name}
    with pytest.raises(UsageError, match=f"max-buffer.json: not a complete max-buffer document: {name}: missing"):
        from_plain(MaxBufferDocument, data, "max-buffer.json")
