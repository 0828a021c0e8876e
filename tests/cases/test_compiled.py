"""Dry runs of programs that compile: the compilers see the constructors themselves, everybody else the recorded ones."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from rlmem.sources.target import parse_target
from rlmem.trace.dryrun import DryRun, dry_run
from rlmem.trace.target import find_runnable
from rlmem.units import MIB

pytestmark = pytest.mark.truth

SCRIPT = """
import numpy as np
import torch
{imports}
before = np.zeros((1 << 22, 4), np.float32)
{compiled}
after = np.ones((1 << 22, 4), np.float32)
tensor = torch.zeros(1 << 24)
import gymnasium as gym
env = gym.make("CartPole-v1")
net = torch.nn.Linear(4, 2)
opt = torch.optim.SGD(net.parameters(), lr=1e-3)
env.reset()
for t in range(1000):
    env.step(t % 2) if t % 8 else env.reset()
    if t % 8 == 7:
        loss = net(torch.as_tensor(before[:8]) + torch.as_tensor(after[:8])).sum()
        opt.zero_grad(); loss.backward(); opt.step()
"""
NUMBA = """
@numba.njit
def returns(r):
    out, ones, like = np.zeros(len(r)), np.ones((2, 2)), np.zeros_like(r)
    empty, full, more = np.empty(3), np.full(4, 2.0), np.full_like(r, 3.0)
    return out.sum() + ones.sum() + like.sum() + full.sum() + more.sum()

@numba.njit(parallel=True)
def spread(r):
    out = np.zeros(len(r))
    for i in numba.prange(len(r)):
        out[i] = r[i]
    return out

returns(np.arange(8.0)); spread(np.arange(8.0))
"""
TORCH = """
@torch.jit.script
def scripted(x: torch.Tensor):
    return x + torch.zeros(3) + torch.ones_like(x) + torch.full([3], 2.0)

class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.lstm = torch.nn.LSTM(3, 4)
    def forward(self, x):
        return self.lstm(x)[0] + torch.zeros(1)

@torch.compile(backend="eager", fullgraph=True)
def compiled(x):
    return x + torch.zeros(3) + torch.ones_like(x) + torch.full((3,), 2.0)

x = torch.ones(3)
scripted(x), torch.jit.script(Net())(torch.ones(2, 1, 3)), compiled(x), compiled(x)
assert torch._dynamo.utils.counters["stats"]["unique_graphs"] == 1, "compiled again"
torch.fx.symbolic_trace(lambda x: x + torch.zeros(3) + torch.zeros_like(x))(x)
torch.jit.trace(lambda x: x + torch.zeros(3) + torch.ones_like(x), x)(x)

with torch.device("meta"):
    assert {torch.zeros(3).device.type, torch.full((3,), 1.0).device.type} == {"meta"}

class Own:
    def __array_function__(self, function, types, args, kwargs):
        return {np.zeros_like: "its zeros"}[function]
    @classmethod
    def __torch_function__(cls, function, types, args=(), kwargs=None):
        return {torch.zeros_like: "its zeros"}[function]

assert np.zeros_like(Own()) == torch.zeros_like(Own()) == "its zeros"
"""


def try_out(folder: Path, **parts: str) -> DryRun:
    path = folder / "train.py"
    path.write_text(SCRIPT.format(**parts), encoding="utf-8")
    return dry_run(find_runnable(parse_target(str(path), python=sys.executable), folder=folder), time_s=60.0)


@pytest.mark.parametrize(
    ("imports", "compiled"), [("import numba", NUMBA), ("import torch.fx", TORCH)], ids=["numba", "torch"]
)
def test_compilers_take_the_constructors_and_recording_goes_on(tmp_path: Path, imports: str, compiled: str) -> None:
    run = try_out(tmp_path, imports=imports, compiled=compiled)
    assert run.stop is None, run.stop
    made = [(row["made_by"], row["nbytes"]) for row in run.facts["arrays"]]
    assert made == [("numpy.zeros", 64 * MIB), ("numpy.ones", 64 * MIB), ("torch.zeros", 64 * MIB)]
