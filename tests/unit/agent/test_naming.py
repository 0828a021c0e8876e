"""Big arrays and containers get the paths that ``rlmem explain`` would give them."""

from __future__ import annotations

from collections import deque
from pathlib import Path
from typing import Any

import numpy as np

from rlmem.agent import naming
from rlmem.agent.state import State


class Memory:
    def __init__(self) -> None:
        self.obs = np.zeros((1000, 84, 84), np.uint8)
        self.parts = {"reward": np.zeros(200_000), "steps": deque([1.5] * 1000)}


def address(array: Any) -> int:
    return int(array.__array_interface__["data"][0])


def test_arrays_and_containers_are_named_by_the_path_that_leads_to_them(tmp_path: Path) -> None:
    memory = Memory()
    views = [memory.obs[2:], np.ones(1 << 20)]
    gone = [{"address": 64}]
    state = State({"result": str(tmp_path / "result"), "time_s": 1})
    found = [address(memory.obs), address(memory.parts["reward"]), address(views[1])]
    state.facts["arrays"] = [{"address": each} for each in found] + gone
    state.facts["containers"] = [{"id": id(memory.parts["steps"])}]
    naming.name(state)
    assert [row["path"] for row in state.facts["arrays"]] == ["memory.obs", "memory.parts['reward']", "views[1]", None]
    assert [row["path"] for row in state.facts["containers"]] == ["memory.parts['steps']"]
