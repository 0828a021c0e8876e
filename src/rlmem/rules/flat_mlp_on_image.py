"""A fully connected policy on images.

``MlpPolicy`` flattens an image into thousands of inputs, and every hidden unit of the first layer has a weight for each, in
the actor, the critic and their targets; gradients and Adam's two averages make 16 bytes of each weight. A CarRacing frame has
27,648 values: PPO's two first layers take 54 MiB and SAC's, with their targets, 378 MiB, where the convolutions of
``CnnPolicy`` would see more with less.

The rule fires for ``MlpPolicy`` on observations of more than 5,000 values: Atari and CarRacing by their id, and environments of the
script by their Box.

Example::

    PPO("MlpPolicy", "CarRacing-v3")

Use instead: ``CnnPolicy``; a smaller image; for long histories a smaller first layer or a feature extractor.

Fix: none (the network is another one then).

Reference: DLR-RM/stable-baselines3#2165; found in a public SAC project, 6.3 million parameters in first layers.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import prod
from typing import Any

from rlmem.core.findings import Finding
from rlmem.core.subject import Subject
from rlmem.rules.base import Rule
from rlmem.rules.observed import observed
from rlmem.scripts import UNKNOWN, Script
from rlmem.scripts.training import Model, models
from rlmem.units import format_size

#: Values of one observation from which on a first layer is worth a word.
MANY_VALUES = 5000
#: Weight, gradient and Adam's two averages; a target network has the weight alone.
_TRAINED, _TARGET = 16, 4
#: Width of the first layer, trained networks and targets, by algorithm.
_NETWORKS = {
    "PPO": (64, 2, 0), "A2C": (64, 2, 0), "TRPO": (64, 2, 0), "MaskablePPO": (64, 2, 0), "DQN": (64, 1, 1),
    "QRDQN": (64, 1, 1), "SAC": (256, 3, 2), "TQC": (256, 3, 2), "TD3": (400, 3, 3), "DDPG": (400, 2, 2),
}  # fmt: skip


def check(rule: Rule, subject: Subject) -> Iterator[Finding]:
    """Fires when a flattened observation has many values and no feature layers come before the hidden ones."""
    spec = subject.spec
    values = sum(prod(leaf.shape) for leaf in spec.observation_leaves)
    if spec.text("framework.name") != "sb3" or values < MANY_VALUES or spec.get("network.extractor") != "flatten":
        return
    image = len(spec.observation_leaves) == 1 and spec.observation_leaves[0].is_image
    changes = {"network.extractor": "nature"} if image else {}
    saves = subject.saving(changes) if changes else 0
    yield rule.finding(
        f"the first layers take all {values:,} values of an observation, flattened",
        saves_bytes=saves or None,
        location="network.extractor",
        remedy="CnnPolicy" if image else "a smaller first layer, or a feature extractor before it",
        changes=changes,
    )


def check_script(rule: Rule, script: Script) -> Iterator[Finding]:
    """``MlpPolicy`` on an observation that is known to be large."""
    for model in models(script):
        shape = observed(script, model).shape if model.policy == "MlpPolicy" else None
        if shape is None or prod(shape) < MANY_VALUES or _has_extractor(model):
            continue
        nbytes = _first_layers(model, prod(shape))
        size = f": {format_size(nbytes)} of weights, gradients and averages in first layers" if nbytes else ""
        image = len(shape) > 1
        yield rule.finding(
            f"MlpPolicy takes {' × '.join(map(str, shape))} values flattened{size}",
            place=script.place(script.argument(model.call, "policy", 0) or model.call),
            costs_bytes=nbytes,
            remedy='"CnnPolicy"' if image else "a smaller first layer, or a feature extractor before it",
        )


def _options(model: Model) -> dict[str, Any] | None:
    options = model.value("policy_kwargs")
    if options is None:
        return {}
    return options if isinstance(options, dict) else None


def _has_extractor(model: Model) -> bool:
    """Whether a feature extractor stands before the first layer, or may."""
    given = model.argument("policy_kwargs")
    if given is None:
        return model.value("policy_kwargs") is UNKNOWN
    return "features_extractor_class" in model.script.text or "extractor" in model.script.segment(given)


def _first_layers(model: Model, values: int) -> int | None:
    """Bytes of the first layers' weights with what their training adds."""
    options = _options(model)
    if options is None or model.algorithm not in _NETWORKS:
        return None
    width, trained, targets = _NETWORKS[model.algorithm]
    arch = options.get("net_arch")
    if isinstance(arch, dict):
        arch = next((part for part in arch.values() if isinstance(part, (list, tuple))), None)
    if isinstance(arch, (list, tuple)) and arch and isinstance(arch[0], int):
        width = arch[0]
    elif arch is not None:
        return None
    return values * width * (trained * _TRAINED + targets * _TARGET)
