"""``rlmem run``."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from rlmem.cli import completion
from rlmem.cli.common import in_typed_unit, write_whole
from rlmem.errors import UsageError, did_you_mean

if TYPE_CHECKING:
    from rlmem.documents.recorded import RecordedDocument


@click.command("run", context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False})
@click.argument(
    "words", nargs=-1, type=click.UNPROCESSED, metavar="-- COMMAND [ARGS]...", shell_complete=completion.command_words
)
@click.option(
    "--max-ram",
    metavar="SIZE",
    callback=in_typed_unit,
    help="Memory its processes may use together, such as 15GB. Needs no root.",
)
@click.option("--max-vram", metavar="SIZE", callback=in_typed_unit, help="Memory of the GPU it may use.")
@click.option("--max-threads", type=click.IntRange(min=1), metavar="N", help="Threads its processes may have together.")
@click.option(
    "--warn-at",
    type=click.FloatRange(1, 100),
    default=80.0,
    show_default=True,
    metavar="PERCENT",
    help="Say who holds the memory when so much of the limit is used.",
)
@click.option(
    "--act-at",
    type=click.FloatRange(1, 100),
    default=92.0,
    show_default=True,
    metavar="PERCENT",
    help="Do what --on-pressure says when so much of the limit is used.",
)
@click.option(
    "--on-pressure",
    metavar="ACTION",
    help="checkpoint, stop, signal:USR1 or none. Default: stop with a limit of your own, else none.",
)
@click.option(
    "--checkpoint-to",
    type=click.Path(path_type=Path, file_okay=False),
    default=Path("rlmem-checkpoints"),
    show_default=True,
    metavar="FOLDER",
    help="Where checkpoints go, each in a folder named by its step.",
)
@click.option(
    "--grace",
    type=click.FloatRange(min=0),
    default=30.0,
    show_default=True,
    metavar="SECONDS",
    help="Time to take a checkpoint, and between SIGTERM and SIGKILL.",
)
@click.option(
    "--interval",
    type=click.FloatRange(0.05, 3600),
    default=1.0,
    show_default=True,
    metavar="SECONDS",
    help="Look so often.",
)
@click.option("--no-record", is_flag=True, help="Keep nothing in the store.")
@click.option("--json", "as_json", is_flag=True, help="Write the summary as JSON to the file of -o.")
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="Write the report to a file at the end (.md and .json choose the format).",
)
@click.option("-q", "--quiet", is_flag=True, help="Say nothing at the end of a run that ended well.")
def command(
    words: tuple[str, ...],
    max_ram: str | None,
    max_vram: str | None,
    max_threads: int | None,
    warn_at: float,
    act_at: float,
    on_pressure: str | None,
    checkpoint_to: Path,
    grace: float,
    interval: float,
    no_record: bool,
    as_json: bool,
    output: Path | None,
    quiet: bool,
) -> int:
    """Run a command, recorded and guarded; say at its end who held the memory, and why it died if it did.

    The command keeps the terminal, its input and output, and its exit code; what rlmem has to say goes to standard
    error. The run is kept in the store: 'rlmem assess RUN' is its report.

    \b
    Examples:
      rlmem run -- python train.py
      rlmem run --max-ram 15GB --max-threads 30 --on-pressure checkpoint -- python train.py
      rlmem run --on-pressure signal:USR1 --act-at 85 -- python train.py
      rlmem run --max-ram 8GB -o report.md -- python train.py --seed 1

    \b
    Exit code: the command's own, 128 + n when signal n ended it, 127 when there is no such command,
      126 when it cannot be run, 2 for wrong usage.
    """
    from rlmem.app.run import RunRequest, run
    from rlmem.report.recorded import summary_lines
    from rlmem.runner.guarding import Policy, parse_action
    from rlmem.units import parse_size

    if words and words[0].startswith("-") and words[0] != "--":
        known = (name for option in click.get_current_context().command.params for name in option.opts)
        raise UsageError(f"rlmem run has no option {words[0]}{did_you_mean(words[0], known)}; see 'rlmem run --help'")
    words = words[1:] if words and words[0] == "--" else words
    if not words:
        raise UsageError("no command to run; write it behind --, such as: rlmem run -- python train.py")
    if as_json and output is None:
        raise UsageError("--json needs a file (-o FILE): standard output belongs to the command")
    if warn_at > act_at:
        raise UsageError(f"--warn-at {warn_at:g} is above --act-at {act_at:g}")
    limited = max_ram or max_vram or max_threads
    action, number = parse_action(on_pressure or ("stop" if limited else "none"))
    policy = Policy(
        max_ram_bytes=parse_size(max_ram) if max_ram else None,
        max_vram_bytes=parse_size(max_vram) if max_vram else None,
        max_threads=max_threads,
        warn_at=warn_at / 100,
        act_at=act_at / 100,
        action=action,
        signal=number,
        grace_s=grace,
        checkpoint_to=str(checkpoint_to.absolute()),
    )
    request = RunRequest(
        command=words,
        policy=policy,
        interval_s=interval,
        is_kept=not no_record,
        invocation=("rlmem", *sys.argv[1:]),
    )
    outcome = run(request, _say)
    ended = outcome.ended
    try:
        document = outcome.document()
        lines = summary_lines(document)
    except Exception as error:  # a mistake of ours must not cost the command its exit code
        _say(f"cannot report on it: {type(error).__name__}: {error}")
        return ended.exit_code
    if output is not None:
        _write(document, output, as_json=as_json)
    if not quiet or ended.status != "ok" or ended.postmortem is not None:
        for line in lines:
            _say(line)
    return ended.exit_code


def _write(document: RecordedDocument, output: Path, *, as_json: bool) -> None:
    from rlmem.cli.common import chosen_format
    from rlmem.report.recorded import recorded_view
    from rlmem.report.render import render_view

    text = render_view(document, recorded_view, chosen_format(None, output, as_json=as_json), output)
    write_whole(output, text if text.endswith("\n") else f"{text}\n")


def _say(text: str) -> None:
    """On standard error, past a progress bar that the command may be drawing there."""
    from rlmem.report.lines import hanging, text_width

    try:
        lead = "\r\x1b[K" if sys.stderr.isatty() else ""
        print(lead + hanging("rlmem: ", text, text_width(sys.stderr)), file=sys.stderr, flush=True)
    except (OSError, ValueError):  # closed: the run matters more than what we say about it
        pass
