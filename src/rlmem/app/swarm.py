"""Train a swarm within what memory there is, and say what it came to."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any

from rlmem.budget import free_here, make_budget, read_size
from rlmem.core.plan import Budget, sentence
from rlmem.documents.parts import peak_part
from rlmem.documents.swarm import (
    IterationPart,
    SwarmPlanPart,
    SwarmSettingsPart,
    TrainDocument,
    TrainedPeakPart,
    TrainStatus,
)
from rlmem.errors import UsageError
from rlmem.planner import Planner
from rlmem.process.calibration import read_calibration
from rlmem.swarm import devices
from rlmem.swarm.checkpoint import Checkpoint, check_writable, free_name, in_folder, load, merged
from rlmem.swarm.chunking import DoesNotFitError, Fitted, choose_chunk
from rlmem.swarm.curve import check_curve, finite
from rlmem.swarm.settings import Settings
from rlmem.swarm.training import Ended, Telling, Training, log_to, ran_out


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainRequest:
    """What is trained, within which memory, and what is kept of it."""

    #: Settings by name; ``chunk`` may be ``auto``. Those left out are the defaults, or those of the run that goes on.
    settings: Mapping[str, Any]
    ram: str | None = None
    vram: str | None = None
    checkpoint: Path | None = None
    no_checkpoint: bool = False
    every: int | None = None
    resume: Path | None = None
    curve: Path | None = None
    log: Path | None = None

    def check(self) -> None:
        """Raise ``UsageError`` for what can be told to be wrong without anything else."""
        if self.no_checkpoint and (self.checkpoint or self.every is not None):
            raise UsageError("--no-checkpoint contradicts --checkpoint and --every; use one")
        if self.every is not None and self.every < 1:
            raise UsageError(f"--every {self.every}: give at least 1")
        if self.curve is not None:
            check_curve(self.curve)


@dataclass(frozen=True, slots=True, kw_only=True)
class Trained:
    """A training that is over; ``training`` and ``ended`` are None where nothing was left to do."""

    document: TrainDocument
    settings: Settings
    training: Training | None = None
    ended: Ended | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainCallbacks:
    """Who is told of a training while it runs."""

    #: Called with the settings and the plan before anything is built.
    plan: Callable[[SwarmSettingsPart, SwarmPlanPart], None]
    #: Called with why the run may differ from one that was never stopped.
    note: Callable[[str], None]
    #: Opened with the iterations in all and those done before; told of each iteration.
    telling: Callable[[int, int], AbstractContextManager[Telling]]
    #: What is written at once when a first signal arrives; empty: nothing.
    notice: str = ""


def train_swarm(request: TrainRequest, callbacks: TrainCallbacks) -> Trained:
    """Plan a training, choose a chunk that keeps it under the cap, and train.

    Raises:
        UsageError: the request contradicts itself, or a file cannot be read or written.
        DoesNotFitError: the run does not fit.
    """
    request.check()
    given = dict(request.settings)
    is_auto = given.get("chunk") == "auto"
    if is_auto:
        del given["chunk"]
    kept, settings = _settings(request, given)
    if kept is not None and kept.iteration >= settings.iterations:
        rows = tuple(_iteration_part(row) for row in kept.rows)
        nothing = TrainDocument(
            status="nothing-to-do",
            error=None,
            settings=settings_part(settings),
            resumed_at=kept.iteration,
            iterations=rows,
        )
        return Trained(document=nothing, settings=settings)
    fixed = settings.chunk if "chunk" in given or (kept is not None and not is_auto) else None
    return _train(request, callbacks, kept, settings, fixed)


def _settings(request: TrainRequest, given: Mapping[str, Any]) -> tuple[Checkpoint | None, Settings]:
    """Return the settings asked for, or those of a checkpoint with what may change; caps must be for the device."""
    if "device" in given:
        devices.check_name(given["device"])
    kept = None
    if request.resume is not None:
        devices.need_torch()
        kept = load(request.resume)
        settings = merged(request.resume, kept.settings, given)
    else:
        settings = Settings(**given)
    on_gpu = settings.device.startswith("cuda")
    if request.vram and not on_gpu:
        raise UsageError("--vram is for --device cuda; on the CPU, --ram is what the run is planned against")
    if request.ram and on_gpu:
        raise UsageError(f"--ram is for --device cpu; with {settings.device}, --vram is what the run is held to")
    return kept, settings


def _train(
    request: TrainRequest, callbacks: TrainCallbacks, kept: Checkpoint | None, settings: Settings, chunk: int | None
) -> Trained:
    devices.need_torch()
    device = devices.find_device(settings.device)
    place = _place(request)
    fitted = choose_chunk(settings, Planner(_budget(request, settings, device), read_calibration()), chunk)
    callbacks.plan(settings_part(fitted.settings), plan_part(fitted))
    training = _build(request, callbacks, kept, fitted, place)
    first = training.run.iteration
    with (
        log_to(request.log, append=kept is not None) as log,
        callbacks.telling(fitted.settings.iterations, first) as telling,
    ):
        ended = training.train(telling, log, keep_last=request.checkpoint is not None or request.every is not None)
    document = train_document(
        fitted,
        training.rows,
        first=first,
        status=ended.status,
        error=ended.text or None,
        peak=devices.peak_bytes(device),
        checkpoint=str(training.path) if ended.kept else None,
        curve=str(request.curve) if request.curve else None,
        log=str(request.log) if request.log else None,
    )
    return Trained(document=document, settings=fitted.settings, training=training, ended=ended)


def _place(request: TrainRequest) -> Path | None:
    """Return where the run is kept; tried now, so that it does not fail after hours."""
    if request.no_checkpoint:
        return None
    if request.checkpoint is not None:
        return check_writable(request.checkpoint)
    return check_writable(in_folder(request.resume) if request.resume is not None else free_name(Path()))


def _budget(request: TrainRequest, settings: Settings, device: Any) -> Budget:
    """Return what the run may take: as asked, else what is free where it runs."""
    if not settings.device.startswith("cuda"):
        given = make_budget(ram=request.ram) if request.ram else free_here()
        return replace(given, vram_bytes=None, vram_source="")
    if request.vram is not None:
        devices.cap_vram(device, read_size(request.vram, "--vram"))
        return make_budget(vram=request.vram)
    free, _ = devices.free_vram(device)
    return replace(free_here(), vram_bytes=free, vram_source=f"free on {device}")


def _build(
    request: TrainRequest, callbacks: TrainCallbacks, kept: Checkpoint | None, fitted: Fitted, place: Path | None
) -> Training:
    """Return the run, where it was left off if it is resumed."""
    from rlmem.swarm.run import SwarmRun

    try:
        run = SwarmRun(fitted.settings)
    except (RuntimeError, MemoryError) as error:
        if not ran_out(error):
            raise
        raise DoesNotFitError(f"out of memory before the first iteration: {str(error).splitlines()[0]}") from None
    on_disk = False
    if kept is not None and request.resume is not None:
        try:
            run.load(dict(kept.state))
        except (KeyError, RuntimeError, TypeError, ValueError) as error:
            raise UsageError(f"{request.resume}: does not hold a run of these settings ({error})") from None
        on_disk = place == in_folder(request.resume)
    threads, version = devices.torch_facts()
    if kept is not None:
        for text in _differences(kept, fitted.settings, threads, version):
            callbacks.note(text)
    return Training(
        run,
        fitted.settings,
        rows=kept.rows if kept is not None else (),
        path=place,
        every=request.every,
        on_disk=on_disk,
        threads=threads,
        torch_version=version,
        is_finite=lambda: all(bool(values.isfinite().all()) for net in run.nets.modules for values in net.parameters()),
        notice=callbacks.notice,
    )


def _differences(kept: Checkpoint, settings: Settings, threads: int, version: str) -> Iterator[str]:
    """Yield why the run may differ in the last bits from one that was never stopped."""
    pairs = (
        ("chunk", kept.settings.chunk, settings.chunk),
        ("device", kept.settings.device, settings.device),
        ("threads", kept.threads, threads if settings.device == "cpu" else kept.threads),
        ("torch", kept.torch, version),
    )
    for name, before, now in pairs:
        if before != now:
            yield f"{name} was {before} and is {now}: sums may differ in their last bits from a run that was not stopped"


def settings_part(settings: Settings) -> SwarmSettingsPart:
    """Return settings as documents have them."""
    return SwarmSettingsPart(**asdict(settings))


def plan_part(fitted: Fitted) -> SwarmPlanPart:
    """Return the plan of a training as documents have it."""
    budget, settings = fitted.plan.budget, fitted.settings
    return SwarmPlanPart(
        device=fitted.device,
        agents=settings.agents,
        stored_bytes=fitted.stored_bytes,
        stored_per_agent_bytes=fitted.stored_bytes / settings.agents,
        chunk=None if settings.ladder.whole_batch else settings.chunk,
        chunk_why=fitted.why,
        tensor_bytes=fitted.tensor_bytes,
        limit_source=budget.vram_source if fitted.device == "vram" else budget.ram_source,
        verdict=fitted.plan.verdict,
        text=sentence(fitted.peak),
        peaks=tuple(peak_part(top) for top in fitted.plan.tops),
    )


def train_document(
    fitted: Fitted,
    rows: Sequence[Mapping[str, Any]],
    *,
    first: int,
    status: TrainStatus,
    error: str | None,
    peak: tuple[int | None, str],
    checkpoint: str | None = None,
    curve: str | None = None,
    log: str | None = None,
) -> TrainDocument:
    """Return a training as a document; ``first`` is the number of iterations that were done before."""
    own = [row for row in rows if row["iteration"] > first]
    seconds = sum(row["seconds"] for row in own)
    steps = fitted.settings.agents * fitted.settings.steps * len(own)
    nbytes, how = peak
    return TrainDocument(
        status=status,
        error=error,
        settings=settings_part(fitted.settings),
        plan=plan_part(fitted),
        resumed_at=first,
        iterations=tuple(_iteration_part(row) for row in rows),
        seconds=seconds,
        agent_steps_per_s=steps / seconds if seconds else None,
        peak=TrainedPeakPart(nbytes=nbytes, how=how, planned_bytes=fitted.tensor_bytes),
        stored_bytes=own[-1]["stored_bytes"] if own else None,
        checkpoint=checkpoint,
        curve=curve,
        log=log,
    )


def _iteration_part(row: Mapping[str, Any]) -> IterationPart:
    known = finite({item.name: row[item.name] for item in fields(IterationPart)})
    return IterationPart(**known)
