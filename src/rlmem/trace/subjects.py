"""A run that was planned, with what it takes to plan it changed and to write a change down."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from rlmem.edits import apply, diff
from rlmem.errors import RlmemError
from rlmem.lint.reading import Unreadable, read_file
from rlmem.plan import Plan
from rlmem.planner import Planner
from rlmem.remedies.base import State
from rlmem.remedies.program import Written, run_file, snippet, zoo
from rlmem.remedies.script import edit_script
from rlmem.rules import BREAKING, find
from rlmem.rules.base import Context
from rlmem.scripts import ScriptError, parse_script
from rlmem.spec import RunSpec
from rlmem.trace.dryrun import DryRun
from rlmem.trace.plan import traced
from rlmem.trace.target import RunnableTarget

Writer = Callable[[State], Written]


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """A planned run."""

    plan: Plan
    #: The run as it was asked for, to be changed.
    asked: RunSpec
    #: The plan of a changed run, without findings; ``None`` where only the run as it is could be planned.
    replan: Callable[[RunSpec], Plan] | None
    #: A change as text: fields of a run file, a diff of a script, hyperparameters.
    write: Writer
    #: Packages of the interpreter that a dry run used.
    versions: dict[str, str] = field(default_factory=dict)


def described(planner: Planner, spec: RunSpec, *, findings: bool = True) -> Subject:
    """A run from its description; without findings but those that it will not work as described, when time is short."""
    plan = planner.plan(spec, findings=findings)
    if not findings:
        context = Context(plan=plan, asked=spec, replan=lambda other: planner.plan(other, findings=False))
        plan = replace(plan, findings=find(context, codes=BREAKING))
    return Subject(
        plan=plan,
        asked=spec,
        replan=lambda other: planner.plan(other, findings=False),
        write=run_file,
    )


def tried(planner: Planner, run: DryRun) -> Subject:
    """A run that a dry run met."""
    found = traced(planner, run)
    versions: dict[str, Any] = run.facts.get("versions") or {}
    return Subject(
        plan=found.plan,
        asked=found.asked,
        replan=found.replan,
        write=_writer(run.target, found.plan.spec),
        versions={name: str(version) for name, version in versions.items()},
    )


def _writer(target: RunnableTarget, start: RunSpec) -> Writer:
    if target.kind == "zoo":
        return lambda state: zoo(target.text, target.args, start, state)
    if target.kind == "script":
        return lambda state: _edited(Path(target.text), start, state)
    return lambda state: snippet(start, state)


def _edited(path: Path, start: RunSpec, state: State) -> Written:
    """A diff of the script; a script that cannot be read or edited gets the arguments to write."""
    try:
        text = read_file(path)
        edited = edit_script(parse_script(text.text, str(path)), start, state)
        after = apply(text.text, edited.edits)
        parse_script(after, str(path))  # an edit that breaks a script is not shown to anybody
    except (Unreadable, ScriptError, RlmemError):
        return snippet(start, state)
    shown = diff(path.name, text.text, after)
    return Written(kind="diff" if shown else "nothing", text=shown, by_hand=edited.by_hand)
