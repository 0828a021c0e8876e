"""Linting by a typed request."""

from __future__ import annotations

from pathlib import Path

import pytest

from rlmem.app.lint import FixInterruptedError, LintRequest, lint, lint_baseline, lint_patches
from rlmem.app.rules import list_rules
from rlmem.errors import UsageError
from rlmem.lint.session import Session
from rlmem.lint.settings import Asked

SCRIPT = """\
from stable_baselines3 import DQN

model = DQN("CnnPolicy", "ALE/Pong-v5", buffer_size=1_000_000)
model.learn(1_000_000)
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.py").write_text(SCRIPT)
    (tmp_path / "bad.py").write_text("def f(:\n")
    return tmp_path


def test_the_current_folder_is_linted_and_every_file_is_told(folder: Path) -> None:
    ticks: list[tuple[int, int]] = []
    told: list[object] = []
    document = lint(LintRequest(), tell=told.append, tick=lambda done, total: ticks.append((done, total)))
    assert (document.files, document.failed) == (1, True)
    assert {finding.path for finding in document.findings} == {"train.py"}
    assert ticks == [(1, 2), (2, 2)]
    assert [str(text).split(":")[0] for text in told] == ["bad.py"]


def test_bytes_stand_for_a_file_that_need_not_be_there(folder: Path) -> None:
    request = LintRequest(paths=(Path("else.py"),), text=SCRIPT.encode())
    assert {finding.path for finding in lint(request).findings} == {"else.py"}


def test_patches_write_nothing(folder: Path) -> None:
    patches = lint_patches(LintRequest(paths=(Path("train.py"),)), ("safe", "unsafe"))
    assert any("+++ b/train.py" in text for text in patches.texts)
    assert (folder / "train.py").read_text() == SCRIPT


def test_a_baseline_knows_what_was_found(folder: Path) -> None:
    request = LintRequest(paths=(Path("train.py"),), rules=Asked(baseline=Path("known.json")))
    before = lint(LintRequest(paths=(Path("train.py"),)))
    baseline = lint_baseline(request)
    assert (baseline.findings, baseline.failed) == (len(before.findings), False)
    baseline.path.write_text(baseline.text)
    assert (lint(request).findings, lint(request).known) == ((), len(before.findings))


def test_fixes_that_are_interrupted_say_which_files_have_theirs(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(session: Session, safeties: tuple[str, ...]) -> None:
        session.fixed["a.py"] = ["MEM101"]
        raise KeyboardInterrupt

    monkeypatch.setattr(Session, "fix", interrupted)
    with pytest.raises(FixInterruptedError, match=r"^interrupted; fixed: a\.py$") as caught:
        lint(LintRequest(fix=("safe",)))
    assert caught.value.exit_code == 130


def test_a_rule_is_found_by_its_code_and_by_its_name() -> None:
    assert list_rules("mem101") == list_rules("duplicate-next-obs")
    assert len(list_rules().rules) > 60
    with pytest.raises(UsageError, match="unknown rule"):
        list_rules("MEM999")
