"""What TAB offers, asked of click and tried in real shells."""

from __future__ import annotations

import os
import pty
import select
import shutil
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import ClassVar

import click
import pytest
from click.shell_completion import ShellComplete

from rlmem.cli import app
from rlmem.runner.store import open_store


def offered(*words: str) -> list[tuple[str, str]]:
    """Type and value of each answer for the last word."""
    *before, last = words
    found = ShellComplete(app, {}, "rlmem", "_RLMEM_COMPLETE").get_completions(before, last)
    return [(item.type, item.value) for item in found]


def names(*words: str) -> list[str]:
    return [value for kind, value in offered(*words) if kind == "plain"]


FILES = [
    ("plan", "tr"),
    ("plan", ""),
    ("fit", "tr"),
    ("measure", "tr"),
    ("lint", "tr"),
    ("show", "pl"),
    ("assess", "tr"),
    ("plan", "train.py", "--", "--config", "ca"),
    ("plan", "train.py", "--html", "re"),
    ("plan", "train.py", "--python", "~/envs/tr"),
    ("run", "--max-ram", "8GB", "--", "python", "tr"),
]


@pytest.mark.parametrize("words", FILES, ids=" ".join)
def test_files_are_always_offered(words: tuple[str, ...]) -> None:
    assert ("file", words[-1]) in offered(*words)


def test_presets_are_offered_beside_files() -> None:
    assert names("plan", "pidog") == ["pidog-sac", "pidog-td3", "pidog-sac-vector"]
    assert names("compare", "pidog-sac", "crypto") == ["crypto-ppo"]
    assert names("presets", "--show", "drone-swarm-") == ["drone-swarm-v0"]


def test_machines_are_offered_in_lists_too() -> None:
    assert names("plan", "pidog-sac", "--machine", "rtx-409") == ["rtx-4090"]
    assert names("capacity", "pidog-sac", "--machines", "8GB,rtx-409") == ["8GB,rtx-4090"]


def test_rules_are_offered_by_code() -> None:
    assert names("rule", "mem10")[:2] == ["MEM101", "MEM102"]
    assert names("lint", "--select", "MEM101,MEM802") == ["MEM101,MEM802"]


def test_stored_runs_are_offered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RLMEM_DATA_DIR", str(tmp_path))
    assert names("show", "") == []
    with open_store(write=True) as store:
        run = store.begin("plan", "train.py", command=("rlmem", "plan"), document={})
    for words in (("show", run.id[:2]), ("compare", run.id[:2]), ("runs", "--delete", run.id[:2]), ("assess", "")):
        assert run.id in names(*words), words
    (tmp_path / "rlmem.sqlite").write_bytes(b"no database")
    assert names("show", "") in ([], [run.id])


def test_every_argument_that_takes_words_offers_something() -> None:
    context = click.Context(app)
    for name in app.list_commands(context):
        command = app.get_command(context, name)
        assert command is not None
        for parameter in command.params:
            if isinstance(parameter, click.Argument) and parameter.name not in ("pid", "pids", "env"):
                assert offered(name, *(["train.py"] if parameter.name in ("args", "right") else []), ""), name


class Shell:
    """A shell in a terminal of its own, which prints the words that a completed line has."""

    START: ClassVar = {
        "bash": ["bash", "--norc", "--noprofile", "-i"],
        "zsh": ["zsh", "-f", "-i"],
        "fish": ["fish", "--no-config", "-i"],
    }
    PREPARE: ClassVar = {
        "bash": "rlmem() { printf '<%s>' \"$@\" END; }",
        "zsh": "autoload -U compinit && compinit -u -D; rlmem() { printf '<%s>' \"$@\" END; }",
        "fish": "function rlmem; printf '<%s>' $argv END; end",
    }
    LOAD: ClassVar = {
        "bash": 'eval "$(_RLMEM_COMPLETE=bash_source command rlmem)"',
        "zsh": 'eval "$(_RLMEM_COMPLETE=zsh_source command rlmem)"',
        "fish": "_RLMEM_COMPLETE=fish_source command rlmem | source",
    }

    def __init__(self, name: str, folder: Path) -> None:
        self.seen = b""
        path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        environment = {"PATH": path, "HOME": str(folder), "TERM": "dumb", "PS1": "$ ", "RLMEM_DATA_DIR": str(folder)}
        self.pid, self.terminal = pty.fork()
        if self.pid == 0:
            os.chdir(folder)
            os.execvpe(self.START[name][0], self.START[name], environment)
        for line in (self.PREPARE[name], self.LOAD[name], "rlmem is ready"):
            self.type(f"{line}\r")
        self.until(b"<ready><END>")

    def type(self, text: str) -> None:
        os.write(self.terminal, text.encode())

    def until(self, wanted: bytes, seconds: float = 60.0) -> None:
        """Read until something is shown."""
        end = time.monotonic() + seconds
        while wanted not in self.seen:
            ready, _, _ = select.select([self.terminal], [], [], max(0.0, end - time.monotonic()))
            assert ready, f"{wanted!r} was not shown: {self.seen!r}"
            self.seen += os.read(self.terminal, 65536)

    def completed(self, line: str) -> list[str]:
        """The words of a line after TAB and Enter."""
        self.seen = b""
        self.type(f"{line}\t\r")
        self.until(b"<END>")
        shown = self.seen[: self.seen.index(b"<END>")].decode()
        return shown[shown.index("<") + 1 :].rstrip(">").split("><")

    def close(self) -> None:
        os.close(self.terminal)
        os.waitpid(self.pid, 0)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in ("train.py", "with space.py", "pidog-notes.txt", "zoo/agents.py"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    return tmp_path


@pytest.fixture(params=["bash", "zsh", "fish"])
def shell(request: pytest.FixtureRequest, folder: Path) -> Iterator[Shell]:
    if shutil.which(request.param) is None:
        pytest.skip(f"no {request.param} here")
    found = Shell(request.param, folder)
    yield found
    found.close()


def test_a_real_shell_completes_files_and_names(shell: Shell) -> None:
    for line, words in {
        "rlmem plan tr": ["plan", "train.py"],
        "rlmem plan zo": ["plan", "zoo"],
        "rlmem plan zoo/ag": ["plan", "zoo/agents.py"],
        "rlmem plan wi": ["plan", "with space.py"],
        "rlmem plan ~/tr": ["plan", f"{shell_home(shell)}/train.py"],
        "rlmem plan pidog-t": ["plan", "pidog-td3"],
        "rlmem plan pidog-n": ["plan", "pidog-notes.txt"],
        "rlmem plan train.py -- --config pidog-n": ["plan", "train.py", "--", "--config", "pidog-notes.txt"],
        "rlmem run -- python tr": ["run", "--", "python", "train.py"],
        "rlmem plan pidog-sac --machine rtx-409": ["plan", "pidog-sac", "--machine", "rtx-4090"],
        "rlmem capacity pidog-sac --machines 8GB,rtx-409": ["capacity", "pidog-sac", "--machines", "8GB,rtx-4090"],
        "rlmem rule MEM90": ["rule", "MEM901"],
        "rlmem presets --sh": ["presets", "--show"],
        "rlmem max-b": ["max-buffer"],
    }.items():
        assert [word.rstrip("/") for word in shell.completed(line)] == words, line


def shell_home(shell: Shell) -> str:
    return os.readlink(f"/proc/{shell.pid}/cwd")
