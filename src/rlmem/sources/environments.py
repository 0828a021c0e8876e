"""What public environments observe and take, by id: a table, so that a script need not be run to know.

>>> observation, action = find_environment("CartPole-v1") or (None, None)
>>> observation, action
(Box(shape=(4,), dtype='float32', low=None, high=None), Discrete(n=2))
"""

from __future__ import annotations

from collections.abc import Mapping
from fnmatch import fnmatchcase
from functools import cache, lru_cache
from importlib import resources
from typing import Any

from rlmem.core.spaces import Box, Discrete, Space, parse_space
from rlmem.sources.config import parse_yaml

_SCREEN_WIDTH = 160


def find_environment(name: str) -> tuple[Space, Space] | None:
    """The observation and action space of an environment made by this id without arguments; None if it is unknown.

    A module to import first, as in ``ale_py:ALE/Pong-v5``, may stand in front.
    """
    return _find(name.rpartition(":")[2])


@cache
def _table() -> Mapping[str, Any]:
    text = resources.files("rlmem").joinpath("sources").joinpath("environments.yaml").read_text(encoding="utf-8")
    table, _ = parse_yaml(text, "environments.yaml")
    assert isinstance(table, Mapping)
    return table


@lru_cache(maxsize=256)
def _find(name: str) -> tuple[Space, Space] | None:
    table = _table()
    known: Mapping[str, Any] = table["environments"]
    name = table["earlier"].get(name, name)
    row = known.get(name) or next((row for key, row in known.items() if "*" in key and fnmatchcase(name, key)), None)
    if row is not None:
        return parse_space(row["observation"], f"{name}.observation"), parse_space(row["action"], f"{name}.action")
    return _find_game(name, table["atari"])


def _find_game(name: str, atari: Mapping[str, Any]) -> tuple[Space, Space] | None:
    """A game of the Arcade Learning Environment, in any of the spellings of its id."""
    for pattern in atari["ids"]:
        before, _, after = pattern.partition("*")
        if name.startswith(before) and name.endswith(after):
            game = atari["games"].get(name[len(before) : len(name) - len(after)])
            if game is not None:
                screen = Box(shape=(game["height"], _SCREEN_WIDTH, 3), dtype="uint8")
                return screen, Discrete(n=game["actions"])
    return None
