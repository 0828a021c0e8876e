"""How far a knob can be turned: the largest value that fits, per machine, and what other values need."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rlmem.app.subjects import changeable, open_subject
from rlmem.budget import sized_budget
from rlmem.capacity import largest, useful
from rlmem.core.ledger import DEVICES
from rlmem.core.plan import Budget
from rlmem.core.progress import ShowProgress, show_nothing
from rlmem.core.subject import Subject
from rlmem.core.target import Target
from rlmem.documents.capacity import (
    FURTHEST,
    CapacityCurveDocument,
    CapacityCurvePart,
    CapacityDocument,
    CapacityTargetPart,
    MachineCapacityPart,
    UnitCostPart,
    ValuePart,
    value_part,
    without_limits,
)
from rlmem.errors import RlmemError
from rlmem.rules.knobs import main_knob, rounded_down
from rlmem.units import ABSURD_COUNT

#: Values of the main knob that are planned, relative to the run's own.
SHARES = (0.25, 0.5, 1.0, 1.5, 2.0, 4.0)


def capacity_curve(subject: Subject) -> CapacityCurvePart | None:
    """Return peaks at some values of the main knob; ``None`` where the run cannot be planned changed."""
    if not subject.is_changeable:
        return None
    try:
        return _curve(subject, main_knob(subject.spec))
    except RlmemError:  # a loop whose knob the description does not hold
        return None


def capacity_curve_document(subject: Subject) -> CapacityCurveDocument:
    """Return how far the main knob of a run can be turned on its machine."""
    return CapacityCurveDocument(
        target=subject.spec.name, machine=subject.plan.budget.name, curve=capacity_curve(subject)
    )


def _curve(subject: Subject, knob: str) -> CapacityCurvePart:
    now = subject.spec.count(knob)
    best = largest(subject.asked, knob, subject.plan_of)
    most = max(useful(subject.plan, knob) or ABSURD_COUNT, now)
    values = {min(max(rounded_down(round(now * share)), 1), most) for share in SHARES} | {now}
    if best.value is not None and best.value <= FURTHEST * now:
        values.add(best.value)
    return CapacityCurvePart(
        knob=knob,
        now=now,
        rows=tuple(value_part(value, subject.changed({knob: value})) for value in sorted(values)),
        largest_safe=best.value,
        unlimited=best.unlimited,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class CapacityRequest:
    """A run whose knob is turned, and the machines it is turned on.

    Attributes:
        target: what ``rlmem plan`` takes.
        path: the count to turn.
        values: values to say the peaks of.
        budget: one machine, or
        machines: sizes and names of several; a bare size limits the learner's device.
    """

    target: Target
    path: str
    values: tuple[int, ...] = ()
    budget: Budget | None = None
    machines: tuple[str, ...] = ()


def capacity(request: CapacityRequest, progress: ShowProgress = show_nothing) -> CapacityDocument:
    """Return how far a knob can be turned on each machine.

    Raises:
        UsageError: the target or a machine cannot be read.
        AnalysisError: a dry run stopped before anything was known, or the run cannot be planned changed.
    """
    one = request.budget
    sizes = (one,) if one else tuple(sized_budget(name, "ram") for name in request.machines)
    gpu = any(budget.vram_bytes for budget in sizes)
    subject = open_subject(request.target, Budget(name="any machine"), progress=progress, gpu=gpu)
    device = "vram" if subject.spec.get("device") == "cuda" else "ram"
    budgets = (one,) if one else tuple(sized_budget(name, device) for name in request.machines)
    subject = changeable(subject, request.target)
    return capacity_table([subject.under(budget) for budget in budgets], request.path, request.values)


def capacity_table(subjects: Sequence[Subject], path: str, values: Sequence[int]) -> CapacityDocument:
    """Return peaks at each value, the cost of one more, and per machine the largest value and each value's verdict.

    Args:
        subjects: the run, planned for one machine each; it can be planned changed.
        path: the count to turn.
        values: values to say the peaks of; when there are none, the cost of one more is taken from two of our own.
    """
    first = subjects[0]
    rows = [value_part(value, first.changed({path: value})) for value in values or _around(first, path)]
    return CapacityDocument(
        target=CapacityTargetPart(name=first.asked.name, about=first.asked.get("about")),
        vary=path,
        per_unit=tuple(_unit_cost(rows[0], rows[-1], device) for device in DEVICES if rows[0].peak(device)),
        values=tuple(without_limits(row) for row in rows),
        machines=tuple(_machine(subject, path, values) for subject in subjects),
    )


def _around(subject: Subject, path: str) -> tuple[int, int]:
    """Two values to take the cost of one more from, when none were asked for."""
    now = int(subject.spec.get(path, 1))
    return now, 2 * now


def _unit_cost(first: ValuePart, last: ValuePart, device: str) -> UnitCostPart:
    low, high = first.peak(device), last.peak(device)
    assert low is not None and high is not None
    span = last.value - first.value
    per_unit = (high.expected_bytes - low.expected_bytes) // span if span else None
    return UnitCostPart(device=device, bytes=per_unit, fixed_bytes=low.expected_bytes - (per_unit or 0) * first.value)


def _machine(subject: Subject, path: str, values: Sequence[int]) -> MachineCapacityPart:
    budget = subject.plan.budget
    most = useful(subject.plan, path)
    best = largest(subject.asked, path, subject.plan_of, expected=True)
    safe = largest(subject.asked, path, subject.plan_of)
    return MachineCapacityPart(
        name=budget.name,
        ram_bytes=budget.ram_bytes,
        vram_bytes=budget.vram_bytes,
        largest=best.value,
        largest_safe=safe.value,
        useful=most if most is not None and most in (best.value, safe.value) else None,
        unlimited=best.unlimited,
        needs={top.device: top.expected_bytes for top in best.plan.tops} if best.plan and best.value else {},
        verdicts={str(value): subject.changed({path: value}).verdict for value in values},
    )
