"""Measured runtime constants of one Python environment: taken in fresh processes, kept in a cache file.

The file is keyed by the environment (its interpreter and prefix), so two virtual environments never share numbers. A
file that cannot be read, or was written by another version of rlmem, is as good as none.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any

from rlmem.errors import AnalysisError, UsageError
from rlmem.model.constants import Constant, Constants

SCHEMA = "rlmem.calibration/1"
PROBE = Path(__file__).with_name("probe_runtime.py")
#: Module imported, and the constant its cost is.
PACKAGES = {
    "numpy": "import.numpy",
    "torch": "import.torch",
    "gymnasium": "import.gymnasium",
    "stable_baselines3": "import.sb3",
    "sb3_contrib": "import.sb3-contrib",
}
#: Fresh processes differ by a few percent from start to start (address layout, page cache, huge pages).
SPREAD = (0.94, 1.08)
STEP_SECONDS = 120


def cache_folder() -> Path:
    """``RLMEM_CACHE_DIR``, else the user's cache folder."""
    own = os.environ.get("RLMEM_CACHE_DIR")
    if own:
        return Path(own)
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "rlmem"


def cache_file(python: str) -> Path:
    """The file for one environment."""
    key = hashlib.sha256(os.path.abspath(python).encode()).hexdigest()[:16]
    return cache_folder() / f"calibration-{key}.json"


def read_calibration(python: str | None = None) -> Constants:
    """Shipped constants with this environment's own in their place, if it was ever calibrated."""
    try:
        data = json.loads(cache_file(python or sys.executable).read_text(encoding="utf-8"))
        if data["schema"] != SCHEMA:
            return Constants()
        rows = [Constant(**row) for row in data["constants"]]
        if not all(type(size) is int and size >= 0 for row in rows for size in (row.low, row.expected, row.high)):
            return Constants()
        return Constants({row.name: row for row in rows})
    except (OSError, ValueError, KeyError, TypeError, RuntimeError):
        return Constants()


def write_calibration(python: str, rows: Mapping[str, Constant], versions: Mapping[str, str]) -> Path:
    """Keep the rows for later plans; the file is replaced whole."""
    path = cache_file(python)
    body = {
        "schema": SCHEMA,
        "python": python,
        "versions": dict(versions),
        "constants": [asdict(row) for row in rows.values()],
    }
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary = path.with_suffix(f".{os.getpid()}.tmp")
        temporary.write_text(json.dumps(body, indent=1, ensure_ascii=False), encoding="utf-8")
        temporary.replace(path)
    except OSError as error:
        raise AnalysisError(
            f"cannot keep the calibration in {path}: {error.strerror or error}; set RLMEM_CACHE_DIR"
        ) from None
    return path


def calibrate(
    python: str, extra: tuple[str, ...], *, today: str, say: Callable[[str], None] = lambda _: None
) -> tuple[dict[str, Constant], dict[str, str]]:
    """Measure an environment: constants by name, and the versions they belong to."""
    if not Path("/proc/self/smaps_rollup").exists():
        raise AnalysisError(
            "calibration reads /proc/self/smaps_rollup (Linux 4.14 or newer); the shipped constants stay in use"
        )
    try:
        return _calibrate(python, extra, today, say)
    except (KeyError, TypeError, ValueError) as error:
        raise AnalysisError(f"{python} does not answer like a Python interpreter ({type(error).__name__})") from None


def _calibrate(
    python: str, extra: tuple[str, ...], today: str, say: Callable[[str], None]
) -> tuple[dict[str, Constant], dict[str, str]]:
    rows: dict[str, Constant] = {}
    say("imports")
    imports = _probe(python, "imports", *PACKAGES, *extra)
    versions: dict[str, str] = imports["versions"]
    where = f"{platform.system()} {platform.release()}, Python {versions['python']}, " + ", ".join(
        f"{name} {versions[name]}" for name in PACKAGES if imports["rss"].get(name) is not None
    )
    for name, value, how in _rows(python, imports, extra, say):
        low, high = (round(value * factor) for factor in SPREAD)
        rows[name] = Constant(name=name, low=low, expected=value, high=high, how=how, where=where, when=today)
    return rows, versions


def _rows(
    python: str, imports: dict[str, Any], extra: tuple[str, ...], say: Callable[[str], None]
) -> Iterator[tuple[str, int, str]]:
    rss, versions = imports["rss"], imports["versions"]
    yield "interpreter", rss["interpreter"], "RSS of a small interpreter process"
    for module in (*PACKAGES, *extra):
        if rss.get(module) is not None:
            how = f"RSS added by import {module}, after the ones before it"
            yield _import_constant(module, versions), rss[module], how
    say("threads")
    yield "thread.stack", _probe(python, "threads", "32")["each"], "RSS one idle thread adds"
    if rss.get("torch") is None:
        return  # without torch nothing can be said about learners and their workers
    say("first update")
    warm = _probe(python, "warm-up")
    yield f"import.torch-optim{_build(versions)}", warm["optimizer"], "RSS added by the first optimizer"
    for kind in ("mlp", "conv"):
        yield f"warm-up.{kind}", warm[kind], f"RSS added by a first tiny {kind} update"
    say("worker processes with torch")
    learner = [name for name in PACKAGES if rss.get(name) is not None]
    added = _probe(python, "workers", "forkserver", *learner)["added"]
    yield (
        f"worker.learner-imports{_build(versions)}",
        added,
        f"PSS one more worker adds, importing {', '.join(learner)}",
    )
    if _build(versions):
        say("CUDA context")
        cuda = _probe(python, "cuda")
        if cuda["context"] is not None:
            yield "cuda.context", cuda["context"], f"driver's figure minus torch's reserved bytes on {cuda['device']}"
        if cuda["host"] is not None:
            yield "cuda.host-conv", cuda["host"], "RSS added by a first small CUDA update with convolutions"


def _build(versions: Mapping[str, str]) -> str:
    """``-cuda`` for a build of torch that brings CUDA along."""
    return "-cuda" if "+cu" in versions.get("torch", "") else ""


def _import_constant(module: str, versions: Mapping[str, str]) -> str:
    """The constant a plan reads for a package in this version."""
    if module == "torch":
        return f"import.torch{_build(versions)}"
    if module == "stable_baselines3" and versions[module].startswith(("0.", "1.", *(f"2.{n}." for n in range(9)))):
        return "import.sb3-before-2.9"
    return PACKAGES.get(module, f"import.{module}")


def _probe(python: str, *arguments: str) -> dict[str, Any]:
    """One step in a fresh process of its own session, so that nothing of it survives a time-out."""
    command = [python, str(PROBE), *arguments]
    try:
        child = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            encoding="utf-8",
            errors="replace",
            start_new_session=True,
        )
    except FileNotFoundError:
        raise UsageError(f"--python {python}: no such interpreter") from None
    except OSError as error:
        raise UsageError(f"--python {python}: cannot be run: {error.strerror or error}") from None
    try:
        out, err = child.communicate(timeout=STEP_SECONDS)
    except BaseException as error:  # a time-out, or Ctrl-C
        with suppress(ProcessLookupError):
            os.killpg(child.pid, signal.SIGKILL)
        child.wait()
        if not isinstance(error, subprocess.TimeoutExpired):
            raise
        raise AnalysisError(
            f"calibration step {arguments[0]!r} took over {STEP_SECONDS} s; is {python} starting at all?"
        ) from None
    last = out.strip().splitlines()[-1:] or [""]
    if child.returncode or not last[0].startswith("{"):
        reason = (err.strip().splitlines() or [f"exit {child.returncode}"])[-1]
        raise AnalysisError(f"calibration step {arguments[0]!r} failed in {python}: {reason}")
    result: dict[str, Any] = json.loads(last[0])
    return result
