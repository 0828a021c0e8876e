"""Arrays of observations and of what follows them become one, or it is said why not."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from rlmem.core.edits import apply
from rlmem.scripts.reading import Project, parse_script
from rlmem.trace.loop_rows import Twice, kept_twice

IN_A_CLASS = """\
import numpy as np

class Memory:
    def __init__(self, n):
        self.n, self.at = n, 0
        self.obs = np.zeros((n, 3), dtype=np.float32)
        self.next_obs = np.zeros((n, 3), dtype=np.float32)
        self.reward = np.zeros(n)

    def push(self, obs, reward, next_obs):
        i = self.at % self.n
        self.obs[i], self.reward[i], self.next_obs[i] = obs, reward, next_obs
        self.at += 1

    def sample(self, rng):
        i = rng.integers(0, min(self.at, self.n), 16)
        return self.obs[i], self.reward[i], self.next_obs[i]

rng, memory, total = np.random.default_rng(0), Memory(50), 0.0
obs = rng.random(3)
for t in range(400):
    next_obs = rng.random(3)
    memory.push(obs, t, next_obs)
    obs = rng.random(3) if t % 17 == 16 else next_obs
    if t > 20:
        o, r, o2 = memory.sample(rng)
        total += float((o * 3 + o2 * 5).sum() + r.sum())
print(total)
"""
IN_A_MODULE = """\
import numpy as np
N = 50
s=np.empty((N, 3), np.float32); s2=np.empty((N, 3), np.float32)
rng = np.random.default_rng(0)
state, total = rng.random(3), 0.0
for t in range(400):
    s[t % N] = state
    state = rng.random(3)
    s2[t % N] = state
    i = rng.integers(0, min(t + 1, N), 16)
    total += float((s[i] * 3 + s2[i] * 5).sum()) + s.shape[0] + len(s2)
print(total)
"""


def found(text: str, lines: tuple[int, int], made_by: str = "numpy.zeros") -> Twice | None:
    row: dict[str, Any] = {"nbytes": 600, "shape": [50, 3], "dtype": "float32", "made_by": made_by}
    facts = {"arrays": [dict(row, where=f"/run/train.py:{line}") for line in lines]}
    return kept_twice(parse_script(text, "/run/train.py", project=Project({})), facts)


@pytest.mark.parametrize(("text", "lines"), [(IN_A_CLASS, (6, 7)), (IN_A_MODULE, (3, 3))])
def test_the_edited_script_computes_the_same(tmp_path: Path, text: str, lines: tuple[int, int]) -> None:
    twice = found(text, lines, "numpy.empty" if text is IN_A_MODULE else "numpy.zeros")
    assert twice is not None
    assert twice.reason == ""
    after = apply(text, twice.edits)
    assert "Rows((" in after
    assert after.count("np.zeros" if text is IN_A_CLASS else "np.empty") == (1 if text is IN_A_CLASS else 0)
    results = []
    for number, script in enumerate((text, after)):
        path = tmp_path / f"{number}.py"
        path.write_text(script)
        results.append(subprocess.run([sys.executable, path], check=True, stdout=subprocess.PIPE).stdout)
    assert results[0] == results[1]


@pytest.mark.parametrize(
    ("old", "new", "why"),
    [
        (
            "return self.obs[i]",
            "np.save('x', self.obs)\n        return self.obs[i]",
            "line 17 of train.py uses self.obs",
        ),
        ("return self.obs[i]", "return self.obs[i, :2]", "line 17 of train.py uses self.obs"),
        (
            "self.next_obs = np.zeros((n, 3), dtype=np.float32)",
            "self.next_obs = np.zeros((n, 3), np.float32, 'F')",
            "more than",
        ),
        ("print(total)", "memory.next_obs = None\nprint(total)", "uses self.next_obs"),
        ("print(total)", "print(total, memory.next_obs.mean())", "uses self.next_obs"),
    ],
)
def test_what_cannot_be_proved_is_said_and_not_edited(old: str, new: str, why: str) -> None:
    twice = found(IN_A_CLASS.replace(old, new), (6, 7))
    assert twice is not None
    assert twice.edits == ()
    assert why in twice.reason
    assert "rlmem.buffers.Replay" in twice.by_hand


def test_arrays_of_torch_are_left_to_be_changed_by_hand() -> None:
    twice = found(
        IN_A_CLASS.replace("np.zeros((n, 3), dtype=np.float32)", "torch.zeros((n, 3))"), (6, 7), "torch.zeros"
    )
    assert twice is not None
    assert "torch.zeros" in twice.reason


def test_arrays_that_are_not_observations_and_their_followers_are_left_alone() -> None:
    assert found(IN_A_CLASS.replace("next_obs", "goals"), (6, 7)) is None
    assert found(IN_A_CLASS, (6, 6)) is None


def test_a_stack_of_frames_is_said_to_take_a_frame_a_row() -> None:
    stacked = IN_A_CLASS + "import gymnasium as gym\nenv = gym.wrappers.FrameStackObservation(gym.make('X'), 3)\n"
    twice = found(stacked, (6, 7))
    assert twice is not None
    assert twice.frames == 3
    assert "together take about 200 B" in twice.frames_by_hand
    plain = found(IN_A_CLASS, (6, 7))
    assert plain is not None
    assert plain.frames == 1
