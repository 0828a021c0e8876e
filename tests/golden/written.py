"""Documents that version 0 wrote, as the files of ``written_by_0``, and what ``rlmem show`` makes of them."""

from __future__ import annotations

from pathlib import Path

from golden.harness import Case, command_case

WRITTEN = Path(__file__).parent / "written_by_0"
FILES = tuple(sorted(path.name for path in WRITTEN.glob("*.json")))


def _show(file: str) -> Case:
    content = (WRITTEN / file).read_bytes()
    return command_case(f"written_by_0/{file.removesuffix('.json')}.txt", ["show", file], {file: content})


CASES: tuple[Case, ...] = tuple(_show(file) for file in FILES)
