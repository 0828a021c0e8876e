"""Plain lines fit a terminal: parted at words, a number never apart from its unit, and nothing lost."""

from __future__ import annotations

import io
import os
import pty
import re
from itertools import pairwise

import pytest

from rlmem.report.lines import hanging, text_width

LEAK = (
    "leaking: total grows 1.39 GiB/min: leak suspected, OOM in 29 min (29 min–30 min), owner: `losses` (list, +1.0 k/min), "
    "peak 1,019 MiB, 92 % of the 1.86 GiB of --max-ram"
)


@pytest.mark.parametrize("width", range(30, 121, 7))
def test_no_line_is_wider_and_no_number_is_parted(width: int) -> None:
    lines = hanging("rlmem: ", LEAK, width).split("\n")
    assert max(map(len, lines)) <= width
    assert " ".join(line.strip() for line in lines) == f"rlmem: {LEAK}"
    assert all(line.startswith("       ") for line in lines[1:])
    assert not any(
        re.search(r"\d$", line) and re.match(r" *(?:GiB|MiB|min|k/min|%)", after) for line, after in pairwise(lines)
    )


def test_pipes_and_files_have_whole_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)
    assert text_width(io.StringIO()) is None
    assert hanging("rlmem: ", LEAK, None) == f"rlmem: {LEAK}"


def test_columns_win_and_a_terminal_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    assert text_width(io.StringIO()) == 80
    monkeypatch.delenv("COLUMNS")
    ours, theirs = pty.openpty()
    try:
        with os.fdopen(theirs, "w") as stream:
            os.set_blocking(ours, False)
            size = os.get_terminal_size(stream.fileno()).columns
            assert text_width(stream) == (size if size >= 20 else None)
    finally:
        os.close(ours)
