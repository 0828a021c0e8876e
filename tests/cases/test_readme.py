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
    """The commands of the README with output, and the parts of it that are shown."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    block = next(block for block in re.findall(r"^```\n(.*?)^```", text, re.M | re.S) if block.startswith("$ "))
    commands = [part.partition("\n") for part in re.split(r"^\$ ", block, flags=re.M) if part]
    return [(command, [part for part in output.split("…\n") if part.strip()]) for command, _, output in commands]


def without_numbers(word: str) -> str:
    return re.sub(NUMBER, "0", word)


def numbers(words: list[str]) -> list[float]:
    return [float(number.replace(",", "").rstrip(".")) for word in words for number in re.findall(NUMBER, word)]


def place_of(part: list[str], printed: list[str]) -> list[str]:
    """The words of the output that are those of a part but for their numbers; lines may be parted elsewhere."""
    wanted, found = list(map(without_numbers, part)), list(map(without_numbers, printed))
    places = [place for place in range(len(found)) if found[place : place + len(wanted)] == wanted]
    assert places, f"{' '.join(part)!r} is not in {' '.join(printed)!r}"
    return printed[places[0] : places[0] + len(wanted)]


@pytest.mark.parametrize(("command", "parts"), shown(), ids=lambda part: part if isinstance(part, str) else "")
def test_a_command_prints_what_the_readme_shows(command: str, parts: list[str], tmp_path: Path) -> None:
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
    assert parts, done.stderr
    for part in parts:
        found = place_of(part.split(), done.stdout.split())
        assert numbers(found) == pytest.approx(numbers(part.split()), rel=0.1)
