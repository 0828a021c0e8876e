"""What ``python -m rlmem.swarm train`` says: the plan before, the progress during, the result after."""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping, Sequence
from typing import Any

from rlmem.documents.swarm import SwarmPlanPart, SwarmSettingsPart, TrainDocument, TrainedPeakPart
from rlmem.report.plan import peak_lines
from rlmem.report.plot import sparkline
from rlmem.report.progress import Iterations
from rlmem.report.view import Section, View
from rlmem.units import format_size

#: An iteration that takes longer says what it is at: at once in a terminal, now and then elsewhere.
QUIET_SECONDS, LINE_SECONDS = 2.0, 15.0


def row_text(row: Mapping[str, Any]) -> str:
    """``reward 0.7312, autoencoder 0.0123, 812,345 agent-steps/s, 2.5 s``."""
    return (
        f"reward {row['reward']:.4f}, autoencoder {row['ae_loss']:.4g}, "
        f"{row['agent_steps_per_s']:,.0f} agent-steps/s, {row['seconds']:.1f} s"
    )


def short_text(row: Mapping[str, Any]) -> str:
    """What stands beside the bar."""
    return f"reward {row['reward']:.4f}"


def inside_text(phase: str, done: int, total: int) -> str:
    """``update, 5,120 of 20,000``: agents, or steps where all agents take one together."""
    return f"{phase}, {done:,} of {total:,}"


class Shown:
    """How far a run is, on standard error."""

    def __init__(self, lines: Iterations, *, live: bool) -> None:
        self._lines, self._live = lines, live
        self._next = 0.0
        self._begin()

    def over(self, row: Mapping[str, Any]) -> None:
        """An iteration: its reward beside the bar, or a line of its own."""
        self._lines.over(short_text(row) if self._live else row_text(row))
        self._begin()

    def inside(self, phase: str, done: int, total: int) -> None:
        """A chunk, when the iteration takes long."""
        now = time.monotonic()
        if now < self._next:
            return
        self._lines.inside(inside_text(phase, done, total))
        self._next = now + (0.1 if self._live else LINE_SECONDS)

    def warn(self, text: str) -> None:
        """A line that stays."""
        self._lines.say(f"warning: {text}")

    def _begin(self) -> None:
        self._next = time.monotonic() + QUIET_SECONDS


class Silent:
    """Says nothing but warnings."""

    def over(self, row: Mapping[str, Any]) -> None:
        """Nothing."""

    def inside(self, phase: str, done: int, total: int) -> None:
        """Nothing."""

    def warn(self, text: str) -> None:
        """What nobody should miss."""
        print(f"warning: {text}", file=sys.stderr)


def plan_view(settings: SwarmSettingsPart, plan: SwarmPlanPart) -> View:
    """Return what is said before the first iteration."""
    rows = [
        ("stored per agent", f"{plan.stored_per_agent_bytes:,.0f} B"),
        ("stored in all", format_size(plan.stored_bytes)),
    ]
    if plan.chunk is None:
        rows.append(("chunk", f"none: {plan.chunk_why}"))
    else:
        samples = min(plan.chunk, settings.agents) * settings.steps
        rows.append(("chunk", f"{plan.chunk:,} agents, {samples:,} samples at once ({plan.chunk_why})"))
    if plan.limit_source:
        rows.append(("cap", plan.limit_source))
    title = (
        f"{settings.agents:,} agents × {settings.steps:,} steps × {settings.iterations:,} iterations, "
        f"rung {settings.rung}, on {settings.device}"
    )
    return View(
        title=title,
        verdict=peak_lines(plan.peaks),
        sections=(Section(title="Plan", lines=_aligned(rows)),),
    )


def train_view(document: TrainDocument, *, plain: bool = False) -> View:
    """Return what is said at the end; ``plain`` draws rewards in ASCII."""
    rewards = [row.reward for row in document.iterations if row.reward is not None]
    lines = [("iterations", _iterations(document))]
    if rewards:
        lines.append(("reward", f"{rewards[0]:.4f} → {rewards[-1]:.4f}  {sparkline(rewards, plain=plain)}"))
    if document.agent_steps_per_s and document.seconds is not None:
        lines.append(("speed", f"{document.agent_steps_per_s:,.0f} agent-steps/s, {document.seconds:,.1f} s"))
    if document.stored_bytes is not None and document.plan is not None:
        per, planned = document.stored_bytes / document.settings.agents, document.plan.stored_per_agent_bytes
        lines.append(("stored per agent", f"{per:,.0f} B, planned {planned:,.0f} B"))
    if document.peak is not None:
        lines.append(("peak", _peak(document.peak)))
    files = {"checkpoint": document.checkpoint, "curve": document.curve, "log": document.log}
    lines += [(name, file) for name, file in files.items() if file]
    tone = (
        "good"
        if document.status in ("done", "nothing-to-do")
        else "warn"
        if document.status == "interrupted"
        else "bad"
    )
    return View(
        title="mean reward of an agent's step, first and last iteration",
        verdict=((document.status.replace("-", " "), tone),),
        sections=(Section(title="Result", lines=_aligned(lines)),),
    )


def _aligned(rows: Sequence[tuple[str, str]]) -> tuple[str, ...]:
    width = max(len(name) for name, _ in rows)
    return tuple(f"{name:<{width}}  {text}" for name, text in rows)


def _iterations(document: TrainDocument) -> str:
    done, of = len(document.iterations), document.settings.iterations
    before = f", {document.resumed_at:,} of them before" if document.resumed_at else ""
    return f"{done:,} of {of:,}{before}"


def _peak(peak: TrainedPeakPart) -> str:
    if peak.nbytes is None:
        return f"{peak.how}; planned {format_size(peak.planned_bytes)}"
    off = peak.nbytes / peak.planned_bytes - 1
    return f"{format_size(peak.nbytes)} measured ({peak.how}), {format_size(peak.planned_bytes)} planned ({off:+.1%})"
