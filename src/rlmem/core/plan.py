"""A plan: a ledger judged against a budget, with findings. The public JSON contract is a view of this."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from rlmem.core.findings import Finding
from rlmem.core.ledger import Leak, Ledger, Peak
from rlmem.core.spec import RunSpec
from rlmem.units import format_count, format_range, format_size

#: From good to bad; ``unknown``: nothing can be said, ``grows``: it leaks, so that no peak can be said.
VERDICTS = ("fits", "tight", "does-not-fit", "unknown", "grows")
_WORST_FIRST = ("does-not-fit", "grows", "unknown", "tight", "fits")
#: Exit codes of verdicts; ``unknown`` has its own only where a limit was asked about.
EXIT_CODES = {"does-not-fit": 1, "unknown": 4, "grows": 5}
#: The finding that compares a peak with a limit, of which the verdict on nodes takes no notice.
DOES_NOT_FIT = "MEM001"
#: Less than this share of the limit left over is called tight even when the upper bound fits: other processes,
#: a browser, a growing log. Users of the reference runs kept "20 % safety" and still died; 5 % is only the last call.
TIGHT_SHARE = 0.05


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """What a run may use: bytes per device, and where each limit comes from."""

    name: str
    ram_bytes: int | None = None
    vram_bytes: int | None = None
    unified: bool = False
    cores: int | None = None
    ram_source: str = ""
    vram_source: str = ""
    #: RAM that is left now, where the limit is this machine's own; it comes and goes, and the limit does not.
    free_ram_bytes: int | None = None

    @property
    def limits(self) -> dict[str, int | None]:
        """Limit by device name."""
        return {"ram": self.ram_bytes, "vram": self.vram_bytes}


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What a run will need, and whether it fits."""

    spec: RunSpec
    budget: Budget
    ledger: Ledger
    findings: tuple[Finding, ...] = ()
    peaks: tuple[Peak, ...] = field(default=())
    #: ``closed form`` (arithmetic over a description) or ``dry run`` (the real thing, tried a little).
    method: str = "closed form"
    #: What the reader should know about how the figures came about.
    notes: tuple[str, ...] = ()
    #: Devices with a limit for which no figure can be said, and why.
    unknown: Mapping[str, str] = field(default_factory=dict)
    #: What was not seen and may make the verdict wrong; it stands beside it.
    cautions: tuple[str, ...] = ()
    #: How many trials find room at once on the nodes the run was placed on; that decides, not the node it is shown against.
    trials: int | None = None

    @property
    def verdict(self) -> str:
        """The worst verdict over the devices that have a limit; ``unknown`` when one cannot be judged.

        On nodes it is their room that decides.
        """
        if self.trials is not None:
            return self._verdict_on_nodes(self.trials)
        verdicts = [verdict_of(peak) for peak in self.tops]
        if self.unknown or not verdicts:
            verdicts.append("unknown")
        return min(verdicts, key=_WORST_FIRST.index)

    def _verdict_on_nodes(self, trials: int) -> str:
        top = self.top("ram")
        if top is not None and top.leak is not None:
            return "grows"
        if not trials:
            return "does-not-fit"
        return "unknown" if self.unknown else "fits"

    @property
    def leaks(self) -> bool:
        """Whether it grows for as long as it runs; a run may be over its limit before it does."""
        return any(peak.leak is not None for peak in self.peaks)

    @property
    def warnings(self) -> tuple[str, ...]:
        """What the verdict does not say: less is left now than the run needs, though it is within the limit."""
        top, free = self.top("ram"), self.budget.free_ram_bytes
        if top is None or free is None or top.limit_bytes is None or not free < top.high_bytes <= top.limit_bytes:
            return self.cautions
        less = format_size(top.high_bytes - free)
        return (*self.cautions, f"RAM free now: {format_size(free)}, {less} less than the run may need")

    @property
    def tops(self) -> tuple[Peak, ...]:
        """The peak phase of each device."""
        return tuple(peak for peak in self.peaks if peak.is_peak)

    def top(self, device: str) -> Peak | None:
        """The peak phase of one device; ``None`` when the run does not touch it."""
        return next((peak for peak in self.tops if peak.device == device), None)

    @property
    def deciding(self) -> Peak:
        """The device that decides: the worst verdict, then the largest share of its limit; RAM without limits."""
        order = ("does-not-fit", "grows", "tight", "fits", "unknown")
        return min(
            self.tops, key=lambda peak: (order.index(verdict_of(peak)), -peak.high_bytes / (peak.limit_bytes or 1))
        )

    @property
    def sentences(self) -> tuple[str, ...]:
        """What each device needs against its limit; and what a full replay buffer would need, where this run ends before."""
        said = tuple(f"{peak.device.upper()} {sentence(peak)}" for peak in self.tops)
        unknown = (unknown_sentence(device, self.budget.limits[device], why) for device, why in self.unknown.items())
        return (*said, *unknown, *(text for peak in self.tops if (text := self._short_run(peak))))

    def _short_run(self, peak: Peak) -> str:
        held = self.ledger.only(device=peak.device, phase=peak.phase, component="replay").entries
        beyond = sum(entry.nbytes for entry in held if not entry.counts)
        return short_run(self.spec.values, peak, beyond) if beyond else ""

    @property
    def exit_code(self) -> int:
        """1 when the run does not fit, or when a finding says that it will not work as described; 5 and 4 for no answer."""
        errors = [finding for finding in self.findings if finding.severity == "error"]
        if any(self.trials is None or finding.code != DOES_NOT_FIT for finding in errors):
            return 1
        return 0 if self.verdict == "unknown" and not self.unknown else EXIT_CODES.get(self.verdict, 0)


def judge(
    ledger: Ledger,
    budget: Budget,
    *,
    spec: RunSpec,
    method: str = "closed form",
    notes: tuple[str, ...] = (),
    unknown: Mapping[str, str] | None = None,
) -> Plan:
    """Hold a ledger against a budget.

    Args:
        ledger: what the run needs, the same whatever there is.
        budget: what there is. Where RAM and VRAM are one pool, everything counts against RAM.
        spec: the run with its framework's defaults.
        method: how the ledger came about.
        notes: what the reader should know about that.
        unknown: devices with a limit for which no figure can be said, and why.

    Returns:
        The plan, without findings.
    """
    held = _unified(ledger) if budget.unified else ledger
    return Plan(
        spec=spec,
        budget=budget,
        ledger=held,
        peaks=held.peaks(budget.limits),
        method=method,
        notes=notes,
        unknown=unknown or {},
    )


def _unified(ledger: Ledger) -> Ledger:
    """One pool for RAM and VRAM: everything counts against RAM."""
    floors: dict[tuple[str, str], int] = {}
    for (_, phase), low in ledger.floors.items():
        floors["ram", phase] = floors.get(("ram", phase), 0) + low
    return Ledger(tuple(replace(entry, device="ram") for entry in ledger.entries), floors)


def verdict_of(peak: Peak) -> str:
    """One device against its limit."""
    if peak.leak is not None and peak.expected_bytes - peak.leak.rise_bytes <= (peak.limit_bytes or math.inf):
        return "grows"
    if peak.limit_bytes is None:
        return "unknown"
    if peak.expected_bytes > peak.limit_bytes:
        return "does-not-fit"
    if peak.high_bytes > peak.limit_bytes or peak.limit_bytes - peak.expected_bytes < TIGHT_SHARE * peak.limit_bytes:
        return "tight"
    return "fits"


def sentence(peak: Peak) -> str:
    """``peaks at 21.4 GiB (20.9–22.3) of 27.9 GiB in update: fits, 6.5 GiB spare``."""
    if peak.leak is not None and verdict_of(peak) == "grows":
        return growing(peak, peak.leak)
    text = f"peaks at {format_size(peak.expected_bytes)}"
    if peak.low_bytes != peak.high_bytes:
        text += f" ({format_range(peak.low_bytes, peak.high_bytes, beside=peak.expected_bytes)})"
    if peak.limit_bytes is None:
        return f"{text} in {peak.phase}: no limit known for {peak.device.upper()}"
    text += f" of {format_size(peak.limit_bytes)} in {peak.phase}"
    spare = peak.spare_bytes or 0
    match verdict_of(peak):
        case "does-not-fit":
            return f"{text}: does not fit, {format_size(-spare)} too much"
        case "tight" if peak.high_bytes > peak.limit_bytes:
            return f"{text}: tight, the upper bound is {format_size(peak.high_bytes - peak.limit_bytes)} over"
        case "tight":
            return f"{text}: tight, only {format_size(spare)} spare"
        case _:
            return f"{text}: fits, {format_size(spare)} spare"


def short_run(values: Mapping[str, Any], peak: Peak, beyond: int) -> str:
    """What a run leaves of its replay buffer, and the peak with a full one; ``beyond`` is what it never writes."""
    counts = [values.get(name) for name in ("total_timesteps", "buffer_size")]
    some = " of the ".join(format_count(count) for count in counts if isinstance(count, int))
    full = format_size(peak.expected_bytes + beyond)
    return f"this run writes {some} transitions of its replay buffer; with a full one {peak.device.upper()} peaks at {full}"


def growing(peak: Peak, leak: Leak) -> str:
    """``grows 410 MiB (390–440) an update (losses): no peak can be said; at this rate 22 GiB are full after 55 updates``."""
    article = "a" if leak.per == "step" else "an"
    owner = f" ({leak.owner})" if leak.owner else ""
    ends = format_range(leak.low_bytes, leak.high_bytes, beside=leak.bytes_each)
    text = f"grows {format_size(leak.bytes_each)} ({ends}) {article} {leak.per}{owner}: no peak can be said"
    if peak.limit_bytes is None:
        return f"{text}; {format_size(peak.expected_bytes)} after {leak.rounds:,} {leak.per}s"
    full = leak.rounds + max(0, peak.limit_bytes - peak.expected_bytes) // leak.bytes_each
    full = round(full, 3 - len(str(full)))  # the rate is not known to more than three digits
    return f"{text}; at this rate {format_size(peak.limit_bytes)} are full after {full:,} {leak.per}s"


def unknown_sentence(device: str, limit_bytes: int | None, why: str) -> str:
    """``VRAM is not known (why): whether 7.45 GiB are enough cannot be said``."""
    limit = f" whether {format_size(limit_bytes)} are enough cannot be said" if limit_bytes is not None else ""
    return f"{device.upper()} is not known:{limit} ({why})"
