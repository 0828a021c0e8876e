"""What commands share: options, output, and writing files whole or not at all."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from rlmem.cli import completion
from rlmem.errors import UsageError

if TYPE_CHECKING:
    from rlmem.core.plan import Budget
    from rlmem.documents.contract import Document
    from rlmem.report.view import View

F = TypeVar("F", bound=Callable[..., Any])
Command = Callable[..., int]
FORMATS = ("text", "markdown", "json")
_UNIT = "rlmem.unit"


def in_typed_unit(context: click.Context, parameter: click.Parameter, value: str | None) -> str | None:
    """Answer in the unit of the first size that was typed; a callback of options that take sizes."""
    from rlmem.units import answering_in

    percentage = value is not None and value.strip().endswith("%")
    if value is not None and not percentage and not context.meta.get(_UNIT):
        context.meta[_UNIT] = True
        context.with_resource(answering_in(value.split(",")[0].strip()))
    return value


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What a run may use, as it was typed: ``--ram``, ``--vram`` and ``--machine``."""

    ram: str | None = None
    vram: str | None = None
    machine: str | None = None

    @property
    def words(self) -> tuple[str | None, str | None, str | None]:
        """The three as they were typed."""
        return self.ram, self.vram, self.machine

    def budget(self) -> Budget:
        """Return the budget they mean; without any, what this process may use."""
        from rlmem.budget import make_budget

        return make_budget(ram=self.ram, vram=self.vram, machine=self.machine)


def budget_options(function: Command) -> Command:
    """``--ram``, ``--vram`` and ``--machine``, which a command gets as ``limits``; and ``--python``."""

    @wraps(function)
    def command(*, ram: str | None, vram: str | None, machine: str | None, **others: Any) -> int:
        return function(limits=Limits(ram=ram, vram=vram, machine=machine), **others)

    command = click.option(
        "--python",
        metavar="PATH",
        shell_complete=completion.files,
        help="The run's own interpreter, if it was calibrated ('rlmem calibrate --python PATH').",
    )(command)
    command = click.option(
        "--machine",
        metavar="NAME",
        shell_complete=completion.machine,
        help="A machine from the catalogue ('rlmem machines').",
    )(command)
    command = click.option(
        "--vram", metavar="SIZE", callback=in_typed_unit, help="Memory of the GPU, such as 16GB or 24GiB."
    )(command)
    return click.option(
        "--ram",
        metavar="SIZE",
        callback=in_typed_unit,
        help="Memory the run may use, such as 30GB. Default: the limit of this process's cgroup, else the machine's memory.",
    )(command)


def set_option(function: F) -> F:
    """``--set path=value``, repeatable."""
    return click.option(
        "--set",
        "sets",
        metavar="PATH=VALUE",
        multiple=True,
        help="Change a field, such as n_envs=4 or framework.version=2.3.2; repeatable.",
    )(function)


@dataclass(frozen=True, slots=True, kw_only=True)
class Output:
    """How a result is written, and where: ``--json``, ``--format`` and ``-o``."""

    format: str = "text"
    path: Path | None = None

    def show(self, document: Document, view: Callable[[Any], View] | None = None) -> None:
        """Print a document in the format that was asked for, or write it to the file; by default in the view of its kind."""
        from rlmem.report.render import render_view
        from rlmem.report.views import view_of

        self.write(render_view(document, view or view_of, self.format, self.path))

    def write(self, text: str) -> None:
        """Print a text, or write it to the file."""
        emit(text, self.path)


def output_options(function: Command) -> Command:
    """``--json``, ``--format`` and ``-o``, which a command gets as ``out``."""

    @wraps(function)
    def command(*, as_json: bool, format_: str | None, output: Path | None, **others: Any) -> int:
        return function(out=Output(format=chosen_format(format_, output, as_json=as_json), path=output), **others)

    command = click.option(
        "-o",
        "--output",
        type=click.Path(path_type=Path),
        metavar="FILE",
        help="Write to a file (.md and .json choose the format); whole or not at all.",
    )(command)
    command = click.option("--format", "format_", type=click.Choice(FORMATS), help="Output format.")(command)
    return click.option("--json", "as_json", is_flag=True, help="Machine-readable output; same as --format json.")(
        command
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class HtmlFile:
    """An HTML report beside the result: ``--html`` and ``--redact``."""

    path: Path | None = None
    redact: bool = False

    def check(self, target: str = "") -> None:
        """Fail before the work rather than after; ``target`` is a file that it must not write over."""
        html = self.path
        if html is not None and str(html) == "-":
            raise UsageError("--html -: a report is a file; give it a name such as report.html")
        if html is not None and html.exists() and html.resolve() == Path(target).resolve():
            raise UsageError(f"--html {html} would write over the target itself")
        if self.redact and html is None:
            raise UsageError("--redact is for the HTML report: give --html FILE too")
        if html is not None and not html.resolve().parent.is_dir():
            raise UsageError(f"cannot write {html}: no such folder")

    def write(self, make: Callable[[], Any], names: frozenset[str] = frozenset()) -> None:
        """Write the report where one is asked for, and say so on standard error; a redacted one has no ``names`` either."""
        if self.path is None:
            return
        from rlmem.report.html.render import render_html
        from rlmem.report.redact import own_names, redacted

        document = make()
        shown = redacted(document, own_names() | names) if self.redact else document
        emit(render_html(shown), self.path)


def html_options(function: Command) -> Command:
    """``--html`` and ``--redact``, which a command gets as ``report``."""

    @wraps(function)
    def command(*, html: Path | None, redact: bool, **others: Any) -> int:
        return function(report=HtmlFile(path=html, redact=redact), **others)

    command = click.option(
        "--redact", is_flag=True, help="Leave folders, host and user names out of the HTML report and its data."
    )(command)
    return click.option(
        "--html",
        type=click.Path(path_type=Path),
        metavar="FILE",
        help="Write the report as one HTML file too: pictures, formulas, remedies; opens from disk, needs no network.",
    )(command)


def read_share(text: str, option: str) -> float:
    """A share given with an option, such as 10% or 0.1."""
    number, percent, rest = text.strip().partition("%")
    try:
        value = float(number) / (100 if percent else 1)
    except ValueError:
        raise UsageError(f"{option} {text!r} is not a share; write it like 10% or 0.1") from None
    if rest.strip() or not 0 <= value < 1:
        raise UsageError(f"{option} {text!r}: at least 0 and below 100%, such as 10%")
    return value


def chosen_format(format_: str | None, output: Path | None, *, as_json: bool) -> str:
    """The format asked for, else the one the file's name says, else text."""
    if as_json and format_ not in (None, "json"):
        raise UsageError(f"--json and --format {format_} contradict each other")
    if as_json:
        return "json"
    if format_ is None and output is not None:
        return {".md": "markdown", ".markdown": "markdown", ".json": "json"}.get(output.suffix.lower(), "text")
    return format_ or "text"


def emit(text: str, output: Path | None) -> None:
    """Print, or write a file atomically and say so on standard error."""
    if output is None:
        sys.stdout.write(text if text.endswith("\n") else f"{text}\n")
        return
    write_whole(output, text if text.endswith("\n") else f"{text}\n")
    print(f"wrote {output}", file=sys.stderr)


def write_whole(path: Path, content: str | bytes) -> None:
    """Replace a file in one step: a temporary beside it, then a rename; nothing is left behind on failure.

    A pipe or a device is written to: renaming a file over ``/dev/null`` would be a surprise.
    """
    data = content if isinstance(content, bytes) else content.encode("utf-8", errors="replace")
    try:
        if path.exists() and not path.is_file() and not path.is_dir():
            path.write_bytes(data)
            return
    except OSError as error:
        raise UsageError(f"cannot write {path}: {error.strerror or error}") from None
    asked, path = path, path.resolve()  # through a link, not over it
    folder = path.parent
    try:
        # mkstemp makes the file private; a report should be as readable as any other new file.
        handle, temporary = tempfile.mkstemp(prefix=".rlmem-", dir=folder)
    except OSError as error:
        raise UsageError(f"cannot write {asked}: {error.strerror or error}") from None
    try:
        with os.fdopen(handle, "wb") as stream:
            stream.write(data)
        mask = os.umask(0)
        os.umask(mask)
        os.chmod(temporary, 0o666 & ~mask)
        os.replace(temporary, path)
    except OSError as error:
        raise UsageError(f"cannot write {asked}: {error.strerror or error}") from None
    finally:
        Path(temporary).unlink(missing_ok=True)
