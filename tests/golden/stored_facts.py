"""Facts of real processes, and a way to have rlmem see them in place of what runs here.

The files of ``facts`` were recorded once from what was running, with numbers of processes, paths and times made steady:

- ``explain-*.json``: the processes that ``rlmem explain`` looked at, what their pages and agents said: a DQN of stable-baselines3
  (``dqn``; ``gpu`` is the same with a GPU put in by hand), a PPO with two forked workers (``ppo``), one on images that keeps
  figures and graphs of losses (``image``), and one without an agent (``pages``);
- ``runs.json``: rows of the store: four runs of ``rlmem run``, three sweeps and a benchmark;
- ``cluster.json``: what the probe of a Ray cluster of one node answered, and a node that did not;
- ``ladder.json``, ``train.json``: points of the swarm's ladder, and the rows of a training.
"""

from __future__ import annotations

import contextlib
import json
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any
from unittest import mock

import msgspec

from golden import machine
from rlmem.agent import proc
from rlmem.cluster.holdings import ClusterHoldings, from_data
from rlmem.core.holdings import Explanation
from rlmem.core.moments import Moment
from rlmem.process import attach
from rlmem.process import explain as explaining
from rlmem.process import processes as reading
from rlmem.process.processes import Process
from rlmem.process.sampler import Pages
from rlmem.programs.swarm_ladder import Taken
from rlmem.runner.store import Store, open_store
from rlmem.runner.supervise import Ended, Supervision
from rlmem.swarm.settings import Settings
from rlmem.watch.members import Member
from rlmem.watch.pacing import Pacer
from rlmem.watch.sampling import Ended as GoneError
from rlmem.watch.sampling import Watch

if TYPE_CHECKING:
    from rlmem.swarm.training import Training

FACTS = Path(__file__).parent / "facts"


@cache
def facts(name: str) -> Any:
    """Return what a file of ``facts`` holds."""
    return json.loads((FACTS / f"{name}.json").read_text(encoding="utf-8"))


# -- processes ----------------------------------------------------------------------------------------------------------


def pid_of(name: str) -> int:
    """Return the number of the process that ``explain-NAME.json`` is about."""
    pid: int = facts(f"explain-{name}")["pid"]
    return pid


@contextlib.contextmanager
def process(name: str) -> Iterator[None]:
    """Have the process of ``explain-NAME.json`` on this machine, with its children; there is no other."""
    stored = facts(f"explain-{name}")
    running = {one["pid"]: msgspec.convert(one, Process) for one in stored["processes"]}
    looks = {int(pid): msgspec.convert(one, Explanation) for pid, one in stored["explained"].items()}
    parts = {int(pid): sizes for pid, sizes in stored["parts"].items()}
    top = running[stored["pid"]]
    below = tuple(one for one in running.values() if one is not top)

    def look(one: Process, *, trim: bool, **_: Any) -> Explanation:
        return looks[one.pid] if trim else replace(looks[one.pid], trimmed_bytes=None)

    def ask(one: Process | int, request: Mapping[str, Any], **_: Any) -> Any:
        pid = one if isinstance(one, int) else one.pid
        answer = stored["answers"].get(f"{pid} {request['ask']}")
        if answer is None:
            raise attach.NoAgent(f"process {pid} has no agent")
        return answer

    files = {
        f"/proc/{pid}/{file}": machine._FILES[f"/proc/self/{file}"] for pid in running for file in ("cgroup", "limits")
    }
    with contextlib.ExitStack() as stack:
        stack.enter_context(mock.patch.dict(machine._FILES, files))
        for home, attribute, value in (
            (reading, "read_process", lambda pid, **_: running.get(pid)),
            (explaining, "descendants", lambda pid, **_: below if pid == top.pid else ()),
            (explaining, "_explained", look),
            (attach, "ask", ask),
            (attach, "agent_socket", lambda one: "socket" if looks[one.pid].way == "agent" else None),
            (proc, "tree_parts", lambda pids, *_: (stored["together"], {pid: parts[pid] for pid in pids})),
            (proc, "pids", lambda *_: list(running)),
            (proc, "rss", lambda pid, *_: looks[pid].rss_bytes),
        ):
            stack.enter_context(mock.patch.object(home, attribute, value))
        yield


# -- moments ------------------------------------------------------------------------------------------------------------


def stored_run(target: str, kind: str = "run") -> Mapping[str, Any]:
    """Return the first row of the store of a kind and target."""
    return next(row for row in facts("runs").values() if (row["kind"], row["target"]) == (kind, target))


def moments(target: str) -> tuple[Moment, ...]:
    """Return the moments of a run of ``rlmem run``."""
    return tuple(msgspec.convert(moment, Moment) for _, moment in stored_run(target)["moments"])


def members(target: str) -> tuple[Member, ...]:
    """Return the processes of a run of ``rlmem run``, as they were at its largest moment."""
    return tuple(
        Member(
            pid=row["pid"],
            start=1000 + row["pid"],
            parent=1,
            state="S",
            cpu_s=12.5,
            threads=row["threads"],
            pages=Pages(anonymous=row["rss_bytes"], shared=0),
            command=row["command"],
            role=row["role"],
            pss_bytes=row["pss_bytes"],
            uss_bytes=row["uss_bytes"],
        )
        for row in stored_run(target)["document"]["ended"]["peak"]["members"]
    )


class _Clock:
    """Time that passes while somebody sleeps."""

    def __init__(self) -> None:
        self.now = 1000.0

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


def watches(target: str) -> contextlib.AbstractContextManager[Any]:
    """Have every watch see the moments of a run of ``rlmem run``, and its end after the last one."""
    stack = contextlib.ExitStack()
    for attribute, value in _watch(target).items():
        stack.enter_context(mock.patch.object(Watch, attribute, value))
    # A verdict is taken at every look: how often that may be depends on what it costs here.
    stack.enter_context(mock.patch.object(Pacer, "is_due", lambda self, now: True))
    stack.enter_context(mock.patch.object(reading, "read_process", lambda pid, **_: None))
    stack.enter_context(mock.patch("rlmem.app.watch.datetime", machine._Clock))
    return stack


def _watch(target: str) -> Mapping[str, Any]:
    """The methods of a watch that sees what was recorded."""
    seen, processes = moments(target), members(target)

    def begin(self: Watch, pids: Sequence[int] = (), **_: Any) -> None:
        self.members, self.is_growing = processes, True
        self._group, self._tops, self._left = None, dict.fromkeys(pids, 0), iter(seen)

    def sample(self: Watch) -> Moment:
        moment = next(self._left, None)
        if moment is None:
            raise GoneError(f"{self.title} ended")
        return moment

    return {"__init__": begin, "sample": sample, "ask_now": lambda self: None}


@contextlib.contextmanager
def watching(target: str) -> Iterator[None]:
    """Watch the moments of a run, on a clock that passes while the command sleeps."""
    clock = _Clock()
    with watches(target), mock.patch("time.monotonic", clock.monotonic), mock.patch("time.sleep", clock.sleep):
        yield


@contextlib.contextmanager
def supervised(target: str) -> Iterator[None]:
    """Have ``rlmem run`` see the moments of a run and its end, whatever command it is given; it starts none."""
    row = stored_run(target)

    def go(self: Supervision) -> Ended:
        if self._recorder:
            self._recorder.start()
        for moment in moments(target):
            change = self.timeline.add(moment)
            if self._recorder:
                self._recorder.keep(change)
        return msgspec.convert(row["document"]["ended"], Ended)

    with mock.patch.object(Supervision, "go", go), mock.patch.object(Store, "_new_id", lambda self: "feed0001"):
        yield


@contextlib.contextmanager
def cluster() -> Iterator[None]:
    """Have the cluster of ``cluster.json`` running; Ray itself is not needed."""
    stored = facts("cluster")
    nodes = tuple(from_data(node) for node in stored["nodes"])
    answer = ClusterHoldings(**{**stored, "nodes": nodes})
    listed = SimpleNamespace(nodes=lambda: [{"Alive": node.problem is None} for node in nodes])
    connected = mock.patch("rlmem.ray.connecting.connected", lambda address: contextlib.nullcontext(listed))
    with connected, mock.patch("rlmem.ray.probing.probe_once", lambda ray, **_: answer):
        yield


# -- the swarm ----------------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def ladder() -> Iterator[None]:
    """Have the ladder's points measured as in ``ladder.json``, whatever is asked for; the last one as out of memory."""
    taken = iter(facts("ladder")["taken"])

    def take(settings: Settings, *_: Any, **__: Any) -> Taken:
        return msgspec.convert({**next(taken), "agents": settings.agents}, Taken)

    with (
        mock.patch("rlmem.programs.swarm_ladder.take", take),
        mock.patch("rlmem.programs.swarm_ladder.training_python", lambda *_: "python"),
        mock.patch("os.getloadavg", lambda: (0.25, 0.5, 0.75)),
    ):
        yield


@contextlib.contextmanager
def training(status: str = "done") -> Iterator[None]:
    """Have the swarm train as in ``train.json``, without a network that would have to be built."""
    from rlmem.swarm.training import Ended as TrainingEnded  # imports torch, which takes seconds

    stored = facts("train")

    def train(self: Training, *_: Any, **__: Any) -> TrainingEnded:
        self.rows = tuple(stored["rows"])
        return TrainingEnded(
            status=status, text="" if status == "done" else "loss is nan", exit_code=3 * (status != "done")
        )

    peak = stored["peak"], stored["how"]
    with (
        mock.patch("rlmem.swarm.training.Training.train", train),
        mock.patch("rlmem.swarm.devices.own_peak_bytes", lambda: peak),
    ):
        yield


# -- the store ----------------------------------------------------------------------------------------------------------


def run_id(target: str, kind: str = "run", number: int = 0) -> str:
    """Return the id of a stored run: of several of one kind and target the one with a number."""
    rows = [row for row in facts("runs").values() if (row["kind"], row["target"]) == (kind, target)]
    name: str = rows[number]["id"]
    return name


@contextlib.contextmanager
def store() -> Iterator[None]:
    """Have the rows of ``runs.json`` in the store, as the version that wrote them kept them."""
    with open_store(write=True) as opened:
        path = opened.path
    with contextlib.closing(sqlite3.connect(path)) as connection, connection:
        for row in facts("runs").values():
            texts = {name: json.dumps(row[name]) for name in ("command", "machine", "versions", "document")}
            kept = {name: value for name, value in row.items() if name not in ("points", "moments")} | texts
            marks = ", ".join(f":{name}" for name in kept)
            connection.execute(f"INSERT INTO runs ({', '.join(kept)}) VALUES ({marks})", kept)
            points = [(row["id"], axes, repeat, json.dumps(point)) for axes, repeat, point in row["points"]]
            connection.executemany("INSERT INTO points VALUES (?, ?, ?, ?)", points)
            looks = [(row["id"], number, json.dumps(moment)) for number, moment in row["moments"]]
            connection.executemany("INSERT INTO moments VALUES (?, ?, ?)", looks)
    yield
