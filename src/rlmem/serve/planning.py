"""Pages of the planner: from an address to a planned run, kept for a while, so that a picture costs one plan."""

from __future__ import annotations

import json
import time
from dataclasses import dataclass, field, replace

from rlmem.app.fit import FitAnswer, fit_planned
from rlmem.app.session import PlanSession
from rlmem.app.subjects import change_dry_run, with_defaults, with_findings
from rlmem.budget import make_budget
from rlmem.core.plan import Budget
from rlmem.core.spec import RunSpec
from rlmem.core.subject import Subject
from rlmem.documents.plan import PlanDocument, plan_document
from rlmem.errors import AnalysisError, UsageError
from rlmem.serve.cache import Cache
from rlmem.serve.knobs import Knob, knobs, shown
from rlmem.serve.state import LINK, State, changed, value_text
from rlmem.serve.turns import Turns, YieldingSource
from rlmem.sources.config import parse_run
from rlmem.sources.preset import PRESETS, read_preset

#: How long a reading of what this machine has left is good for.
HERE_S = 20.0


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannerPage:
    """What a page of the planner shows: an address, the run it asks for, and the run's plan as a document."""

    state: State
    #: The run as it was given, with its framework's defaults.
    own: RunSpec
    #: The run as it is asked for.
    subject: Subject
    #: What every part of the page is drawn from.
    document: PlanDocument

    @property
    def now(self) -> RunSpec:
        """The run as it is asked for, with its framework's defaults."""
        return self.subject.spec

    @property
    def knobs(self) -> tuple[Knob, ...]:
        """What can be turned."""
        return knobs(self.own, self.now, self.state.sets)


@dataclass(slots=True)
class Planning:
    """Makes pages of the planner, and keeps the last of them."""

    cache: Cache = field(default_factory=Cache)
    turns: Turns = field(default_factory=Turns)
    session: PlanSession = field(default_factory=PlanSession)

    def plan(self, state: State) -> PlannerPage:
        """The plan of a state, at once: of the findings, only those that it will not work as described."""
        budget = self.budget(state)
        return self.cache.get(f"plan {state.query} {budget}", lambda: self._page(state, budget, breaking_only=True))

    def judge(self, state: State) -> PlannerPage:
        """The same with all findings."""
        budget = self.budget(state)
        return self.cache.get(f"judge {state.query} {budget}", lambda: self._page(state, budget, breaking_only=False))

    def fit(self, state: State) -> FitAnswer:
        """The smallest change under which it fits."""
        page, budget = self.plan(state), self.budget(state)
        return self.cache.get(f"fit {state.query} {budget}", lambda: fit_planned(page.subject))

    def budget(self, state: State) -> Budget:
        """The limits a state names; what this machine has left is read now and then, so that a picture is of one moment."""
        if not (state.ram or state.vram or state.machine):
            return self.cache.get(f"here {int(time.monotonic() // HERE_S)}", make_budget)
        return make_budget(ram=state.ram or None, vram=state.vram or None, machine=state.machine or None)

    def _page(self, state: State, budget: Budget, *, breaking_only: bool) -> PlannerPage:
        self.turns.give_way()
        if state.is_zoo:
            return self._tried(state, budget, breaking_only=breaking_only)
        source = read_source(state)
        own = with_defaults(source)
        state = canonical(state, source, own)
        subject = self._patient(self.session.open_described(source.having(changed(state.sets), LINK), budget))
        subject = with_findings(subject, breaking_only=breaking_only)
        return PlannerPage(state=state, own=own, subject=subject, document=plan_document(subject.plan))

    def _tried(self, state: State, budget: Budget, *, breaking_only: bool) -> PlannerPage:
        """The page of an RL Zoo entry, which shows all findings of the run as its dry run met it."""
        subject = self.cache.get(
            f"tried {state.target} {budget}",
            lambda: with_findings(self._patient(self.session.open_dry_run(state.target, budget))),
        )
        own = subject.spec
        state = canonical(state, subject.asked, own)
        if state.sets and not subject.is_changeable:
            raise AnalysisError(f"{state.target} can only be planned as it is: its loop is its own")
        if state.sets:
            subject = change_dry_run(subject, changed(state.sets), LINK, breaking_only=breaking_only)
        return PlannerPage(state=state, own=own, subject=subject, document=plan_document(subject.plan))

    def _patient(self, subject: Subject) -> Subject:
        """The same run, whose further plans give way to pictures."""
        return replace(subject, source=YieldingSource(subject.source, self.turns))


def read_source(state: State) -> RunSpec:
    """The run that a state is about, as it was given; it may extend presets and no files."""
    if state.config:
        spec = parse_run(state.config, where="description", extend=read_preset)
        if not spec.values:
            raise UsageError("the description is empty; 'Copy YAML' of a preset makes an example")
        return spec.filled({"name": "pasted"}, "no name given")
    if state.target not in PRESETS:
        raise UsageError(f"{state.target!r} is not a preset ({', '.join(PRESETS)}) or an RL Zoo entry (zoo:ALGO/ENV)")
    return read_preset(state.target)


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
        now = with_defaults(source.having({path: values[path] for path in kept}, LINK))
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


def as_yaml(page: PlannerPage) -> str:
    """The run as a run file: a preset and what differs, or the whole description."""
    state = page.state
    if not state.config and state.target in PRESETS:
        spec, head = (
            RunSpec().having(changed(state.sets), LINK),
            ["schema: rlmem.run/1", f"extends: {state.target}"],
        )
    else:
        spec, head = page.subject.asked, ["schema: rlmem.run/1"]
        if state.is_zoo:
            head.insert(0, "# the closed form of this entry, without what its dry run saw beyond it")
    body = [f"{name}: {json.dumps(value, ensure_ascii=False)}" for name, value in spec.to_dict().items()]
    return "\n".join([*head, *body]) + "\n"
