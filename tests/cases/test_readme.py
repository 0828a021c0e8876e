"""What the README shows is what its commands print."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.truth, pytest.mark.long]
ROOT = Path(__file__).parents[2]
#: What the limit depends on where no option states it: the README's machine had 24 GB.
MACHINE = {"rlmem plan train.py": ["--ram", "23.5GiB"]}
NUMBER = r"\d[\d,.]*"


def shown() -> list[tuple[str, list[str]]]:
    """The commands of the README with output, and the lines of it that are shown."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    block = next(block for block in re.findall(r"^```\n(.*?)^```", text, re.M | re.S) if block.startswith("$ "))
    parts = [part.splitlines() for part in re.split(r"^\$ ", block, flags=re.M) if part]
    return [(command, [line for line in lines if line.strip() and line != "…"]) for command, *lines in parts]


def without_numbers(text: str) -> str:
    return re.sub(r"\s+", " ", re.sub(NUMBER, "0", text))


def numbers(text: str) -> list[float]:
    return [float(number.replace(",", "").rstrip(".")) for number in re.findall(NUMBER, text)]


@pytest.mark.parametrize(("command", "lines"), shown(), ids=lambda part: part if isinstance(part, str) else "")
def test_a_command_prints_what_the_readme_shows(command: str, lines: list[str], tmp_path: Path) -> None:
    shutil.copy(ROOT / "docs" / "examples" / "train.py", tmp_path)
    words = [sys.executable, "-m", *command.split(), *MACHINE.get(command, []), "--python", sys.executable]
    done = subprocess.run(
        words,
        cwd=tmp_path,
        env={**os.environ, "COLUMNS": "80"},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    printed = {without_numbers(line): line for line in done.stdout.splitlines()}
    assert len(lines) >= 6, done.stderr
    for line in lines:
        assert without_numbers(line) in printed, f"{line!r} is not in\n{done.stdout}"
        assert numbers(printed[without_numbers(line)]) == pytest.approx(numbers(line), rel=0.1)
