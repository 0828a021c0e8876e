"""The states of recurrent networks are stored at every step.

``RecurrentPPO`` keeps hidden and cell states of the actor and of the critic for every step of every environment, beside the
observations: four float32 arrays of ``n_steps × n_envs × layers × hidden``. With small observations they are most of the
rollout. ``enable_critic_lstm=False`` saves a network, but not these arrays: sb3-contrib fills all four either way.

Example::

    RecurrentPPO("MlpLstmPolicy", env, n_steps=2048, policy_kwargs=dict(lstm_hidden_size=512))   # 32 KiB a step

Use instead: a smaller ``lstm_hidden_size``, one layer, fewer steps.

Fix: none.

Reference: Stable-Baselines-Team/stable-baselines3-contrib#103; sb3-contrib 2.9, common/recurrent/buffers.py.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from rlmem.core.findings import Finding
from rlmem.core.subject import Subject
from rlmem.rules.base import Rule
from rlmem.rules.large_rollout import rollout_samples
from rlmem.scripts import UNKNOWN, Script
from rlmem.scripts.training import Model, models
from rlmem.units import MIB, format_size

WORTH_BYTES, LARGE_BYTES = MIB, 512 * MIB
#: Hidden and cell state, of actor and critic, float32.
_BYTES = 4 * 4


def check(rule: Rule, subject: Subject) -> Iterator[Finding]:
    """Fires when half the width would save something worth having."""
    spec = subject.spec
    if spec.text("algorithm") != "recurrent_ppo":
        return
    names = ("hidden_states_pi", "cell_states_pi", "hidden_states_vf", "cell_states_vf")
    held = [subject.plan.ledger.only(phase="collect", component=f"rollout.{name}").nbytes for name in names]
    changes = {"network.lstm_hidden": max(spec.count("network.lstm_hidden") // 2, 1)}
    saves = subject.saving(changes)
    if sum(held) >= WORTH_BYTES:
        yield rule.finding(
            f"the rollout keeps {format_size(sum(held))} of recurrent states, four arrays of every step",
            saves_bytes=saves or None,
            location="network.lstm_hidden",
            remedy=f"lstm_hidden_size={changes['network.lstm_hidden']} halves them (learning changes)",
            changes=changes,
        )


def check_script(rule: Rule, script: Script) -> Iterator[Finding]:
    """Every ``RecurrentPPO`` whose states are worth a word."""
    for model in models(script):
        if model.algorithm != "RecurrentPPO":
            continue
        nbytes = _state_bytes(script, model)
        if nbytes is not None and nbytes >= WORTH_BYTES:
            yield rule.finding(
                f"RecurrentPPO stores {format_size(nbytes)} of hidden and cell states beside the observations",
                severity="warning" if nbytes >= LARGE_BYTES else rule.severity,
                place=script.place(model.call),
                costs_bytes=nbytes,
                remedy="a smaller lstm_hidden_size in policy_kwargs, or fewer steps (learning changes)",
            )


def _state_bytes(script: Script, model: Model) -> int | None:
    samples = rollout_samples(script, model)
    options = model.value("policy_kwargs")
    if samples is None or options is UNKNOWN:
        return None
    known: dict[str, Any] = options if isinstance(options, dict) else {}
    hidden, layers = known.get("lstm_hidden_size", 256), known.get("n_lstm_layers", 1)
    return samples * hidden * layers * _BYTES if isinstance(hidden, int) and isinstance(layers, int) else None
