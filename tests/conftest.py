"""Shared fixtures: no test sees what a user calibrated or measured, and none writes outside its own folder."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

# Threads of OpenMP that wait otherwise spin, and take the cores of other tests: a sixth of the time of those with torch.
os.environ.setdefault("OMP_WAIT_POLICY", "passive")
# A shell starts what it puts in the background with SIGINT ignored, and every child would inherit that: what tests say of
# Ctrl-C needs the default.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

try:
    from hypothesis import HealthCheck, settings
except ModuleNotFoundError:  # tests/ray run without it
    pass
else:  # how long an example takes on a busy machine decides no test
    settings.register_profile("rlmem", deadline=None, suppress_health_check=[HealthCheck.too_slow])
    settings.load_profile("rlmem")


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RLMEM_CACHE_DIR", str(tmp_path / "rlmem-cache"))
    monkeypatch.setenv("RLMEM_DATA_DIR", str(tmp_path / "rlmem-data"))
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.delenv("FORCE_COLOR", raising=False)
    monkeypatch.setenv("COLUMNS", "140")
