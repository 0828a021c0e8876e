"""``rlmem fit``."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from rlmem.cli import completion
from rlmem.cli.common import (
    budget_options,
    chosen_format,
    emit,
    in_typed_unit,
    make_planner,
    output_options,
    set_option,
)
from rlmem.errors import SpecError, UsageError

if TYPE_CHECKING:
    from rlmem.core.target import Target
    from rlmem.points import PointOptions
    from rlmem.remedies.base import Wishes
    from rlmem.trace.drafts import Draft
    from rlmem.trace.fitted import Fitted, Job
    from rlmem.trace.verifying import Verified

#: Seconds a measurement of ``--verify`` may take.
VERIFY_S = 900.0

#: Of answers that are no fit.
_EXIT_CODES = {"no": 1, "unknown": 4, "grows": 5}


@click.command("fit")
@click.argument("target", shell_complete=completion.target)
@click.argument("args", nargs=-1, type=click.UNPROCESSED, metavar="[-- SCRIPT ARGS]", shell_complete=completion.files)
@budget_options
@set_option
@click.option(
    "--keep",
    "kept",
    metavar="FIELD",
    multiple=True,
    help="A field to leave alone, such as buffer_size; repeatable, or a,b.",
)
@click.option("--lossless", is_flag=True, help="Only steps under which the learner sees the same numbers.")
@click.option(
    "--max-slowdown",
    type=click.FloatRange(min=1),
    metavar="FACTOR",
    help="The most training may slow down, such as 1.2; steps of unknown cost are left out.",
)
@click.option(
    "--apply", "apply_", is_flag=True, help="Write the edited script; the old one is kept beside it as .orig."
)
@click.option(
    "--verify", is_flag=True, help="Measure before and after in fresh processes; predicted against real saving."
)
@click.option("--diff", "only_diff", is_flag=True, help="Print the diff and nothing else.")
@click.option("--timeout", type=click.FloatRange(min=5), metavar="SECONDS", help="Time a dry run may take [27].")
@click.option(
    "--cap",
    metavar="SIZE",
    callback=in_typed_unit,
    help="Memory a dry run may take before it is ended. Default: what is available.",
)
@output_options
def command(
    target: str,
    args: tuple[str, ...],
    ram: str | None,
    vram: str | None,
    machine: str | None,
    python: str | None,
    sets: tuple[str, ...],
    kept: tuple[str, ...],
    lossless: bool,
    max_slowdown: float | None,
    apply_: bool,
    verify: bool,
    only_diff: bool,
    timeout: float | None,
    cap: str | None,
    as_json: bool,
    format_: str | None,
    output: Path | None,
) -> int:
    """The smallest change that makes a run fit: lossless steps first, then those that cost speed, then learning.

    TARGET is a preset, a run file, your training script (with its ARGS after '--'), a factory package.module:function or an
    RL Zoo entry zoo:ALGO/ENV. A script is run as 'rlmem plan' runs it: in a process of its own, under a cap, up to learn()
    and through a few updates; files it wrote are put back. With a loop of its own it is run again, edited, for each
    candidate. What a step saves is the difference of two plans.

    \b
    Examples:
      rlmem fit pidog-sac --ram 12GB
      rlmem fit pidog-sac --ram 8GB --keep buffer_size --lossless
      rlmem fit train.py --ram 16GB
      rlmem fit train.py --ram 16GB --apply --verify -- --env Hopper-v5
      rlmem fit train.py --ram 16GB --diff | git apply
      rlmem fit zoo:dqn/PongNoFrameskip-v4 --ram 8GB --json

    Exits 0 when the run fits, as it is or with the steps shown; 1 when nothing makes it fit, or when --verify saw it fail; 4 when
    there is a limit and no figure to hold against it (VRAM of a loop of its own); 5 when the run leaks.
    """
    from rlmem.report.fit import fit_document
    from rlmem.report.fit_view import render_fit
    from rlmem.sources.target import parse_target

    wanted = chosen_format(format_, output, as_json=as_json)
    wishes = _wishes(kept, max_slowdown, lossless=lossless)
    options = (ram, vram, machine, python)
    asked = parse_target(target, args, sets=sets, python=python)
    job = None
    if asked.is_executable:
        job, fitted = _run(asked, options, timeout, cap, wishes)
    else:
        for given, option in ((args, "script arguments"), (timeout, "--timeout"), (cap, "--cap"), (apply_, "--apply")):
            if given:
                raise UsageError(f"{target}: {option}: only for targets that are run, such as train.py")
        fitted = _described(asked, options, wishes)
    if apply_ and (asked.kind != "script" or fitted.written.kind == "python"):
        raise UsageError(f"{target}: --apply writes scripts; this one is not one that can be edited")
    verified = _verified(asked, job, fitted) if verify and fitted.fit.end.steps else None
    failed = verified is not None and not verified.took_effect
    applied = None
    if apply_ and fitted.draft is not None and fitted.draft.edits:
        if failed or fitted.fit.status == "no":
            print("rlmem: nothing was written: the run does not fit with these steps", file=sys.stderr)
        else:
            applied = _applied(fitted.draft)
    document = fit_document(fitted, verified, applied)
    if only_diff:
        _emit_diff(fitted, output)
    else:
        emit(render_fit(document, wanted, output), output)
    return 1 if failed else _EXIT_CODES.get(fitted.fit.status, 0)


def _emit_diff(fitted: Fitted, output: Path | None) -> None:
    """The diff alone; what it lacks is said on standard error."""
    if fitted.written.kind == "diff":
        emit(fitted.written.text, output)
    for text in fitted.written.by_hand:
        print(f"rlmem: by hand: {text}", file=sys.stderr)
    if not fitted.fit.end.steps:
        whys = {
            "already": "it fits as it is",
            "grows": "it leaks, and no setting makes a leak fit",
            "unknown": "RAM fits as it is",
        }
        why = whys.get(fitted.fit.status, "no step that is allowed helps")
        print(f"rlmem: no diff: {why}", file=sys.stderr)


def _wishes(kept: tuple[str, ...], max_slowdown: float | None, *, lossless: bool) -> Wishes:
    from rlmem.fields import find_field
    from rlmem.remedies.base import KINDS, Wishes

    names = [name.strip() for item in kept for name in item.split(",") if name.strip()]
    try:
        paths = frozenset(find_field(name).path for name in names)
    except SpecError as error:
        raise error.located("--keep") from None
    return Wishes(keep=paths, kinds=KINDS[:1] if lossless else KINDS, max_slowdown=max_slowdown)


def _described(
    target: Target, options: tuple[str | None, str | None, str | None, str | None], wishes: Wishes
) -> Fitted:
    from rlmem.remedies.program import run_file
    from rlmem.remedies.search import Search
    from rlmem.sources import read_description
    from rlmem.trace.fitted import Fitted

    planner = make_planner(*options)
    asked = read_description(target)
    fit = Search(lambda spec: planner.plan(spec, findings=False), wishes).fit(
        asked, planner.plan(asked, findings=False)
    )
    return Fitted(fit=fit, written=run_file(fit.end))


def _run(
    target: Target,
    options: tuple[str | None, str | None, str | None, str | None],
    timeout: float | None,
    cap: str | None,
    wishes: Wishes,
) -> tuple[Job, Fitted]:
    from rlmem.budget import cap_bytes, make_budget
    from rlmem.measure.calibration import read_calibration
    from rlmem.planner import Planner
    from rlmem.report.progress import working
    from rlmem.trace.changes import prepare_run
    from rlmem.trace.fitted import Job
    from rlmem.trace.fitting import fit_target

    ram, vram, machine, _ = options
    found, changes, device = prepare_run(target)
    planner = Planner(make_budget(ram=ram, vram=vram, machine=machine), read_calibration(found.python))
    job = Job(
        planner=planner,
        target=found,
        changes=changes,
        device=device or ("cuda" if planner.budget.vram_bytes else None),
        cap_bytes=cap_bytes(cap),
        time_s=timeout,
        working=working,
    )
    return job, fit_target(job, wishes)


def _verified(target: Target, job: Job | None, fitted: Fitted) -> Verified:
    from rlmem.report.progress import working
    from rlmem.trace.verifying import verify_described, verify_run

    limits = _point_options(fitted, target if job is None else replace(target, args=job.target.args))
    if job is None:
        return verify_described(target, fitted, limits, working)
    return verify_run(job.target, fitted, limits, working)


def _point_options(fitted: Fitted, target: Target) -> PointOptions:
    """Measured under the budget itself, as far as this machine has it."""
    from rlmem.budget import cap_bytes
    from rlmem.points import PointOptions

    here, asked = cap_bytes(None), fitted.fit.start.plan.budget.ram_bytes
    caps = [size for size in (here, asked) if size is not None]
    return PointOptions(
        python=target.python,
        args=target.args,
        sets=target.sets,
        cap_bytes=min(caps, default=None),
        time_limit_s=VERIFY_S,
    )


def _applied(draft: Draft) -> dict[str, Any]:
    from rlmem.trace.applying import write_edited

    files = []
    for path, (before, after) in draft.files().items():
        backup = write_edited(path, before, after)
        print(f"wrote {path}; the old one is {backup}", file=sys.stderr)
        files.append({"path": str(path), "backup": str(backup)})
    return {**files[0], "files": files}
