"""Writes the generated tables inside hand-written pages again: constants in model.md, fields in run-file.md.

Run ``python docs/tables.py`` (``make docs``). A table stands between ``<!-- table: NAME -->`` and ``<!-- end -->``.
"""

from __future__ import annotations

import re
from pathlib import Path

from rlmem.fields import FIELDS
from rlmem.model.constants import REFERENCE, TABLE

HERE = Path(__file__).parent


def constants() -> list[str]:
    """Every measured constant with its provenance."""
    lines = ["| constant | low | expected | high | how | where |", "| --- | ---: | ---: | ---: | --- | --- |"]
    for row in TABLE:
        where = "A" if row.where == REFERENCE else "B"
        lines.append(f"| `{row.name}` | {row.low:,} | {row.expected:,} | {row.high:,} | {row.how} | {where} |")
    return lines


def fields() -> list[str]:
    """Every field of a run file."""
    lines = ["| field | takes | meaning |", "| --- | --- | --- |"]
    for field in FIELDS:
        takes = ", ".join(field.choices) or field.kind
        lines.append(f"| `{field.path}` | {takes} | {field.doc} |")
    return lines


TABLES = {"constants": constants, "fields": fields}
PAGES = ("model.md", "run-file.md")


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
