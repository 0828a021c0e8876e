"""The knob that decides a run's memory, and how far it can be turned; shared by the rules about limits."""

from __future__ import annotations

from typing import Any

from rlmem.capacity import Capacity, largest
from rlmem.core.spec import RunSpec
from rlmem.core.subject import Subject
from rlmem.units import format_count


def main_knob(spec: RunSpec) -> str:
    """What users turn first: the buffer of an off-policy run, the agents of a swarm, actors of RLlib, else the environments."""
    if "buffer_size" in spec:
        return "buffer_size"
    if spec.get("rllib.num_env_runners"):
        return "rllib.num_env_runners"
    return "agents" if spec.count("agents") > 1 else "n_envs"


def knob_for(subject: Subject, device: str) -> str:
    """What to turn for a device: stores are usually in RAM, and then only the batch decides about VRAM."""
    stored = subject.plan.ledger.only(device="vram", phase="collect").entries
    if device == "vram" and not any(entry.group in ("replay", "rollout") for entry in stored):
        return "batch_size"
    return main_knob(subject.spec)


def largest_that_fits(subject: Subject, knob: str, device: str | None = None) -> tuple[dict[str, Any], str | None]:
    """The change and the sentence for the largest value of a knob that fits a device, or all, upper bound included.

    Nothing where as much fits as there is: what a run would do with more is not for a rule to say.
    """
    found: Capacity = largest(subject.asked, knob, subject.plan_of, device=device)
    now = subject.spec.count(knob)
    if found.value is None:
        if found.unlimited:
            return {}, None
        return {}, f"no value of {knob} makes it fit"
    value = rounded_down(found.value)
    if value >= now:
        return {}, None
    return {knob: value}, f"{knob} at most {format_count(value)} fits (now {format_count(now)})"


def rounded_down(value: int) -> int:
    """Two significant figures, never more than the value."""
    if value < 100:
        return value
    scale = int(10 ** (len(str(value)) - 2))
    return value // scale * scale
