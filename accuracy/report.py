"""``docs/accuracy.md``, written from the results."""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

from accuracy import rllib_table
from accuracy.corpus import Entry, cause_of
from accuracy.results import STRATA, Row, Score, grouped, number, quantile, score, scored, stratum

HERE = Path(__file__).parent
VRAM = HERE / "vram.csv"
#: Goals: median, 95th percentile, bound broken, headroom, increment median (percent); seconds and bytes of a trace.
MEDIAN, P95, BROKEN, HEADROOM, INCREMENT = 2.0, 8.0, 2.0, 10.0, 5.0
TRACE_SECONDS, TRACE_BYTES = 30.0, 1.5 * 2**30
#: Around the block of the README that is written from the results.
MARKS = ("<!-- accuracy -->", "<!-- end -->")
KINDS = {"zoo": "RL Zoo configurations", "script": "scripts", "preset": "reference runs"}
VRAM_FIGURES = {
    "allocated": "torch's allocated peak",
    "reserved": "torch's reserved peak",
    "driver": "the driver's figure",
}
VRAM_METHOD = """\
On one NVIDIA H200 (torch 2.11, CUDA 13, SB3 2.9.2; `python benchmarks/vram.py`). Predictions were made from updates recorded on a
CPU at two small sizes, without the GPU. The CUDA context is a constant measured on this GPU and driver, which makes the driver's
figure of a small run easy; the reserved peak is the fairer test. Four rows (a2c, trpo) were run again after a change made
with their errors in view, and one of them became worse."""
METHOD = """\
Each entry is planned with `rlmem plan`, as a user would, and run for real, once, in a fresh process. No part of rlmem is in that
process, except for the reference runs.
The measured figure is the peak of the process tree in PSS (each shared page once), watched from outside every few
milliseconds, with spikes between two looks taken from `VmHWM`. Predictions are the plan's largest phase in RAM. The machine has 2
cores and was busy with other measurements at the time; the closed form alone, without a dry run, is measured in
[the model](model.md#the-closed-form-against-measurements).

- **RL Zoo configurations** run as `python -m rl_zoo3.train --algo … --env …`. A hook (`accuracy/hook/sitecustomize.py`,
  standard library only) shortens them: a replay buffer is filled to its capacity with the run's first transitions, `learning_starts` is
  lowered, and the run is stopped after 100 gradient steps (off-policy) or two full updates (on-policy), after one evaluation if the run has
  any. The Zoo then saves its model as usual. SB3 scripts are shortened in the same way.
- **Scripts** with their own loop run to their end, untouched; their buffers really fill, step by step.
- **Reference runs** are the presets, scaled to fit the machine. The programs of `rlmem measure` run them, which are written after
  the same description as the plan: a check of the arithmetic, less independent than the others.
- **Increment**: what a run adds to its libraries. The imported level is measured in another process that imports the modules the
  run ended with, and does nothing else. Worker processes' own imports are part of the increment.

Not in the truth: what only a long run shows (leaks, logs that grow, fragmentation over hours), and how far one measurement is
from the next. Configurations that do not start are listed at the end."""


def page(
    rows: Mapping[str, Row],
    entries: Sequence[Entry],
    causes: Mapping[str, str],
    dropped: Mapping[str, str],
    vram: Path = VRAM,
) -> str:
    """The whole page."""
    known = [rows[entry.id] for entry in entries if entry.id in rows]
    both = scored(known)
    parts = ["# Accuracy", "", "<!-- Written by 'make accuracy'; do not edit. -->", "", METHOD, ""]
    parts += [f"{len(entries)} entries; {len(both)} planned and measured.", ""]
    total = score(both)
    if total is not None:
        parts += ["## Against the goals", "", *goals(total, both), ""]
        parts += ["## By size, kind and algorithm", "", *breakdown(both), ""]
        parts += ["## What misses", "", *misses(both, causes), ""]
    parts += unfinished(known, entries)
    parts += ["## Every row", "", "Sizes in MB (10⁶ bytes).", "", *every_row(known, entries), ""]
    parts += vram_table(vram)
    parts += rllib_table.section()
    parts += ["## Left out", "", "Configurations in the Zoo's files that do not start with these packages:", ""]
    parts += [f"- `{name}`: {why}" for name, why in dropped.items()]
    parts += ["", *provenance(known)]
    return "\n".join(parts).rstrip() + "\n"


def goals(total: Score, rows: Iterable[Row]) -> list[str]:
    """One line a goal."""
    chosen = list(rows)
    traced = [row for row in chosen if row["kind"] != "preset"]
    closed = [row for row in chosen if row["kind"] == "preset"]
    lines: list[tuple[str, str, str, bool | None]] = [
        ("median error", f"{total.median:.1f} %", f"≤ {MEDIAN:g} %", total.median <= MEDIAN),
        ("95th percentile of the error", f"{total.p95:.1f} %", f"≤ {P95:g} %", total.p95 <= P95),
        ("upper bound broken", f"{total.broken:.1f} % of runs", f"≤ {BROKEN:g} %", total.broken <= BROKEN),
        ("upper bound above the truth, mean", f"{total.headroom:+.1f} %", f"≤ {HEADROOM:g} %", total.headroom <= HEADROOM),
        ("median error of the increment", f"{total.increment_median:.1f} %", f"≤ {INCREMENT:g} %",
         total.increment_median <= INCREMENT),
    ]  # fmt: skip
    if traced:
        longest = max(number(row, "plan_s") or 0.0 for row in traced)
        largest = max(number(row, "trace_peak") or 0.0 for row in traced)
        lines += [
            ("time of a traced plan, longest", f"{longest:.0f} s", f"≤ {TRACE_SECONDS:g} s", longest <= TRACE_SECONDS),
            ("memory of a trace, largest", f"{largest / 2**30:.2f} GiB", "≤ 1.5 GiB", largest <= TRACE_BYTES),
        ]
    if closed:
        longest = max(number(row, "plan_s") or 0.0 for row in closed)
        lines.append(
            ("time of a closed form, with the start of Python (the goal is without)", f"{longest:.1f} s", "–", None)
        )
    words = {True: "yes", False: "no", None: "–"}
    body = [f"| {name} | {value} | {goal} | {words[met]} |" for name, value, goal, met in lines]
    return ["| figure | here | goal | met |", "| --- | ---: | ---: | --- |", *body]


def breakdown(rows: Sequence[Row]) -> list[str]:
    """The same figures for parts of the corpus."""
    head = ["| runs | count | median | p95 | mean error | bound broken | headroom | increment median |",
            "| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |"]  # fmt: skip
    names = [name for _, name in STRATA]
    strata = sorted(grouped(rows, stratum).items(), key=lambda item: names.index(item[0]))
    lines = [_line("**all**", rows)]
    lines += [_line(f"adding {name}", part) for name, part in strata]
    lines += [_line(KINDS.get(name, name), part) for name, part in grouped(rows, _cell("kind")).items()]
    lines += [_line(name, part) for name, part in sorted(grouped(rows, _cell("family")).items())]
    lines += [_line(f"`{name}`", part) for name, part in sorted(grouped(rows, _cell("algorithm")).items())]
    return head + lines


def _cell(name: str) -> Callable[[Row], str]:
    return lambda row: row[name]


def _line(name: str, rows: Iterable[Row]) -> str:
    found = score(rows)
    assert found is not None  # every group has a scored row
    return (
        f"| {name} | {found.count} | {found.median:.1f} % | {found.p95:.1f} % | {found.bias:+.1f} % | {found.broken:.0f} % "
        f"| {found.headroom:+.1f} % | {found.increment_median:.1f} % |"
    )


def is_miss(row: Row) -> bool:
    """Off by more than the 95th percentile may be, or above the upper bound."""
    error, high, measured = (number(row, name) for name in ("error_pct", "high", "measured"))
    return abs(error or 0.0) > P95 or (measured or 0.0) > (high or 0.0)


def misses(rows: Iterable[Row], causes: Mapping[str, str]) -> list[str]:
    """Entries that miss, largest first, each with its cause."""
    found = sorted(filter(is_miss, rows), key=lambda row: -abs(number(row, "error_pct") or 0.0))
    if not found:
        return [f"No entry is off by more than {P95:g} % or above its upper bound."]
    lines = [f"Off by more than {P95:g} %, or above the upper bound:", ""]
    for row in found:
        above = (number(row, "measured") or 0.0) > (number(row, "high") or 0.0)
        cause = cause_of(row["id"], dict(causes)) or "cause not known yet"
        lines.append(
            f"- `{row['id']}`: {number(row, 'error_pct') or 0:+.1f} %{', above the bound' if above else ''}; {cause}"
        )
    return lines


def unfinished(rows: Iterable[Row], entries: Sequence[Entry]) -> list[str]:
    """Entries without a plan or without a measurement."""
    rows = list(rows)
    lines = []
    for row in rows:
        for side, status in (("plan", row["plan_status"]), ("measurement", row["truth_status"])):
            if status not in ("", "ok"):
                note = f": {row['note']}" if side == "measurement" and row["note"] else ""
                lines.append(f"- `{row['id']}`: {side} {status}{note}")
    waiting = len(entries) - len(scored(rows)) - len(lines)
    if waiting > 0:
        lines.append(f"- {waiting} more were not run yet")
    return ["## Not finished", "", *lines, ""] if lines else []


def every_row(rows: Iterable[Row], entries: Sequence[Entry]) -> list[str]:
    """The table of everything."""
    commands = {entry.id: entry for entry in entries}
    lines = [
        "| run | low | expected | high | measured | error | of increment | imported | plan, s | trace |",
        "| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |",
    ]
    for row in rows:
        sizes = [_megabytes(row, name) for name in ("low", "expected", "high", "measured")]
        errors = [f"{number(row, name):+.1f} %" if row[name] else "–" for name in ("error_pct", "increment_error_pct")]
        tail = [_megabytes(row, "imported"), row["plan_s"] or "–", _megabytes(row, "trace_peak")]
        lines.append("| " + " | ".join([f"`{row['id']}`", *sizes, *errors, *tail]) + " |")
    scripts = [entry for entry in commands.values() if entry.args]
    lines += ["", "Entries with arguments of their own:", ""]
    return lines + [f"- `{entry.id}`: `{entry.command}`" for entry in scripts]


def _megabytes(row: Row, name: str) -> str:
    value = number(row, name)
    return "–" if value is None else f"{value / 1e6:,.0f}"


def vram_rows(path: Path) -> list[Row]:
    """The rows measured on a GPU; none when ``vram.csv`` is not there."""
    if not path.exists():
        return []
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def vram_summary(path: Path) -> list[str]:
    """Errors of the three figures, over all rows."""
    rows = vram_rows(path)
    if not rows:
        return []
    lines = [
        "| VRAM | count | median error | 90th percentile | largest | above the upper bound |",
        "| --- | ---: | ---: | ---: | ---: | ---: |",
    ]
    for name, words in VRAM_FIGURES.items():
        errors = [100 * abs(float(row[f"{name}_error"])) for row in rows]
        above = sum(int(row[f"{name}_measured"]) > int(row[f"{name}_high"]) for row in rows)
        cells = (quantile(errors, 0.5), quantile(errors, 0.9), max(errors))
        shown = " | ".join(f"{cell:.1f} %" for cell in cells)
        lines.append(f"| {words} | {len(rows)} | {shown} | {above} of {len(rows)} |")
    return lines


def vram_table(path: Path) -> list[str]:
    """Predicted against measured on a GPU."""
    rows = vram_rows(path)
    if not rows:
        return []
    lines = ["## VRAM", "", VRAM_METHOD, "", *vram_summary(path), "", "Sizes in MB (10⁶ bytes).", ""]
    lines += ["| run | allocated | measured | error | reserved | measured | error | driver (range) | measured | error |",
              "| --- " + "| ---: " * 9 + "|"]  # fmt: skip
    for row in rows:
        cells = [row["run"]]
        for name in VRAM_FIGURES:
            low, expected, high, measured = (
                int(row[f"{name}_{word}"]) / 1e6 for word in ("low", "expected", "high", "measured")
            )
            wide = f" ({low:,.0f}–{high:,.0f})" if name == "driver" else ""
            cells += [f"{expected:,.0f}{wide}", f"{measured:,.0f}", f"{100 * float(row[f'{name}_error']):+.1f} %"]
        lines.append("| " + " | ".join(cells) + " |")
    return [*lines, ""]


def provenance(rows: Iterable[Row]) -> list[str]:
    """Which versions, and when."""
    rows = list(rows)
    dates = sorted({row["truth_date"] for row in rows if row["truth_date"]})
    lines = [f"Measured with {versions}." for versions in sorted({row["versions"] for row in rows if row["versions"]})]
    return [*lines, f"Measured {dates[0]} to {dates[-1]}."] if dates else lines


def summary(rows: Mapping[str, Row], entries: Sequence[Entry]) -> str:
    """The short table of the README, by the same statistics as the page."""
    both = scored(rows[entry.id] for entry in entries if entry.id in rows)
    lines = [
        "| runs | count | median error | 95th percentile | above the upper bound | upper bound over the truth | increment, median error |",
        "| --- | ---: | ---: | ---: | ---: | ---: | ---: |",
    ]
    for name, part in (
        ("all", both),
        *((KINDS.get(kind, kind), part) for kind, part in grouped(both, _cell("kind")).items()),
    ):
        found = score(part)
        if found is not None:
            lines.append(
                f"| {name} | {found.count} | {found.median:.1f} % | {found.p95:.1f} % | {found.broken:.0f} % "
                f"| {found.headroom:+.1f} % | {found.increment_median:.1f} % |"
            )
    return "\n".join(lines)


def put_into(text: str, block: str) -> str:
    """A README with the block between its marks replaced."""
    before, rest = text.split(MARKS[0], 1)
    return f"{before}{MARKS[0]}\n{block}\n{MARKS[1]}{rest.split(MARKS[1], 1)[1]}"
