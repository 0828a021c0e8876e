"""The planner's page: where the run comes from, its knobs, the picture, what makes it fit, what to take away."""

from __future__ import annotations

import json
import shlex
from collections.abc import Sequence
from xml.etree.ElementTree import Element

from rlmem.app.capacity import capacity_curve
from rlmem.app.report import remedies
from rlmem.core.machines import MACHINES
from rlmem.documents.growth import growth_curve
from rlmem.report.html import curve_parts, parts, plan_parts
from rlmem.report.html.markup import Attributes, Child, element
from rlmem.report.html.page import heading
from rlmem.report.html.report_page import findings
from rlmem.serve.fit_page import fit_offer
from rlmem.serve.knobs import Knob
from rlmem.serve.planning import SAVED, PlannerPage, as_command, as_python, as_yaml
from rlmem.serve.shell import choices
from rlmem.serve.state import LARGEST_CONFIG, State, packed
from rlmem.serve.zoo import Job
from rlmem.sources.preset import PRESETS

#: How many ticks a slider has; each is the same factor, or one more where there are no more values than ticks.
SLIDER = 100


def planner(planned: PlannerPage, zoo: Sequence[str], *, fit_open: bool = False) -> Element:
    """Everything of the page that depends on the run."""
    state = planned.state
    fit_query = {"hx-get": f"/planner/fit?{state.query}", "hx-trigger": "load", "hx-target": "#fit"} if fit_open else {}
    return element(
        "div",
        {"id": "planner"},
        element("div", {"class": "side"}, sources(state, zoo), knob_form(planned)),
        element(
            "div",
            {"class": "view"},
            heading(planned.now.name, planned.document.target.about or ""),
            answer(planned),
            take_away(planned),
            element("section", {"id": "fit", "aria-label": "Make it fit", **fit_query}, fit_offer()),
            element("div", {"id": "picture"}, picture(planned)),
        ),
    )


def sources(state: State, zoo: Sequence[str]) -> Element:
    """Where a run comes from: a preset, a text, an RL Zoo entry."""
    rows = [(name, f"{name} – {about}") for name, about in PRESETS.items()]
    own = [] if state.target in PRESETS and not state.config else [("", "your own" if state.config else state.target)]
    preset = element(
        "form",
        {"action": "/", "method": "get", "class": "field", "data-submit": "change"},
        element("label", {"for": "of"}, "Run"),
        choices("of", [*own, *rows], "" if own else state.target, id="of"),
        element("noscript", {}, element("button", {}, "Show")),
    )
    text = element(
        "form",
        {"data-config": "/planner/config", "class": "config"},
        element("label", {"for": "config-text"}, "A description as YAML or JSON"),
        element(
            "textarea",
            {
                "id": "config-text",
                "rows": 12,
                "spellcheck": "false",
                "placeholder": "schema: rlmem.run/1\nextends: pidog-sac\nbuffer_size: 1M",
            },
            state.config,
        ),
        element("label", {"for": "config-file"}, "or a file"),
        element(
            "input", {"type": "file", "id": "config-file", "accept": ".yaml,.yml,.json", "data-most": LARGEST_CONFIG}
        ),
        element("p", {"class": "said", "role": "status"}),
        element("button", {"type": "submit", "class": "main"}, "Plan this"),
    )
    hint = (
        None
        if zoo
        else "rl_zoo3 is not installed beside rlmem; 'rlmem serve --python PATH' names an interpreter that has it."
    )
    entry = element(
        "form",
        {"action": "/", "method": "get", "class": "field"},
        element("label", {"for": "zoo"}, "RL Zoo entry"),
        element(
            "input",
            {
                "id": "zoo",
                "name": "of",
                "list": "zoo-entries",
                "placeholder": "zoo:ppo/CartPole-v1",
                "value": state.target if state.is_zoo else "",
                "pattern": "zoo:.+/.+",
                "required": True,
                "autocomplete": "off",
            },
        ),
        element("datalist", {"id": "zoo-entries"}, (element("option", {"value": name}) for name in zoo)),
        element("p", {"class": "note"}, hint) if hint else None,
        element("button", {"type": "submit"}, "Open"),
    )
    return element(
        "section",
        {"class": "sources", "aria-label": "The run"},
        preset,
        parts.unfold("Paste or upload your own", text, is_open=bool(state.config)),
        parts.unfold("Pick an RL Zoo entry", entry, is_open=state.is_zoo),
    )


def knob_form(planned: PlannerPage) -> Element:
    """Knobs of this run; any input asks for the picture again."""
    state = planned.state
    hidden = [
        element("input", {"type": "hidden", "name": name, "value": value}) for name, value in _source_pairs(state)
    ]
    found = planned.knobs
    shown = {knob.path for knob in found}
    # What has no knob here, such as a remedy's field, goes along as it is.
    hidden += [
        element("input", {"type": "hidden", "name": path, "value": text})
        for path, text in state.sets.items()
        if path not in shown
    ]
    machines = [
        ("", "this machine, or the sizes below"),
        *((machine.name, f"{machine.name} – {machine.about}") for machine in MACHINES),
    ]
    return element(
        "form",
        {
            "id": "knobs", "class": "knobs", "action": "/", "method": "get",
            "hx-get": "/planner/picture", "hx-target": "#picture", "hx-trigger": "input", "hx-sync": "this:queue last",
        },
        hidden,
        element("h2", {}, "Knobs"),
        [_control(knob) for knob in found],
        element("h2", {}, "Machine"),
        element("div", {"class": "field"}, element("label", {"for": "machine"}, "machine"), choices("machine", machines, state.machine, id="machine")),
        [
            element(
                "div",
                {"class": "field"},
                element("label", {"for": name}, words),
                element("input", {"id": name, "name": name, "value": getattr(state, name), "placeholder": hint, "autocomplete": "off"}),
            )
            for name, words, hint in (("ram", "RAM", "as found, or 30GB"), ("vram", "VRAM", "as found, or 24GB"))
        ],
        element("noscript", {}, element("button", {}, "Plan")),
        element("a", {"class": "button", "href": f"/?{_own_query(state)}"}, "Back to the run's own"),
    )  # fmt: skip


def knob_news(planned: PlannerPage) -> str:
    """What a form that is on a page already has to know of its knobs: which there are, and values nobody turned."""
    found = planned.knobs
    values = {knob.path: knob.value for knob in found if not knob.is_turned}
    news = {"paths": [knob.path for knob in found], "values": values, "address": f"/?{planned.state.query}"}
    return json.dumps(news)


def _source_pairs(state: State) -> list[tuple[str, str]]:
    return [("config", packed(state.config))] if state.config else [("of", state.target)]


def _own_query(state: State) -> str:
    return State(target=state.target, config=state.config, ram=state.ram, vram=state.vram, machine=state.machine).query


def _control(knob: Knob) -> Element:
    name = f"knob-{knob.path}"
    label = element("label", {"for": name, "title": knob.doc}, knob.label)
    own = next((choice.label for choice in knob.choices if choice.value == knob.own), knob.own)
    note = element("span", {"class": "own"}, f"own: {own}") if knob.is_turned else None
    if knob.choices:
        rows = [(choice.value, choice.label) for choice in knob.choices]
        marks = {"id": name, "data-knob": knob.path, **({"data-turned": ""} if knob.is_turned else {})}
        return element("div", {"class": "field"}, label, choices(knob.path, rows, knob.value, **marks), note)
    attributes: Attributes = {
        "id": name,
        "name": knob.path,
        "value": knob.value,
        "inputmode": "numeric",
        "autocomplete": "off",
        "data-knob": knob.path,
        "data-turned": "" if knob.is_turned else None,
    }
    slider: Attributes = {
        "type": "range",
        "min": 0,
        "max": min(SLIDER, knob.high - knob.low),
        "step": 1,
        "data-for": name,
        "data-low": knob.low,
        "data-high": knob.high,
        "aria-label": f"{knob.label}, slider",
    }
    return element("div", {"class": "field count"}, label, element("input", attributes), element("input", slider), note)


def answer(planned: PlannerPage, *, again: bool = False) -> Element:
    """The verdict; drawn again, it takes the place of the one before."""
    attributes = {"id": "verdict", "aria-label": "Verdict", "hx-swap-oob": "true" if again else None}
    return element("section", attributes, plan_parts.verdict(planned.document))


def picture(planned: PlannerPage) -> list[Child]:
    """The plan, drawn as in a report; what takes longer comes after it."""
    document = planned.document
    more = {
        "hx-get": f"/planner/more?{planned.state.query}",
        "hx-trigger": "load delay:300ms",
        "hx-swap": "outerHTML",
        "class": "later",
    }
    return [
        plan_parts.components(document),
        plan_parts.phases(document),
        curve_parts.growth(growth_curve(document)),
        element("div", more, element("p", {"class": "note"}, "Capacity and remedies are being worked out …")),
        plan_parts.processes(document),
        plan_parts.certainty(document),
        element("footer", {"class": "notes"}, (element("p", {}, parts.said(note)) for note in document.notes)),
    ]


def more_picture(planned: PlannerPage) -> list[Child]:
    """What takes several plans: the capacity curve, every remedy by itself."""
    document = planned.document
    return [
        curve_parts.capacity(capacity_curve(planned.subject), document.machine.name),
        findings(document, remedies(planned.subject)),
    ]


def take_away(planned: PlannerPage, *, again: bool = False) -> Element:
    """The same plan as a link, a command, Python, a run file, a report."""
    texts = (
        ("Command", (SAVED if planned.state.config else "") + shlex.join(as_command(planned.state))),
        ("Python", as_python(planned.state)),
        ("YAML", as_yaml(planned)),
    )
    copies = [
        element(
            "button",
            {"type": "button", "data-do": "copy", "data-text": words},
            f"Copy {name if name != 'Command' else 'command'}",
        )
        for name, words in texts
    ]
    query = planned.state.query
    return element(
        "section",
        {"id": "take", "class": "take", "aria-label": "Take it away", "hx-swap-oob": "true" if again else None},
        element("button", {"type": "button", "data-do": "link"}, "Copy link"),
        copies,
        element(
            "a",
            {"class": "button", "href": f"/planner/report.html?{query}", "download": f"{planned.now.name}.html"},
            "Report",
        ),
        element("a", {"class": "button", "href": f"/api/plan?{query}"}, "JSON"),
        element("p", {"class": "said", "role": "status"}),
        parts.unfold(
            "As text", [[element("p", {"class": "what"}, name), parts.code(words, label=name)] for name, words in texts]
        ),
    )


# -- an RL Zoo entry ----------------------------------------------------------------------------------------------------


def untried(state: State, zoo: Sequence[str], job: Job | None) -> Element:
    """An entry that has to be run a little before there is a plan of it."""
    return element(
        "div",
        {"id": "planner"},
        element("div", {"class": "side"}, sources(state, zoo)),
        element(
            "div",
            {"class": "view"},
            element(
                "section",
                {"aria-label": "Try it"},
                element("h1", {}, state.target),
                element("div", {"id": "trying"}, trying(job) if job and job.state != "done" else _offer(state)),
            ),
        ),
    )


def _offer(state: State) -> list[Child]:
    words = "An RL Zoo entry is planned from a dry run: rl_zoo3 is started in a process of its own, under a cap, up to learn() and through a few real updates. Nothing is trained or kept; it takes up to half a minute, once."
    post = {
        "type": "button",
        "class": "main",
        "id": "try",
        "hx-post": f"/planner/try?{state.query}",
        "hx-target": "#trying",
    }
    return [element("p", {}, words), element("button", post, "Try it")]


def trying(job: Job) -> Element:
    """How a dry run stands; asks again until it is over."""
    state = State(target=job.target)
    if job.state == "failed":
        return element("div", {}, element("p", {"class": "problem", "role": "alert"}, job.problem), _offer(state))
    return element(
        "div",
        {
            "hx-get": f"/planner/try?{state.query}",
            "hx-trigger": "load delay:1s",
            "hx-swap": "outerHTML",
            "role": "status",
        },
        element("p", {}, "It is being tried …"),
        element("progress", {"aria-label": "dry run"}),
    )
