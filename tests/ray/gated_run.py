"""What the tests of sweeps measure: a loop of its own without torch, which asks at every start whether it may go on."""

from __future__ import annotations

import argparse
import os
import socket
import time
from pathlib import Path
from typing import Any


def main() -> Any:
    """Ask at the gate, then step an environment and keep ``size`` MiB of it."""
    import gymnasium as gym
    import numpy as np

    parser = argparse.ArgumentParser()
    parser.add_argument("--size", type=int, default=1)
    parser.add_argument("--gate", required=True)
    parser.add_argument("--greedy", type=int, default=0, help="MiB to take beside, all at once, which no plan foresees")
    args = parser.parse_args()
    with socket.socket(socket.AF_UNIX) as line:
        line.connect(args.gate)
        Path(f"{args.gate}.{os.getpid()}").touch()
        line.sendall(f"{args.size} {os.getpid()}\n".encode())
        answer = line.recv(1)
    env = gym.make("CartPole-v1")
    env.reset(seed=0)
    store = np.ones((args.size, 1 << 20), np.uint8)  # planned as filled; up to 64 rows of it are
    held = [b"x" * (1 << 20) for _ in range(args.greedy * (answer == b"+"))]
    for step in range(64):
        store[step % args.size] = step
        if any(env.step(env.action_space.sample())[2:4]):
            env.reset()
    if answer == b"+":  # real runs last longer than a look at them takes on a busy machine
        time.sleep(1.5)
    return store, held


if __name__ == "__main__":
    kept = main()  # where the plan finds it
