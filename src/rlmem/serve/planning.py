"""Plans for the pages: from a state to a planned run, kept for a while, so that a picture costs one plan."""

from __future__ import annotations

import json
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Collection
from dataclasses import dataclass, field, replace
from typing import TypeVar

from rlmem import rules
from rlmem.app.fit import FitAnswer, fit_planned
from rlmem.app.subjects import with_findings
from rlmem.budget import make_budget
from rlmem.core.plan import Budget
from rlmem.core.spec import RunSpec
from rlmem.core.subject import Subject
from rlmem.documents.plan import PlanDocument, plan_document
from rlmem.errors import AnalysisError, SpecError, UsageError
from rlmem.frameworks import resolve
from rlmem.planner import ClosedForm
from rlmem.process.calibration import read_calibration
from rlmem.rules import BREAKING
from rlmem.serve.knobs import Knob, knobs, shown
from rlmem.serve.state import LINK, State, changed, value_text
from rlmem.serve.turns import PatientForm, Turns
from rlmem.sources.config import parse_run
from rlmem.sources.preset import PRESETS, read_preset
from rlmem.trace.dryrun import DryRun
from rlmem.trace.plan import plan_dry_run

#: Plans and fits that are kept: a few pages and the way back.
MOST_KEPT = 24
MOVED = "changed after its dry run: the closed form of the changed run, moved by what the dry run saw beyond the closed form"
#: How long a reading of what this machine has left is good for.
HERE_S = 20.0
T = TypeVar("T")


class NotTriedError(AnalysisError):
    """An RL Zoo entry that has to be run a little before it can be planned."""


class Kept:
    """The last few results by name; made outside the lock, so that a slow one holds up nobody."""

    def __init__(self, most: int = MOST_KEPT) -> None:
        self._most, self._lock = most, threading.Lock()
        self._found: OrderedDict[str, object] = OrderedDict()

    def get(self, key: str, make: Callable[[], T]) -> T:
        """What is kept under a name, made when it is not there."""
        with self._lock:
            if key in self._found:
                self._found.move_to_end(key)
                return self._found[key]  # type: ignore[return-value]
        made = make()
        self.put(key, made)
        return made

    def put(self, key: str, value: object) -> None:
        """Keep something, and let the oldest go."""
        with self._lock:
            self._found[key] = value
            while len(self._found) > self._most:
                self._found.popitem(last=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Planned:
    """A state with its plan; ``own`` is the run as it was given, resolved."""

    state: State
    subject: Subject
    own: RunSpec
    #: What every part of a page is drawn from.
    document: PlanDocument

    @property
    def now(self) -> RunSpec:
        """The run as it is asked for, resolved."""
        return self.subject.plan.spec

    @property
    def knobs(self) -> tuple[Knob, ...]:
        """What can be turned."""
        return knobs(self.own, self.now, self.state.sets)


@dataclass(slots=True)
class Planning:
    """The planner behind the pages."""

    kept: Kept = field(default_factory=Kept)
    turns: Turns = field(default_factory=Turns)
    #: Dry runs of RL Zoo entries, by target.
    runs: dict[str, DryRun] = field(default_factory=dict)
    form: ClosedForm | None = None

    def plan(self, state: State) -> Planned:
        """The plan of a state, at once: of the findings, only those that it will not work as described."""
        budget = self.budget(state)
        return self.kept.get(f"plan {state.query} {budget}", lambda: self._plan(state, budget, BREAKING))

    def judge(self, state: State) -> Planned:
        """The same with all findings."""
        budget = self.budget(state)
        return self.kept.get(f"judge {state.query} {budget}", lambda: self._plan(state, budget, None))

    def fit(self, state: State) -> FitAnswer:
        """The smallest change under which it fits."""
        planned, budget = self.plan(state), self.budget(state)
        return self.kept.get(f"fit {state.query} {budget}", lambda: fit_planned(planned.subject))

    def budget(self, state: State) -> Budget:
        """The limits a state names; what this machine has left is read now and then, so that a picture is of one moment."""
        if not (state.ram or state.vram or state.machine):
            return self.kept.get(f"here {int(time.monotonic() // HERE_S)}", make_budget)
        return make_budget(ram=state.ram or None, vram=state.vram or None, machine=state.machine or None)

    def _plan(self, state: State, budget: Budget, codes: Collection[str] | None) -> Planned:
        form = self._form()
        if state.is_zoo:
            return self._tried(state, form, budget, codes)
        source = self._source(state)
        own = resolve(source)
        state = canonical(state, source, own)
        subject = form.subject(source.having(changed(state.sets), LINK), budget)
        subject = rules.with_findings(subject, codes=codes)
        return Planned(state=state, subject=subject, own=own, document=plan_document(subject.plan))

    def _source(self, state: State) -> RunSpec:
        if state.config:
            spec = parse_run(state.config, where="description", extend=read_preset)
            if not spec.values:
                raise UsageError("the description is empty; 'Copy YAML' of a preset makes an example")
            return spec.filled({"name": "pasted"}, "no name given")
        if state.target not in PRESETS:
            raise UsageError(
                f"{state.target!r} is not a preset ({', '.join(PRESETS)}) or an RL Zoo entry (zoo:ALGO/ENV)"
            )
        return read_preset(state.target)

    def _form(self) -> ClosedForm:
        """One closed form for all pages, so that what one has predicted serves the others; anew after a calibration."""
        constants = read_calibration()
        if self.form is None or self.form.constants != constants:
            self.form = PatientForm(constants, self.turns)
        return self.form

    def _tried(self, state: State, form: ClosedForm, budget: Budget, codes: Collection[str] | None) -> Planned:
        run = self.runs.get(state.target)
        if run is None:
            raise NotTriedError(f"{state.target} has to be tried before it can be planned")
        subject = self.kept.get(
            f"tried {state.target} {budget}", lambda: with_findings(plan_dry_run(run, budget, form))
        )
        own = subject.plan.spec
        state = canonical(state, subject.asked, own)
        if state.sets:
            subject = _changed(subject, state, codes)
        return Planned(state=state, subject=subject, own=own, document=plan_document(subject.plan))


def _changed(subject: Subject, state: State, codes: Collection[str] | None) -> Subject:
    """A run that a dry run met, turned: the closed form of the changed run, moved by what the dry run saw beyond it."""
    if not subject.is_changeable:
        raise AnalysisError(f"{state.target} can only be planned as it is: its loop is its own")
    subject = subject.having(changed(state.sets), LINK)
    try:
        found = rules.find(subject, codes=codes)
    except SpecError:
        found = ()
    return replace(subject, plan=replace(subject.plan, findings=found, notes=(MOVED, *subject.plan.notes)))


def canonical(state: State, source: RunSpec, own: RunSpec) -> State:
    """The state without changes that change nothing: a form sends all its fields.

    A value that is the run's own stays where another change would move it: stores have dtypes of their own.
    """
    checked = own.having(changed(state.sets), LINK)
    values = {path: checked.get(path) for path in state.sets}
    asked = {path: state.sets[path] if value is None else value_text(path, value) for path, value in values.items()}
    kept: set[str] = set()
    now = own
    while lost := {path for path, text in asked.items() if path not in kept and text != shown(path, now)}:
        kept |= lost
        now = resolve(source.having({path: values[path] for path in kept}, LINK))
    return replace(state, sets={path: text for path, text in asked.items() if path in kept})


#: Above a text that names the description as a file.
SAVED = "# with the YAML saved as run.yaml\n"


# -- to take away -------------------------------------------------------------------------------------------------------


def as_command(state: State) -> list[str]:
    """The same plan on the command line, word by word."""
    target = "run.yaml" if state.config else state.target
    words = ["rlmem", "plan", target]
    for option in ("ram", "vram", "machine"):
        words += [f"--{option}", getattr(state, option)] if getattr(state, option) else []
    if not state.config:
        words += [word for path, text in state.sets.items() for word in ("--set", f"{path}={text}")]
    return words


def as_python(state: State) -> str:
    """The same plan in Python."""
    limits = ", ".join(
        f"{name}={getattr(state, name)!r}" for name in ("ram", "vram", "machine") if getattr(state, name)
    )
    if state.is_zoo:
        return (
            "import json, subprocess\n\n"
            f"plan = json.loads(subprocess.run({[*as_command(state), '--json']!r}, stdout=subprocess.PIPE).stdout)\n"
            'print(plan["verdict"], plan["summary"])\n'
        )
    sets = [] if state.config else [f"{path}={text}" for path, text in state.sets.items()]
    target = "run.yaml" if state.config else state.target
    changes = f", {sets!r}" if sets else ""
    return (SAVED if state.config else "") + (
        "from rlmem import Planner, load, make_budget\n\n"
        f"plan = Planner(make_budget({limits})).plan(load({target!r}{changes}))\n"
        "print(plan.verdict, plan.deciding.expected_bytes)\n"
    )


def as_yaml(planned: Planned) -> str:
    """The run as a run file: a preset and what differs, or the whole description."""
    state = planned.state
    if not state.config and state.target in PRESETS:
        spec, head = (
            RunSpec().having(changed(state.sets), LINK),
            ["schema: rlmem.run/1", f"extends: {state.target}"],
        )
    else:
        spec, head = planned.subject.asked, ["schema: rlmem.run/1"]
        if state.is_zoo:
            head.insert(0, "# the closed form of this entry, without what its dry run saw beyond it")
    body = [f"{name}: {json.dumps(value, ensure_ascii=False)}" for name, value in spec.to_dict().items()]
    return "\n".join([*head, *body]) + "\n"
