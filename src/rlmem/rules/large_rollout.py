"""A rollout of images takes gigabytes.

On-policy algorithms keep every observation of ``n_steps × n_envs`` steps until the update. With images that product decides
the memory of the run: 2,048 steps of 16 environments with four Atari frames are 0.86 GiB, and as much again when the rollout is
flattened for its minibatches.

The rule fires from 1 GiB on (for information), and warns when the observations take a quarter of the budget of a plan, or 4 GiB in
a script, where the budget is not known.

Example::

    env = make_vec_env(ScreenEnv, n_envs=16)           # Box(0, 255, (144, 160, 3), uint8)
    model = PPO("CnnPolicy", env, n_steps=8192)        # 8192 × 16 × 69,120 B = 8.44 GiB

Use instead: fewer steps or environments, smaller or grey frames, frames kept once (MEM102).

Fix: none.

Reference: DLR-RM/stable-baselines3#834; isaac-sim/IsaacLab#7147; PKU-MARL/HARL#58.
"""

from __future__ import annotations

from collections.abc import Iterator

from rlmem.core.findings import Finding
from rlmem.core.subject import Subject
from rlmem.rules.base import Rule
from rlmem.rules.observed import observed
from rlmem.scripts import Script
from rlmem.scripts.training import Model, environment_of, models
from rlmem.units import GIB, format_size

WORTH_BYTES = GIB
#: Without a budget, a rollout that no small machine takes.
LARGE_BYTES = 4 * GIB
#: Of a budget; the flatten copy of SB3 doubles it.
LARGE_SHARE = 4
#: ``n_steps`` where nobody says.
DEFAULT_STEPS = {"PPO": 2048, "MaskablePPO": 2048, "TRPO": 2048, "RecurrentPPO": 128, "A2C": 5}


def check(rule: Rule, subject: Subject) -> Iterator[Finding]:
    """Fires when the observations of a rollout take a gigabyte or more."""
    spec = subject.spec
    if "n_steps" not in spec or "buffer_size" in spec or spec.count("n_steps") < 2:
        return
    held = subject.plan.ledger.only(phase="collect", component="rollout.observations")
    if not any(leaf.is_image for leaf in spec.observation_leaves) or held.nbytes < WORTH_BYTES:
        return
    device = held.entries[0].device
    limit = subject.plan.budget.limits.get(device)
    large = limit is not None and held.nbytes * LARGE_SHARE > limit
    changes = {"n_steps": spec.count("n_steps") // 2}
    yield rule.finding(
        f"the rollout keeps {format_size(held.nbytes)} of images until each update",
        severity="warning" if large else "info",
        saves_bytes=subject.saving(changes) or None,
        location="n_steps",
        remedy=f"fewer steps or environments: n_steps={changes['n_steps']:,} halves it (learning changes)",
        changes=changes,
    )


def check_script(rule: Rule, script: Script) -> Iterator[Finding]:
    """PPO and its kin over images whose size, number of environments and steps are known."""
    for model in models(script):
        nbytes = rollout_bytes(script, model)
        if nbytes is None or nbytes < WORTH_BYTES:
            continue
        given = model.argument("n_steps")
        yield rule.finding(
            f"{model.algorithm} keeps a rollout of {format_size(nbytes)} of images, and SB3 flattens it into a copy",
            severity="warning" if nbytes >= LARGE_BYTES else "info",
            place=script.place(given if given is not None and given in script.walked.parents else model.call),
            costs_bytes=nbytes,
            remedy="fewer steps or environments, smaller or grey frames",
        )


def rollout_bytes(script: Script, model: Model) -> int | None:
    """The observations of a rollout of images; ``None`` when any factor is not known."""
    seen, samples = observed(script, model), rollout_samples(script, model)
    if not seen.image or seen.nbytes is None or samples is None:
        return None
    return samples * seen.nbytes


def rollout_samples(script: Script, model: Model) -> int | None:
    """``n_steps × n_envs`` of an on-policy model; ``None`` when either is not known."""
    steps = model.value("n_steps")
    if steps is None:
        steps = DEFAULT_STEPS.get(model.algorithm)
    environment = environment_of(script, model.env)
    count = environment.n_envs if environment is not None else None
    if model.off_policy or not isinstance(steps, int) or count is None:
        return None
    return steps * count
