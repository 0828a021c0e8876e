"""What ``rlmem fit`` found, as a view; the text to write stands beneath it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rlmem.remedies.base import KINDS
from rlmem.remedies.finders import described_size
from rlmem.report.render import render_view
from rlmem.report.view import Column, Item, Section, Table, View
from rlmem.units import format_size

_TONE = {"already": "good", "fits": "good", "expected": "warn", "no": "bad", "unknown": "warn", "grows": "bad"}
_KIND_TONE = {"lossless": "good", "speed": "warn", "learning": "bad"}
#: Longer values (spaces, layer lists) are cut in the table; the JSON has them whole.
_LONGEST = 40


def fit_view(document: Mapping[str, Any]) -> View:
    """What ``rlmem fit`` shows; the text to write comes after it."""
    status, steps = document["status"], document["steps"]
    sections = []
    if steps:
        title = "Steps" if status == "fits" else "The closest"
        sections.append(Section(title=title, tables=(_steps_table(steps),), items=tuple(_item(step) for step in steps)))
    if status in ("expected", "no") and document["machines"]:
        sections.append(Section(title="A machine that would do", lines=tuple(_machine_lines(document["machines"]))))
    others = [item for item in document["alone"] if item["name"] not in {step["name"] for step in steps}]
    if others:
        sections.append(Section(title="What else there is, each by itself", tables=(_alone_table(others),)))
    if document["write"]["by_hand"] and document["write"]["kind"] != "yaml":
        hand = tuple(f"- {text}" for text in document["write"]["by_hand"])
        sections.append(Section(title="By hand", lines=hand))
    if document["verified"]:
        sections.append(_verified_section(document["verified"]))
    target = document["target"]
    name = f"{target['name']}: {target['about']}" if target.get("about") else str(target["name"])
    limits = [text for text in (document["machine"]["ram_source"], document["machine"]["vram_source"]) if text]
    notes = (*document["notes"], f"limit: {'; '.join(limits) or 'none known'}", _EXPLAINED)
    return View(title=name, verdict=_verdict(document), sections=tuple(sections), notes=notes)


_EXPLAINED = (
    "lossless: the learner sees the same numbers; speed: the same, later; learning: something else. What a step saves is "
    "plan(before) − plan(after), one step after the other. GiB is 2³⁰ bytes, GB is 10⁹."
)


def _verdict(document: Mapping[str, Any]) -> tuple[tuple[str, str], ...]:
    status, steps = document["status"], document["steps"]
    before = [(text, "plain") for text in document["before"]["summary"]]
    if status == "already":
        return (("it fits as it is: nothing to change", "good"), *before)
    if status == "grows":
        return (
            ("no setting makes a leak fit: mend it first ('rlmem plan' shows what lint says of it)", "bad"),
            *before,
        )
    kinds = [kind for kind in KINDS if any(step["kind"] == kind for step in steps)]
    count = f"{len(steps)} step{'s' if len(steps) != 1 else ''} ({', '.join(kinds)})" if steps else "no step"
    left = ", ".join(f"{format_size(size)} {device.upper()}" for device, size in document["left_over"].items())
    first = {
        "fits": f"fits with {count}",
        "expected": f"fits as expected with {count}, and its upper bound is {left} over the limit",
        "unknown": f"whether it fits is unknown{f', also with {count}' if steps else ''}",
        "no": f"does not fit: with {count}, the closest, it still needs {left} more than there is",
    }[status]
    if not steps and status == "no":
        first = f"does not fit, and no step that is allowed helps: it needs {left} more than there is"
    after = [(f"then: {text}", _TONE[status]) for text in document["after"]["summary"]] if steps else []
    return ((first, _TONE[status]), *((f"now: {text}", "bad") for text, _ in before), *after)


def _steps_table(steps: list[dict[str, Any]]) -> Table:
    rows = tuple(
        (str(number), step["kind"], step["title"], _changed(step), _saved(step["saves_bytes"]), _slower(step))
        for number, step in enumerate(steps, 1)
    )
    columns = (
        Column(title=""),
        Column(title="class", right=False, rank=2),
        Column(title="step", right=False),
        Column(title="change", right=False),
        Column(title="saves"),
        Column(title="time", rank=1),
    )
    return Table(title="", columns=columns, rows=rows)


def _alone_table(items: list[dict[str, Any]]) -> Table:
    rows = tuple(
        (
            item["kind"],
            item["title"],
            _changed(item),
            _saved(item["saves_bytes"]),
            _slower(item),
            "fits" if item["fits"] else "",
        )
        for item in items
    )
    columns = (
        Column(title="class", right=False),
        Column(title="remedy", right=False),
        Column(title="change", right=False),
        Column(title="saves"),
        Column(title="time", rank=1),
        Column(title="alone", right=False),
    )
    return Table(title="", columns=columns, rows=rows)


def _changed(step: Mapping[str, Any]) -> str:
    turned = [(path, step["old"].get(path), value) for path, value in step["changes"].items()]
    # A value that stays is there because another change would have moved it.
    return ", ".join(f"{path} {_pair(path, old, value)}" for path, old, value in turned if old != value)


def _pair(path: str, old: Any, new: Any) -> str:
    texts = [described_size(path, value) for value in (old, new)]
    if any(len(text) > _LONGEST for text in texts):
        return "changed"
    return f"{texts[0]} → {texts[1]}" if old is not None else texts[1]


def _saved(saves: Mapping[str, int]) -> str:
    shown = {device: size for device, size in saves.items() if size} or {"ram": 0}
    named = len(saves) > 1
    return ", ".join(f"{format_size(size)}{f' {device.upper()}' if named else ''}" for device, size in shown.items())


def _slower(step: Mapping[str, Any]) -> str:
    return "unknown" if step["slowdown"] is None else f"×{step['slowdown']:g}"


def _item(step: Mapping[str, Any]) -> Item:
    return Item(
        lead=step["name"],
        text=step["costs"],
        tone=_KIND_TONE[step["kind"]],
        more=(f"time: {step['slowdown_basis']}", step["how"]),
    )


def _machine_lines(machines: Mapping[str, Any]) -> list[str]:
    words = {"as_it_is": "as it is", "without_changing_learning": "with every step that leaves learning alone"}
    lines = []
    for key, machine in machines.items():
        if machine is None:
            lines.append(f"{words[key]}: none in the catalogue is large enough")
            continue
        sizes = [
            f"{format_size(machine[name])} {label}"
            for name, label in (("ram_bytes", "RAM"), ("vram_bytes", "VRAM"))
            if machine[name]
        ]
        lines.append(f"{words[key]}: {machine['name']} ({machine['about']}; {', '.join(sizes)})")
    return lines


def _verified_section(found: Mapping[str, Any]) -> Section:
    lines = []
    for name in ("before", "after"):
        point = found[name]
        if point is not None:
            size = "" if point["peak_bytes"] is None else f" at {format_size(point['peak_bytes'])}"
            well = {"ok": "ran", "oom": "ran out of memory"}.get(point["status"], point["status"])
            note = f": {point['note']}" if point["note"] else ""
            lines.append(f"{name}: {well}{size}{note}")
    predicted, real = found["predicted_saving_bytes"], found["real_saving_bytes"]
    if predicted is not None and real is not None:
        lines.append(f"saving: {format_size(predicted)} predicted, {format_size(real)} measured")
    elif predicted is not None and found["took_effect"]:
        lines.append(f"saving: {format_size(predicted)} predicted; it cannot be measured where 'before' does not run")
    cap = f" under a cap of {format_size(found['cap_bytes'])}" if found["cap_bytes"] else ""
    return Section(title=f"Measured in fresh processes{cap}", lines=(*lines, *found["notes"]))


def render_fit(document: dict[str, Any], wanted: str, output: Path | None) -> str:
    """The document in the wanted format; the text to write stands beneath the report, uncut."""
    shown = render_view(document, fit_view, wanted, output)
    text, kind = document["write"]["text"], document["write"]["kind"]
    if wanted == "json" or not text:
        return shown
    heading = {"diff": "The change", "yaml": "Fields to set", "python": "To write"}[kind]
    if wanted == "markdown":
        return f"{shown}\n## {heading}\n\n```{kind}\n{text.rstrip()}\n```\n"
    return f"{shown}\n{heading}\n\n{text.rstrip()}\n"
