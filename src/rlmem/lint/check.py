"""All that rlmem says about one script: the rules on its text, and the rules on plans of the runs it describes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase

from rlmem.core.findings import Finding, Place
from rlmem.core.spec import RunSpec
from rlmem.errors import RlmemError
from rlmem.planner import Planner
from rlmem.rules import find_in_script
from rlmem.scripts import Script
from rlmem.scripts.expectations import expected_failures
from rlmem.sources.script import ScriptRun, runs
from rlmem.units import MIB

#: A plan's finding that saves less is good to know, and nothing to stop for.
WORTH_BYTES = 64 * MIB
#: Plans take time; a script that describes more different runs was written by a program.
MOST_PLANS = 50
_TESTS = ("test_*.py", "*_test.py", "conftest.py")


@dataclass(slots=True)
class Said:
    """What is said about a script, and the rules that stumbled over it."""

    findings: tuple[Finding, ...] = ()
    stumbled: list[str] = field(default_factory=list)
    #: Runs that are described and were not planned, as there are too many different ones.
    unplanned: int = 0


def find(script: Script, planner: Planner) -> Said:
    """Findings in the order of their lines; what both a script rule and a plan rule say is said once."""
    said = Said()
    written = find_in_script(script, lambda rule, error: said.stumbled.append(f"{rule.code}: {_short(error)}"))
    described = runs(script)
    planned: dict[tuple[str, Place | None, str], Finding] = {}
    meant = expected_failures(script)
    by_code: dict[str, list[Finding]] = {}
    for finding in written:
        by_code.setdefault(finding.code, []).append(finding)
    plans: dict[str, tuple[Finding, ...]] = {}
    for run in described:
        if run.place.line in meant:
            continue
        key = run.spec.key
        if key not in plans and len(plans) == MOST_PLANS:
            said.unplanned += 1
            continue
        if key not in plans:
            plans[key] = tuple(_from_plan(run.spec, planner))
        about = [run.place, *run.places.values()]
        for finding in _placed(run, plans[key]):
            twins = by_code.get(finding.code, ())
            if twins and (
                len(described) == 1 or any(_same_lines(one.place, place) for one in twins for place in about)
            ):
                continue
            planned.setdefault((finding.code, finding.place, finding.title), finding)
    found = sorted((*written, *planned.values()), key=order)
    if any(fnmatchcase(script.path.rsplit("/", maxsplit=1)[-1], pattern) for pattern in _TESTS):
        found = [replace(finding, severity="info") for finding in found]  # tests do odd things, and not for long
    said.findings = tuple(found)
    return said


def _short(error: Exception) -> str:
    return f"{type(error).__name__}: {error}".splitlines()[0]


def _from_plan(spec: RunSpec, planner: Planner) -> Iterator[Finding]:
    """What the rules say about the plan of a run."""
    try:
        plan = planner.plan(spec)
    except RlmemError:
        return
    for finding in plan.findings:
        small = finding.saves_bytes is not None and finding.saves_bytes < WORTH_BYTES
        yield replace(finding, severity="info" if small and finding.severity == "warning" else finding.severity)


def _placed(run: ScriptRun, findings: Iterable[Finding]) -> Iterator[Finding]:
    """Findings on a plan, each at the argument it is about, else where the model is made."""
    for finding in findings:
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
