"""``python -m rlmem.swarm COMMAND``: one module per command, loaded when it is called."""

from __future__ import annotations

import io
import os
import sys
from importlib import import_module
from typing import Any

import click

from rlmem.cli.swarm_options import PROGRAM
from rlmem.errors import RlmemError, did_you_mean

#: Command to the module that holds its ``command``, and its one-line help.
COMMANDS = {
    "train": ("rlmem.cli.swarm_train", "Train a swarm of drones: plan, progress, checkpoints, reward curve."),
    "ladder": ("rlmem.cli.swarm_ladder", "Measure every version of the algorithm beside its plan."),
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
        command: click.Command = import_module(COMMANDS[cmd_name][0]).command
        return command

    def resolve_command(self, ctx: click.Context, args: list[str]) -> Any:
        """An unknown command suggests the nearest one."""
        if args and args[0] not in COMMANDS and not args[0].startswith("-"):
            ctx.fail(f"no such command {args[0]!r}{did_you_mean(args[0], COMMANDS)}")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The table is the help."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, text) for name, (_, text) in COMMANDS.items()])


@click.group(
    cls=LazyGroup,
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110},
)
@click.pass_context
def app(context: click.Context) -> None:
    """A swarm of drones that learns to fly, in as little memory as it takes.

    \b
    Examples:
      python -m rlmem.swarm train --agents 20_000 --iterations 50
      python -m rlmem.swarm train --agents 1M --device cuda --vram 16GB

    \b
    Exit codes: 0 fine, 1 does not fit, 2 wrong usage or input, 3 could not go on,
      130 after Ctrl-C (the run is kept and can be resumed).
    """
    if context.invoked_subcommand is None:
        click.echo(context.get_help())


def main(argv: list[str] | None = None) -> None:
    """Run the command line; every error becomes one line and an exit code."""
    for name in ("stdout", "stderr"):  # closed by whoever started us: what is said goes nowhere
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115
    if isinstance(sys.stdout, io.TextIOWrapper):  # a terminal that cannot show "▇" should not end a training
        sys.stdout.reconfigure(errors="replace")
    sys.exit(run(argv))


def run(argv: list[str] | None = None) -> int:
    """The exit code of one invocation."""
    try:
        result = app.main(args=argv, prog_name=PROGRAM, standalone_mode=False)
        sys.stdout.flush()
        return result if isinstance(result, int) else 0
    except click.exceptions.Exit as exit_:
        return exit_.exit_code
    except (click.Abort, KeyboardInterrupt):
        return _say("interrupted; nothing more was written", 130)
    except click.ClickException as error:
        context = getattr(error, "ctx", None)
        help_hint = f" (see '{context.command_path} --help')" if context else ""
        return _say(f"{error.format_message()}{help_hint}", 2)
    except RlmemError as error:
        return _say(str(error), error.exit_code)
    except (BrokenPipeError, SystemExit):  # the reader went away (``| head``): it has what it wanted
        _silence_stdout()
        return 0
    except OSError as error:
        _silence_stdout()
        return _say(str(error) if error.filename else f"cannot write the output: {error.strerror or error}", 3)
    except MemoryError:
        return _say("out of memory", 1)


def _silence_stdout() -> None:
    """Point standard output elsewhere, so that the interpreter's own flush at the end stays quiet."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _say(message: str, code: int) -> int:
    print(f"rlmem.swarm: {message}", file=sys.stderr)
    return code


if __name__ == "__main__":
    main()
