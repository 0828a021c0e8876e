"""How to get into a process, best first: its own agent, Python's remote debugging, a debugger if it is asked for.

Nothing here is done to a process that has not invited it, but for the last two, of which the first is Python's own and
safe (3.14 and newer on both sides) and the second is only used when the user says so.
"""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rlmem.agent import PROTOCOL, proc, server
from rlmem.agent.protocol import Question
from rlmem.errors import AnalysisError
from rlmem.process.processes import Process
from rlmem.process.protocol import check_protocol

AGENT = Path(server.__file__).parent
#: An agent that a debugger or Python itself was told to start is waited for so long.
START_SECONDS = 3.0
DEBUGGER_SECONDS = 30.0


class NoAgent(AnalysisError):  # noqa: N818  # a state of things, which callers expect
    """There is nobody in the process to ask, or no answer in time."""


def preload(env: Mapping[str, str]) -> dict[str, str]:
    """The environment in which every Python that is started has an agent."""
    own = str(AGENT / "preload")
    path = env.get("PYTHONPATH")
    return {**env, "PYTHONPATH": f"{own}{os.pathsep}{path}" if path else own}


def sockets(process: Process, *, root: str = proc.PROC) -> list[str]:
    """Where the agent of a process may listen: in our own folders, and in those a container shows it."""
    lines = (proc.read(f"{root}/{process.pid}/status") or b"").splitlines()
    inside = next((os.fsdecode(line.split()[-1]) for line in lines if line.startswith(b"NSpid:")), str(process.pid))
    user = next((os.fsdecode(line.split()[1]) for line in lines if line.startswith(b"Uid:")), str(os.getuid()))
    environment = (proc.read(f"{root}/{process.pid}/environ") or b"").split(b"\0")
    theirs = (os.fsdecode(item[16:]) for item in environment if item.startswith(b"XDG_RUNTIME_DIR="))
    # A program may have written over its environment (setproctitle); then it is probably ours.
    runtimes = dict.fromkeys(path for path in (*theirs, os.environ.get("XDG_RUNTIME_DIR")) if path)
    folders = [f"/tmp/rlmem-{user}", *(f"{path}/rlmem" for path in runtimes)]
    names = [f"{number}-{process.start}.sock" for number in dict.fromkeys((str(process.pid), inside))]
    prefixes = ("", f"{root}/{process.pid}/root")
    return [f"{prefix}{folder}/{name}" for folder in folders for name in names for prefix in prefixes]


def agent_socket(process: Process) -> str | None:
    """The socket of a process's agent, if one listens."""
    return next((path for path in sockets(process) if len(os.fsencode(path)) < 108 and _is_there(path)), None)


def _is_there(path: str) -> bool:
    try:
        return os.path.exists(path) and server.is_answered(path)
    except OSError:
        return False


def ask(process: Process | int, request: Question, *, timeout_s: float = 2.0) -> Any:
    """Ask a process's agent; the answer is of the type that the protocol has for the question.

    Raises:
        NoAgent: there is none, it does not answer in time, or it speaks another version of the protocol.
    """
    if isinstance(process, int):
        from rlmem.process.processes import living

        process = living(process)
    path = agent_socket(process)
    if path is None:
        raise NoAgent(f"process {process.pid} has no agent")
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as line:
            line.settimeout(timeout_s)
            line.connect(path)
            line.sendall(json.dumps({**request, "protocol": PROTOCOL}).encode() + b"\n")
            said = _received(line, time.monotonic() + timeout_s)
    except TimeoutError:
        raise NoAgent(
            f"the agent of {process.pid} gave no answer within {timeout_s:g} s: the program is in a long call that holds "
            "Python's lock, or is not being scheduled"
        ) from None
    except OSError as error:
        raise NoAgent(f"the agent of {process.pid} cannot be asked: {error.strerror or error}") from None
    try:
        check_protocol(said, f"the agent of {process.pid}")
    except AnalysisError as error:
        raise NoAgent(str(error)) from None
    if "error" in said:
        raise NoAgent(f"the agent of {process.pid}: {said['error']}")
    return said


def _received(line: socket.socket, deadline: float) -> dict[str, Any]:
    parts = []
    while True:
        line.settimeout(max(0.001, deadline - time.monotonic()))
        part = line.recv(1 << 20)
        if not part:
            raise NoAgent("the process ended while it was asked")
        parts.append(part)
        if part.endswith(b"\n"):
            break
    answer = json.loads(b"".join(parts))
    if not isinstance(answer, dict):
        raise NoAgent("the agent's answer cannot be read")
    return answer


# -- without an agent ---------------------------------------------------------------------------------------------------


def _script(process: Process) -> str:
    """The file that starts an agent, which the process must be able to read when it comes to it, now or later."""
    path = AGENT / "start.py"
    if not os.path.exists(f"{proc.PROC}/{process.pid}/root{path}"):
        raise NoAgent(f"process {process.pid} is in a container that does not show rlmem's files")
    return str(path)


def _code(script: str) -> str:
    return f"exec(compile(open({script!r}, encoding='utf-8').read(), {script!r}, 'exec'), {{}})"


def inject(process: Process) -> None:
    """Start an agent through ``sys.remote_exec`` (Python 3.14 and newer, the same release on both sides)."""
    if not hasattr(sys, "remote_exec"):
        raise NoAgent("sys.remote_exec needs Python 3.14 or newer on both sides")
    place = next(iter(server.folders()), None)
    if place is None:
        raise NoAgent("there is no folder of this user's alone to put the agent's start in")
    # Kept: a program that is asleep comes to it later. Python runs a script's text, which does not know its file.
    first = os.path.join(place, "start.py")
    Path(first).write_text(_code(_script(process)) + "\n", encoding="utf-8")
    try:
        sys.remote_exec(process.pid, first)
    except (OSError, RuntimeError, ValueError) as error:
        raise NoAgent(f"sys.remote_exec refused: {error}") from None
    _wait(process, "sys.remote_exec", "; the program is asleep or in a long call, and will start one when it goes on")


def attach_debugger(process: Process) -> None:
    """Start an agent with a debugger. It stops the process and calls into it: not safe, and said so."""
    debugger = shutil.which("gdb")
    if debugger is None:
        raise NoAgent("--unsafe-attach needs gdb, which is not installed")
    text = _code(_script(process)).replace("\\", "\\\\").replace('"', '\\"')
    command = [debugger, "-nx", "-p", str(process.pid), "-batch", "-ex", "set confirm off"]
    for each in (
        "set $state = (int)PyGILState_Ensure()",
        f'print (int)PyRun_SimpleString("{text}")',
        "call (void)PyGILState_Release($state)",
    ):
        command += ["-ex", each]
    try:
        done = subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, timeout=DEBUGGER_SECONDS, check=False
        )
    except subprocess.TimeoutExpired:
        raise NoAgent(f"gdb did not finish within {DEBUGGER_SECONDS:g} s") from None
    if b"= 0" not in done.stdout:
        lines = (done.stderr or done.stdout).decode("utf-8", "replace").strip().splitlines()
        raise NoAgent(f"gdb could not start an agent: {lines[-1] if lines else 'no reason given'}")
    _wait(process, "gdb")


def _wait(process: Process, who: str, why: str = "") -> None:
    deadline = time.monotonic() + START_SECONDS
    while agent_socket(process) is None:
        if time.monotonic() > deadline:
            raise NoAgent(f"{who} started no agent within {START_SECONDS:g} s{why}")
        time.sleep(0.05)
