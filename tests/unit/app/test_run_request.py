"""The request of a run: what was typed, as a policy."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from rlmem.app.run import RunRequest
from rlmem.errors import UsageError
from rlmem.runner.guarding import Policy

COMMAND = ("python", "train.py")


def test_without_limits_the_usual_policy_only_tells() -> None:
    assert RunRequest(command=COMMAND).policy() == Policy(checkpoint_to=str(Path("rlmem-checkpoints").absolute()))


def test_a_limit_of_its_own_is_kept_by_stopping() -> None:
    policy = RunRequest(command=COMMAND, max_ram="2GB", warn_at=50, act_at=75).policy()
    assert (policy.max_ram_bytes, policy.warn_at, policy.act_at, policy.action) == (2_000_000_000, 0.5, 0.75, "stop")
    told = RunRequest(command=COMMAND, max_threads=4, on_pressure="signal:USR2").policy()
    assert (told.action, told.signal, told.max_threads) == ("signal", signal.SIGUSR2, 4)


def test_what_cannot_be_meant_is_refused() -> None:
    with pytest.raises(UsageError, match="no command to run"):
        RunRequest(command=())
    with pytest.raises(UsageError, match="--warn-at 95 is above --act-at 92"):
        RunRequest(command=COMMAND, warn_at=95)
    with pytest.raises(UsageError, match="--on-pressure jump: use none, stop"):
        RunRequest(command=COMMAND, on_pressure="jump").policy()
    with pytest.raises(UsageError, match="'much' is not a size"):
        RunRequest(command=COMMAND, max_vram="much").policy()
