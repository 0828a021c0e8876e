"""Predicted against measured VRAM of real SB3 runs on this machine's GPU, one fresh process each, as a Markdown table.

Needs a CUDA build of torch, stable-baselines3, gymnasium and nvidia-ml-py. "Tensors" is what torch has allocated at its
peak; "driver" is the per-process figure of NVML, which adds the CUDA context and what the allocator keeps.
"""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

FRAMES = {"type": "box", "shape": [84, 84, 1], "dtype": "uint8"}
GAME_BOY = {"type": "box", "shape": [144, 160, 3], "dtype": "uint8"}
CAMERA = {"type": "box", "shape": [96, 96, 3], "dtype": "uint8"}
BUTTONS, JOINTS = {"type": "discrete", "n": 6}, {"type": "box", "shape": [8]}
OFF = {"learning_starts": 50}
#: Name to the description, the constructor's further arguments and the steps to run.
CASES: dict[str, tuple[dict[str, Any], dict[str, Any], int]] = {
    "ppo, Game Boy stacks, batch 2048": (
        {"algorithm": "ppo", "observation": GAME_BOY, "action": BUTTONS, "frame_stack": 4, "n_envs": 2, "n_steps": 2048,
         "batch_size": 2048, "n_epochs": 1}, {}, 4096),
    "ppo, Atari stacks, batch 256": (
        {"algorithm": "ppo", "observation": FRAMES, "action": BUTTONS, "frame_stack": 4, "n_envs": 8, "n_steps": 128,
         "batch_size": 256, "n_epochs": 2}, {}, 2048),
    "ppo, Atari stacks, batch 4096": (
        {"algorithm": "ppo", "observation": FRAMES, "action": BUTTONS, "frame_stack": 4, "n_envs": 8, "n_steps": 512,
         "batch_size": 4096, "n_epochs": 2}, {}, 8192),
    "dqn, Atari stacks, batch 32": (
        {"algorithm": "dqn", "observation": FRAMES, "action": BUTTONS, "frame_stack": 4, "buffer_size": 400,
         "batch_size": 32}, OFF, 400),
    "dqn, Atari stacks, batch 1024": (
        {"algorithm": "dqn", "observation": FRAMES, "action": BUTTONS, "frame_stack": 4, "buffer_size": 400,
         "batch_size": 1024}, OFF, 400),
    "sac, camera, batch 256": (
        {"algorithm": "sac", "observation": CAMERA, "action": JOINTS, "n_envs": 2, "buffer_size": 300, "batch_size": 256},
        OFF, 300),
    "td3, camera, batch 512": (
        {"algorithm": "td3", "observation": CAMERA, "action": JOINTS, "buffer_size": 200, "batch_size": 512}, OFF, 200),
    "sac, vector, batch 256": (
        {"algorithm": "sac", "observation": {"type": "box", "shape": [27]}, "action": JOINTS, "buffer_size": 10_000,
         "batch_size": 256}, OFF, 300),
}  # fmt: skip


def measure(case: dict[str, Any], arguments: dict[str, Any], steps: int) -> dict[str, int]:
    """Train for real in this process and report the peaks."""
    import gymnasium
    import numpy as np
    import pynvml
    import stable_baselines3
    import torch
    from gymnasium import spaces
    from stable_baselines3.common.vec_env import DummyVecEnv, VecFrameStack

    box = case["observation"]
    image = box.get("dtype") == "uint8"
    low, high, dtype = (0, 255, np.uint8) if image else (-1, 1, np.float32)

    class Still(gymnasium.Env):
        """An environment that shows the same observation for 100 steps."""

        observation_space = spaces.Box(low, high, tuple(box["shape"]), dtype)
        action_space = (
            spaces.Discrete(6) if case["action"] is BUTTONS or "n" in case["action"] else spaces.Box(-1, 1, (8,))
        )

        def __init__(self) -> None:
            self.seen, self.steps = self.observation_space.sample(), 0

        def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
            self.steps = 0
            return self.seen, {}

        def step(self, action: Any) -> Any:
            self.steps += 1
            return self.seen, 0.0, False, self.steps >= 100, {}

    env: Any = DummyVecEnv([Still] * case.get("n_envs", 1))
    if case.get("frame_stack", 1) > 1:
        env = VecFrameStack(env, case["frame_stack"])
    names = ("n_steps", "batch_size", "n_epochs", "buffer_size")
    kwargs = {name: case[name] for name in names if name in case} | arguments
    algorithm = getattr(stable_baselines3, case["algorithm"].upper())
    model = algorithm("CnnPolicy" if image else "MlpPolicy", env, device="cuda", **kwargs)
    model.learn(steps)
    torch.cuda.synchronize()
    pynvml.nvmlInit()
    handle = pynvml.nvmlDeviceGetHandleByIndex(0)
    running = [p.usedGpuMemory for p in pynvml.nvmlDeviceGetComputeRunningProcesses(handle)]
    driver = running[0] if len(running) == 1 and running[0] else pynvml.nvmlDeviceGetMemoryInfo(handle).used
    return {"tensors": torch.cuda.max_memory_allocated(), "driver": driver}


def main() -> None:
    """Every case once, or one case as a child process."""
    if len(sys.argv) > 1:
        print(json.dumps(measure(*CASES[sys.argv[1]])))
        return
    from rlmem.frameworks import predict, resolve
    from rlmem.model.constants import Constants
    from rlmem.spec import RunSpec

    print("| run | tensors: predicted, MB | measured | error | driver: predicted range, MB | measured |")
    print("| --- | ---: | ---: | ---: | ---: | ---: |")
    for name, (case, _, _) in CASES.items():
        done = subprocess.run([sys.executable, __file__, name], capture_output=True, text=True, check=True)
        truth = json.loads(done.stdout.strip().splitlines()[-1])
        ledger = predict(
            resolve(RunSpec().having({"framework.name": "sb3", "device": "cuda", **case}, "bench")), Constants()
        )
        top = next(peak for peak in ledger.peaks() if peak.device == "vram" and peak.is_peak)
        held = ledger.only(device="vram", phase=top.phase)
        around = sum(held.only(component=f"runtime.{part}").nbytes for part in ("cuda-context", "allocator"))
        tensors = top.expected_bytes - around
        error = 100 * (tensors / truth["tensors"] - 1)
        print(
            f"| {name} | {tensors / 1e6:,.0f} | {truth['tensors'] / 1e6:,.0f} | {error:+.1f} % | "
            f"{top.low_bytes / 1e6:,.0f}–{top.high_bytes / 1e6:,.0f} | {truth['driver'] / 1e6:,.0f} |",
            flush=True,
        )


if __name__ == "__main__":
    main()
