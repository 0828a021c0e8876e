"""What ``rlmem fit`` found, as a view; the text to write stands beneath it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rlmem.documents.fit import CatalogueMachinePart, FitDocument, SingleRemedyPart, StepPart, VerifiedPart, WritePart
from rlmem.report.text import UNKNOWN
from rlmem.report.view import Appendix, Column, Item, Section, Table, View
from rlmem.units import format_count, format_size

_TONE = {"already": "good", "fits": "good", "expected": "warn", "no": "bad", "unknown": "warn", "grows": "bad"}
_KIND_TONE = {"lossless": "good", "speed": "warn", "learning": "bad"}
_HEADINGS = {"diff": "The change", "yaml": "Fields to set", "python": "To write"}
#: Longer values (spaces, layer lists) are cut in the table; the JSON has them whole.
_LONGEST = 40


def fit_view(document: FitDocument) -> View:
    """Arrange what ``rlmem fit`` shows."""
    status, steps = document.status, document.steps
    sections = []
    if steps:
        title = "Steps" if status == "fits" else "The closest"
        sections.append(Section(title=title, tables=(_steps_table(steps),), items=tuple(_item(step) for step in steps)))
    if status in ("expected", "no") and document.machines:
        sections.append(Section(title="A machine that would do", lines=tuple(_machine_lines(document.machines))))
    others = [item for item in document.alone if item.name not in {step.name for step in steps}]
    if others:
        sections.append(Section(title="What else there is, each by itself", tables=(_alone_table(others),)))
    if document.write.by_hand and document.write.kind != "yaml":
        hand = tuple(f"- {text}" for text in document.write.by_hand)
        sections.append(Section(title="By hand", lines=hand))
    if document.verified:
        sections.append(_verified_section(document.verified))
    target, machine = document.target, document.machine
    limits = [text for text in (machine.ram_source, machine.vram_source) if text]
    return View(
        title=f"{target.name}: {target.about}" if target.about else target.name,
        verdict=_verdict(document),
        sections=tuple(sections),
        notes=(*document.notes, f"limit: {'; '.join(limits) or 'none known'}", _EXPLAINED),
        appendix=_appendix(document.write),
    )


def _appendix(write: WritePart) -> Appendix | None:
    return Appendix(title=_HEADINGS[write.kind], text=write.text, language=write.kind) if write.text else None


_EXPLAINED = (
    "lossless: the learner sees the same numbers; speed: the same, later; learning: something else. What a step saves is "
    "plan(before) − plan(after), one step after the other. GiB is 2³⁰ bytes, GB is 10⁹."
)


def _verdict(document: FitDocument) -> tuple[tuple[str, str], ...]:
    status, steps = document.status, document.steps
    before = [(text, "plain") for text in document.before.summary]
    if status == "already":
        return (("it fits as it is: nothing to change", "good"), *before)
    if status == "grows":
        return (
            ("no setting makes a leak fit: mend it first ('rlmem plan' shows what lint says of it)", "bad"),
            *before,
        )
    kinds = [kind for kind in _KIND_TONE if any(step.kind == kind for step in steps)]
    count = f"{len(steps)} step{'s' if len(steps) != 1 else ''} ({', '.join(kinds)})" if steps else "no step"
    left = ", ".join(f"{format_size(size)} {device.upper()}" for device, size in document.left_over.items())
    first = {
        "fits": f"fits with {count}",
        "expected": f"fits as expected with {count}, and its upper bound is {left} over the limit",
        "unknown": f"whether it fits is unknown{f', also with {count}' if steps else ''}",
        "no": f"does not fit: with {count}, the closest, it still needs {left} more than there is",
    }[status]
    if not steps and status == "no":
        first = f"does not fit, and no step that is allowed helps: it needs {left} more than there is"
    after = [(f"then: {text}", _TONE[status]) for text in document.after.summary] if steps else []
    return ((first, _TONE[status]), *((f"now: {text}", "bad") for text, _ in before), *after)


def _steps_table(steps: Sequence[StepPart]) -> Table:
    rows = tuple(
        (str(number), step.kind, step.title, _changed(step), _saved(step.saves_bytes), _slower(step))
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


def _alone_table(items: Sequence[SingleRemedyPart]) -> Table:
    rows = tuple(
        (item.kind, item.title, _changed(item), _saved(item.saves_bytes), _slower(item), "fits" if item.fits else "")
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


def _changed(step: StepPart) -> str:
    turned = [(path, step.old.get(path), value) for path, value in step.changes.items()]
    # A value that stays is there because another change would have moved it.
    return ", ".join(f"{path} {_pair(path, old, value)}" for path, old, value in turned if old != value)


def _pair(path: str, old: Any, new: Any) -> str:
    texts = [_value_text(path, value) for value in (old, new)]
    if any(len(text) > _LONGEST for text in texts):
        return "changed"
    return f"{texts[0]} → {texts[1]}" if old is not None else texts[1]


def _value_text(path: str, value: object) -> str:
    match value:
        case None:
            return "none"
        case bool():
            return "yes" if value else "no"
        case int():
            return format_size(value) if path == "spill_budget" else format_count(value)
    return str(value)


def _saved(saves: Mapping[str, int]) -> str:
    shown = {device: size for device, size in saves.items() if size} or {"ram": 0}
    named = len(saves) > 1
    return ", ".join(f"{format_size(size)}{f' {device.upper()}' if named else ''}" for device, size in shown.items())


def _slower(step: StepPart) -> str:
    return UNKNOWN if step.slowdown is None else f"×{step.slowdown:g}"


def _item(step: StepPart) -> Item:
    return Item(
        lead=step.name,
        text=step.costs,
        tone=_KIND_TONE[step.kind],
        more=(f"time: {step.slowdown_basis}", step.how),
    )


def _machine_lines(machines: Mapping[Any, CatalogueMachinePart | None]) -> list[str]:
    words = {"as_it_is": "as it is", "without_changing_learning": "with every step that leaves learning alone"}
    lines = []
    for key, machine in machines.items():
        if machine is None:
            lines.append(f"{words[key]}: none in the catalogue is large enough")
            continue
        sizes = [
            f"{format_size(nbytes)} {label}"
            for nbytes, label in ((machine.ram_bytes, "RAM"), (machine.vram_bytes, "VRAM"))
            if nbytes
        ]
        lines.append(f"{words[key]}: {machine.name} ({machine.about}; {', '.join(sizes)})")
    return lines


def _verified_section(verified: VerifiedPart) -> Section:
    lines = []
    for name, point in (("before", verified.before), ("after", verified.after)):
        if point is not None:
            size = "" if point.peak_bytes is None else f" at {format_size(point.peak_bytes)}"
            well = {"ok": "ran", "oom": "ran out of memory"}.get(point.status, point.status)
            note = f": {point.note}" if point.note else ""
            lines.append(f"{name}: {well}{size}{note}")
    predicted, real = verified.predicted_saving_bytes, verified.real_saving_bytes
    if predicted is not None and real is not None:
        lines.append(f"saving: {format_size(predicted)} predicted, {format_size(real)} measured")
    elif predicted is not None and verified.took_effect:
        lines.append(f"saving: {format_size(predicted)} predicted; it cannot be measured where 'before' does not run")
    cap = f" under a cap of {format_size(verified.cap_bytes)}" if verified.cap_bytes else ""
    return Section(title=f"Measured in fresh processes{cap}", lines=(*lines, *verified.notes))
