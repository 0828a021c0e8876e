"""Ray as it comes from PyPI, several raylets on this machine; nothing of it may be left when the tests are over."""

from __future__ import annotations

import importlib.util
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
os.environ.pop("RAY_ADDRESS", None)
#: Without Ray there is nothing to test here; the virtual environment that has it runs this folder.
_found = importlib.util.find_spec("ray")  # without Ray this folder is found, as a package without files
collect_ignore_glob = [] if _found is not None and _found.origin else ["*.py"]

#: What Ray's own processes are called.
NAMES = ("raylet", "gcs_server", "ray::", "default_worker.py", "log_monitor", "dashboard")


@pytest.fixture(scope="session")
def ray_folder() -> Iterator[Path]:
    """Where the clusters of these tests keep their sockets: short, as UNIX sockets want it."""
    folder = Path(tempfile.mkdtemp(prefix="rt"))
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


def ray_processes(mark: str) -> list[psutil.Process]:
    """Processes of Ray that belong to a cluster whose folder is named so."""
    found = []
    for process in psutil.process_iter():
        try:
            words = process.cmdline() + [value for value in process.environ().values() if mark in value]
        except psutil.Error:
            continue
        text = " ".join(words)
        if mark in text and any(name in text or name in process.name() for name in NAMES):
            found.append(process)
    return found


@pytest.fixture(scope="module")
def cluster(ray_folder: Path) -> Iterator[Any]:
    """A head node with two CPUs; tests add nodes."""
    with started(ray_folder) as made:
        yield made


def started(folder: Path, **head: Any) -> Any:
    """A cluster of raylets on this machine, as a context manager; gone afterwards with everything it started."""
    from contextlib import contextmanager

    from ray.cluster_utils import Cluster

    @contextmanager
    def run() -> Iterator[Any]:
        import ray

        args = {"num_cpus": 2, "include_dashboard": False, "temp_dir": str(folder), "object_store_memory": 200 * 2**20}
        # Ray notes the address of its newest cluster here, whatever folder that cluster has, and does not make the folder.
        Path(os.environ.get("RAY_TMPDIR", "/tmp"), "ray").mkdir(exist_ok=True)
        made = Cluster(initialize_head=True, head_node_args={**args, **head})
        try:
            yield made
        finally:
            ray.shutdown()
            made.shutdown()

    return run()


@pytest.fixture(scope="session", autouse=True)
def _nothing_left(ray_folder: Path) -> Iterator[None]:
    yield
    left = ray_processes(str(ray_folder))
    _gone, alive = psutil.wait_procs(left, timeout=15)
    for process in alive:
        process.kill()
    assert not alive, f"left behind: {[process.name() for process in alive]}"


@pytest.fixture
def own_cluster(ray_folder: Path) -> Callable[..., Any]:
    """For tests that break their cluster: ``with own_cluster() as cluster``."""
    return lambda **head: started(ray_folder, **head)
