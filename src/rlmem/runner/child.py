"""One command in a process of its own: watched, capped, timed, and gone without a trace afterwards.

The child leads a session and a process group, reads nothing (stdin is ``/dev/null``), has a private ``TMPDIR`` and
carries a mark in its environment by which all its descendants are found. Whatever happens (it ends, is over the cap or
the time limit, rlmem is interrupted or told to end), its processes are killed, the folder is removed and the cgroup
taken away before ``run_child`` returns or raises.
"""

from __future__ import annotations

import math
import os
import select
import shutil
import signal
import stat
import subprocess
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from rlmem.agent import proc
from rlmem.core.signals import signal_name
from rlmem.errors import AnalysisError, UsageError
from rlmem.process.sampler import Sample, Sampler, TreePeak
from rlmem.process.tree import JOB_VARIABLE, Tree
from rlmem.runner import caps
from rlmem.runner.interrupts import Shield, stoppable
from rlmem.runner.tail import Tails
from rlmem.units import MIB, format_size

TICK_SECONDS = 0.1
#: After SIGTERM at the time limit, and for helpers to leave after a child that ended by itself.
GRACE_SECONDS, LEAVE_SECONDS = 2.0, 0.5
#: A process the kernel cannot end (waiting for a broken disk) is not waited for longer than this.
KILL_SECONDS = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """How a child ended, and the most memory its tree held.

    ``status`` is ``ok``, ``failed`` (non-zero exit), ``oom`` (over the cap, or ended by the kernel for want of memory),
    ``timeout`` or ``killed`` (a signal from somebody else); ``interrupted`` is for callers who stopped waiting.
    """

    status: str
    returncode: int | None
    wall_s: float
    peak: TreePeak
    stdout: str = ""
    stderr: str = ""
    cap_bytes: int | None = None
    time_limit_s: float | None = None
    by_kernel: bool = False

    def describe(self) -> str:
        """One line: what happened, and the last word of its stderr where that says more."""
        after, peak = f"after {self.wall_s:.1f} s", f"peak {format_size(self.peak.pss_bytes)}"
        if self.status == "ok":
            return f"finished {after}, {peak}"
        if self.status == "oom":
            if self.by_kernel or self.cap_bytes is None:
                return f"ended by the kernel for want of memory {after}, {peak}"
            return f"stopped {after}: over the cap of {format_size(self.cap_bytes)}, {peak}"
        if self.status == "timeout":
            return f"stopped at the time limit of {self.time_limit_s:g} s, {peak}"
        if self.status == "killed" and self.returncode is not None:
            return f"killed by {signal_name(-self.returncode)} {after}, {peak}"
        if self.status == "failed":
            last = next((line.strip() for line in reversed(self.stderr.splitlines()) if line.strip()), "")
            return f"exit code {self.returncode} {after}, {peak}" + (f": {last[:300]}" if last else "")
        return f"{self.status} {after}, {peak}"


def run_child(
    argv: Sequence[str | os.PathLike[str]],
    *,
    cwd: str | os.PathLike[str] | None = None,
    env: Mapping[str, str] | None = None,
    cap_bytes: int | None = None,
    time_limit_s: float | None = None,
    on_tick: Callable[[Sample], None] | None = None,
    period_s: float = 0.005,
) -> Outcome:
    """Run a command to its end, or to its limits. ``env`` is the whole environment; None takes ours."""
    if proc.rollup() is None:
        raise AnalysisError("running a child under watch reads /proc/self/smaps_rollup (Linux 4.14 or newer)")
    environment = dict(os.environ if env is None else env)
    command = _resolve([os.fspath(part) for part in argv], cwd, environment)
    job = uuid.uuid4().hex
    with stoppable() as shield, _private_folder(shield) as folder:
        environment |= {"TMPDIR": folder, JOB_VARIABLE: job}
        with shield():
            child = _Child(job, cap_bytes, time_limit_s, period_s)
        try:
            child.start(command, cwd, environment)
            child.wait(on_tick)
        finally:
            with shield():
                child.end()
        return child.outcome()


class _Child:
    """A child from start to end; ``end`` may be called at any moment of its life."""

    def __init__(self, job: str, cap_bytes: int | None, time_limit_s: float | None, period_s: float) -> None:
        self._cap, self._time_limit, self._period = cap_bytes, time_limit_s, period_s
        self._group = caps.make_group(job, cap_bytes, named=os.environ.get(caps.VARIABLE))
        self._tree = Tree(None, job, others=self._group.pids if self._group else tuple)
        self._tails = Tails("stdout", "stderr")
        self._popen: subprocess.Popen[bytes] | None = None
        self._sampler: Sampler | None = None
        self._begin = self._wall = math.nan
        self._peak = TreePeak()
        self._own_peak = 0
        self._returncode: int | None = None
        self._timed_out = self._by_kernel = False

    def start(self, command: Sequence[str], cwd: str | os.PathLike[str] | None, env: Mapping[str, str]) -> None:
        """Start the command and begin to watch it."""
        try:
            self._popen = subprocess.Popen(
                self._group.launch(command) if self._group else command,
                cwd=cwd,
                env=env,
                stdin=subprocess.DEVNULL,
                stdout=self._tails.writers["stdout"],
                stderr=self._tails.writers["stderr"],
                start_new_session=True,
            )
        except OSError as error:
            raise UsageError(f"{command[0]}: cannot be run: {error.strerror or error}") from None
        self._begin = time.monotonic()
        self._tree.top = self._popen.pid
        self._tails.started()
        self._own_peak = proc.peak()
        self._sampler = Sampler(self._tree, cap_bytes=self._cap, on_excess=self._tree.kill, period_s=self._period)
        self._sampler.start()

    def wait(self, on_tick: Callable[[Sample], None] | None) -> None:
        """Return when the child itself has ended; at the time limit, help it to."""
        assert self._popen is not None and self._sampler is not None
        limit = math.inf if self._time_limit is None else self._begin + self._time_limit
        kill_at = give_up = math.inf
        with _exit_of(self._popen.pid) as ended:
            while not ended(
                TICK_SECONDS if limit == math.inf else min(TICK_SECONDS, max(0.01, limit - time.monotonic()))
            ):
                now = time.monotonic()
                if self._sampler.excess_bytes is not None:
                    give_up = min(give_up, now + KILL_SECONDS)
                elif now >= kill_at:
                    self._signal(signal.SIGKILL)
                    kill_at, give_up = math.inf, now + KILL_SECONDS
                elif now >= limit:
                    self._timed_out = True
                    self._signal(signal.SIGTERM)
                    limit, kill_at = math.inf, now + GRACE_SECONDS
                if now >= give_up:
                    break
                if not self._sampler.is_watching:
                    raise AnalysisError("the child was stopped, as its memory could not be watched any more")
                if on_tick is not None:
                    on_tick(self._sampler.sample)
        self._wall = time.monotonic() - self._begin

    def end(self) -> None:
        """Leave nothing alive, and settle what was measured."""
        if math.isnan(self._wall):
            self._wall = time.monotonic() - self._begin if self._popen else 0.0
            leave = False
        else:
            leave = not self._timed_out and self._sampler is not None and self._sampler.excess_bytes is None
        if self._sampler is not None:
            self._sampler.stop()
        if leave:
            self._tree.wait(LEAVE_SECONDS)
        self._tree.end(seconds=KILL_SECONDS)
        maxrss = self._reap()
        self._tails.finish()
        cgroup_bytes = None
        if self._group is not None:
            cgroup_bytes = self._group.peak_bytes()
            self._by_kernel = self._group.killed() and (self._group.own or self._returncode == -signal.SIGKILL)
            self._group.remove()
        if self._sampler is not None:
            self._peak = self._sampler.peak(maxrss=maxrss, cgroup_bytes=cgroup_bytes)

    def outcome(self) -> Outcome:
        """The result, after ``end``."""
        over = self._sampler is not None and self._sampler.excess_bytes is not None
        by_kernel = self._by_kernel and not over and not self._timed_out
        return Outcome(
            status=_status(self._returncode, out_of_memory=over or by_kernel, timed_out=self._timed_out),
            returncode=self._returncode,
            wall_s=self._wall,
            peak=self._peak,
            stdout=self._tails.text("stdout"),
            stderr=self._tails.text("stderr"),
            cap_bytes=self._cap,
            time_limit_s=self._time_limit,
            by_kernel=by_kernel,
        )

    def _signal(self, number: int) -> None:
        """To the child's process group, which cannot be another's as long as the child is not reaped."""
        assert self._popen is not None
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self._popen.pid, number)

    def _reap(self) -> int:
        """Collect the child; its ``ru_maxrss`` in bytes, or 0 when that may be our own."""
        if self._popen is None:
            return 0
        try:
            pid, status, usage = os.wait4(self._popen.pid, os.WNOHANG)
        except ChildProcessError:  # somebody else collects all children of this program
            pid, status, usage = self._popen.pid, 0, None
        if pid:
            self._returncode = os.waitstatus_to_exitcode(status) if usage else None
        self._popen.returncode = -signal.SIGKILL if self._returncode is None else self._returncode
        maxrss = usage.ru_maxrss * 1024 if usage else 0
        return maxrss if maxrss > self._own_peak + MIB else 0


def _status(returncode: int | None, *, out_of_memory: bool, timed_out: bool) -> str:
    if out_of_memory:
        return "oom"
    if timed_out:
        return "timeout"
    if returncode == 0:
        return "ok"
    return "killed" if returncode is None or returncode < 0 else "failed"


def _resolve(command: list[str], cwd: str | os.PathLike[str] | None, env: Mapping[str, str]) -> list[str]:
    """The command with its program found; what cannot be run is told before anything is started."""
    if not command:
        raise UsageError("no command to run")
    if cwd is not None and not os.path.isdir(cwd):
        raise UsageError(f"{os.fspath(cwd)}: no such folder")
    place = os.path.join(cwd or "", command[0]) if os.sep in command[0] else command[0]
    if shutil.which(place, path=env.get("PATH")) is None:
        reason = "not a program that can be run" if os.path.exists(place) else "no such program"
        raise UsageError(f"{command[0]}: {reason}")
    return command


@contextmanager
def _exit_of(pid: int) -> Iterator[Callable[[float], bool]]:
    """Waits some seconds for a process to end, without collecting it."""

    def ended() -> bool:
        try:
            return os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT | os.WNOHANG) is not None
        except ChildProcessError:
            return True

    try:
        watch = os.pidfd_open(pid)
    except (AttributeError, OSError):  # before Linux 5.3

        def nap(seconds: float) -> bool:
            time.sleep(min(seconds, 0.01))
            return ended()

        yield nap
        return
    try:
        poll = select.poll()
        poll.register(watch, select.POLLIN)

        def doze(seconds: float) -> bool:
            poll.poll(seconds * 1000)
            return ended()

        yield doze
    finally:
        os.close(watch)


@contextmanager
def _private_folder(shield: Shield) -> Iterator[str]:
    folder = tempfile.mkdtemp(prefix="rlmem-")
    try:
        yield folder
    finally:
        with shield():
            remove_folder(folder)


def remove_folder(folder: str) -> None:
    """Remove a folder even where a script took away the right to write in it."""
    shutil.rmtree(folder, ignore_errors=True)
    if os.path.isdir(folder):
        for place, names, _ in os.walk(folder):
            for name in names:
                path = Path(place, name)
                with suppress(OSError):
                    if not path.is_symlink():
                        path.chmod(stat.S_IRWXU)
        shutil.rmtree(folder, ignore_errors=True)
