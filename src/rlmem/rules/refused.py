"""The framework will refuse this combination when the model is built.

In SB3, `optimize_memory_usage=True` fails together with timeout handling, with Dict observations, with n-step and with
HER; Tuple and nested observations are not supported at all; each algorithm takes certain actions only; n-step buffers
exist from 2.7.0 on.

Use instead: drop the option the finding names, or a buffer that supports the combination: ``CompactReplayBuffer`` of
``rlmem.sb3`` takes Dict observations, n-step, hindsight and timeouts, and stores every observation once without the option.

Reference: ``ReplayBuffer.__init__`` and ``check_for_nested_spaces`` in SB3 2.9.2; DLR-RM/stable-baselines3#243.
"""

from __future__ import annotations

from collections.abc import Iterator

from rlmem.findings import Finding
from rlmem.frameworks import find_adapter
from rlmem.rules.base import Context, Rule


def check(rule: Rule, context: Context) -> Iterator[Finding]:
    """One finding per refusal the framework's adapter knows of."""
    for refusal in find_adapter(context.spec).refusals(context.spec):
        yield rule.finding(refusal.reason, severity=refusal.severity, location=refusal.location, remedy=refusal.remedy)
