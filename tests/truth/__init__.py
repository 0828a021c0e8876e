"""How tests run the real thing: the programs of the package, one case in a fresh process."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Any

from rlmem.core.ledger import Ledger
from rlmem.core.spec import RunSpec
from rlmem.frameworks import predict, resolve
from rlmem.model.constants import Constants
from rlmem.programs.cases import FOLDER, elegantrl_case, sb3_case, swarm_case

__all__ = ["PINNED", "elegantrl_case", "predicted", "run_truth", "sb3_case", "swarm_case"]
#: Blocks of 128 KiB and more are mapped, so that they are returned when freed: exact arithmetic can be checked to the
#: percent, and glibc's own habits are tested apart.
PINNED = {"MALLOC_MMAP_THRESHOLD_": "131072"}


def run_truth(
    script: str, case: dict[str, Any], *, env: dict[str, str] | None = None, timeout: int = 300
) -> dict[str, Any]:
    """One case in a fresh process."""
    done = subprocess.run(
        [sys.executable, str(FOLDER / script)],
        input=json.dumps(case),
        capture_output=True,
        text=True,
        timeout=timeout,
        env={**os.environ, "OMP_NUM_THREADS": "2", **(env or {})},
        check=False,
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    result: dict[str, Any] = json.loads(done.stdout.strip().splitlines()[-1])
    return result


def predicted(spec: RunSpec) -> Ledger:
    """The closed form with the shipped constants."""
    return predict(resolve(spec), Constants())
