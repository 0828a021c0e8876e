"""Which files are linted, and what is said about those that cannot be."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from rlmem.lint.files import Problem, discover
from rlmem.lint.globs import matches
from rlmem.lint.reading import LARGEST, Unreadable, decode, read_file


def found(folder: Path, *named: str, exclude: tuple[str, ...] = ()) -> tuple[list[str], list[Problem]]:
    problems: list[Problem] = []
    files = discover([folder / name for name in named or (".",)], exclude, folder, problems.append)
    return [file.relative_to(folder).as_posix() for file in files], problems


def touch(folder: Path, *names: str) -> None:
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text("x = 1\n")


def test_a_folder_gives_scripts_and_notebooks_in_a_stable_order(tmp_path: Path) -> None:
    touch(tmp_path, "b.py", "a/train.ipynb", "a/env.py", "notes.txt", "c.pyc")
    assert found(tmp_path) == (["a/env.py", "a/train.ipynb", "b.py"], [])


def test_folders_of_others_are_left_out_unless_they_are_named(tmp_path: Path) -> None:
    names = (".git/x.py", ".venv/x.py", "venv/x.py", "node_modules/x.py", "__pycache__/x.py", "build/x.py", "dist/x.py")
    touch(tmp_path, *names, "lib/site-packages/x.py", "mine/pyvenv.cfg", "mine/x.py", "train.py")
    assert found(tmp_path) == (["train.py"], [])
    assert found(tmp_path, "build") == (["build/x.py"], [])


def test_excluded_patterns_hold_for_what_is_named_too(tmp_path: Path) -> None:
    touch(tmp_path, "old/train.py", "src/gen_1.py", "src/train.py")
    assert found(tmp_path, exclude=("old", "src/gen_*.py")) == (["src/train.py"], [])
    assert found(tmp_path, "old/train.py", exclude=("old",)) == ([], [])


def test_a_file_that_is_named_twice_is_linted_once(tmp_path: Path) -> None:
    touch(tmp_path, "src/train.py")
    assert found(tmp_path, "src/train.py", "src", ".")[0] == ["src/train.py"]


def test_a_loop_of_links_is_named_and_the_rest_is_found(tmp_path: Path) -> None:
    touch(tmp_path, "src/train.py")
    (tmp_path / "src" / "loop").symlink_to("..")
    (tmp_path / "self.py").symlink_to("self.py")
    files, problems = found(tmp_path)
    assert files == ["src/train.py"]
    assert [Path(problem.path).name for problem in problems] == ["self.py", "loop"]
    assert not any(problem.failed for problem in problems)


def test_a_link_to_another_folder_is_not_followed(tmp_path: Path) -> None:
    touch(tmp_path, "here/train.py", "there/other.py")
    (tmp_path / "here" / "link").symlink_to(tmp_path / "there")
    assert found(tmp_path, "here") == (["here/train.py"], [])


def test_what_does_not_exist_is_named_and_the_rest_is_found(tmp_path: Path) -> None:
    touch(tmp_path, "train.py", "notes.txt")
    files, problems = found(tmp_path, "nowhere", "train.py", "notes.txt")
    assert files == ["train.py"]
    assert [problem.text for problem in problems] == [
        "no such file or directory",
        "neither Python (.py) nor a notebook (.ipynb)",
    ]


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads everything")
def test_a_folder_that_cannot_be_read_is_named_and_the_rest_is_found(tmp_path: Path) -> None:
    touch(tmp_path, "closed/a.py", "train.py")
    (tmp_path / "closed").chmod(0)
    try:
        files, problems = found(tmp_path)
    finally:
        (tmp_path / "closed").chmod(0o755)
    assert files == ["train.py"]
    assert [problem.text for problem in problems] == ["permission denied"]


def test_a_script_without_a_suffix_is_known_by_its_first_line(tmp_path: Path) -> None:
    (tmp_path / "train").write_text("#!/usr/bin/env python3\nx = 1\n")
    assert found(tmp_path, "train") == (["train"], [])


@pytest.mark.parametrize(
    ("path", "pattern", "expected"),
    [
        ("src/a/train.py", "src/**", True),
        ("src/train.py", "src/**/*.py", True),
        ("src/train.py", "./src/", True),
        ("src/train.py", "rc", False),
        ("train_3.py", "train_[0-9].py", True),
        ("train_x.py", "train_[!0-9].py", True),
        ("a+b.py", "a+b.py", True),
        ("aab.py", "a+b.py", False),
        ("x/[z-a].py", "[z-a].py", True),
    ],
)
def test_patterns_know_folders_stars_and_sets(path: str, pattern: str, expected: bool) -> None:
    assert matches(path, [pattern]) is expected


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b"# coding: latin-1\nx = '\xe9'\n", "é"),
        (b"\xef\xbb\xbfx = '\xc3\xa9'\r\n", "é"),
        ("x = 'é'\n".encode(), "é"),
    ],
)
def test_a_file_is_read_in_the_encoding_it_declares_and_written_back_byte_for_byte(data: bytes, text: str) -> None:
    read = decode(data)
    assert text in read.text
    assert not read.text.startswith("\ufeff")
    assert read.encoded(read.text) == data


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"x = 1\ny = '\xe9'\n", "line 2 is not UTF-8"),
        (b"y = '\xe9'\n", "invalid or missing encoding declaration"),
        (b"# coding: klingon\n", "unknown encoding: klingon"),
        (b"# coding: rot13\n", "not a text encoding"),
        (b"x = 1\0\n", "contains null bytes"),
        ("x = 1".encode("utf-16"), "written in UTF-16"),
    ],
)
def test_what_is_no_text_is_refused_with_the_reason(data: bytes, reason: str) -> None:
    with pytest.raises(Unreadable, match=reason):
        decode(data)


def test_a_file_written_by_a_program_is_skipped_by_its_size(tmp_path: Path) -> None:
    (tmp_path / "tables.py").write_bytes(b"x = 1\n" * (LARGEST // 6 + 1))
    with pytest.raises(Unreadable, match=r"2\.00 MiB of a file written by hand") as caught:
        read_file(tmp_path / "tables.py")
    assert caught.value.policy


def test_a_pipe_with_the_name_of_a_script_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "train.py")
    with pytest.raises(Unreadable, match="not a regular file"):
        read_file(tmp_path / "train.py")


def test_a_pipe_that_is_named_is_not_opened(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    files, problems = found(tmp_path, "pipe")
    assert (files, [problem.text for problem in problems]) == ([], ["not a regular file"])


def test_folders_may_be_deeper_than_python_may_call(tmp_path: Path) -> None:
    depth = sys.getrecursionlimit() + 100
    here = os.open(tmp_path, os.O_RDONLY)
    for _ in range(depth):
        os.mkdir("d", dir_fd=here)
        below = os.open("d", os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = below
    os.close(os.open("deep.py", os.O_CREAT | os.O_WRONLY, dir_fd=here))
    os.close(here)
    touch(tmp_path, "e.py")
    try:
        assert found(tmp_path) == (["d/" * depth + "deep.py", "e.py"], [])
    finally:
        _remove_chain(tmp_path, depth)


def _remove_chain(folder: Path, depth: int) -> None:
    """What removes folders may call itself for every one of them, as pytest's cleaning does."""
    bottom = os.path.join(folder, *("d" for _ in range(depth)))
    os.unlink(os.path.join(bottom, "deep.py"))
    for _ in range(depth):
        os.rmdir(bottom)
        bottom = os.path.dirname(bottom)
