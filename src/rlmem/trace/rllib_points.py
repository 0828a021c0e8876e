"""Measures one point of an RLlib configuration: a real training on a Ray of its own, by role, beside its own plan."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from rlmem.core.points import Point, PointLimits, PredictedPeak, Values
from rlmem.core.target import Target
from rlmem.errors import AnalysisError
from rlmem.frameworks import predict, resolve
from rlmem.frameworks.rllib.counts import STORE, counts
from rlmem.frameworks.rllib.shares import by_role
from rlmem.process.calibration import read_calibration
from rlmem.trace.rllib import changes_of, describe_config, find_config
from rlmem.trace.rllib_truth import Truth, measure_config

#: Of the time a point may take, what is left for training; the rest is for starting and stopping Ray.
TRAINING = 0.8
TIME_SECONDS = 300.0
#: Logical CPUs of the point's Ray: enough for every actor, and never so few that Ray keeps no worker ready.
LEAST_CPUS = 8


def measure_point(target: Target, values: Values, limits: PointLimits) -> Point:
    """A configuration with some values changed, run for real; every end of it is a point."""
    sets = (*target.sets, *(f"{name}={value}" for name, value in values.items()))
    place, python = find_config(target)
    try:
        spec, _ = describe_config(replace(target, python=python, sets=sets))
    except AnalysisError as error:
        return Point(values=dict(values), status="failed", peak_bytes=None, note=str(error))
    number = counts(resolve(spec))
    found = measure_config(
        place,
        python,
        changes=changes_of(sets),
        iterations=limits.updates or 3,
        seconds=TRAINING * (limits.time_limit_s or TIME_SECONDS),
        cap_bytes=limits.cap_bytes,
        cpus=max(LEAST_CPUS, os.cpu_count() or 1, sum(number.values()) + 1),
    )
    rows = found.answer.get("rows") or 0
    is_short = bool(rows) and rows < 0.995 * (found.answer.get("capacity") or 0)
    resolved = resolve(spec.having({"buffer_size": rows}, "as full as it got") if is_short else spec)
    ledger = predict(resolved, read_calibration(python))
    top = next(peak for peak in ledger.peaks() if peak.device == "ram" and peak.is_peak)
    held = _held(found)
    expected = {role: sizes[1] for role, sizes in by_role(resolved, ledger).items()}
    return Point(
        values=dict(values),
        status=found.status,
        peak_bytes=found.peak_bytes,
        phases=dict(found.phases),
        components=held,
        processes=found.processes,
        versions=dict(found.answer.get("versions", {})),
        wall_s=round(found.wall_s, 3),
        note=found.note
        or (f"its replay buffer got {rows:,} rows in the time; planned with as many" if is_short else ""),
        predicted=PredictedPeak.of(top),
        predicted_components={_name(role): expected[role] for role in expected if _name(role) in held},
    )


def _held(found: Truth) -> dict[str, int]:
    """The largest process of each role, Ray's own together, and the object store."""
    sizes: Mapping[str, Any] = {role.role: role.nbytes for role in found.roles}
    if found.store_bytes:
        sizes = {**sizes, STORE: found.store_bytes}
    return {_name(role): size for role, size in sizes.items()}


def _name(role: str) -> str:
    return f"process.{role}"
