"""Everything that is printed with ``--json``, stored or served is a document of a kind that ``rlmem show`` knows."""

from __future__ import annotations

import json
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from golden.harness import DATA, call, own_folder, steady
from golden.stored_facts import store
from rlmem.cli import COMMANDS
from rlmem.documents.contract import schema_of
from rlmem.documents.kinds import KINDS, document_class, kind_name
from rlmem.report.views import VIEWS
from rlmem.runner.store import open_store

#: Answers that are no result: an error in words, an address, the description of the API.
NOT_RESULTS = ("pages/config.json", "pages/api-openapi.json")
#: The files that hold JSON.
PRINTED = sorted(path.relative_to(DATA).as_posix() for path in DATA.rglob("*.json"))


def results(name: str) -> Iterator[Any]:
    """Yield what a command printed, a server answered or a page holds, without errors."""
    content = json.loads((DATA / name).read_text(encoding="utf-8"))
    if "lines" in content:
        yield from content["lines"]
    elif content.get("status", 200) == 200 and content.get("exit") not in (2, 3) and name not in NOT_RESULTS:
        yield content.get("document", content.get("data", content.get("answer")))


@pytest.mark.parametrize("name", PRINTED)
def test_what_is_printed_is_a_document_of_a_known_kind(name: str) -> None:
    for document in results(name):
        assert isinstance(document, dict), f"{name} is no document"
        kind = document_class(kind_name(document["schema"]))
        assert document["schema"] == kind.SCHEMA
        if isinstance(document.get("plan"), str):  # held by the golden files of plans
            continue
        Draft202012Validator(schema_of(kind)).validate(document)


def commands_with_json() -> Iterator[str]:
    for name in COMMANDS:
        command = import_module(f"rlmem.cli.{name.replace('-', '_')}").command
        if any("--json" in parameter.opts for parameter in command.params):
            yield name


def test_what_every_command_prints_is_held_here() -> None:
    contents = (json.loads((DATA / name).read_text(encoding="utf-8")) for name in PRINTED)
    printed = {content["command"][0] for content in contents if "command" in content}
    # what these print, 'show' prints again; lint has a folder of texts
    assert set(commands_with_json()) - printed == {"bench", "measure", "run", "lint"}


def test_lint_prints_a_document_of_a_known_kind() -> None:
    with own_folder({"train.py": "import numpy\n"}):
        _, out, _ = call(["lint", ".", "--json"])
    assert json.loads(out)["schema"] == document_class("lint").SCHEMA


def test_every_kind_has_a_view() -> None:
    assert set(KINDS) == set(VIEWS)


def test_what_is_stored_is_a_document_of_a_known_kind() -> None:
    with own_folder(), store(), open_store() as stored:
        runs = stored.runs()
        assert {run.kind for run in runs} == {"measure", "plan", "bench", "run"}
        for run in runs:
            assert call(["show", run.id])[0] == 0
            if run.kind in ("plan", "bench"):
                assert kind_name(run.document["schema"]) in KINDS


@pytest.mark.parametrize(
    "name", ["rules", "rule", "presets", "machines", "machine", "here"], ids=lambda name: f"catalogue-{name}"
)
def test_a_saved_catalogue_is_shown_as_it_was_printed(tmp_path: Path, name: str) -> None:
    kept = json.loads((DATA / f"catalogues/{name}.json").read_text(encoding="utf-8"))
    printed = (DATA / f"catalogues/{name}.txt").read_text(encoding="utf-8").splitlines()
    file = tmp_path / "saved.json"
    file.write_text(json.dumps(kept["document"]), encoding="utf-8")
    with own_folder():
        code, out, err = call(["show", str(file)])
    assert (code, err) == (0, "")
    assert steady(out).splitlines() == printed[1:-1]


@pytest.mark.parametrize("name", ["api-zoo", "api-processes", "api-fields", "api-capacity-asked"])
def test_a_saved_answer_is_shown(tmp_path: Path, name: str) -> None:
    content = json.loads((DATA / f"pages/{name}.json").read_text(encoding="utf-8"))
    file = tmp_path / "saved.json"
    file.write_text(json.dumps(content["answer"]), encoding="utf-8")
    code, out, err = call(["show", str(file)])
    assert (code, err) == (0, "") and out
