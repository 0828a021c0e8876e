"""Images are stored as floats.

A uint8 image stored as float32 takes four times the bytes (eight as float64) and holds nothing more. It happens when
a framework converts before storing (SB3 before 2.7.1 keeps every rollout in float32, and so does ``torch.zeros``
without a dtype), or when an environment declares its images as a float Box.

In a script it is found in six shapes: a float Box with the sides of an image and the range 0–1 or 0–255; ``/ 255`` in an
observation wrapper or in the method of an environment that makes observations; ``ScaledFloatFrame`` and
``wrap_deepmind(scale=True)``; a frame divided by 255 and then put into a replay memory; a store of your own such as
``np.zeros((capacity, 84, 84, 4))``; and ``torch.zeros((num_steps, num_envs) + envs.single_observation_space.shape)``
over an environment with images, which is float32::

    self.observation_space = Box(0.0, 1.0, shape=(84, 84, 3), dtype=np.float32)     # 83 KiB a row instead of 21

It is information only for a wrapper that its file never builds, for environments made up for a test, and for a space that
stands outside of an environment. A division that does not reach the returned observation, and the 128 bytes of a console's
memory, are no finding.

Use instead: store uint8 and convert when a batch reaches the network. SB3's CnnPolicy divides by 255 itself.

Fix: unsafe for a rollout or store of your own (``dtype=torch.uint8``: the batch then has to be converted); none where an
environment, its space and its network change together.

Reference: DLR-RM/stable-baselines3 2.7.1 changelog; ray-project/ray#9624.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from rlmem.core.findings import Finding
from rlmem.core.schedule import schedule
from rlmem.core.spaces import Box, DictSpace, Space, describe_space
from rlmem.core.subject import Subject
from rlmem.rules import float_image_script as scripted
from rlmem.rules.base import Rule

check_script = scripted.check_script
FIXED = "2.9.2"
_IMAGE_RANK = 3


def check(rule: Rule, subject: Subject) -> Iterator[Finding]:
    """Converted by the framework, or declared as floats."""
    spec = subject.spec
    if _stored_wide(subject):
        changes = {"framework.version": FIXED}
        saves = subject.saving(changes) if spec.text("framework.name") == "sb3" else 0
        if saves:
            yield rule.finding(
                f"sb3 {spec.text('framework.version')} stores uint8 rollout images as float32, four times the bytes",
                saves_bytes=saves,
                location="framework.version",
                remedy="upgrade stable-baselines3 to 2.7.1 or newer",
                changes=changes,
            )
        else:
            yield rule.finding(
                "uint8 images are kept in a float32 rollout, four times the bytes",
                location="rollout.observations",
                remedy="allocate the rollout with dtype=torch.uint8",
            )
    declared = subject.asked.get("observation")
    if declared is not None and (better := _as_uint8(declared)) != declared:
        change = {"observation": describe_space(better)}
        yield rule.finding(
            "an image is declared as a float Box, four or eight times the bytes of uint8",
            saves_bytes=subject.saving(change) or None,
            location="observation",
            remedy="declare a uint8 Box and normalise in the network",
            changes=change,
        )


def _stored_wide(subject: Subject) -> bool:
    """Whether an image takes more bytes in the rollout than the space says."""
    for leaf in subject.spec.observation_leaves:
        name = f"rollout.observations[{leaf.name}]" if leaf.name else "rollout.observations"
        held = subject.plan.ledger.only(phase="collect", component=name).nbytes
        steps = schedule(subject.spec)
        if leaf.is_image and steps and held > steps.samples * leaf.nbytes:
            return True
    return False


def _as_uint8(space: Space) -> Space:
    if isinstance(space, Box) and _looks_like_image(space):
        return replace(space, dtype="uint8")
    if isinstance(space, DictSpace):
        return DictSpace(spaces=tuple((key, _as_uint8(sub)) for key, sub in space.spaces))
    return space


def _looks_like_image(space: Box) -> bool:
    """Three dimensions with 1, 3 or 4 channels (times a stack), values in 0–1 or 0–255 where bounds are given."""
    if not space.dtype.startswith("float") or len(space.shape) != _IMAGE_RANK:
        return False
    known_range = space.high in (1.0, 255.0) and space.low == 0.0
    channels = min(space.shape)
    return known_range or (space.high is None and channels in (1, 3, 4) and sorted(space.shape)[1] >= 16)
