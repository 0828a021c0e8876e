"""Evaluation keeps environments of its own, all the time.

The evaluation environments are built beside the training ones and live until the run ends, not only while they are
used. As many of them as training environments double that part of the memory.

In a script, the rule fires for an ``EvalCallback`` whose environment has workers of its own: an interpreter each, idle most of
the time.

Example::

    eval_env = make_vec_env("Hopper-v5", n_envs=8, vec_env_cls=SubprocVecEnv)
    EvalCallback(eval_env, eval_freq=10_000)

Use instead: one evaluation environment, or build it for an evaluation and close it after.

Fix: none.

Reference: huggingface/lerobot#3274; TensorAuto/OpenTau#419.
"""

from __future__ import annotations

from collections.abc import Iterator

from rlmem.core.findings import Finding
from rlmem.core.subject import Subject
from rlmem.rules.base import Rule
from rlmem.rules.workers import how_many, worker_bytes
from rlmem.scripts import Script
from rlmem.scripts.training import environment_of, models
from rlmem.units import MIB

SEVERAL = 2
#: Workers that together hold so much are worth a warning.
WORTH_BYTES = 512 * MIB


def check(rule: Rule, subject: Subject) -> Iterator[Finding]:
    """Fires when evaluation has as many environments as training, and more than one."""
    evaluation, training = subject.spec.get("eval.n_envs", 0), subject.spec.count("n_envs")
    if evaluation < max(training, 2):
        return
    changes = {"eval.n_envs": 1}
    yield rule.finding(
        f"{evaluation} evaluation environments stand beside {training} training ones for the whole run",
        saves_bytes=subject.saving(changes) or None,
        location="eval.n_envs",
        remedy="one evaluation environment is enough for a mean over episodes",
        changes=changes,
    )


def check_script(rule: Rule, script: Script) -> Iterator[Finding]:
    """Evaluation callbacks over environments with workers."""
    training = [found.call for model in models(script) if (found := environment_of(script, model.env)) is not None]
    for call in script.calls_of("EvalCallback", "MaskableEvalCallback", roots=("stable_baselines3", "sb3_contrib")):
        environment = environment_of(script, script.argument(call, "eval_env", 0))
        if environment is None or not environment.has_workers or (environment.n_envs or 0) < SEVERAL:
            continue
        if environment.call in training:  # the training environment itself: nothing stands by
            continue
        cost = worker_bytes() * (environment.n_envs or 0) if environment.kind == "subproc" else None
        yield rule.finding(
            f"{how_many(environment)} stand by for evaluation all the time",
            severity="warning" if cost is not None and cost >= WORTH_BYTES else rule.severity,
            place=script.place(call),
            costs_bytes=cost,
            remedy="one evaluation environment in a DummyVecEnv is enough for a mean over episodes",
        )
