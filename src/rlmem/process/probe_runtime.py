"""Runs in a fresh interpreter (standard library only, plus what it is asked to import) and prints one JSON object.

Called as ``python probe_runtime.py STEP [ARGUMENT …]``. Every step measures its own process, or children it starts, from
``/proc/self/smaps_rollup``; sizes are bytes. It is run by path, so the interpreter need not have rlmem installed.
"""

import importlib
import json
import multiprocessing
import os
import sys
import threading
import time


def rollup(pid="self"):
    """Rss, Pss and private bytes of a process."""
    sums = {}
    with open(f"/proc/{pid}/smaps_rollup", encoding="ascii", errors="replace") as stream:
        for line in stream:
            name, _, rest = line.partition(":")
            if rest.strip().endswith("kB"):
                sums[name] = sums.get(name, 0) + int(rest.split()[0]) * 1024
    private = sums.get("Private_Clean", 0) + sums.get("Private_Dirty", 0)
    return {"rss": sums["Rss"], "pss": sums["Pss"], "private": private}


def step_imports(names):
    """Resident bytes before and after each import, in order; a package that is not there is left out."""
    seen = {"interpreter": rollup()["rss"]}
    versions = {"python": sys.version.split()[0]}
    for name in names:
        before = rollup()["rss"]
        try:
            module = importlib.import_module(name)
        except Exception as error:  # any failure to import means "not measured here"
            seen[name] = None
            versions[name] = f"{type(error).__name__}: {error}"
            continue
        seen[name] = max(rollup()["rss"] - before, 0)
        versions[name] = str(getattr(module, "__version__", "unknown"))
    return {"rss": seen, "versions": versions}


def step_warm_up():
    """What a first optimizer imports, and what first tiny updates add beyond their tensors: kernels, pools, threads."""
    import torch
    from torch import nn

    before = rollup()["rss"]
    torch.optim.Adam([nn.Parameter(torch.zeros(1))])
    found = {"optimizer": rollup()["rss"] - before, "threads": torch.get_num_threads()}
    dense = nn.Sequential(nn.Linear(8, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 4))
    images = nn.Sequential(
        nn.Conv2d(3, 32, 8, 4), nn.ReLU(), nn.Conv2d(32, 64, 4, 2), nn.ReLU(), nn.Conv2d(64, 64, 3), nn.ReLU(),
        nn.Flatten(), nn.Linear(3136, 512), nn.ReLU(), nn.Linear(512, 4),
    )  # fmt: skip
    start = rollup()["rss"]
    found["mlp"] = _update(torch, dense, torch.zeros(64, 8), start)
    # A process that convolves has run dense layers as well.
    found["conv"] = _update(torch, images, torch.zeros(32, 3, 84, 84), start)
    return found


def _update(torch, net, batch, start):
    optimizer = torch.optim.Adam(net.parameters())
    for _ in range(3):
        optimizer.zero_grad()
        torch.distributions.Normal(net(batch), 1.0).log_prob(torch.zeros(batch.shape[0], 4)).mean().backward()
        optimizer.step()
    held = sum(p.numel() for p in net.parameters()) * 4 * 3
    return max(rollup()["rss"] - start - held, 0)


def _worker(names, pipe):
    for name in names:
        try:
            importlib.import_module(name)
        except Exception:  # measured without it
            continue
    pipe.send(os.getpid())
    pipe.recv()


def step_workers(method, names):
    """The proportional size a second worker process adds to the tree, the others' own change counted."""
    for name in names:
        try:
            importlib.import_module(name)
        except Exception:  # as in the workers
            continue
    context = multiprocessing.get_context(method)
    totals = []
    workers = []
    for _ in range(2):
        ours, theirs = context.Pipe()
        process = context.Process(target=_worker, args=(names, theirs), daemon=True)
        process.start()
        ours.recv()
        time.sleep(0.1)
        workers.append((process, ours))
        pids = [os.getpid(), *(child.pid for child, _ in workers)]
        totals.append({"tree": sum(rollup(pid)["pss"] for pid in pids), "last": rollup(process.pid)})
    for process, ours in workers:
        ours.send(None)
        process.join(5)
        if process.is_alive():
            process.kill()
    return {"added": totals[1]["tree"] - totals[0]["tree"], "worker": totals[1]["last"]}


def step_threads(count):
    """Resident bytes an idle thread adds."""
    before = rollup()["rss"]
    stop = threading.Event()
    threads = [threading.Thread(target=stop.wait, daemon=True) for _ in range(int(count))]
    for thread in threads:
        thread.start()
    after = rollup()["rss"]
    stop.set()
    return {"each": max(after - before, 0) // int(count)}


def step_cuda():
    """What a CUDA context takes on the GPU beyond torch's own memory, and in RAM."""
    import torch

    if not torch.cuda.is_available():
        return {"context": None, "host": None}
    before = rollup()["rss"]
    torch.cuda.init()
    net = torch.nn.Sequential(torch.nn.Conv2d(3, 32, 8, 4), torch.nn.Flatten(), torch.nn.Linear(32 * 400, 64)).cuda()
    net(torch.zeros(8, 3, 84, 84, device="cuda")).sum().backward()
    torch.cuda.synchronize()
    used = None
    try:
        import pynvml

        pynvml.nvmlInit()
        handle = pynvml.nvmlDeviceGetHandleByIndex(0)
        running = pynvml.nvmlDeviceGetComputeRunningProcesses(handle)
        mine = [p.usedGpuMemory for p in running if p.pid == os.getpid() and p.usedGpuMemory]
        if mine:
            used = mine[0]
        elif len(running) <= 1:  # inside a container the pid differs, but nobody else is there
            used = pynvml.nvmlDeviceGetMemoryInfo(handle).used
    except Exception:  # without NVML there is no per-process figure
        used = None
    context = None if used is None else used - torch.cuda.memory_reserved()
    return {
        "context": context,
        "host": rollup()["rss"] - before,
        "device": torch.cuda.get_device_name(0),
        "reserved": torch.cuda.memory_reserved(),
    }


def main(arguments):
    """One step."""
    step, rest = arguments[0], arguments[1:]
    if step == "imports":
        result = step_imports(rest)
    elif step == "warm-up":
        result = step_warm_up()
    elif step == "workers":
        result = step_workers(rest[0], rest[1:])
    elif step == "threads":
        result = step_threads(rest[0])
    elif step == "cuda":
        result = step_cuda()
    else:
        raise SystemExit(f"unknown step {step!r}")
    print(json.dumps(result))


if __name__ == "__main__":
    main(sys.argv[1:])
