"""Where a description comes from: a preset, a run file; and what the command line changes about it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from rlmem.errors import UsageError, did_you_mean
from rlmem.sources.config import read_run_file
from rlmem.sources.overrides import parse_set
from rlmem.sources.preset import PRESETS, read_preset
from rlmem.spec import RunSpec

RUN_FILE_SUFFIXES = (".yaml", ".yml", ".json")


def load(target: str, sets: Sequence[str] = ()) -> RunSpec:
    """The run a target names, with ``--set`` changes applied in order."""
    spec = _load(target)
    for item in sets:
        path, value = parse_set(item)
        spec = spec.having({path: value}, f"--set {item}")
    return spec


def _load(target: str) -> RunSpec:
    if not target.strip():
        raise UsageError("no target: name a preset ('rlmem presets') or the path of a run file")
    if target in PRESETS:
        return read_preset(target)
    path = Path(target)
    if path.suffix.lower() in RUN_FILE_SUFFIXES or (path.exists() and path.suffix != ".py"):
        return read_run_file(path)
    if path.suffix == ".py":
        raise UsageError(
            f"{target}: a script can be planned and measured ('rlmem plan', 'rlmem measure'); this command takes a preset "
            "or a run file ('rlmem schema run' lists the fields)"
        )
    known = ", ".join(PRESETS)
    raise UsageError(
        f"unknown preset {target!r}{did_you_mean(target, PRESETS)}; known: {known}, or the path of a run file"
    )
