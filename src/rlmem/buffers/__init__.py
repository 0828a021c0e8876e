"""Stores that keep experience once: the same bytes out as in, in a fraction of the memory.

>>> from rlmem.buffers import Replay  # doctest: +SKIP
>>> replay = Replay(1_000_000, envs.single_observation_space, n_envs=8, fields={"action": ((), "int64")})  # doctest: +SKIP
"""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from rlmem.errors import AnalysisError

if TYPE_CHECKING:
    from rlmem.buffers.pairs import Rows as Rows
    from rlmem.buffers.replay import Replay as Replay
    from rlmem.buffers.window import WindowRollout as WindowRollout

#: Each name and the module that has it, imported when it is first asked for.
_NAMES = {"Rows": "pairs", "Replay": "replay", "WindowRollout": "window"}
#: What those modules need, and how to get it: all but torch comes with one extra.
_NEEDED = dict.fromkeys(("llvmlite", "numba", "numpy"), "pip install 'rlmem[buffers]'") | {"torch": "pip install torch"}

__all__ = tuple(_NAMES)


def __getattr__(name: str) -> Any:
    if name not in _NAMES:
        raise AttributeError(f"module 'rlmem.buffers' has no attribute {name!r}")
    try:
        if name == "Replay" and find_spec("numba") is None:  # imported when a buffer is built
            raise ModuleNotFoundError(name="numba")
        return getattr(import_module(f"rlmem.buffers.{_NAMES[name]}"), name)
    except ModuleNotFoundError as problem:
        package = (problem.name or "").split(".")[0]
        if package not in _NEEDED:
            raise
        raise AnalysisError(f"{name} needs {package}: {_NEEDED[package]}") from problem
