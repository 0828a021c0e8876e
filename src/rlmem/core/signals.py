"""Signals by name."""

from __future__ import annotations

import signal


def signal_name(number: int) -> str:
    """Return SIGKILL for 9; numbers that have no name stay numbers."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
