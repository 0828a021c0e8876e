"""What SB3 refuses when a model is built, so that a plan can say so first."""

from __future__ import annotations

from collections.abc import Iterator

from rlmem.core.spaces import Box, DictSpace, Discrete, TupleSpace, is_nested
from rlmem.core.spec import RunSpec
from rlmem.frameworks.base import Refusal
from rlmem.frameworks.sb3.compact import is_compact
from rlmem.frameworks.sb3.defaults import N_STEP_SINCE, version

#: Algorithms that take one kind of action only.
_NEEDS_BOX = ("sac", "tqc", "td3", "ddpg", "crossq")
_NEEDS_DISCRETE = ("dqn", "qrdqn")


def sharing_refused(spec: RunSpec) -> str | None:
    """Why next observations cannot be stored inside the observation array, if they cannot."""
    if isinstance(spec.observation, (DictSpace, TupleSpace)):
        return "DictReplayBuffer does not support optimize_memory_usage"
    kind = spec.get("replay.kind", "plain")
    if kind in ("her", "n-step"):
        return f"{'HerReplayBuffer' if kind == 'her' else 'NStepReplayBuffer'} does not support optimize_memory_usage"
    return None


def refusals(spec: RunSpec) -> tuple[Refusal, ...]:
    """Everything about this run that SB3 will not build."""
    return (*_spaces(spec), *_replay(spec))


def _spaces(spec: RunSpec) -> Iterator[Refusal]:
    algorithm, action = spec.text("algorithm"), spec.need("action")
    if is_nested(spec.observation) or isinstance(spec.observation, TupleSpace):
        kind = "nested" if is_nested(spec.observation) else "Tuple"
        yield Refusal(
            reason=f"SB3 does not support {kind} observation spaces",
            location="observation",
            remedy="flatten them into the keys of one Dict",
        )
    if algorithm == "crossq" and spec.get("network.extractor") != "flatten":
        yield Refusal(
            reason="CrossQ has an MlpPolicy only",
            location="network.extractor",
            remedy="use sac or tqc for images and Dicts",
        )
    if spec.get("frame_stack", 1) > 1 and not isinstance(spec.observation, (Box, DictSpace)):
        yield Refusal(
            reason="VecFrameStack stacks Box observations only", location="frame_stack", remedy="drop frame_stack"
        )
    if algorithm in _NEEDS_BOX and not isinstance(action, Box):
        yield Refusal(reason=f"{algorithm} needs Box actions", location="action", remedy="use ppo, a2c or dqn")
    if algorithm in _NEEDS_DISCRETE and not isinstance(action, Discrete):
        yield Refusal(reason=f"{algorithm} needs Discrete actions", location="action", remedy="use ppo, sac or td3")

    if algorithm == "maskable_ppo" and isinstance(action, Box):
        yield Refusal(reason="maskable_ppo needs discrete actions", location="action", remedy="use ppo")


def _replay(spec: RunSpec) -> Iterator[Refusal]:
    kind = spec.get("replay.kind", "plain")
    if kind == "her" and not {"observation", "achieved_goal", "desired_goal"} <= _keys(spec):
        yield Refusal(
            reason="HerReplayBuffer needs the keys observation, achieved_goal and desired_goal",
            location="observation",
            remedy="describe the goal environment's Dict, or drop replay.kind",
        )
    if kind == "n-step" and version(spec) < N_STEP_SINCE:
        since = ".".join(map(str, N_STEP_SINCE))
        yield Refusal(
            reason=f"SB3 {spec.text('framework.version')} has no n-step buffer (it came with {since})",
            location="replay.kind",
            remedy=f"upgrade to {since} or newer",
        )
    if is_compact(spec):
        # CompactReplayBuffer takes Dict, n-step, prioritised and timeouts, and has nothing to share that way.
        if spec.text("algorithm") == "maskable_ppo":
            yield Refusal(
                reason="there is no compact buffer for MaskablePPO's action masks",
                location="storage",
                remedy="drop storage",
            )
        return
    if kind == "prioritised":
        yield Refusal(
            reason="SB3 ships no prioritised replay buffer; planned as the usual add-on with two segment trees",
            location="replay.kind",
            remedy="CompactReplayBuffer of rlmem.sb3 with prioritized=True, or a buffer class of your own",
            severity="info",
        )
    if not spec.flag("optimize_memory_usage"):
        return
    reason = sharing_refused(spec)
    if reason is None and spec.flag("handle_timeout_termination"):
        reason = "ReplayBuffer does not support optimize_memory_usage and handle_timeout_termination together"
    if reason:
        yield Refusal(
            reason=reason,
            location="optimize_memory_usage",
            remedy="drop optimize_memory_usage; replay_buffer_class=CompactReplayBuffer of rlmem.sb3 saves as much here",
        )


def _keys(spec: RunSpec) -> set[str]:
    space = spec.observation
    return {key for key, _ in space.spaces} if isinstance(space, DictSpace) else set()
