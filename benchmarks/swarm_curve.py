"""The swarm learns, and the compact version learns what the assessed one does: the plot and the numbers in docs/swarm.md.

    python benchmarks/swarm_curve.py                                          # full size; minutes on two cores
    python benchmarks/swarm_curve.py --agents 500 --iterations 5 --small-iterations 3 --into /tmp/curve
    python benchmarks/swarm_curve.py --write-docs                             # the picture, the CSV, and docs/swarm.md

Every training is ``python -m rlmem.swarm train`` in a process of its own. Needs the ``truth`` extra (torch, matplotlib).
"""

from __future__ import annotations

import argparse
import csv
import datetime
import json
import platform
import re
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
PAGE, IMAGES = ROOT / "docs" / "swarm.md", ROOT / "docs" / "img"
NAME = "swarm-curve"
_PART = re.compile(r"(?<=<!-- curve -->\n).*?(?=<!-- end -->)", re.DOTALL)
#: The small runs: the assessed algorithm and the default, on the same seed. All windows are learnt from, as assessed.
SMALL = {"naive": ("--rung", "naive"), "gyro": ("--rung", "gyro", "--ae-share", "1")}
FLIGHTS = 2_000


def trained(*options: str) -> dict[str, Any]:
    """The document of one training."""
    words = [sys.executable, "-m", "rlmem.swarm", "train", *options, "--no-checkpoint", "--quiet", "--json"]
    print("+", *words[1:], file=sys.stderr, flush=True)
    done = subprocess.run(words, stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{' '.join(words)}: exit code {done.returncode}")
    document: dict[str, Any] = json.loads(done.stdout)
    return document


def random_reward(steps: int, seed: int) -> float:
    """The mean reward of a policy that knows nothing: noise of the policy's deviation around zero."""
    import torch

    from rlmem.swarm.physics import Drones
    from rlmem.swarm.settings import ACTIONS, SIGMA, SUBSTEPS

    generator = torch.Generator().manual_seed(seed)
    drones, total = Drones(FLIGHTS), 0.0
    drones.reset(generator)
    felt = torch.empty(FLIGHTS, SUBSTEPS, 3)
    for _ in range(steps):
        actions = SIGMA * torch.randn(FLIGHTS, ACTIONS, generator=generator)
        total += float(drones.step(actions, slice(None), felt).mean())
    return total / steps


def rewards(document: Mapping[str, Any]) -> list[float]:
    """By iteration."""
    return [float(row["reward"]) for row in document["iterations"]]


def draw(
    path: Path, large: Mapping[str, Any], small: Mapping[str, Sequence[float]], chance: float, agents: int
) -> None:
    """Two panels."""
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    plt.rcParams.update({"svg.hashsalt": NAME, "svg.fonttype": "none", "font.size": 10})
    figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.6), layout="constrained")
    curve = rewards(large)
    left.plot(range(1, len(curve) + 1), curve, color="#2a7ab0", label=f"{large['settings']['agents']:,} agents")
    left.axhline(chance, color="#888888", linestyle="--", label="random policy")
    left.set_title("Compact run on the CPU")
    naive, gyro = small["naive"], small["gyro"]
    right.plot(range(1, len(naive) + 1), naive, color="#d08030", linewidth=4, alpha=0.6, label="as assessed (naive)")
    right.plot(range(1, len(gyro) + 1), gyro, color="#2a7ab0", linewidth=1.2, label="compact (gyro, 16-bit samples)")
    right.set_title(f"The same seed, {agents} agents")
    for axes in (left, right):
        axes.set_xlabel("iteration")
        axes.set_ylabel("mean reward of an agent's step")
        axes.xaxis.get_major_locator().set_params(integer=True)
        axes.legend(frameon=False, loc="lower right")
        axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(path, metadata={"Date": None})
    plt.close(figure)


def write_table(path: Path, large: Sequence[float], small: Mapping[str, Sequence[float]], chance: float) -> None:
    """The same numbers; a run that was shorter has no value."""
    curves = {"large": large, **small}
    with path.open("w", encoding="utf-8", newline="") as stream:
        writer = csv.writer(stream, lineterminator="\n")
        writer.writerow(["iteration", *curves, "random_policy"])
        for index in range(max(len(curve) for curve in curves.values())):
            cells = (f"{curve[index]:.6f}" if index < len(curve) else "" for curve in curves.values())
            writer.writerow([index + 1, *cells, f"{chance:.6f}"])


def apart(first: Sequence[float], second: Sequence[float]) -> float:
    """The largest distance between two curves."""
    return max(abs(a - b) for a, b in zip(first, second, strict=True))


def paragraph(large: Mapping[str, Any], small: Mapping[str, Sequence[float]], chance: float, agents: int) -> str:
    """What the page says."""
    curve, naive = rewards(large), small["naive"]
    settings, peak = large["settings"], large["peak"]["nbytes"]
    held = "" if peak is None else f", {peak / 2**30:.2f} GiB at its peak"
    import torch

    return "\n".join(
        [
            f"![Reward over iterations](img/{NAME}.svg)",
            "",
            f"Left: {settings['agents']:,} agents, {len(curve)} iterations in {large['seconds'] / 60:.1f} minutes{held}: from "
            f"{curve[0]:.3f} to {curve[-1]:.3f}; a random policy gets {chance:.3f}. Right: {agents} agents, the assessed "
            f"algorithm and the compact one on the same seed, from {naive[0]:.3f} to {naive[-1]:.3f}, at no iteration more than "
            f"{apart(naive, small['gyro']):.4f} apart. `python benchmarks/swarm_curve.py --write-docs` made it "
            f"([numbers](img/{NAME}.csv)) on {datetime.date.today().isoformat()}: torch {torch.__version__}, "
            f"{torch.get_num_threads()} threads, {platform.system()} {platform.machine()}.",
            "",
        ]
    )


def main() -> None:
    """Train, draw, write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--agents", type=int, default=20_000)
    parser.add_argument("--iterations", type=int, default=50)
    parser.add_argument("--small", type=int, default=64, help="agents of the two small runs (13 MiB each)")
    parser.add_argument("--small-iterations", type=int, default=40)
    parser.add_argument("--small-minibatches", type=int, default=8)
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--into", type=Path, default=IMAGES, help="folder of the picture and the CSV")
    parser.add_argument("--write-docs", action="store_true")
    options = parser.parse_args()
    options.into.mkdir(parents=True, exist_ok=True)
    common = ("--steps", str(options.steps), "--seed", str(options.seed))
    few = (
        *("--agents", str(options.small), "--iterations", str(options.small_iterations)),
        *("--minibatches", str(options.small_minibatches), *common),
    )
    small = {name: rewards(trained(*few, *more)) for name, more in SMALL.items()}
    large = trained("--agents", str(options.agents), "--iterations", str(options.iterations), *common)
    chance = random_reward(options.steps, options.seed)
    draw(options.into / f"{NAME}.svg", large, small, chance, options.small)
    write_table(options.into / f"{NAME}.csv", rewards(large), small, chance)
    text = paragraph(large, small, chance, options.small)
    print(text)
    if options.write_docs:
        page = PAGE.read_text(encoding="utf-8")
        PAGE.write_text(_PART.sub(lambda _: text, page, count=1), encoding="utf-8")


if __name__ == "__main__":
    main()
