"""One measured point: by a program of ours for a described run, the target itself where it is run, RLlib on a Ray of its own."""

from __future__ import annotations

from rlmem.core.points import Point, PointLimits, Values
from rlmem.core.target import Target


def measure_point(target: Target, values: Values, limits: PointLimits) -> Point:
    """Run a target with some values changed in a fresh process, beside its plan.

    Args:
        target: a described run, a script, a factory, an RL Zoo entry or an RLlib configuration, with its interpreter.
        values: the axes' values of this point.
        limits: its cap and time.

    Returns:
        What it held and how it ended; to run out of memory or of time is a result.

    Raises:
        UsageError: the target does not take these values, or is none.
        AnalysisError: it cannot be measured here.
    """
    if target.kind == "rllib":
        from rlmem.trace.rllib_points import measure_point as measure
    elif target.is_executable:
        from rlmem.trace.points import measure_point as measure
    else:
        from rlmem.programs.points import measure_point as measure
    return measure(target, values, limits)
