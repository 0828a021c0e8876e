"""Targets that are run: what they are, and with which interpreter."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from rlmem.app.subjects import constants_for
from rlmem.errors import UsageError
from rlmem.process.interpreters import find_python, named_python
from rlmem.sources.target import parse_target
from rlmem.trace.target import find_runnable


@pytest.mark.parametrize("text", ["zoo:", "zoo:sac", "zoo:/Pendulum-v1", "zoo:sac/"])
def test_a_zoo_entry_needs_both_parts(text: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="zoo:ALGO/ENV"):
        find_runnable(parse_target(text), folder=tmp_path)


def test_a_missing_script_is_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"nö\.py: no such file"):
        find_runnable(parse_target("nö.py"), folder=tmp_path)
    (tmp_path / "folder.py").mkdir()
    with pytest.raises(UsageError, match="not a file"):
        find_runnable(parse_target(str(tmp_path / "folder.py")), folder=tmp_path)


def test_an_interpreter_that_is_not_there_is_a_usage_error(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no such interpreter"):
        find_python(None, tmp_path, str(tmp_path / "python"), {})


def venv(folder: Path) -> Path:
    (folder / "bin").mkdir(parents=True)
    (folder / "pyvenv.cfg").write_text("home = /usr/bin\n")
    os.symlink(sys.executable, folder / "bin" / "python")
    return folder / "bin" / "python"


def test_the_virtual_environment_beside_the_script_is_found_up_to_the_repository(tmp_path: Path) -> None:
    deep = tmp_path / "project" / "src" / "train"
    deep.mkdir(parents=True)
    expected = venv(tmp_path / "project" / ".venv")
    script = deep / "train.py"
    script.write_text("")
    found, source = find_python(script, deep, None, {})
    assert found == str(expected)
    assert ".venv" in source
    (tmp_path / "project" / "src" / ".git").mkdir()  # another repository begins below it
    assert find_python(script, deep, None, {})[0] == sys.executable


def test_a_shebang_with_a_path_comes_before_the_virtual_environment(tmp_path: Path) -> None:
    venv(tmp_path / ".venv")
    other = venv(tmp_path / "elsewhere")
    script = tmp_path / "train.py"
    script.write_text(f"#!{other}\nprint()\n")
    assert find_python(script, tmp_path, None, {})[0] == str(other)
    script.write_text("#!/usr/bin/env python3\nprint()\n")
    assert "elsewhere" not in find_python(script, tmp_path, None, {})[0]


def test_an_active_environment_is_used_when_nothing_is_beside_the_script(tmp_path: Path) -> None:
    active = venv(tmp_path / "active")
    (tmp_path / "work").mkdir()
    found, source = find_python(None, tmp_path / "work", None, {"VIRTUAL_ENV": str(tmp_path / "active")})
    assert (found, source) == (str(active), "$VIRTUAL_ENV")


def test_a_zoo_entry_is_run_by_the_zoo_itself(tmp_path: Path) -> None:
    target = find_runnable(parse_target("zoo:ppo/CartPole-v1", ("--seed", "1"), python=sys.executable), folder=tmp_path)
    job = target.job(tmp_path / "scratch")
    assert job["name"] == "rl_zoo3.train"
    assert job["args"][:4] == ["--algo", "ppo", "--env", "CartPole-v1"]
    assert job["args"][-2:] == ["--seed", "1"]


@pytest.mark.parametrize(("version", "is_old"), [("2.7", True), ("3.7", True), ("3.8", False), ("3.14", False)])
def test_an_interpreter_that_is_too_old_is_refused(version: str, is_old: bool, tmp_path: Path) -> None:
    python = tmp_path / "python"
    python.write_text(f"#!/bin/sh\necho {version}\n")
    python.chmod(0o755)
    if not is_old:
        assert find_python(None, tmp_path, str(python), {}) == (str(python), "--python")
        return
    with pytest.raises(UsageError, match=f"is Python {version}: a run needs Python 3.8 or newer"):
        find_python(None, tmp_path, str(python), {})


def test_an_interpreter_below_the_home_folder_is_found_by_every_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "python").symlink_to(sys.executable)
    monkeypatch.setenv("HOME", str(tmp_path))
    assert named_python("~/python") == find_python(None, tmp_path, "~/python", {})[0] == str(tmp_path / "python")
    assert constants_for("~/python") == constants_for(None)
    with pytest.raises(UsageError, match="--python ~/nothing: no such interpreter"):
        named_python("~/nothing")
