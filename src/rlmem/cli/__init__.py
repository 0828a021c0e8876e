"""The command line: one module per command, loaded when it is called."""

from __future__ import annotations

import io
import os
import sys
from importlib import import_module
from typing import Any

import click

from rlmem.errors import RlmemError, did_you_mean
from rlmem.version import __version__

#: Command to its one-line help; the module is ``rlmem.cli.NAME`` and holds ``command``.
COMMANDS = {
    "plan": "Say what a run will need, by component and phase, and whether it fits.",
    "capacity": "How far a knob can be turned on given machines.",
    "fit": "The smallest change that makes a run fit, as a plan, a diff or fields to set.",
    "workers": "How many trials of a run fit at once on given nodes, where they go, and what stops more.",
    "max-buffer": "The largest replay buffer that fits an environment and an algorithm.",
    "measure": "Measure a run in fresh processes, over a range of values.",
    "bench": "Speed, reward and memory of named profiles, each in a fresh process.",
    "explain": "Say what holds the memory of a running process, page by page.",
    "watch": "Watch running processes: owners, growth, forecast, limits.",
    "serve": "The planner, live processes and stored runs in a browser.",
    "compare": "Two plans, stored runs or processes side by side, line by line.",
    "assess": "Write the memory assessment of a run as a document.",
    "run": "Run a command, recorded and guarded; say who held the memory, and why it died.",
    "runs": "List stored results, or delete one.",
    "show": "Show a stored run, or a document saved with --json.",
    "presets": "List the built-in runs, or print one as YAML.",
    "machines": "List named machines, or what this process may use.",
    "lint": "Find memory mistakes in training scripts, without running them; fix what can be fixed.",
    "rule": "The manual page of a rule, or the list of rules.",
    "schema": "The JSON Schemas of what rlmem reads and prints.",
    "calibrate": "Measure the runtime constants of this environment.",
    "five-runs": "Write the page on the five reference runs.",
}


class LazyGroup(click.Group):
    """A group whose help needs none of its commands imported."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Commands in table order."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import a command's module on first use."""
        if cmd_name not in COMMANDS:
            return None
        command: click.Command = import_module(f"rlmem.cli.{cmd_name.replace('-', '_')}").command
        return command

    def resolve_command(self, ctx: click.Context, args: list[str]) -> Any:
        """An unknown command suggests the nearest one."""
        if args and args[0] not in COMMANDS and not args[0].startswith("-"):
            ctx.fail(f"no such command {args[0]!r}{did_you_mean(args[0], COMMANDS)}; 'rlmem --help' lists all")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The table is the help."""
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))


@click.group(
    cls=LazyGroup,
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110},
)
@click.version_option(__version__, prog_name="rlmem")
@click.pass_context
def app(context: click.Context) -> None:
    """Memory for reinforcement learning: what a run needs before it runs, and who holds it while it does.

    \b
    Examples:
      rlmem plan pidog-sac --ram 30GB
      rlmem plan run.yaml --json
      rlmem capacity drone-swarm --vary agents --machines 8GB,16GB,24GB,80GB
      rlmem compare drone-swarm drone-swarm --set-right history=100
      rlmem assess pidog-sac --ram 30GB -o assessment.md
      rlmem run --max-ram 15GB -- python train.py
      rlmem explain --name train.py

    \b
    Exit codes: 0 fine, 1 does not fit or will not work as described,
      2 wrong usage or input, 3 could not analyse,
      4 something asked for is unknown, 5 it grows without an end.
    """
    if context.invoked_subcommand is None:
        click.echo(context.get_help())


def main(argv: list[str] | None = None) -> None:
    """Run the command line; every error becomes one line and an exit code."""
    for name in ("stdout", "stderr"):  # closed by whoever started us: what is said goes nowhere
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115
    # A terminal that cannot show "◄" or a file name that is not text should not end a plan.
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")
    if "_RLMEM_COMPLETE" in os.environ:
        from rlmem.cli.completion import register

        register()
    sys.exit(run(argv))


def run(argv: list[str] | None = None) -> int:
    """The exit code of one invocation."""
    try:
        result = app.main(args=argv, prog_name="rlmem", standalone_mode=False)
        sys.stdout.flush()
        return result if isinstance(result, int) else 0
    except click.exceptions.Exit as exit_:
        return exit_.exit_code
    except SystemExit as exit_:
        if isinstance(exit_.code, int) and exit_.code >= 128:  # told to end by a signal
            return exit_.code
        return _pipe_closed()  # click's own answer to a closed pipe, which would read as "does not fit"
    except click.Abort:
        return _say("interrupted; nothing was written", 130)
    except KeyboardInterrupt:
        return _say("interrupted; nothing was written", 130)
    except click.NoSuchOption as error:
        from rlmem.cli.script_options import as_meant

        meant = as_meant(error, sys.argv[1:] if argv is None else argv)
        if meant is None:
            return _usage(error)
        return _say(
            f"{error.ctx.command_path if error.ctx else 'rlmem'} has no option {error.option_name}; arguments of a script come after '--': {meant}",
            2,
        )
    except click.ClickException as error:
        return _usage(error)
    except RlmemError as error:
        return _say(str(error), error.exit_code)
    except BrokenPipeError:
        return _pipe_closed()
    except OSError as error:
        _silence_stdout()
        return _say(str(error) if error.filename else f"cannot write the output: {error.strerror or error}", 3)
    except MemoryError:
        return _say("out of memory while planning", 3)


def _pipe_closed() -> int:
    """The reader went away (``| head``): it has what it wanted."""
    _silence_stdout()
    return 0


def _silence_stdout() -> None:
    """Point standard output elsewhere, so that the interpreter's own flush at the end stays quiet."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _usage(error: click.ClickException) -> int:
    context = getattr(error, "ctx", None)
    help_hint = f" (see '{context.command_path} --help')" if context else ""
    return _say(f"{error.format_message()}{help_hint}", 2)


def _say(message: str, code: int) -> int:
    print(f"rlmem: {message}", file=sys.stderr)
    return code
