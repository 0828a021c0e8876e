"""The guard in a program's own loop, alone and under ``rlmem run``."""

from __future__ import annotations

import json
import logging
import os
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest

import rlmem
from rlmem.agent import proc
from rlmem.errors import UsageError
from rlmem.guards import OVERDUE_SECONDS, ProcessGuard
from rlmem.runner.guarding import Load, Policy
from rlmem.units import MIB

pytestmark = pytest.mark.skipif(proc.rollup() is None, reason="reads smaps_rollup")
SRC = Path(__file__).parents[2] / "src"


def touched(mib: int) -> bytearray:
    block = bytearray(mib << 20)
    block[::4096] = b"x" * (mib << 8)
    return block


def await_true(check: object, seconds: float = 10.0) -> None:
    deadline = time.monotonic() + seconds
    while not check():  # type: ignore[operator]
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_the_public_name_is_the_function_however_it_is_reached() -> None:
    from rlmem import guard

    assert guard is rlmem.guard
    assert callable(rlmem.guard)


def test_the_function_is_called_once_in_the_thread_that_checks() -> None:
    called: list[Load] = []
    limit = proc.rss() + 100 * MIB
    with rlmem.guard(limit, act_at=0.95, warn_at=0.9, on_pressure=called.append, interval_s=0.01) as guard:
        guard.check()
        assert called == []
        block = touched(110)
        for _ in range(5):
            time.sleep(0.02)
            guard.check()
        assert len(called) == 1
        assert called[0].what == "RAM"
        assert called[0].share > 0.95
        del block


def test_what_the_function_raises_comes_out_of_check() -> None:
    def stop(load: Load) -> None:
        raise KeyboardInterrupt(load.sentence())

    with (
        rlmem.guard(1, on_pressure=stop, interval_s=0.01) as guard,
        pytest.raises(KeyboardInterrupt, match="--max-ram"),
    ):
        time.sleep(0.02)
        guard.check()


def test_until_the_interval_is_over_nothing_is_looked_at() -> None:
    with rlmem.guard(1, on_pressure=lambda load: None, interval_s=3600) as guard:
        guard.check()
        seen = guard.moment
        for _ in range(1000):
            guard.check()
        assert guard.moment is seen


def test_a_loop_that_never_checks_is_noticed_from_a_thread(caplog: pytest.LogCaptureFixture) -> None:
    called: list[Load] = []
    policy = Policy(max_ram_bytes=1)
    with (
        caplog.at_level(logging.WARNING, "rlmem"),
        ProcessGuard(policy, called.append, None, interval_s=0.01, overdue_s=0.05),
    ):
        await_true(lambda: "nothing can be done in it" in caplog.text)
    assert "check() was not called for" in caplog.text
    assert caplog.text.count("the loop is stuck") == 1
    assert called == []  # never in another thread than the loop's
    assert OVERDUE_SECONDS > 1


def test_without_an_action_a_warning_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "rlmem"), rlmem.guard(1, interval_s=0.01) as guard:
        time.sleep(0.02)
        guard.check()
    assert "nothing was asked to be done" in caplog.text


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"on_pressure": "explode"}, "give a function"),
        ({"on_pressure": "checkpoint"}, "needs the model"),
        ({"max_ram": "15 apples"}, "unknown unit"),
        ({"warn_at": 0.95}, "must be shares"),
        ({"act_at": 92}, "must be shares"),
    ],
)
def test_a_wrong_guard_is_a_usage_error(options: dict[str, object], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        rlmem.guard(**options)  # type: ignore[arg-type]


def test_a_programs_own_function_is_what_rlmem_run_asks_for(tmp_path: Path) -> None:
    """``--on-pressure checkpoint`` without Stable-Baselines3: the registered function saves, in the loop's thread."""
    program = tmp_path / "train.py"
    program.write_text(
        textwrap.dedent(
            """
            import json, sys, threading, time
            from rlmem import guard
            kept = []
            def save(load):
                with open(sys.argv[1], "w") as file:
                    json.dump({"thread": threading.current_thread().name, "what": load.what}, file)
                kept.clear()
            with guard(on_pressure=save, interval_s=3600) as watch:
                for step in range(400):
                    kept.append(bytearray(b"x") * (1 << 20))
                    watch.check()
                    time.sleep(0.01)
                    if not kept:
                        break
            print("saved" if not kept else "never asked")
            """
        )
    )
    note = tmp_path / "saved.json"
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "rlmem",
            "run",
            "--max-ram",
            "250MB",
            "--on-pressure",
            "checkpoint",
            "--interval",
            "0.1",
            "--",
            sys.executable,
            str(program),
            str(note),
        ],
        env={**os.environ, "PYTHONPATH": str(SRC), "RLMEM_DATA_DIR": str(tmp_path / "data")},
        capture_output=True,
        text=True,
        timeout=90,
        check=False,
    )
    assert (done.returncode, done.stdout) == (0, "saved\n"), done.stderr
    assert json.loads(note.read_text()) == {"thread": "MainThread", "what": "RAM"}
    assert "checkpoint saved" in done.stderr
