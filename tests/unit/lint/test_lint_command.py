"""``rlmem lint`` as it is called: exit codes, what goes where, the baseline, patches, many files."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import jsonschema
import pytest

from rlmem.cli import run
from rlmem.cli.lint import FORMATS
from rlmem.core.plan import Budget
from rlmem.documents.contract import schema_of
from rlmem.documents.lint import LintDocument
from rlmem.lint import many
from rlmem.lint.linter import Linter
from rlmem.lint.settings import Asked, settings_for

Write = Callable[..., Path]


@pytest.fixture
def lint(capsys: pytest.CaptureFixture[str]) -> Callable[..., tuple[int, str, str]]:
    def call(*arguments: str) -> tuple[int, str, str]:
        code = run(["lint", "--ram", "8GB", *arguments])
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return call


Lint = Callable[..., tuple[int, str, str]]


def test_findings_are_exit_code_one_and_none_is_zero(project: Write, lint: Lint) -> None:
    project(train="x = 1\n")
    assert lint() == (0, "no findings in 1 file\n", "")
    project(train="plain()\nmild()\n")
    code, out, err = lint(".")
    assert (code, err) == (1, "")
    assert out.splitlines() == [
        "train.py:1:1: MEM201 plain is called",
        "1 finding in 1 file (1 warning)",
        "not shown: 1 below the severity asked for (--severity info shows all)",
    ]
    assert lint(".", "--exit-zero")[0] == 0


def test_rules_and_severities_are_chosen(project: Write, lint: Lint) -> None:
    project(train="plain()\nmild()\nwaste()\n")
    assert "MEM302" in lint("--severity", "info")[1]
    assert lint("--severity", "error")[0] == 0
    assert "MEM201" not in lint("--select", "MEM1,MEM302")[1]
    assert "MEM201" not in lint("--ignore", "float-image")[1]
    code, _, err = lint("--select", "float-imag")
    assert (code, err) == (
        2,
        "rlmem: --select: unknown rule 'float-imag' (did you mean 'float-image'?); 'rlmem rule' lists all\n",
    )


def test_what_cannot_be_analysed_is_named_the_rest_is_linted_and_the_exit_code_says_so(
    project: Write, lint: Lint
) -> None:
    project(bad="def f(:\n", old='print "hello"\n', odd=b"x = '\xe9'\n", stumbles="crash()\n", fine="x = 1\n")
    code, out, err = lint(".")
    assert (code, out) == (3, "no findings in 1 file\n")
    assert err.splitlines() == [
        "rlmem: bad.py: line 1: does not parse: invalid syntax",
        "rlmem: odd.py: invalid or missing encoding declaration; save it as UTF-8, or say what it is: # -*- coding: latin-1 -*-",
        "rlmem: old.py: line 1: does not parse: Missing parentheses in call to 'print'. Did you mean print(...)?; "
        "is it Python 2?",
        "rlmem: stumbles.py: rlmem could not analyse this and should have (ZeroDivisionError: a rule stumbles); "
        "please report it",
    ]
    project(fine="plain()\n")
    assert lint(".")[0] == 1


def test_a_folder_without_scripts_is_fine_and_said(project: Write, lint: Lint) -> None:
    project(**{"notes.txt": "x"})
    assert lint() == (0, "no findings in 0 files\n", "rlmem: no Python files or notebooks there\n")


def test_a_hostile_script_is_never_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lint: Lint) -> None:
    monkeypatch.chdir(tmp_path)
    attack = "import pathlib\npathlib.Path('ran').write_text('yes')\n"
    (tmp_path / "helper.py").write_text(attack + "N = 4\nclass E:\n    pass\n")
    (tmp_path / "conftest.py").write_text(attack)
    (tmp_path / "numpy.py").write_text(attack)
    (tmp_path / "train.py").write_text(
        "# coding: utf-8\nfrom stable_baselines3 import SAC\nfrom helper import N, E\n"
        + attack
        + "SAC('MlpPolicy', E(), buffer_size=N)\n"
    )
    source = ["!touch ran\n", "%run helper.py\n", "import helper\n"]
    (tmp_path / "n.ipynb").write_text(json.dumps({"cells": [{"cell_type": "code", "source": source}]}))
    assert lint(".", "--fix")[0] in (0, 1)
    assert not (tmp_path / "ran").exists()


def test_standard_input_has_the_name_it_is_given(project: Write, lint: Lint, monkeypatch: pytest.MonkeyPatch) -> None:
    project()
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"waste()\n")))
    code, out, _ = lint("-", "--stdin-filename", "src/train.py")
    assert (code, out.splitlines()[0]) == (1, "src/train.py:1:1: MEM101 waste is called")
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"waste()\n")))
    code, out, _ = lint("-", "--diff")
    assert code == 1
    assert "+thrift()" in out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--unsafe-fixes"], "--unsafe-fixes goes with --fix"),
        (["--diff", "--json"], "--diff prints a patch, not json"),
        (["-", "a.py"], "'-' stands alone"),
        (["-", "--fix"], "'-' is no file that could be fixed"),
        (["--write-baseline"], "name the file with --baseline"),
        (["--write-baseline", "--baseline", "b", "--fix"], "fix before or after"),
        (["--json", "--format", "sarif"], "contradict each other"),
        (["--statistics", "--json"], "--statistics is a text of its own"),
        (["--baseline", "nowhere.json"], "nowhere.json: no such file; --write-baseline writes it"),
        (["--ram", "12"], "add a unit"),
    ],
)
def test_contradictions_are_refused(project: Write, lint: Lint, arguments: list[str], message: str) -> None:
    project(train="x = 1\n")
    code, out, err = lint(*arguments)
    assert (code, out) == (2, "")
    assert message in err
    assert len(err.splitlines()) == 1


def test_fix_makes_the_safe_ones_and_says_what_is_left(project: Write, lint: Lint) -> None:
    path = project(train="waste()\nrisk()\n")
    code, out, _ = lint(".", "--fix")
    assert (code, path.read_text()) == (1, "thrift()\nrisk()\n")
    assert "fixed 1 finding in 1 file" in out
    assert lint(".", "--fix", "--unsafe-fixes")[0] == 0
    assert path.read_text() == "thrift()\ncalm()\n"


def test_a_patch_shows_safe_and_unsafe_fixes_and_git_can_apply_it(project: Write, lint: Lint) -> None:
    path = project(src__train="x = 1\nwaste()\nrisk()\n")
    code, out, err = lint("--diff")
    assert (code, path.read_text()) == (1, "x = 1\nwaste()\nrisk()\n")
    assert "# MEM101: no waste (safe)" in out
    assert "# MEM102: no risk (unsafe)" in out
    assert "2 findings in 1 file" in err
    subprocess.run(["git", "apply", "-"], input=out.encode(), cwd=path.parents[1], check=True)
    assert path.read_text() == "x = 1\nthrift()\ncalm()\n"
    assert lint("--diff") == (0, "", "no findings in 1 file\n")


def test_a_patch_of_what_fix_would_write_writes_nothing(project: Write, lint: Lint) -> None:
    path = project(train="waste()\nrisk()\n")
    code, out, _ = lint(".", "--fix", "--diff")
    assert (code, path.read_text()) == (1, "waste()\nrisk()\n")
    assert "+thrift()" in out
    assert "calm()" not in out
    code, out, _ = lint(".", "--fix", "--unsafe-fixes", "--diff")
    assert (code, path.read_text()) == (1, "waste()\nrisk()\n")
    assert "+thrift()" in out
    assert "+calm()" in out


def test_a_baseline_knows_lines_that_have_moved_and_names_those_that_are_gone(project: Write, lint: Lint) -> None:
    path = project(train="waste()\nwaste()\nplain()\n")
    base = ("--baseline", "known.json")
    assert lint(".", *base, "--write-baseline") == (0, "", "wrote known.json: 3 known findings\n")
    assert lint(".", *base)[0] == 0
    path.write_text("import os\n\nplain()\nif os:\n    waste()\n    waste()\n")
    assert lint(".", *base) == (0, "no findings in 1 file\nnot shown: 3 in the baseline\n", "")
    path.write_text("plain()\nwaste()\nx = plain()\n")
    code, out, err = lint(".", *base)
    assert (code, out.splitlines()[0]) == (1, "train.py:3:5: MEM201 plain is called")
    assert err == "rlmem: known.json: MEM101 in train.py is not found any more; --write-baseline forgets it\n"


def test_writing_a_baseline_keeps_what_is_known_of_files_that_were_not_linted(project: Write, lint: Lint) -> None:
    project(a="waste()\n", b="plain()\n")
    base = ("--baseline", "known.json", "--write-baseline")
    lint(".", *base)
    project(a="x = 1\n")
    lint("a.py", *base)
    entries = json.loads(Path("known.json").read_text())["findings"]
    assert [(entry["path"], entry["code"]) for entry in entries] == [("b.py", "MEM201")]


@pytest.mark.parametrize("text", ["{", "[]", '{"schema": "x"}', '{"schema": "rlmem.lint-baseline/1", "findings": [1]}'])
def test_a_damaged_baseline_is_refused(project: Write, lint: Lint, text: str) -> None:
    project(train="x = 1\n", **{"known.json": text})
    code, _, err = lint("--baseline", "known.json")
    assert code == 2
    assert "known.json: not a baseline" in err


def test_known_findings_are_not_fixed(project: Write, lint: Lint) -> None:
    path = project(train="waste()\n")
    lint("--baseline", "known.json", "--write-baseline")
    assert lint("--baseline", "known.json", "--fix")[0] == 0
    assert path.read_text() == "waste()\n"


def test_statistics_count_rules(project: Write, lint: Lint) -> None:
    project(train="waste()\nplain()\nwaste()\n")
    code, out, _ = lint("--statistics")
    assert code == 1
    assert out.splitlines()[:2] == ["     2 MEM101 duplicate-next-obs (2 with a fix)", "     1 MEM201 float-image"]


def test_json_keeps_its_contract(project: Write, lint: Lint, capsys: pytest.CaptureFixture[str]) -> None:
    project(train="waste()\nrisk()\nplain()\n", bad="def f(:\n")
    code, out, _ = lint("--json", "--severity", "info")
    document = json.loads(out)
    jsonschema.validate(document, schema_of(LintDocument))
    assert (code, [finding["code"] for finding in document["findings"]]) == (1, ["MEM101", "MEM102", "MEM201"])
    assert document["findings"][0]["fix"]["edits"] == [
        {"line": 1, "column": 1, "end_line": 1, "end_column": 8, "cell": None, "text": "thrift()"}
    ]
    assert run(["schema", "lint"]) == 0
    assert json.loads(capsys.readouterr().out) == schema_of(LintDocument)


def test_a_file_takes_its_format_from_its_name(project: Write, lint: Lint) -> None:
    project(train="plain()\n")
    for name, start in (("a.sarif", "{"), ("a.xml", "<?xml"), ("a.json", "{"), ("a.txt", "train.py:1:1")):
        assert lint("-o", name)[0] == 1
        assert Path(name).read_text().startswith(start)


def test_many_files_are_linted_in_processes_in_the_same_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    paths = [tmp_path / f"f{number}.py" for number in range(3 * many.FEW)]
    for number, path in enumerate(paths):
        path.write_text("x = 1  # rlmem: ignore\n" * (number % 3) if number != 7 else "def f(:\n")
    linter = Linter(settings_for(paths, Asked()), Budget(name="test"))
    alone = list(many.lint_many(linter, paths, processes=1))
    assert list(many.lint_many(linter, paths, processes=2)) == alone
    assert [len(report.shown) for report in alone[:9]] == [0, 1, 2, 0, 1, 2, 0, 0, 2]
    assert alone[7].problem is not None


def test_a_file_that_takes_its_process_with_it_is_named_and_the_rest_is_linted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    paths = [tmp_path / f"f{number}.py" for number in range(many.FEW)]
    for path in paths:
        path.write_text("x = 1  # rlmem: ignore\n")
    linter = Deadly(settings_for(paths, Asked()), Budget(name="test"))
    reports = list(many.lint_many(linter, paths, processes=2))
    assert [report.path for report in reports] == [path.name for path in paths]
    assert [report.path for report in reports if report.problem] == ["f20.py"]
    assert sum(len(report.shown) for report in reports) == many.FEW - 1


class Deadly(Linter):
    """Dies at one file, as the parser of Python itself can."""

    def lint(self, path: Path, text: object = None) -> object:  # type: ignore[override]
        if path.name == "f20.py":
            import os

            os._exit(139)
        return super().lint(path)


def test_a_damaged_baseline_is_written_anew(project: Write, lint: Lint) -> None:
    project(train="plain()\n", **{"known.json": "{"})
    code, _, err = lint("--baseline", "known.json", "--write-baseline")
    assert code == 0
    assert "known.json: not a baseline" in err
    assert "written anew" in err
    assert lint("--baseline", "known.json")[0] == 0


@pytest.mark.parametrize("line", ['"12"', "true", "1.5", "[]"])
def test_a_line_of_a_baseline_is_a_number(project: Write, lint: Lint, line: str) -> None:
    entry = f'{{"path": "train.py", "code": "MEM101", "fingerprint": "0:0", "line": {line}}}'
    text = f'{{"schema": "rlmem.lint-baseline/1", "findings": [{entry}]}}'
    project(train="x = 1\n", **{"known.json": text})
    code, _, err = lint("--baseline", "known.json")
    assert code == 2
    assert "its line is a number or null" in err


def known() -> list[tuple[str, str]]:
    entries = json.loads(Path("known.json").read_text())["findings"]
    return [(entry["path"], entry["code"]) for entry in entries]


def test_writing_a_baseline_keeps_what_this_call_could_not_see(project: Write, lint: Lint) -> None:
    base = (".", "--baseline", "known.json", "--write-baseline")
    project(a="waste()\nplain()\nmild()\n", b="plain()\n", c="plain()\n", d="plain()\n")
    lint(*base, "--severity", "info")
    whole = [("a.py", "MEM101"), ("a.py", "MEM201"), ("a.py", "MEM302"), *((f"{name}.py", "MEM201") for name in "bcd")]
    assert known() == whole
    project(b="def f(:\n", c="x = 1\n")
    Path("d.py").unlink()
    lint(*base, "--select", "MEM101")
    assert known() == [*whole[:3], ("b.py", "MEM201"), ("c.py", "MEM201")]
    lint(*base)
    assert known() == [*whole[:3], ("b.py", "MEM201")]
    assert "is not found any more" not in lint(*base[:3])[2]


def test_a_baseline_may_name_what_no_system_can(project: Write, lint: Lint) -> None:
    names = ["x" * 5000, "a\0b"]
    entries = [{"path": name, "code": "MEM101", "fingerprint": "0:0"} for name in names]
    text = json.dumps({"schema": "rlmem.lint-baseline/1", "findings": entries})
    project(train="x = 1\n", **{"known.json": text})
    code, _, err = lint("--baseline", "known.json")
    assert (code, len(err.splitlines())) == (0, 2)


@pytest.mark.parametrize("words", ["", ",", " , "])
def test_a_selection_that_names_nothing_is_refused(project: Write, lint: Lint, words: str) -> None:
    project(train="plain()\n")
    assert lint("--select", words) == (2, "", "rlmem: --select: names no rule; without it all are asked\n")


@pytest.fixture
def odd_name(project: Write) -> Path:
    """A file whose name is not UTF-8, with a control character."""
    path = Path(os.fsdecode(b"bad\xff\x1b[31m.py"))
    project()
    try:
        path.write_text("waste()\n")
    except OSError:
        pytest.skip("this file system has no such names")
    return path


@pytest.mark.parametrize("wanted", FORMATS)
def test_a_name_that_is_not_text_can_be_written_in_every_format(odd_name: Path, lint: Lint, wanted: str) -> None:
    code, out, _ = lint("--format", wanted)
    assert code == 1
    assert "MEM101" in out
    out.encode("utf-8")
    assert "\x1b" not in out or wanted == "github"  # whose lines are read by a program
    if wanted == "json":
        assert json.loads(out)["findings"][0]["path"] == str(odd_name)
    if wanted == "sarif":
        assert '"uri": "bad%FF%1B%5B31m.py"' in out
    if wanted == "text":
        assert out.startswith("bad\\xff\\x1b[31m.py:1:1: MEM101 ")


def test_messages_about_such_a_name_do_not_reach_the_terminal_raw(odd_name: Path, lint: Lint) -> None:
    odd_name.write_text("def f(:\n")
    assert lint(".")[2] == "rlmem: bad\\xff\\x1b[31m.py: line 1: does not parse: invalid syntax\n"


def test_a_baseline_knows_files_by_such_names(odd_name: Path, lint: Lint) -> None:
    lint(".", "--baseline", "known.json", "--write-baseline")
    assert known() == [(str(odd_name), "MEM101")]
    assert lint(".", "--baseline", "known.json") == (0, "no findings in 1 file\nnot shown: 1 in the baseline\n", "")


def test_git_can_apply_a_patch_of_a_file_with_such_a_name(odd_name: Path, lint: Lint) -> None:
    _, out, _ = lint("--diff")
    subprocess.run(["git", "apply", "-"], input=out.encode(), check=True)
    assert odd_name.read_text() == "thrift()\n"
