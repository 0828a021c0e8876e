"""The GPU side of a dry run: VRAM from recorded updates, and what moves off the host."""

from __future__ import annotations

from dataclasses import replace

from rlmem.agent.protocol import Facts
from rlmem.core.ledger import Entry, Ledger
from rlmem.core.quantity import Quantity
from rlmem.errors import AnalysisError
from rlmem.model.constants import Constants
from rlmem.trace.align import Recording
from rlmem.trace.ledger import WORKING_SET
from rlmem.trace.vram import VramPrediction, predict_vram


def move_to_gpu(ledger: Ledger, facts: Facts, batch: int | None, constants: Constants) -> Ledger:
    """The ledger of a run whose learner is on a GPU, from one whose learner was rehearsed on the CPU.

    Tensors of the learner leave the host's account; the context, workspaces and the allocator's cache enter the
    device's, and the host pays for its side of CUDA.
    """
    found = predict(facts, batch, constants)
    on_cpu = str(facts["model"]["device"]).startswith("cpu")
    built = next((e for e in ledger.entries if e.component == WORKING_SET and e.phase == "build"), None)
    entries: list[Entry] = []
    for entry in ledger.entries:
        if entry.component.startswith("learner."):
            entries.append(replace(entry, device="vram"))
        elif entry.component == "extended.batch":
            continue  # those tensors are on the device, and counted there
        elif on_cpu and built and entry.component == WORKING_SET and entry.phase in ("collect", "update"):
            # What an update leaves on a CPU (kernels, heap) is not there on a GPU; the host's side of CUDA is.
            entries.append(replace(entry, amount=built.amount))
        else:
            entries.append(entry)
    kernels = found.kernels
    for phase in ("build", "collect", "update"):
        if phase not in ledger.phases:
            continue
        entries.append(_entry("runtime.cuda-context", phase, constants.quantity(f"cuda.context-{kernels}")))
        if on_cpu:
            entries.append(_entry("runtime.cuda-host", phase, constants.quantity(f"cuda.host-{kernels}"), device="ram"))
    static = sum(e.nbytes for e in entries if e.device == "vram" and e.phase == "update" and e.group == "learner")
    entries.append(_entry("learner.update-tensors", "update", _less(found.allocated, static)))
    cache = Quantity.of(
        found.reserved.value - found.allocated.value,
        "kept by torch's caching allocator",
        "the recorded update, replayed through the allocator",
        low=0,
        high=max(0, found.reserved.high - found.allocated.high),
    )
    entries.append(_entry("runtime.allocator-cache", "update", cache))
    return Ledger(tuple(entries))


def predict(facts: Facts, batch: int | None, constants: Constants) -> VramPrediction:
    """Allocated, reserved and whole-process VRAM of the update at its real size."""
    recordings = [Recording.from_plain(row["batch"], row) for row in facts["rehearsal"]["recordings"]]
    if not recordings or batch is None:
        raise AnalysisError("no update was recorded, so its VRAM cannot be extended")
    return predict_vram(recordings, batch, constants=constants)


def _less(amount: Quantity, nbytes: int) -> Quantity:
    return Quantity.of(
        max(0, amount.value - nbytes),
        amount.names,
        "without what is named apart",
        low=max(0, amount.low - nbytes),
        high=max(0, amount.high - nbytes),
    )


def _entry(component: str, phase: str, amount: Quantity, *, device: str = "vram") -> Entry:
    return Entry(component=component, device=device, process="main", phase=phase, amount=amount, basis="derived")
