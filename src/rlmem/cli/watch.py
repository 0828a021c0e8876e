"""``rlmem watch``."""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

import click

from rlmem.cli.common import in_typed_unit
from rlmem.errors import UsageError

if TYPE_CHECKING:
    from rlmem.app.watch import LiveTargets
    from rlmem.documents.watch import WatchEndPart, WatchEvent

#: Time between plain lines; a change of the verdict is told at once.
PLAIN_EVERY = "10s"
SHORTEST = 0.05


@dataclass(frozen=True, slots=True, kw_only=True)
class WatchOutput:
    """How a watch is shown: ``--plain``, ``--json``, or a dashboard in a terminal."""

    plain: bool = False
    as_json: bool = False

    def show(self, event: WatchEvent) -> None:
        """Print a line of an event; with ``--json`` moments are the only ones on standard output."""
        from rlmem.documents.contract import to_plain
        from rlmem.documents.moment import MomentDocument
        from rlmem.documents.watch import MessagePart, NotePart
        from rlmem.report.lines import text_width
        from rlmem.report.watch import plain_line

        usual = sys.stderr if self.as_json else sys.stdout
        match event:
            case MomentDocument() if self.as_json:
                print(json.dumps(to_plain(event)), flush=True)
            case MomentDocument():
                print(plain_line(event, text_width(sys.stdout)), flush=True)
            case NotePart(target=target, text=text):
                if not self.as_json:  # JSON has them in each line
                    _print(f"{target}: {text}", usual)
            case MessagePart(text=text, is_aside=is_aside):
                _print(text, sys.stderr if is_aside else usual)
            case end:
                self._finish(end, usual)

    def _finish(self, end: WatchEndPart, stream: TextIO) -> None:
        from rlmem.report.watch import end_lines

        for line in end_lines(end):
            _print(line, stream)
        if end.failure:
            _print(f"rlmem: {end.failure}", sys.stderr)

    def draw(self, targets: LiveTargets) -> bool:
        """Show the dashboard, in a terminal; where Textual is not installed say so and return false."""
        if self.plain or self.as_json or not sys.stdout.isatty():
            return False
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
        Dashboard(targets, interval_s=targets.interval_s, seconds=targets.seconds).run()
        return True


def _print(text: str, stream: TextIO) -> None:
    """Print a line as a terminal holds it."""
    from rlmem.report.lines import hanging, text_width

    print(hanging("", text, text_width(stream)), file=stream, flush=True)


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
    "--interval", "interval_s", metavar="SECONDS", type=click.FloatRange(min=SHORTEST), default=1.0, show_default=True,
    help="Time between samples.",
)  # fmt: skip
@click.option("--for", "duration", metavar="DURATION", help="End after this time, such as 90s, 10min or 1h30.")
@click.option("--plain", is_flag=True, help="Lines of text; the default when the output is no terminal.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object a line and sample (schema rlmem.moment/1).")
@click.option(
    "--every", metavar="DURATION", help="Time between lines. Default: 10s for text, every sample for --json."
)  # fmt: skip
@click.option("--no-owners", is_flag=True, help="Never ask the program's agent which objects hold its memory.")
@click.option(
    "--prometheus", "port", metavar="PORT", type=click.IntRange(0, 65535), help="Serve /metrics on this port."
)
@click.option(
    "--prometheus-host", "host", metavar="HOST", default="127.0.0.1", show_default=True, help="Address to serve on."
)
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
def command(plain: bool, as_json: bool, every: str | None, no_owners: bool, **options: Any) -> int:
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
    from rlmem.app.watch import WatchRequest, watch

    if plain and as_json:
        raise UsageError("--plain and --json contradict each other")
    out = WatchOutput(plain=plain, as_json=as_json)
    request = WatchRequest(every=every or (None if as_json else PLAIN_EVERY), asks_owners=not no_owners, **options)
    return 1 if watch(request, out.show, draw=out.draw).failure else 0
