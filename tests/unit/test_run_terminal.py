"""``rlmem run`` in a terminal: the command has it, Ctrl-C and Ctrl-Z reach the command, and the shell gets it back."""

from __future__ import annotations

import os
import pty
import re
import select
import subprocess
import sys
import textwrap
import time
from pathlib import Path

SRC = Path(__file__).parents[2] / "src"
#: A parent that runs rlmem as a job of its own, like a shell with job control.
SHELL = """
import os, signal, subprocess, sys
signal.signal(signal.SIGTTOU, signal.SIG_IGN)
signal.signal(signal.SIGINT, signal.SIG_IGN)
def job(body):
    def prepare():
        os.setpgid(0, 0)
        os.tcsetpgrp(0, os.getpid())
        for number in (signal.SIGTTOU, signal.SIGINT):
            signal.signal(number, signal.SIG_DFL)
    command = [sys.executable, "-m", "rlmem", "run", "--", sys.executable, "-c", body]
    return subprocess.Popen(command, preexec_fn=prepare)
"""
TIDY = """
import sys, time
try:
    print("ready", flush=True)
    time.sleep(60)
except KeyboardInterrupt:
    print("tidied up", flush=True)
    sys.exit(5)
"""


class Terminal:
    """A process that leads a session on a terminal of its own, as a shell in a window does."""

    def __init__(self, body: str, tmp_path: Path) -> None:
        self.text = ""
        self.pid, self._master = pty.fork()
        if self.pid == 0:
            os.environ.update(PYTHONPATH=str(SRC), RLMEM_DATA_DIR=str(tmp_path / "data"), PS1="")
            os.execv(sys.executable, [sys.executable, "-c", SHELL + textwrap.dedent(body)])

    def send(self, keys: bytes) -> None:
        os.write(self._master, keys)

    def await_text(self, wanted: str, seconds: float = 30.0) -> re.Match[str]:
        deadline = time.monotonic() + seconds
        while (found := re.search(wanted, self.text)) is None:
            assert time.monotonic() < deadline, self.text
            if select.select([self._master], [], [], 0.1)[0]:
                try:
                    self.text += os.read(self._master, 4096).decode("utf-8", "replace")
                except OSError:  # the other end is closed
                    assert re.search(wanted, self.text), self.text
        return found

    def close(self) -> int:
        deadline = time.monotonic() + 30
        while True:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                break
            assert time.monotonic() < deadline, self.text
            if select.select([self._master], [], [], 0.05)[0]:
                try:
                    self.text += os.read(self._master, 4096).decode("utf-8", "replace")
                except OSError:
                    time.sleep(0.05)
        os.close(self._master)
        return os.waitstatus_to_exitcode(status)


def test_the_command_has_the_terminal_and_the_parent_gets_it_back(tmp_path: Path) -> None:
    body = """
        one = job("import os, sys; print('tty', [os.isatty(n) for n in range(3)], os.tcgetpgrp(0) == os.getpgrp());"
                  "print('read', sys.stdin.readline().strip())")
        code = one.wait()
        print("back", os.tcgetpgrp(0) == one.pid, code, flush=True)
    """
    terminal = Terminal(body, tmp_path)
    terminal.await_text(r"tty \[True, True, True\] True")
    terminal.send(b"hello\n")
    terminal.await_text("read hello")
    terminal.await_text("back True 0")
    terminal.close()


def test_ctrl_c_reaches_the_command_and_its_own_handling_counts(tmp_path: Path) -> None:
    body = """
        one = job(TIDY)
        print("code", one.wait(), flush=True)
    """
    terminal = Terminal(f"TIDY = {TIDY!r}\n" + textwrap.dedent(body), tmp_path)
    terminal.await_text("ready")
    terminal.send(b"\x03")
    terminal.await_text("tidied up")
    terminal.await_text("code 5")
    terminal.close()


def test_ctrl_z_stops_both_and_both_go_on(tmp_path: Path) -> None:
    body = """
        one = job("print('ready', flush=True); import sys; print('read', sys.stdin.readline().strip())")
        _, status = os.waitpid(one.pid, os.WUNTRACED)
        print("stopped", os.WIFSTOPPED(status), flush=True)
        os.tcsetpgrp(0, os.getpgrp())
        print("shell", input(), flush=True)
        os.tcsetpgrp(0, one.pid)
        os.killpg(one.pid, signal.SIGCONT)
        print("code", one.wait(), flush=True)
    """
    terminal = Terminal(body, tmp_path)
    terminal.await_text("ready")
    terminal.send(b"\x1a")
    terminal.await_text("stopped True")
    terminal.send(b"one\n")
    terminal.await_text("shell one")
    terminal.send(b"two\n")
    terminal.await_text("read two")
    terminal.await_text("code 0")
    terminal.close()


def test_without_a_terminal_input_and_output_are_still_the_commands_own(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "rlmem", "run", "-q", "--", sys.executable, "-c", "print(input()[::-1])"],
        env={**os.environ, "PYTHONPATH": str(SRC), "RLMEM_DATA_DIR": str(tmp_path)},
        input="hello\n",
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "olleh\n", "")
