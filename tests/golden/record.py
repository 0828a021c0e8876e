"""Run the children of golden cases for real, and keep what they answer: ``make golden-facts``."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from unittest import mock

from golden import children, dryruns

#: The environment that has Ray: ``make ray`` makes it.
RAY = Path(__file__).parents[2] / ".venv" / "ray"


def main(names: list[str]) -> None:
    """Record the facts of the targets called ``names`` anew, of all targets without."""
    children.RECORDS = True
    begun = set()
    for case in dryruns.CASES:
        _, name, _ = case.name.split("/")
        if names and name not in names:
            continue
        if name not in begun:
            begun.add(name)
            (children.FACTS / f"{name}.json").unlink(missing_ok=True)
            print(f"recording {name}", flush=True)
        with mock.patch.dict(os.environ, {"VIRTUAL_ENV": str(RAY)} if name == "rllib" else {}):
            case.make()


if __name__ == "__main__":
    main(sys.argv[1:])
