"""What a plan means further on: how memory grows over training steps, and how far the main knob can be turned."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rlmem.capacity import largest, useful
from rlmem.core.subject import Subject
from rlmem.report.view import Column, Table
from rlmem.rules.knobs import rounded_down
from rlmem.units import ABSURD_COUNT, format_count, format_size

#: Values of a knob that are planned, relative to the run's own.
SHARES = (0.25, 0.5, 1.0, 1.5, 2.0, 4.0)
#: The largest value that fits is among them, unless it is this many times the run's own.
FURTHEST = 12
#: A run without an end is shown until its store has been full for a while.
BEYOND = 1.25
_SIZES = ("low_bytes", "expected_bytes", "high_bytes")


def capacity(subject: Subject, knob: str) -> dict[str, Any]:
    """Peaks at some values of a knob, and the largest value whose upper bound fits."""
    now = subject.spec.count(knob)
    found = largest(subject.asked, knob, subject.plan_of)
    most = max(useful(subject.plan, knob) or ABSURD_COUNT, now)
    values = {min(max(rounded_down(round(now * share)), 1), most) for share in SHARES} | {now}
    if found.value is not None and found.value <= FURTHEST * now:
        values.add(found.value)
    rows = []
    for value in sorted(values):
        other = subject.changed({knob: value})
        top = other.deciding
        rows.append(
            {
                "value": value,
                "device": top.device,
                "phase": top.phase,
                "low_bytes": top.low_bytes,
                "expected_bytes": top.expected_bytes,
                "high_bytes": top.high_bytes,
                "limit_bytes": top.limit_bytes,
                "verdict": other.verdict,
                "devices": {
                    each.device: {**{name: getattr(each, name) for name in _SIZES}, "limit_bytes": each.limit_bytes}
                    for each in other.tops
                },
            }
        )
    return {"knob": knob, "now": now, "rows": rows, "largest_safe": found.value, "unlimited": found.unlimited}


def capacity_words(found: Mapping[str, Any], machine: str) -> str:
    """The answer in a sentence."""
    knob, best = found["knob"], found["largest_safe"]
    if best is not None and best > FURTHEST * found["now"]:
        return (
            f"{machine} holds more than {FURTHEST} times {knob} {format_count(found['now'])}: memory does not limit it."
        )
    if best is not None:
        return f"The largest value of {knob} whose upper bound fits {machine}: {format_count(best)} (now {format_count(found['now'])})."
    return f"No limit on {knob} is known." if found["unlimited"] else f"No {knob} fits {machine}."


def capacity_table(found: Mapping[str, Any], machine: str) -> Table:
    """A row for each value that was planned."""
    marks = {
        "fits": "fits",
        "tight": "tight",
        "does-not-fit": "does not fit",
        "unknown": "no limit known",
        "grows": "grows",
    }
    rows = tuple(
        (
            format_count(row["value"]) + (" (this run)" if row["value"] == found["now"] else ""),
            format_size(row["expected_bytes"]),
            format_size(row["high_bytes"]),
            f"{row['device'].upper()} in {row['phase']}",
            marks[row["verdict"]],
        )
        for row in found["rows"]
    )
    columns = (
        Column(title=found["knob"]),
        Column(title="peak"),
        Column(title="upper bound"),
        Column(title="decided by", right=False, rank=1),
        Column(title=machine, right=False),
    )
    return Table(title="", columns=columns, rows=rows)


def growth(plan: Mapping[str, Any]) -> dict[str, Any] | None:
    """Resident memory over training steps while a store that was reserved at build fills; None when nothing fills.

    Straight between its points: a store takes the same for every step until it is full.
    """
    for device in dict.fromkeys(peak["device"] for peak in plan["peaks"]):
        peaks = {peak["phase"]: peak for peak in plan["peaks"] if peak["device"] == device}
        filling = [
            entry
            for entry in plan["entries"]
            if (entry["device"], entry["phase"], entry["residency"]) == (device, "collect", "filling")
        ]
        full_at = _full_at(plan["target"]["spec"])
        if filling and full_at and "collect" in peaks:
            return _grown(plan, device, peaks, sum(entry["nbytes"] for entry in filling), full_at)
    return None


def _full_at(spec: Mapping[str, Any]) -> int | None:
    """Environment steps, over all environments, after which the store holds all that the run writes."""
    if isinstance(spec.get("buffer_size"), int):
        return min(int(spec["buffer_size"]), int(spec.get("total_timesteps") or spec["buffer_size"]))
    if isinstance(spec.get("n_steps"), int):
        return int(spec["n_steps"]) * int(spec.get("n_envs") or 1)
    return None


def _grown(
    plan: Mapping[str, Any], device: str, peaks: Mapping[str, Mapping[str, Any]], store: int, full_at: int
) -> dict[str, Any]:
    spec = plan["target"]["spec"]
    ends_at = spec.get("total_timesteps") if isinstance(spec.get("total_timesteps"), int) else None
    last = ends_at or int(full_at * BEYOND)
    top = max(peaks.values(), key=lambda peak: peak["expected_bytes"])
    replay = isinstance(spec.get("buffer_size"), int)
    starts_at = int(spec.get("learning_starts") or 0) if replay else full_at
    rows = []
    for step in sorted({0, min(starts_at, last), min(full_at, last), last}):
        unfilled = round(store * (1 - min(1.0, step / full_at)))
        moments = [peaks["collect"], *([top] if step >= starts_at else [])]
        # Both sides of the first update: the peak of a phase is there from one step to the next.
        for moment in moments if step == starts_at else moments[-1:]:
            rows.append({"step": step, **{name: max(0, moment[name] - unfilled) for name in _SIZES}})
    return {
        "device": device,
        "store_bytes": store,
        "full_at": full_at,
        "ends_at": ends_at,
        "limit_bytes": top["limit_bytes"],
        "full_bytes": max(peak["expected_bytes"] for peak in (peaks["collect"], top)),
        "rows": rows,
        "over_limit_at": _crossing(rows, top["limit_bytes"]),
    }


def at_step(found: Mapping[str, Any], step: int) -> dict[str, int]:
    """Low, expected and high bytes after some steps, on the straight lines between the points of a growth."""
    rows = found["rows"]
    before = [row for row in rows if row["step"] <= step][-1:] or rows[:1]
    after = [row for row in rows if row["step"] > step][:1] or before
    low, high = before[0], after[0]
    share = (step - low["step"]) / (high["step"] - low["step"]) if high["step"] > low["step"] else 0.0
    return {name: round(low[name] + share * (high[name] - low[name])) for name in _SIZES}


def _crossing(rows: Sequence[Mapping[str, Any]], limit: int | None) -> int | None:
    """The step at which the expected size reaches the limit."""
    if limit is None or rows[-1]["expected_bytes"] <= limit:
        return None
    before = None
    for row in rows:
        if row["expected_bytes"] > limit:
            if before is None or row["step"] == before["step"]:
                return int(row["step"])
            rise = row["expected_bytes"] - before["expected_bytes"]
            share = (limit - before["expected_bytes"]) / rise if rise else 0.0
            return int(before["step"] + share * (row["step"] - before["step"]))
        before = row
    return None
