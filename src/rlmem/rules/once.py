"""The remedy that several rules share: rlmem's own buffer in place of the framework's, and what the run is then."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rlmem.core.ledger import Entry, matches
from rlmem.core.plan import Plan, verdict_of
from rlmem.core.subject import Subject
from rlmem.errors import SpecError
from rlmem.frameworks import find_adapter
from rlmem.frameworks.base import Swap
from rlmem.units import format_size

CHANGES: Mapping[str, Any] = {"storage": "compact"}


def swap_for(subject: Subject) -> Swap | None:
    """The compact buffer for this run, where there is one."""
    return find_adapter(subject.spec).swap(subject.spec)


def remedy(subject: Subject, swap: Swap, changes: Mapping[str, Any] = CHANGES, *, also: str = "") -> str:
    """What to write, what else it takes, whether the run fits then, and what a codec adds to that."""
    parts = [swap.sentence]
    if also:
        parts.append(also)
    try:
        after = subject.changed(changes)
    except SpecError:
        return "; ".join(parts)
    parts += [text for text in (_fits(subject, after), _codec(subject, swap, after, changes)) if text]
    return "; ".join(parts)


def _fits(subject: Subject, after: Plan) -> str | None:
    """Whether a run that did not fit fits then."""
    before, now = subject.plan.top("ram"), after.top("ram")
    if before is None or now is None or now.limit_bytes is None:
        return None
    size = format_size(now.expected_bytes)
    if verdict_of(before) in ("does-not-fit", "tight"):
        word = {"fits": "it then fits", "tight": "it is then tight"}.get(verdict_of(now), "still too much then")
        return f"{word}: {size} of {format_size(now.limit_bytes)}"
    return None


def _codec(subject: Subject, swap: Swap, after: Plan, changes: Mapping[str, Any]) -> str | None:
    """What ``codec="auto"`` saves beyond that, where a sample of the data was seen."""
    if swap.options is None or "coded_bytes" not in subject.asked:
        return None
    coded = subject.changed({**changes, "codec": "auto"})
    before, with_codec = ([e.amount for e in _stored(plan)] for plan in (after, coded))
    whole = sum(amount.value for amount in before)
    high, expected, low = (
        whole - sum(sizes)
        for sizes in zip(*((amount.low, amount.value, amount.high) for amount in with_codec), strict=True)
    )
    if expected <= 0:
        return None
    bounds = f"{format_size(max(low, 0))} to {format_size(high)}"
    return f'{swap.options}={{"codec": "auto"}} saves {format_size(expected)} more ({bounds})'


def _stored(plan: Plan) -> list[Entry]:
    """What a plan's store keeps of observations, full."""
    held = plan.ledger.only(device="ram", phase="collect").entries
    return [
        e for e in held if matches(e.component, "replay.observations") or matches(e.component, "rollout.observations")
    ]
