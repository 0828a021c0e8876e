"""The pages on rules and on lint say what the code says."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

from rlmem.app.rules import list_rules
from rlmem.cli import COMMANDS, run
from rlmem.documents.rules import RulePart
from rlmem.lint.catalogue import manual
from rlmem.lint.settings import Asked, settings_for
from rlmem.report.rule_pages import chunks, page_markdown
from rlmem.rules import find_rule

ROOT = Path(__file__).parents[3]


def test_the_pages_on_the_rules_are_up_to_date(tmp_path: Path) -> None:
    assert run(["rule", "--pages", "-o", str(tmp_path / "rules.md")]) == 0
    for made in (tmp_path / "rules.md", *sorted((tmp_path / "rules").iterdir())):
        name = made.relative_to(tmp_path)
        written = ROOT / "docs" / name
        assert written.exists(), f"docs/{name} is missing; 'make docs' writes it"
        assert written.read_text(encoding="utf-8") == made.read_text(encoding="utf-8"), (
            f"'make docs' writes docs/{name}"
        )
    there = {path.name for path in (ROOT / "docs" / "rules").iterdir()}
    assert there == {path.name for path in (tmp_path / "rules").iterdir()}


def test_the_index_has_every_rule_once_and_a_mark_for_each_subject(tmp_path: Path) -> None:
    run(["rule", "--pages", "-o", str(tmp_path / "rules.md")])
    rows = re.findall(
        r"^\| \[(MEM\d+)\]\(rules/\1\.md\) (\S+) \|(.*)$", (tmp_path / "rules.md").read_text(), flags=re.M
    )
    assert sorted(code for code, _, _ in rows) == sorted(rule.code for rule, _ in manual())
    marks = {code: rest.count("✓") for code, _, rest in rows}
    assert marks == {rule.code: len(rule.subjects) for rule, _ in manual()}


def test_pages_of_rules_that_are_gone_are_removed(tmp_path: Path) -> None:
    (tmp_path / "rules").mkdir()
    (tmp_path / "rules" / "MEM999.md").write_text("old")
    (tmp_path / "rules" / "notes.md").write_text("mine")
    run(["rule", "--pages", "-o", str(tmp_path / "rules.md")])
    assert not (tmp_path / "rules" / "MEM999.md").exists()
    assert (tmp_path / "rules" / "notes.md").exists()


def test_a_manual_page_keeps_its_code() -> None:
    page = "What it finds.\n\nWhy.\n\nExample::\n\n    a = 1\n    if a:\n        b()\n\nIn text::\n\n    c\n\nor\n\n```python\nd = 2\n\ne\n```\n\nEnd."
    assert list(chunks(page)) == [
        ("prose", "What it finds."),
        ("prose", "Why."),
        ("prose", "Example:"),
        ("code", "a = 1\nif a:\n    b()"),
        ("prose", "In text:"),
        ("code", "c"),
        ("prose", "or"),
        ("code", "d = 2\n\ne"),
        ("prose", "End."),
    ]


@pytest.mark.parametrize("rule", list_rules().rules, ids=lambda rule: rule.code)
def test_a_page_closes_every_fence_and_keeps_no_markup_of_docstrings(rule: RulePart) -> None:
    text = page_markdown(rule)
    assert text.count("```") % 2 == 0
    assert "::\n" not in re.sub("```.*?```", "", text, flags=re.S)


def test_the_page_on_lint_names_only_rules_that_exist(capsys: pytest.CaptureFixture[str]) -> None:
    text = (ROOT / "docs" / "lint.md").read_text(encoding="utf-8")
    for code in sorted(set(re.findall(r"MEM\d{3}", text)) - {"MEM000"}):
        find_rule(code)
    assert run(["lint", "--help"]) == 0
    options = set(re.findall(r"--[a-z][a-z-]+", capsys.readouterr().out))
    for option in set(re.findall(r"`(--[a-z][a-z-]+)", text)):
        assert option in options, f"docs/lint.md names {option}"


def test_the_settings_in_the_page_on_lint_are_settings(tmp_path: Path) -> None:
    text = (ROOT / "docs" / "lint.md").read_text(encoding="utf-8")
    (tmp_path / "pyproject.toml").write_text(text.split("```toml\n")[1].split("```")[0])
    settings = settings_for([tmp_path], Asked())
    assert (settings.ram, settings.baseline) == ("16GB", tmp_path / "rlmem-baseline.json")


def test_the_hook_for_pre_commit_calls_lint() -> None:
    hooks = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text(encoding="utf-8"))
    assert [hook["id"] for hook in hooks] == ["rlmem-lint"]
    program, command = hooks[0]["entry"].split()
    assert (program, command in COMMANDS) == ("rlmem", True)
