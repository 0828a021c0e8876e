"""The figures of a run as a part of docs/browser.md."""

from __future__ import annotations

import re
import statistics
from collections.abc import Mapping
from pathlib import Path
from typing import Any

_PART = re.compile(r"(?<=<!-- browser-numbers -->\n).*?(?=<!-- end -->)", re.DOTALL)


def write_docs(found: Mapping[str, Any], path: Path) -> None:
    """Put the tables in place of those of an earlier run."""
    text, count = _PART.subn(lambda _: f"{_part(found)}\n", path.read_text(encoding="utf-8"))
    if not count:
        raise SystemExit(f"{path} has no place for the figures")
    path.write_text(text, encoding="utf-8")


def _part(found: Mapping[str, Any]) -> str:
    paint = found["paint"]
    rows = [("the planner, first load after the start", paint["first"]), *paint["median"].items()]
    lines = [
        f"`python benchmarks/browser.py --write-docs`, on {found['machine']}; {found['versions']}.",
        "",
        "| page | first paint | all there | requests | bytes |",
        "| --- | ---: | ---: | ---: | ---: |",
    ]
    lines += [
        f"| {name} | {row['paint']:.0f} ms | {_ms(row.get('whole'))} | {row['whole_requests']:.0f} | {row['whole_bytes']:,.0f} |"
        for name, row in rows
    ]
    lines += [
        "",
        "From an input event to the frame with the new picture, every value a new one (ms; goal: a 95th percentile under 100). The "
        "server's part stands beside a bare `Planner.plan` with findings of the same values.",
        "",
        "| run | typed, median | 95 % | slider, median | 95 % | while remedies are worked out, median | server alone | bare plan | ratio |",
        "| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |",
    ]
    lines += [_knob_row(name, row) for name, row in found["knobs"]["presets"].items()]
    lines += [
        "",
        "Who looks on asks once a second; shares of one core, beside `rlmem watch --json` of the same process at the same time "
        "(goal: a sampler under 1 % of a core).",
        "",
        "| processes watched | clients | sampler, each | whole server | a client's share | `rlmem watch --json` | answer, median | 95 % |",
        "| ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |",
    ]
    lines += [_crowd_row(row) for row in found["clients"]]
    return "\n".join(lines)


def _ms(value: float | None) -> str:
    return "" if value is None else f"{value:.0f} ms"


def _knob_row(name: str, row: Mapping[str, Any]) -> str:
    typed, pulled, busy = row["typed"], row["pulled"], row["busy"]
    server, plan = row["server"]["median"], row["plan"]["median"]
    return (
        f"| {name} | {typed['median']:.0f} | {typed['p95']:.0f} | {pulled['median']:.0f} | {pulled['p95']:.0f} | {busy['median']:.0f} "
        f"| {server:.0f} | {plan:.0f} | {server / plan:.2f}× |"
    )


def _crowd_row(row: Mapping[str, Any]) -> str:
    return (
        f"| {row['watched']} | {row['clients']} | {statistics.mean(row['samplers']):.2%} | {row['server']:.2%} "
        f"| {row['server'] / row['clients']:.3%} | {row['peer']:.2%} | {row['polls']['median']:.1f} ms | {row['polls']['p95']:.1f} ms |"
    )
