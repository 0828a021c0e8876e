"""Write every golden file again: ``make golden``."""

from __future__ import annotations

import sys

from golden import ALL_CASES
from golden.harness import DATA, difference


def main(prefixes: list[str]) -> None:
    """Write the cases whose names begin with one of ``prefixes``, all of them without; remove files without a case."""
    names = {case.name for case in ALL_CASES}
    for path in DATA.rglob("*"):
        if path.is_file() and path.relative_to(DATA).as_posix() not in names:
            path.unlink()
    for case in ALL_CASES:
        if (not prefixes or case.name.startswith(tuple(prefixes))) and (not case.path.exists() or difference(case)):
            case.path.parent.mkdir(parents=True, exist_ok=True)
            case.path.write_text(case.text(), encoding="utf-8")
            print(f"wrote {case.name}")


if __name__ == "__main__":
    main(sys.argv[1:])
