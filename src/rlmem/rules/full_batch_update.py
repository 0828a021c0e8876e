"""The whole rollout goes through the network as one batch.

Activations are kept per *sample*. One batch over all steps of all agents keeps every layer's activations for every
sample at once; minibatches keep them for one minibatch.

In a script, the rule fires for convolutional policies of SB3: a ``batch_size`` that is the whole rollout, or several thousand
images. Through SB3's own network an 84 × 84 × 4 image takes about 0.4 MB while gradients are computed, so that 4,096 of them take
1.6 GB.

Example::

    model = PPO("CnnPolicy", make_atari_env("ALE/Pong-v5", n_envs=16), n_steps=512, batch_size=8192)

Use instead: minibatches, with gradients accumulated if the update must stay the same.

Fix: none.

Reference: DLR-RM/stable-baselines3#863, #1630.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import prod

from rlmem.core.findings import Finding
from rlmem.core.schedule import schedule
from rlmem.core.subject import Subject
from rlmem.rules.base import Rule
from rlmem.rules.large_rollout import rollout_samples
from rlmem.rules.observed import observed
from rlmem.scripts import Script
from rlmem.scripts.training import IMAGE_POLICIES, Model, models
from rlmem.units import MIB

#: One batch of a small rollout (A2C's 5 steps) is how the algorithm works; below this it is not worth a word.
WORTH_BYTES = 64 * MIB
#: No smaller minibatch is suggested.
SMALLEST = 32
#: Images in one batch that are many by themselves, and those that are many for a whole rollout.
MANY_IMAGES, WHOLE_ROLLOUT = 8192, 1024
_IMAGE_RANK = 3


def check(rule: Rule, subject: Subject) -> Iterator[Finding]:
    """Fires when one batch holds the rollout and smaller ones would save something worth having."""
    plan = schedule(subject.spec)
    if plan is None or plan.minibatches > 1 or plan.samples <= SMALLEST or plan.with_replacement:
        return
    smaller = max(plan.samples // 64, SMALLEST)
    changes = {"batch_size": smaller}
    saves = subject.saving(changes)
    if saves > WORTH_BYTES:
        yield rule.finding(
            f"one update is a single batch of {plan.samples:,} samples, activations and all",
            saves_bytes=saves or None,
            location="batch_size",
            remedy=f"minibatches, for example batch_size={smaller:,}",
            changes=changes,
        )


def check_script(rule: Rule, script: Script) -> Iterator[Finding]:
    """Batches of thousands of images in SB3's models."""
    for model in models(script):
        batch, given = model.value("batch_size"), model.argument("batch_size")
        if given is None or not isinstance(batch, int) or model.policy not in IMAGE_POLICIES:
            continue
        samples = rollout_samples(script, model)
        whole = samples is not None and samples <= batch and batch >= WHOLE_ROLLOUT
        if whole or batch >= MANY_IMAGES:
            what = f"the whole rollout of {samples:,} images goes" if whole else f"{batch:,} images go"
            yield rule.finding(
                f"{what} through the network in one batch, activations and all",
                place=script.place(given if given in script.walked.parents else model.call),
                costs_bytes=_batch_bytes(script, model, min(batch, samples) if samples else batch),
                remedy="a smaller batch_size, for example 256",
            )


def _batch_bytes(script: Script, model: Model, batch: int) -> int | None:
    """What SB3's NatureCNN keeps for the backward pass, and the images as floats twice (before and after /255)."""
    shape = observed(script, model).shape
    if shape is None or len(shape) < _IMAGE_RANK:
        return None
    side = sorted(shape, reverse=True)[:2]
    kept = 0
    for channels, kernel, stride in ((32, 8, 4), (64, 4, 2), (64, 3, 1)):
        side = [(length - kernel) // stride + 1 for length in side]
        if min(side) < 1:
            return None
        kept += 2 * channels * prod(side)  # before and after the activation
    return batch * 4 * (2 * prod(shape) + kept + 2 * 512)
