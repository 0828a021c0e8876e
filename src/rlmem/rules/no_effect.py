"""A setting that is believed to cost memory has no effect on it here.

Advice that saves nothing hides the advice that would. The finding names the setting and the reason:
``SAVE_REPLAY_BUFFER`` on an on-policy run (there is no replay buffer), ``worker_num`` where multiprocessing is off,
``max_memo`` for an on-policy agent, ``empty_cache()`` for RAM (torch's caching allocator holds VRAM), thread counts
for gigabytes of stacks.

Use instead: leave it as it is, and look at the components that do hold memory.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from rlmem.core.findings import Finding
from rlmem.core.spec import RunSpec
from rlmem.core.subject import Subject
from rlmem.frameworks import OFF_POLICY_ONLY, ON_POLICY_ONLY
from rlmem.rules.base import Rule


def _on_policy(spec: RunSpec) -> bool:
    return "buffer_size" not in spec


def _on_cpu(spec: RunSpec) -> bool:
    return bool(spec.get("device", "cpu") == "cpu")


#: Setting (lower case), when it has no effect, and why.
SETTINGS: tuple[tuple[str, Callable[[RunSpec], bool], str], ...] = (
    ("save_replay_buffer", _on_policy, "an on-policy run has no replay buffer to save"),
    ("max_memo", _on_policy, "it sizes off-policy buffers; this run is on-policy"),
    (
        "worker_num",
        lambda spec: spec.get("vec_env") != "subproc",
        "no worker processes are started here; workers would be processes, each with its own interpreter",
    ),
    ("thread_num", lambda spec: True, "threads reserve stacks, they do not fill them"),
    ("empty_cache", lambda spec: True, "torch's caching allocator holds VRAM; emptying it does not lower RSS"),
    ("pytorch_cuda_alloc_conf", _on_cpu, "it configures the CUDA allocator; this run is on the CPU"),
    ("pin_memory", _on_cpu, "pinned memory is only used for copies to a GPU"),
)


def check(rule: Rule, subject: Subject) -> Iterator[Finding]:
    """One finding per setting in the description that is known to have no effect here."""
    given = {str(name).lower(): name for name in subject.spec.get("settings", {})}
    for setting, idle, why in SETTINGS:
        if setting in given and idle(subject.spec):
            yield rule.finding(
                f"{given[setting]} has no memory effect: {why}", saves_bytes=0, location=f"settings.{given[setting]}"
            )
    kind = "on-policy" if _on_policy(subject.spec) else "off-policy"
    for path in (*OFF_POLICY_ONLY, *ON_POLICY_ONLY):
        if path in subject.asked and path not in subject.spec and not subject.asked.origin(path).startswith("remedy"):
            yield rule.finding(
                f"{path} has no memory effect: {subject.spec.text('algorithm')} is {kind}", saves_bytes=0, location=path
            )
    if _on_policy(subject.spec) and subject.spec.flag("checkpoint.save_replay_buffer"):
        yield rule.finding(
            "checkpoint.save_replay_buffer has no memory effect: an on-policy run has no replay buffer",
            saves_bytes=0,
            location="checkpoint.save_replay_buffer",
        )
