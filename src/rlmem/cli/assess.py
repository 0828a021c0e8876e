"""``rlmem assess``."""

from __future__ import annotations

import sys

import click

from rlmem.cli import completion
from rlmem.cli.common import (
    HtmlFile,
    Limits,
    Output,
    budget_options,
    html_options,
    output_options,
    set_option,
)
from rlmem.errors import UsageError


@click.command("assess")
@click.argument("target", shell_complete=completion.target_or_run)
@click.argument("args", nargs=-1, shell_complete=completion.files)
@budget_options
@set_option
@html_options
@output_options
def command(
    target: str,
    args: tuple[str, ...],
    limits: Limits,
    python: str | None,
    sets: tuple[str, ...],
    report: HtmlFile,
    out: Output,
) -> int:
    """Write the memory assessment of a run: settings, unit costs, peak, capacity, logic checks, recommendations.

    TARGET is what 'rlmem plan' takes, but for loops of one's own; or a run that 'rlmem run' recorded ('rlmem runs --kind run'
    lists them): then the report says how it ended, who held its peak, what grew, and what would have fit.

    \b
    Examples:
      rlmem assess pidog-sac --ram 30GB -o assessment.md
      rlmem assess pyboy-ppo --ram 32GB --vram 16GB --format markdown
      rlmem assess run.yaml --json
      rlmem assess 3f9a -o report.md
      rlmem assess 3f9a --html report.html --redact

    Exits 1 when the run does not fit or will not work as described, or when a recorded one died or leaks.
    """
    from rlmem.sources.target import parse_target

    report.check(target)
    run_target = parse_target(target, args, sets=sets, python=python)
    if run_target.kind == "run":
        if args or any((*limits.words, python, sets)):
            raise UsageError(f"{target} is a stored run: limits, --set and arguments cannot change what was recorded")
        return _recorded(target, out, report)
    from rlmem.app.assess import assess
    from rlmem.report.progress import spinner

    assessed = assess(run_target, limits.budget(), spinner)
    report.write(lambda: assessed.report(["rlmem", *sys.argv[1:]]))
    out.show(assessed.document)
    return assessed.subject.plan.exit_code


def _recorded(name: str, out: Output, report: HtmlFile) -> int:
    from rlmem.app.recorded import stored_recording
    from rlmem.app.report import recorded_report
    from rlmem.runner.store import open_store

    with open_store() as store:
        run = store.find(name)
        if run.kind != "run":
            raise UsageError(f"run {run.id} is of kind {run.kind}: 'rlmem show {run.id}' shows it")
        document = stored_recording(store, run)
    report.write(lambda: recorded_report(document))
    out.show(document)
    well = document.status in {"ok", "interrupted", "running"} and document.judgement.state != "leaking"
    return 0 if well else 1
