"""How often other training stacks hold a rollout's observations: a reading of their sources, nothing measured.

One row a stack: how many times the whole rollout ``[steps, agents, observation]`` is in memory at once, and which copies
these are. Minibatches, activations and everything else come on top; none of them keeps a window's stream once.
"""

from __future__ import annotations

from dataclasses import dataclass

from rlmem.core.quantity import Quantity
from rlmem.core.spaces import nbytes
from rlmem.core.spec import RunSpec
from rlmem.errors import UsageError
from rlmem.frameworks import resolve


@dataclass(frozen=True, slots=True, kw_only=True)
class Stack:
    """What was read of one stack."""

    name: str
    #: Release, and the commit whose sources were read.
    version: str
    commit: str
    #: Whole rollouts of observations held at once, in PPO without recurrence and with default settings.
    factor: int
    #: More than that under some settings, or as far as a compiler leaves it to be.
    at_least: bool
    why: str
    #: The file that says so.
    source: str


STACKS: tuple[Stack, ...] = (
    Stack(
        name="rsl_rl",
        version="5.4.2",
        commit="c281c32",
        factor=1,
        at_least=False,
        why="one tensor [steps, envs, observation]; flatten(0, 1) is a view of it, and a minibatch is gathered at a time",
        source="rsl_rl/storage/rollout_storage.py",
    ),
    Stack(
        name="rl_games",
        version="2.0.0",
        commit="262cf20",
        factor=2,
        at_least=True,
        why="the experience buffer, and swap_and_flatten01's reshape of its transpose, which copies; both live through the "
        "update (permute: true copies once more)",
        source="rl_games/common/a2c_common.py",
    ),
    Stack(
        name="Brax",
        version="0.14.2",
        commit="0b96d05",
        factor=2,
        at_least=True,
        why="a transition has observation and next_observation; as written, an epoch's shuffled copy of both lies beside "
        "them (4×), of which XLA may save some",
        source="brax/training/agents/ppo/train.py",
    ),
    Stack(
        name="PufferLib 1",
        version="1.0.1",
        commit="91460f7",
        factor=2,
        at_least=False,
        why="the experience, and flatten_batch's sorted copy of all of it",
        source="clean_pufferl.py",
    ),
    Stack(
        name="PufferLib, later",
        version="with pufferl.py",
        commit="02b8f4b",
        factor=1,
        at_least=False,
        why="one tensor [segments, horizon, observation]; a minibatch of segments is gathered at a time",
        source="pufferlib/pufferl.py",
    ),
    Stack(
        name="skrl",
        version="2.0.0",
        commit="c29ced6",
        factor=1,
        at_least=False,
        why="one tensor [steps, envs, observation] in float32; minibatches are slices of it",
        source="skrl/memories/torch/base.py",
    ),
    Stack(
        name="Sample Factory",
        version="2.1.3",
        commit="1894bd1",
        factor=3,
        at_least=True,
        why="trajectories of steps + 1, the training batch they are copied into, and that batch flattened without its last "
        "step; twice the first two with async_rl",
        source="sample_factory/algo/learning/learner.py",
    ),
)


def materialised(spec: RunSpec) -> Quantity:
    """Bytes of a rollout's observations, every one of them whole."""
    resolved = resolve(spec)
    if "n_steps" not in resolved:
        raise UsageError(f"{resolved.name} keeps no rollout: {resolved.text('algorithm')} is off-policy")
    one = Quantity.of(nbytes(resolved.observation), "observation bytes", resolved.origin("observation"))
    return resolved.q("n_steps") * resolved.q("n_envs") * resolved.q("agents") * one
