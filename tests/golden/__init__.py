"""Golden outputs of every command, as a net below changes of the code: ``make golden`` writes them."""

from __future__ import annotations

from golden import described, dryruns, errors, help, lint, live, numbers, pages, schemas, stored, written
from golden.harness import Case

#: Each module has ``CASES``; names are paths under ``data``.
ALL_CASES: tuple[Case, ...] = (
    *described.CASES,
    *dryruns.CASES,
    *errors.CASES,
    *help.CASES,
    *lint.CASES,
    *live.CASES,
    *numbers.CASES,
    *pages.CASES,
    *schemas.CASES,
    *stored.CASES,
    *written.CASES,
)
