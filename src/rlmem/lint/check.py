"""All that rlmem says about one script: the rules on its text, and the rules on plans of the runs it describes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from rlmem.errors import RlmemError
from rlmem.findings import Finding, Place
from rlmem.planner import Planner
from rlmem.rules import find_in_script
from rlmem.scripts import Script
from rlmem.scripts.expectations import expected_failures
from rlmem.sources.script import ScriptRun, runs

#: That a machine has room to spare is no mistake of a script.
_IDLE = "MEM003"


def find(script: Script, planner: Planner) -> tuple[Finding, ...]:
    """Findings in the order of their lines; what both a script rule and a plan rule say is said once."""
    written = find_in_script(script)
    described = runs(script)
    planned: dict[tuple[str, Place | None, str], Finding] = {}
    meant = expected_failures(script)
    for run in described:
        if run.place.line in meant:
            continue
        about = [run.place, *run.places.values()]
        for finding in _planned(run, planner):
            said = [other for other in written if other.code == finding.code]
            if said and (len(described) == 1 or any(_same_lines(one.place, place) for one in said for place in about)):
                continue
            planned.setdefault((finding.code, finding.place, finding.title), finding)
    return tuple(sorted((*written, *planned.values()), key=order))


def _planned(run: ScriptRun, planner: Planner) -> Iterator[Finding]:
    """What the rules say about the plan of a run, each at the argument it is about, else where the model is made."""
    try:
        plan = planner.plan(run.spec)
    except RlmemError:
        return
    for finding in plan.findings:
        if finding.code == _IDLE:
            continue
        fields = (finding.location or "", *(field for field, _ in finding.changes))
        places = [run.places[field] for field in fields if field in run.places]
        here = [place for place in places if place.path == run.place.path]
        yield replace(finding, place=here[0] if here else run.place)


def _same_lines(one: Place | None, other: Place) -> bool:
    if one is None or (one.path, one.cell) != (other.path, other.cell):
        return False
    return one.line <= other.end_line and other.line <= one.end_line


def order(finding: Finding) -> tuple[int, int, int, str]:
    """Where a finding stands in its file."""
    place = finding.place
    return (place.cell or 0, place.line, place.column, finding.code) if place else (0, 0, 0, finding.code)
