"""RLlib on Ray, new API stack: PPO, DQN, SAC, IMPALA and APPO, by role and process."""

from __future__ import annotations

from rlmem.core.spec import RunSpec
from rlmem.frameworks.base import Adapter, Refusal
from rlmem.frameworks.rllib.algorithms import rehearsal
from rlmem.frameworks.rllib.counts import ASYNC, counts
from rlmem.frameworks.rllib.defaults import DEFAULTS, LATEST, ON_POLICY, resolve

__all__ = ["ADAPTER", "counts"]


def refusals(spec: RunSpec) -> tuple[Refusal, ...]:
    """What RLlib will not start."""
    if spec.get("rllib.num_aggregators") and spec.text("algorithm") not in ASYNC:
        return (
            Refusal(
                reason=f"{spec.text('algorithm')} has no aggregator actors",
                location="rllib.num_aggregators",
                remedy="remove num_aggregator_actors_per_learner, or use impala or appo",
                severity="warning",
            ),
        )
    return ()


def notes(spec: RunSpec) -> tuple[str, ...]:
    """What the reader should know."""
    found = [
        f"RLlib as read in {LATEST}, new API stack; Ray's own processes and the object store are counted once, as on one node."
    ]
    if spec.text("algorithm") == "ppo":
        found.append(
            "PPO's value pass runs over the whole train batch with gradients on: it keeps a graph of train_batch samples."
        )
    found += [f"{what}; its part of the plan is assumed" for what in spec.get("rllib.untried", ())]
    return tuple(found)


ADAPTER = Adapter(
    name="rllib",
    algorithms=tuple(DEFAULTS),
    on_policy=ON_POLICY,
    resolve=resolve,
    rehearsal=rehearsal,
    refusals=refusals,
    notes=notes,
)
