"""``rlmem calibrate``."""

from __future__ import annotations

import shutil
import sys
from datetime import date
from pathlib import Path
from typing import Any

import click

from rlmem.cli import completion
from rlmem.cli.common import chosen_format, emit, output_options
from rlmem.errors import AnalysisError, UsageError


@click.command("calibrate")
@click.option(
    "--python",
    metavar="PATH",
    shell_complete=completion.files,
    help="The environment to measure; default: the one rlmem runs in.",
)
@click.option("--import", "extra", metavar="MODULE", multiple=True, help="Measure a further package; repeatable.")
@click.option("--forget", is_flag=True, help="Drop this environment's calibration and use the shipped constants.")
@output_options
def command(
    python: str | None, extra: tuple[str, ...], forget: bool, as_json: bool, format_: str | None, output: Path | None
) -> int:
    """Measure the runtime constants of an environment: interpreter, imports, workers, threads, CUDA context.

    Takes some 15 seconds, in fresh processes; the result is cached per environment and used by every later plan.

    \b
    Examples:
      rlmem calibrate
      rlmem calibrate --python ~/envs/train/bin/python --import pyboy
      rlmem calibrate --forget
    """
    from rlmem.measure.calibration import cache_file, calibrate, write_calibration
    from rlmem.report.render import render_view
    from rlmem.trace.target import check_python

    wanted = chosen_format(format_, output, as_json=as_json)
    interpreter = sys.executable
    if python is not None:
        found = shutil.which(python)
        if found is None:
            raise UsageError(f"--python {python}: no such interpreter")
        check_python(found)
        interpreter = found
    if forget:
        try:
            cache_file(interpreter).unlink(missing_ok=True)
        except NotADirectoryError:
            pass  # nothing was ever kept there
        except OSError as error:
            raise AnalysisError(f"cannot remove {cache_file(interpreter)}: {error.strerror or error}") from None
        emit(f"{interpreter}: shipped constants are used from now on", output)
        return 0
    progress = sys.stderr.isatty()

    def say(step: str) -> None:
        if progress:
            print(f"\r\033[Kmeasuring {step} …", end="", file=sys.stderr, flush=True)

    rows, versions = calibrate(interpreter, extra, today=date.today().isoformat(), say=say)
    if progress:
        print("\r\033[K", end="", file=sys.stderr)
    path = write_calibration(interpreter, rows, versions)
    document = {
        "schema": "rlmem.calibration/1",
        "python": interpreter,
        "versions": versions,
        "file": str(path),
        "constants": [
            {"name": r.name, "low_bytes": r.low, "expected_bytes": r.expected, "high_bytes": r.high, "how": r.how}
            for r in rows.values()
        ],
    }
    emit(render_view(document, _view, wanted, output), output)
    return 0


def _view(document: dict[str, Any]) -> Any:
    from rlmem.model.constants import Constants
    from rlmem.report.view import Column, Section, Table, View
    from rlmem.units import format_size

    shipped = Constants()
    rows = tuple(
        (c["name"], format_size(c["expected_bytes"]), format_size(shipped.find(c["name"]).expected), c["how"])
        for c in document["constants"]
    )
    columns = (
        Column(title="constant", right=False),
        Column(title="here"),
        Column(title="shipped"),
        Column(title="how", right=False),
    )
    missing = [name for name, version in document["versions"].items() if "Error" in version]
    lines = (f"not importable here, shipped constants stay: {', '.join(missing)}",) if missing else ()
    section = Section(title="Constants", lines=lines, tables=(Table(title="", columns=columns, rows=rows),))
    return View(
        title=f"Calibrated {document['python']}",
        verdict=(),
        sections=(section,),
        notes=(f"kept in {document['file']}",),
    )
