"""How long 'rlmem workers' takes on large clusters, as a whole command in a fresh process. No Ray is involved.

The goal is under a second for each. Prints the median and the largest of several rounds, and the answer.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROUNDS = 5
#: A run of RLlib that spans nodes: 2,000 env runners and 8 learners for every trial.
RLLIB = """\
name: rllib-wide
framework: {name: rllib}
algorithm: impala
observation: {type: box, shape: [84, 84, 4], dtype: uint8}
action: {type: discrete, n: 6}
n_envs: 4
rllib: {num_env_runners: 2000, num_learners: 8, num_aggregators: 8}
"""
SWARM = ("drone-swarm", "--set", "agents=10M", "--set", "storage=stream", "--shard", "agents")
CASES: dict[str, tuple[str, ...]] = {
    "a sweep on 1,000 nodes": ("crypto-ppo", "--nodes", "1000x(64GB,16cpu)"),
    "a sweep on 1,000 nodes of three kinds": (
        "pyboy-ppo",
        "--nodes",
        "500x(64GB,16cpu) + 300x(128GB,32cpu,2xRTX 4090) + 200x(256GB,64cpu,8xA100-80GB)",
    ),
    "RLlib with 2,000 env runners on 1,000 nodes": ("{rllib}", "--nodes", "1000x(64GB,16cpu)"),
    "10M agents over learners on 1,000 nodes of 16 GB": (*SWARM, "--nodes", "1000x16GB"),
    "10M agents over learners with GPUs": (*SWARM, "--set", "device=cuda", "--nodes", "1000x(64GB,16cpu,4xA100-80GB)"),
}


def main() -> None:
    """Every case."""
    print(f"{'case':50} {'median':>8} {'most':>8}   answer   ({ROUNDS} rounds, Python {sys.version.split()[0]})")
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "rllib-wide.yaml")
        file.write_text(RLLIB, encoding="utf-8")
        for name, words in CASES.items():
            command = [sys.executable, "-m", "rlmem", "workers", *(word.format(rllib=file) for word in words)]
            taken = []
            for _ in range(ROUNDS):
                start = time.perf_counter()
                done = subprocess.run(command, capture_output=True, text=True, check=False)
                taken.append(time.perf_counter() - start)
            answer = (done.stdout or done.stderr).splitlines()[0]
            print(f"{name:50} {statistics.median(taken):6.2f} s {max(taken):6.2f} s   {answer}")


if __name__ == "__main__":
    main()
