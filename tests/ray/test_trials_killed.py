"""A trial that Ray's memory monitor kills is an error of that trial, told from a crash, and the others go on."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import ray
from ray import tune
from ray._private.utils import get_system_memory, get_used_memory

from rlmem.ray import trainable_with_memory
from rlmem.ray.hooks import KilledForMemoryError
from rlmem.ray.trials import trial_outcome
from rlmem.trials import PREDICTED

MB = 10**6
#: The monitor kills when so much more is in use than before the test; other tests on the machine may be near it.
ROOM = 2500 * MB
MOST = 8000 * MB


def take(config: dict[str, Any]) -> None:
    """Take memory until somebody stops it, or a little."""
    tune.report({"score": 0})
    blocks = []
    while config["greedy"] and len(blocks) * 100 * MB < MOST:
        blocks.append(bytearray(b"x") * (100 * MB))
        time.sleep(0.05)  # the monitor looks every 100 ms
    tune.report({"score": 1})


def test_a_trial_killed_by_the_memory_monitor_takes_nobody_with_it(ray_folder: Path, tmp_path: Path) -> None:
    ray.cloudpickle.register_pickle_by_value(sys.modules[__name__])
    os.environ["TUNE_DISABLE_AUTO_CALLBACK_LOGGERS"] = "1"
    threshold = (get_used_memory() + ROOM) / get_system_memory()
    if threshold > 0.9:
        pytest.skip("too little memory is free for this")
    ray.init(
        address="local",
        num_cpus=1,
        include_dashboard=False,
        object_store_memory=100 * 2**20,
        _temp_dir=str(ray_folder),
        log_to_driver=False,
        logging_level="error",
        _system_config={"memory_usage_threshold": threshold, "memory_monitor_refresh_ms": 100},
    )
    try:
        grid = tune.Tuner(
            trainable_with_memory(take, lambda config: 300 * MB),
            param_space={"greedy": tune.grid_search([True, False])},
            run_config=tune.RunConfig(storage_path=str(tmp_path), verbose=0),
        ).fit()
    finally:
        ray.shutdown()
    killed, modest = grid
    assert trial_outcome(killed).kind == "killed-for-memory"
    assert isinstance(killed.error, KilledForMemoryError)
    assert str(killed.error).startswith("killed by Ray's memory monitor: ")
    assert "\n" not in trial_outcome(killed).line
    assert killed.metrics.get(PREDICTED, 300 * MB) == 300 * MB  # its report is kept, where it came to one
    # Whatever else this machine does may bring the monitor to the other one as well.
    assert trial_outcome(modest).kind in {"finished", "killed-for-memory"}
