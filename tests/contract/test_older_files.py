"""Files of earlier versions load. What is in ``data`` was written by the version that had the format, and is never written again."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

pytestmark = pytest.mark.truth
spaces = pytest.importorskip("gymnasium.spaces")
pytest.importorskip("stable_baselines3")

from rlmem.sb3 import CompactReplayBuffer  # noqa: E402  # after what has to be there

DATA = Path(__file__).parent / "data"
#: By format, and the codec each was written with.
FILES = {"format-1": "zstd", "format-2-huffman": "huffman", "format-2-zstd": "zstd", "format-2-auto": "auto"}
SPACE = spaces.Dict({"image": spaces.Box(0, 255, (4, 12, 12), np.uint8), "vector": spaces.Box(-9, 9, (3,), np.float32)})


def written(codec: str = "zstd") -> CompactReplayBuffer:
    """What the file holds: 300 steps of two envs in a buffer of 400 transitions, episodes of 37 and 53 steps."""
    buffer = CompactReplayBuffer(400, SPACE, spaces.Discrete(5), device="cpu", n_envs=2, codec=codec)
    at = np.arange(2)

    def seen(age: np.ndarray, step: int) -> dict[str, np.ndarray]:
        frames = [
            [np.full((12, 12), 0 if age[e] < b else (step - b) % 251 + e, np.uint8) for b in (3, 2, 1, 0)] for e in at
        ]
        return {"image": np.array(frames), "vector": np.float32([[step, age[e], e] for e in at])}

    age = np.zeros(2, int)
    for step in range(300):
        done = (age + 1) % np.array([37, 53]) == 0
        obs, after = seen(age, step), seen(age + 1, step + 1)
        infos = [{"TimeLimit.truncated": bool(step % 2)} for _ in at]
        buffer.add(obs, after, np.array([step % 5, 1]), np.float32([step, -step]), done, infos)
        age = np.where(done, 0, age + 1)
    return buffer


@pytest.mark.parametrize("name", FILES)
def test_a_file_of_a_format_loads_and_goes_on(name: str) -> None:
    loaded, expected = CompactReplayBuffer.load(DATA / f"{name}.rlmem"), written(FILES[name])
    assert (loaded.pos, loaded.full) == (expected.pos, expected.full)
    for name in ("observations", "next_observations"):
        for key in SPACE:
            assert np.array_equal(np.asarray(getattr(loaded, name)[key]), np.asarray(getattr(expected, name)[key]))
    for name in ("actions", "rewards", "dones", "timeouts"):
        assert np.array_equal(getattr(loaded, name), getattr(expected, name))
    last = {key: expected.next_observations[key][expected.pos - 1] for key in SPACE}
    for buffer in (loaded, expected):
        buffer.add(last, last, np.array([1, 2]), np.zeros(2), np.zeros(2, bool), [{}, {}])
    assert np.array_equal(
        loaded.observations["image"][loaded.pos - 1], expected.observations["image"][expected.pos - 1]
    )
