"""Sweeps: the axes of ``--vary``, every point in a fresh process, and going on where an earlier sweep stopped."""

from __future__ import annotations

import hashlib
import itertools
import json
import os
import sys
from collections.abc import Generator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol

from rlmem.core.points import Axis, Point, PointLimits, PointOptions, SweepSettings, Values, axes_text
from rlmem.core.target import RLLIB, Target
from rlmem.documents.contract import read_part, to_plain
from rlmem.errors import RlmemError, UsageError
from rlmem.process.tree import read_stat
from rlmem.runner.store import Run, Store
from rlmem.units import parse_count
from rlmem.version import __version__

#: More is a typing mistake: at seconds a point it would run for days.
MOST_POINTS = 1000
#: The default cap follows what is free at the moment; a point that ran out under nearly this cap would do so again.
SAME_CAP = 1.05


class Measure(Protocol):
    """Runs one point in a fresh process; ``rlmem.trace.points`` and ``rlmem.programs.points`` have one each."""

    def __call__(self, target: Target, values: Values, limits: PointLimits, /) -> Point:
        """The point, however the process ended."""


class Execute(Protocol):
    """Measures several jobs, in whatever order they end; closing it early cancels the rest."""

    def __call__(self, jobs: Sequence[Job], /) -> Generator[tuple[Job, Point], None, None]:
        """One after another, as they are finished."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """One process to run: the values, and which repeat of them it is."""

    values: Values
    repeat: int = 0

    @property
    def key(self) -> tuple[str, int]:
        """What tells it from other jobs of the sweep."""
        return axes_text(self.values), self.repeat


@dataclass(frozen=True, slots=True, kw_only=True)
class Done:
    """A job with its point; ``is_known`` when an earlier run measured it."""

    job: Job
    point: Point
    is_known: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Sweep:
    """What is to be measured, and how."""

    target: Target
    axes: tuple[Axis, ...] = ()
    repeat: int = 1
    limits: PointLimits = field(default_factory=PointLimits)

    @property
    def jobs(self) -> tuple[Job, ...]:
        """Every point once, in the order given, then every point again: an interrupted sweep has seen them all early."""
        combinations = list(itertools.product(*(axis.values for axis in self.axes)))
        names = [axis.name for axis in self.axes]
        return tuple(
            Job(values=dict(zip(names, values, strict=True)), repeat=repeat)
            for repeat in range(self.repeat)
            for values in combinations
        )

    @property
    def header(self) -> dict[str, Any]:
        """What the sweep asked for, as plain data."""
        target, limits = self.target, self.limits
        options = PointOptions(
            python=target.python,
            args=target.args,
            sets=target.sets,
            cap_bytes=limits.cap_bytes,
            time_limit_s=limits.time_limit_s,
            updates=limits.updates,
        )
        settings = SweepSettings(axes=self.axes, repeat=self.repeat, options=options)
        return {"target": target.text, **to_plain(settings)}

    @property
    def key(self) -> str:
        """What two sweeps must share for a point of one to be a point of the other.

        Values are not part of it, so a sweep can be extended; nor are cap and time limit, which change no point that
        ended well. The text of a script or run file is: an edited one is another target.
        """
        target = self.target
        parts = {
            "rlmem": __version__,
            "target": _identity(target.text),
            "axes": sorted(axis.name for axis in self.axes),
            "python": os.path.abspath(target.python or sys.executable),
            "args": target.args,
            "sets": target.sets,
            "updates": self.limits.updates,
        }
        return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:16]


def _identity(target: str) -> list[str]:
    """A target and what is in its file, where it has one: a script, a run file, ``make.py:factory``, ``rllib:config.py:name``."""
    place, _, name = target.removeprefix(RLLIB).rpartition(":")
    for text, rest in ((target, ""), (place, name)):
        try:
            path = Path(text)
            return [str(path.absolute()), rest, hashlib.sha256(path.read_bytes()).hexdigest()]
        except (OSError, ValueError):
            continue
    return [target, str(Path.cwd()) if ":" in target else ""]  # a preset, an entry of a zoo, a module


def parse_axes(texts: Sequence[str]) -> tuple[Axis, ...]:
    """The axes of a sweep from its ``--vary`` options."""
    axes = tuple(parse_axis(text) for text in texts)
    for axis, later in itertools.combinations(axes, 2):
        if axis.name == later.name:
            raise UsageError(f"--vary {axis.name} is given twice; put all values in one: {axis.name}=A,B,C")
    points = 1
    for axis in axes:
        points *= len(axis.values)
    if points > MOST_POINTS:
        raise UsageError(f"--vary: {points:,} points are more than {MOST_POINTS:,}; vary fewer values")
    return axes


def parse_axis(text: str) -> Axis:
    """An axis from ``agents=100,1k,1e5``, ``agents=100..20k/5`` (five values, evenly apart) or ``env=Hopper-v5,Ant-v5``."""
    name, sign, rest = text.partition("=")
    name = name.strip()
    example = f"--vary {name or 'agents'}=100,1k,10k"
    if not sign or not name:
        raise UsageError(f"--vary {text!r}: write it as name=values, for example {example}")
    words = [word.strip() for word in rest.split(",")]
    if not all(words):
        problem = "a value is empty" if any(words) else "no values"
        raise UsageError(f"--vary {text!r}: {problem}; write it like {example}")
    try:
        values = tuple(value for word in words for value in _values(word))
    except UsageError as error:
        raise UsageError(f"--vary {name}: {error}") from None
    if len({type(value) for value in values}) > 1:
        raise UsageError(f"--vary {text!r}: numbers and words on one axis; write it like {example}")
    twice = next((value for index, value in enumerate(values) if value in values[:index]), None)
    if twice is not None:
        raise UsageError(f"--vary {text!r}: {twice} is there twice; --repeat measures points several times")
    return Axis(name=name, values=values)


def _values(word: str) -> tuple[int | str, ...]:
    first, dots, rest = word.partition("..")
    if dots:
        last, slash, count = rest.partition("/")
        if not slash:
            raise UsageError(f"{word!r}: say how many values, as in {first or 100}..{last or '20k'}/5")
        return _between(word, parse_count(first), parse_count(last), parse_count(count))
    if word[0].isalpha() or word[0] == "_":
        return (word,)
    value = parse_count(word)
    if value < 0:
        raise UsageError(f"{word!r} is below zero")
    return (value,)


def _between(word: str, first: int, last: int, count: int) -> tuple[int, ...]:
    if not 0 <= first < last or not 2 <= count <= min(MOST_POINTS, last - first + 1):
        raise UsageError(f"{word!r} is not a range: write it as LOW..HIGH/COUNT, with 2 or more values")
    return tuple(first + round(index * (last - first) / (count - 1)) for index in range(count))


def stored_settings(run: Run) -> SweepSettings:
    """Return what a stored run of ``rlmem measure`` asked for.

    Raises:
        UsageError: it was not kept, or by something else than rlmem.
    """
    try:
        return read_part(SweepSettings, run.document)
    except ValueError as error:
        raise UsageError(f"run {run.id}: not a complete sweep: {error}") from None


def known_points(store: Store, sweep: Sweep) -> dict[tuple[str, int], Point]:
    """Points that earlier runs of the same sweep measured and that would come out the same, the newest of each.

    A point that crashed or took too long is tried again; one that ran out of memory only under a higher cap.
    """
    cap = sweep.limits.cap_bytes
    found: dict[tuple[str, int], Point] = {}
    for run in reversed(store.runs(kind="measure", sweep=sweep.key)):
        then = stored_settings(run).options.cap_bytes
        for kept in store.points(run.id):
            reached = kept.status == "oom" and kept.peak_bytes is not None  # else it was ended by somebody else
            same_end = reached and cap is not None and then is not None and cap <= then * SAME_CAP
            if kept.is_ok or same_end:
                found[kept.key] = kept
    return found


def own_process() -> dict[str, Any]:
    """Who works on a run: this process, as no other one can be taken for it."""
    stat = read_stat(os.getpid())
    return {"place": _place_of_pids(), "pid": os.getpid(), "start": stat.start if stat else None}


def _place_of_pids() -> str | None:
    """Where a process's number means the same process: one boot of one machine, in one namespace."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
        return f"{boot} {os.readlink('/proc/self/ns/pid')}"
    except OSError:
        return None


def was_cut_short(run: Run) -> bool:
    """Whether a run was interrupted, or left as under way by a process that is gone (SIGKILL)."""
    if run.status != "running":
        return run.status == "interrupted"
    process = run.document.get("process") or {}
    if process.get("start") is None or process.get("place") != _place_of_pids():
        return False  # it may well be working
    stat = read_stat(process["pid"])
    return stat is None or not stat.is_alive or stat.start != process["start"]


class Running:
    """A sweep under way; ``points`` gives one :class:`Done` after another.

    ``run`` is its place in the store from the start. Whatever ends the iteration, Ctrl-C included, finished points are
    kept; the same sweep then goes on with the rest. ``execute`` measures the points elsewhere than here, one by one.
    """

    def __init__(
        self,
        sweep: Sweep,
        measure: Measure,
        store: Store,
        *,
        command: Sequence[str] = (),
        fresh: bool = False,
        execute: Execute | None = None,
        machine: Mapping[str, Any] | None = None,
    ) -> None:
        self.sweep = sweep
        self._measure = measure
        self._execute = execute or self._one_by_one
        self._store = store
        wanted = {job.key for job in sweep.jobs}
        known = {} if fresh else known_points(store, sweep)
        self.known = {key: point for key, point in known.items() if key in wanted}
        self._header = {**sweep.header, "process": own_process()}
        self.run = self._place(command, fresh, machine)

    @property
    def left(self) -> int:
        """Points that must be measured."""
        return len(self.sweep.jobs) - len(self.known)

    def _place(self, command: Sequence[str], fresh: bool, machine: Mapping[str, Any] | None) -> Run:
        """The run that holds exactly these points already, the one that was interrupted, or a new one."""
        earlier = () if fresh else self._store.runs(kind="measure", sweep=self.sweep.key)
        for run in earlier:
            held = {kept.key for kept in self._store.points(run.id)}
            if was_cut_short(run) and held <= {job.key for job in self.sweep.jobs}:
                return self._store.reopen(run.id, self._header)
            if not self.left and run.finished and held == set(self.known):
                return run
        return self._store.begin(
            "measure",
            self.sweep.target.text,
            command=command,
            sweep=self.sweep.key,
            document=self._header,
            machine=machine,
        )

    def points(self) -> Generator[Done, None, None]:
        """Known points at once, the others as they are measured."""
        try:
            with closing(self._points()) as found:
                for done in found:
                    if not self.run.finished:
                        self._store.add(self.run.id, done.point)
                    yield done
        except BaseException:
            if self.run.finished:
                raise
            if self._store.points(self.run.id):
                self._store.finish(self.run.id, "interrupted", self.sweep.header)
            else:
                self._store.delete(self.run.id)
            raise

    def _points(self) -> Generator[Done, None, None]:
        known = [job for job in self.sweep.jobs if job.key in self.known]
        yield from (Done(job=job, point=self.known[job.key], is_known=True) for job in known)
        left = [job for job in self.sweep.jobs if job.key not in self.known]
        with closing(self._execute(left)) as measured:
            for job, point in measured:
                yield Done(job=job, point=replace(point, repeat=job.repeat))

    def _one_by_one(self, jobs: Sequence[Job]) -> Generator[tuple[Job, Point], None, None]:
        for job in jobs:
            yield job, self._point(job)

    def _point(self, job: Job) -> Point:
        """A job's point; what cannot be measured is a row that says so, a wrong request is not."""
        try:
            return self._measure(self.sweep.target, job.values, self.sweep.limits)
        except UsageError:
            raise
        except RlmemError as error:
            return Point(values=job.values, status="failed", peak_bytes=None, note=str(error))

    def finish(self) -> Run:
        """Close the run, and say what became of it."""
        if not self.run.finished:
            ok = all(kept.is_ok for kept in self._store.points(self.run.id))
            self._store.finish(self.run.id, "ok" if ok else "partial", self.sweep.header)
        return self._store.find(self.run.id)
