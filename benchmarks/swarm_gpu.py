"""The swarm on a GPU: a million agents under 16 GB, the most agents the card holds, speed against the card's ceilings.

    python benchmarks/swarm_gpu.py --json result.json            # on a machine with a GPU, minutes
    python benchmarks/swarm_gpu.py --read result.json --write-docs

Trains through the same code as ``python -m rlmem.swarm train``.
"""

from __future__ import annotations

import argparse
import gc
import json
import platform
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

from rlmem.core.plan import Budget
from rlmem.errors import UsageError
from rlmem.planner import Planner
from rlmem.swarm.chunking import choose_chunk
from rlmem.swarm.settings import Settings
from rlmem.units import parse_size

DOCS = Path(__file__).parents[1] / "docs" / "swarm.md"
START, END = "<!-- h200 -->", "<!-- end -->"
GB, MIB = 10**9, 2**20
#: Multiply-adds of one agent-step: encoder over the stream, encoder by itself, decoder, policy and value.
STREAM, WINDOW, DECODER, HEAD = 121_000, 552_000, 552_000, 20_100


def ceilings() -> dict[str, float]:
    """Copy bandwidth and bf16 matrix rate, measured."""
    import torch

    def best(work: Any, repeat: int = 10) -> float:
        for _ in range(3):
            work()
        times = []
        for _ in range(repeat):
            start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
            start.record()
            work()
            end.record()
            torch.cuda.synchronize()
            times.append(start.elapsed_time(end) / 1e3)
        return sorted(times)[len(times) // 2]

    big = torch.empty(2**31, dtype=torch.uint8, device="cuda").random_()
    other = torch.empty_like(big)
    copied = 2 * big.numel() / best(lambda: other.copy_(big))
    big = other = None  # type: ignore[assignment]
    a, b = (torch.randn(8192, 8192, dtype=torch.bfloat16, device="cuda") for _ in range(2))
    rate = 2 * 8192**3 / best(lambda: a @ b)
    return {"bytes_per_second": copied, "flop_per_second": rate}


def planner(cap: int) -> Planner:
    """Plans against a cap on VRAM."""
    return Planner(budget=Budget(name="the card", vram_bytes=cap, vram_source="the cap"))


def train(settings: Settings, cap: int, iterations: int, chunk: int | None) -> dict[str, Any]:
    """Some iterations under a cap that the allocator enforces."""
    import torch

    from rlmem.swarm.run import SwarmRun

    total = torch.cuda.get_device_properties(0).total_memory
    torch.cuda.set_per_process_memory_fraction(min(cap / total, 1.0))
    fitted = choose_chunk(settings, planner(cap), chunk)
    torch.cuda.reset_peak_memory_stats()
    run = SwarmRun(fitted.settings)
    rows = []
    for _ in range(iterations):
        done = run.iterate()
        rows.append({"reward": done.reward, "seconds": done.seconds, "ae_loss": done.ae_loss})
        print(f"  {settings.agents:,} agents, {done.number}: reward {done.reward:.4f} {done.seconds}", flush=True)
    answer = {
        "agents": settings.agents,
        "rung": settings.rung,
        "ae_share": settings.ae_share,
        "minibatches": settings.minibatches,
        "chunk": fitted.settings.chunk,
        "cap_bytes": cap,
        "allocated_bytes": torch.cuda.max_memory_allocated(),
        "reserved_bytes": torch.cuda.max_memory_reserved(),
        "stored_bytes": run.kept.nbytes,
        "iterations": rows,
    }
    del run
    gc.collect()
    torch.cuda.empty_cache()
    torch.cuda.set_per_process_memory_fraction(1.0)
    return answer


def rate(result: dict[str, Any], steps: int = 100) -> float:
    """Agent-steps a second, learning included; the first iteration, which warms up, is left out."""
    rows = result["iterations"][1:] or result["iterations"]
    return float(result["agents"] * steps * len(rows) / sum(sum(row["seconds"].values()) for row in rows))


def traffic(settings: Settings) -> float:
    """Bytes that the operations of an agent-step read and write, each tensor once an operation."""
    import torch
    from torch.utils._python_dispatch import TorchDispatchMode
    from torch.utils._pytree import tree_leaves

    from rlmem.swarm.run import SwarmRun

    moved = 0

    class Count(TorchDispatchMode):
        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            nonlocal moved
            out = func(*args, **(kwargs or {}))
            if not func.is_view and "empty" not in func.name():
                moved += sum(
                    t.numel() * t.element_size()
                    for t in tree_leaves((args, kwargs, out))
                    if isinstance(t, torch.Tensor)
                )
            return out

    run = SwarmRun(settings)
    run.iterate()
    if run.flight is not None:  # a graph's operations are not dispatched
        run.flight.fly = run.flight._fly  # type: ignore[method-assign]
    with Count():
        run.iterate()
    return moved / (settings.agents * settings.steps)


def flop(ae_share: float) -> float:
    """Operations that an agent-step asks for: collection forwards, update forwards and back."""
    return 2.0 * (STREAM + HEAD + 3 * (STREAM + HEAD + ae_share * DECODER))


def measure(arguments: argparse.Namespace) -> dict[str, Any]:
    """Everything, in one run."""
    import torch

    start = time.time()
    million = Settings(agents=arguments.agents, minibatches=arguments.minibatches, compute="bfloat16", device="cuda")
    result: dict[str, Any] = {
        "device": torch.cuda.get_device_name(),
        "torch": torch.__version__,
        "python": platform.python_version(),
        "total_bytes": torch.cuda.get_device_properties(0).total_memory,
        "ceilings": ceilings(),
    }
    torch.cuda.empty_cache()
    cap = parse_size(arguments.vram)

    def keep(name: str, value: Any) -> None:
        """As it comes, so that a run that is cut short has said something."""
        result[name] = value
        if arguments.json:
            arguments.json.write_text(json.dumps(result, indent=1))

    keep("capped", train(million, cap, arguments.iterations, arguments.chunk))
    keep("bytes_per_agent_step", traffic(replace(million, agents=32_768, minibatches=4, chunk=2048)))
    gc.collect()
    torch.cuda.empty_cache()
    keep("whole_autoencoder", train(replace(million, ae_share=1.0), cap, 2, arguments.chunk))
    keep("resimulated", train(replace(million, rung="resimulated"), cap, 2, arguments.chunk))
    for name, rung in (("most", "gyro"), ("most_resimulated", "resimulated")):
        if arguments.most and time.time() - start < arguments.enough:
            settings = replace(million, rung=rung, minibatches=64)
            agents = most(settings, result["total_bytes"] - parse_size("3GiB"))
            keep(name, train(replace(settings, agents=agents), result["total_bytes"], 1, 2048))
    return result


def most(settings: Settings, cap: int) -> int:
    """The most agents whose plan fits, in hundreds of thousands."""
    low, high = 1, 2000
    while low < high:
        middle = (low + high + 1) // 2
        try:
            choose_chunk(replace(settings, agents=middle * 100_000, minibatches=64), planner(cap), 2048)
            low = middle
        except UsageError:
            high = middle - 1
    return low * 100_000


def planned(row: dict[str, Any]) -> int:
    """What the planner says of a run that was measured."""
    names = ("agents", "rung", "ae_share", "minibatches", "chunk")
    settings = Settings(**{name: row[name] for name in names}, compute="bfloat16", device="cuda")
    return choose_chunk(settings, planner(row["cap_bytes"]), row["chunk"]).tensor_bytes


def table(result: dict[str, Any]) -> str:
    """The section of the documentation."""
    capped, peak = result["capped"], result["ceilings"]
    done = rate(capped)
    lines = [
        f"{result['device']}, torch {result['torch']}, Python {result['python']}; bfloat16 compute with float32 parameters, "
        f"float16 storage. Cap set with `set_per_process_memory_fraction`.",
        "",
        "| run | agents | cap | planned | allocated at most | chunk | agent-steps/s |",
        "| --- | ---: | ---: | ---: | ---: | ---: | ---: |",
    ]
    titles = {
        "capped": f"{len(capped['iterations'])} iterations, {capped['minibatches']} minibatches, AE on 1 window in 10",
        "whole_autoencoder": "the same, AE on every window",
        "resimulated": "accelerations flown again instead of stored",
        "most": "the most agents, one iteration",
        "most_resimulated": "the most agents, accelerations flown again, one iteration",
    }
    for key, title in titles.items():
        row = result.get(key)
        if row:
            sizes = " | ".join(
                f"{size / GB:.2f} GB" for size in (row["cap_bytes"], planned(row), row["allocated_bytes"])
            )
            lines.append(f"| {title} | {row['agents']:,} | {sizes} | {row['chunk']:,} | {rate(row) / 1e6:.1f} M |")
    rewards = [row["reward"] for row in capped["iterations"]]
    moved = result["bytes_per_agent_step"] * done
    work = flop(capped["ae_share"]) * done
    lines += [
        "",
        "Mean reward by iteration at a million agents: " + ", ".join(f"{reward:.3f}" for reward in rewards) + ".",
        "",
        "| | achieved | ceiling, measured here | share |",
        "| --- | ---: | ---: | ---: |",
        f"| memory traffic (every operation's tensors once) | {moved / 1e12:.2f} TB/s | {peak['bytes_per_second'] / 1e12:.2f} TB/s "
        f"| {moved / peak['bytes_per_second']:.0%} |",
        f"| arithmetic that the algorithm asks for | {work / 1e12:.1f} TFLOP/s | {peak['flop_per_second'] / 1e12:.0f} TFLOP/s "
        f"| {work / peak['flop_per_second']:.1%} |",
        "",
        f"An agent-step moves {result['bytes_per_agent_step'] / 1e3:.0f} kB and asks for {flop(capped['ae_share']) / 1e6:.2f} MFLOP, "
        f"{flop(capped['ae_share']) / result['bytes_per_agent_step']:.1f} FLOP a byte where the card balances at "
        f"{peak['flop_per_second'] / peak['bytes_per_second']:.0f}: memory decides, and with these operations at full bandwidth it would be "
        f"{peak['bytes_per_second'] / result['bytes_per_agent_step'] / 1e6:.0f} M agent-steps/s. The gap to that is in operations that do not "
        "stream: the gradients of shared positions are added in 23 strided passes, biases are summed by reductions, windows and "
        "borders are picked by strided copies, and a step of a flight is some sixty kernels of 5 to 20 µs. The gap from these operations to "
        "what has to be moved is fusion: every layer's activations are written and read again for a mask, a sum and a product.",
    ]
    return "\n".join(lines)


def main() -> int:
    """Measure, or write what was measured into the documentation."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--agents", type=int, default=1_000_000)
    parser.add_argument("--iterations", type=int, default=21)
    parser.add_argument("--minibatches", type=int, default=16)
    parser.add_argument("--chunk", type=int)
    parser.add_argument("--vram", default="16GB")
    parser.add_argument("--most", action="store_true", help="also find and run the most agents")
    parser.add_argument("--enough", type=float, default=400, help="seconds after which nothing more is begun")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--read", type=Path)
    parser.add_argument("--write-docs", action="store_true")
    arguments = parser.parse_args()
    result = json.loads(arguments.read.read_text()) if arguments.read else measure(arguments)
    text = table(result)
    print(text)
    if arguments.write_docs:
        page = DOCS.read_text(encoding="utf-8")
        head, rest = page.split(START, 1)
        DOCS.write_text(f"{head}{START}\n{text}\n{rest[rest.index(END) :]}", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
