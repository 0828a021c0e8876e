"""A command in the foreground: our stdin, stdout and stderr, the terminal, the signals and the exit code are its own.

It leads a process group. Where standard input is a terminal that is ours to give, that group becomes the terminal's
foreground group, as a shell would make it: Ctrl-C and Ctrl-Z reach the command itself, and a command that is stopped
stops us too, until the shell goes on with both. Signals that are sent to rlmem are handed on; the second one kills.
"""

from __future__ import annotations

import errno
import os
import select
import signal
import subprocess
import sys
import termios
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from types import FrameType
from typing import Any

from rlmem.agent import proc
from rlmem.errors import UsageError
from rlmem.process.tree import Tree, adopt_orphans
from rlmem.runner.interrupts import SIGNALS
from rlmem.units import MIB

#: A command stopped with Ctrl-Z is noticed after so long; its end is noticed at once.
STOP_SECONDS = 0.25
KILL_SECONDS = 10.0
#: Signals that mean something to the command and nothing to rlmem.
PASSED_ON = (signal.SIGUSR1, signal.SIGUSR2, signal.SIGALRM, signal.SIGQUIT)


class CommandError(UsageError):
    """The command cannot be started; the exit codes are a shell's."""

    exit_code = 127


class NotExecutableError(CommandError):
    """It is there and cannot be run."""

    exit_code = 126


class Foreground:
    """One command from start to end; use it as a context, so that terminal and signal handlers come back."""

    def __init__(self, command: Sequence[str], *, env: Mapping[str, str], job: str) -> None:
        self.command = tuple(command)
        self.tree = Tree(None, job, adopts=True)
        #: Signals that were sent to rlmem and handed on.
        self.signals: list[int] = []
        self.returncode: int | None = None
        self.maxrss_bytes = 0
        self._env = env
        self._popen: subprocess.Popen[bytes] | None = None
        self._pidfd = -1
        self._terminal = _own_terminal()
        self._modes: list[Any] | None = None
        self._before: dict[int, Any] = {}
        self._own_peak = 0
        self._reaped = False

    @property
    def pid(self) -> int:
        """The command's own process, which also leads its group."""
        assert self._popen is not None
        return self._popen.pid

    def __enter__(self) -> Foreground:
        self._take_signals()
        adopt_orphans(True)
        try:
            self._start()
        except BaseException:
            self._give_back()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        if not self._reaped:  # we are failing: nobody would look after it any more
            self.kill()
            self.tree.end(seconds=KILL_SECONDS)
            self.reap()
        self._give_back()
        if self._pidfd >= 0:
            os.close(self._pidfd)

    def wait(self, seconds: float) -> bool:
        """Wait until it ends or the time is over; whether it has ended."""
        deadline = time.monotonic() + seconds
        while not self._has_ended():
            self._follow_stop()
            left = deadline - time.monotonic()
            if left <= 0:
                return False
            self._doze(min(left, STOP_SECONDS))
        return True

    def signal(self, number: int, *, group: bool = True) -> None:
        """Send a signal to its process group, or to the command alone."""
        if self._popen is None or self._reaped:  # its number may be somebody else's by now
            return
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, number) if group else os.kill(self.pid, number)

    def terminate(self) -> None:
        """SIGTERM to its group, and to marked processes that left the group."""
        self.signal(signal.SIGTERM)
        self.signal(signal.SIGCONT)  # a stopped process takes SIGTERM when it goes on
        for pid in self.tree.refresh():
            with suppress(OSError):
                if os.getpgid(pid) != self.pid:
                    os.kill(pid, signal.SIGTERM)

    def kill(self) -> None:
        """SIGKILL to its group and to everybody of its tree."""
        self.signal(signal.SIGKILL)
        self.tree.refresh()
        self.tree.kill(all_of_them=True)

    def reap(self) -> int | None:
        """Collect the ended command; its exit code, negative for a signal, None where somebody else collected it."""
        assert self._popen is not None
        try:
            _, status, usage = os.wait4(self.pid, 0)
            self.returncode = os.waitstatus_to_exitcode(status)
            maxrss = usage.ru_maxrss * 1024
            # Between fork and exec a child inherits our own mark.
            self.maxrss_bytes = maxrss if maxrss > self._own_peak + MIB else 0
        except ChildProcessError:
            self.returncode = None
        self._reaped = True
        self._popen.returncode = -signal.SIGKILL if self.returncode is None else self.returncode
        return self.returncode

    def _start(self) -> None:
        name = self.command[0]
        try:
            self._popen = subprocess.Popen(self.command, env=self._env, preexec_fn=self._prepare())  # noqa: PLW1509
        except FileNotFoundError:
            raise CommandError(f"{name}: no such program") from None
        except OSError as error:
            reason = "is a folder" if os.path.isdir(name) else error.strerror or str(error)
            kind = CommandError if error.errno in {errno.ENOENT, errno.ENOTDIR} else NotExecutableError
            raise kind(f"{name}: cannot be run: {reason}") from None
        self._own_peak = proc.peak()
        self.tree.top = self._popen.pid
        self.tree.refresh()
        with suppress(AttributeError, OSError):  # before Linux 5.3, and elsewhere
            self._pidfd = os.pidfd_open(self._popen.pid)
        for number in self.signals:  # came while it was being started
            self.signal(number)

    def _prepare(self) -> Callable[[], None]:
        """What the child does before it becomes the command. Only one thread runs here at that time."""
        terminal = self._terminal

        def prepare() -> None:
            os.setpgid(0, 0)
            if terminal is not None:
                signal.signal(signal.SIGTTOU, signal.SIG_IGN)
                with suppress(OSError):
                    os.tcsetpgrp(terminal, os.getpid())
            signal.signal(signal.SIGTTOU, signal.SIG_DFL)

        return prepare

    def _take_signals(self) -> None:
        if threading.current_thread() is threading.main_thread():
            wanted = (*SIGNALS, *PASSED_ON)
            self._before = {n: old for n in wanted if (old := signal.getsignal(n)) not in {None, signal.SIG_IGN}}
            for number in self._before:
                signal.signal(number, self._pass_on if number in PASSED_ON else self._hand_on)
            self._before[signal.SIGTTOU] = signal.signal(signal.SIGTTOU, signal.SIG_IGN)
        if self._terminal is not None:
            with suppress(termios.error):
                self._modes = termios.tcgetattr(self._terminal)

    def _pass_on(self, number: int, _frame: FrameType | None) -> None:
        """To the command itself, as a batch system means it; it does not ask anybody to end."""
        with suppress(ProcessLookupError):
            os.kill(self.pid, number)

    def _hand_on(self, number: int, _frame: FrameType | None) -> None:
        self.signals.append(number)
        if len(self.signals) == 1:
            self.signal(number)
        else:
            self.kill()

    def _give_back(self) -> None:
        adopt_orphans(False)
        if self._terminal is not None:
            with suppress(OSError):
                os.tcsetpgrp(self._terminal, os.getpgrp())
            if self._modes is not None and (self.returncode or 0) < 0:  # it could not tidy up
                with suppress(termios.error):
                    termios.tcsetattr(self._terminal, termios.TCSADRAIN, self._modes)
        for number, old in self._before.items():
            signal.signal(number, signal.SIG_DFL if old is None else old)
        self._before = {}

    def _has_ended(self) -> bool:
        try:
            return os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOWAIT | os.WNOHANG) is not None
        except ChildProcessError:
            return True

    def _doze(self, seconds: float) -> None:
        if self._pidfd < 0:
            time.sleep(min(seconds, 0.05))
            return
        poll = select.poll()
        poll.register(self._pidfd, select.POLLIN)
        poll.poll(seconds * 1000)

    def _follow_stop(self) -> None:
        """Stop with a command that was stopped from the terminal, and let it go on when we do."""
        if self._terminal is None:
            return
        try:
            found = os.waitid(os.P_PID, self.pid, os.WSTOPPED | os.WNOHANG)
        except ChildProcessError:
            return
        if found is None:
            return
        with suppress(OSError):
            os.tcsetpgrp(self._terminal, os.getpgrp())
        os.kill(0, signal.SIGTSTP)  # we stop here; in a group nobody could wake, the kernel ignores it
        with suppress(OSError):
            if os.tcgetpgrp(self._terminal) == os.getpgrp():
                os.tcsetpgrp(self._terminal, self.pid)
        self.signal(signal.SIGCONT)


def _own_terminal() -> int | None:
    """Standard input, where it is a terminal and we are its foreground: what a background job has not, it cannot give."""
    try:
        number = sys.stdin.fileno()
        return number if os.isatty(number) and os.tcgetpgrp(number) == os.getpgrp() else None
    except (OSError, ValueError, AttributeError):
        return None
