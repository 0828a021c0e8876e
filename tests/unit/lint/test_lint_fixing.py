"""Fixes: made together, made again, written whole or not at all."""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from rlmem.core.plan import Budget
from rlmem.lint import writing
from rlmem.lint.files import Problem
from rlmem.lint.fixing import Fixing, fix_file
from rlmem.lint.linter import Linter
from rlmem.lint.settings import Asked, settings_for

Write = Callable[..., Path]


def fix(path: Path, *safeties: str, linter: Linter | None = None) -> Fixing | Problem:
    linter = linter or Linter(settings_for([path], Asked()), Budget(name="test"))
    return fix_file(linter, linter.lint(path), safeties or ("safe",))


def test_safe_fixes_are_written_and_unsafe_ones_are_left(project: Write) -> None:
    path = project(train="# a comment stays\nx = [waste(),   waste()]  # so does this\nrisk()\n")
    done = fix(path)
    assert isinstance(done, Fixing)
    assert path.read_text() == "# a comment stays\nx = [thrift(),   thrift()]  # so does this\nrisk()\n"
    assert [item.finding.code for item in done.report.shown] == ["MEM102"]
    assert [finding.code for finding in done.made] == ["MEM101", "MEM101"]


def test_unsafe_fixes_are_made_when_they_are_asked_for(project: Write) -> None:
    path = project(train="waste()\nrisk()\n")
    fix(path, "safe", "unsafe")
    assert path.read_text() == "thrift()\ncalm()\n"


def test_of_two_that_overlap_the_first_is_made_and_the_other_is_named(project: Write) -> None:
    path = project(train="twice()\n")
    done = fix(path)
    assert isinstance(done, Fixing)
    assert path.read_text() == "thrift()\n"  # the first makes room for one more
    assert [str(problem) for problem in done.problems] == [
        "train.py:1: the fix of MEM102 overlaps another, and was left until that one was made"
    ]
    assert not any(problem.failed for problem in done.problems)


def test_a_fix_that_comes_back_every_time_ends(project: Write) -> None:
    path = project(train="endless()\n")
    done = fix(path)
    assert isinstance(done, Fixing)
    assert "still being made after 10 rounds" in done.problems[-1].text


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (b"waste()\r\nx = 1\r\n", b"thrift()\r\nx = 1\r\n"),
        (b"x = 1\r\nlines()\r\n", b"x = 1\r\nthrift(\r\n    1,\r\n)\r\n"),
        (b"x = 1\nwaste()\r\ny = 2\n", b"x = 1\nthrift()\r\ny = 2\n"),
        (b"\xef\xbb\xbfwaste()\n", b"\xef\xbb\xbfthrift()\n"),
        (b"# coding: latin-1\nx = '\xe9', waste()\n", b"# coding: latin-1\nx = '\xe9', thrift()\n"),
        (b"waste()", b"thrift()"),
        ("é = '🙂'; waste()\n".encode(), "é = '🙂'; thrift()\n".encode()),
        (b"x = 1\x0c\nwaste()\n", b"x = 1\x0c\nthrift()\n"),
    ],
)
def test_encoding_marks_and_line_ends_stay_as_they_were(project: Write, before: bytes, after: bytes) -> None:
    path = project(train=before)
    fix(path)
    assert path.read_bytes() == after


def test_the_mode_of_a_file_and_a_link_to_it_stay(project: Write) -> None:
    path = project(train="waste()\n")
    path.chmod(0o751)
    link = path.with_name("link.py")
    link.symlink_to("train.py")
    fix(link)
    assert link.is_symlink()
    assert path.read_text() == "thrift()\n"
    assert stat.S_IMODE(path.stat().st_mode) == 0o751
    assert sorted(os.listdir(path.parent)) == ["link.py", "pyproject.toml", "train.py"]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (b"waste()\nbroken()\n", "not fixed (MEM101, MEM103): line"),
        (b"# coding: latin-1\ncoffee()\n", "a fix needs characters that iso-8859-1 does not have"),
    ],
)
def test_a_fix_whose_result_is_no_program_leaves_the_file_as_it_was(project: Write, text: bytes, reason: str) -> None:
    path = project(train=text)
    done = fix(path)
    assert isinstance(done, Fixing)
    assert reason in done.problems[0].text
    assert path.read_bytes() == text


def test_a_file_that_was_changed_since_it_was_linted_is_refused(project: Write) -> None:
    path = project(train="waste()\n")
    linter = Linter(settings_for([path], Asked()), Budget(name="test"))
    report = linter.lint(path)
    path.write_text("x = 1\nwaste()\n")
    done = fix_file(linter, report, ("safe",))
    assert isinstance(done, Problem)
    assert "changed since it was linted" in done.text
    assert path.read_text() == "x = 1\nwaste()\n"


def test_a_file_that_is_changed_while_it_is_fixed_is_refused(project: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    path = project(train="waste()\n")
    copymode = writing.shutil.copymode

    def meanwhile(*arguments: str) -> None:
        path.write_text("somebody else\n")
        copymode(*arguments)

    monkeypatch.setattr(writing.shutil, "copymode", meanwhile)
    done = fix(path)
    assert isinstance(done, Problem)
    assert path.read_text() == "somebody else\n"
    assert sorted(os.listdir(path.parent)) == ["pyproject.toml", "train.py"]


def test_a_file_that_is_read_only_is_named_and_left(project: Write) -> None:
    path = project(train="waste()\n")
    path.chmod(0o444)
    done = fix(path)
    assert isinstance(done, Problem)
    assert "read-only" in done.text
    assert path.read_text() == "waste()\n"


def test_a_file_that_is_gone_is_named(project: Write) -> None:
    path = project(train="waste()\n")
    linter = Linter(settings_for([path], Asked()), Budget(name="test"))
    report = linter.lint(path)
    path.unlink()
    done = fix_file(linter, report, ("safe",))
    assert isinstance(done, Problem)
    assert done.text == "not fixed: no such file or directory"
    assert not path.exists()


CELLS = [
    {"cell_type": "markdown", "metadata": {}, "source": ["# waste() ☕\n"]},
    {"cell_type": "code", "metadata": {}, "outputs": [{"n": 1e-05}], "source": ["%time 1\n", "waste()\n", "x = 1"]},
    {"cell_type": "code", "metadata": {}, "outputs": [], "source": "lines()"},
]


@pytest.mark.parametrize(
    ("options", "end"), [({"indent": 1, "ensure_ascii": False}, "\n"), ({"indent": 2}, ""), ({}, "\n\n")]
)
def test_only_the_cells_of_a_notebook_change(project: Write, options: dict[str, object], end: str) -> None:
    document = {"cells": CELLS, "metadata": {"a": 1}, "nbformat": 4, "nbformat_minor": 5}
    before = json.dumps(document, **options) + end  # type: ignore[arg-type]
    path = project(**{"train.ipynb": before})
    fix(path)
    changed = json.loads(json.dumps(document))
    changed["cells"][1]["source"] = ["%time 1\n", "thrift()\n", "x = 1"]
    changed["cells"][2]["source"] = "thrift(\n    1,\n)"
    assert path.read_text(encoding="utf-8") == json.dumps(changed, **options) + end  # type: ignore[arg-type]


def test_a_notebook_whose_formatting_cannot_be_kept_is_refused(project: Write) -> None:
    text = '{"cells":   [{"cell_type": "code", "source": "waste()"}]}'
    path = project(**{"train.ipynb": text})
    done = fix(path)
    assert isinstance(done, Fixing)
    assert "formatted in a way that cannot be kept" in done.problems[0].text
    assert path.read_text() == text


@pytest.mark.parametrize("unseen", ["print waste", "%%cython\ncdef int x = waste()"])
def test_a_notebook_with_cells_that_are_not_seen_gets_no_fix_unasked(project: Write, unseen: str) -> None:
    sources = ["waste()", unseen]
    cells = [{"cell_type": "code", "metadata": {}, "outputs": [], "source": source} for source in sources]
    path = project(**{"train.ipynb": json.dumps({"cells": cells}, indent=1)})
    before = path.read_text()
    done = fix(path)
    assert isinstance(done, Fixing)
    assert (done.made, path.read_text()) == ((), before)
    fix(path, "safe", "unsafe")
    assert path.read_text() == before.replace('"waste()"', '"thrift()"')
