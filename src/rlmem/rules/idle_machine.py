"""Most of the machine stays idle.

Less than half of the limiting memory is used at the peak. That is not a fault; it is room for more environments or a
larger buffer, and the finding says how much, by planning again at the edge.

Use instead: more of the knob it names, if the run would gain from it.
"""

from __future__ import annotations

from collections.abc import Iterator

from rlmem.findings import Finding
from rlmem.plan import judge
from rlmem.rules.base import Context, Rule
from rlmem.rules.knobs import largest_that_fits, main_knob
from rlmem.units import format_size

IDLE_SHARE = 0.5


def check(rule: Rule, context: Context) -> Iterator[Finding]:
    """At most one finding, for the device nearest to its limit."""
    peak = context.plan.deciding
    limit = peak.limit_bytes
    if limit is None or judge(peak) != "fits" or peak.expected_bytes > IDLE_SHARE * limit:
        return
    change, remedy = largest_that_fits(context, main_knob(context.spec))
    if change:
        share = round(100 * peak.expected_bytes / limit)
        title = f"{share} % of {format_size(limit)} {peak.device.upper()} is used at the peak; the rest is idle"
        yield rule.finding(title, location=peak.phase, remedy=remedy)
