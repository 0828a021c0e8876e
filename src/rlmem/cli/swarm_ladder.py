"""``python -m rlmem.swarm ladder``."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from rlmem.errors import UsageError


@click.command("ladder")
@click.option(
    "--agents",
    metavar="N,N",
    help="Two numbers of agents for every rung. Default: 200,400 where whole windows are stored, else 2000,20000.",
)
@click.option("--only", metavar="RUNG", multiple=True, help="Measure this rung only; repeatable.")
@click.option(
    "--cap", metavar="SIZE", help="End a point that needs more. Default: what may really be used, minus 10 %."
)
@click.option(
    "--timeout", type=click.FloatRange(min=1), default=1800.0, show_default=True, metavar="SECONDS",
    help="End a point that takes longer.",
)  # fmt: skip
@click.option("--python", metavar="PATH", help="An interpreter with torch and rlmem. Default: this one.")
@click.option(
    "--write-docs",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Put the table into this page, between '<!-- ladder -->' and '<!-- end -->'.",
)
@click.option("--json", "as_json", is_flag=True, help="One JSON document.")
def command(
    agents: str | None,
    only: tuple[str, ...],
    cap: str | None,
    timeout: float,
    python: str | None,
    write_docs: Path | None,
    as_json: bool,
) -> int:
    """Measure every version of the algorithm, from the assessed one to the smallest, beside its plan.

    Each point is a fresh process with a whole iteration in it. Takes minutes; what is done is said on standard error.

    \b
    Examples:
      python -m rlmem.swarm ladder --write-docs docs/swarm.md
      python -m rlmem.swarm ladder --agents 200,400 --only naive --only gyro
      python -m rlmem.swarm ladder --cap 4GB --json

    Exits 1 when a point did not end well: out of memory, out of time or crashed. It is a row of the table all the same.
    """
    from rlmem.app.ladder import LadderRequest, measure_ladder
    from rlmem.budget import cap_bytes
    from rlmem.cli.common import write_whole
    from rlmem.programs.swarm_ladder import parse_sizes, rows
    from rlmem.report.ladder import ladder_view, rewritten
    from rlmem.report.progress import progress
    from rlmem.report.render import render_view

    wanted = rows(None if agents is None else parse_sizes(agents), only)
    if write_docs is not None:
        if only:
            raise UsageError("--write-docs needs the whole ladder; leave --only out")
        _page(write_docs)  # now, so that it does not fail after minutes
    request = LadderRequest(rows=tuple(wanted), python=python, cap_bytes=cap_bytes(cap), timeout_s=timeout)
    with progress(request.points, "measuring the ladder") as tell:
        document = measure_ladder(request, tell)
    text = render_view(document, ladder_view, "json" if as_json else "text", None)
    sys.stdout.write(text if text.endswith("\n") else f"{text}\n")
    if write_docs is not None:
        write_whole(write_docs, rewritten(_page(write_docs), document))
        print(f"wrote {write_docs}", file=sys.stderr)
    return 0 if document.is_ok else 1


def _page(path: Path) -> str:
    """The page to write to, as it is now."""
    from rlmem.report.ladder import check_page

    try:
        page = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"--write-docs {path}: {getattr(error, 'strerror', None) or error}") from None
    return check_page(page, str(path))
