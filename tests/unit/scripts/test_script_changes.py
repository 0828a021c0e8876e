"""Edits to a script leave what is around them as it was."""

from __future__ import annotations

import ast
import json
from textwrap import dedent

import pytest

from rlmem.core.edits import Edit, OverlapError, apply, diff, overlap
from rlmem.scripts import Script, ScriptError, parse_script
from rlmem.scripts.reading import decode


def read(text: str) -> Script:
    return parse_script(text, "train.py")


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("f()\n", "f(x=1)\n"),
        ("f(a)\n", "f(a, x=1)\n"),
        ("f(a,)\n", "f(a, x=1)\n"),
        ("f(a, **k)  # why\n", "f(a, **k, x=1)  # why\n"),
        ("f((a))\n", "f((a), x=1)\n"),
        ("f(\n    a,\n    b,  # two\n)\n", "f(\n    a,\n    b,  # two\n    x=1,\n)\n"),
        ("f(\n    a,\n    b  # two\n)\n", "f(\n    a,\n    b,  # two\n    x=1\n)\n"),
        ("f(\n    a,\n    b\n)\n", "f(\n    a,\n    b,\n    x=1\n)\n"),
        ("f(a,\n  b)\n", "f(a,\n  b,\n  x=1)\n"),
        ("f(\r\n    a,\r\n)\r\n", "f(\r\n    a,\r\n    x=1,\r\n)\r\n"),
        ("f('ä' + g(1))\n", "f('ä' + g(1), x=1)\n"),
    ],
)
def test_an_argument_is_added_in_the_style_of_the_call(before: str, after: str) -> None:
    script = read(before)
    changed = apply(before, [script.add_argument(script.calls[0], "x=1")])
    assert changed == after
    ast.parse(changed)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("f(a, x=1)\n", "f(a)\n"),
        ("f(x=1, b=2)\n", "f(b=2)\n"),
        ("f(x=1)\n", "f()\n"),
        ("f(\n    a,\n    x=1,\n)\n", "f(\n    a,\n)\n"),
        ("f(\n    # keep it,\n    x=1, b=2\n)\n", "f(\n    # keep it,\n    b=2\n)\n"),
        ("f(\n    a,  # keep it,\n    x=1,\n    b=2,\n)\n", "f(\n    a,  # keep it,\n    \n    b=2,\n)\n"),
        ("f((a), x=1)\n", "f((a))\n"),
        ("f(a, x=(1))\n", "f(a)\n"),
    ],
)
def test_an_argument_is_removed_with_its_comma(before: str, after: str) -> None:
    script = read(before)
    (keyword,) = [keyword for keyword in script.calls[0].keywords if keyword.arg == "x"]
    assert apply(before, [script.remove_argument(script.calls[0], keyword)]) == after


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("a = 1\nb = 2  # gone\nc = 3\n", "a = 1\nc = 3\n"),
        ("if a:\n    b = 2\n", "if a:\n    pass\n"),
        ("a = 1; b = 2\n", "a = 1; pass\n"),
    ],
)
def test_a_statement_is_removed_with_its_line(before: str, after: str) -> None:
    script = read(before)
    (found,) = [node for node in script.assigns if script.segment(node) == "b = 2"]
    assert apply(before, [script.remove_statement(found)]) == after


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ('"""Doc."""\nimport a\n\nx = 1\n', '"""Doc."""\nimport a\nfrom b import c\n\nx = 1\n'),
        ('"""Doc."""\nx = 1\n', '"""Doc."""\nfrom b import c\nx = 1\n'),
        ("x = 1\n", "from b import c\nx = 1\n"),
        ("from __future__ import annotations\nx = 1\n", "from __future__ import annotations\nfrom b import c\nx = 1\n"),
        ("import a", "import a\nfrom b import c\n"),
        ("import a\nm = a.f()\nimport time\n", "import a\nfrom b import c\nm = a.f()\nimport time\n"),
    ],
)
def test_an_import_goes_after_the_others(before: str, after: str) -> None:
    edit = read(before).add_import("from b import c")
    assert edit is not None
    assert apply(before, [edit]) == after


def test_an_import_that_is_there_is_not_added() -> None:
    assert read("from b import a, c\n").add_import("from b import c") is None


def test_a_line_is_inserted_with_the_indentation_of_the_next() -> None:
    script = read("if a:\n    b = 2\n")
    assert apply(script.text, [script.insert_before(script.assigns[0], "close()")]) == "if a:\n    close()\n    b = 2\n"


def test_overlapping_edits_are_refused_and_equal_ones_are_made_once() -> None:
    one, two = Edit(start=0, end=4, text="x"), Edit(start=2, end=6, text="y")
    assert overlap([one], [two])
    assert not overlap([one], [one])
    with pytest.raises(OverlapError):
        apply("abcdefgh", [one, two])
    assert apply("abcdefgh", [one, one]) == "xefgh"


def test_a_diff_without_a_last_newline_says_so() -> None:
    assert diff("t.py", "a", "b").count("\\ No newline at end of file") == 2
    assert diff("t.py", "a\n", "a\n") == ""


def test_places_count_characters_from_one() -> None:
    script = read("x = 'äöü'; f(1)\n")
    place = script.place(script.calls[0])
    assert (place.line, place.column, place.end_column) == (1, 12, 16)


def notebook(*cells: str, kind: str = "code") -> str:
    return json.dumps({"cells": [{"cell_type": kind, "source": cell.splitlines(keepends=True)} for cell in cells]})


def test_a_notebook_is_its_code_cells_and_places_name_the_cell() -> None:
    text = notebook("%matplotlib inline\n!pip install x\nimport a", "%%bash\nls -l", "if a:\n    !ls\na.f(1)")
    script = parse_script(text, "n.ipynb")
    place = script.place(script.calls[0])
    assert (place.cell, place.line, place.column) == (3, 3, 1)
    assert "%matplotlib inline" in script.text


def test_what_a_magic_runs_is_read_and_questions_are_not() -> None:
    lines = "files = !ls\n%time model.learn(1)\nmodel?\nmodel.learn(2)  # enough?\n%timeit -n 3 f()\nx = %who"
    script = parse_script(notebook(lines), "n.ipynb")
    assert [script.segment(call) for call in script.calls] == ["model.learn(1)", "model.learn(2)"]
    assert script.source.skipped == ()
    assert len(script.source.code) == len(script.text)


def test_a_cell_that_is_no_python_is_skipped_and_named() -> None:
    script = parse_script(notebook("x = (", "f(1)", "  g(2)"), "n.ipynb")
    assert [call.lineno for call in script.calls] == [2]
    assert [number for number, _ in script.source.skipped] == [1, 3]


@pytest.mark.parametrize(
    ("path", "text", "problem"),
    [
        ("a.py", "print 'x'\n", "does not parse"),
        ("a.py", "x = (\n", "does not parse"),
        ("a.py", "x = 1\0", "does not parse"),
        ("a.py", "x = " + "(" * 5000 + ")" * 5000, "does not parse"),
        ("a.ipynb", "{", "is not a notebook"),
        ("a.ipynb", "[]", "is not a notebook"),
    ],
)
def test_a_file_that_is_no_python_is_named(path: str, text: str, problem: str) -> None:
    with pytest.raises(ScriptError, match=f"{path}.*{problem}"):
        parse_script(text, path)


def test_declared_encodings_are_read_and_others_named() -> None:
    assert decode("a.py", "# -*- coding: latin-1 -*-\nx = 'é'\n".encode("latin-1")).endswith("'é'\n")
    assert decode("a.py", b"\xef\xbb\xbfx = 1\n") == "x = 1\n"
    with pytest.raises(ScriptError, match=r"a\.py:2: is not utf-8"):
        decode("a.py", "x = 1\ny = 'é'\n".encode("latin-1"))
    with pytest.raises(ScriptError, match="encoding"):
        decode("a.py", b"# coding: klingon\n")


def test_a_deep_chain_of_calls_is_walked() -> None:
    script = read(dedent("x = a" + ".b()" * 400 + "\n"))
    assert len(script.calls) == 400
