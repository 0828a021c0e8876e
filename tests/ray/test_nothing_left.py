"""What these tests leave behind is found, keepers too."""

from __future__ import annotations

import os
import subprocess
import sys

import psutil

from conftest import MARK, left
from rlmem.ray.tasks import KEEPER_VARIABLE


def test_a_keeper_that_stayed_is_found_and_another_session_s_is_not() -> None:
    sleeps = [sys.executable, "-c", "import time; time.sleep(1000)"]
    ours = subprocess.Popen(sleeps, env={**os.environ, KEEPER_VARIABLE: "x"})
    theirs = subprocess.Popen(sleeps, env={**os.environ, KEEPER_VARIABLE: "x", MARK: "another"})
    try:
        found = left()
        assert psutil.Process(ours.pid) in found
        assert psutil.Process(theirs.pid) not in found
    finally:
        for each in (ours, theirs):
            each.kill()
            each.wait()
