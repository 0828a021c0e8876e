"""What is said while a dry run is under way, in a terminal and elsewhere."""

from __future__ import annotations

import io
import sys
from pathlib import Path

import pytest

from rlmem.report.progress import spinner
from rlmem.sources.target import parse_target
from rlmem.trace.dryrun import dry_run
from rlmem.trace.target import find_runnable

LOOP = """
import time
import gymnasium as gym
env = gym.make("CartPole-v1")
env.reset()
for step in range(60):
    env.step(0)
    time.sleep(0.02)
"""


class Terminal(io.StringIO):
    """Text that is shown to somebody."""

    def isatty(self) -> bool:
        """It is."""
        return True


def test_a_terminal_is_told_the_phase_and_left_as_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    stream = Terminal()
    with spinner("dry run of train.py", stream) as tick:
        tick.phase("stepping (3 of 64)")
        tick(None)
    shown = stream.getvalue()
    assert "dry run of train.py: stepping (3 of 64)" in shown
    after = shown[shown.rindex("stepping (3 of 64)") :]
    assert "\x1b[2K" in after, "the line is taken away again"
    assert "\x1b[?25h" in after, "and the cursor is back"


def test_an_interrupt_leaves_nothing_either(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    stream = Terminal()
    with pytest.raises(KeyboardInterrupt), spinner("dry run of train.py", stream) as tick:
        tick.phase("importing")
        raise KeyboardInterrupt
    assert "\x1b[2K" in stream.getvalue()[stream.getvalue().rindex("importing") :]


def test_no_color_takes_the_colours_away(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("NO_COLOR", "1")
    stream = Terminal()
    with spinner("dry run of train.py", stream) as tick:
        tick.phase("importing")
    assert "\x1b[3" not in stream.getvalue()


def test_a_pipe_gets_one_line() -> None:
    stream = io.StringIO()
    with spinner("dry run of train.py", stream) as tick:
        tick.phase("importing")
        tick(None)
    assert stream.getvalue() == "dry run of train.py …\n"


def test_a_dry_run_tells_its_phases_in_order(tmp_path: Path) -> None:
    pytest.importorskip("gymnasium")
    script = tmp_path / "train.py"
    script.write_text(LOOP)
    said: list[str] = []
    dry_run(find_runnable(parse_target(str(script), (), python=sys.executable)), time_s=10.0, on_phase=said.append)
    phases = list(dict.fromkeys(text.split(" (")[0] for text in said))
    assert phases[0] == "starting"
    assert [name for name in phases if name in ("importing", "stepping")] == ["importing", "stepping"]
    assert any(text.startswith("stepping (") and "steps)" in text for text in said)
