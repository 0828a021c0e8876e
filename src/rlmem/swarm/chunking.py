"""How many agents are in the network at once: the planner is asked, so that a run stays under its cap.

The chunk decides memory and speed only, not what is learnt. On the CPU a small one stays in the caches; on a GPU a large
one keeps it busy.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from decimal import ROUND_CEILING, Decimal

from rlmem.core.ledger import Peak
from rlmem.core.plan import Plan, verdict_of
from rlmem.errors import UsageError
from rlmem.planner import ClosedForm, Planner
from rlmem.swarm.settings import Settings
from rlmem.swarm.spec import swarm_spec
from rlmem.units import format_size

#: Fewer agents at once gain nothing worth having: parameters and the store outweigh them.
SMALLEST = 16
#: The most that is chosen by itself.
LARGEST = {"cpu": 32, "cuda": 4_096}
#: What a GPU's expected peak must leave of the cap: blocks never fit exactly. The upper bound of a plan also counts blocks that
#: the allocator keeps although they are free, and gives back when it meets the cap.
CUDA_SPARE = 0.05


class DoesNotFitError(UsageError):
    """The run cannot be made to fit under its cap."""

    exit_code = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Fitted:
    """A run with its chunk chosen, and what it is planned to need."""

    settings: Settings
    plan: Plan
    #: Why this chunk: ``as asked``, ``the largest under the cap``, …
    why: str

    @property
    def device(self) -> str:
        """Where agents and networks live, in the words of a plan."""
        return plan_device(self.settings)

    @property
    def peak(self) -> Peak:
        """The peak there."""
        peak = self.plan.top(self.device)
        assert peak is not None
        return peak

    @property
    def stored_bytes(self) -> int:
        """What the rollout holds when it is full."""
        return self.plan.ledger.only(device=self.device, phase="collect", component="rollout").nbytes

    @property
    def tensor_bytes(self) -> int:
        """The peak without what no allocator of torch reports; on the CPU the whole process."""
        held = self.plan.ledger.only(device=self.device, phase=self.peak.phase, component="runtime.cuda-context")
        return self.peak.expected_bytes - held.nbytes


def plan_device(settings: Settings) -> str:
    """``vram`` or ``ram``."""
    return "vram" if settings.device.startswith("cuda") else "ram"


def choose_chunk(settings: Settings, planner: Planner, chunk: int | None = None) -> Fitted:
    """The run with the chunk asked for, or else with the largest sensible one under the budget of the planner."""
    if settings.ladder.whole_batch:
        fitted = _at(settings, settings.chunk, planner, "all samples at once on this rung")
        return _checked(fitted, planner, "take a higher rung, or fewer agents")
    if chunk is not None:
        return _checked(_at(settings, chunk, planner, "as asked"), planner, "a smaller chunk, or fewer agents")
    return _largest(settings, planner)


def _largest(settings: Settings, planner: Planner) -> Fitted:
    """The upper bound should fit; where it cannot, the expected peak must."""
    sizes = tuple(candidates(settings))
    least = _at(settings, sizes[-1], planner, "the smallest")
    tried = [(_at(settings, size, planner, "the usual one") if size != sizes[-1] else least) for size in sizes]
    for safe in (True, False):
        for index, fitted in enumerate(tried):
            if _fits(fitted, safe=safe):
                return replace(fitted, why="the usual one" if index == 0 else "the largest under the cap")
    return _checked(least, planner, "fewer agents")


def candidates(settings: Settings) -> Iterator[int]:
    """Sizes to try, the largest first: what is usual here or a whole minibatch, then powers of two and what is halfway.

    >>> list(candidates(Settings(agents=2000, minibatches=10)))
    [32, 24, 16]
    >>> list(candidates(Settings(agents=5, minibatches=1)))
    [5]
    """
    usual = LARGEST["cuda" if settings.device.startswith("cuda") else "cpu"]
    size = min(usual, math.ceil(settings.agents / settings.minibatches))
    yield size
    power = 1 << max(size - 1, 1).bit_length()
    while power > SMALLEST:
        power //= 2
        yield from (smaller for smaller in (power * 3 // 2, power) if SMALLEST <= smaller < size)


def _at(settings: Settings, chunk: int, planner: Planner, why: str) -> Fitted:
    chosen = replace(settings, chunk=chunk)
    return Fitted(settings=chosen, plan=ClosedForm(planner.constants).plan(swarm_spec(chosen), planner.budget), why=why)


def _fits(fitted: Fitted, *, safe: bool) -> bool:
    """Every device under its limit; safely, the upper bound of RAM and the expected peak of VRAM with something to spare."""
    for peak in fitted.plan.tops:
        limit, needed = peak.limit_bytes, peak.expected_bytes
        if safe:
            needed = round(needed * (1 + CUDA_SPARE)) if peak.device == "vram" else peak.high_bytes
        if limit is not None and needed > limit:
            return False
    return True


def _checked(fitted: Fitted, planner: Planner, instead: str) -> Fitted:
    """The same, or an error that names the smallest cap that works."""
    for peak in fitted.plan.tops:
        if verdict_of(peak) != "does-not-fit":
            continue
        budget, option = planner.budget, f"--{peak.device}"
        source = budget.vram_source if peak.device == "vram" else budget.ram_source
        chunk = "" if fitted.settings.ladder.whole_batch else f" with a chunk of {fitted.settings.chunk:,}"
        have = format_size(peak.limit_bytes or 0)
        hint = f"pass {option} {size_above(peak.expected_bytes)}, or {instead}"
        if peak.device != fitted.device:  # the host's side of a run on a GPU: no option to turn
            hint = instead
        raise DoesNotFitError(
            f"{fitted.settings.agents:,} agents{chunk} need at least {format_size(peak.expected_bytes)} of "
            f"{peak.device.upper()} in {peak.phase}, and there are {have} ({source or 'the limit'}); {hint}"
        )
    return fitted


def size_above(nbytes: int) -> str:
    """A size to type that is not below: two figures of GB, or of MB.

    >>> size_above(9_400_000_001), size_above(12_000_000_000), size_above(612_345_678)
    ('9.5GB', '12GB', '620MB')
    """
    unit, scale = ("GB", 10**9) if nbytes >= 10**9 else ("MB", 10**6)
    value = Decimal(nbytes) / scale
    step = Decimal(1).scaleb(value.adjusted() - 1)
    rounded = (value / step).to_integral_value(ROUND_CEILING) * step
    return f"{rounded.normalize():f}{unit}"
