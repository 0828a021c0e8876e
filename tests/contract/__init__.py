"""Every buffer equals the plain one: same stream in, same seed, same bits out as SB3's own classes."""

from __future__ import annotations

import pytest

for needed in ("torch", "stable_baselines3", "sb3_contrib"):
    pytest.importorskip(needed, reason="the 'truth' extra is not installed; 'make test' installs it")
