"""What real sizes add beyond those a dry run reached.

Along the batch, tensors are extended operation by operation from the recorded updates. Along the other axes (rollout
length, environments) the stores and their copies are arithmetic: the difference of two closed forms. The stores among
them have rows of their own, which the ledger shows at their real size.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from fractions import Fraction
from typing import Any

from rlmem.agent.protocol import Facts
from rlmem.core.plan import Plan
from rlmem.core.quantity import Quantity
from rlmem.core.spec import RunSpec
from rlmem.errors import RlmemError
from rlmem.model.autograd import CHANNEL_BLOCK
from rlmem.trace import align
from rlmem.trace.ledger import EXTENDED_HIGH, EXTENDED_LOW, EXTENDED_STORES, Growth

_AXES = ("n_steps", "batch_size")


def extend(
    facts: Facts, spec: RunSpec, plan_of: Callable[[RunSpec], Plan], closed: Plan | None
) -> tuple[tuple[Growth, ...], tuple[str, ...]]:
    """Growth by phase from the sizes reached to those wanted, and what to say about it."""
    short, wanted = _short(facts)
    if not short:
        return (), ()
    asked = ", ".join(f"{name} {value:,} of {wanted[name]:,}" for name, value in short.items())
    growth: list[Growth] = []
    notes = [f"the dry run stopped at {asked}; the rest is extended"]
    others = dict(short)
    batch = _batch(facts, short, wanted)
    if batch is not None:
        growth.append(batch)
        others.pop("batch_size")
    if others:
        try:
            growth += _closed_forms(spec, plan_of, closed, others, short)
        except RlmemError as error:
            notes.append(f"the figures are too low: {', '.join(others)} could not be extended ({error})")
    return _largest_moment(growth), tuple(notes)


def stretch(facts: Facts) -> Fraction:
    """How many times as many rows a rollout has in the run as it had in the dry run."""
    short, wanted = _short(facts)
    factor = Fraction(1)
    for name in {"n_steps", "n_envs"} & set(short):
        factor *= Fraction(wanted[name], short[name])
    return factor


def _largest_moment(growth: list[Growth]) -> tuple[Growth, ...]:
    """Flattening a rollout (two copies of it) and updating on a batch (one copy, and tensors) are two moments."""
    batch = next((item for item in growth if item.component == "extended.batch"), None)
    held = next((item for item in growth if item.component == EXTENDED_STORES and item.phase == "collect"), None)
    flat = next((item for item in growth if item.component == EXTENDED_STORES and item.phase == "update"), None)
    if batch is None or flat is None:
        return tuple(growth)
    kept = held.amount if held else Quantity.literal(0)
    if batch.amount.value + kept.value <= flat.amount.value:
        return tuple(item for item in growth if item is not batch)
    return tuple(replace(item, amount=kept) if item is flat else item for item in growth)


def _short(facts: Facts) -> tuple[dict[str, int], dict[str, int]]:
    """Sizes reached and wanted, where the two differ."""
    reached: Mapping[str, Any] = (facts.get("rehearsal") or {}).get("reached", {})
    settings = (facts.get("model") or {}).get("settings", {})
    short, wanted = {}, {}
    for name in _AXES:
        if reached.get(name) and settings.get(name) and reached[name] < settings[name]:
            short[name], wanted[name] = int(reached[name]), int(settings[name])
    if facts.get("workers_started"):
        short["n_envs"], wanted["n_envs"] = int(facts["workers_started"]), int(facts["workers_asked"])
    return short, wanted


def _batch(facts: Facts, short: Mapping[str, int], wanted: Mapping[str, int]) -> Growth | None:
    """What the update's tensors at the real batch need beyond the peak that was seen.

    That peak may have been another moment (a rollout beside its flattened copy), so the tensors are added to what an
    update leaves behind, and only what goes beyond the peak is growth.
    """
    recordings = [align.Recording.from_plain(row["batch"], row) for row in facts["rehearsal"].get("recordings", ())]
    if "batch_size" not in short or len(recordings) < 2:
        return None
    update = (facts["rehearsal"].get("phases") or facts["phases"])["update"]
    timeline = align.extend(recordings, wanted["batch_size"])
    tensors, op = on_host(timeline)
    more = max(0, update["tree"] + tensors - update["peak"])
    spread = round(0.1 * tensors) + timeline.uncertain_bytes
    amount = Quantity.of(
        more,
        f"tensors of a batch of {wanted['batch_size']:,}, beyond the peak that was seen",
        f"recorded op by op at {recordings[0].size} and {recordings[-1].size}, largest at {op}",
        low=max(0, more - spread),
        high=more + 2 * spread,
    )
    return Growth(phase="update", component="extended.batch", amount=amount)


def on_host(timeline: align.Timeline) -> tuple[int, str]:
    """The most an update's own tensors and the scratch of its convolutions take on a CPU, and in which operation."""
    before = sum(nbytes for _, nbytes in timeline.recording.before)
    moments = zip(timeline.curve, timeline.recording.events, strict=True)
    return max(((live - before + _scratch(event), event.op) for live, event in moments), default=(0, "nothing"))


def _scratch(event: align.Event) -> int:
    """Copies oneDNN makes in its own layout while a convolution runs (see ``model.autograd.forward_scratch``)."""
    if not event.op.startswith("convolution") or len(event.work) < 9:
        return 0
    source, _, result, _, inputs, outputs, _, _, flows = event.work
    padded_source, padded_result = (
        nbytes * (-(-channels // CHANNEL_BLOCK) * CHANNEL_BLOCK) // channels
        for nbytes, channels in ((source, inputs), (result, outputs))
    )
    if event.op.startswith("convolution_backward"):
        return padded_source + (max(source, padded_result) if flows else padded_result)
    return max((padded_source if inputs >= CHANNEL_BLOCK else 0) + padded_result - result, padded_result)


def _closed_forms(
    spec: RunSpec,
    plan_of: Callable[[RunSpec], Plan],
    closed: Plan | None,
    others: Mapping[str, int],
    short: Mapping[str, int],
) -> list[Growth]:
    """Collect and update at the real sizes, less the same at the sizes reached; the batch is held where it was run."""
    if closed is None:
        plan_of(spec)  # says why there is no closed form
    held = {name: value for name, value in short.items() if name not in others}
    large = plan_of(spec.having(held, "reached in the dry run"))
    small = plan_of(spec.having(short, "reached in the dry run"))
    growth = []
    for phase in ("collect", "update"):
        # Worker processes were measured, and those not started are added as they are.
        more = max(0, _main_bytes(large, phase) - _main_bytes(small, phase))
        if more:
            amount = Quantity.of(
                more,
                f"{', '.join(others)} at the real size",
                "difference of two closed forms",
                low=round(more * EXTENDED_LOW),
                high=round(more * EXTENDED_HIGH),
            )
            growth.append(Growth(phase=phase, component=EXTENDED_STORES, amount=amount))
    return growth


def _main_bytes(plan: Plan, phase: str) -> int:
    return plan.ledger.only(device="ram", phase=phase, process="main").nbytes
