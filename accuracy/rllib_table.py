"""RLlib by role, predicted beside measured, from ``rllib.csv``: the section of the page."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Sequence
from pathlib import Path
from statistics import median

RESULTS = Path(__file__).with_name("rllib.csv")
FIELDS = (
    *("config", "role", "count", "low", "expected", "high", "measured", "anonymous"),
    *("rows", "iterations", "wall_s", "versions", "date"),
)
ALL, STORE = "cluster", "object-store"
#: Goals: median error of each actor role, and of the sum.
ROLE_GOAL, SUM_GOAL = 10.0, 5.0
#: An object store that holds less is noise beside its processes.
LEAST = 1 << 20
#: Ray's own processes and its store are no actors.
NO_ACTORS = ("ray", STORE, ALL)
#: Configurations that were written after the model.
HELD = "held_"
METHOD = """\
`make accuracy-rllib`. Every configuration of `accuracy/rllib_configs.py` is planned with `rlmem plan rllib:…` and run for real, once, on a Ray
of its own (new API stack, 8 logical CPUs, an object store of 2 GiB) until three iterations had an update in them and its replay buffer is full, or three minutes
are over; a buffer that did not fill is planned as full as it got. No part of rlmem is in its processes. A role's figure is
the largest of its actors: anonymous memory at its peak (looked at every few milliseconds) plus its share of the library pages
that all map. The cluster is the sum at its largest moment, each shared page and the object store once. Constants of the
model were measured on synthetic environments and on CartPole; while the copies of a batch were being understood, the errors of PPO's rows
below were in view. Configurations that begin with `held_` were written afterwards, and nothing was changed for them. Four more showed what was
missing, and were planned before that 8 % (`ppo_lstm`, `ppo_async_envs`) and 4 % (`impala_breakout`; its learner 22 %) too low for the cluster
and 11 % too high for EnvRunners that evaluate (`ppo_breakout_evaluated`)."""

Row = dict[str, str]


def read(path: Path = RESULTS) -> list[Row]:
    """Rows so far; none when the file is not there."""
    if not path.exists():
        return []
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def write(rows: Iterable[Row], order: Sequence[str], path: Path = RESULTS) -> None:
    """All rows, in the order of the configurations."""
    place = {name: index for index, name in enumerate(order)}
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, FIELDS, lineterminator="\n", restval="")
        writer.writeheader()
        writer.writerows(sorted(rows, key=lambda row: place.get(row["config"], len(place))))


def error(row: Row) -> float:
    """Percent of the truth; positive when too much was predicted."""
    return 100 * (int(row["expected"]) / int(row["measured"]) - 1)


def judged(rows: Iterable[Row]) -> list[Row]:
    """Rows that have both figures and are large enough to speak of."""
    return [row for row in rows if row.get("expected") and int(row["measured"]) >= LEAST]


def summary(path: Path = RESULTS) -> list[str]:
    """A line for each role, for all actors, and for the cluster."""
    rows = judged(read(path))
    if not rows:
        return []
    lines = [
        "| RLlib | rows | median error | largest | above the upper bound | goal |",
        "| --- | ---: | ---: | ---: | ---: | ---: |",
    ]
    roles = dict.fromkeys(row["role"] for row in rows)
    for role in (*(role for role in roles if role not in NO_ACTORS), *(role for role in NO_ACTORS if role in roles)):
        goal = SUM_GOAL if role == ALL else None if role in NO_ACTORS else ROLE_GOAL
        words = "the whole cluster" if role == ALL else role
        lines.append(_line(words, [row for row in rows if row["role"] == role], goal))
    held = [row for row in rows if row["config"].startswith(HELD)]
    if held:
        actors = [row for row in held if row["role"] not in NO_ACTORS]
        lines.append(_line("held back: actors", actors, ROLE_GOAL))
        lines.append(_line("held back: the whole cluster", [row for row in held if row["role"] == ALL], SUM_GOAL))
    return lines


def _line(words: str, rows: Sequence[Row], goal: float | None) -> str:
    errors = [abs(error(row)) for row in rows]
    above = sum(int(row["measured"]) > int(row["high"]) for row in rows)
    wanted = f"≤ {goal:g} %" if goal is not None else ""
    return (
        f"| {words} | {len(rows)} | {median(errors):.1f} % | {max(errors):.1f} % | {above} of {len(rows)} | {wanted} |"
    )


def section(path: Path = RESULTS) -> list[str]:
    """The part of ``docs/accuracy.md``."""
    rows = [row for row in read(path) if row.get("expected")]
    if not rows:
        return []
    lines = ["## RLlib, by role", "", METHOD, "", *summary(path), "", "Sizes in MB (10⁶ bytes), of one actor.", ""]
    lines += [
        "| configuration | role | count | predicted | range | measured | error |",
        "| --- | --- " + "| ---: " * 5 + "|",
    ]
    for row in rows:
        low, expected, high, measured = (int(row[name]) / 1e6 for name in ("low", "expected", "high", "measured"))
        shown = f"{error(row):+.1f} %" if int(row["measured"]) >= LEAST else "–"
        cells = (
            row["config"],
            row["role"],
            row["count"],
            f"{expected:,.0f}",
            f"{low:,.0f}–{high:,.0f}",
            f"{measured:,.0f}",
            shown,
        )
        lines.append("| " + " | ".join(cells) + " |")
    versions = sorted({row["versions"] for row in rows})
    return [*lines, "", *(f"Measured with {text}." for text in versions), ""]
