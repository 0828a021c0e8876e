"""Scripts with arrays larger than the machine: planned, not refused, and without taking their memory."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from rlmem.runner.child import run_child
from rlmem.sources.target import parse_target
from rlmem.trace.dryrun import DryRun, dry_run
from rlmem.trace.ledger import TracedLedger
from rlmem.trace.target import find_runnable

LOOP = """
import itertools
import gymnasium as gym, numpy as np, torch
{arrays}
env = gym.make("CartPole-v1")
env.reset(seed=0)
net = torch.nn.Linear(4, 2)
optimizer = torch.optim.SGD(net.parameters())
for step in {steps}:
    obs, _, done, cut, _ = env.step(env.action_space.sample())
    {write}
    if done or cut:
        env.reset()
    if step > 50:
        optimizer.zero_grad()
        net(torch.as_tensor(obs)).square().mean().backward()
        optimizer.step()
"""
HUGE = """
kind = np.dtype([("obs", np.float32, (17,)), ("action", np.int64), ("done", "?")])
zeros = np.zeros((354_000_000, 4, 84, 84), dtype=np.uint8)
like = np.empty_like(zeros)
rows = np.zeros(100_000_000_000, dtype=kind)
ones = np.full((1_000_000, 4, 84, 84), 255, np.uint8)
half = torch.full((1_000_000, 84, 84), 0.5, dtype=torch.bfloat16)
flags = torch.ones(40_000_000_000, dtype=torch.bool)
later = torch.empty((354_000_000, 84, 84, 4), dtype=torch.uint8)
assert ones[-1, -1, -1, -1] == 255 and half[-1, -1, -1] == 0.5 and flags[-5] or flags[5]
"""
WORKERS = """
import sys
import gymnasium as gym, numpy as np, torch
class Env(gym.Env):
    observation_space = gym.spaces.Box(-1, 1, (4,), np.float32)
    action_space = gym.spaces.Discrete(2)
    def __init__(self):
        self.history, self.at = np.zeros((500_000, 4, 84, 84), np.uint8), 0
    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return self.observation_space.sample(), {}
    def step(self, action):
        self.history[self.at] = 1
        self.at += 1
        return self.observation_space.sample(), 0.0, False, self.at % 50 == 0, {}
if __name__ == "__main__":
    envs = gym.vector.AsyncVectorEnv([Env] * 2, context=sys.argv[1])
    envs.reset(seed=0)
    net = torch.nn.Linear(4, 2)
    optimizer = torch.optim.SGD(net.parameters())
    while True:
        obs, *_ = envs.step(envs.action_space.sample())
        net(torch.as_tensor(obs)).square().mean().backward()
        optimizer.step()
"""


def try_out(folder: Path, text: str, *args: str) -> DryRun:
    script = folder / "train.py"
    script.write_text(text, encoding="utf-8")
    return dry_run(find_runnable(parse_target(str(script), args, python=sys.executable), folder=folder))


def test_arrays_of_terabytes_are_held_and_planned(tmp_path: Path) -> None:
    run = try_out(
        tmp_path,
        LOOP.format(arrays=HUGE, steps="itertools.count()", write="zeros[step] = rows['action'][step] = step % 255"),
    )
    assert run.stop is None, run.stop
    assert run.met == "loop"
    assert run.outcome.peak.pss_bytes < 700 << 20
    sizes = {row["made_by"]: row["nbytes"] for row in run.facts["arrays"]}
    assert sizes["numpy.empty_like"] == sizes["torch.empty"] == 354_000_000 * 28_224
    assert sizes["torch.ones"] == 40_000_000_000
    ledger = TracedLedger(run.facts).ledger()
    total = sum(row["nbytes"] for row in run.facts["arrays"])
    assert ledger.only(phase="update").nbytes == pytest.approx(total, rel=0.001)
    # What a constructor writes is there before the first step.
    whole = sum(row["nbytes"] for row in run.facts["arrays"] if row["whole"])
    assert ledger.only(phase="build").nbytes == pytest.approx(whole, abs=1 << 30)


@pytest.mark.parametrize("context", [pytest.param("fork", marks=pytest.mark.long), "spawn"])
def test_arrays_of_workers_are_held_and_planned(tmp_path: Path, context: str) -> None:
    run = try_out(tmp_path, WORKERS, context)
    assert run.stop is None, run.stop
    rows = run.facts["worker_arrays"]
    assert [row["nbytes"] for row in rows] == [500_000 * 28_224] * 2
    assert run.outcome.peak.pss_bytes < 900 << 20
    workers = TracedLedger(run.facts).ledger().only(phase="update", process="workers")
    assert workers.nbytes == pytest.approx(2 * 500_000 * 28_224, rel=0.02)


def test_an_address_space_that_is_limited_stops_no_plan(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    write = "later[step] = step % 255; later[torch.tensor([1, 5])] = 3; states[[3, step]] = 1"
    arrays = (
        "later = torch.empty((1_000_000, 84, 84), dtype=torch.uint8); states = np.zeros((1_000_000, 84, 84), np.uint8)"
    )
    script.write_text(LOOP.format(arrays=arrays, steps="itertools.count()", write=write), encoding="utf-8")
    command = f"ulimit -v 9000000; {sys.executable} -m rlmem plan {script} --ram 64GB --python {sys.executable} --json"
    found = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=False)
    assert found.returncode == 0, found.stderr
    (top,) = [peak for peak in json.loads(found.stdout)["peaks"] if peak["is_peak"]]
    assert top["expected_bytes"] == pytest.approx(2 * 1_000_000 * 84 * 84, rel=0.03)


@pytest.mark.truth
@pytest.mark.long
def test_a_run_shorter_than_its_arrays_is_planned_with_what_it_writes(tmp_path: Path) -> None:
    text = LOOP.format(
        arrays="later = torch.empty((500_000, 84, 84), dtype=torch.uint8); full = torch.full((20_000_000,), 1.0)",
        steps="range(20_000)",
        write="later[step] = step % 255",
    )
    run = try_out(tmp_path, text)
    assert run.facts["steps"] == 20_000
    ledger = TracedLedger(run.facts).ledger()
    outcome = run_child([sys.executable, str(tmp_path / "train.py")])
    assert outcome.status == "ok", outcome.stderr
    peak = ledger.peaks()[0]
    assert peak.expected_bytes == pytest.approx(outcome.peak.pss_bytes, rel=0.04)
    assert outcome.peak.pss_bytes <= peak.high_bytes


SHARED = """
import sys
from collections import deque
import gymnasium as gym, numpy as np, torch
config = np.ones(20_000_000, np.uint8)
memory, frames = deque(maxlen=40_000), np.memmap({file!r}, np.uint8, "w+", shape=({rows}, 84, 84))
env = gym.make("CartPole-v1")
obs, _ = env.reset(seed=0)
net = torch.nn.Linear(4, 2)
optimizer = torch.optim.SGD(net.parameters())
for step in range(45_000):
    after, reward, done, cut, _ = env.step(env.action_space.sample())
    memory.append((obs, np.full(1000, step % 255, np.uint8), reward, after, config))
    frames[step % {rows}] = 1
    obs = env.reset()[0] if done or cut else after
    if step > 50 and step % {every} == 0:
        optimizer.zero_grad()
        net(torch.as_tensor(obs)).square().mean().backward()
        optimizer.step()
"""


@pytest.mark.truth
def test_what_elements_share_and_what_lies_in_a_file_are_planned_as_the_run_needs_them(tmp_path: Path) -> None:
    file = str(tmp_path / "frames.dat")
    run = try_out(tmp_path, SHARED.format(file=file, rows=3_000_000, every=10))
    assert run.stop is None, run.stop
    ledger = TracedLedger(run.facts).ledger()
    update = {entry.component: entry for entry in ledger.only(phase="update").entries}
    assert update["containers.memory"].nbytes == pytest.approx(40_000 * 1500, rel=0.15)
    assert not update["files.frames"].counts
    assert update["files.frames"].nbytes == pytest.approx(3_000_000 * 84 * 84, abs=4096)
    # The same with a file of 70 kB: what is measured has no pages that the kernel could take back.
    (tmp_path / "train.py").write_text(SHARED.format(file=file, rows=10, every=100), encoding="utf-8")
    outcome = run_child([sys.executable, str(tmp_path / "train.py")])
    assert outcome.status == "ok", outcome.stderr
    peak = ledger.peaks()[0]
    assert peak.expected_bytes == pytest.approx(outcome.peak.pss_bytes, rel=0.06)
    assert outcome.peak.pss_bytes <= peak.high_bytes
