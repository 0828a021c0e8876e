"""Measure one point of a script, a factory or a Zoo entry: a fresh process at the real sizes, with real updates."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from rlmem.agent.protocol import Facts
from rlmem.budget import make_budget
from rlmem.core.fields import BY_PATH
from rlmem.core.ledger import Ledger
from rlmem.core.points import Point, PointLimits, PredictedPeak
from rlmem.core.target import Target
from rlmem.errors import AnalysisError, UsageError, did_you_mean
from rlmem.planner import ClosedForm
from rlmem.process.calibration import read_calibration
from rlmem.programs.points import process_parts
from rlmem.trace.changes import option_names, prepare_run
from rlmem.trace.describe import wants_gpu
from rlmem.trace.dryrun import DryRun, dry_run
from rlmem.trace.ledger import TracedLedger
from rlmem.trace.plan import plan_dry_run
from rlmem.trace.target import RunnableTarget
from rlmem.units import format_size


def measure_point(target: Target, values: Mapping[str, int | str], limits: PointLimits) -> Point:
    """Plan the point with a dry run, then measure it."""
    foreseen = plan_point(target, values, limits)
    if foreseen.refused:
        raise UsageError(foreseen.why)
    return measure_planned(target, values, limits, foreseen)


@dataclass(frozen=True, slots=True, kw_only=True)
class Foreseen:
    """What a dry run says of a point, as plain data; without a plan, why there is none."""

    #: The peak of RAM, its phase and the largest component in it.
    predicted: PredictedPeak | None = None
    components: Mapping[str, int] = field(default_factory=dict)
    phase: str = ""
    largest: str | None = None
    why: str = ""
    #: The target takes no such name or value: a wrong request, which no measurement answers.
    refused: bool = False
    #: Whether it uses a GPU where there is one; ``None`` where only a run that sees one can tell.
    uses_gpu: bool | None = None


def plan_point(target: Target, values: Mapping[str, int | str], limits: PointLimits) -> Foreseen:
    """What a dry run says of a point."""
    found, changes, device = prepare_run(target, values)
    budget, form = make_budget(), ClosedForm(read_calibration(found.python))
    gpu = None
    try:
        run = dry_run(found, changes=changes, device=device, cap_bytes=limits.cap_bytes)
        gpu = uses_gpu(run.facts)
        if run.stop and run.stop.get("kind") == "unheeded":
            return Foreseen(
                why=f"{target.text}: {run.stop['message']}{_meant(target, values)}", uses_gpu=gpu, refused=True
            )
        plan = plan_dry_run(run, budget, form).plan
    except UsageError as error:
        return Foreseen(why=str(error), uses_gpu=gpu, refused=True)
    except AnalysisError as error:
        return Foreseen(why=str(error), uses_gpu=gpu)
    top = plan.top("ram")
    if top is None:
        return Foreseen(components=_components(plan.ledger), uses_gpu=gpu)
    held = [e for e in plan.ledger.only(device="ram", phase=top.phase).entries if e.counts]
    largest = max(held, key=lambda entry: entry.nbytes, default=None)
    return Foreseen(
        predicted=PredictedPeak.of(top),
        components=_components(plan.ledger),
        phase=top.phase,
        largest=None if largest is None else largest.component,
        uses_gpu=gpu,
    )


def _meant(target: Target, values: Mapping[str, int | str]) -> str:
    """The nearest name that the script or a model takes, for those that nothing took."""
    settings = (path for path, row in BY_PATH.items() if row.kind == "count" and "." not in path)
    known = (*option_names(Path(target.text)), *settings)
    return "".join(did_you_mean(name, known) for name in values if name not in known)


def uses_gpu(facts: Facts) -> bool | None:
    """Whether a run uses a GPU where there is one, as far as a dry run can tell.

    SB3's models say it on any machine. A loop of its own was seen to, or may have looked for one in vain: then ``None``.
    """
    if facts.get("vram"):
        return True
    if facts.get("model"):
        return wants_gpu(facts)
    stopped = facts.get("stop") is not None
    return None if stopped or "torch" in facts.get("versions", {}) else False


def measure_planned(target: Target, values: Mapping[str, int | str], limits: PointLimits, foreseen: Foreseen) -> Point:
    """Measure a point beside the plan it has."""
    found, changes, device = prepare_run(target, values)
    return _point(values, _measured(found, changes, device, limits), foreseen, limits)


def measure_alone(target: Target, limits: PointLimits, folder: Path | None = None) -> Point:
    """Measure the target as it is, without a plan beside it; it starts in the folder, or in this one."""
    found, changes, device = prepare_run(target)
    found = found if folder is None else replace(found, folder=folder)
    return _point({}, _measured(found, changes, device, limits), Foreseen(), limits)


def _measured(found: RunnableTarget, changes: Mapping[str, Any], device: str | None, limits: PointLimits) -> DryRun:
    return dry_run(
        found,
        mode="measure",
        changes=changes,
        device=device,
        cap_bytes=limits.cap_bytes,
        time_s=limits.time_limit_s,
        updates=limits.updates,
    )


def _point(values: Mapping[str, int | str], run: DryRun, foreseen: Foreseen, limits: PointLimits) -> Point:
    outcome, facts = run.outcome, run.facts
    status, note = outcome.status, ""
    if status == "oom":
        note = _missing(run, foreseen, limits)
    elif status != "ok":
        note = outcome.describe()
    elif run.stop:
        status, note = "failed", _why(run) or foreseen.why
    elif not ("update" in facts["phases"] or (run.met == "end" and facts.get("env_steps"))):
        over = run.met in ("time", "learn")
        status, note = ("timeout", "its time was over before an update") if over else ("failed", "no update was seen")
    elif run.met == "learn":
        note = "buffers filled with the run's own first transitions"
    elif run.met == "loop":
        note = "big arrays made resident; what grows object by object is as far as the loop got"
    files = max((int(row.get("files", 0)) for row in facts["phases"].values()), default=0)
    if files and status == "ok":
        more = f"{format_size(files)} of the peak are pages of mapped files, which the kernel can take back"
        note = f"{note}; {more}" if note else more
    return Point(
        values=values,
        status=status,
        peak_bytes=outcome.peak.pss_bytes,
        phases={name: int(row["peak"]) for name, row in facts["phases"].items() if name != "final"},
        components=_components(TracedLedger(facts).ledger()) if facts["phases"] and status == "ok" else {},
        processes=process_parts(outcome),
        versions=facts.get("versions", {}),
        wall_s=outcome.wall_s,
        note=note,
        predicted=foreseen.predicted,
        predicted_components=foreseen.components,
        cgroup_bytes=outcome.peak.cgroup_bytes,
        vram=_vram(facts),
    )


def _components(ledger: Ledger) -> dict[str, int]:
    """Bytes by component in the update, the part that says where memory goes."""
    out: dict[str, int] = {}
    for entry in ledger.only(device="ram", phase="update").entries:
        if entry.counts:
            out[entry.component] = out.get(entry.component, 0) + entry.nbytes
    return out


def _why(run: DryRun) -> str:
    stop = run.stop or {}
    where = f" at {stop['where']}" if stop.get("where") else ""
    return f"{stop.get('message') or 'no update was seen'}{where}"


def _missing(run: DryRun, foreseen: Foreseen, limits: PointLimits) -> str:
    """``needs 14.4 GB more in update: rollout.observations``, as far as the plan knows."""
    text = run.outcome.describe()
    if foreseen.predicted is None or foreseen.largest is None or limits.cap_bytes is None:
        return text
    more = foreseen.predicted.expected - limits.cap_bytes
    if more <= 0:
        return text
    return f"needs {format_size(more)} more in {foreseen.phase} (by the plan): {foreseen.largest}"


def _vram(facts: Facts) -> dict[str, int]:
    return dict[str, int](**facts["vram"]) if facts.get("vram") else {}
