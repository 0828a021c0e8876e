"""What pyproject.toml and the command line ask for."""

from __future__ import annotations

from pathlib import Path

import pytest

from rlmem.errors import UsageError
from rlmem.lint.catalogue import codes, manual
from rlmem.lint.settings import Asked, Settings, settings_for
from rlmem.rules import CODES


def settings(folder: Path, text: str, **asked: object) -> Settings:
    (folder / "pyproject.toml").write_text(text)
    return settings_for([folder], Asked(**asked))  # type: ignore[arg-type]


def test_without_a_file_every_rule_is_on(tmp_path: Path) -> None:
    made = settings_for([tmp_path], Asked())
    assert made.enabled == {rule.code for rule, _ in manual()}
    assert (made.severity, made.exclude, made.baseline) == ("warning", (), None)


def test_all_keys_are_read_from_either_table(tmp_path: Path) -> None:
    made = settings(
        tmp_path,
        """
        [tool.rlmem]
        ram = "16GB"
        [tool.rlmem.lint]
        select = ["buffers", "MEM2"]
        ignore = ["duplicate-next-obs"]
        exclude = ["old"]
        severity = "info"
        baseline = "known.json"
        [tool.rlmem.lint.per-file-ignores]
        "tests/**" = ["MEM201"]
        """,
    )
    assert {"MEM102", "MEM201"} <= made.enabled
    assert not {"MEM101", "MEM301"} & made.enabled
    assert (made.exclude, made.severity, made.ram) == (("old",), "info", "16GB")
    assert made.baseline == tmp_path / "known.json"
    assert made.enabled_for("tests/a/test_x.py") == made.enabled - {"MEM201"}
    assert made.enabled_for("src/a.py") == made.enabled


def test_the_nearest_file_with_a_table_counts(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text('[tool.rlmem]\nseverity = "error"\n')
    inner = tmp_path / "a" / "b"
    inner.mkdir(parents=True)
    (tmp_path / "a" / "pyproject.toml").write_text("[project]\nname = 'a'\n")
    made = settings_for([inner, tmp_path / "a" / "x.py"], Asked())
    assert (made.severity, made.root) == ("error", tmp_path)


def test_the_command_line_wins(tmp_path: Path) -> None:
    text = '[tool.rlmem]\nselect = ["MEM1"]\nignore = ["MEM101"]\nseverity = "error"\n'
    assert settings(tmp_path, text, select=("MEM101",)).enabled == {"MEM101"}
    assert "MEM102" not in settings(tmp_path, text, ignore=("MEM102",)).enabled
    assert settings(tmp_path, text, severity="info").severity == "info"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('[tool.rlmem]\nselct = ["MEM1"]', r"tool\.rlmem\.selct: unknown key \(did you mean 'select'\?\)"),
        ("[tool.rlmem.lint]\nexcludes = []", r"tool\.rlmem\.lint\.excludes: unknown key \(did you mean 'exclude'\?\)"),
        ('[tool.rlmem]\nselect = "MEM1"', "select: expected a list of rules"),
        ('[tool.rlmem]\nselect = ["duplicate-nextobs"]', r"unknown rule .* \(did you mean 'duplicate-next-obs'\?\)"),
        ('[tool.rlmem]\nseverity = "loud"', "severity: expected one of error, warning, info"),
        ('[tool.rlmem]\nram = "lots"', "lots"),
        ("[tool.rlmem]\nram = 16", "ram: expected a size"),
        ('[tool.rlmem]\nram = "1GB"\n[tool.rlmem.lint]\nram = "1GB"', "keep one of them"),
        ('[tool.rlmem.per-file-ignores]\n"a.py" = "MEM1"', "per-file-ignores: expected a table"),
        ("[tool]\nrlmem = 3", "tool.rlmem: expected a table"),
        ("[tool.rlmem", "not TOML"),
    ],
)
def test_a_wrong_table_is_refused_with_the_file_and_the_key(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(UsageError, match=message) as caught:
        settings(tmp_path, text)
    assert "pyproject.toml" in str(caught.value)


def test_rules_are_chosen_by_code_beginning_name_family_or_all() -> None:
    assert codes(["MEM101"], "") == codes(["duplicate-next-obs"], "") == {"MEM101"}
    assert codes(["mem1"], "") == {code for code in CODES if code.startswith("MEM1")}
    assert "MEM802" in codes(["Evaluation and checkpoints"], "")
    assert len(codes(["all"], "")) == len(CODES) + 1
    with pytest.raises(UsageError, match="--select: unknown rule 'MEM999'"):
        codes(["MEM999"], "--select")
