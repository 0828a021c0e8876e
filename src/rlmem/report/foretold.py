"""A recorded run beside what was predicted for it, and the processes that it was."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from rlmem.components import STANDING
from rlmem.documents.contract import from_plain
from rlmem.documents.growth import GrowthCurvePart, growth_curve
from rlmem.documents.plan import PlanDocument
from rlmem.ledger import NOT_COUNTED, matches
from rlmem.report.view import Column, Section, Table
from rlmem.units import format_count, format_size

_LONGEST_COMMAND = 60


def processes_section(document: Mapping[str, Any]) -> Section | None:
    """The tree at the largest look; None for a single process."""
    members = document["peak"].get("members") or ()
    if len(members) < 2:
        return None
    columns = (
        Column(title="process"),
        Column(title="role", right=False),
        Column(title="PSS"),
        Column(title="private", rank=1),
        Column(title="RSS", rank=2),
        Column(title="threads", rank=3),
        Column(title="command", right=False),
    )
    rows = tuple(
        (
            str(member["pid"]),
            member["role"],
            *(_size(member[name]) for name in ("pss_bytes", "uss_bytes", "rss_bytes")),
            str(member["threads"]),
            _shortened(member["command"]),
        )
        for member in members
    )
    largest = max(document["moments"], key=lambda moment: moment["tree_bytes"], default=None)
    more = (largest or {}).get("processes", 1) - len(members)
    note = f"{more} smaller ones are not listed." if more > 0 else ""
    return Section(title="Processes at the peak", tables=(Table(title="", columns=columns, rows=rows, note=note),))


def _size(nbytes: int | None) -> str:
    return "" if nbytes is None else format_size(nbytes)


def _shortened(text: str) -> str:
    return text if len(text) <= _LONGEST_COMMAND else f"{text[: _LONGEST_COMMAND - 1]}…"


def foretold_section(document: Mapping[str, Any]) -> Section | None:
    """The plan's largest phase of each device beside the largest seen, and what it says of buffers beside their owners."""
    plan, peak = document.get("plan"), document["peak"]
    if not plan:
        return None
    seen = [moment["vram_bytes"] for moment in document["moments"] if moment.get("vram_bytes") is not None]
    measured = {"ram": peak["nbytes"] or None, "vram": max(seen, default=None)}
    tops = [each for each in plan["peaks"] if each["is_peak"]]
    reached = _reached(document)
    rows = [
        (
            top["device"].upper(),
            *(format_size(top[f"{name}_bytes"]) for name in ("low", "expected", "high")),
            *_beside(top["expected_bytes"], measured[top["device"]]),
        )
        for top in tops
    ]
    if reached:
        step, sizes = reached
        told = (format_size(sizes[f"{name}_bytes"]) for name in ("low", "expected", "high"))
        rows.append((f"RAM by step {format_count(step)}", *told, *_beside(sizes["expected_bytes"], measured["ram"])))
    columns = (
        Column(title="peak", right=False),
        *(Column(title=title) for title in ("low", "expected", "high", "measured", "difference")),
    )
    note = "Difference: expected against measured; + is predicted too large."
    tables = [Table(title="", columns=columns, rows=tuple(rows), note=note)]
    if standing := _standing(plan, peak["owners"]):
        columns = (
            Column(title="buffer", right=False),
            *(Column(title=title) for title in ("predicted", "resident", "allocated")),
        )
        note = "Predicted full, and resident as far as it had been written when owners were asked."
        tables.append(Table(title="", columns=columns, rows=standing, note=note))
    ram = reached[1] if reached else next((each for each in tops if each["device"] == "ram"), None)
    lines = (_range_sentence(ram, measured["ram"]), _steps_sentence(document))
    return Section(
        title="Predicted beside measured", lines=tuple(line for line in lines if line), tables=tuple(tables)
    )  # fmt: skip


def foretold_curve(document: Mapping[str, Any]) -> list[dict[str, float]]:
    """What was predicted for each moment whose step is known: low, expected and high RAM by time."""
    plan = document.get("plan")
    top = next((each for each in plan["peaks"] if each["is_peak"] and each["device"] == "ram"), None) if plan else None
    if plan is None or top is None:
        return []
    curve = _curve(plan)
    rows = []
    for moment in document["moments"]:
        step = (moment.get("progress") or {}).get("step")
        if step is not None:
            sizes = asdict(curve.at(step)) if curve and curve.device == "ram" else top
            rows.append(
                {
                    "at_s": moment["at_s"],
                    **{name: sizes[name] for name in ("low_bytes", "expected_bytes", "high_bytes")},
                }
            )
    return rows


def _curve(plan: Mapping[str, Any]) -> GrowthCurvePart | None:
    return growth_curve(from_plain(PlanDocument, plan, "the plan of the run"))


def _beside(expected: int, measured: int | None) -> tuple[str, str]:
    """What was measured, and how far the prediction is from it."""
    return (format_size(measured), f"{expected / measured - 1:+.1%}") if measured else ("", "")


def _standing(plan: Mapping[str, Any], owners: Sequence[Mapping[str, Any]]) -> tuple[tuple[str, ...], ...]:
    """Buffers as the plan has them while it collects, beside what their owners hold; unknown without any."""
    counted = [
        entry
        for entry in plan["entries"]
        if (entry["device"], entry["phase"]) == ("ram", "collect") and entry["residency"] not in NOT_COUNTED
    ]
    rows = []
    for group, word in STANDING.items():
        held = [each for each in owners if each["device"] == "ram" and word in each["path"]]
        expected = sum(entry["nbytes"] for entry in counted if matches(entry["component"], group))
        sums = (_size(sum(each[name] for each in held) if held else None) for name in ("resident_bytes", "nbytes"))
        if expected:
            rows.append((word, format_size(expected), *sums))
    return tuple(rows)


def _reached(document: Mapping[str, Any]) -> tuple[int, dict[str, int]] | None:
    """The last step seen and what was predicted by then, where a store was not full yet; None where it was."""
    curve, step = _curve(document["plan"]), _last_step(document)
    if curve is None or step is None or curve.device != "ram" or step >= curve.full_at:
        return None
    return step, asdict(curve.at(step))


def _last_step(document: Mapping[str, Any]) -> int | None:
    return max((moment["progress"]["step"] for moment in document["moments"] if moment.get("progress")), default=None)


def _range_sentence(foretold: Mapping[str, Any] | None, measured: int | None) -> str:
    if foretold is None or measured is None:
        return ""
    is_above, is_below = measured > foretold["high_bytes"], measured < foretold["low_bytes"]
    where = "above" if is_above else "below" if is_below else "within"
    return f"The measured peak of RAM is {where} the range that was predicted{' for as far as it came' if 'phase' not in foretold else ''}."


def _steps_sentence(document: Mapping[str, Any]) -> str:
    """A plan is for all the steps that were asked for when the model was met; a run may end before, or go on."""
    total = document["plan"]["target"]["spec"].get("total_timesteps")
    step = _last_step(document)
    if not total or step is None:
        return ""
    spare = max(0.1 * total, (document["plan"].get("schedule") or {}).get("samples_per_iteration") or 0)
    is_over = document["status"] == "ok"  # then the last look was merely before the last step
    if step <= total + spare and (is_over or step >= total - spare):
        return ""
    return f"Predicted for {format_count(total)} steps; it was last seen at step {format_count(step)}."
