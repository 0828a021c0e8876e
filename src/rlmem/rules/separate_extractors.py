"""Actor and critic each own a copy of the feature extractor.

SAC, TD3 and their kin default to ``share_features_extractor=False``: the actor, the critic and each target hold an
extractor with its gradients and optimizer state, and every update runs images through all of them.

Use instead: ``policy_kwargs=dict(share_features_extractor=True)`` if the features may be learned by the actor's
loss alone (the critic then trains no extractor), which changes learning.
"""

from __future__ import annotations

from collections.abc import Iterator

from rlmem.core.findings import Finding
from rlmem.core.subject import Subject
from rlmem.rules.base import Rule
from rlmem.units import MIB

WORTH_BYTES = 4 * MIB


def check(rule: Rule, subject: Subject) -> Iterator[Finding]:
    """Fires when sharing would save something worth having."""
    spec = subject.spec
    if spec.text("framework.name") != "sb3" or spec.get("network.share_features_extractor", True):
        return
    changes = {"network.share_features_extractor": True}
    saves = subject.saving(changes)
    if saves > WORTH_BYTES:
        yield rule.finding(
            "actor, critic and targets each own a feature extractor",
            saves_bytes=saves or None,
            location="network.share_features_extractor",
            remedy="share_features_extractor=True in policy_kwargs (learning changes)",
            changes=changes,
        )
