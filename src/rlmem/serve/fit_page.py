"""Making a run fit, step by step: the offer, the steps, and links that apply them."""

from __future__ import annotations

from collections.abc import Mapping
from xml.etree.ElementTree import Element

from rlmem.app.fit import FitAnswer
from rlmem.documents.fit import RemedyPart
from rlmem.report.html.markup import Child, element
from rlmem.report.html.report_page import remedy
from rlmem.serve.state import State, value_text
from rlmem.units import format_size


def fit_offer() -> list[Child]:
    """The button that looks for steps."""
    return [
        element("h2", {}, "Make it fit"),
        element("p", {}, "The smallest change under which the run fits: lossless steps first, then what costs time, and only then what changes learning."),
        element("button", {"type": "button", "class": "main", "id": "make-it-fit", "hx-get": "/planner/fit", "hx-include": "#knobs", "hx-target": "#fit", "hx-indicator": "#fit"}, "Make it fit"),
    ]  # fmt: skip


def fit_steps(state: State, answer: FitAnswer) -> list[Child]:
    """The steps, one under the other; each can be applied together with those before it."""
    again = element(
        "button",
        {"type": "button", "id": "make-it-fit", "hx-get": "/planner/fit", "hx-include": "#knobs", "hx-target": "#fit"},
        "Look again",
    )
    status, count = answer.document.status, len(answer.steps)
    if status == "already":
        return [
            element("h2", {}, "Make it fit"),
            element("p", {"class": "done"}, "It fits as it is: nothing to change."),
            again,
        ]
    apply = "Apply them one by one and see what each does." if count > 1 else "Apply it and see what it does."
    words = {
        "fits": f"It fits with {count} step{'s' if count > 1 else ''}. {apply}",
        "expected": f"As expected it fits with {count} step{'s' if count > 1 else ''}; its upper bound is still over.",
        "no": "No steps make it fit; these come closest." if count else "No step that is known helps.",
    }[status]
    rows: list[Child] = []
    expected = {peak.device: peak.expected_bytes for peak in answer.document.before.peaks}
    for number, step in enumerate(answer.steps, 1):
        state = state.having({path: value_text(path, value) for path, value in step.changes.items()})
        after = {device: size - step.saves_bytes.get(device, 0) for device, size in expected.items()}
        rows.append(_step(number, step, state, _moved(expected, after)))
        expected = after
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


def _moved(before: Mapping[str, int], after: Mapping[str, int]) -> str:
    """The expected peaks that a step changes."""
    return ", ".join(
        f"{device.upper()} {format_size(size)} → {format_size(after[device])}"
        for device, size in before.items()
        if after[device] != size
    )


def _swap(state: State) -> dict[str, str]:
    return {
        "hx-get": f"/?{state.query}&_fit=1",
        "hx-select": "#planner",
        "hx-target": "#planner",
        "hx-swap": "outerHTML show:none",
        "hx-push-url": f"/?{state.query}",
    }


def _step(number: int, step: RemedyPart, state: State, peaks: str) -> Element:
    label = "Apply this step" if number == 1 else f"Apply steps 1 to {number}"
    return element(
        "li",
        {},
        remedy(step),
        element(
            "p",
            {"class": "step"},
            element("b", {}, peaks),
            " ",
            element("a", {"class": "button", "href": f"/?{state.query}&_fit=1", **_swap(state)}, label),
        ),
    )
