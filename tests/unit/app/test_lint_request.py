"""Linting by a typed request."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from rlmem.app.lint import FixInterruptedError, LintRequest, lint
from rlmem.app.rules import list_rules
from rlmem.documents.lint import LintDocument, NewBaselinePart, PatchesPart
from rlmem.errors import UsageError
from rlmem.lint.session import Session
from rlmem.report.lint_formats import render_baseline

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


def found(request: LintRequest) -> LintDocument:
    document = lint(request)
    assert isinstance(document, LintDocument)
    return document


@pytest.mark.parametrize(
    ("request_of", "problem"),
    [
        (lambda: LintRequest(unsafe_fixes=True), "--unsafe-fixes goes with --fix"),
        (lambda: LintRequest(write_baseline=True, diff=True), "--write-baseline writes what is found"),
        (lambda: LintRequest(paths=("-", "a.py")), "'-' stands alone"),
        (lambda: LintRequest(paths=("-",), fix=True), "'-' is no file that could be fixed"),
        (lambda: LintRequest(select=(" ,",)), "--select: names no rule"),
    ],
)
def test_a_request_that_contradicts_itself_is_refused(request_of: Callable[[], LintRequest], problem: str) -> None:
    with pytest.raises(UsageError, match=problem):
        request_of()


def test_the_current_folder_is_linted_and_every_file_is_told(folder: Path) -> None:
    ticks: list[tuple[int, int]] = []
    told: list[object] = []
    document = lint(LintRequest(), tell=told.append, tick=lambda done, total: ticks.append((done, total)))
    assert isinstance(document, LintDocument)
    assert (document.files, document.failed) == (1, True)
    assert {finding.path for finding in document.findings} == {"train.py"}
    assert ticks == [(1, 2), (2, 2)]
    assert [str(text).split(":")[0] for text in told] == ["bad.py"]


def test_bytes_stand_for_a_file_that_need_not_be_there(folder: Path) -> None:
    document = found(LintRequest(paths=("-",), stdin=SCRIPT.encode, stdin_filename="else.py"))
    assert {finding.path for finding in document.findings} == {"else.py"}


def test_patches_write_nothing(folder: Path) -> None:
    patches = lint(LintRequest(paths=("train.py",), diff=True))
    assert isinstance(patches, PatchesPart)
    assert any("+++ b/train.py" in text for text in patches.texts)
    assert (folder / "train.py").read_text() == SCRIPT


def test_a_baseline_knows_what_was_found(folder: Path) -> None:
    paths, file = ("train.py",), Path("known.json")
    before = found(LintRequest(paths=paths))
    new = lint(LintRequest(paths=paths, baseline=file, write_baseline=True))
    assert isinstance(new, NewBaselinePart)
    assert (len(new.baseline.findings), new.failed) == (len(before.findings), False)
    Path(new.path).write_text(render_baseline(new.baseline))
    after = found(LintRequest(paths=paths, baseline=file))
    assert (after.findings, after.known) == ((), len(before.findings))


def test_fixes_that_are_interrupted_say_which_files_have_theirs(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(session: Session, safeties: tuple[str, ...]) -> None:
        session.fixed["a.py"] = ["MEM101"]
        raise KeyboardInterrupt

    monkeypatch.setattr(Session, "fix", interrupted)
    with pytest.raises(FixInterruptedError, match=r"^interrupted; fixed: a\.py$") as caught:
        lint(LintRequest(fix=True))
    assert caught.value.exit_code == 130


def test_a_rule_is_found_by_its_code_and_by_its_name() -> None:
    assert list_rules("mem101") == list_rules("duplicate-next-obs")
    assert len(list_rules().rules) > 60
    with pytest.raises(UsageError, match="unknown rule"):
        list_rules("MEM999")
