"""Makes the recordings: Atari games, a walking robot's camera, the same with sensor noise, a humanoid.

Runs in a process of its own (``python -m buffer_bench.record NAME FOLDER TRANSITIONS SEED``) and prints how far it is.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from buffer_bench.recording import Recorder, Recording
from buffer_bench.workloads import RECORDED

#: An action is kept with this probability, as a half-trained policy does.
PERSISTENCE = 0.8
NOISE = 3.0


class Progress:
    """Says how far it is, twice a second."""

    def __init__(self, recorder: Recorder, transitions: int) -> None:
        self.recorder, self.transitions, self.said = recorder, transitions, 0.0

    def more(self) -> bool:
        """Whether there is more to record."""
        done = len(self.recorder)
        if time.monotonic() - self.said > 0.5:
            self.said = time.monotonic()
            print(f"{done} {self.transitions}", flush=True)
        return done < self.transitions


def atari(game: str) -> Callable[[Recorder, Progress, int, Path], None]:
    """A game as SB3's wrappers play it: every fourth frame, 84×84 grey, an episode ends with a life."""

    def record(recorder: Recorder, progress: Progress, seed: int, _folder: Path) -> None:
        import ale_py
        import gymnasium

        gymnasium.register_envs(ale_py)
        rng = np.random.default_rng(seed)
        env = gymnasium.wrappers.AtariPreprocessing(gymnasium.make(f"{game}NoFrameskip-v4"), noop_max=30)
        over, action = True, 0
        while progress.more():
            if over:
                frame, info = env.reset(seed=int(rng.integers(2**31)))
            else:
                frame, *_, info = env.step(0)
            recorder.first(obs=frame)
            lives, limit, length, ended = info["lives"], int(rng.integers(100, 1200)), 0, False
            while not ended:
                if rng.random() > PERSISTENCE:
                    action = int(rng.integers(env.action_space.n))
                frame, reward, over, _, info = env.step(action)
                length += 1
                terminated = over or info["lives"] < lives
                ended = terminated or length >= limit
                recorder.step(action=action, reward=reward, terminated=terminated, truncated=ended, obs=frame)

    return record


def camera(recorder: Recorder, progress: Progress, seed: int, _folder: Path) -> None:
    """A walk through the room; at most 400 steps."""
    from buffer_bench.scene import walk

    walking = walk(seed)
    seen = next(walking)
    while progress.more():
        recorder.first(image=seen.image, vector=seen.vector)
        length, ended = 0, False
        while not ended:
            seen = next(walking)
            length += 1
            ended = seen.terminated or length >= 400
            recorder.step(
                action=seen.action, reward=seen.reward, terminated=seen.terminated, truncated=ended,
                image=seen.image, vector=seen.vector,
            )  # fmt: skip
        seen = next(walking) if seen.terminated else walking.send(True)


def noisy(recorder: Recorder, progress: Progress, seed: int, folder: Path) -> None:
    """The walk again, with Gaussian noise on every pixel."""
    source = Recording(folder.with_name("camera"), recorder.layout, progress.transitions)
    rng = np.random.default_rng(seed)

    def arrays(unit: int) -> dict[str, np.ndarray]:
        image = source.units["image"][unit] + rng.normal(0, NOISE, recorder.layout.units["image"].shape)
        return {"image": np.clip(np.rint(image), 0, 255), "vector": source.units["vector"][unit]}

    for number in range(len(source)):
        progress.more()
        unit = int(source.unit[number])
        if source.first[unit] == unit:
            recorder.first(**arrays(unit))
        recorder.step(
            action=source.action[number], reward=source.reward[number], terminated=source.terminated[number],
            truncated=source.truncated[number], **arrays(unit + 1),
        )  # fmt: skip


def humanoid(recorder: Recorder, progress: Progress, seed: int, _folder: Path) -> None:
    """MuJoCo's humanoid with the 376 values of Humanoid-v4. It falls and struggles on; terminated some time later."""
    import gymnasium

    rng = np.random.default_rng(seed)
    env = gymnasium.make("Humanoid-v5", terminate_when_unhealthy=False, max_episode_steps=-1).unwrapped
    data = env.data

    def facts() -> np.ndarray:
        parts = (data.qpos[2:], data.qvel, data.cinert, data.cvel, data.qfrc_actuator, data.cfrc_ext)
        return np.concatenate([np.ravel(part) for part in parts]).astype(np.float32)

    while progress.more():
        env.reset(seed=int(rng.integers(2**31)))
        recorder.first(obs=facts())
        action, limit, patience = np.zeros(17), int(rng.integers(200, 1000)), int(rng.integers(150, 900))
        length, ended = 0, False
        while not ended:
            action = np.clip(0.9 * action + rng.normal(0, 0.08, 17), -0.4, 0.4)
            _, reward, *_ = env.step(action)
            length += 1
            patience -= not env.is_healthy
            ended = patience <= 0 or length >= limit
            recorder.step(action=action, reward=reward, terminated=patience <= 0, truncated=ended, obs=facts())


RECORDS = {"pong": atari("Pong"), "mspacman": atari("MsPacman"), "camera": camera, "camera-noise": noisy,
           "vector": humanoid}  # fmt: skip


def main() -> None:
    """Record one."""
    name, folder, transitions, seed = sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4])
    recorder = Recorder(folder, RECORDED[name])
    RECORDS[name](recorder, Progress(recorder, transitions), seed, folder)
    recorder.close(seed)


if __name__ == "__main__":
    main()
