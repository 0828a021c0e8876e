"""A command of rlmem on a cluster, and a gate that holds its points for as long as a test wants."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil

SCRIPT = Path(__file__).with_name("gated_run.py")
#: Long enough for a busy machine; nothing is decided by it but that a test ends.
PATIENCE_S = 240.0


@dataclass
class Gate:
    """Where every process of a point reports; those of a held size wait there, from their ``nth`` start on."""

    path: Path
    starts: list[tuple[int, int]] = field(default_factory=list)
    _held: dict[int, int] = field(default_factory=dict)
    _lines: list[tuple[int, socket.socket]] = field(default_factory=list)
    _changed: threading.Condition = field(default_factory=threading.Condition)

    def hold(self, size: int, nth: int = 2) -> None:
        """Hold a point; the first start of each is its dry run."""
        self._held[size] = nth

    def release(self) -> None:
        """Let everybody go on."""
        with self._changed:
            self._held.clear()
            for _, line in self._lines:
                self._answer(line)
            self._lines.clear()

    def pids(self, size: int) -> list[int]:
        """The processes of a point so far."""
        return [pid for known, pid in self.starts if known == size]

    def held(self, size: int) -> int:
        """Wait until a process of this point is held; its number."""
        with self._changed:
            reached = self._changed.wait_for(lambda: any(known == size for known, _ in self._lines), PATIENCE_S)
            assert reached, f"no process of point {size} came: {self.starts}"
            return self.pids(size)[-1]

    def serve(self, listener: socket.socket) -> None:
        """Take reports until the listener is closed."""
        while True:
            try:
                line, _ = listener.accept()
            except OSError:
                return
            size, pid = map(int, line.makefile().readline().split())
            with self._changed:
                self.starts.append((size, pid))
                if len(self.pids(size)) >= self._held.get(size, 10**6):
                    self._lines.append((size, line))
                else:
                    self._answer(line, first=len(self.pids(size)) == 1)
                self._changed.notify_all()

    @staticmethod
    def _answer(line: socket.socket, first: bool = False) -> None:
        with suppress(OSError):  # gone in the meantime
            line.sendall(b"-" if first else b"+")
        line.close()


@contextmanager
def opened(path: Path) -> Iterator[Gate]:
    """A gate at this address."""
    gate = Gate(path)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        listener.listen(64)
        threading.Thread(target=gate.serve, args=(listener,), daemon=True).start()
        try:
            yield gate
        finally:
            gate.release()
            listener.shutdown(socket.SHUT_RDWR)


def until(condition: Callable[[], Any], what: str) -> Any:
    """Wait for something to become true."""
    end = time.monotonic() + PATIENCE_S
    while time.monotonic() < end:
        found = condition()
        if found:
            return found
        time.sleep(0.05)
    raise AssertionError(f"never came: {what}")


def is_gone(pid: int) -> bool:
    """Whether a process has ended."""
    try:
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


def workers(raylet: int | None = None) -> list[psutil.Process]:
    """Workers of Ray that wait for a keeper, of one raylet or of all that this process started; processes may end meanwhile."""
    roots = psutil.Process().children() if raylet is None else [psutil.Process(raylet)]
    found: list[psutil.Process] = []
    for root in roots:
        with suppress(psutil.Error):
            found += [child for child in root.children(recursive=True) if is_told(child)]
    return found


def is_told(process: psutil.Process) -> bool:
    """Whether it is a worker that waits for a keeper."""
    try:
        return process.name().startswith("ray::told")
    except psutil.Error:  # it has ended
        return False


def command(
    *words: str, data: Path, prelude: str = "", before: Sequence[str] = (), **options: Any
) -> subprocess.Popen[str]:
    """``rlmem`` as a user starts it; ``prelude`` runs in its interpreter before, ``before`` is what starts it."""
    start = ["-m", "rlmem"] if not prelude else ["-c", f"{prelude}\nfrom rlmem.cli import main; main()"]
    return subprocess.Popen(
        [*before, sys.executable, *start, *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "RLMEM_DATA_DIR": str(data), **options.pop("env", {})},
        **options,
    )


def sweep(gate: Gate, sizes: Sequence[int], *words: str) -> tuple[str, ...]:
    """The words of ``rlmem measure`` for some points."""
    vary = ",".join(map(str, sizes))
    return ("measure", str(SCRIPT), "--vary", f"size={vary}", *words, "--json", "--", "--gate", str(gate.path))


def ended(process: subprocess.Popen[str]) -> tuple[int, str, str]:
    """Exit code and what was said."""
    try:
        out, err = process.communicate(timeout=PATIENCE_S)
    finally:
        process.kill()
    assert "Traceback" not in err, err
    return process.returncode, out, err
