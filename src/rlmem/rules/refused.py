"""The framework will refuse this combination when the model is built.

``optimize_memory_usage=True`` fails in SB3 together with timeout handling, with Dict observations, with n-step and
with HER; Dict or Tuple observations inside one another are not supported at all.

Use instead: drop the option the finding names, or a buffer that supports the combination.

Reference: ``ReplayBuffer.__init__`` and ``check_for_nested_spaces`` in SB3 2.9.2; DLR-RM/stable-baselines3#243.
"""

from __future__ import annotations

from collections.abc import Iterator

from rlmem.findings import Finding
from rlmem.rules.base import Context, Rule
from rlmem.spaces import DictSpace, TupleSpace, is_nested
from rlmem.spec import RunSpec


def refuses_sharing(spec: RunSpec) -> str | None:
    """Why the framework will not share next observations, if it will not."""
    if spec.text("framework.name") not in ("sb3", "cleanrl"):
        return None
    if isinstance(spec.observation, (DictSpace, TupleSpace)):
        return "DictReplayBuffer does not support optimize_memory_usage"
    kind = spec.get("replay.kind", "plain")
    if kind in ("her", "n-step"):
        return f"{'HerReplayBuffer' if kind == 'her' else 'NStepReplayBuffer'} does not support optimize_memory_usage"
    return None


def check(rule: Rule, context: Context) -> Iterator[Finding]:
    """One finding per refusal."""
    spec = context.spec
    if spec.text("framework.name") == "sb3" and is_nested(spec.observation):
        yield rule.finding(
            "SB3 does not support nested observation spaces",
            location="observation",
            remedy="flatten the inner Dict or Tuple into keys of the outer one",
        )
    if not spec.flag("optimize_memory_usage"):
        return
    reason = refuses_sharing(spec)
    if reason is None and spec.flag("handle_timeout_termination"):
        reason = "ReplayBuffer does not support optimize_memory_usage and handle_timeout_termination together"
    if reason:
        yield rule.finding(
            reason,
            location="optimize_memory_usage",
            remedy="drop optimize_memory_usage, or use a buffer that supports it here",
        )
