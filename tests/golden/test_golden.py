"""What rlmem prints is what it printed; ``make golden`` writes the files again when a change is meant."""

from __future__ import annotations

import pytest

from golden import ALL_CASES
from golden.harness import DATA, Case, difference


@pytest.mark.parametrize("case", ALL_CASES, ids=lambda case: case.name)
def test_output_is_as_it_was(case: Case) -> None:
    found = difference(case)
    assert not found, f"{case.name} changed; if it is meant: make golden, and say why in the commit\n{found}"


def test_every_kept_file_has_a_case() -> None:
    kept = {path.relative_to(DATA).as_posix() for path in DATA.rglob("*") if path.is_file()}
    assert kept == {case.name for case in ALL_CASES}
