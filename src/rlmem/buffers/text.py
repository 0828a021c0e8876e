"""What a buffer is called where it is printed: how full it is, how large, and what a transition takes."""

from __future__ import annotations

from rlmem.units import format_size


def fill_text(name: str, held: int, capacity: int, nbytes: int, *, n_envs: int = 1, spilled_nbytes: int = 0) -> str:
    """One line about a buffer.

    >>> fill_text("Replay", 250, 1000, 80_000)
    'Replay of 250 of 1,000 transitions (25 %), 78.1 KiB, 320 B a transition'
    """
    parts = [f"{name} of {held:,} of {capacity:,} transitions ({100 * held / capacity:.3g} %)"]
    if n_envs > 1:
        parts.append(f"{n_envs} envs")
    parts.append(format_size(nbytes))
    if spilled_nbytes:
        parts.append(f"{format_size(spilled_nbytes)} on disk")
    if held:
        parts.append(f"{nbytes / held:,.0f} B a transition")
    return ", ".join(parts)
