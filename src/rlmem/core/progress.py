"""The type of what shows the progress of a use case, and one that shows nothing."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

#: Takes a step in words, and opens a context that shows it while it lasts. Its value is called at every sample of a dry run; its
#: ``phase`` is called with every phase.
ShowProgress = Callable[[str], AbstractContextManager[Any]]


def show_nothing(step: str) -> AbstractContextManager[None]:
    """Return a context that shows nothing."""
    return nullcontext()
