"""The predicted columns of ``accuracy/*.csv`` as closed forms give them now, and tables of what every entry needs.

Three sources are planned here, all without a dry run, torch or Ray:

- ``results.csv``: its presets, as a user plans them; these equal the file. Its RL Zoo entries and scripts were planned by
  dry runs, which cannot be had in seconds: what those dry runs described is kept in ``descriptions/corpus.json``, without
  what are defaults, and the closed form of each description is in a table of its own, which need not equal the file.
- ``rllib.csv``: what each configuration of ``accuracy/rllib_configs.py`` said of itself is kept in
  ``descriptions/rllib.json``; its plan by role is near the file, not equal to it, because imports, the environment and the
  network are measured again whenever a configuration is described.
- ``vram.csv``: its column ``closed_form``, from ``benchmarks/vram_cases.py``; the others come from recorded operations.
"""

from __future__ import annotations

import csv
import importlib
import json
import sys
from collections.abc import Iterator, Mapping
from functools import cache, partial
from pathlib import Path
from typing import Any
from unittest import mock

from accuracy import corpus, results, rllib_table
from golden.harness import Case
from rlmem.budget import make_budget
from rlmem.core.plan import Plan
from rlmem.core.spec import RunSpec
from rlmem.errors import RlmemError
from rlmem.frameworks.rllib.shares import by_role
from rlmem.planner import ClosedForm
from rlmem.sources import load
from rlmem.sources.config import parse_run

ROOT = Path(__file__).parents[2]
DESCRIPTIONS = Path(__file__).parent / "descriptions"

Sizes = tuple[int, int, int]


@cache
def described(name: str) -> Mapping[str, RunSpec]:
    """The runs that are kept in a file of ``descriptions``, by entry."""
    kept: Mapping[str, Any] = json.loads((DESCRIPTIONS / f"{name}.json").read_text(encoding="utf-8"))
    return {entry: parse_run(json.dumps(run), where=entry, extend=load) for entry, run in kept.items()}


def closed_form(spec: RunSpec) -> Plan:
    """The plan of a run on a machine that is always large enough."""
    return ClosedForm().plan(spec, make_budget(ram="1TB"))


def top_of_ram(plan: Plan) -> Sizes:
    """Low, expected and high bytes of RAM at the peak."""
    top = plan.top("ram")
    assert top is not None
    return top.low_bytes, top.expected_bytes, top.high_bytes


def presets() -> Mapping[str, Plan]:
    """The plans of the corpus's presets with their settings, by id."""
    return {entry.id: closed_form(load(entry.subject, entry.args)) for entry in corpus.load() if entry.kind == "preset"}


def rllib_roles() -> Mapping[str, Mapping[str, Sizes]]:
    """Low, expected and high bytes by role and of the cluster, by configuration; as ``accuracy/rllib_run.py`` predicts."""
    found: dict[str, Mapping[str, Sizes]] = {}
    for name, spec in described("rllib").items():
        plan = closed_form(spec)
        found[name] = {**by_role(plan.spec, plan.ledger), rllib_table.ALL: top_of_ram(plan)}
    return found


def vram_closed_forms() -> Mapping[str, int | None]:
    """The driver's figure by arithmetic for each run of ``vram.csv``; ``None`` where it has no description."""
    with mock.patch.object(sys, "path", [str(ROOT / "benchmarks"), *sys.path]):
        vram, cases = importlib.import_module("vram"), importlib.import_module("vram_cases")
    return {name: vram.closed_form(cases.CASES[name]) for name in vram_rows()}


@cache
def vram_rows() -> Mapping[str, Mapping[str, str]]:
    """The rows of ``vram.csv`` by run."""
    with (ROOT / "accuracy" / "vram.csv").open(encoding="utf-8", newline="") as file:
        return {row["run"]: row for row in csv.DictReader(file)}


def peaks_csv(results_rows: Mapping[str, results.Row]) -> Mapping[str, Sizes]:
    """Low, expected and high bytes of ``results.csv``, of rows that have a plan."""
    return {
        name: (int(row["low"]), int(row["expected"]), int(row["high"]))
        for name, row in results_rows.items()
        if row["expected"]
    }


def _peaks_or_refusal(name: str, spec: RunSpec) -> Iterator[str]:
    """The peaks of a description; or why there is no closed form of it, as of loops of one's own."""
    try:
        plan = closed_form(spec)
    except RlmemError as error:
        yield f"{name:47}{error}"
        return
    yield from _peaks(name, plan)


def _peaks(name: str, plan: Plan) -> Iterator[str]:
    for peak in sorted(plan.peaks, key=lambda peak: not peak.is_peak):
        sign = "*" if peak.is_peak else " "
        yield f"{name:46}{sign}{peak.device:5}{peak.phase:12}{peak.low_bytes:>16}{peak.expected_bytes:>16}{peak.high_bytes:>16}"


def _head() -> str:
    return f"{'run (* peak)':47}{'':5}{'phase':12}{'low':>16}{'expected':>16}{'high':>16}"


def _presets_table() -> str:
    return "\n".join([_head(), *(line for name, plan in presets().items() for line in _peaks(name, plan))])


def _described_table(file: str) -> str:
    specs = described(file)
    return "\n".join([_head(), *(line for name, spec in specs.items() for line in _peaks_or_refusal(name, spec))])


def _rllib_table() -> str:
    lines = [f"{'configuration':26}{'role':18}{'low':>14}{'expected':>14}{'high':>14}"]
    for name, roles in rllib_roles().items():
        lines += [f"{name:26}{role:18}{low:>14}{mid:>14}{high:>14}" for role, (low, mid, high) in sorted(roles.items())]
    return "\n".join(lines)


def _vram_table() -> str:
    return "\n".join(f"{name:44}{'-' if size is None else size:>14}" for name, size in vram_closed_forms().items())


CASES: tuple[Case, ...] = (
    Case("numbers/presets.txt", _presets_table),
    Case("numbers/corpus.txt", partial(_described_table, "corpus")),
    Case("numbers/rllib-roles.txt", _rllib_table),
    Case("numbers/rllib-phases.txt", partial(_described_table, "rllib")),
    Case("numbers/vram.txt", _vram_table),
)
