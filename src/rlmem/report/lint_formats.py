"""Findings for other programs: GitHub's workflow commands, SARIF 2.1.0, and JUnit XML."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any
from urllib.parse import quote
from xml.sax.saxutils import escape, quoteattr

from rlmem.core.printable import encodable, exact_json
from rlmem.documents.contract import to_json, to_plain
from rlmem.documents.lint import BaselineDocument, EditPart, FixPart, LintDocument, LintFindingPart, ProblemPart
from rlmem.documents.rules import RulePart
from rlmem.report.lint import cost, location, render_text
from rlmem.report.rule_pages import body_markdown
from rlmem.version import __version__

HOME = "https://github.com/rlmem/rlmem"
SARIF_SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
_GITHUB = {"error": "error", "warning": "warning", "info": "notice"}
_SARIF = {"error": "error", "warning": "warning", "info": "note"}


def sentence(finding: LintFindingPart) -> str:
    """What is wrong, what it costs, what to do; in a notebook also where, since other programs know only files."""
    size, cell = cost(finding), finding.cell
    where = f"cell {cell}, line {finding.line}: " if cell else ""
    remedy = f"; {finding.remedy}" if finding.remedy else ""
    return f"{where}{finding.title}{f' [{size}]' if size else ''}{remedy}"


def render_github(document: LintDocument) -> str:
    """Workflow commands, which GitHub shows beside the lines of a change; what could not be read is said as well."""
    lines = []
    for finding in document.findings:
        properties: dict[str, str | int] = {"file": finding.path, "title": f"{finding.code} {finding.name}"}
        if not finding.cell:
            one_line = finding.line == finding.end_line
            ends = {"col": finding.column, "endColumn": finding.end_column} if one_line else {}
            properties |= {"line": finding.line, "endLine": finding.end_line, **ends}
        lines.append(_command(_GITHUB[finding.severity], properties, sentence(finding)))
    for problem in document.problems:
        kind = "error" if problem.failed else "notice"
        lines.append(_command(kind, {"file": problem.path, "title": "rlmem lint"}, problem.text))
    return "".join(f"{line}\n" for line in lines)


def _command(kind: str, properties: Mapping[str, Any], message: str) -> str:
    listed = ",".join(f"{key}={_escaped(str(value), ':,')}" for key, value in properties.items())
    return f"::{kind} {listed}::{_escaped(message)}"


def _escaped(text: str, more: str = "") -> str:
    return "".join(f"%{ord(c):02X}" if c in f"%\r\n{more}" else c for c in encodable(text))


def render_sarif(document: LintDocument, rules: Sequence[RulePart]) -> str:
    """A SARIF log with one run: rules with their manual pages, results with places, fixes and fingerprints."""
    codes = {finding.code for finding in document.findings}
    listed = [rule for rule in rules if rule.code in codes]
    index = {rule.code: number for number, rule in enumerate(listed)}
    run = {
        "tool": {
            "driver": {
                "name": "rlmem",
                "version": __version__,
                "informationUri": HOME,
                "rules": [_rule(rule) for rule in listed],
            }
        },
        "columnKind": "unicodeCodePoints",
        "originalUriBaseIds": {"SRCROOT": {"description": {"text": "The folder rlmem was called in."}}},
        "invocations": [
            {
                "executionSuccessful": not document.failed,
                "toolExecutionNotifications": [_notification(problem) for problem in document.problems],
            }
        ],
        "results": [_result(finding, index[finding.code]) for finding in document.findings],
    }
    log = {"$schema": SARIF_SCHEMA, "version": "2.1.0", "runs": [run]}
    return encodable(json.dumps(log, indent=2, ensure_ascii=False))


def _rule(rule: RulePart) -> dict[str, Any]:
    page = rule.page
    return {
        "id": rule.code,
        "name": "".join(part.capitalize() for part in rule.name.split("-")),
        "shortDescription": {"text": page.splitlines()[0]},
        "fullDescription": {"text": " ".join(page.split("\n\n")[1].split()) if "\n\n" in page else page},
        "help": {"text": page, "markdown": body_markdown(page)},
        "helpUri": f"{HOME}/blob/main/docs/rules/{rule.code}.md",
        "defaultConfiguration": {"level": _SARIF[rule.severity]},
        "properties": {"tags": ["memory", rule.family], "problem.severity": _severity(rule.severity)},
    }


def _severity(severity: str) -> str:
    return "recommendation" if severity == "info" else severity


def _artifact(path: str) -> dict[str, Any]:
    """A file by its relative address; one that is elsewhere by its whole one. A name is bytes, and those are quoted."""
    address = quote(os.fsencode(path))
    if path.startswith("/") or re.match(r"[A-Za-z]:", path):
        return {"uri": f"file://{'' if path.startswith('/') else '/'}{address}"}
    return {"uri": address, "uriBaseId": "SRCROOT"}


def _region(place: EditPart | LintFindingPart) -> dict[str, int]:
    return {
        "startLine": place.line,
        "startColumn": place.column,
        "endLine": place.end_line,
        "endColumn": place.end_column,
    }


def _result(finding: LintFindingPart, index: int) -> dict[str, Any]:
    """Lines of a notebook's cell are not lines of its file: there, the file is the place and the message says the rest."""
    physical: dict[str, Any] = {"artifactLocation": _artifact(finding.path)}
    result: dict[str, Any] = {
        "ruleId": finding.code,
        "ruleIndex": index,
        "level": _SARIF[finding.severity],
        "message": {"text": sentence(finding)},
        "locations": [{"physicalLocation": physical}],
        "partialFingerprints": {"rlmemLine/v1": finding.fingerprint},
    }
    if not finding.cell:
        physical["region"] = {**_region(finding), "snippet": {"text": finding.source}}
        if finding.fix:
            result["fixes"] = [_fix(finding.path, finding.fix)]
    return result


def _fix(path: str, fix: FixPart) -> dict[str, Any]:
    replacements = [{"deletedRegion": _region(edit), "insertedContent": {"text": edit.text}} for edit in fix.edits]
    return {
        "description": {"text": f"{fix.title} ({fix.safety})"},
        "artifactChanges": [{"artifactLocation": _artifact(path), "replacements": replacements}],
    }


def _notification(problem: ProblemPart) -> dict[str, Any]:
    return {
        "level": "error" if problem.failed else "note",
        "message": {"text": problem.text},
        "locations": [{"physicalLocation": {"artifactLocation": _artifact(problem.path)}}],
    }


def render_junit(document: LintDocument) -> str:
    """A test suite for each file with findings, a failure for each finding; one test that passes when there are none."""
    suites = list(_suites(document))
    findings, errors = len(document.findings), sum(problem.failed for problem in document.problems)
    tests = max(findings + len(document.problems), 1)
    lines = [
        '<?xml version="1.0" encoding="utf-8"?>',
        f'<testsuites name="rlmem lint" tests="{tests}" failures="{findings}" errors="{errors}">',
        *(
            suites
            or ['  <testsuite name="rlmem" tests="1" failures="0" errors="0"><testcase name="lint"/></testsuite>']
        ),
        "</testsuites>",
    ]
    return "\n".join(lines) + "\n"


def _suites(document: LintDocument) -> Iterator[str]:
    for path, group in groupby(document.findings, key=lambda finding: finding.path):
        found = list(group)
        yield f'  <testsuite name={_attribute(path)} tests="{len(found)}" failures="{len(found)}" errors="0">'
        for finding in found:
            name = f"{finding.code} {finding.name} at {location(finding)}"
            yield f'    <testcase name={_attribute(name)} classname={_attribute(path)} line="{finding.line}">'
            message = _attribute(sentence(finding))
            body = escape(_valid(finding.source.strip()))
            yield f"      <failure type={_attribute(finding.severity)} message={message}>{body}</failure>"
            yield "    </testcase>"
        yield "  </testsuite>"
    for problem in document.problems:
        path = _attribute(problem.path)
        kind, error, skipped = ("error", 1, 0) if problem.failed else ("skipped", 0, 1)
        yield f'  <testsuite name={path} tests="1" failures="0" errors="{error}" skipped="{skipped}">'
        yield f'    <testcase name="lint" classname={path}><{kind} message={_attribute(problem.text)}/></testcase>'
        yield "  </testsuite>"


def _attribute(text: str) -> str:
    return quoteattr(_valid(text))


def _valid(text: str) -> str:
    """Without the characters that XML 1.0 has no way to write."""
    return re.sub("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]", "�", text)


def render_json(document: LintDocument) -> str:
    """The document itself."""
    return exact_json(to_json(document))


def render_baseline(document: BaselineDocument) -> str:
    """A baseline as JSON, one finding a line, so that a change to it is easy to read."""
    lines = ",\n".join(f"    {json.dumps(to_plain(known), ensure_ascii=False)}" for known in document.findings)
    body = f"[\n{lines}\n  ]" if lines else "[]"
    return exact_json(f'{{\n  "schema": "{BaselineDocument.SCHEMA}",\n  "findings": {body}\n}}\n')


#: Format to what writes it from the findings alone; text in a terminal has more to it, and SARIF the manual pages.
RENDERERS = {
    "text": render_text,
    "json": render_json,
    "github": render_github,
    "junit": render_junit,
}
