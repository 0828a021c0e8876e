"""Recorded runs: what is made of a recording and its moments, as a document."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from rlmem.agent.protocol import PROTOCOL, DescribedFacts
from rlmem.core.moments import Moment
from rlmem.core.plan import Budget
from rlmem.documents.contract import read_part
from rlmem.documents.moment import MemberPart, judgement_part, moment_part
from rlmem.documents.parts import holding_part, part_of
from rlmem.documents.plan import PlanDocument, plan_document
from rlmem.documents.recorded import PeakMomentPart, PhasePart, RecordedDocument, RecordedPeakPart, Recording
from rlmem.errors import AnalysisError, RlmemError, SpecError
from rlmem.planner import Planner
from rlmem.process.protocol import FIRST
from rlmem.runner.store import Run, Store
from rlmem.trace.describe import from_facts
from rlmem.watch.holders import read_holders
from rlmem.watch.judge import before_end, judge


def recorded_document(recording: Recording, moments: Sequence[Moment], run: Run | None = None) -> RecordedDocument:
    """Return a run of ``rlmem run`` as a document; one whose recording was cut short has all but its end.

    Args:
        recording: what was asked for, and how it ended.
        moments: its timeline.
        run: the row of the store, where it is kept.
    """
    ended = recording.ended
    peak = _peak(recording, moments)
    plan, no_plan = _plan(recording, peak)
    return RecordedDocument(
        rlmem=run.versions.get("rlmem", "") if run else recording.rlmem,
        run=run.id if run else None,
        target=recording.target,
        command=recording.command,
        started=run.started if run else recording.started,
        status=run.status if run else ended.status if ended else "running",
        machine=dict(run.machine) if run else {},
        policy=recording.policy,
        ended=ended,
        peak=peak,
        plan=plan,
        no_plan=no_plan,
        versions=dict(recording.facts.get("versions", {})),
        phases=_phases(moments),
        judgement=judgement_part(judge(before_end(moments) if ended else moments)),
        moments=tuple(moment_part(moment) for moment in moments),
    )


def _stored_time(at_s: float) -> float:
    """Return a time as the store keeps it, so that a run says the same at its end and when it is shown again."""
    return round(at_s, 3)


def _peak(recording: Recording, moments: Sequence[Moment]) -> RecordedPeakPart:
    """Return the largest moment, and the owners as they were asked nearest to it."""
    largest = max(moments, key=lambda moment: moment.tree_bytes, default=None)
    peak = PeakMomentPart()
    if largest is not None:
        step = largest.progress.step if largest.progress else None
        at_s = _stored_time(largest.at_s)
        peak = PeakMomentPart(nbytes=largest.tree_bytes, at_s=at_s, phase=largest.phase, step=step)
    if recording.ended and recording.ended.peak.nbytes >= peak.nbytes:
        peak = recording.ended.peak
    holders = read_holders(moments)
    near = min(holders, key=lambda at: abs(at - peak.at_s), default=None)
    return part_of(
        RecordedPeakPart,
        peak,
        members=peak.members or recording.members,
        limit_bytes=largest.limit_bytes if largest else None,
        limit_name=largest.limit_name if largest else "",
        owners_at_s=None if near is None else _stored_time(near),
        owners=tuple(holding_part(holding) for holding in holders[near]) if near is not None else (),
    )


def _plan(recording: Recording, peak: RecordedPeakPart) -> tuple[PlanDocument | None, str]:
    """Return what rlmem predicts for the model that was trained, or why there is no prediction.

    A program that said nothing of a model has neither.
    """
    facts = recording.facts
    if not facts:
        return None, ""
    version = facts.get("protocol", FIRST)
    if version != PROTOCOL:
        by = f"rlmem {recording.rlmem}" if recording.rlmem else "another rlmem"
        return (
            None,
            f"{by} recorded the model in protocol {version}; this rlmem reads protocol {PROTOCOL}. Record the run again.",
        )
    budget = Budget(name="the run's limit", ram_bytes=peak.limit_bytes, ram_source=peak.limit_name)
    try:
        spec = from_facts(recording.target, cast("DescribedFacts", facts))
        if spec.get("vec_env") == "subproc" and (method := start_method(peak.members)):
            spec = spec.having({"env.start_method": method}, "the processes that were seen")
        return plan_document(Planner(budget).plan(spec)), ""
    except SpecError as error:
        is_missing = error.problem.startswith("missing")  # what it says to add to a description has no place here
        return None, f"the program does not tell the {error.path} of its model" if is_missing else str(error)
    except RlmemError as error:
        return None, str(error)
    except Exception as error:  # an agent of any version wrote them down: what is wrong with them costs the prediction
        return None, f"the facts of the program's model cannot be read ({type(error).__name__}: {error})"


def start_method(members: Sequence[MemberPart]) -> str | None:
    """Return how workers were started, which the model does not know; None without any."""
    workers = [member.command for member in members if member.role == "worker"]
    if not workers:
        return None
    if any(member.role == "forkserver" for member in members):
        return "forkserver"
    return "spawn" if any("multiprocessing.spawn" in command for command in workers) else "fork"


def _phases(moments: Sequence[Moment]) -> tuple[PhasePart, ...]:
    """Return the largest moment of each phase, in the order they first came."""
    best: dict[str, Moment] = {}
    for moment in moments:
        known = best.get(moment.phase)
        if known is None or moment.tree_bytes > known.tree_bytes:
            best[moment.phase] = moment
    if set(best) <= {""}:
        return ()
    return tuple(
        PhasePart(phase=phase, peak_bytes=moment.tree_bytes, at_s=_stored_time(moment.at_s))
        for phase, moment in best.items()
    )


def stored_recording(store: Store, run: Run) -> RecordedDocument:
    """Return a run of the store as a document.

    Raises:
        AnalysisError: what was stored is no recording.
    """
    try:
        recording = read_part(Recording, run.document)
    except ValueError as error:
        raise AnalysisError(f"run {run.id}: not a complete recording: {error}") from None
    return recorded_document(recording, store.timeline(run.id), run)
