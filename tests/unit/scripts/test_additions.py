"""The line that adds to a container is found by the container's last word."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from rlmem.process.sources import added_at, script_of
from rlmem.scripts.additions import find_additions

SOURCE = """
losses, table, seen = [], {}, set()
class Agent:
    def learn(self, loss):
        self.log.append(loss)
        self.history['loss'].append(loss)
        self.history['reward'].append(0.0)
        self.history[self.key] += [loss]
for step in range(9):
    table[step] = step
    losses += [step]
    seen.add(step)
    row = losses[step]
"""


@pytest.mark.parametrize(
    ("path", "kind", "lines"),
    [
        ("agent.log", "list", [5]),
        ("agent.history['loss']", "list", [6, 8]),
        ("agent.history", "dict", [6, 7, 8]),
        ("losses", "list", [11]),
        ("table", "dict", [10]),
        ("table", "list", []),
        ("seen", "set", [12]),
        ("nowhere", "list", []),
        ("(small objects)", "", []),
    ],
)
def test_additions_are_found_by_the_last_word(path: str, kind: str, lines: list[int]) -> None:
    assert [each.line for each in find_additions(SOURCE, path, kind)] == lines


def test_a_text_that_is_no_python_adds_nothing() -> None:
    assert find_additions("print 'x'", "x") == ()


def test_one_line_is_said_with_its_text_and_several_with_their_numbers(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text(SOURCE)
    (tmp_path / "helper.py").write_text("def keep(cache, item):\n    cache.push(item)\n")
    assert added_at(script, "agent.log", "list") == "train.py:5: self.log.append(loss)"
    assert added_at(script, "agent.history['loss']", "list") == "train.py, lines 6, 8"
    assert added_at(script, "memory.cache", "deque") == "helper.py:2: cache.push(item)"
    assert added_at(None, "losses", "list") == ""


def test_the_script_of_a_process_is_found_from_where_it_was_started(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("print('ready', flush=True); input()")
    child = subprocess.Popen(
        [sys.executable, "train.py"], cwd=tmp_path, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    try:
        assert child.stdout is not None
        child.stdout.readline()
        assert script_of(child.pid) == tmp_path / "train.py"
    finally:
        child.kill()
        child.communicate()
    assert script_of(os.getpid()) is None or script_of(os.getpid()) != tmp_path / "train.py"
