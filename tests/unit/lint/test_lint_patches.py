"""Patches: what git and patch make of them is what the text was changed to."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from rlmem.core.edits import diff


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("a = 1\nb = '\u2028'\nc = 3\n", "a = 1\nb = '\u2028'\nc = 4\n"),
        ("a = 1\n\f\nb = '\x1c\x85\v'\nc = 3\n", "a = 2\n\f\nb = '\x1c\x85\v'\nc = 3\n"),
        ("a = 1\r\nb = 2\r\n", "a = 1\r\nb = 3\r\n"),
        ("a = 1\rb = 2\rc = 3\r", "a = 1\rb = 4\rc = 3\r"),
        ("a = 1\r\nb = 2\rc = 3\n", "a = 2\r\nb = 2\rc = 3\n"),
        ("a = 1", "a = 2"),
        ("a = 1\n", "a = 1\n\nb = 2"),
    ],
)
def test_git_applies_a_patch_whatever_ends_the_lines(tmp_path: Path, before: str, after: str) -> None:
    path = tmp_path / "train.py"
    path.write_bytes(before.encode())
    _apply(tmp_path, diff("train.py", before, after))
    assert path.read_bytes() == after.encode()


def test_what_does_not_end_a_line_does_not_split_one_in_the_patch() -> None:
    patch = diff("t.py", "a = '\u2028'  # \f\nb = 1\n", "a = '\u2028'  # \f\nb = 2\n")
    assert patch.split("\n")[2:] == ["@@ -1,2 +1,2 @@", " a = '\u2028'  # \f", "-b = 1", "+b = 2", ""]


@pytest.mark.parametrize(
    ("path", "written"),
    [
        ("src/train.py", "a/src/train.py"),
        ("/home/me/train.py", "a/home/me/train.py"),
        ("é.py", "a/é.py"),
        ("my file.py", "a/my file.py\t"),
        ("a\nb.py", r'"a/a\nb.py"'),
        ('say "hi"\\.py', r'"a/say \"hi\"\\.py"'),
        ("é\x1b.py", r'"a/\303\251\033.py"'),
        ("bad\udcff.py", r'"a/bad\377.py"'),
    ],
)
def test_names_are_written_as_git_writes_them(tmp_path: Path, path: str, written: str) -> None:
    patch = diff(path, "x = 1\n", "x = 2\n")
    assert patch.split("\n")[0] == f"--- {written}"
    patch.encode("utf-8")
    place = Path(f"{tmp_path}/{path}")
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text("x = 1\n")
    except OSError:
        pytest.skip("this file system has no such names")
    _apply(tmp_path, patch)
    assert place.read_text() == "x = 2\n"


def _apply(folder: Path, patch: str) -> None:
    outside = {**os.environ, "GIT_CEILING_DIRECTORIES": str(folder.parent)}
    subprocess.run(["git", "apply", "-"], input=patch.encode(), cwd=folder, check=True, env=outside)
