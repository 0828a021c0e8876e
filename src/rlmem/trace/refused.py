"""A script that refuses its own arguments: what it said about them."""

from __future__ import annotations

import shlex

from rlmem.trace.dryrun import DryRun

#: What argparse, click, tyro and others exit with when they refuse arguments.
USAGE_CODE = 2
#: Lines shown of what the script said; a long usage text is cut before its end, where the reason stands.
_MOST_LINES = 12


def refused_arguments(run: DryRun) -> str | None:
    """What the script said when it refused its arguments, and where they are given; ``None`` where it did not.

    An exit of the script's own line, whatever its code, is not about arguments.
    """
    stop = run.stop or {}
    if stop.get("kind") != "exited" or stop.get("code") != USAGE_CODE or not stop.get("by_library"):
        return None
    lines = [line.rstrip() for line in run.outcome.stderr.splitlines() if line.strip()]
    began = next((at for at in reversed(range(len(lines))) if lines[at].lower().startswith("usage:")), 0)
    said = lines[began:]
    if len(said) > _MOST_LINES:
        said = [*said[:1], "…", *said[-_MOST_LINES + 2 :]]
    given = shlex.join(run.target.args) if run.target.args else "none were given"
    told = [f"{run.target.text} refuses its arguments ({given}):", *(f"  {line}" for line in said)]
    if not run.target.args:
        told.append(f"arguments of a script come after '--': {run.target.text} -- ARGUMENTS")
    return "\n".join(told)
