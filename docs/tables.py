"""Writes the generated tables inside hand-written pages again: constants in model.md, fields in run-file.md, plans in swarm.md.

Run ``python docs/tables.py`` (``make docs``). A table stands between ``<!-- table: NAME -->`` and ``<!-- end -->``.
"""

from __future__ import annotations

import re
from pathlib import Path

from rlmem.core.fields import FIELDS
from rlmem.core.plan import Budget
from rlmem.frameworks.stacks import STACKS, materialised
from rlmem.model.constants import RAY_TABLE, REFERENCE, TABLE
from rlmem.planner import Planner
from rlmem.sources import load
from rlmem.units import format_size

HERE = Path(__file__).parent
SWARMS = (1_000, 20_000, 100_000, 1_000_000, 10_000_000)


def constants() -> list[str]:
    """Every measured constant with its provenance."""
    lines = ["| constant | low | expected | high | how | where |", "| --- | ---: | ---: | ---: | --- | --- |"]
    for row in TABLE:
        where = "A" if row.where == REFERENCE else "B"
        lines.append(f"| `{row.name}` | {row.low:,} | {row.expected:,} | {row.high:,} | {row.how} | {where} |")
    return lines


def ray() -> list[str]:
    """Ray's and RLlib's constants, all from one machine."""
    lines = ["| constant | low | expected | high | how |", "| --- | ---: | ---: | ---: | --- |"]
    for row in RAY_TABLE:
        lines.append(f"| `{row.name}` | {row.low:,} | {row.expected:,} | {row.high:,} | {row.how} |")
    return [*lines, "", f"Measured on {RAY_TABLE[0].where}."]


def fields() -> list[str]:
    """Every field of a run file."""
    lines = ["| field | takes | meaning |", "| --- | --- | --- |"]
    for field in FIELDS:
        takes = ", ".join(field.choices) or field.kind
        lines.append(f"| `{field.path}` | {takes} | {field.doc} |")
    return lines


def swarm() -> list[str]:
    """The drone swarm's peaks, as assessed and with its stream kept once."""
    planner = Planner(Budget(name="no limit"))
    lines = ["| agents | as assessed | `storage=stream` |", "| ---: | ---: | ---: |"]
    for agents in SWARMS:
        sets = [f"agents={agents}"]
        tops = [planner.plan(load("drone-swarm", [*sets, *more])).top("ram") for more in ((), ("storage=stream",))]
        lines.append(f"| {agents:,} | {' | '.join(format_size(top.expected_bytes) for top in tops if top)} |")
    return lines


def stacks() -> list[str]:
    """What other stacks hold of a million drones' observations."""
    spec = load("drone-swarm", ["agents=1000000"])
    lines = ["| stack | whole rollouts held at once | observations |", "| --- | ---: | ---: |"]
    for stack in STACKS:
        more = "≥ " if stack.at_least else ""
        size = format_size(stack.factor * materialised(spec).value)
        lines.append(f"| {stack.name} {stack.version} | {more}{stack.factor} | {more}{size} |")
    return lines


TABLES = {"constants": constants, "ray": ray, "fields": fields, "swarm": swarm, "stacks": stacks}
PAGES = ("model.md", "run-file.md", "swarm.md")


def rewritten(text: str) -> str:
    """A page with its tables made anew."""

    def table(match: re.Match[str]) -> str:
        body = "\n".join(TABLES[match[1]]())
        return f"<!-- table: {match[1]} -->\n{body}\n<!-- end -->"

    return re.sub(r"<!-- table: (\w+) -->\n.*?<!-- end -->", table, text, flags=re.S)


if __name__ == "__main__":
    for name in PAGES:
        page = HERE / name
        page.write_text(rewritten(page.read_text(encoding="utf-8")), encoding="utf-8")
