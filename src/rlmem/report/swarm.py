"""What ``python -m rlmem.swarm train`` says: the plan before, the progress during, the result after, and all of it as JSON."""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from rlmem.documents.contract import to_plain
from rlmem.documents.parts import PeakPart, peak_part
from rlmem.plan import sentence
from rlmem.report.plan import peak_lines
from rlmem.report.progress import Iterations
from rlmem.report.view import Section, View
from rlmem.swarm.chunking import Fitted
from rlmem.swarm.curve import finite, sparkline
from rlmem.units import format_size

SCHEMA = "rlmem.swarm-train/1"
#: An iteration that takes longer says what it is at: at once in a terminal, now and then elsewhere.
QUIET_SECONDS, LINE_SECONDS = 2.0, 15.0


def plan_part(fitted: Fitted) -> dict[str, Any]:
    """The plan of a training as plain data."""
    budget, peak = fitted.plan.budget, fitted.peak
    return {
        "device": fitted.device,
        "agents": fitted.settings.agents,
        "stored_bytes": fitted.stored_bytes,
        "stored_per_agent_bytes": fitted.stored_bytes / fitted.settings.agents,
        "chunk": None if fitted.settings.ladder.whole_batch else fitted.settings.chunk,
        "chunk_why": fitted.why,
        "tensor_bytes": fitted.tensor_bytes,
        "limit_source": budget.vram_source if fitted.device == "vram" else budget.ram_source,
        "verdict": fitted.plan.verdict,
        "text": sentence(peak),
        "peaks": to_plain([peak_part(top) for top in fitted.plan.tops]),
    }


def train_document(
    fitted: Fitted,
    rows: Sequence[Mapping[str, Any]],
    *,
    first: int,
    status: str,
    error: str | None,
    peak: tuple[int | None, str],
    files: Mapping[str, str | None],
) -> dict[str, Any]:
    """A training as plain data; ``first`` is the number of iterations that were done before."""
    own = [row for row in rows if row["iteration"] > first]
    seconds = sum(row["seconds"] for row in own)
    steps = fitted.settings.agents * fitted.settings.steps * len(own)
    nbytes, how = peak
    document = {
        "schema": SCHEMA,
        "status": status,
        "error": error,
        "settings": asdict(fitted.settings),
        "plan": plan_part(fitted),
        "resumed_at": first,
        "iterations": [dict(row) for row in rows],
        "seconds": seconds,
        "agent_steps_per_s": steps / seconds if seconds else None,
        "peak": {"nbytes": nbytes, "how": how, "planned_bytes": fitted.tensor_bytes},
        "stored_bytes": own[-1]["stored_bytes"] if own else None,
        **files,
    }
    plain: dict[str, Any] = finite(document)
    return plain


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


def plan_view(document: Mapping[str, Any]) -> View:
    """What is said before the first iteration; ``document`` has settings and plan."""
    settings, plan = document["settings"], document["plan"]
    rows = [
        ("stored per agent", f"{plan['stored_per_agent_bytes']:,.0f} B"),
        ("stored in all", format_size(plan["stored_bytes"])),
    ]
    if plan["chunk"] is None:
        rows.append(("chunk", f"none: {plan['chunk_why']}"))
    else:
        samples = min(plan["chunk"], settings["agents"]) * settings["steps"]
        rows.append(("chunk", f"{plan['chunk']:,} agents, {samples:,} samples at once ({plan['chunk_why']})"))
    if plan["limit_source"]:
        rows.append(("cap", plan["limit_source"]))
    title = (
        f"{settings['agents']:,} agents × {settings['steps']:,} steps × {settings['iterations']:,} iterations, "
        f"rung {settings['rung']}, on {settings['device']}"
    )
    return View(
        title=title,
        verdict=peak_lines(PeakPart(**peak) for peak in plan["peaks"]),
        sections=(Section(title="Plan", lines=_aligned(rows)),),
    )


def train_view(document: Mapping[str, Any], *, plain: bool = False) -> View:
    """What is said at the end."""
    rows = document["iterations"]
    rewards = [row["reward"] for row in rows]
    lines = [("iterations", _iterations(document))]
    if rewards:
        lines.append(("reward", f"{rewards[0]:.4f} → {rewards[-1]:.4f}  {sparkline(rewards, plain=plain)}"))
    if document["agent_steps_per_s"]:
        lines.append(("speed", f"{document['agent_steps_per_s']:,.0f} agent-steps/s, {document['seconds']:,.1f} s"))
    if document["stored_bytes"] is not None:
        per = document["stored_bytes"] / document["settings"]["agents"]
        planned = document["plan"]["stored_per_agent_bytes"]
        lines.append(("stored per agent", f"{per:,.0f} B, planned {planned:,.0f} B"))
    lines.append(("peak", _peak(document)))
    lines += [(name, str(document[name])) for name in ("checkpoint", "curve", "log") if document.get(name)]
    tone = "good" if document["status"] == "done" else "warn" if document["status"] == "interrupted" else "bad"
    return View(
        title="mean reward of an agent's step, first and last iteration",
        verdict=((f"{document['status'].replace('-', ' ')}", tone),),
        sections=(Section(title="Result", lines=_aligned(lines)),),
    )


def _aligned(rows: Sequence[tuple[str, str]]) -> tuple[str, ...]:
    width = max(len(name) for name, _ in rows)
    return tuple(f"{name:<{width}}  {text}" for name, text in rows)


def _iterations(document: Mapping[str, Any]) -> str:
    done, of = len(document["iterations"]), document["settings"]["iterations"]
    before = f", {document['resumed_at']:,} of them before" if document["resumed_at"] else ""
    return f"{done:,} of {of:,}{before}"


def _peak(document: Mapping[str, Any]) -> str:
    peak = document["peak"]
    if peak["nbytes"] is None:
        return f"{peak['how']}; planned {format_size(peak['planned_bytes'])}"
    off = peak["nbytes"] / peak["planned_bytes"] - 1
    return f"{format_size(peak['nbytes'])} measured ({peak['how']}), {format_size(peak['planned_bytes'])} planned ({off:+.1%})"
