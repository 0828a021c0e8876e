"""Pieces of work for nodes: a dry run, a measured point, a benchmarked profile. They travel as they are and run in a keeper."""

from __future__ import annotations

import hashlib
import os
import tempfile
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from rlmem.budget import cap_bytes
from rlmem.core.points import Point, PointLimits, Values
from rlmem.core.spec import RunSpec
from rlmem.core.target import Target
from rlmem.errors import AnalysisError

if TYPE_CHECKING:
    from rlmem.programs.bench import Benched, BenchOptions
    from rlmem.sources.profiles import Profile
    from rlmem.trace.points import Foreseen


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where a target lives on the machine that asks: its folder, and its file with what is in it."""

    folder: str
    file: str | None = None
    digest: str | None = None

    @classmethod
    def of(cls, target: Target) -> Place:
        """The place of something to run from here."""
        path = Path(target.text)
        if not path.is_file():
            return cls(folder=os.getcwd())
        return cls(folder=os.getcwd(), file=str(path.absolute()), digest=_digest(path))

    def settle(self) -> None:
        """Be there, on this machine; an error where it is not, or where the file says something else."""
        try:
            os.chdir(self.folder)
        except OSError as error:
            raise AnalysisError(
                f"no folder {self.folder} on this node ({error.strerror}); run from a folder that every node sees"
            ) from None
        if self.file is None:
            return
        path = Path(self.file)
        if not path.is_file():
            raise AnalysisError(f"no {path} on this node; put it where every node sees it")
        if _digest(path) != self.digest:
            raise AnalysisError(f"{path} on this node is another one; put it where every node sees the same")


def _digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def portable(spec: RunSpec) -> RunSpec:
    """A description that can be pickled."""
    return RunSpec(dict(spec.values), dict(spec.origins))


def _capped(limits: PointLimits) -> PointLimits:
    """Without a cap, most of what is free on this node: its cgroups, limits and memory."""
    return limits if limits.cap_bytes is not None else replace(limits, cap_bytes=cap_bytes(None))


@dataclass(frozen=True, slots=True, kw_only=True)
class DryRunWork:
    """What a point of something to run will need."""

    target: Target
    values: Values
    limits: PointLimits
    place: Place

    def run(self) -> Foreseen:
        """Try it a little."""
        from rlmem.trace.points import plan_point

        self.place.settle()
        return plan_point(self.target, self.values, _capped(self.limits))


@dataclass(frozen=True, slots=True, kw_only=True)
class TracedWork:
    """A point of something to run, beside what its dry run said."""

    target: Target
    values: Values
    limits: PointLimits
    place: Place
    foreseen: Foreseen

    def run(self) -> Point:
        """Measure it."""
        from rlmem.trace.points import measure_planned

        self.place.settle()
        return measure_planned(self.target, self.values, _capped(self.limits), self.foreseen)


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribedWork:
    """A point of a described run."""

    spec: RunSpec
    values: Values
    limits: PointLimits
    #: The interpreter that was named, if one was.
    python: str | None

    def run(self) -> Point:
        """Measure it."""
        from rlmem.programs.points import measure_spec

        os.chdir(tempfile.gettempdir())
        return measure_spec(self.spec, self.values, _capped(self.limits), self.python)


@dataclass(frozen=True, slots=True, kw_only=True)
class BenchWork:
    """A profile of a benchmark; ``python`` is the interpreter that was named, if one was."""

    spec: RunSpec
    profile: Profile
    options: BenchOptions
    python: str | None

    def run(self) -> Benched:
        """Train it."""
        from rlmem.programs.bench import bench_profile, check_target, packages
        from rlmem.programs.launch import training_python

        os.chdir(tempfile.gettempdir())
        options = self.options
        (case,) = check_target(self.spec, (self.profile,), options.env)
        python = training_python(self.python, packages(case, options.env))
        cap = options.cap_bytes if options.cap_bytes is not None else cap_bytes(None)
        return bench_profile(self.spec, self.profile, replace(options, python=python, cap_bytes=cap))
