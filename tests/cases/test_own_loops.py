"""Dry runs of scripts with a loop of their own: their processes, how they end, and whether they grow."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from rlmem.trace.dryrun import DryRun, dry_run
from rlmem.trace.target import parse_target

pytestmark = pytest.mark.truth

#: Gymnasium's own vector environment: forked workers, which inherit whatever the agent has put into the target.
FORKED = """
import gymnasium as gym
import numpy as np
import torch
from gymnasium.vector import AsyncVectorEnv

class Writes(gym.Wrapper):
    def step(self, action):
        open("steps.txt", "a").write(".")
        return self.env.step(action)

if __name__ == "__main__":
    envs = AsyncVectorEnv([lambda: Writes(gym.make("CartPole-v1"))] * WORKERS, context="fork")
    envs.reset(seed=0)
    net = torch.nn.Linear(4, 2)
    opt = torch.optim.SGD(net.parameters(), lr=1e-3)
    for update in range(1000):
        xs = np.zeros((16, WORKERS, 4), np.float32)
        for t in range(16):
            xs[t] = envs.step(envs.action_space.sample())[0]
        loss = net(torch.as_tensor(xs)).pow(2).mean()
        opt.zero_grad(); loss.backward(); opt.step()
"""


def try_out(folder: Path, text: str, **options: object) -> DryRun:
    path = folder / "train.py"
    path.write_text(text, encoding="utf-8")
    return dry_run(parse_target(str(path), python=sys.executable, folder=folder), **options)  # type: ignore[arg-type]


@pytest.mark.parametrize("workers", [12, pytest.param(4, marks=pytest.mark.long)])
def test_forked_workers_inherit_patches_that_do_nothing_there(tmp_path: Path, workers: int) -> None:
    run = try_out(tmp_path, FORKED.replace("WORKERS", str(workers)))
    assert run.stop is None, run.stop
    assert run.met == "loop"
    # Steps of the vector, counted once, and not those of each worker.
    assert run.facts["loop"]["env_steps"] == 16 * run.facts["loop"]["cycles"] + 1
    assert len(run.facts["phases"]["update"]["others"]) == workers
    assert not (tmp_path / "steps.txt").exists(), "what forks write is put back"
