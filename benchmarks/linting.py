"""How long ``rlmem lint`` takes for 1,000 files of real Python, beside ``ruff check`` on the same files.

The files are drawn, with a fixed seed, from the site-packages of the running interpreter: what is installed there, not
training scripts. Both programs start anew each round, in turn, without caches. The goal is under 5 s on two cores.
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import statistics
import subprocess
import sys
import sysconfig
import tempfile
import time
from pathlib import Path

SEED = 6
#: Larger files were written by programs, and rlmem skips them.
LARGEST = 1_000_000


def drawn(count: int, folder: Path) -> int:
    """Copies of files with names of their own in one folder; their bytes."""
    found = sorted(Path(sysconfig.get_path("purelib")).rglob("*.py"))
    found = [path for path in found if 0 < path.stat().st_size <= LARGEST]
    if len(found) < count:
        raise SystemExit(
            f"only {len(found)} files in {sysconfig.get_path('purelib')}; install something, or --files less"
        )
    chosen = random.Random(SEED).sample(found, count)
    for number, path in enumerate(chosen):
        shutil.copyfile(path, folder / f"f{number:04}.py")
    return sum(path.stat().st_size for path in chosen)


def main() -> None:
    """Measure in turn, so that a busy moment hits both."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--files", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    ruff = shutil.which("ruff", path=f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}")
    with tempfile.TemporaryDirectory() as folder:
        nbytes = drawn(options.files, Path(folder))
        commands = {"rlmem lint": [sys.executable, "-m", "rlmem", "lint", folder, "--ram", "16GB"]}
        if ruff:
            commands["ruff check --select F,B"] = [ruff, "check", "--isolated", "--no-cache", "--select", "F,B", folder]
        times: dict[str, list[float]] = {name: [] for name in commands}
        said: dict[str, str] = {}
        for _ in range(options.rounds):
            for name, command in commands.items():
                start = time.perf_counter()
                done = subprocess.run(command, capture_output=True, text=True, check=False)
                times[name].append(time.perf_counter() - start)
                said[name] = next(
                    (line for line in reversed(done.stdout.splitlines()) if "ound " in line or " in " in line), ""
                )
    version = sys.version.split()[0]
    print(
        f"{options.files} files, {nbytes / 1e6:.1f} MB, {len(os.sched_getaffinity(0))} cores, Python {version}, seed {SEED}"
    )
    fastest = {name: min(taken) for name, taken in times.items()}
    for name, taken in times.items():
        print(
            f"{name:24} fastest {min(taken):6.2f} s   median {statistics.median(taken):6.2f} s   {said[name].strip()}"
        )
    if ruff:
        mine, theirs = fastest.values()
        print(f"rlmem takes {mine / theirs:.0f} times as long as ruff")


if __name__ == "__main__":
    main()
