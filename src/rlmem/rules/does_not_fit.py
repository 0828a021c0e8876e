"""The run needs more memory than there is.

A run that does not fit rarely dies at once: replay buffers are reserved at build and written as training goes on, so
the end comes hours later. The finding names the largest setting that would fit, found by planning again.

Use instead: the setting it names, a machine with more memory, or a store that keeps less per transition; the finding
says when the run would fit as it is with rlmem's compact buffer (MEM101, MEM102 and MEM103 have the change).
"""

from __future__ import annotations

from collections.abc import Iterator

from rlmem.core.findings import Finding
from rlmem.core.plan import sentence, verdict_of
from rlmem.core.subject import Subject
from rlmem.errors import SpecError
from rlmem.rules import once
from rlmem.rules.base import Rule
from rlmem.rules.knobs import knob_for, largest_that_fits
from rlmem.units import format_size


def check(rule: Rule, subject: Subject) -> Iterator[Finding]:
    """One finding per device that is over its limit."""
    for peak in subject.plan.tops:
        if verdict_of(peak) == "does-not-fit":
            change, remedy = largest_that_fits(subject, knob_for(subject, peak.device), peak.device)
            saves = subject.saving(change) if change else None
            as_it_is = _as_it_is(subject, peak.device)
            remedy = "; or ".join(text for text in (remedy, as_it_is) if text) or None
            yield rule.finding(
                f"{peak.device.upper()} {sentence(peak)}",
                saves_bytes=saves or None,
                location=peak.phase,
                remedy=remedy,
                changes=change,
            )


def _as_it_is(subject: Subject, device: str) -> str | None:
    """A compact store, where one makes the run fit without changing its settings."""
    swap = once.swap_for(subject)
    if swap is None:
        return None
    try:
        now = subject.changed(once.CHANGES).top(device)
    except SpecError:
        return None
    if now is None or verdict_of(now) not in ("fits", "tight"):
        return None
    return f"as it is with {swap.store}: {format_size(now.expected_bytes)} of {format_size(now.limit_bytes or 0)}"
