"""What a worker of Ray does for a sweep: say where it is, start a keeper, hand its answer on."""

from __future__ import annotations

import os
import pickle
import subprocess
import tempfile
import uuid
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from rlmem.process.tree import Tree
from rlmem.ray import keeper
from rlmem.runner.child import remove_folder
from rlmem.trace.undo import undo
from rlmem.version import __version__

#: What Ray puts into a worker's environment beside RAY_*: threads by the CPUs a task asked for, a debugger, a flag of setproctitle.
SET_BY_RAY = ("OMP_NUM_THREADS", "PYTHONBREAKPOINT", "SPT_NOENV")
#: What decides how much memory a run takes, or where its code is found, goes along from where the command was given.
TRAVELS = ("GLIBC_TUNABLES", "LD_PRELOAD", "PYTHONPATH", "PYTHONMALLOC", "MUJOCO_GL", "CUDA_MODULE_LOADING")
TRAVELLING_STARTS = ("MALLOC_", "PYTORCH_", "MIMALLOC_", "OMP_")
TRAVELLING_ENDS = ("_NUM_THREADS",)

#: Ray 2.60 lets a task that asked for no GPU see all of its node's; here it sees what Ray gave it, and so nobody else's.
NO_GPU = {"CUDA_VISIBLE_DEVICES": ""}
#: Marks a keeper and everything that comes of it.
KEEPER_VARIABLE = "RLMEM_KEEPER"

Request = dict[str, Any]


def request(work: Any, environ: Mapping[str, str] | None = None, *, gpus: int = 0) -> Request:
    """A piece of work as it travels: only the keeper opens it, with the same version of rlmem."""
    sent = travelling(os.environ if environ is None else environ)
    return {
        "rlmem": __version__,
        "work": pickle.dumps(work),
        "environment": sent if gpus else {**sent, **NO_GPU},
    }


def travelling(environ: Mapping[str, str]) -> dict[str, str]:
    """The variables that go along."""
    return {
        name: value
        for name, value in environ.items()
        if name in TRAVELS or name.startswith(TRAVELLING_STARTS) or name.endswith(TRAVELLING_ENDS)
    }


def environment(worker: Mapping[str, str], sent: Mapping[str, str]) -> dict[str, str]:
    """A worker's environment as it would be without Ray, with what was sent along."""
    kept = {name: value for name, value in worker.items() if not name.startswith("RAY_") and name not in SET_BY_RAY}
    return {**kept, **sent}


def told(asked: Request) -> Iterator[Any]:
    """First where this is, then the answer."""
    import ray

    here = ray.get_runtime_context()
    yield {"node": here.get_node_id(), "pid": os.getpid()}
    yield work(asked)


def work(asked: Request) -> dict[str, Any]:
    """The answer of a keeper; none when it went away without one, and then what could not be put back."""
    if asked["rlmem"] != __version__:
        text = f"rlmem {__version__} is installed on this node, and {asked['rlmem']} asks; install the same everywhere"
        return {"error": text}
    mark, folder = uuid.uuid4().hex, tempfile.mkdtemp(prefix="rlmem-")
    process = subprocess.Popen(
        keeper.command(),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**environment(os.environ, asked["environment"]), KEEPER_VARIABLE: mark, "TMPDIR": folder},
        cwd=tempfile.gettempdir(),
        start_new_session=True,
    )
    assert process.stdin is not None and process.stdout is not None
    data = b""
    with suppress(BrokenPipeError), process.stdin as asks, process.stdout as answers:
        asks.write(keeper.LENGTH.pack(len(asked["work"])) + asked["work"])
        asks.flush()
        data = answers.read()  # until the keeper ends; as long as we live, it knows
    process.wait()
    size = keeper.LENGTH.size
    if len(data) < size or len(data) != size + keeper.LENGTH.unpack_from(data)[0]:
        Tree(None, mark, variable=KEEPER_VARIABLE).end()  # it was killed, and what it ran was not
        return {"failures": put_back(Path(folder))}
    answer: dict[str, Any] = pickle.loads(data[size:])
    return answer


def put_back(folder: Path) -> tuple[str, ...]:
    """What a killed keeper does not do any more: changed files are as before, and what it worked in is gone.

    Where a file could not be put back, that is said, and the folder stays: it holds the only copy.
    """
    failures = tuple(line for journal in sorted(folder.glob("rlmem-job-*/journal.jsonl")) for line in undo(journal))
    if not failures:
        remove_folder(str(folder))
    return failures
