"""Run a target with the agent in a capped child process, undo what it did to files, and read what it learned."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rlmem import agent
from rlmem.agent.protocol import PROTOCOL, Facts, Job, StopFacts
from rlmem.errors import AnalysisError
from rlmem.process.protocol import check_protocol
from rlmem.runner.child import Outcome, run_child
from rlmem.trace.length import is_whole_run
from rlmem.trace.notes import merge_notes
from rlmem.trace.sizing import size_sample
from rlmem.trace.target import RunnableTarget
from rlmem.trace.undo import undo
from rlmem.units import MIB

#: What a dry run may take of its own accord, workers and all; real environments may need more, up to the cap.
OWN_BYTES = 1400 * MIB
#: Worker processes a dry run starts; what more there are cost the same each.
WORKERS = 2
TIME_S, MEASURE_TIME_S = 27.0, 600.0
#: A dry run leaves no logs behind: reporting services are off, bytecode is not written, plots need no display.
_QUIET = {
    "WANDB_MODE": "disabled",
    "COMET_MODE": "disabled",
    "MLFLOW_TRACKING_URI": "",
    "NEPTUNE_MODE": "debug",
    "PYTHONDONTWRITEBYTECODE": "1",
    "PYTHONUNBUFFERED": "1",
    "MPLBACKEND": "Agg",
    # Threads that wait must not take the cores from those that work: a dry run often shares the machine.
    "OMP_WAIT_POLICY": "PASSIVE",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class DryRun:
    """What a target did: the agent's facts (as far as it got) and how the child ended."""

    target: RunnableTarget
    facts: Facts
    outcome: Outcome

    @property
    def met(self) -> str | None:
        """``learn`` (a model's training was met), ``loop`` (the script's own loop updated), ``end``, or less."""
        found = self.facts.get("met")
        return str(found) if found else None

    @property
    def stop(self) -> StopFacts | None:
        """What stopped it before an update, if anything did."""
        return self.facts.get("stop")


def dry_run(
    target: RunnableTarget,
    *,
    mode: str = "trace",
    changes: Mapping[str, Any] | None = None,
    cap_bytes: int | None = None,
    time_s: float | None = None,
    updates: int | None = None,
    device: str | None = None,
    on_tick: Callable[[Any], None] | None = None,
    on_phase: Callable[[str], None] | None = None,
) -> DryRun:
    """Run the target; ``mode`` is ``trace`` (small and quick) or ``measure`` (real sizes, buffers filled).

    ``on_phase`` is told what it is at: importing, building, stepping, updating.
    """
    limit = time_s or (TIME_S if mode == "trace" else MEASURE_TIME_S)
    folder = Path(tempfile.mkdtemp(prefix="rlmem-job-")).resolve()
    failures: tuple[str, ...] = ()
    try:
        scratch = folder / "scratch"
        scratch.mkdir()
        job: Job = {
            "protocol": PROTOCOL,
            "mode": mode,
            "target": target.job(scratch),
            "folder": str(folder),
            "scratch": str(scratch),
            "result": str(folder / "result.json"),
            "status": str(folder / "status"),
            "time_s": limit,
            "memory_bytes": OWN_BYTES,
            "workers": WORKERS if mode == "trace" else None,
            "changes": dict(changes or {}),
            "updates": updates,
            "whole_run": is_whole_run(target),
            "device": device,
        }
        path = folder / "job.json"
        path.write_text(json.dumps(job), encoding="utf-8")
        entry = Path(agent.__file__).parent / "entry.py"
        try:
            outcome = run_child(
                [target.python, str(entry), str(path)],
                cwd=target.folder,
                env={**os.environ, **_QUIET},
                cap_bytes=cap_bytes,
                time_limit_s=limit + 45.0,
                on_tick=_telling(folder / "status", on_tick, on_phase),
            )
        finally:
            failures = undo(folder / "journal.jsonl")
        facts = _facts(folder, outcome, target)
        facts["notes"] = merge_notes([*failures, *facts["notes"]])
        facts["tree_peak"] = outcome.peak.pss_bytes
        if facts.get("sample"):
            if on_phase is not None:
                on_phase("coding a sample of the observations (compiled the first time, about 25 s)")
            facts["sized"] = size_sample(folder / "sample", target.python, env={**os.environ, **_QUIET})
        return DryRun(target=target, facts=facts, outcome=outcome)
    finally:
        if not failures:  # else it holds the only copies
            shutil.rmtree(folder, ignore_errors=True)


def _telling(
    status: Path, on_tick: Callable[[Any], None] | None, on_phase: Callable[[str], None] | None
) -> Callable[[Any], None] | None:
    """What is called while the child runs; it also passes on what the agent writes about how far it is."""
    if on_phase is None:
        return on_tick
    on_phase("starting")

    def tick(sample: Any) -> None:
        if on_tick is not None:
            on_tick(sample)
        with suppress(OSError):  # not there yet
            if text := status.read_text(encoding="utf-8"):
                on_phase(text)

    return tick


def _facts(folder: Path, outcome: Outcome, target: RunnableTarget) -> Facts:
    whole, so_far = folder / "result.json", folder / "result.json.so-far"
    try:
        is_whole = whole.exists()
        path = whole if is_whole else so_far
        found: Facts = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    except ValueError as error:
        raise AnalysisError(f"{target.name}: the dry run's result cannot be read: {error}") from None
    check_protocol(found, f"{target.name}: the agent of the dry run")
    if is_whole:
        return found
    stop: StopFacts = {"kind": outcome.status, "message": _ended(outcome, target), "where": None}
    empty: Facts = {"phases": {}, "notes": [], "versions": {}, "arrays": [], "containers": []}
    return {**empty, **found, "met": None, "stop": stop}


def _ended(outcome: Outcome, target: RunnableTarget) -> str:
    """Why there is no result at all."""
    if outcome.status == "ok":
        return "the process ended itself (os._exit, or replaced by another program) before anything could be learned"
    if outcome.status == "failed" and "No module named" in outcome.stderr:
        return f"{target.python} could not start the dry run: {outcome.stderr.strip().splitlines()[-1]}"
    return outcome.describe()
