"""What the agent knows so far, and the one way it leaves: write the result, then go without running exit handlers."""

import contextlib
import os
import sys
import threading
import time

from . import PROTOCOL, mapped, proc

#: In the command line of processes that ``multiprocessing`` and joblib start.
WORKERS = ("multiprocessing", "resource_tracker", "loky")
#: Seconds between two words about how far it is.
TOLD_S = 0.3
#: No dry run takes more than so many seconds longer because the machine is busy.
WAITED_S = 15.0
#: Frames of these are not the user's.
OWN = os.path.dirname(os.path.abspath(__file__))


class State:
    """One job: its limits, its readings by phase, and what was learned about the target."""

    def __init__(self, job):
        self.job = job
        self.began, self.waited = time.monotonic(), proc.waited()
        self.pid = os.getpid()
        self.overhead_bytes = 0
        #: The most this process held before its own high-water mark was set back last; see :meth:`own`.
        self.high = 0
        self.facts = {"protocol": PROTOCOL, "phases": {}, "notes": [], "met": None, "versions": {}}
        self._leave = threading.Lock()
        #: A rehearsal runs until then, even if the job's time is over before.
        self.rehearsed_until = None
        #: A framework's model is under construction, or built and not yet asked to learn.
        self.building = False
        #: Called to add what is best read at the very end (arrays, containers, versions).
        self.closers = []
        self._said_at, self._steps = 0.0, [0, 0]
        #: True in a process forked from the target. Its patches are there as well, and count for nobody.
        self.forked = False
        os.register_at_fork(after_in_child=self._forked)

    def _forked(self):
        self.forked = True

    def elapsed(self):
        """Seconds since the agent started, without those it waited for a core: a busy machine shows as much as an idle one."""
        return time.monotonic() - self.began - min(proc.waited() - self.waited, WAITED_S)

    def left(self):
        """Seconds of the job's own time that are left."""
        return self.job["time_s"] - self.elapsed()

    def note(self, text):
        """Something the reader of the plan should know; once."""
        if text not in self.facts["notes"]:
            self.facts["notes"].append(text)

    def status(self, text):
        """What happens now, for whoever watches."""
        path = self.job.get("status")
        if path and not self.forked:
            self._said_at = time.monotonic()
            with open(path, "w") as file:
                file.write(text)

    def expect(self, steps):
        """So many environment steps come next."""
        self._steps = [0, steps]
        self.status("stepping")

    def count_step(self):
        """One of them was made; told now and then."""
        self._steps[0] += 1
        if time.monotonic() - self._said_at > TOLD_S:
            done, total = self._steps
            self.status("stepping ({:,} of {:,})".format(done, total) if done <= total else "stepping")

    def count(self, steps, updates):
        """How far a loop of the target's own is; told now and then."""
        if time.monotonic() - self._said_at > TOLD_S:
            done = ", {:,} update{}".format(updates, "s" * (updates != 1)) if updates else ""
            self.status("stepping ({:,} step{}{})".format(steps, "s" * (steps != 1), done))

    def reading(self):
        """The process tree now: bytes in all (shared pages once), this process's own, and each other process's.

        Without the pages of mapped files, which the kernel can take back; ``files`` says how many these are.
        """
        total, processes = proc.tree_parts(proc.tree(self.pid))
        mapped_files = mapped.held(processes)
        files = max(
            sum(row["share"] for row in mapped_files.values()),
            max((row["resident"] for row in mapped_files.values()), default=0),
        )
        own = processes.pop(self.pid, {})
        others = []
        for pid, parts in processes.items():
            private = parts.get("Private_Clean", 0) + parts.get("Private_Dirty", 0)
            less = mapped_files.get(pid, {"share": 0, "private": 0})
            row = {"pid": pid, "role": role(pid, self.pid)}
            row["bytes"] = max(0, parts.get("Pss", 0) - less["share"])
            row["private"] = max(0, private - less["private"])
            others.append(row)
        return {"tree": max(0, total - files), "rss": own.get("Rss", 0), "others": others, "files": files}

    @contextlib.contextmanager
    def own(self):
        """Around work of the agent's own: what it keeps is overhead, and a peak it makes is not the run's."""
        before = proc.status() or {}
        self.high = max(self.high, before.get("VmHWM", 0))
        yield
        self.overhead_bytes += max(0, (proc.status() or {}).get("VmRSS", 0) - before.get("VmRSS", 0))
        proc.reset_peak()

    def phase(self, name, reset=True):
        """Close a phase: what is there now, and the most there was since the last one closed."""
        if self.forked:
            return None
        reading = self.reading()
        # Against VmRSS, not the smaps figure: pages a GPU driver maps are in one and not in the other.
        now = proc.status() or {}
        reading["peak"] = reading["tree"] + max(0, max(self.high, now.get("VmHWM", 0)) - now.get("VmRSS", 0))
        reading["at_s"] = round(self.elapsed(), 3)
        earlier = self.facts["phases"].get(name)
        if earlier:
            reading["peak"] = max(reading["peak"], earlier["peak"])
        self.facts["phases"][name] = reading
        self.save(".so-far")
        if reset:
            self.high = 0
            proc.reset_peak()
        return reading

    def unheeded(self):
        """Changes asked for that nothing in the target took."""
        left = sorted(set(self.job.get("changes") or {}) - set(self.facts.get("changed", {})))
        if not left:
            return None
        names = ", ".join(left)
        if "model" in self.facts:
            text = "%s takes no %s, and the script has no such option" % (self.facts["model"]["algorithm"], names)
        else:
            text = "nothing in the script takes %s: it has no such option, and no model was met" % names
        return {"kind": "unheeded", "message": text}

    def save(self, ending):
        """Put the facts on disk, whole or not at all: those so far, should the process be killed, or the result."""
        if self.forked:
            return
        import json

        path = self.job["result"] + ending
        with open(path + ".part", "w") as file:
            json.dump(self.facts, file, default=plain)
        os.replace(path + ".part", path)

    def leave(self, met, stop=None):
        """Write the result and end the process; nothing of the target runs after this."""
        if self.forked:
            return
        if not self._leave.acquire(blocking=False):
            time.sleep(60)  # another thread is writing, and ends the process when it is done
        self.facts["met"] = met
        self.facts["stop"] = stop or self.unheeded()
        if "final" not in self.facts["phases"]:
            self.phase("final", reset=False)
        for closer in self.closers:
            try:
                closer()
            except Exception as error:  # the result matters more than one part of it
                self.note("could not read %s: %s" % (getattr(closer, "__name__", closer), error))
        self.facts["overhead_bytes"] = self.overhead_bytes
        self.facts["wall_s"] = self.elapsed()
        self.facts["python"] = {"version": "%d.%d.%d" % sys.version_info[:3], "executable": sys.executable}
        self.save("")
        for stream in (sys.stdout, sys.stderr):
            try:
                stream.flush()
            except (OSError, ValueError):
                pass
        os._exit(0)


def plain(value):
    """Numbers of numpy as numbers, everything else as text."""
    if hasattr(value, "__index__"):
        return int(value)
    return float(value) if hasattr(value, "__float__") else str(value)


def role(pid, main):
    """What a child process is for; what a fork server forked keeps its command line; ``program``: any other command."""
    command = proc.command(pid)
    is_other = command not in ("", proc.command(main))  # a process that has ended has no command line
    if is_other and not any(word in command for word in WORKERS) and proc.parent(pid) == main:
        return "program"
    if "resource_tracker" in command:
        return "tracker"
    if "multiprocessing.forkserver" in command and proc.parent(pid) == main:
        return "forkserver"
    return "worker"


def call_site(skip=("numpy", "torch")):
    """``file:line`` of the nearest frame that is neither ours nor of the packages that allocate."""
    frame = sys._getframe(1)
    last = None
    while frame is not None:
        name = frame.f_code.co_filename
        if not name.startswith(OWN) and not name.startswith("<frozen"):
            parts = name.replace("\\", "/").split("/")
            last = "%s:%d" % (name, frame.f_lineno)
            if not any(package in parts for package in skip):
                return last
        frame = frame.f_back
    return last or "?"
