"""What a look at a cluster costs: the same work with and without one a second, and what the probes themselves take.

A head and a node on this machine, each with ``--actors`` actors that hold an array and multiply small matrices for
as long as they are asked to. The work is counted in short stretches, by turns without looks, with sums once a second
(``--no-names``) and with owners once a second, so that what else happens on the machine falls on all three. Run with the
virtual environment that has Ray (``make bench``):

    .venv/ray/bin/python benchmarks/ray_explaining.py [--actors 1] [--rounds 2] [--seconds 3]
"""

from __future__ import annotations

import argparse
import os
import platform
import statistics
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import ray
from ray.cluster_utils import Cluster

from rlmem.ray.probing import Probes, probes
from rlmem.units import MIB, format_size

NAMING = {"worker_process_setup_hook": "rlmem.ray.naming.start"}
KINDS: tuple[tuple[str, bool | None], ...] = (("nobody looks", None), ("sums", False), ("owners", True))


class Worker:
    """Holds an array, and works."""

    def __init__(self, mib: int) -> None:
        self.frames = np.ones(mib * 2**17)
        self.square = np.ones((64, 64), np.float32)

    def work(self, seconds: float) -> float:
        """Products a second."""
        begin, count = time.perf_counter(), 0
        while time.perf_counter() - begin < seconds:
            for _ in range(50):
                self.square = self.square @ self.square.T / 4096
            count += 50
        return count / (time.perf_counter() - begin)


@contextmanager
def cluster(folder: str) -> Iterator[None]:
    """Two raylets, and this process connected to them."""
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    Path(os.environ.get("RAY_TMPDIR", "/tmp"), "ray").mkdir(exist_ok=True)
    sizes = {"num_cpus": 2, "object_store_memory": 100 * MIB}
    made = Cluster(initialize_head=True, head_node_args={**sizes, "include_dashboard": False, "temp_dir": folder})
    try:
        made.add_node(**sizes, resources={"second": 100})
        ray.init(address=made.address, log_to_driver=False, logging_level="error", runtime_env=NAMING)
        yield
    finally:
        ray.shutdown()
        made.shutdown()


class Looks:
    """Looks once a second until it is told to stop, and keeps what each took."""

    def __init__(self, made: Probes, names: bool | None) -> None:
        self.seconds: list[float] = []
        self.cpu_s: list[float] = []
        self.paused_s: list[float] = []
        self.probe_bytes: list[int] = []
        self._made, self._names, self._stop = made, names, threading.Event()
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> Looks:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        while self._names is not None and not self._stop.is_set():
            begin = time.monotonic()
            found = self._made.ask(names=self._names)
            self.seconds.append(found.seconds)
            self.cpu_s.append(max(node.cpu_s for node in found.nodes))
            self.paused_s.append(max((each.paused_s for each in found.processes), default=0.0))
            self.probe_bytes += [node.probe_bytes or 0 for node in found.nodes]
            self._stop.wait(max(0.0, 1.0 - (time.monotonic() - begin)))


def measured(actors: list[Any], seconds: float) -> float:
    """Products a second of all actors together."""
    return float(sum(ray.get([actor.work.remote(seconds) for actor in actors])))


def main() -> None:
    """Start a cluster, take turns, and compare."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--actors", type=int, default=1, help="on each of the two nodes (default 1)")
    parser.add_argument("--mib", type=int, default=200, help="that each actor holds (default 200)")
    parser.add_argument("--rounds", type=int, default=2, help="turns of each kind (default 2)")
    parser.add_argument("--seconds", type=float, default=3.0, help="of each turn (default 3)")
    options = parser.parse_args()
    rates: dict[str, list[float]] = {name: [] for name, _ in KINDS}
    took: dict[str, list[Looks]] = {name: [] for name, _ in KINDS}
    with tempfile.TemporaryDirectory(prefix="rb", ignore_cleanup_errors=True) as folder, cluster(folder):
        remote: Any = ray.remote(num_cpus=0)(Worker)
        places = ({"node:__internal_head__": 0.01}, {"second": 1})
        actors = [
            remote.options(resources=place).remote(options.mib) for place in places for _ in range(options.actors)
        ]
        begin = time.monotonic()
        with probes(ray) as made:
            count = sum(1 for _ in made.ask(names=True).processes)
            first = time.monotonic() - begin
            measured(actors, 0.5)
            for _ in range(options.rounds):
                for name, names in KINDS:
                    with Looks(made, names) as looks:
                        rates[name].append(measured(actors, options.seconds))
                    took[name].append(looks)
    print(
        f"2 nodes, {count} processes, {len(actors)} actors at work with {options.mib} MiB each; Ray {ray.__version__}, "
        f"Python {platform.python_version()}, {os.cpu_count()} cores, Linux {platform.release().split('-')[0]}"
    )
    print(f"the first look, with the start of the probes: {first:.1f} s")
    print(f"{'a look a second':16} {'work':>8} {'ratio':>7} {'seconds':>8} {'CPU a node':>11} {'stood still':>12}")
    base = statistics.median(rates["nobody looks"])
    for name, names in KINDS:
        rate = statistics.median(rates[name])
        line = f"{name:16} {rate / 1e3:7.1f}k {rate / base:7.3f}"
        if names is not None:
            every = took[name]
            seconds, cpu, paused = (
                statistics.median(value for looks in every for value in getattr(looks, field))
                for field in ("seconds", "cpu_s", "paused_s")
            )
            line += f" {seconds:7.2f}s {1000 * cpu:8.0f} ms {1000 * paused:9.1f} ms"
        print(line)
    largest = max(size for every in took.values() for looks in every for size in looks.probe_bytes)
    print(f"memory of a probe (PSS): {format_size(largest)} at most, for as long as the command runs")


if __name__ == "__main__":
    main()
