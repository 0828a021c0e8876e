"""Where a description comes from: a preset, a run file; and what the command line changes about it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from rlmem.core.spec import RunSpec
from rlmem.core.target import Target
from rlmem.errors import UsageError, did_you_mean
from rlmem.sources.config import read_run_file
from rlmem.sources.overrides import parse_set
from rlmem.sources.preset import PRESETS, read_preset
from rlmem.sources.target import parse_target


def load(target: str, sets: Sequence[str] = ()) -> RunSpec:
    """The run a target names, with ``--set`` changes applied in order."""
    return read_description(parse_target(target, sets=tuple(sets)))


def read_description(target: Target) -> RunSpec:
    """Return the run that a preset or a run file describes, with its ``--set`` changes applied in order.

    Raises:
        UsageError: it is neither, it cannot be read, or a change is not one.
    """
    spec = _read(target)
    for item in target.sets:
        path, value = parse_set(item)
        spec = spec.having({path: value}, f"--set {item}")
    return spec


def _read(target: Target) -> RunSpec:
    name = target.text
    if not name.strip():
        raise UsageError("no target: name a preset ('rlmem presets') or the path of a run file")
    if name in PRESETS:
        return read_preset(name)
    if target.kind == "file":
        return read_run_file(Path(name))
    if target.kind == "script":
        raise UsageError(
            f"{name}: a script can be planned and measured ('rlmem plan', 'rlmem measure'); this command takes a preset "
            "or a run file ('rlmem schema run' lists the fields)"
        )
    known = ", ".join(PRESETS)
    raise UsageError(f"unknown preset {name!r}{did_you_mean(name, PRESETS)}; known: {known}, or the path of a run file")
