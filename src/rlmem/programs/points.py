"""Measures one point of a described run: the run for real in a fresh process, beside its own plan."""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast

from rlmem.agent.protocol import ProgramAnswer
from rlmem.core.ledger import PHASES, Ledger, Peak
from rlmem.core.points import Point, PointLimits, PointProcess, PredictedPeak, Values
from rlmem.core.spec import RunSpec
from rlmem.core.target import Target
from rlmem.frameworks import predict, resolve
from rlmem.process.calibration import read_calibration
from rlmem.programs.cases import Case, make_case
from rlmem.programs.launch import Answer, launch, training_python
from rlmem.runner.child import Outcome
from rlmem.sources import read_description
from rlmem.units import format_size

#: What numpy and torch say when an allocation is refused.
REFUSED = ("MemoryError", "can't allocate memory", "Unable to allocate", "CUDA out of memory")
#: The installed release that a framework's predictions depend on.
_RELEASES = {"sb3": "stable_baselines3", "elegantrl": "elegantrl"}


def measure_point(target: Target, values: Values, limits: PointLimits) -> Point:
    """A described run (preset or run file) with some values changed, run for real; every end of it is a point."""
    return measure_spec(read_description(target), values, limits, target.python)


def measure_spec(spec: RunSpec, values: Values, limits: PointLimits, python: str | None) -> Point:
    """The same of a run that was read already."""
    spec = spec.having(dict(values), "--vary")
    case = make_case(spec, limits.updates)
    python = training_python(python, case.packages)
    answer = launch(case.path, case.body, python, cap_bytes=limits.cap_bytes, time_limit_s=limits.time_limit_s)
    versions = _versions(answer)
    installed, note = _as_installed(spec, versions)
    ledger = predict(resolve(installed), read_calibration(python))
    return make_point(values, answer, ledger, case, limits.cap_bytes, versions, note)


def make_point(
    values: Values,
    answer: Answer,
    ledger: Ledger,
    case: Case,
    cap_bytes: int | None,
    versions: Mapping[str, str],
    note: str = "",
) -> Point:
    """What came out of a program, beside the plan's ledger."""
    outcome, body = answer.outcome, cast("ProgramAnswer", answer.body)
    status = outcome.status
    if status == "failed" and any(word in (answer.error or "") for word in REFUSED):
        status = "oom"
    phases = _phases(answer)
    components, vram = _split(body.get("components", {}))
    top = next(peak for peak in ledger.peaks() if peak.device == "ram" and peak.is_peak)
    largest = max([outcome.peak.pss_bytes, *phases.values()])
    if status == "ok":
        notes = [note, *case.notes, *body.get("notes", ())]
    else:
        notes = [note, _why(status, answer, ledger, cap_bytes)]
    return Point(
        values=dict(values),
        status=status,
        peak_bytes=largest or None,
        phases=phases,
        components=components,
        processes=process_parts(outcome),
        versions=dict(versions),
        wall_s=round(outcome.wall_s, 3),
        note="; ".join(text for text in notes if text),
        predicted=PredictedPeak.of(top),
        predicted_components=_largest(ledger, components),
        cgroup_bytes=outcome.peak.cgroup_bytes,
        vram=vram,
    )


def lack(ledger: Ledger, phase: str, cap_bytes: int) -> str | None:
    """``needs 14.4 GiB more in update: rollout.stacked``, by the plan; ``None`` when the plan fits the cap there."""
    peaks = {peak.phase: peak for peak in ledger.peaks() if peak.device == "ram"}
    texts = [_lack(ledger, peaks[name], cap_bytes) for name in _from(phase, peaks) if _over(peaks[name], cap_bytes)]
    return f"needs {'; '.join(texts)} (by the plan)" if texts else None


def _from(phase: str, peaks: Mapping[str, Peak]) -> list[str]:
    """The phase it ended in, and the largest one if that was still to come."""
    names = [name for name in PHASES if name in peaks]
    reached = names.index(phase) if phase in names else 0
    top = max(names, key=lambda name: peaks[name].expected_bytes)
    return [names[reached], top] if names.index(top) > reached else [names[reached]]


def _over(peak: Peak, cap_bytes: int) -> bool:
    return peak.expected_bytes > cap_bytes


def _lack(ledger: Ledger, peak: Peak, cap_bytes: int) -> str:
    more = format_size(peak.expected_bytes - cap_bytes)
    return f"{more} more in {peak.phase}: {newcomer(ledger, peak.phase)}"


def newcomer(ledger: Ledger, phase: str) -> str:
    """The component that takes most in a phase beyond what it took in any phase before."""
    order = [name for name in PHASES if name in ledger.phases]
    before = _sizes(ledger, tuple(order[: order.index(phase)]))
    here = _sizes(ledger, (phase,))
    return max(here, key=lambda name: here[name] - before.get(name, 0))


def _sizes(ledger: Ledger, phases: tuple[str, ...]) -> dict[str, int]:
    """The most each component takes of RAM in any of some phases."""
    most: dict[str, int] = {}
    for phase in phases:
        held: dict[str, int] = {}
        for entry in ledger.only(phase=phase, device="ram").entries:
            if entry.counts:
                held[entry.component] = held.get(entry.component, 0) + entry.nbytes
        most = {name: max(most.get(name, 0), held.get(name, 0)) for name in {**most, **held}}
    return most


def _why(status: str, answer: Answer, ledger: Ledger, cap_bytes: int | None) -> str:
    """Why a program did not come to its end, in one line."""
    place = f" in {answer.phase}" if answer.phase else ""
    if status == "oom":
        missing = lack(ledger, answer.phase or "import", cap_bytes) if cap_bytes is not None else None
        return missing or f"ran out of memory{place}: {answer.outcome.describe()}"
    if answer.error is not None:
        return f"failed{place}: {answer.error}"
    return f"{answer.outcome.describe()}{place}"


def _phases(answer: Answer) -> dict[str, int]:
    """The tree's peak by phase, in the order of a run; of a killed program, the phases it had finished."""
    rows = {name: row["tree"] for name, row in answer.body.get("phases", {}).items()}
    found = rows or dict(answer.status.get("peaks", {}))
    return {name: int(found[name]) for name in PHASES if name in found}


def _split(components: Mapping[str, int]) -> tuple[dict[str, int], dict[str, int]]:
    """Arrays by name, and torch's own peaks on the GPU."""
    vram = {name.split(".", 1)[1]: size for name, size in components.items() if name.startswith("cuda.")}
    return {name: size for name, size in components.items() if not name.startswith("cuda.")}, vram


def process_parts(outcome: Outcome) -> tuple[PointProcess, ...]:
    """Return the processes of a tree as points have them."""
    return tuple(
        PointProcess(pid=p.pid, role=p.role, hwm_bytes=p.hwm_bytes, bytes_at_peak=p.bytes_at_peak)
        for p in outcome.peak.processes
    )


def _largest(ledger: Ledger, components: Mapping[str, int]) -> dict[str, int]:
    """The plan's figure for each measured component, in the phase where it is largest; rows never written included."""
    sums: dict[tuple[str, str], int] = {}
    for entry in ledger.entries:
        sums[entry.component, entry.phase] = sums.get((entry.component, entry.phase), 0) + entry.nbytes
    most: dict[str, int] = {}
    for (component, _), nbytes in sums.items():
        most[component] = max(most.get(component, 0), nbytes)
    return {name: most[name] for name in components if name in most}


def _versions(answer: Answer) -> dict[str, str]:
    found = answer.body.get("versions") or answer.status.get("versions") or {}
    return {str(name): str(version) for name, version in found.items()}


def _as_installed(spec: RunSpec, versions: Mapping[str, str]) -> tuple[RunSpec, str]:
    """The run with the release that was really there, so that plan and measurement speak of the same code."""
    resolved = resolve(spec)
    found = versions.get(_RELEASES.get(resolved.text("framework.name"), ""))
    described = resolved.get("framework.version")
    if not found or not found[:1].isdigit() or found == described:
        return spec, ""
    changed = spec.having({"framework.version": found}, "installed there")
    return changed, f"planned and run with {resolved.text('framework.name')} {found}, not {described}"
