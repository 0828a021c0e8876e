"""A process that measures one store on command: a line of JSON in, a line of JSON out.

Only one process works at a time. The parent hands the turn back and forth, so that whatever else the machine does falls
on both sides of a comparison.
"""

from __future__ import annotations

import json
import os
import sys
import warnings
from typing import Any


def session(kind: str, arguments: dict[str, Any]) -> Any:
    """What the parent asked for, built."""
    if kind == "replay":
        from buffer_bench.replay import ReplaySession

        return ReplaySession(**arguments)
    if kind == "learn":
        from buffer_bench.learn import LearnSession

        return LearnSession(**arguments)
    from buffer_bench.rollout import RolloutSession

    return RolloutSession(**arguments)


def main() -> None:
    """Build, then answer until the parent has enough."""
    # Libraries print while they are imported; answers go out where stdout was, prints go to stderr.
    out = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    warnings.simplefilter("ignore")
    current = None
    for line in sys.stdin:
        command = json.loads(line)
        name, arguments = command["do"], command.get("with", {})
        try:
            if name == "start":
                current, answer = session(command["kind"], arguments), {"answer": {}}
            else:
                answer = {"answer": getattr(current, name)(**arguments)}
        except ModuleNotFoundError as error:
            answer = {"missing": error.name}
        except Exception as error:
            import traceback

            traceback.print_exc()
            answer = {"error": f"{type(error).__name__}: {error}"}
        out.write(json.dumps(answer, default=str) + "\n")
        out.flush()


if __name__ == "__main__":
    main()
