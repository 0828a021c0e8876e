"""Dry runs of scripts with a loop of their own: their processes, how they end, and whether they grow."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from rlmem.budget import make_budget
from rlmem.runner.child import run_child
from rlmem.sources.target import parse_target
from rlmem.trace.dryrun import DryRun, dry_run
from rlmem.trace.plan import plan_dry_run
from rlmem.trace.target import find_runnable
from rlmem.units import MIB

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
    return dry_run(find_runnable(parse_target(str(path), python=sys.executable), folder=folder), **options)  # type: ignore[arg-type]


@pytest.mark.parametrize("workers", [12, pytest.param(4, marks=pytest.mark.long)])
def test_forked_workers_inherit_patches_that_do_nothing_there(tmp_path: Path, workers: int) -> None:
    run = try_out(tmp_path, FORKED.replace("WORKERS", str(workers)))
    assert run.stop is None, run.stop
    assert run.met == "loop"
    # Steps of the vector, counted once, and not those of each worker.
    assert run.facts["loop"]["env_steps"] == 16 * run.facts["loop"]["cycles"] + 1
    assert len(run.facts["phases"]["update"]["others"]) == workers
    assert plan_dry_run(run, make_budget(ram="4GB")).plan.spec.get("n_envs") == workers
    assert not (tmp_path / "steps.txt").exists(), "what forks write is put back"


VMHWM = "print(int(open('/proc/self/status').read().split('VmHWM:')[1].split()[0]) << 10)"
#: An environment of no library, and a learner without torch.
PLAIN = """
import numpy as np

class World:
    def reset(self):
        return np.zeros(4)
    def step(self, action):
        return np.random.rand(4), 0.0, np.random.rand() < 0.01, {}

if __name__ == "__main__":
    env, weights, store = World(), np.zeros(4), np.zeros((STEPS, 4))
    env.reset()
    for t in range(STEPS):
        store[t] = env.step(1)[0]
        weights += 1e-3 * store[t]
    ENDS
"""


def test_an_environment_of_no_library_is_seen(tmp_path: Path) -> None:
    run = try_out(tmp_path, PLAIN.replace("STEPS", "40_000_000").replace("ENDS", ""), time_s=6.0)
    phases = run.facts["phases"]
    assert phases["import"]["tree"] <= phases["build"]["tree"]
    assert run.facts["env_steps"] > 1000
    assert run.facts["steps"] == 40_000_000
    (store,) = run.facts["arrays"]
    assert store["written"] > 0.9 * store["nbytes"]
    top = plan_dry_run(run, make_budget(ram="4GB")).plan.top("ram")
    assert top is not None
    assert top.expected_bytes > 1.2e9
    assert top.low_bytes < top.expected_bytes < top.high_bytes


@pytest.mark.parametrize("ends", ["", pytest.param("raise SystemExit(0)", marks=pytest.mark.long)])
def test_a_script_that_ends_by_itself_is_planned_as_measured(tmp_path: Path, ends: str) -> None:
    run = try_out(tmp_path, PLAIN.replace("STEPS", "20_000").replace("ENDS", ends))
    plan = plan_dry_run(run, make_budget(ram="4GB")).plan
    assert re.match(r"train.py ran to its end in \d+ s \((19,999|20,000) environment steps\)", plan.notes[0])
    path = tmp_path / "truth.py"
    path.write_text(PLAIN.replace("STEPS", "20_000").replace("ENDS", ""), encoding="utf-8")
    truth = subprocess.run(
        [sys.executable, "-c", f"import runpy; runpy.run_path({str(path)!r}, run_name='__main__'); {VMHWM}"],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    top = plan.top("ram")
    assert top is not None
    assert top.low_bytes < int(truth.stdout) < top.high_bytes


def test_what_failed_after_updates_is_planned_and_says_where_it_failed(tmp_path: Path) -> None:
    run = try_out(
        tmp_path, FORKED.replace("WORKERS", "1").replace("range(1000)", "range(5)") + "    raise ValueError('x')\n"
    )
    plan = plan_dry_run(run, make_budget(ram="4GB")).plan
    assert re.match(r"it stopped at .*train.py:23 .*ValueError: x, after \d+ s \(.* full updates, ", plan.notes[0])


LEARNS = """
import multiprocessing
import sys
import numpy as np
import torch

def learn():
    store = np.ones((1 << 22, 4), np.float32)  # 64 MiB
    net = torch.nn.Linear(4000, 4000)  # with its gradient and Adam's two moments 244 MiB
    opt = torch.optim.Adam(net.parameters())
    for update in range(UPDATES):
        loss = net(torch.zeros(2, 4000) + torch.as_tensor(store[:2].sum())).sum()
        opt.zero_grad(); loss.backward(); opt.step()

if __name__ == "__main__":
    learner = multiprocessing.get_context(METHOD).Process(target=learn)
    learner.start()
    learner.join()
    sys.exit(learner.exitcode)
"""


@pytest.mark.parametrize("method", [pytest.param("fork", marks=pytest.mark.long), "spawn"])
def test_a_learner_in_a_child_process_is_planned_with_the_whole_tree(tmp_path: Path, method: str) -> None:
    script = LEARNS.replace("METHOD", repr(method)).replace("UPDATES", "1_000_000")
    run = try_out(tmp_path, script, time_s=15.0)
    assert run.stop is None
    assert sum(run.facts["learners"].values()) >= 1
    plan = plan_dry_run(run, make_budget(ram="4GB")).plan
    assert "in 1 child process): the peak shown is that of all its processes" in plan.notes[0]
    top = plan.top("ram")
    assert top is not None
    assert top.phase == "update"
    path = tmp_path / "truth.py"
    path.write_text(LEARNS.replace("METHOD", repr(method)).replace("UPDATES", "3"), encoding="utf-8")
    truth = run_child([sys.executable, path]).peak.pss_bytes
    assert truth > (64 + 244) * MIB
    assert abs(top.expected_bytes - truth) < 0.06 * truth
