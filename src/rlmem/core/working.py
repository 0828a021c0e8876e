"""How a use case says what is going on."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

#: Says what is going on, while it is; what it gives is called at every look of a dry run, and its ``phase`` at every phase.
Working = Callable[[str], AbstractContextManager[Any]]


def silently(what: str) -> AbstractContextManager[None]:
    """Say nothing of what is going on."""
    return nullcontext()
