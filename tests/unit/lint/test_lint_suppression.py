"""Comments that silence rules, and what is said about those that do not do what they say."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from rlmem.core.plan import Budget
from rlmem.lint.linter import FileReport, Linter
from rlmem.lint.settings import Asked, settings_for

Write = Callable[..., Path]


def lint(path: Path, **asked: object) -> FileReport:
    settings = settings_for([path], Asked(severity="info", **asked))  # type: ignore[arg-type]
    return Linter(settings, Budget(name="test")).lint(path)


def said(path: Path, **asked: object) -> list[tuple[int, str, str]]:
    found = [item.finding for item in lint(path, **asked).shown]
    return [(finding.place.line, finding.code, finding.severity) for finding in found if finding.place]


@pytest.mark.parametrize(
    "text",
    [
        "waste()  # rlmem: ignore[MEM101] small here\n",
        "waste()  # rlmem: ignore[duplicate-next-obs] small here\n",
        "waste()  # rlmem:ignore[ MEM102 , mem101 ] small here\nrisk()  # rlmem: ignore[MEM102] x\n",
        "# rlmem: ignore[MEM101] small here\nwaste()\n",
        "# rlmem: ignore[MEM101] small here\n# and more words\nwaste()\n",
        "x = f(\n    1,\n    waste(),\n    2,  # rlmem: ignore[MEM101] small here\n)\n",
        "x = f(  # rlmem: ignore[MEM101] small here\n    1,\n    waste(),\n)\n",
        "for x in waste():  # rlmem: ignore[MEM101] small here\n    pass\n",
        "@waste()\n# a comment\ndef f():  # rlmem: ignore[MEM101] small here\n    pass\n",
        "match waste():  # rlmem: ignore[MEM101] small here\n    case 1:\n        pass\n",
        "x = 1\nwaste()\n# rlmem: ignore-file[MEM101] generated\nwaste()\n",
        "waste()  # rlmem: ignore[MEM101] small here\r\n",
        "é = 'é'; waste()  # rlmem: ignore[MEM101] small here\r\n",
        "waste()  # type: ignore  # rlmem: ignore[MEM101] small here\n",
        "# pragma: no cover # rlmem: ignore[MEM101] small here\nwaste()\n",
        "waste()  # rlmem: ignore[MEM102] other # rlmem: ignore[MEM101] small here\n",
        "waste()  ## rlmem: ignore[MEM101] small here\n",
        "waste()  # RLMEM: Ignore[mem101] small here\n",
    ],
)
def test_a_comment_silences_its_statement_or_its_file(project: Write, text: str) -> None:
    report = lint(project(train=text))
    assert "MEM101" not in {item.finding.code for item in report.shown}
    assert report.silenced


@pytest.mark.parametrize(
    "text",
    [
        "x = '# rlmem: ignore[MEM101] in a string'; waste()\n",
        "# rlmem: ignore[MEM101] a blank line is between\n\nwaste()\n",
        "for x in y:  # rlmem: ignore[MEM101] only the head\n    waste()\n",
        "waste()\n# rlmem: ignore[MEM101] below\n",
        "waste()  # as in '# rlmem: ignore[MEM101] reason'\n",
        "waste()  # rlmem: ignore[MEM102] another rule\n",
        "f()  # rlmem: ignore[MEM101] the line before\nwaste()\n",
    ],
)
def test_a_comment_elsewhere_silences_nothing(project: Write, text: str) -> None:
    assert "MEM101" in {code for _, code, _ in said(project(train=text))}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("waste()  # rlmem: ignore\n", [(1, "MEM101", "warning"), (1, "MEM000", "warning")]),
        ("waste()  # rlmem: ignore[]\n", [(1, "MEM101", "warning"), (1, "MEM000", "warning")]),
        ("waste()  # rlmem: ignore[MEM101]\n", [(1, "MEM000", "info")]),
        ("x = 1  # rlmem: ignore[MEM101] nothing is here\n", [(1, "MEM000", "info")]),
        ("x = 1  # rlmem: ignore[MEM777] no such rule\n", [(1, "MEM000", "warning")]),
        ("waste()  # rlmem: ingore[MEM101] oops\n", [(1, "MEM101", "warning"), (1, "MEM000", "warning")]),
        ("waste()  # rlmem: ignore-file[MEM101] oops\n", [(1, "MEM000", "warning")]),
        ("waste()  # noqa: E501  # RLMEM: ingore[MEM101] x\n", [(1, "MEM101", "warning"), (1, "MEM000", "warning")]),
        ("x = 1  # rlmem: is mentioned here\n", []),
    ],
)
def test_a_comment_that_does_not_do_what_it_says_is_reported(
    project: Write, text: str, expected: list[tuple[int, str, str]]
) -> None:
    assert said(project(train=text)) == expected


def test_a_comment_about_a_rule_that_is_off_is_not_called_needless(project: Write) -> None:
    path = project(train="waste()  # rlmem: ignore[MEM101] small here\n")
    assert said(path, select=("MEM000", "MEM201")) == []


def test_a_comment_in_a_notebook_counts_in_its_cell(project: Write) -> None:
    cells = [
        {"cell_type": "markdown", "source": "waste()"},
        {"cell_type": "code", "source": ["%matplotlib inline\n", "waste()  # rlmem: ignore[MEM101] small"]},
        {"cell_type": "code", "source": "x = 1\nwaste()"},
    ]
    path = project(**{"train.ipynb": json.dumps({"cells": cells, "nbformat": 4})})
    report = lint(path)
    places = [item.finding.place for item in report.shown]
    assert [(place.cell, place.line) for place in places if place] == [(3, 2)]
    assert (report.silenced, report.shown[0].source_line) == (1, "waste()")
