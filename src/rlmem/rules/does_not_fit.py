"""The run needs more memory than there is.

A run that does not fit rarely dies at once: replay buffers are reserved at build and written as training goes on, so
the end comes hours later. The finding names the largest setting that would fit, found by planning again.

Use instead: the setting it names, a machine with more memory, or a store that keeps less per transition.
"""

from __future__ import annotations

from collections.abc import Iterator

from rlmem.findings import Finding
from rlmem.plan import judge, sentence
from rlmem.rules.base import Context, Rule
from rlmem.rules.knobs import knob_for, largest_that_fits


def check(rule: Rule, context: Context) -> Iterator[Finding]:
    """One finding per device that is over its limit."""
    for peak in context.plan.tops:
        if judge(peak) == "does-not-fit":
            change, remedy = largest_that_fits(context, knob_for(context, peak.device), peak.device)
            saves = context.saving(change, "largest that fits") if change else None
            yield rule.finding(
                f"{peak.device.upper()} {sentence(peak)}",
                saves_bytes=saves or None,
                location=peak.phase,
                remedy=remedy,
                changes=change,
            )
