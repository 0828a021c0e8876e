"""Steps and remedies as documents have them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rlmem.core.fields import fields_diff, find_field, plain_value
from rlmem.core.plan import sentence
from rlmem.documents.fit import RemedyPart, SingleRemedyPart, StepPart
from rlmem.remedies.base import SingleStep, Step


def step_part(step: Step) -> StepPart:
    """Return a remedy applied as documents have it."""
    return StepPart(**_told(step))


def single_remedy_part(item: SingleStep) -> SingleRemedyPart:
    """Return a remedy by itself as documents have it."""
    return SingleRemedyPart(**_told(item.step), fits=item.fits)


def remedy_part(
    step: Step, *, fits: bool, diff: str, text: str | None = None, by_hand: tuple[str, ...] = ()
) -> RemedyPart:
    """Return a remedy with the change to make as documents have it."""
    after = tuple(f"{top.device.upper()} {sentence(top)}" for top in step.after.plan.tops)
    return RemedyPart(**_told(step), fits=fits, after=after, diff=diff, text=text, by_hand=by_hand)


def _told(step: Step) -> dict[str, Any]:
    return {
        "name": step.remedy.name,
        "kind": step.remedy.kind,
        "title": step.remedy.title,
        "changes": plain_changes(step.change.values),
        "old": plain_changes(step.old),
        "saves_bytes": step.saves,
        "slowdown": step.remedy.slowdown,
        "slowdown_basis": step.remedy.basis,
        "costs": step.remedy.costs,
        "how": step.change.how,
    }


def plain_changes(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return values of fields as JSON has them."""
    return {path: plain_value(find_field(path), value) for path, value in values.items()}


def step_diff(step: Step) -> str:
    """Return the fields that a step changes; one that only has to be said, lest it follow another, has no old line."""
    new, asked = step.change.values, step.before.asked
    old = {path: asked.get(path) if value is None else value for path, value in step.old.items()}
    return fields_diff({path: value for path, value in old.items() if path in asked or value != new[path]}, new)
