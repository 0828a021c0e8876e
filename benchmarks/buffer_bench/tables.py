"""Tables from the results, for the terminal and for ``docs/buffers.md``."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from buffer_bench.results import Results
from buffer_bench.workloads import WORKLOADS, Workload

BEGIN, END = "<!-- bench:begin -->", "<!-- bench:end -->"
Row = dict[str, Any]
#: Ratios can be of elapsed time (the median of the rounds), or, for a machine that others use too, of processor time (all
#: threads together) or of each side's fastest rounds.
CLOCKS = {"wall": "ratio", "cpu": "cpu_ratio", "best": "best_ratio"}
SAID = {
    "wall": "",
    "cpu": " Speeds are of processor time, all threads together.",
    "best": " Speeds are of each side's fastest tenth of the rounds.",
}

REPLAY = ("store", "bytes a transition", "× smaller", "adds", "samples", "p50 / p99 ms", "wrong at ends (term / trunc)",
          "other faults")  # fmt: skip
ROLLOUT = ("store", "buffer, MB", "peak in update, MB", "of SB3's observations", "fill", "pass", "wrong")
LEARN = ("store", "steps a second", "of SB3's", "middle half of rounds", "same parameters")


def times(value: float) -> str:
    """A ratio with as many digits as it can carry."""
    return f"{value:.2f}×" if value < 10 else f"{value:,.0f}×" if value >= 100 else f"{value:.1f}×"


def faults(check: Row) -> str:
    """What else came back other than it went in; nothing, where all is well."""
    names = {"obs_wrong": "observations", "next_wrong_inside": "next observations inside episodes",
             "action_wrong": "actions", "terminal_wrong": "done flags", "stale": "not in the buffer"}  # fmt: skip
    return ", ".join(
        f"{check[name]:,} of {check['sampled']:,} {words}" for name, words in names.items() if check[name]
    ) or "–"  # fmt: skip


def replay_cells(row: Row, stock: Row | None, clock: str) -> list[str]:
    """One line of a replay table."""
    check, sample = row["check"], row["sample"]
    smaller = times(stock["bytes_per_transition"] / row["bytes_per_transition"]) if stock else "?"
    return [
        f"{row['bytes_per_transition']:,.0f}",
        smaller,
        times(row["add"][CLOCKS[clock]]),
        times(sample[CLOCKS[clock]]),
        f"{sample['p50_ms']:.2f} / {sample['p99_ms']:.2f}",
        f"{check['terminated_wrong']}/{check['terminated']} / {check['truncated_wrong']}/{check['truncated']}",
        faults(check),
    ]


def rollout_cells(row: Row, stock: Row | None, _clock: str) -> list[str]:
    """One line of the rollout table."""
    found = row["rollout"]
    base = stock["rollout"] if stock else None
    return [
        f"{found['buffer_bytes'] / 1e6:,.0f}",
        f"{found['peak_bytes'] / 1e6:,.0f}",
        f"{found['peak_bytes'] / found['stock_bytes']:.3f}×",
        times(base["fill_s"] / found["fill_s"]) if base else "?",
        times(base["pass_s"] / found["pass_s"]) if base else "?",
        f"{found['obs_wrong']:,}",
    ]


def learn_cells(row: Row, _stock: Row | None, clock: str) -> list[str]:
    """One line of a training table."""
    found = row["learn"]
    return [
        f"{found['rate']:,.1f}",
        times(found[CLOCKS[clock]]),
        f"{found['low']:.2f}–{found['high']:.2f}",
        "yes" if row["identical"] else "no",
    ]


KINDS: dict[str, tuple[tuple[str, ...], Callable[[Row, Row | None, str], list[str]]]] = {
    "replay": (REPLAY, replay_cells),
    "rollout": (ROLLOUT, rollout_cells),
    "learn": (LEARN, learn_cells),
}


def table(workload: Workload, rows: list[Row], clock: str) -> tuple[tuple[str, ...], list[list[str]]]:
    """Heads and lines; a store that could not be measured says why in place of numbers."""
    heads, cells = KINDS[workload.kind]
    stock = next((row for row in rows if row["store"] == "sb3" and row["status"] == "ok"), None)
    order = {name: number for number, name in enumerate(workload.stores)}
    lines = []
    for row in sorted(rows, key=lambda row: order.get(row["store"], len(order))):
        if row["status"] == "ok":
            lines.append([row["label"], *cells(row, stock, clock)])
        else:
            lines.append([row["label"], row["status"], *[""] * (len(heads) - 2)])
    return heads, lines


def caption(workload: Workload, rows: list[Row]) -> str:
    """How much was measured, and SB3's own rates."""
    done = [row for row in rows if row["status"] == "ok"]
    if not done:
        return ""
    sizes = ", ".join(sorted({f"{row['capacity']:,}" for row in done}, key=len))
    text = f"{sizes} transitions"
    stock = next((row for row in done if row["store"] == "sb3"), None)
    if not stock:
        return f"{text}."
    if workload.kind == "replay":
        add, sample = stock["add"]["rate"], stock["sample"]["rate"]
        return f"{text}. SB3 itself: {add:,.0f} adds and {sample:,.0f} batches a second."
    if workload.kind == "rollout":
        found = stock["rollout"]
        return (
            f"{text}. SB3's observations are {found['stock_bytes'] / 1e6:,.0f} MB; filling took it {found['fill_s']:.1f} s "
            f"and one pass in batches {found['pass_s']:.1f} s."
        )
    return f"{text} in the buffer."


def markdown(results: Results, clock: str) -> str:
    """The block of the documentation page."""
    data = results.data
    host = data["machine"]
    parts = [
        f"Measured {data['date']} by `benchmarks/buffers.py`, in several runs added up, on {host['cores']} cores of {host['cpu']}, "
        f"{host['ram_bytes'] / 2**30:.0f} GiB, {host['system']}, Python {host['python']}: "
        + ", ".join(f"{name} {version}" for name, version in data["versions"].items())
        + ".",
        "Each store runs in a fresh process. Bytes are what the process holds after two laps, less what it held empty. "
        "Adds and samples (batches of 256, as the library returns them) are ratios to SB3's, whose process took turns "
        "with the store's; the median of the rounds, above 1 is faster. The SB3 row is SB3 beside another SB3: what it "
        "differs from 1.00 is noise. *Wrong at ends* counts sampled transitions that ended an episode (terminated / "
        "truncated) and whose next observation was not the one added." + SAID[clock],
    ]
    for workload in WORKLOADS.values():
        rows = results.of(workload.name)
        if not rows:
            continue
        heads, lines = table(workload, rows, clock)
        marks = ["---"] + ["---:"] * (len(heads) - 1)
        body = [f"| {' | '.join(each)} |" for each in (heads, marks, *lines)]
        parts += [f"### {workload.title}", caption(workload, rows), "\n".join(body)]
    return "\n\n".join(part for part in parts if part)


def write_docs(results: Results, page: Path, clock: str) -> None:
    """Put the block into the page, between its marks."""
    text = page.read_text(encoding="utf-8") if page.exists() else ""
    if BEGIN not in text or END not in text:
        raise SystemExit(f"{page} has no block between {BEGIN} and {END}: add these two lines where the tables belong")
    block = f"{BEGIN}\n{markdown(results, clock)}\n{END}"
    page.write_text(re.sub(f"{BEGIN}.*{END}", lambda _: block, text, flags=re.S), encoding="utf-8")


def show(console: Any, workload: Workload, rows: list[Row], clock: str) -> None:
    """One table in the terminal."""
    from rich.table import Table

    heads, lines = table(workload, rows, clock)
    drawn = Table(title=workload.title, caption=caption(workload, rows), title_justify="left", caption_justify="left")
    for number, head in enumerate(heads):
        drawn.add_column(head, justify="right" if number else "left", no_wrap=not number)
    for line in lines:
        drawn.add_row(*line)
    console.print(drawn)
    for row in rows:
        if row["status"] != "ok":
            console.print(f"  {row['label']}: {row['status']}: {row['why']}", highlight=False, markup=False)
