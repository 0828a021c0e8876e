"""The results file: rows of several runs, each with its date, and the machine they were measured on."""

from __future__ import annotations

import datetime
import importlib.metadata
import json
import os
import platform
from pathlib import Path
from typing import Any

from rlmem.version import __version__

SCHEMA = "rlmem.bench-buffers/1"
PACKAGES = ("stable-baselines3", "sb3-extra-buffers", "cpprb", "torchrl", "tensordict", "tianshou", "torch",
            "numpy", "numba", "zstandard", "zstd", "lz4", "isal", "gymnasium", "ale-py", "mujoco")  # fmt: skip


def machine() -> dict[str, Any]:
    """Where this runs."""
    names = [
        line.partition(":")[2].strip()
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
        if line.startswith("model name")
    ]
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return {
        "cpu": names[0] if names else platform.machine(),
        "cores": len(os.sched_getaffinity(0)),
        "ram_bytes": memory,
        "system": f"{platform.system()} {platform.release()}",
        "python": platform.python_version(),
    }


def versions() -> dict[str, str]:
    """Of everything measured that is installed."""
    found = {"rlmem": __version__}
    for name in PACKAGES:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found


class Results:
    """Rows by workload and store; written after every row, so that nothing finished is lost."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.data: dict[str, Any] = {"schema": SCHEMA, "rows": []}
        if path.exists():
            data = json.loads(path.read_text(encoding="utf-8"))
            if data.get("schema") != SCHEMA:
                raise SystemExit(
                    f"{path} is not a results file of this benchmark; move it, or name another with --json"
                )
            self.data = data

    @property
    def rows(self) -> list[dict[str, Any]]:
        """All of them."""
        rows: list[dict[str, Any]] = self.data["rows"]
        return rows

    def of(self, workload: str) -> list[dict[str, Any]]:
        """One table."""
        return [row for row in self.rows if row["workload"] == workload]

    def put(self, row: dict[str, Any]) -> None:
        """A row in the place of an older one, and everything to the file."""
        row = row | {"date": datetime.datetime.now(datetime.timezone.utc).date().isoformat()}
        same = [
            n
            for n, each in enumerate(self.rows)
            if (each["workload"], each["store"]) == (row["workload"], row["store"])
        ]
        if same:
            self.rows[same[0]] = row
        else:
            self.rows.append(row)
        self.data |= {"date": row["date"], "machine": machine(), "versions": versions()}
        self.path.parent.mkdir(parents=True, exist_ok=True)
        partial = self.path.with_name(self.path.name + ".partial")
        partial.write_text(json.dumps(self.data, indent=1) + "\n", encoding="utf-8")
        partial.replace(self.path)
