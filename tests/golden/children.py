"""Child processes that are played back: what they answered when ``make golden-facts`` ran them for real.

Dry runs, samples that are coded, spaces that are read and RLlib configurations all run through ``run_child``. Its lowest part is
replaced, so that all code of the parent runs: what it asks a child for, what it reads, how it judges how the child ended.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import shutil
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any
from unittest import mock

import rlmem
from rlmem.process.sampler import ProcessPeak, TreePeak
from rlmem.programs import launch
from rlmem.runner import child
from rlmem.runner.child import Outcome

FACTS = Path(__file__).parent / "facts" / "dryruns"
#: Whether children are run for real, which ``record.py`` wants.
RECORDS = False
#: The interpreter of everything that is played back.
PYTHON = "/env/bin/python"
#: What decides, of a job of a dry run, how it goes.
ASKED = ("mode", "changes", "updates", "device", "workers", "whole_run")
#: Files whose text decides how a child goes, beside what it is asked for.
READ = ("*.py", "*.yaml")
#: Where things lie on the machine that recorded; the facts have these names instead.
_COPY = re.compile(r"\.rlmem-fit-(\w+)-\w{8}\.py")
_PACKAGES = re.compile(r"/[\w./-]*/lib/python3\.\d+/site-packages")
_TEMPORARY = re.compile(r"/tmp/rlmem-\w+-\w{8}")
_LIBRARY = re.compile(rf"{re.escape(sys.base_prefix)}/lib/python3\.\d+")

Record = dict[str, Any]


class Recordings:
    """The answers of children, by what they were asked; kept as one file for each target."""

    def __init__(self, name: str) -> None:
        self.path = FACTS / f"{name}.json"
        self.records: list[Record] = json.loads(self.path.read_text(encoding="utf-8")) if self.path.exists() else []
        #: The last dry run: what a sample of it is coded for.
        self.last: str = ""

    def find(self, asked: Mapping[str, Any]) -> Record | None:
        """Return what was answered to this, or ``None``."""
        return next((record for record in self.records if record["asked"] == asked), None)

    def save(self) -> None:
        """Write the file."""
        lines = (json.dumps(record, ensure_ascii=False) for record in self.records)
        self.path.parent.mkdir(exist_ok=True)
        self.path.write_text("[" + ",\n".join(lines) + "]\n", encoding="utf-8")


def question(command: Sequence[str], cwd: str | os.PathLike[str] | None, last: str) -> Record:
    """Return what a child is asked, without what differs from one call to the next."""
    program, rest = command[1], list(command[2:])
    name = Path(program).name
    if name == "entry.py":
        job = json.loads(Path(rest[0]).read_text(encoding="utf-8"))
        target = _without_paths(job["target"], command, cwd, job)
        return {
            "program": name,
            "target": target,
            "files": _digest(Path(cwd or "."), job["target"].get("path")),
            **{word: job[word] for word in ASKED},
        }
    if name == "sizing.py":
        return {"program": name, "after": last}
    if name == "environment.py" or program == "-c":
        return {"program": name, "arguments": rest}
    body = json.loads(Path(rest[0]).read_text(encoding="utf-8"))
    return {"program": name, "case": _without_paths(body, command, cwd, {}), "files": _digest(Path(cwd or "."), None)}


def _digest(folder: Path, script: str | None) -> str:
    """The texts that a child reads, as one short word."""
    paths = {path for pattern in READ for path in folder.glob(pattern) if not path.name.startswith(".")}
    texts = [path.read_bytes() for path in (*sorted(paths), *([Path(script)] if script else ()))]
    return hashlib.sha256(b"\0".join(texts)).hexdigest()[:12]


def _places(command: Sequence[str], cwd: str | os.PathLike[str] | None, job: Mapping[str, Any]) -> dict[str, str]:
    """Return what paths of this call are called in the facts, the longest first."""
    names = {os.path.realpath(cwd or "."): "FOLDER"}
    if job:
        names |= {job["folder"]: "JOB"}
        path = job["target"].get("path")
        if path and _COPY.search(path):
            names |= {path: "FOLDER/COPY.py", Path(path).name: "COPY.py"}
    return dict(sorted(names.items(), key=lambda item: -len(item[0])))


def _without_paths(
    data: Any, command: Sequence[str], cwd: str | os.PathLike[str] | None, job: Mapping[str, Any]
) -> Any:
    """Return JSON data with the names of the facts in place of this machine's paths."""
    text = json.dumps(data)
    for path, name in _places(command, cwd, job).items():
        text = text.replace(path, name)
    text = text.replace(sys.executable, PYTHON).replace(command[0], PYTHON)
    text = text.replace(os.path.dirname(rlmem.__file__), "/env/lib/python3/site-packages/rlmem")
    text = _PACKAGES.sub("/env/lib/python3/site-packages", text)
    text = _LIBRARY.sub("/usr/lib/python3", text)
    text = _TEMPORARY.sub("JOB", text)
    return json.loads(text)


def _with_paths(data: Any, command: Sequence[str], cwd: str | os.PathLike[str] | None, job: Mapping[str, Any]) -> Any:
    """Return data of the facts with the paths of this call."""
    text = json.dumps(data)
    for path, name in _places(command, cwd, job).items():
        text = text.replace(name, path)
    return json.loads(text)


def _answers(command: Sequence[str], env: Mapping[str, str]) -> dict[str, Path]:
    """Return the files that a child answers in, by what they are called in the facts."""
    name = Path(command[1]).name
    if name == "entry.py":
        result = Path(_job(command)["result"])
        return {"result": result, "so-far": result.with_name(f"{result.name}.so-far")}
    if len(command) == 4 and "RLMEM_STATUS" in env:
        return {"answer": Path(command[3]), "status": Path(env["RLMEM_STATUS"])}
    return {}


def _job(command: Sequence[str]) -> Mapping[str, Any]:
    if Path(command[1]).name != "entry.py":
        return {}
    job: Mapping[str, Any] = json.loads(Path(command[2]).read_text(encoding="utf-8"))
    return job


class PlayedChild:
    """A child that was recorded, in place of the one that ``run_child`` would start."""

    def __init__(self, recordings: Recordings, *_: object) -> None:
        self.recordings = recordings
        self.record: Record = {}

    def start(self, command: Sequence[str], cwd: str | os.PathLike[str] | None, env: Mapping[str, str]) -> None:
        """Answer at once, as the child did."""
        asked = question(command, cwd, self.recordings.last)
        record = self.recordings.find(asked)
        if record is None:
            raise LookupError(f"{self.recordings.path.name} has no child that was asked {asked}: make golden-facts")
        self.answer(record, command, cwd, env)

    def answer(
        self, record: Record, command: Sequence[str], cwd: str | os.PathLike[str] | None, env: Mapping[str, str]
    ) -> None:
        """Write what a recorded child wrote."""
        if "target" in record["asked"]:
            self.recordings.last = _name(record["asked"])
        self.record = _with_paths(record, command, cwd, _job(command))
        for name, path in _answers(command, env).items():
            if name in self.record["answers"]:
                path.write_text(json.dumps(self.record["answers"][name]), encoding="utf-8")

    def wait(self, on_tick: Callable[[Any], None] | None) -> None:
        """It has ended."""

    def end(self) -> None:
        """Nothing is alive."""

    def outcome(self) -> Outcome:
        """Return how it ended."""
        found = dict(self.record["outcome"])
        peak = dict(found.pop("peak"))
        processes = tuple(ProcessPeak(**row) for row in peak.pop("processes"))
        return Outcome(**found, peak=TreePeak(**peak, processes=processes))


class RecordedChild(PlayedChild):
    """A real child whose answer is added to the recordings; one that is there already is played."""

    def __init__(self, recordings: Recordings, real: type[Any], *how: object) -> None:
        super().__init__(recordings)
        self.real = real(*how)
        self.asked: Record | None = None

    def start(self, command: Sequence[str], cwd: str | os.PathLike[str] | None, env: Mapping[str, str]) -> None:
        """Start it, unless the same was asked before."""
        asked = question(command, cwd, self.recordings.last)
        record = self.recordings.find(asked)
        if record is not None:
            self.answer(record, command, cwd, env)
            return
        self.asked, self.call = asked, (command, cwd, env)
        if "target" in asked:
            self.recordings.last = _name(asked)
        self.real.start(command, cwd, env)

    def wait(self, on_tick: Callable[[Any], None] | None) -> None:
        """Wait for the real one."""
        if self.asked:
            self.real.wait(on_tick)

    def end(self) -> None:
        """End the real one."""
        if self.asked:
            self.real.end()

    def outcome(self) -> Outcome:
        """Return how it ended, and keep it with what it answered."""
        if self.asked:
            command, cwd, env = self.call
            outcome = asdict(self.real.outcome())
            for number, row in enumerate(outcome["peak"]["processes"], 1):
                row["pid"] = number
            answers = {}
            for name, path in _answers(command, env).items():
                with contextlib.suppress(OSError, ValueError):
                    answers[name] = json.loads(path.read_text(encoding="utf-8"))
            if "result" in answers:
                answers.pop("so-far", None)
            record = _without_paths({"answers": answers, "outcome": outcome}, command, cwd, _job(command))
            self.recordings.records.append({"asked": self.asked, **record})
            self.record = _with_paths(record, command, cwd, _job(command))
        return super().outcome()


def _name(asked: Mapping[str, Any]) -> str:
    """A short name of a dry run."""
    return hashlib.sha256(json.dumps(asked, sort_keys=True).encode()).hexdigest()[:12]


@contextlib.contextmanager
def recording(name: str) -> Iterator[None]:
    """Within, children are started for real, and their answers are added to what is recorded under ``name``."""
    recordings = Recordings(name)
    with mock.patch.object(child, "_Child", partial(RecordedChild, recordings, child._Child)):
        yield
    recordings.save()


@contextlib.contextmanager
def playing(name: str) -> Iterator[None]:
    """Within, children answer what is recorded under ``name``; none is started, and no interpreter is looked for."""
    recordings = Recordings(name)
    environ = {word: value for word, value in os.environ.items() if word not in ("VIRTUAL_ENV", "CONDA_PREFIX")}
    with (
        mock.patch.dict(os.environ, environ, clear=True),
        mock.patch.object(sys, "executable", PYTHON),
        mock.patch.object(shutil, "which", lambda name, **_: name),
        mock.patch.object(child, "_Child", partial(PlayedChild, recordings)),
        mock.patch.object(launch, "missing_packages", lambda python, packages: ()),
    ):
        yield


@contextlib.contextmanager
def children(name: str) -> Iterator[None]:
    """Within, children are played back; recorded while ``record.py`` runs the cases."""
    with (recording if RECORDS else playing)(name):
        yield
