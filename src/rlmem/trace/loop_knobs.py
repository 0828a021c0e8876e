"""Counts that decide the memory of a loop of its own: found by following what the dry run saw it allocate."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from rlmem.agent.protocol import Facts
from rlmem.lint.reading import Unreadable, read_file
from rlmem.remedies.script import LOOP_NAMES, LoopKnob, loop_knob
from rlmem.scripts import Script
from rlmem.scripts.counts import Count, Counts
from rlmem.scripts.settings_files import SUFFIXES
from rlmem.trace.target import RunnableTarget

#: Counts of a loop that are turned, in this order, where milder steps are not enough.
LOOP_KNOBS = ("buffer_size", "n_steps", "n_envs")
#: Arrays below this share of all are not worth a look.
_LEAST_SHARE = 0.02
#: Files of settings that are looked at: beside the script, and one folder below.
_MOST_FILES, _LARGEST = 200, 256 * 1024
#: What names say about a count; what says nothing is a buffer's.
_KINDS = (
    ("buffer_size", re.compile(r"mem|buf|replay|capac|size|slot|histor|keep|stor", re.IGNORECASE)),
    ("n_envs", re.compile(r"env|world|worker|actor|parallel", re.IGNORECASE)),
    ("n_steps", re.compile(r"step|horizon|rollout|unroll|length|^T$", re.IGNORECASE)),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Knob:
    """A count, the field of a description that it is, and the bytes it decides; 0 where they are not known."""

    field: str
    count: Count
    nbytes: int = 0


def knobs_of(script: Script, target: RunnableTarget, facts: Facts, *, skipped: set[str]) -> Iterator[Knob]:
    """Counts by the bytes they decide, the most first; then those that only their names tell."""
    scripts = script.project.all_of(script) if script.project else (script,)
    counts = Counts(scripts, tuple(_settings(target)), target.args)
    found: dict[tuple[Path | None, int, int], Knob] = {}
    for count, nbytes in _followed(counts, facts):
        key = (count.path, count.start, count.at)
        knob = found.get(key) or Knob(field=_field(count), count=count)
        found[key] = replace(knob, nbytes=knob.nbytes + nbytes)
    yield from sorted(found.values(), key=lambda knob: (knob.count.inline, -knob.nbytes))
    for field in LOOP_KNOBS:
        named = loop_knob(script, field)
        if named is not None and named.option not in skipped:
            count = _count(script, named)
            if (count.path, count.start, count.at) not in found:
                yield Knob(field=field, count=count)


def _followed(counts: Counts, facts: Facts) -> Iterator[tuple[Count, int]]:
    arrays = [row for row in (*facts.get("arrays", ()), *facts.get("worker_arrays", ())) if row.get("where")]
    levels = facts.get("levels")
    filling = (*facts.get("containers", ()), *(levels["containers"] if levels else ()))
    containers = {(row["kind"], row["capacity"]): row for row in filling if row.get("capacity")}.values()
    whole = sum(row["nbytes"] for row in arrays) + sum(row["capacity"] * row["bytes_each"] for row in containers)
    for row in arrays:
        path, _, line = row["where"].rpartition(":")
        if row["nbytes"] >= whole * _LEAST_SHARE and line.isdigit():
            yield from ((count, row["nbytes"]) for count in counts.of_array(path, int(line), row["shape"]))
    for row in containers:
        nbytes = row["capacity"] * row["bytes_each"]
        if nbytes >= whole * _LEAST_SHARE:
            yield from ((count, nbytes) for count in counts.of_capacity(row["capacity"]))


def _settings(target: RunnableTarget) -> Iterator[tuple[Path, str]]:
    """Files of settings that the run may read: named on its command line, beside the script, or one folder below."""
    folder = Path(target.text).resolve().parent
    named = (target.folder / item.partition("=")[2 if "=" in item else 0] for item in target.args)
    beside = (
        path for suffix in SUFFIXES for pattern in (f"*{suffix}", f"*/*{suffix}") for path in folder.glob(pattern)
    )
    for path in list(dict.fromkeys(path.resolve() for path in (*named, *beside)))[:_MOST_FILES]:
        try:
            if path.suffix in SUFFIXES and path.is_file() and path.stat().st_size <= _LARGEST:
                yield path, read_file(path).text
        except (OSError, Unreadable):
            continue


def _field(count: Count) -> str:
    word = count.word
    named = next((field for field in LOOP_KNOBS if word.lower() in LOOP_NAMES[field]), None)
    return named or next((field for field, words in _KINDS if words.search(word)), "buffer_size")


def _count(script: Script, knob: LoopKnob) -> Count:
    """What :func:`loop_knob` found, as a count."""
    start, end = script.span(knob.literal)
    return Count(
        name=knob.name,
        value=knob.value,
        path=Path(script.path).resolve(),
        line=script.source.position(start)[0],
        start=start,
        end=end,
        text=script.segment(knob.literal),
    )
