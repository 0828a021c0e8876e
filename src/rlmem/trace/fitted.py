"""How a target is run to be fitted, and what comes out: the answer, its text, and an edited copy to be run."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from rlmem.edits import Edit, apply, diff
from rlmem.errors import AnalysisError
from rlmem.lint.reading import Text
from rlmem.planner import Planner
from rlmem.remedies.base import Fit
from rlmem.remedies.program import Written
from rlmem.scripts import parse_script
from rlmem.trace.dryrun import DryRun, dry_run
from rlmem.trace.target import Target

#: Where a script that cannot start as it is begins: with this part of its count.
START_SHARE = 16

Tick = Callable[[Any], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """How a target is run: under which cap, for how long, with which changes of its model."""

    planner: Planner
    target: Target
    changes: Mapping[str, Any]
    device: str | None = None
    cap_bytes: int | None = None
    time_s: float | None = None
    #: Says what is going on, while it is.
    working: Callable[[str], Any] | None = None

    def run(self, target: Target, what: str, changes: Mapping[str, Any] | None = None) -> DryRun:
        """One dry run, with further changes of its model."""
        with _told(self.working, what) as tick:
            return dry_run(
                target,
                changes={**self.changes, **(changes or {})},
                cap_bytes=self.cap_bytes,
                time_s=self.time_s,
                device=self.device,
                on_tick=tick,
            )


@contextmanager
def _told(working: Callable[[str], Any] | None, what: str) -> Iterator[Tick | None]:
    if working is None:
        yield None
        return
    with working(what) as tick:
        yield tick


@dataclass(frozen=True, slots=True, kw_only=True)
class Fitted:
    """An answer and its text: how the steps are written, and the script before and after them."""

    fit: Fit
    written: Written
    #: The script as it was read, and its text with the edits; ``None`` where nothing was edited.
    before: Text | None = None
    after: str | None = None
    #: Arguments of the target with the steps in them, where it takes them that way.
    args: tuple[str, ...] | None = None


def as_diff(fit: Fit, target: Target, text: Text, edits: tuple[Edit, ...], by_hand: tuple[str, ...]) -> Fitted:
    """An answer whose steps are edits of a script."""
    after = apply(text.text, edits)
    parse_script(after, target.text)  # an edit that breaks a script is not shown to anybody
    path, here = Path(target.text).resolve(), target.folder.resolve()
    name = path.relative_to(here).as_posix() if path.is_relative_to(here) else path.name
    shown = diff(name, text.text, after)
    written = Written(kind="diff" if shown else "nothing", text=shown, by_hand=by_hand)
    return Fitted(fit=fit, written=written, before=text, after=after if shown else None)


@contextmanager
def edited_copy(target: Target, text: Text, after: str) -> Iterator[Target]:
    """A target that runs an edited copy of its script: beside it, so that what it imports and reads is found."""
    folder = Path(target.text).resolve().parent
    try:
        handle, name = tempfile.mkstemp(prefix=f".rlmem-fit-{Path(target.text).stem}-", suffix=".py", dir=folder)
    except OSError as error:
        raise AnalysisError(f"cannot write an edited copy beside {target.text}: {error.strerror or error}") from None
    try:
        with os.fdopen(handle, "wb") as stream:
            stream.write(text.encoded(after))
        yield replace(target, text=name)
    finally:
        Path(name).unlink(missing_ok=True)
