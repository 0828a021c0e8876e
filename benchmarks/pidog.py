"""A million camera transitions in a container of 24 GB, trained on: what docs/pidog.md tells, measured.

    python benchmarks/pidog.py                          # a million, codec="auto"; some minutes
    python benchmarks/pidog.py --transitions 50000 --codec none
    python benchmarks/pidog.py --write-docs

The observations are those of ``benchmarks/buffers.py``'s robot camera, recorded once and played again and again; the model
is SB3's SAC with its own extractor for Dict observations. One process, its own resident memory.
"""

from __future__ import annotations

import argparse
import platform
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "benchmarks"), str(ROOT / "src")]

import numpy as np  # noqa: E402  # the path is set just above
from buffer_bench.learn import environment  # noqa: E402
from buffer_bench.memory import status  # noqa: E402
from buffer_bench.recording import Recording, transitions_in  # noqa: E402
from buffer_bench.workloads import WORKLOADS  # noqa: E402
from rich.progress import track  # noqa: E402

from rlmem.process.calibration import cache_folder  # noqa: E402

PAGE = ROOT / "docs" / "pidog.md"
BEGIN, END = "<!-- bench:begin -->", "<!-- bench:end -->"
GIB = 2**30


def measured(transitions: int, codec: str, folder: Path, updates: int) -> list[tuple[str, str]]:
    """Fill a buffer, train on it, and say what it took."""
    import stable_baselines3
    import torch

    from rlmem.sb3 import CompactReplayBuffer

    layout = WORKLOADS["camera"].layout
    recording = Recording(folder, layout, transitions_in(folder))
    model = stable_baselines3.SAC(
        "MultiInputPolicy", environment(recording), buffer_size=transitions, batch_size=256, learning_starts=0, seed=0,
        device="cpu", replay_buffer_class=CompactReplayBuffer, replay_buffer_kwargs={"codec": codec},
    )  # fmt: skip
    model.learn(4)
    start = time.perf_counter()
    for number in track(range(transitions), description="filling"):
        step = recording.step(number % len(recording))
        at = number % len(recording)
        ended, infos = step.terminated or step.truncated, [{"TimeLimit.truncated": step.truncated}]
        reward = recording.reward[at : at + 1]
        model.replay_buffer.add(step.obs, step.next_obs, step.action, reward, np.array([ended]), infos)
    filling = time.perf_counter() - start
    start = time.perf_counter()
    model.learn(updates, reset_num_timesteps=False)
    learning = time.perf_counter() - start
    buffer = model.replay_buffer
    described = buffer.describe()
    plain = 2 * layout.nbytes + 32 + 12
    return [
        ("transitions held", f"{described['transitions']:,}"),
        ("stored as", "; ".join(f"{key}: {value['codec']}" for key, value in described["keys"].items())),
        ("bytes a transition", f"{buffer.bytes_per_transition:,.0f}"),
        ("the same in SB3's DictReplayBuffer", f"{plain:,} bytes a transition, {plain * transitions / GIB:,.1f} GiB"),
        ("buffer", f"{buffer.nbytes / GIB:,.2f} GiB"),
        (
            "largest the process ever was, training included, with libraries and pages of the recording",
            f"{status('VmHWM') / GIB:,.2f} GiB",
        ),
        ("adding", f"{transitions / filling:,.0f} transitions a second"),
        ("SAC steps, each with an update of batch 256", f"{updates:,}, {updates / learning:,.1f} a second"),
        (
            "with",
            f"Python {platform.python_version()}, torch {torch.__version__}, SB3 {stable_baselines3.__version__}, 2 cores",
        ),
    ]


def main() -> None:
    """Measure, print, and write the page's table if asked to."""
    folder = cache_folder() / "bench-buffers" / "seed-0" / "camera"
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--transitions", type=int, default=1_000_000)
    parser.add_argument("--updates", type=int, default=200, help="steps of learn() afterwards, each with an update")
    parser.add_argument("--codec", default="auto")
    parser.add_argument("--data", type=Path, default=folder, help="the camera's recording (default: %(default)s)")
    parser.add_argument("--write-docs", action="store_true", help="put the table into docs/pidog.md")
    given = parser.parse_args()
    if not (given.data / "facts.json").is_file():
        sys.exit(f"no recording in {given.data}: run 'python benchmarks/buffers.py --only camera:sb3' once")
    rows = measured(given.transitions, given.codec, given.data, given.updates)
    table = "\n".join(["| | |", "| --- | --- |", *(f"| {name} | {value} |" for name, value in rows)])
    print(table)
    if given.write_docs:
        text = PAGE.read_text(encoding="utf-8")
        before, rest = text.split(BEGIN)
        PAGE.write_text(f"{before}{BEGIN}\n{table}\n{END}{rest.split(END)[1]}", encoding="utf-8")


if __name__ == "__main__":
    main()
