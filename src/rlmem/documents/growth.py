"""How the memory of a run grows over training steps, from its plan."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

from msgspec import Meta

from rlmem.documents.parts import Device, PeakPart, Size
from rlmem.documents.plan import PlanDocument

#: A run without an end is shown until its store has been full for a while.
BEYOND = 1.25


@dataclass(frozen=True, slots=True, kw_only=True)
class StepPart:
    """What is resident after some steps."""

    step: int
    low_bytes: Size
    expected_bytes: Size
    high_bytes: Size


@dataclass(frozen=True, slots=True, kw_only=True)
class GrowthCurvePart:
    """Resident memory over training steps while a store that was reserved at build fills."""

    device: Device
    store_bytes: Size
    full_at: Annotated[int, Meta(description="the step at which the store holds all that the run writes")]
    ends_at: Annotated[int | None, Meta(description="null: the run has no end")]
    limit_bytes: Size | None
    full_bytes: Size
    rows: Annotated[tuple[StepPart, ...], Meta(description="straight between them")]
    over_limit_at: Annotated[int | None, Meta(description="the step at which the expected size reaches the limit")]

    def at(self, step: int) -> StepPart:
        """Return the sizes after some steps, on the straight lines between the points."""
        before = [row for row in self.rows if row.step <= step][-1:] or self.rows[:1]
        after = [row for row in self.rows if row.step > step][:1] or before
        low, high = before[0], after[0]
        share = (step - low.step) / (high.step - low.step) if high.step > low.step else 0.0

        def between(one: int, other: int) -> int:
            return round(one + share * (other - one))

        return StepPart(
            step=step,
            low_bytes=between(low.low_bytes, high.low_bytes),
            expected_bytes=between(low.expected_bytes, high.expected_bytes),
            high_bytes=between(low.high_bytes, high.high_bytes),
        )


def growth_curve(plan: PlanDocument) -> GrowthCurvePart | None:
    """Return how a store that was reserved at build fills; ``None`` when nothing fills.

    Straight between its points: a store takes the same for every step until it is full.
    """
    full_at = _full_at(plan.target.spec)
    for device in plan.devices:
        peaks = {peak.phase: peak for peak in plan.peaks if peak.device == device}
        filling = [entry for entry in plan.held(device, "collect") if entry.residency == "filling"]
        if filling and full_at and "collect" in peaks:
            return _curve(plan, device, peaks, sum(entry.nbytes for entry in filling), full_at)
    return None


def _full_at(spec: Mapping[str, Any]) -> int | None:
    """Environment steps, over all environments, after which the store holds all that the run writes."""
    if isinstance(spec.get("buffer_size"), int):
        return min(int(spec["buffer_size"]), int(spec.get("total_timesteps") or spec["buffer_size"]))
    if isinstance(spec.get("n_steps"), int):
        return int(spec["n_steps"]) * int(spec.get("n_envs") or 1)
    return None


def _curve(plan: PlanDocument, device: str, peaks: Mapping[str, PeakPart], store: int, full_at: int) -> GrowthCurvePart:
    spec = plan.target.spec
    ends_at = spec.get("total_timesteps") if isinstance(spec.get("total_timesteps"), int) else None
    last = ends_at or int(full_at * BEYOND)
    top = max(peaks.values(), key=lambda peak: peak.expected_bytes)
    replay = isinstance(spec.get("buffer_size"), int)
    starts_at = int(spec.get("learning_starts") or 0) if replay else full_at
    rows = []
    for step in sorted({0, min(starts_at, last), min(full_at, last), last}):
        unfilled = round(store * (1 - min(1.0, step / full_at)))
        moments = [peaks["collect"], *([top] if step >= starts_at else [])]
        # Both sides of the first update: the peak of a phase is there from one step to the next.
        for moment in moments if step == starts_at else moments[-1:]:
            rows.append(
                StepPart(
                    step=step,
                    low_bytes=max(0, moment.low_bytes - unfilled),
                    expected_bytes=max(0, moment.expected_bytes - unfilled),
                    high_bytes=max(0, moment.high_bytes - unfilled),
                )
            )
    return GrowthCurvePart(
        device=device,
        store_bytes=store,
        full_at=full_at,
        ends_at=ends_at,
        limit_bytes=top.limit_bytes,
        full_bytes=max(peaks["collect"].expected_bytes, top.expected_bytes),
        rows=tuple(rows),
        over_limit_at=_crossing(rows, top.limit_bytes),
    )


def _crossing(rows: Sequence[StepPart], limit: int | None) -> int | None:
    """Return the step at which the expected size reaches the limit."""
    if limit is None or rows[-1].expected_bytes <= limit:
        return None
    before = None
    for row in rows:
        if row.expected_bytes > limit:
            if before is None or row.step == before.step:
                return row.step
            rise = row.expected_bytes - before.expected_bytes
            share = (limit - before.expected_bytes) / rise if rise else 0.0
            return int(before.step + share * (row.step - before.step))
        before = row
    return None
