"""Commands over runs that are described: presets and run files."""

from __future__ import annotations

from golden.harness import Case, command_case
from rlmem.sources.preset import PRESETS

_FORMATS = ("txt", "md", "json")

CASES: tuple[Case, ...] = tuple(
    command_case(f"plan/{preset}.{suffix}", ["plan", preset, "--ram", "30GB", "--vram", "16GB"])
    for preset in PRESETS
    for suffix in (*_FORMATS, "html")
)
