"""Making a run fit, step by step: the offer, the steps, and links that apply them."""

from __future__ import annotations

from xml.etree.ElementTree import Element

from rlmem.app.report import step_diff
from rlmem.app.steps import remedy_part
from rlmem.remedies.base import Fit, Step
from rlmem.report.html.markup import Child, element
from rlmem.report.html.report_page import remedy
from rlmem.serve.planning import Planned
from rlmem.serve.state import State, value_text
from rlmem.units import format_size


def fit_offer() -> list[Child]:
    """The button that looks for steps."""
    return [
        element("h2", {}, "Make it fit"),
        element("p", {}, "The smallest change under which the run fits: lossless steps first, then what costs time, and only then what changes learning."),
        element("button", {"type": "button", "class": "main", "id": "make-it-fit", "hx-get": "/planner/fit", "hx-include": "#knobs", "hx-target": "#fit", "hx-indicator": "#fit"}, "Make it fit"),
    ]  # fmt: skip


def fit_steps(planned: Planned, fit: Fit) -> list[Child]:
    """The steps, one under the other; each can be applied together with those before it."""
    state = planned.state
    again = element(
        "button",
        {"type": "button", "id": "make-it-fit", "hx-get": "/planner/fit", "hx-include": "#knobs", "hx-target": "#fit"},
        "Look again",
    )
    if fit.status == "already":
        return [
            element("h2", {}, "Make it fit"),
            element("p", {"class": "done"}, "It fits as it is: nothing to change."),
            again,
        ]
    count = len(fit.steps)
    apply = "Apply them one by one and see what each does." if count > 1 else "Apply it and see what it does."
    words = {
        "fits": f"It fits with {count} step{'s' if count > 1 else ''}. {apply}",
        "expected": f"As expected it fits with {count} step{'s' if count > 1 else ''}; its upper bound is still over.",
        "no": "No steps make it fit; these come closest." if count else "No step that is known helps.",
    }[fit.status]
    rows: list[Child] = []
    for number, step in enumerate(fit.steps, 1):
        state = state.having({path: value_text(path, value) for path, value in step.change.values.items()})
        rows.append(_step(number, step, state, step_diff(step)))
    whole = (
        element("a", {"class": "button", "href": f"/?{state.query}&_fit=1", **_swap(state)}, f"Apply all {count}")
        if count > 1
        else None
    )
    return [
        element("h2", {}, "Make it fit"),
        element("p", {}, words),
        element("ol", {"class": "steps"}, rows),
        whole,
        " ",
        again,
    ]


def _swap(state: State) -> dict[str, str]:
    return {
        "hx-get": f"/?{state.query}&_fit=1",
        "hx-select": "#planner",
        "hx-target": "#planner",
        "hx-swap": "outerHTML show:none",
        "hx-push-url": f"/?{state.query}",
    }


def _step(number: int, step: Step, state: State, diff: str) -> Element:
    words = ", ".join(
        f"{top.device.upper()} {format_size(top.expected_bytes)} → {format_size(after.expected_bytes)}"
        for top in step.before.plan.tops
        if (after := step.after.plan.top(top.device)) and after.expected_bytes != top.expected_bytes
    )
    label = "Apply this step" if number == 1 else f"Apply steps 1 to {number}"
    return element(
        "li",
        {},
        remedy(remedy_part(step, fits=False, diff=diff)),
        element(
            "p",
            {"class": "step"},
            element("b", {}, words),
            " ",
            element("a", {"class": "button", "href": f"/?{state.query}&_fit=1", **_swap(state)}, label),
        ),
    )
