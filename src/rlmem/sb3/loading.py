"""``model.load_replay_buffer`` of a file that holds one of SB3's own buffers, into a model that asked for a compact one."""

from __future__ import annotations

import functools
import warnings
from typing import TYPE_CHECKING, Any

from stable_baselines3.common.buffers import ReplayBuffer
from stable_baselines3.common.off_policy_algorithm import OffPolicyAlgorithm
from stable_baselines3.her.her_replay_buffer import HerReplayBuffer

from rlmem.errors import AnalysisError
from rlmem.units import format_size

if TYPE_CHECKING:
    from rlmem.sb3.replay import CompactReplayBuffer

#: Set on the method that converts, so that it is put in place once.
_MARK = "_rlmem_converts"


def convert_on_load() -> None:
    """Let ``load_replay_buffer`` convert: SB3 unpickles whatever class is in the file and asks no class of ours."""
    plain = OffPolicyAlgorithm.load_replay_buffer
    if hasattr(plain, _MARK):
        return

    @functools.wraps(plain)
    def load_replay_buffer(self: Any, path: Any, *args: Any, **kwargs: Any) -> None:
        before = type(self.replay_buffer)
        plain(self, path, *args, **kwargs)
        _converted(self, before, path)

    setattr(load_replay_buffer, _MARK, True)
    OffPolicyAlgorithm.load_replay_buffer = load_replay_buffer


def _converted(model: Any, before: type[Any], path: Any) -> None:
    """Put what was loaded into a compact buffer where the model is to have one, and say so."""
    from rlmem.sb3.replay import CompactReplayBuffer

    loaded, wanted = model.replay_buffer, model.replay_buffer_class
    if isinstance(loaded, CompactReplayBuffer) or not issubclass(before, CompactReplayBuffer):
        return
    file = getattr(path, "name", path)
    what = f"{file} holds a {type(loaded).__name__} of {format_size(_nbytes(loaded))}"
    try:
        model.replay_buffer = copied(model, loaded, wanted)
    except AnalysisError as problem:
        warnings.warn(f"{what}, which the model now has in place of its {before.__name__}: {problem}", stacklevel=3)
        return
    warnings.warn(
        f"{what}; it was copied into a {wanted.__name__} of {format_size(model.replay_buffer.nbytes)}. Save it again: loading "
        "then needs no room for both",
        stacklevel=3,
    )


def copied(model: Any, plain: ReplayBuffer, wanted: type[CompactReplayBuffer]) -> CompactReplayBuffer:
    """A compact buffer with the rows of a plain one, as the model's arguments would have made it, in the size of the file."""
    from rlmem.sb3.her import CompactHerReplayBuffer
    from rlmem.sb3.replay import CompactReplayBuffer

    hindsight = issubclass(wanted, HerReplayBuffer)
    if not issubclass(wanted, CompactReplayBuffer):
        raise AnalysisError(f"its replay_buffer_class is {wanted.__name__}")
    if hindsight and not isinstance(plain, HerReplayBuffer):
        raise AnalysisError(f"{wanted.__name__} needs to know the episodes, which the file does not say")
    kwargs = {**model.replay_buffer_kwargs, "handle_timeout_termination": plain.handle_timeout_termination}
    if hindsight:
        kwargs["env"] = model.env
    made = wanted(
        plain.buffer_size * plain.n_envs,
        plain.observation_space,
        plain.action_space,
        device=model.device,
        n_envs=plain.n_envs,
        optimize_memory_usage=plain.optimize_memory_usage,
        **kwargs,
    )
    made.take_rows(plain)
    if isinstance(made, CompactHerReplayBuffer):
        made.take_episodes(plain)
    return made


def _nbytes(buffer: Any) -> int:
    arrays = (
        item for value in vars(buffer).values() for item in (value.values() if isinstance(value, dict) else (value,))
    )
    return sum(int(getattr(array, "nbytes", 0)) for array in arrays)
