"""Changes that nobody has written yet are run in copies; the user's own files stay as they are."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from rlmem.core.edits import Edit
from rlmem.errors import AnalysisError
from rlmem.lint.reading import read_file
from rlmem.trace.drafts import Draft, as_diff, tried
from rlmem.trace.target import RunnableTarget

SCRIPT = """\
import pathlib
from sizes import ROWS
from lib.deep import LAYERS
here = pathlib.Path(__file__).resolve().parent
print(ROWS, LAYERS, (here / "run.yaml").read_text().strip(), pathlib.Path("run.yaml").read_text().strip())
"""
FILES = {"train.py": SCRIPT, "sizes.py": "ROWS = 100\n", "lib/deep.py": "LAYERS = 3\n", "run.yaml": "keep: 7\n"}


@pytest.fixture
def target(tmp_path: Path) -> RunnableTarget:
    for name, text in FILES.items():
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    subprocess.run([sys.executable, "train.py"], cwd=tmp_path, check=True, stdout=subprocess.PIPE)  # compiled modules
    return RunnableTarget(
        kind="script",
        text=str(tmp_path / "train.py"),
        args=(),
        python=sys.executable,
        python_source="",
        folder=tmp_path,
    )


def edited(target: RunnableTarget, **changes: tuple[str, str]) -> Draft:
    draft = Draft()
    for name, (old, new) in changes.items():
        path = target.folder / name.replace("__", "/").replace("_", ".")
        text = read_file(path)
        start = text.text.index(old)
        draft = draft.and_edits(path, text, (Edit(start=start, end=start + len(old), text=new),))
    return draft


def said(target: RunnableTarget) -> str:
    done = subprocess.run(
        [target.python, target.text, *target.args], cwd=target.folder, check=True, text=True, stdout=subprocess.PIPE
    )
    return done.stdout.strip()


def test_files_beside_the_script_are_changed_in_copies(target: RunnableTarget) -> None:
    draft = edited(
        target, sizes_py=("100", "999"), lib__deep_py=("3", "5"), run_yaml=("7", "8"), train_py=("ROWS, L", "-ROWS, L")
    )
    with tried(draft, target) as copy:
        assert said(copy) == "-999 5 keep: 8 keep: 8"
        assert copy.folder != target.folder
    assert not copy.folder.exists()
    assert {name: (target.folder / name).read_text() for name in FILES} == FILES


def test_the_diff_of_several_files_is_taken_by_git(target: RunnableTarget) -> None:
    draft = edited(target, sizes_py=("100", "999"), lib__deep_py=("3", "5"), run_yaml=("7", "8"))
    patch = as_diff(draft, target.folder).text
    subprocess.run(["git", "apply"], cwd=target.folder, input=patch, text=True, check=True)
    assert said(target) == "999 5 keep: 8 keep: 8"


def test_other_arguments_alone_need_no_copy(target: RunnableTarget) -> None:
    with tried(Draft(args=("--rows", "5")), target) as copy:
        assert (copy.text, copy.args) == (target.text, ("--rows", "5"))


def test_an_edit_that_breaks_a_script_is_not_shown(target: RunnableTarget) -> None:
    with pytest.raises(AnalysisError, match="does not parse"):
        as_diff(edited(target, sizes_py=("100", "10 0")), target.folder)
