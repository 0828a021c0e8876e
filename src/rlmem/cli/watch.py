"""``rlmem watch``."""

from __future__ import annotations

import json
import sys
import time
from contextlib import ExitStack
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

import click

from rlmem.cli.common import in_typed_unit
from rlmem.errors import UsageError

if TYPE_CHECKING:
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
    from rlmem.watch.thresholds import Thresholds, parse_level
    from rlmem.watch.watching import watch_all
    from rlmem.watch.words import parse_duration

    if plain and as_json:
        raise UsageError("--plain and --json contradict each other")
    seconds = parse_duration(for_) if for_ else None
    spacing = parse_duration(every) if every else 0.0 if as_json else PLAIN_EVERY
    thresholds = Thresholds(
        warn_at=parse_level(warn_at, "--warn-at") if warn_at else None,
        fail_at=parse_level(fail_at, "--fail-at") if fail_at else None,
        fail_on=fail_on,
    )
    watching = watch_all(
        _numbers(pids, names, cgroups),
        cgroups=cgroups,
        interval_s=interval,
        owners=not no_owners,
        thresholds=thresholds,
    )
    with ExitStack() as stack:
        if prometheus is not None:
            from rlmem.watch.prometheus import Exporter

            exporter = Exporter(prometheus, lambda: watching.frames, host=prometheus_host)
            exporter.start()
            stack.callback(exporter.stop)
            print(f"serving {exporter.url}", file=sys.stderr)
        if not (plain or as_json) and sys.stdout.isatty() and _dashboard(watching, interval, seconds):
            return _finish(watching)
        return _lines(watching, interval, seconds, spacing, as_json=as_json)


def _numbers(pids: tuple[str, ...], names: tuple[str, ...], cgroups: tuple[Path, ...]) -> list[int]:
    from rlmem.measure.processes import by_name

    found = []
    for word in pids:
        if not (word.isascii() and word.isdecimal()):
            raise UsageError(f"{word[:60]!r} is not the number of a process; --name finds one by its command")
        found.append(int(word))
    for name in names:
        matches = by_name(name)
        if not matches:
            raise UsageError(f"--name {name}: no process has that in its command")
        found += (process.pid for process in matches)
    if not found and not cgroups:
        raise UsageError("what to watch? Give a PID, --name TEXT or --cgroup PATH")
    return found


def _dashboard(watching: Watching, interval: float, seconds: float | None) -> bool:
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
    Dashboard(watching, interval_s=interval, seconds=seconds).run()
    return True


def _lines(watching: Watching, interval: float, seconds: float | None, spacing: float, *, as_json: bool) -> int:
    """Sample until it is over, and write a line when one is due or a verdict changes."""
    from rlmem.report.lines import text_width
    from rlmem.report.watch import moment_document, plain_line

    begin = due = time.monotonic()
    next_line: dict[str, float] = {}
    states: dict[str, str] = {}
    noted: set[tuple[str, str]] = set()
    try:
        while not watching.is_over and (seconds is None or time.monotonic() - begin < seconds):
            for frame in watching.step():
                now = time.monotonic()
                for note in frame.moment.notes:  # once; JSON lines have them anyway
                    if not as_json and (frame.title, note) not in noted:
                        print(_fitted(f"{frame.title}: {note}", sys.stdout), flush=True)
                        noted.add((frame.title, note))
                changed = states.get(frame.title, frame.judgement.state) != frame.judgement.state
                states[frame.title] = frame.judgement.state
                if now < next_line.get(frame.title, 0.0) and not changed:
                    continue
                next_line[frame.title] = now + spacing - interval / 2
                when = datetime.now()
                line = (
                    json.dumps(moment_document(frame, when))
                    if as_json
                    else plain_line(frame, when, text_width(sys.stdout))
                )
                print(line, flush=True)
            for said in watching.say():
                stream = sys.stderr if as_json or said.startswith("warning") else sys.stdout
                print(_fitted(said, stream), file=stream, flush=True)
            due = max(due + interval, time.monotonic())
            if not watching.is_over:
                time.sleep(max(0.0, due - time.monotonic()))
    except KeyboardInterrupt:
        if not any(target.frame for target in watching.targets):
            raise
        print(file=sys.stderr)
    return _finish(watching, to_stderr=as_json)


def _finish(watching: Watching, *, to_stderr: bool = False) -> int:
    """A line on each target, and the exit code."""
    from rlmem.report.watch import summary_line

    stream = sys.stderr if to_stderr else sys.stdout
    for said in watching.say():
        print(_fitted(said, stream), file=stream)
    for target in watching.targets:
        if target.frame is not None:
            target.session.decide(has_ended=bool(target.end))
        print(_fitted(summary_line(target), stream), file=stream)
    if watching.failure:
        print(_fitted(f"rlmem: {watching.failure}", sys.stderr), file=sys.stderr)
        return 1
    return 0


def _fitted(text: str, stream: TextIO) -> str:
    """A line as a terminal holds it."""
    from rlmem.report.lines import hanging, text_width

    return hanging("", text, text_width(stream))
