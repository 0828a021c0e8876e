"""Predicted against measured VRAM on this machine's GPU, one fresh process each, as a Markdown table and a CSV file.

Each case of ``vram_cases.py`` is trained for real on the GPU, and its update is recorded on the CPU at two small sizes,
in processes that cannot see the GPU. The prediction knows the recordings alone. "Allocated" and "reserved" are torch's
peaks, "driver" the per-process figure of NVML, which adds the CUDA context. The last column is the driver's figure by the
closed form, from a description alone, where a case can be described.

Needs a CUDA build of torch, stable-baselines3, sb3-contrib, gymnasium and nvidia-ml-py.
``python benchmarks/vram.py [results.csv [part of a name]]``
"""

from __future__ import annotations

import csv
import gc
import json
import os
import statistics
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import vram_cases

SOURCE = Path(__file__).parents[1] / "src"
FIGURES = ("allocated", "reserved", "driver")


def measure(name: str) -> dict[str, int]:
    """Train for real in this process and report the peaks."""
    import pynvml
    import torch

    case = vram_cases.CASES[name]
    kept = vram_cases.train(case, "cuda", vram_cases.size(case), lambda _, update: update())
    torch.cuda.synchronize()
    pynvml.nvmlInit()
    handle = pynvml.nvmlDeviceGetHandleByIndex(0)
    running = {p.pid: p.usedGpuMemory for p in pynvml.nvmlDeviceGetComputeRunningProcesses(handle)}
    # In a container the driver may know this process by another number, or not at all.
    driver = running.get(os.getpid()) or (next(iter(running.values()), None) if len(running) == 1 else None)
    peaks = {"allocated": torch.cuda.max_memory_allocated(), "reserved": torch.cuda.max_memory_reserved()}
    del kept
    return {**peaks, "driver": driver or pynvml.nvmlDeviceGetMemoryInfo(handle).used}


def record(name: str, size: str) -> dict[str, Any]:
    """Run the update at a small size on the CPU with every operation written down."""
    import torch

    sys.path.insert(0, str(SOURCE / "rlmem" / "agent"))
    from ops import OpRecorder, as_on_cuda

    found: dict[str, Any] = {}

    def around(model: Any, update: Callable[[], Any]) -> None:
        optimizers = [one for one in gc.get_objects() if isinstance(one, torch.optim.Optimizer)]
        network = model[0] if isinstance(model, tuple) else model.policy
        with as_on_cuda(optimizers), OpRecorder([*network.parameters(), *network.buffers()]) as recorder:
            update()
        found.update(recorder.recording())

    torch.set_num_threads(2)
    vram_cases.train(vram_cases.CASES[name], "cpu", int(size), around)
    return found


def child(verb: str, *arguments: str) -> Any:
    """The JSON that this file prints in a fresh process; only a measurement sees the GPU."""
    unseen = {} if verb == "measure" else {"CUDA_VISIBLE_DEVICES": ""}
    command = [sys.executable, __file__, verb, *arguments]
    done = subprocess.run(command, check=False, capture_output=True, text=True, env={**os.environ, **unseen})
    if done.returncode:
        sys.exit(f"{verb} {arguments}: {done.stderr[-2000:]}")
    return json.loads(done.stdout.strip().splitlines()[-1])


def closed_form(case: dict[str, Any]) -> int | None:
    """The driver's figure by arithmetic over a description; ``None`` for a network or loop of one's own."""
    from rlmem.core.spec import RunSpec
    from rlmem.frameworks import predict, resolve
    from rlmem.model.constants import Constants

    if "loop" in case or case["net"] or "policy" in case:
        return None
    spec = {
        name: case[name] for name in ("algorithm", "observation", "action", "frame_stack", "n_envs") if name in case
    }
    if case["algorithm"] in vram_cases.OFF_POLICY:
        spec |= {"batch_size": case["batch_size"], "buffer_size": 200}
    elif case["algorithm"] == "a2c":
        spec |= {"n_steps": case["batch_size"] // case["n_envs"]}
    else:
        spec |= {"batch_size": case["batch_size"], "n_steps": 2 * case["batch_size"] // case["n_envs"], "n_epochs": 2}
    ledger = predict(
        resolve(RunSpec().having({"framework.name": "sb3", "device": "cuda", **spec}, "bench")), Constants()
    )
    return next(peak.expected_bytes for peak in ledger.peaks() if peak.device == "vram" and peak.is_peak)


def main() -> None:
    """Every case once; the recordings run beside the measurements."""
    sys.path.insert(0, str(SOURCE))
    from rlmem.model.constants import Constants
    from rlmem.trace.align import Recording
    from rlmem.trace.vram import predict_vram

    results = Path(sys.argv[1]) if len(sys.argv) > 1 else None
    names = [name for name in vram_cases.CASES if sys.argv[2:3] == [] or sys.argv[2] in name]
    pool = ThreadPoolExecutor(max(1, (os.cpu_count() or 2) // 3))
    jobs = {
        name: [(size, pool.submit(child, "record", name, str(size))) for size in vram_cases.small_sizes(case)]
        for name, case in vram_cases.CASES.items()
        if name in names
    }
    rows: list[dict[str, Any]] = []
    print(
        "| run | "
        + " | ".join(f"{figure}: predicted, MB | measured | error" for figure in FIGURES)
        + " | range | closed form |"
    )
    print("| --- |" + " ---: |" * (3 * len(FIGURES) + 2))
    for name in names:
        truth = child("measure", name)
        recordings = [Recording.from_plain(size, job.result()) for size, job in jobs[name]]
        found = predict_vram(recordings, vram_cases.size(vram_cases.CASES[name]), constants=Constants())
        row: dict[str, Any] = {"run": name, "unaligned": found.unaligned, "operations": found.operations}
        cells = []
        for figure, part in zip(FIGURES, (found.allocated, found.reserved, found.process), strict=True):
            error = part.value / truth[figure] - 1
            row |= {f"{figure}_low": part.low, f"{figure}_expected": part.value, f"{figure}_high": part.high}
            row |= {f"{figure}_measured": truth[figure], f"{figure}_error": round(error, 5)}
            cells.append(f"{part.value / 1e6:,.0f} | {truth[figure] / 1e6:,.0f} | {100 * error:+.1f} %")
        row["closed_form"] = closed = closed_form(vram_cases.CASES[name])
        rows.append(row)
        bounds = f"{found.process.low / 1e6:,.0f}–{found.process.high / 1e6:,.0f}"
        print(
            f"| {name} | " + " | ".join(cells) + f" | {bounds} | {f'{closed / 1e6:,.0f}' if closed else ''} |",
            flush=True,
        )
    print()
    for figure in FIGURES:
        errors = sorted(abs(row[f"{figure}_error"]) for row in rows)
        over = sum(row[f"{figure}_measured"] > row[f"{figure}_high"] for row in rows)
        print(
            f"{figure}: median {100 * statistics.median(errors):.2f} %, nine of ten within "
            f"{100 * errors[int(0.9 * (len(errors) - 1))]:.1f} %, above the upper bound {over} of {len(errors)}"
        )
    if results:
        with results.open("w", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, fieldnames=list(rows[0]))
            writer.writeheader()
            writer.writerows(rows)


if __name__ == "__main__":
    if sys.argv[1:2] == ["measure"]:
        print(json.dumps(measure(sys.argv[2])))
    elif sys.argv[1:2] == ["record"]:
        print(json.dumps(record(sys.argv[2], sys.argv[3])))
    else:
        main()
