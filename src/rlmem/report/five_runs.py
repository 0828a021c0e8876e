"""The page on the five reference runs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rlmem.documents.five_runs import Figures, ReferenceRun
from rlmem.report.markdown import table_lines
from rlmem.report.view import Column, Table


def page(runs: Sequence[ReferenceRun]) -> str:
    """Return the whole page, in Markdown."""
    lines = [
        "# Five runs, five hand-made assessments",
        "",
        "<!-- written by `rlmem five-runs -o docs/five-runs.md` (`make docs`); a test checks that it is up to date -->",
        "",
        "Five people wrote down by hand what their training run needs. Each document was careful, and each was wrong in a",
        "way that changed the decision. Below, run by run: what it said, what `rlmem plan` says, and why they differ.",
        "The figures of rlmem are computed when this page is written, with the constants shipped in the package.",
        "GB is 10⁹ bytes, GiB is 2³⁰.",
        "",
    ]
    for run in runs:
        lines += _section(run)
    return "\n".join(lines).rstrip() + "\n"


def _section(run: ReferenceRun) -> Iterator[str]:
    yield from (f"## {run.title}", "", f"`{run.command}`", "")
    columns = tuple(Column(title=text, right=False) for text in ("", "the document", "rlmem", "why"))
    rows = tuple((claim.what, claim.said, claim.ours, claim.why) for claim in run.claims)
    yield from table_lines(Table(title="", columns=columns, rows=rows))
    for part in run.after:
        yield from (_figures(part) if isinstance(part, Figures) else part, "")


def _figures(part: Figures) -> str:
    columns = tuple(Column(title=title) for title in part.titles)
    return "\n".join(table_lines(Table(title="", columns=columns, rows=part.rows))).rstrip()
