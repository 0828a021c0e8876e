"""Documents of version 0 are shown, whole or not at all; what is shown of them is a golden output."""

from __future__ import annotations

from pathlib import Path

import pytest

from golden.harness import call
from golden.written import FILES, WRITTEN


@pytest.mark.parametrize("file", FILES)
@pytest.mark.parametrize("cut", [0.1, 0.6])
def test_a_file_that_was_cut_short_is_refused_in_a_line(tmp_path: Path, file: str, cut: float) -> None:
    text = (WRITTEN / file).read_text(encoding="utf-8")
    (tmp_path / file).write_text(text[: int(cut * len(text))], encoding="utf-8")
    code, out, err = call(["show", str(tmp_path / file)])
    assert (code, out, err.count("\n")) == (2, "", 1)
