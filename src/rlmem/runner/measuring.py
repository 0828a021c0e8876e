"""Which function measures a target: it is run as it is, or described and run by a program of ours."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rlmem.core.target import Target
    from rlmem.runner.sweep import Measure


def measure_function(target: Target) -> Measure:
    """What runs a point: the target itself for a script, factory or zoo entry, a program of ours for a described run."""
    if target.kind == "rllib":
        from rlmem.trace.rllib_points import measure_point as measure_rllib

        return measure_rllib
    if target.is_executable:
        from rlmem.trace.points import measure_point as measure_traced

        return measure_traced
    from rlmem.programs.points import measure_point as measure_described

    return measure_described
