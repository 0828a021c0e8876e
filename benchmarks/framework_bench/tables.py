"""The tables of docs/frameworks.md, from the results; a table stands between ``<!-- table: NAME -->`` and ``<!-- end -->``."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from rlmem.units import format_size

from .cases import RLLIB, SAID_ELEGANTRL, SAID_RLLIB, SAID_SB3, Case
from .results import Row, number

GB = 1_000_000_000
_HEAD = (
    "| framework | set-up | processes | threads | whole tree | main process | each worker | Ray itself | object store "
    "| `rlmem plan` | seed 003 said |",
    "| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | --- |",
)
_PLACE = re.compile(r"<!-- table: (\w+) -->\n.*?<!-- end -->", re.DOTALL)


def task_table(cases: Sequence[Case], rows: Mapping[str, Row], task: str) -> list[str]:
    """One task in every framework; a case without a result has a row that says so."""
    return [*_HEAD, *(_line(case, rows.get(case.id)) for case in cases if case.task == task)]


def _line(case: Case, row: Row | None) -> str:
    begin = f"| {case.framework} | {case.setup} |"
    if row is None or row["status"] != "ok":
        why = "not measured yet" if row is None else f"{row['status']}: {row['note']}"
        return f"{begin} {' | '.join([why.replace('|', '/'), *[''] * 8])} |"
    cells = [
        row["processes"],
        row["threads"],
        f"**{size(row, 'tree_bytes')}**",
        size(row, "main_bytes"),
        _workers(row),
        size(row, "ray_bytes") if number(row, "ray_processes") else "",
        size(row, "store_bytes") if case.framework == RLLIB else "",
        _planned(row),
        case.said,
    ]
    return f"{begin} {' | '.join(cells)} |"


def _workers(row: Row) -> str:
    """What one worker holds, how many there are, and the largest where they differ."""
    count, mean, largest = (number(row, name) for name in ("workers", "worker_bytes", "largest_worker_bytes"))
    if not count or mean is None or largest is None:
        return ""
    most = f", largest {format_size(largest)}" if largest > 1.1 * mean else ""
    return f"{count} × {format_size(mean)}{most}"


def _planned(row: Row) -> str:
    """The prediction for the whole tree, and how far off it was."""
    expected, measured = number(row, "plan_expected"), number(row, "tree_bytes")
    if expected is None or not measured:
        return "–"
    return f"{format_size(expected)} ({100 * (expected / measured - 1):+.0f} %)"


def size(row: Mapping[str, str], name: str) -> str:
    """A cell as a size; nothing when it is unknown."""
    value = number(row, name)
    return "" if value is None else format_size(value)


def claims_table(cases: Sequence[Case], rows: Mapping[str, Row]) -> list[str]:
    """The four lines of seed 003 beside what was measured."""

    def measured(said: str, name: str) -> list[int]:
        found = [number(rows[case.id], name) for case in cases if case.said == said and is_ok(rows.get(case.id))]
        return [value for value in found if value]

    lines = ["| seed 003 | it said | measured here | it said more by |", "| --- | --- | --- | --- |"]
    for title, said, name, low, high in (
        ("Stable-Baselines3 (single env)", SAID_SB3, "tree_bytes", 2, 5),
        ("ElegantRL (3 workers, threading)", SAID_ELEGANTRL, "tree_bytes", 15, 25),
        ("RLlib (multi-process), a worker", SAID_RLLIB, "largest_worker_bytes", 10, 15),
    ):
        sizes = measured(said, name)
        lines.append(f"| {title} | {said} | {_between(sizes)} | {_times(low * GB, high * GB, sizes)} |")
    lines.append(f"| Professional setups (distributed) | 30–100 GB total | {_cluster(cases, rows)} | |")
    return lines


def is_ok(row: Row | None) -> bool:
    """Whether there is a measurement."""
    return row is not None and row["status"] == "ok"


def _between(sizes: Sequence[int]) -> str:
    if not sizes:
        return "not measured"
    ends = list(dict.fromkeys(format_size(end) for end in (min(sizes), max(sizes))))
    return " to ".join(ends)


def _times(low: int, high: int, sizes: Sequence[int]) -> str:
    """The smallest and the largest factor between a range and measurements."""
    if not sizes:
        return ""
    return f"{low / max(sizes):.0f} to {high / min(sizes):.0f} times"


def _cluster(cases: Sequence[Case], rows: Mapping[str, Row]) -> str:
    """How many workers of each task the figure would hold, beside everything that is there once."""
    said = []
    for task in dict.fromkeys(case.task for case in cases):
        found = [
            rows[case.id]
            for case in cases
            if case.task == task and case.said == SAID_RLLIB and is_ok(rows.get(case.id))
        ]
        if not found:
            continue
        row = found[-1]
        tree, workers, each = (number(row, name) for name in ("tree_bytes", "workers", "worker_bytes"))
        if not (tree and workers and each):
            continue
        once = tree - workers * each
        low, high = ((end * GB - once) // each for end in (30, 100))
        said.append(f"{low:,} to {high:,} env runners of the {task} task")
    return "enough for " + ", or ".join(said) if said else "not measured"


def context(rows: Mapping[str, Row]) -> list[str]:
    """Where, with what and when."""
    done = [row for row in rows.values() if is_ok(row)]
    dates = sorted({row["date"] for row in done})
    if not done:
        return ["Nothing is measured yet."]
    when = " to ".join(dict.fromkeys((dates[0], dates[-1])))
    total = sum(float(row["wall_s"]) + float(row["plan_s"] or 0) for row in done)
    where, what = ("; or ".join(dict.fromkeys(row[name] for row in done)) for name in ("machine", "versions"))
    return [
        f"`python benchmarks/frameworks.py --write-docs` (`make frameworks`), {when}, on {where}; {what}. All rows and their "
        f"plans together took {total / 60:.0f} minutes."
    ]


def parts(cases: Sequence[Case], rows: Mapping[str, Row]) -> dict[str, Callable[[], list[str]]]:
    """Every generated part of the page, by name."""
    return {
        "continuous": lambda: task_table(cases, rows, "continuous"),
        "atari": lambda: task_table(cases, rows, "atari"),
        "claims": lambda: claims_table(cases, rows),
        "context": lambda: context(rows),
    }


def written(text: str, made: Mapping[str, Callable[[], list[str]]]) -> str:
    """A page with its generated parts made anew; a part without a place, or a place without a part, is an error."""
    places = _PLACE.findall(text)
    if sorted(places) != sorted(made):
        raise ValueError(
            f"the page has places for {', '.join(sorted(places)) or 'nothing'}, not for {', '.join(sorted(made))}"
        )
    return _PLACE.sub(
        lambda found: f"<!-- table: {found[1]} -->\n" + "\n".join(made[found[1]]()) + "\n<!-- end -->", text
    )


def write_docs(cases: Sequence[Case], rows: Mapping[str, Row], page: Path) -> None:
    """Put the tables into the page."""
    page.write_text(written(page.read_text(encoding="utf-8"), parts(cases, rows)), encoding="utf-8")
