"""How many processes an RLlib run has of each role, from its description."""

from __future__ import annotations

from rlmem.core.spec import RunSpec

ASYNC = ("impala", "appo")
DRIVER, RUNNER, LEARNER, AGGREGATOR, EVALUATION, SERVER = (
    "driver",
    "env-runner",
    "learner",
    "aggregator",
    "eval-env-runner",
    "state-server",
)
#: What is nobody's actor: Ray's own processes and the pages all share; objects in flight.
RAY, STORE = "ray", "object-store"


def counts(spec: RunSpec) -> dict[str, int]:
    """Actors by role, the driver first; a role without one is left out."""
    found = {
        DRIVER: 1,
        RUNNER: int(spec.get("rllib.num_env_runners", 0)),
        LEARNER: int(spec.get("rllib.num_learners", 0)),
        AGGREGATOR: int(spec.get("rllib.num_aggregators", 0)),
        EVALUATION: int(spec.get("rllib.eval_env_runners", 0)),
        # IMPALA and APPO broadcast connector states through an actor of its own.
        SERVER: int(spec.get("algorithm") in ASYNC),
    }
    return {role: count for role, count in found.items() if count}
