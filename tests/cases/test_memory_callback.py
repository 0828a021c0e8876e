"""``rlmem.sb3.MemoryCallback`` in real training: what it logs is what is there, and it changes nothing."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("stable_baselines3", reason="the 'truth' extra is not installed; 'make test' installs it")

import gymnasium
import numpy as np
from stable_baselines3 import DQN, PPO
from stable_baselines3.common.logger import configure

import rlmem
from rlmem.agent import proc
from rlmem.runner.guarding import Load
from rlmem.sb3 import CompactReplayBuffer, MemoryCallback
from rlmem.units import MIB

pytestmark = pytest.mark.truth


class Wide(gymnasium.Env[Any, Any]):
    """Observations of 8 KiB."""

    observation_space = gymnasium.spaces.Box(-1, 1, (2048,), dtype=np.float32)
    action_space = gymnasium.spaces.Discrete(2)

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.count = 0
        return self.np_random.random(2048, dtype=np.float32), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self.count += 1
        return self.np_random.random(2048, dtype=np.float32), float(action), self.count >= 50, False, {}


def dqn(**options: Any) -> DQN:
    return DQN(
        "MlpPolicy", Wide(), buffer_size=4000, learning_starts=10**9, policy_kwargs={"net_arch": [8]}, device="cpu",
        seed=3, **options,
    )  # fmt: skip


def logged(model: Any, folder: Path, callback: MemoryCallback, steps: int) -> dict[str, float]:
    """The values that the logger held when training ended."""
    model.set_logger(configure(str(folder), ["csv"]))
    model.learn(steps, callback=callback, log_interval=10**9)
    return {name: float(value) for name, value in model.logger.name_to_value.items() if name.startswith("memory/")}


def test_a_replay_buffer_is_logged_as_it_fills(tmp_path: Path) -> None:
    model = dqn()
    values = logged(model, tmp_path, MemoryCallback(interval_s=1e-9), 2000)
    buffer = model.replay_buffer
    reserved = sum(value.nbytes for value in vars(buffer).values() if isinstance(value, np.ndarray))
    assert values["memory/replay_buffer/reserved_mib"] == pytest.approx(reserved / MIB)
    assert values["memory/replay_buffer/fill"] == pytest.approx(0.5, abs=0.001)
    assert 0 < values["memory/replay_buffer/resident_mib"] < 0.65 * reserved / MIB
    assert values["memory/rss_mib"] == pytest.approx(proc.rss() / MIB, rel=0.1)
    assert values["memory/peak_mib"] >= values["memory/rss_mib"]
    assert 0 < values["memory/limit_share"] < 1
    assert values["memory/tree_mib"] > 100
    assert "memory/vram_allocated_mib" not in values  # no CUDA here


def test_a_rollout_and_a_compact_buffer_are_logged_too(tmp_path: Path) -> None:
    ppo = PPO("MlpPolicy", "CartPole-v1", n_steps=64, batch_size=32, n_epochs=1, device="cpu")
    values = logged(ppo, tmp_path / "ppo", MemoryCallback(interval_s=1e-9), 128)
    assert values["memory/rollout_buffer/fill"] > 0.9
    compact = dqn(replay_buffer_class=CompactReplayBuffer)
    values = logged(compact, tmp_path / "compact", MemoryCallback(interval_s=1e-9), 200)
    # By its own books, and read a little before the end: reading is spaced by what it costs.
    size = compact.replay_buffer.nbytes / MIB
    assert 0.3 * size < values["memory/replay_buffer/resident_mib"] <= size


def test_the_interval_and_the_prefix_are_heeded(tmp_path: Path) -> None:
    model = dqn()
    model.set_logger(configure(str(tmp_path), ["csv"]))
    written: list[str] = []
    record = model.logger.record
    model.logger.record = lambda key, *rest, **more: (written.append(key), record(key, *rest, **more))
    model.learn(300, callback=MemoryCallback("ram", interval_s=3600), log_interval=10**9)
    assert written.count("ram/rss_mib") == 1  # the one before the first step


def test_a_guard_is_checked_at_every_step_and_may_end_the_training() -> None:
    class EnoughError(Exception):
        pass

    def stop(load: Load) -> None:
        raise EnoughError(load.sentence())

    model = dqn()
    guard = rlmem.guard(proc.rss() + 20 * MIB, act_at=1.0, warn_at=0.99, on_pressure=stop, interval_s=0.01)
    with guard, pytest.raises(EnoughError, match="--max-ram"):
        model.learn(4000, callback=MemoryCallback(guard=guard))
    assert 100 < model.num_timesteps < 4000


def test_training_with_the_callback_is_the_same_to_the_bit() -> None:
    def weights(callback: MemoryCallback | None) -> dict[str, Any]:
        model = DQN("MlpPolicy", "CartPole-v1", learning_starts=50, device="cpu", seed=5)
        model.learn(600, callback=callback)
        return {name: value.numpy() for name, value in model.policy.state_dict().items()}

    plain, logged_ = weights(None), weights(MemoryCallback(interval_s=1e-9))
    for name, value in plain.items():
        assert np.array_equal(value, logged_[name]), name


def test_reading_pages_is_spaced_by_what_it_costs(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[int] = []

    def slow(address: int, nbytes: int) -> int:
        calls.append(nbytes)
        time.sleep(0.01)
        return nbytes

    monkeypatch.setattr(proc, "resident", slow)
    dqn().learn(400, callback=MemoryCallback(interval_s=1e-9))
    assert 0 < len(calls) <= 8  # once over the buffer's arrays: 50 ms may be spent once in 50 s
