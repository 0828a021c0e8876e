"""A script that refuses its own arguments: what it said about them."""

from __future__ import annotations

import shlex

from rlmem.trace.dryrun import DryRun

#: What argparse, click, tyro and others exit with when they refuse arguments.
USAGE_CODE = 2
#: Lines shown of what the script said; a long usage text is cut before its end, where the reason stands.
_MOST_LINES = 12
#: Of what it said before it exited by itself.
_LAST_LINES = 3


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
        told.append(_where(run))
    return "\n".join(told)


def said_at_exit(run: DryRun) -> str:
    """What a script said when it exited in a line of its own, and where arguments go if it looked for some; or nothing."""
    stop = run.stop or {}
    lines = [line.strip() for line in run.outcome.stderr.splitlines() if line.strip()]
    words = (
        f"; it said: {' / '.join(lines[-_LAST_LINES:])}"
        if stop.get("kind") == "exited" and stop.get("code") and lines
        else ""
    )
    wants = "sys.argv" in str(stop.get("line")) or "usage:" in words.lower()
    return f"{words}; {_where(run)}" if wants and not run.target.args else words


def _where(run: DryRun) -> str:
    return f"arguments of a script come after '--': {run.target.text} -- ARGUMENTS"
