"""``rlmem run``."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from rlmem.cli import completion
from rlmem.cli.common import chosen_format, in_typed_unit, write_whole
from rlmem.errors import UsageError, did_you_mean

if TYPE_CHECKING:
    from rlmem.app.run import Outcome


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOutput:
    """What is said at the end of a run, and the report on it: ``--json``, ``-o`` and ``--quiet``."""

    as_json: bool = False
    path: Path | None = None
    quiet: bool = False

    def check(self) -> None:
        """Fail before the run rather than after."""
        if self.as_json and self.path is None:
            raise UsageError("--json needs a file (-o FILE): standard output belongs to the command")

    def show(self, outcome: Outcome) -> None:
        """Write the report where one is asked for, and say the end on standard error."""
        from rlmem.report.recorded import recorded_view, summary_lines
        from rlmem.report.render import render_view

        try:
            document = outcome.document()
            lines = summary_lines(document)
        except Exception as error:  # a mistake of ours must not cost the command its exit code
            _say(f"cannot report on it: {type(error).__name__}: {error}")
            return
        if self.path is not None:
            chosen = chosen_format(None, self.path, as_json=self.as_json)
            text = render_view(document, recorded_view, chosen, self.path)
            write_whole(self.path, text if text.endswith("\n") else f"{text}\n")
        if not self.quiet or outcome.ended.status != "ok" or outcome.ended.postmortem is not None:
            for line in lines:
                _say(line)


def _say(text: str) -> None:
    """On standard error, past a progress bar that the command may be drawing there."""
    from rlmem.report.lines import hanging, text_width

    try:
        lead = "\r\x1b[K" if sys.stderr.isatty() else ""
        print(lead + hanging("rlmem: ", text, text_width(sys.stderr)), file=sys.stderr, flush=True)
    except (OSError, ValueError):  # closed: the run matters more than what we say about it
        pass


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
    "grace_s",
    type=click.FloatRange(min=0),
    default=30.0,
    show_default=True,
    metavar="SECONDS",
    help="Time to take a checkpoint, and between SIGTERM and SIGKILL.",
)
@click.option(
    "--interval",
    "interval_s",
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
    words: tuple[str, ...], no_record: bool, as_json: bool, output: Path | None, quiet: bool, **options: Any
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

    if words and words[0].startswith("-") and words[0] != "--":
        known = (name for option in click.get_current_context().command.params for name in option.opts)
        raise UsageError(f"rlmem run has no option {words[0]}{did_you_mean(words[0], known)}; see 'rlmem run --help'")
    request = RunRequest(
        command=words[1:] if words and words[0] == "--" else words,
        is_kept=not no_record,
        invocation=("rlmem", *sys.argv[1:]),
        **options,
    )
    out = RunOutput(as_json=as_json, path=output, quiet=quiet)
    out.check()
    outcome = run(request, _say)
    out.show(outcome)
    return outcome.ended.exit_code
