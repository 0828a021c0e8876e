"""The run fits with almost nothing to spare, or its upper bound does not fit.

The expected peak is under the limit, but the range reaches past it or less than 5 % is left: another process, a
larger first evaluation or a longer log is enough to end the run.

Use instead: a little less of whatever grows (the finding names the largest value whose upper bound fits).
"""

from __future__ import annotations

from collections.abc import Iterator

from rlmem.core.findings import Finding
from rlmem.core.plan import sentence, verdict_of
from rlmem.core.subject import Subject
from rlmem.rules.base import Rule
from rlmem.rules.knobs import knob_for, largest_that_fits


def check(rule: Rule, subject: Subject) -> Iterator[Finding]:
    """One finding per device that is close to its limit."""
    for peak in subject.plan.tops:
        if verdict_of(peak) == "tight":
            _, remedy = largest_that_fits(subject, knob_for(subject, peak.device), peak.device)
            yield rule.finding(f"{peak.device.upper()} {sentence(peak)}", location=peak.phase, remedy=remedy)
