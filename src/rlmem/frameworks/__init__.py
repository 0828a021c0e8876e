"""Adapters, one package or module per framework: the only code that knows a framework's names."""

from __future__ import annotations

from importlib import import_module

from rlmem.core.ledger import Ledger
from rlmem.core.spec import RunSpec
from rlmem.errors import SpecError, did_you_mean
from rlmem.frameworks.base import Adapter
from rlmem.model.constants import Constants

#: Framework name to the module that holds its ``ADAPTER``; imported when a run asks for it.
ADAPTERS = {
    "sb3": "rlmem.frameworks.sb3",
    "cleanrl": "rlmem.frameworks.cleanrl",
    "elegantrl": "rlmem.frameworks.elegantrl",
    "rllib": "rlmem.frameworks.rllib",
    "swarm": "rlmem.frameworks.swarm",
}
#: Knobs that only one kind of algorithm has.
OFF_POLICY_ONLY = (
    "buffer_size",
    "replay.kind",
    "optimize_memory_usage",
    "handle_timeout_termination",
    "resume.replay_buffer",
)
ON_POLICY_ONLY = (
    "n_steps",
    "n_epochs",
    "rollout.store",
    "rollout.keeps_graph",
    "rollout.sampling",
    "rollout.flatten_copy",
)
#: Other spellings people use.
ALIASES = {
    "stable-baselines3": "sb3",
    "stable_baselines3": "sb3",
    "sb3-contrib": "sb3",
    "sb3_contrib": "sb3",
    "ray": "rllib",
}


def find_adapter(spec: RunSpec) -> Adapter:
    """The adapter for a run, with its algorithm checked."""
    name = spec.text("framework.name").lower()
    name = ALIASES.get(name, name)
    if name not in ADAPTERS:
        hint = did_you_mean(name, ADAPTERS)
        raise SpecError("framework.name", f"unknown framework {name!r}{hint}; known: {', '.join(ADAPTERS)}")
    adapter: Adapter = import_module(ADAPTERS[name]).ADAPTER
    algorithm = spec.text("algorithm")
    if algorithm not in adapter.algorithms:
        hint = did_you_mean(algorithm, adapter.algorithms)
        known = ", ".join(adapter.algorithms)
        raise SpecError("algorithm", f"{name} has no algorithm {algorithm!r} that rlmem knows{hint}; known: {known}")
    return adapter


def resolve(spec: RunSpec) -> RunSpec:
    """The run with the framework's defaults filled in, and without knobs of the other kind of algorithm.

    A rollout length says nothing about SAC, a buffer size nothing about PPO; what is left tells them apart.
    """
    adapter = find_adapter(spec)
    idle = OFF_POLICY_ONLY if spec.text("algorithm") in adapter.on_policy else ON_POLICY_ONLY
    return adapter.resolve(spec.having(dict.fromkeys(idle), "")).having(dict.fromkeys(idle), "")


def predict(spec: RunSpec, constants: Constants) -> Ledger:
    """The ledger of a resolved run, in closed form."""
    return find_adapter(spec).rehearsal(spec, constants).play()
