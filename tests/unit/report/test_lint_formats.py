"""Findings for other programs: workflow commands, SARIF, JUnit; and for eyes, in a terminal."""

from __future__ import annotations

import json
import re
import xml.etree.ElementTree as ElementTree
from dataclasses import replace
from typing import Any

import jsonschema
import pytest

from rlmem.app.lint import lint_document
from rlmem.app.rules import list_rules
from rlmem.core.edits import Edit, Fix
from rlmem.core.findings import Finding, Place
from rlmem.documents.contract import schema_of, to_plain
from rlmem.documents.lint import LintDocument
from rlmem.lint.files import Problem
from rlmem.lint.linter import FileReport, Found
from rlmem.report.lint import render_text
from rlmem.report.lint_formats import RENDERERS, render_github, render_junit, render_sarif

#: What SARIF 2.1.0 asks of the parts that are used here, written after the standard's sections 3.13 to 3.58.
_MESSAGE = {"type": "object", "required": ["text"], "properties": {"text": {"type": "string", "minLength": 1}}}
_ARTIFACT = {
    "type": "object",
    "required": ["uri"],
    "properties": {"uri": {"type": "string", "pattern": "^[^ \\\\]+$"}, "uriBaseId": {"type": "string"}},
    "additionalProperties": False,
}
_LINE = {"type": "integer", "minimum": 1}
_REGION = {
    "type": "object",
    "required": ["startLine"],
    "properties": {
        "startLine": _LINE,
        "startColumn": _LINE,
        "endLine": _LINE,
        "endColumn": _LINE,
        "snippet": {"type": "object", "required": ["text"]},
    },
    "additionalProperties": False,
}
_LOCATIONS = {
    "type": "array",
    "items": {
        "type": "object",
        "required": ["physicalLocation"],
        "properties": {
            "physicalLocation": {
                "type": "object",
                "required": ["artifactLocation"],
                "properties": {"artifactLocation": _ARTIFACT, "region": _REGION},
                "additionalProperties": False,
            }
        },
    },
}
_LEVEL = {"enum": ["none", "note", "warning", "error"]}
_REPLACEMENT = {
    "type": "object",
    "required": ["deletedRegion"],
    "properties": {"deletedRegion": _REGION, "insertedContent": {"type": "object", "required": ["text"]}},
    "additionalProperties": False,
}
_RESULT = {
    "type": "object",
    "required": ["message"],
    "properties": {
        "ruleId": {"type": "string"},
        "ruleIndex": {"type": "integer", "minimum": 0},
        "level": _LEVEL,
        "message": _MESSAGE,
        "locations": _LOCATIONS,
        "partialFingerprints": {"type": "object", "additionalProperties": {"type": "string"}},
        "fixes": {
            "type": "array",
            "minItems": 1,
            "items": {
                "type": "object",
                "required": ["artifactChanges"],
                "properties": {
                    "description": _MESSAGE,
                    "artifactChanges": {
                        "type": "array",
                        "minItems": 1,
                        "items": {
                            "type": "object",
                            "required": ["artifactLocation", "replacements"],
                            "properties": {
                                "artifactLocation": _ARTIFACT,
                                "replacements": {"type": "array", "minItems": 1, "items": _REPLACEMENT},
                            },
                        },
                    },
                },
            },
        },
    },
    "additionalProperties": False,
}
_RULE = {
    "type": "object",
    "required": ["id", "name", "shortDescription", "fullDescription", "help"],
    "properties": {
        "id": {"type": "string", "pattern": "^MEM[0-9]{3}$"},
        "name": {"type": "string", "pattern": "^[A-Za-z0-9]+$"},
        "shortDescription": _MESSAGE,
        "fullDescription": _MESSAGE,
        "help": {"type": "object", "required": ["text", "markdown"]},
        "helpUri": {"type": "string", "format": "uri"},
        "defaultConfiguration": {"type": "object", "properties": {"level": _LEVEL}},
        "properties": {"type": "object"},
    },
    "additionalProperties": False,
}
SARIF = {
    "type": "object",
    "required": ["version", "runs"],
    "properties": {
        "version": {"const": "2.1.0"},
        "runs": {
            "type": "array",
            "items": {
                "type": "object",
                "required": ["tool"],
                "properties": {
                    "tool": {
                        "type": "object",
                        "required": ["driver"],
                        "properties": {
                            "driver": {
                                "type": "object",
                                "required": ["name"],
                                "properties": {"rules": {"type": "array", "uniqueItems": True, "items": _RULE}},
                            }
                        },
                    },
                    "columnKind": {"enum": ["utf16CodeUnits", "unicodeCodePoints"]},
                    "invocations": {
                        "type": "array",
                        "items": {"type": "object", "required": ["executionSuccessful"]},
                    },
                    "results": {"type": "array", "items": _RESULT},
                    "originalUriBaseIds": {"type": "object"},
                },
                "additionalProperties": False,
            },
        },
    },
}


def found(path: str = "src/train.py", cell: int | None = None, **more: Any) -> Found:
    place = Place(path=path, line=3, column=5, end_line=3, end_column=12, cell=cell)
    edit = Edit(start=20, end=27, text="thrift()")
    finding = Finding(
        **{
            "code": "MEM101",
            "name": "duplicate-next-obs",
            "severity": "warning",
            "title": '100% of it, twice: <a> & "b"\nnext',
            "remedy": "store it once",
            "place": place,
            "fix": Fix(title="store once", edits=(edit,)),
            **more,
        }
    )
    changes = ((place, "thrift()"),) if finding.fix else ()
    return Found(finding=finding, source_line="    waste()\x1b[31m", fingerprint="00ff:0", changes=changes)


def document(*items: Found, path: str = "src/train.py", problems: tuple[Problem, ...] = ()) -> LintDocument:
    report = FileReport(path=path, key=path, digest="x", shown=items)
    made = lint_document([report], problems)
    jsonschema.validate(to_plain(made), schema_of(LintDocument))
    return made


FULL = (
    document(
        found(saves_bytes=2**30),
        found(severity="error", code="MEM104", name="refused-combination", fix=None),
        found(severity="info", costs_bytes=2048, costs_per="step", remedy=None),
        problems=(
            Problem(path="bad.py", text="line 1: does not parse"),
            Problem(path="big.py", text="3.00 MiB; skipped", failed=False),
        ),
    ),
    document(found("my notebooks/é.ipynb", cell=4), path="my notebooks/é.ipynb"),
    document(found("/else/where.py"), path="/else/where.py"),
    document(),
)


def sarif(made: LintDocument) -> str:
    return render_sarif(made, list_rules().rules)


WAYS = {**RENDERERS, "sarif": sarif}


@pytest.mark.parametrize("made", FULL)
def test_a_sarif_log_keeps_the_standard(made: LintDocument) -> None:
    log = json.loads(sarif(made))
    jsonschema.validate(log, SARIF)
    run = log["runs"][0]
    for result in run["results"]:
        assert run["tool"]["driver"]["rules"][result["ruleIndex"]]["id"] == result["ruleId"]


def test_sarif_has_places_fixes_fingerprints_and_manual_pages() -> None:
    run = json.loads(sarif(FULL[0]))["runs"][0]
    first, second, third = run["results"]
    assert [result["level"] for result in run["results"]] == ["warning", "error", "note"]
    physical = first["locations"][0]["physicalLocation"]
    assert physical["artifactLocation"] == {"uri": "src/train.py", "uriBaseId": "SRCROOT"}
    assert (physical["region"]["startLine"], physical["region"]["endColumn"]) == (3, 12)
    assert first["partialFingerprints"] == {"rlmemLine/v1": "00ff:0"}
    replacement = first["fixes"][0]["artifactChanges"][0]["replacements"][0]
    assert replacement["insertedContent"] == {"text": "thrift()"}
    assert "fixes" not in second
    assert "costs 2.00 KiB per step" in third["message"]["text"]
    rule = run["tool"]["driver"]["rules"][0]
    assert rule["shortDescription"]["text"] == "The replay buffer stores every observation twice."
    assert "CompactReplayBuffer" in rule["help"]["markdown"]
    assert run["invocations"][0]["executionSuccessful"] is False


def test_a_notebook_is_a_file_without_lines_for_other_programs() -> None:
    result = json.loads(sarif(FULL[1]))["runs"][0]["results"][0]
    physical = result["locations"][0]["physicalLocation"]
    assert physical == {"artifactLocation": {"uri": "my%20notebooks/%C3%A9.ipynb", "uriBaseId": "SRCROOT"}}
    assert result["message"]["text"].startswith("cell 4, line 3: ")
    assert "fixes" not in result
    assert ",line=" not in render_github(FULL[1])


def test_workflow_commands_are_one_line_each_and_escaped() -> None:
    lines = render_github(FULL[0]).splitlines()
    assert lines[0] == (
        "::warning file=src/train.py,title=MEM101 duplicate-next-obs,line=3,endLine=3,col=5,endColumn=12::"
        '100%25 of it, twice: <a> & "b"%0Anext [saves 1.00 GiB]; store it once'
    )
    assert [line.split(" ")[0] for line in lines] == ["::warning", "::error", "::notice", "::error", "::notice"]
    odd = document(found("a,b:c.py"), path="a,b:c.py")
    assert render_github(odd).startswith("::warning file=a%2Cb%3Ac.py,")


@pytest.mark.parametrize("made", FULL)
def test_junit_is_xml_whose_counts_are_right(made: LintDocument) -> None:
    root = ElementTree.fromstring(render_junit(made))
    cases = root.findall("./testsuite/testcase")
    assert len(root.findall("./testsuite/testcase/failure")) == int(root.attrib["failures"]) == len(made.findings)
    failed = [problem for problem in made.problems if problem.failed]
    assert len(root.findall("./testsuite/testcase/error")) == int(root.attrib["errors"]) == len(failed)
    assert len(root.findall("./testsuite/testcase/skipped")) == len(made.problems) - len(failed)
    assert len(cases) == int(root.attrib["tests"]) >= 1
    assert sum(int(suite.attrib["tests"]) for suite in root) == len(cases)


def test_a_terminal_shows_the_line_with_a_caret_and_obeys_nothing_in_it() -> None:
    text = render_text(FULL[0], width=200)
    lines = text.splitlines()
    assert lines[0] == 'src/train.py:3:5: MEM101 100% of it, twice: <a> & "b"�next [saves 1.00 GiB]'
    assert lines[1:4] == ["    waste()�[31m", "    ^^^^^^^", "    → store it once (--fix)"]
    assert "\x1b" not in text
    assert "\x1b[1;33mMEM101\x1b[0m" in render_text(FULL[0], width=200, coloured=True)
    assert "waste()" not in render_text(FULL[0])


def test_a_notebook_is_shown_with_its_cell() -> None:
    assert render_text(FULL[1]).startswith("my notebooks/é.ipynb:cell 4:3:5: MEM101 ")


@pytest.mark.parametrize("name", WAYS)
def test_every_format_can_say_nothing(name: str) -> None:
    assert isinstance(WAYS[name](FULL[3]), str)


@pytest.mark.parametrize("name", WAYS)
def test_every_format_can_be_encoded_whatever_stands_in_names_and_lines(name: str) -> None:
    odd = replace(found("a\udcff\n.py", title="\ud800", remedy="\udcff"), source_line="\udcff")
    made = document(odd, path="a\udcff\n.py", problems=(Problem(path="b\udcff.py", text="\udcff"),))
    WAYS[name](made).encode("utf-8")


def test_a_line_of_text_is_one_line_whatever_the_name_is() -> None:
    text = render_text(document(found("a\n\x1b[2Jb.py"), path="a\n\x1b[2Jb.py"))
    assert text.splitlines()[0].startswith("a\\n\\x1b[2Jb.py:3:5: MEM101 ")


@pytest.mark.parametrize("width", [60, 80])
def test_a_terminal_shows_whole_words(width: int) -> None:
    text = render_text(FULL[0], width=width)
    assert max(len(line) for line in text.splitlines()) <= width
    assert " ".join(text.split()) == " ".join(render_text(FULL[0], width=1000).split())
    coloured = render_text(FULL[0], width=width, coloured=True)
    assert re.sub(r"\x1b\[[\d;]*m", "", coloured) == text
