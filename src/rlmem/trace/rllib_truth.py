"""An RLlib configuration run for real on Ray of its own: what each role held at its largest, each shared page once."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import rlmem.programs
from rlmem.agent.protocol import ProgramStatus, RLlibMeasurement
from rlmem.core.points import PointProcess
from rlmem.process.sampler import ProcessPeak, Sample, TreePeak
from rlmem.programs.launch import Answer, launch

PROGRAM = Path(rlmem.programs.__file__).with_name("rllib_run.py")
#: Ray's own processes go by no role of RLlib's.
DAEMONS = "ray"


@dataclass(frozen=True, slots=True, kw_only=True)
class RoleTruth:
    """The processes of one role: how many, and the largest of them."""

    role: str
    count: int
    #: Anonymous memory at its largest, plus its share of the files that the tree maps.
    nbytes: int
    anonymous_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Truth:
    """One real run."""

    status: str
    note: str = ""
    wall_s: float = 0.0
    #: The whole tree at its largest moment, each shared page once.
    peak_bytes: int | None = None
    #: The whole tree's peak by phase.
    phases: Mapping[str, int] = field(default_factory=dict)
    roles: tuple[RoleTruth, ...] = ()
    #: Every process of the tree, by its role.
    processes: tuple[PointProcess, ...] = ()
    #: The most that lay in the object store.
    store_bytes: int = 0
    answer: RLlibMeasurement = field(default_factory=RLlibMeasurement)


def measure_config(
    target: str,
    python: str,
    *,
    changes: Mapping[str, Any] | None = None,
    iterations: int = 3,
    seconds: float = 240.0,
    cap_bytes: int | None = None,
    cpus: int | None = None,
    store_bytes: int | None = None,
    on_tick: Callable[[Sample, ProgramStatus], None] | None = None,
) -> Truth:
    """Run the configuration on a Ray of its own until it has updated, and its replay buffer is full."""
    body = {
        "mode": "measure",
        "target": target,
        "changes": dict(changes or {}),
        "iterations": iterations,
        "seconds": seconds,
        "cpus": cpus,
        "store_bytes": store_bytes,
    }
    answer = launch(PROGRAM, body, python, cap_bytes=cap_bytes, time_limit_s=seconds + 120, on_tick=on_tick)
    return _truth(answer)


def _truth(answer: Answer) -> Truth:
    outcome, peak = answer.outcome, answer.outcome.peak
    if outcome.status != "ok":
        note = answer.error or outcome.describe()
        return Truth(status=outcome.status, note=note, wall_s=outcome.wall_s, peak_bytes=peak.pss_bytes or None)
    body = cast("RLlibMeasurement", answer.body)
    return Truth(
        status="ok",
        wall_s=outcome.wall_s,
        peak_bytes=peak.pss_bytes,
        phases={name: int(row["tree"]) for name, row in body["phases"].items()},
        roles=by_role(peak, body["roles"], body.get("owners", {})),
        processes=tuple(_process(process, body["roles"]) for process in peak.processes),
        store_bytes=peak.shared_memory_bytes,
        answer=body,
    )


def _process(process: ProcessPeak, roles: Mapping[str, str]) -> PointProcess:
    return PointProcess(
        pid=process.pid,
        role=roles.get(str(process.pid), DAEMONS),
        hwm_bytes=process.hwm_bytes,
        bytes_at_peak=process.bytes_at_peak,
    )


def by_role(peak: TreePeak, roles: Mapping[str, str], owners: Mapping[str, str] | None = None) -> tuple[RoleTruth, ...]:
    """The largest process of each role, with children that ``owners`` gives it; what nobody claims is Ray's own."""
    owners = owners or {}
    most = max((process.file_bytes for process in peak.processes), default=0)
    mapped = sum(process.file_bytes for process in peak.processes) or 1
    groups: dict[str, list[ProcessPeak]] = {}
    children: dict[int, list[ProcessPeak]] = {}
    for process in peak.processes:
        owner = owners.get(str(process.pid))
        if owner is None:
            groups.setdefault(roles.get(str(process.pid), DAEMONS), []).append(process)
        else:
            children.setdefault(int(owner), []).append(process)

    def own(member: ProcessPeak) -> int:
        if member.pid not in children:
            return member.anonymous_bytes
        # Forked children share most of their pages with it: together, what they had at the tree's largest moment.
        return sum(each.bytes_at_peak for each in (member, *children[member.pid]))

    rows = []
    for role, members in groups.items():
        sizes = [own(each) + (0 if each.pid in children else each.file_bytes * most // mapped) for each in members]
        whole = sum(sizes) if role == DAEMONS else max(sizes)
        anonymous = [own(member) for member in members]
        alone = sum(anonymous) if role == DAEMONS else max(anonymous)
        rows.append(RoleTruth(role=role, count=len(members), nbytes=whole, anonymous_bytes=alone))
    return tuple(rows)
