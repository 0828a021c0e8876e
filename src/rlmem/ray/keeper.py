"""A process on a node that runs one piece of work and does not outlive the interest in it.

A worker of Ray can end at any moment and without a word: cancelled, killed by the memory monitor, gone with its node. What it
started would stay. So the work is done by a keeper, which no killing of the worker reaches (it is nobody's child and leads its own
session) and which reads from a pipe that the worker holds open. When the pipe ends before the work does, the keeper tells itself
to end, and the runner puts away everything as it does after Ctrl-C: processes, folders, changed files, cgroups.

Whatever is measured runs in a child of the keeper, just as it runs in a child of ``rlmem measure``.
"""

from __future__ import annotations

import os
import pickle
import signal
import struct
import sys
import threading
from contextlib import suppress
from pathlib import Path
from types import FrameType
from typing import Any, NoReturn

#: Before a message: how many bytes it has.
LENGTH = struct.Struct("!Q")
#: How the interpreter of a worker starts a keeper: from the very package that the worker has, and from nowhere else.
START = "import sys; sys.path[:] = [{root!r}, *filter(None, sys.path)]; from rlmem.ray.keeper import main; main()"


def command() -> list[str]:
    """The command of a keeper."""
    return [sys.executable, "-c", START.format(root=str(Path(__file__).parents[2]))]


def main() -> None:
    """Do what is asked on standard input, answer on standard output."""
    if os.fork():
        os._exit(0)  # the worker's child is gone at once; this process belongs to nobody
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, _end)
    asked, answer = os.dup(0), os.dup(1)
    # Nobody else may read what is asked, or write into the answer.
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(2, 1)
    try:
        body = _read(asked)
        threading.Thread(target=_watch, args=(asked,), name="rlmem-keeper", daemon=True).start()
        said = pickle.dumps(_done(body))
    finally:
        with suppress(OSError):  # not empty: there is a copy of a file in it that could not be put back
            os.rmdir(os.environ["TMPDIR"])  # made for this keeper by its worker, which may be gone
    with os.fdopen(answer, "wb") as stream:
        stream.write(LENGTH.pack(len(said)) + said)


def _end(_number: int, _frame: FrameType | None) -> NoReturn:
    raise SystemExit(128 + signal.SIGTERM)


def _watch(asked: int) -> None:
    """The worker says no more; when it is gone, nobody wants the answer."""
    while os.read(asked, 4096):
        pass
    os.kill(os.getpid(), signal.SIGTERM)


def _read(asked: int) -> bytes:
    data = b""
    while len(data) < LENGTH.size or len(data) < LENGTH.size + LENGTH.unpack_from(data)[0]:
        part = os.read(asked, 1 << 20)
        if not part:
            raise SystemExit(1)
        data += part
    return data[LENGTH.size :]


def _done(body: bytes) -> dict[str, Any]:
    """What came of it; an error is one line, a wrong request or anything else."""
    from rlmem.errors import RlmemError

    try:
        return {"result": pickle.loads(body).run()}
    except RlmemError as error:
        return {"error": str(error)}
    except Exception as error:
        return {"error": f"{type(error).__name__}: {' '.join(str(error).split())[:300]}"}
