"""Ray as it comes from PyPI, several raylets on this machine; nothing of it may be left when the tests are over."""

from __future__ import annotations

import importlib.util
import os
import shutil
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil
import pytest

from rlmem.ray.tasks import KEEPER_VARIABLE

os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
os.environ.pop("RAY_ADDRESS", None)
#: Without Ray there is nothing to test here; the virtual environment that has it runs this folder.
_found = importlib.util.find_spec("ray")  # without Ray this folder is found, as a package without files
collect_ignore_glob = [] if _found is not None and _found.origin else ["*.py"]

#: What Ray's own processes are called.
NAMES = ("raylet", "gcs_server", "ray::", "default_worker.py", "log_monitor", "dashboard")
#: Everything that these tests start has this in its environment, keepers too; another session's processes have another one.
MARK, OWN = "RLMEM_TESTS", uuid.uuid4().hex
os.environ[MARK] = OWN


@pytest.fixture(scope="session")
def ray_folder() -> Iterator[Path]:
    """Where the clusters of these tests keep their sockets: short, as UNIX sockets want it."""
    folder = Path(tempfile.mkdtemp(prefix="rt"))
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


def left() -> dict[psutil.Process, str]:
    """Processes of Ray, keepers and what came of keepers that these tests started, with what they are called."""
    found = {}
    for process in psutil.process_iter():
        try:
            environment, text = process.environ(), f"{process.name()} {' '.join(process.cmdline())}"
        except psutil.Error:  # it has ended, or is somebody else's
            continue
        is_ours = environment.get(MARK) == OWN
        if is_ours and (KEEPER_VARIABLE in environment or any(name in text for name in NAMES)):
            found[process] = text
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
    end = time.monotonic() + 60
    while (found := left()) and time.monotonic() < end:  # Ray's processes and keepers take a moment to end
        time.sleep(0.2)
    for process in found:
        with suppress(psutil.Error):
            process.kill()
    assert not found, f"left behind: {list(found.values())}"


@pytest.fixture
def own_cluster(ray_folder: Path) -> Callable[..., Any]:
    """For tests that break their cluster: ``with own_cluster() as cluster``."""
    return lambda **head: started(ray_folder, **head)
