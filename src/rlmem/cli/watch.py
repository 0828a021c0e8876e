"""``rlmem watch``."""

from __future__ import annotations

import json
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

import click

from rlmem.cli.common import in_typed_unit
from rlmem.errors import UsageError

if TYPE_CHECKING:
    from rlmem.app.watch import Event, WatchRequest
    from rlmem.watch.watching import Watching

#: Seconds between plain lines; a change of the verdict is told at once.
PLAIN_EVERY = 10.0
SHORTEST = 0.05


@click.command("watch")
@click.argument("pids", nargs=-1, metavar="[PID]...")
@click.option("--name", "names", metavar="TEXT", multiple=True, help="Processes whose command holds TEXT; repeatable.")
@click.option(
    "--cgroup",
    "cgroups",
    metavar="PATH",
    type=click.Path(path_type=Path),
    multiple=True,
    help="Everybody in a cgroup, such as a container's; its file cache is shown apart.",
)
@click.option(
    "--interval", metavar="SECONDS", type=click.FloatRange(min=SHORTEST), default=1.0, show_default=True,
    help="Time between samples.",
)  # fmt: skip
@click.option("--for", "for_", metavar="DURATION", help="End after this time, such as 90s, 10min or 1h30.")
@click.option("--plain", is_flag=True, help="Lines of text; the default when the output is no terminal.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object a line and sample (schema rlmem.moment/1).")
@click.option(
    "--every", metavar="DURATION", help="Time between lines. Default: 10s for text, every sample for --json."
)  # fmt: skip
@click.option("--no-owners", is_flag=True, help="Never ask the program's agent which objects hold its memory.")
@click.option("--prometheus", metavar="PORT", type=click.IntRange(0, 65535), help="Serve /metrics on this port.")
@click.option("--prometheus-host", metavar="HOST", default="127.0.0.1", show_default=True, help="Address to serve on.")
@click.option(
    "--warn-at",
    metavar="SIZE|PERCENT",
    callback=in_typed_unit,
    help="Say so when memory passes 12GB, or 80% of the limit.",
)
@click.option(
    "--fail-at", metavar="SIZE|PERCENT", callback=in_typed_unit, help="End with exit code 1 when memory passes it."
)
@click.option(
    "--fail-on", type=click.Choice(["leaking", "stuck"]), multiple=True,
    help="End with exit code 1 on this verdict; repeatable.",
)  # fmt: skip
def command(
    pids: tuple[str, ...],
    names: tuple[str, ...],
    cgroups: tuple[Path, ...],
    interval: float,
    for_: str | None,
    plain: bool,
    as_json: bool,
    every: str | None,
    no_owners: bool,
    prometheus: int | None,
    prometheus_host: str,
    warn_at: str | None,
    fail_at: str | None,
    fail_on: tuple[str, ...],
) -> int:
    """Watch running processes: totals, owners, growth, the limit that will bite, and what it will come to.

    Each PID is watched with its children. The verdict is normal, filling (what grows has a known end), leaking
    (something grows without one), stuck (no CPU time, no steps) or unknown (too short, or owners have no names). Names
    of owners need an agent in the program: start it with 'rlmem run', or put 'import rlmem.preload' into it.

    \b
    Examples:
      rlmem watch 47068
      rlmem watch --name train.py --plain --every 1min >> memory.log
      rlmem watch 47068 47069 --json --for 10min | jq .judgement.state
      rlmem watch 47068 --fail-at 90% --fail-on leaking || kill 47068
      rlmem watch --cgroup /sys/fs/cgroup/system.slice/docker-ab.scope --prometheus 9108

    Keys in a terminal: q quit, p pause, e ask for owners now, n next process. Exits 0 when the processes have ended or
    after Ctrl-C, 1 when --fail-at or --fail-on was met, 130 after Ctrl-C before anything was seen.
    """
    from rlmem.app.watch import WatchRequest, open_watching
    from rlmem.units import parse_duration
    from rlmem.watch.thresholds import Thresholds, parse_level

    if plain and as_json:
        raise UsageError("--plain and --json contradict each other")
    request = WatchRequest(
        pids=pids,
        names=names,
        cgroups=cgroups,
        interval_s=interval,
        for_s=parse_duration(for_) if for_ else None,
        every_s=parse_duration(every) if every else 0.0 if as_json else PLAIN_EVERY,
        asks_owners=not no_owners,
        thresholds=Thresholds(
            warn_at=parse_level(warn_at, "--warn-at") if warn_at else None,
            fail_at=parse_level(fail_at, "--fail-at") if fail_at else None,
            fail_on=fail_on,
        ),
    )
    watching = open_watching(request)
    with ExitStack() as stack:
        if prometheus is not None:
            from rlmem.watch.prometheus import Exporter

            exporter = Exporter(prometheus, lambda: watching.frames, host=prometheus_host)
            exporter.start()
            stack.callback(exporter.stop)
            print(f"serving {exporter.url}", file=sys.stderr)
        if not (plain or as_json) and sys.stdout.isatty() and _dashboard(watching, request):
            return _finish(watching)
        return _lines(watching, request, as_json=as_json)


def _dashboard(watching: Watching, request: WatchRequest) -> bool:
    """The dashboard, where Textual is installed; else a line that says so."""
    try:
        from rlmem.report.dashboard import Dashboard
    except ModuleNotFoundError as error:
        if (error.name or "").split(".")[0] not in {"textual", "rich"}:
            raise
        print(
            "the dashboard needs Textual: pip install 'rlmem[watch]'; plain lines follow (--plain asks for them)",
            file=sys.stderr,
        )
        return False
    Dashboard(watching, interval_s=request.interval_s, seconds=request.for_s).run()
    return True


def _lines(watching: Watching, request: WatchRequest, *, as_json: bool) -> int:
    """Write a line for each event."""
    from rlmem.app.watch import watch

    try:
        for event in watch(watching, request):
            _show(event, as_json=as_json)
    except KeyboardInterrupt:
        if not any(target.frame for target in watching.targets):
            raise
        print(file=sys.stderr)
    return _finish(watching, to_stderr=as_json)


def _show(event: Event, *, as_json: bool) -> None:
    from rlmem.app.watch import Noted, Seen, moment_document
    from rlmem.documents.contract import to_plain
    from rlmem.report.lines import text_width
    from rlmem.report.watch import plain_line

    match event:
        case Seen(frame=frame, when=when) if as_json:
            print(json.dumps(to_plain(moment_document(frame, when))), flush=True)
        case Seen(frame=frame, when=when):
            print(plain_line(frame, when, text_width(sys.stdout)), flush=True)
        case Noted(title=title, note=note):
            if not as_json:  # JSON has them in each line
                print(_fitted(f"{title}: {note}", sys.stdout), flush=True)
        case said:
            stream = sys.stderr if as_json or said.is_warning else sys.stdout
            print(_fitted(said.text, stream), file=stream, flush=True)


def _finish(watching: Watching, *, to_stderr: bool = False) -> int:
    """A line on each target, and the exit code."""
    from rlmem.app.watch import finish
    from rlmem.report.watch import summary_line

    stream = sys.stderr if to_stderr else sys.stdout
    said, targets = finish(watching)
    for text in (*(event.text for event in said), *map(summary_line, targets)):
        print(_fitted(text, stream), file=stream)
    if watching.failure:
        print(_fitted(f"rlmem: {watching.failure}", sys.stderr), file=sys.stderr)
        return 1
    return 0


def _fitted(text: str, stream: TextIO) -> str:
    """A line as a terminal holds it."""
    from rlmem.report.lines import hanging, text_width

    return hanging("", text, text_width(stream))
