"""A recorded run beside what was predicted for it, and the processes that it was."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rlmem.core.components import STANDING
from rlmem.core.ledger import NOT_COUNTED, matches
from rlmem.documents.growth import StepPart, growth_curve
from rlmem.documents.parts import HoldingPart, PeakPart
from rlmem.documents.plan import PlanDocument
from rlmem.documents.recorded import RecordedDocument
from rlmem.report.text import size
from rlmem.report.view import Column, Section, Table
from rlmem.units import format_count, format_size

_LONGEST_COMMAND = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class PredictedMoment:
    """What was predicted of RAM at the step of one moment."""

    at_s: float
    low_bytes: int
    expected_bytes: int
    high_bytes: int


def processes_section(document: RecordedDocument) -> Section | None:
    """The tree at the largest look; None for a single process."""
    members = document.peak.members
    if len(members) < 2:
        return None
    columns = (
        Column(title="process"),
        Column(title="role", right=False),
        Column(title="PSS"),
        Column(title="private", rank=1),
        Column(title="RSS", rank=2),
        Column(title="threads", rank=3),
        Column(title="command", right=False),
    )
    rows = tuple(
        (
            str(member.pid),
            member.role,
            *(size(nbytes) for nbytes in (member.pss_bytes, member.uss_bytes, member.rss_bytes)),
            str(member.threads),
            _shortened(member.command),
        )
        for member in members
    )
    more = (document.largest.processes if document.largest else 1) - len(members)
    note = f"{more} smaller ones are not listed." if more > 0 else ""
    return Section(title="Processes at the peak", tables=(Table(title="", columns=columns, rows=rows, note=note),))


def _shortened(text: str) -> str:
    return text if len(text) <= _LONGEST_COMMAND else f"{text[: _LONGEST_COMMAND - 1]}…"


def prediction_section(document: RecordedDocument) -> Section | None:
    """The plan's largest phase of each device beside the largest seen, and what it says of buffers beside their owners."""
    plan, peak = document.plan, document.peak
    if plan is None:
        return None
    vram = [moment.vram_bytes for moment in document.moments if moment.vram_bytes is not None]
    measured = {"ram": peak.nbytes or None, "vram": max(vram, default=None)}
    tops = [top for top in plan.peaks if top.is_peak]
    reached = _reached(document, plan)
    rows = [(top.device.upper(), *_sizes(top), *_beside(top.expected_bytes, measured[top.device])) for top in tops]
    if reached:
        beside = _beside(reached.expected_bytes, measured["ram"])
        rows.append((f"RAM by step {format_count(reached.step)}", *_sizes(reached), *beside))
    columns = (
        Column(title="peak", right=False),
        *(Column(title=title) for title in ("low", "expected", "high", "measured", "difference")),
    )
    note = "Difference: expected against measured; + is predicted too large."
    tables = [Table(title="", columns=columns, rows=tuple(rows), note=note)]
    if standing := _standing(plan, peak.owners):
        columns = (
            Column(title="buffer", right=False),
            *(Column(title=title) for title in ("predicted", "resident", "allocated")),
        )
        note = "Predicted full, and resident as far as it had been written when owners were asked."
        tables.append(Table(title="", columns=columns, rows=standing, note=note))
    ram = reached or next((top for top in tops if top.device == "ram"), None)
    lines = (_range_sentence(ram, measured["ram"]), _steps_sentence(document, plan))
    return Section(
        title="Predicted beside measured", lines=tuple(line for line in lines if line), tables=tuple(tables)
    )  # fmt: skip


def _sizes(predicted: PeakPart | StepPart) -> tuple[str, str, str]:
    low, expected, high = predicted.low_bytes, predicted.expected_bytes, predicted.high_bytes
    return format_size(low), format_size(expected), format_size(high)


def prediction_curve(document: RecordedDocument) -> tuple[PredictedMoment, ...]:
    """What was predicted for each moment whose step is known: low, expected and high RAM by time."""
    plan = document.plan
    top = next((peak for peak in plan.peaks if peak.is_peak and peak.device == "ram"), None) if plan else None
    if plan is None or top is None:
        return ()
    curve = growth_curve(plan)
    rows = []
    for moment in document.moments:
        if moment.progress is not None:
            sizes = curve.at(moment.progress.step) if curve and curve.device == "ram" else top
            rows.append(
                PredictedMoment(
                    at_s=moment.at_s,
                    low_bytes=sizes.low_bytes,
                    expected_bytes=sizes.expected_bytes,
                    high_bytes=sizes.high_bytes,
                )
            )
    return tuple(rows)


def _beside(expected: int, measured: int | None) -> tuple[str, str]:
    """What was measured, and how far the prediction is from it."""
    return (format_size(measured), f"{expected / measured - 1:+.1%}") if measured else ("", "")


def _standing(plan: PlanDocument, owners: Sequence[HoldingPart]) -> tuple[tuple[str, ...], ...]:
    """Buffers as the plan has them while it collects, beside what their owners hold; unknown without any."""
    counted = [
        entry
        for entry in plan.entries
        if (entry.device, entry.phase) == ("ram", "collect") and entry.residency not in NOT_COUNTED
    ]
    rows = []
    for group, word in STANDING.items():
        holdings = [holding for holding in owners if holding.device == "ram" and word in holding.path]
        expected = sum(entry.nbytes for entry in counted if matches(entry.component, group))
        resident = sum(holding.resident_bytes for holding in holdings) if holdings else None
        allocated = sum(holding.nbytes for holding in holdings) if holdings else None
        if expected:
            rows.append((word, format_size(expected), size(resident), size(allocated)))
    return tuple(rows)


def _reached(document: RecordedDocument, plan: PlanDocument) -> StepPart | None:
    """What was predicted by the last step seen, where a store was not full yet; None where it was."""
    curve, step = growth_curve(plan), _last_step(document)
    if curve is None or step is None or curve.device != "ram" or step >= curve.full_at:
        return None
    return curve.at(step)


def _last_step(document: RecordedDocument) -> int | None:
    return max((moment.progress.step for moment in document.moments if moment.progress), default=None)


def _range_sentence(predicted: PeakPart | StepPart | None, measured: int | None) -> str:
    if predicted is None or measured is None:
        return ""
    is_above, is_below = measured > predicted.high_bytes, measured < predicted.low_bytes
    where = "above" if is_above else "below" if is_below else "within"
    so_far = " for as far as it came" if isinstance(predicted, StepPart) else ""
    return f"The measured peak of RAM is {where} the range that was predicted{so_far}."


def _steps_sentence(document: RecordedDocument, plan: PlanDocument) -> str:
    """A plan is for all the steps that were asked for when the model was met; a run may end before, or go on."""
    total, step = plan.target.spec.get("total_timesteps"), _last_step(document)
    if not total or step is None:
        return ""
    per_iteration = plan.schedule.samples_per_iteration if plan.schedule else None
    spare = max(0.1 * total, per_iteration or 0)
    is_over = document.status == "ok"  # then the last look was merely before the last step
    if step <= total + spare and (is_over or step >= total - spare):
        return ""
    return f"Predicted for {format_count(total)} steps; it was last seen at step {format_count(step)}."
