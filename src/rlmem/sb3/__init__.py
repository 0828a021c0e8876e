"""Buffers for Stable-Baselines3 and sb3-contrib that hold the same experience in a fraction of the memory.

>>> from rlmem.sb3 import CompactReplayBuffer  # doctest: +SKIP
>>> model = SAC("MultiInputPolicy", env, replay_buffer_class=CompactReplayBuffer)  # doctest: +SKIP
"""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from rlmem.errors import AnalysisError

if TYPE_CHECKING:
    from rlmem.sb3.her import CompactHerReplayBuffer as CompactHerReplayBuffer
    from rlmem.sb3.memory import MemoryCallback as MemoryCallback
    from rlmem.sb3.recurrent import CompactRecurrentRolloutBuffer as CompactRecurrentRolloutBuffer
    from rlmem.sb3.replay import CompactReplayBuffer as CompactReplayBuffer
    from rlmem.sb3.rollout import CompactRolloutBuffer as CompactRolloutBuffer

#: Each name and the module that has it, imported when it is first asked for.
_NAMES = {
    "CompactReplayBuffer": "replay",
    "CompactHerReplayBuffer": "her",
    "CompactRolloutBuffer": "rollout",
    "CompactRecurrentRolloutBuffer": "recurrent",
    "MemoryCallback": "memory",
}
#: What those modules need, and where it comes from.
_EXTRAS = {"numba": "rlmem[buffers]", "numpy": "rlmem[buffers]", "torch": "torch", "gymnasium": "gymnasium",
           "stable_baselines3": "stable-baselines3", "sb3_contrib": "sb3-contrib", "llvmlite": "rlmem[buffers]"}  # fmt: skip

__all__ = tuple(_NAMES)


def __getattr__(name: str) -> Any:
    if name not in _NAMES:
        raise AttributeError(f"module 'rlmem.sb3' has no attribute {name!r}")
    try:
        if name != "MemoryCallback" and find_spec("numba") is None:  # imported when a buffer is built
            raise ModuleNotFoundError(name="numba")
        return getattr(import_module(f"rlmem.sb3.{_NAMES[name]}"), name)
    except ModuleNotFoundError as problem:
        package = (problem.name or "").split(".")[0]
        if package not in _EXTRAS:
            raise
        raise AnalysisError(f"{name} needs {package}: pip install '{_EXTRAS[package]}'") from problem
