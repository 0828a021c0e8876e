"""How a target is run to be fitted, and what comes out: the answer and its text."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from rlmem.core.plan import Budget
from rlmem.core.progress import ShowProgress, show_nothing
from rlmem.planner import ClosedForm
from rlmem.remedies.base import Fit
from rlmem.remedies.program import Written
from rlmem.runner.child import run_child
from rlmem.trace.drafts import Draft, as_diff
from rlmem.trace.dryrun import DryRun, dry_run
from rlmem.trace.target import RunnableTarget

#: Where a script that cannot start as it is begins: with this part of its count.
START_SHARE = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """How a target is run: under which cap, for how long, with which changes of its model."""

    budget: Budget
    form: ClosedForm
    target: RunnableTarget
    changes: Mapping[str, Any]
    device: str | None = None
    cap_bytes: int | None = None
    time_s: float | None = None
    progress: ShowProgress = show_nothing

    def run(self, target: RunnableTarget, what: str, changes: Mapping[str, Any] | None = None) -> DryRun:
        """One dry run, with further changes of its model."""
        with self.progress(what) as tick:
            return dry_run(
                target,
                changes={**self.changes, **(changes or {})},
                cap_bytes=self.cap_bytes,
                time_s=self.time_s,
                device=self.device,
                on_tick=tick,
                on_phase=getattr(tick, "phase", None),
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class Fitted:
    """An answer and its text: how the steps are written, and what is edited."""

    fit: Fit
    written: Written
    #: The edits; ``None`` where there are none.
    draft: Draft | None = None
    #: Arguments of the target with the steps in them, where it takes them that way.
    args: tuple[str, ...] | None = None


def fitted_by_edits(fit: Fit, target: RunnableTarget, draft: Draft, by_hand: tuple[str, ...]) -> Fitted:
    """An answer whose steps are edits of a script, of files it reads, and of its arguments."""
    written = as_diff(draft, target.folder, by_hand)
    return Fitted(fit=fit, written=written, draft=draft if written.text or draft.args else None, args=draft.args)


def lacking(target: RunnableTarget, *modules: str) -> tuple[str, ...]:
    """What the target's interpreter has to get before the edited script runs there."""
    check = f"import importlib.util as u, sys; sys.exit(not all(u.find_spec(n) for n in {modules!r}))"
    if run_child([target.python, "-c", check], cwd=target.folder, env=dict(os.environ), time_limit_s=30).status == "ok":
        return ()
    if "numba" not in modules:
        return (f"{target.python} has no rlmem: pip install rlmem there",)
    return (f"{target.python} has no rlmem with its buffers: pip install 'rlmem[buffers]' there",)
