"""Points made of what programs said, beside a plan."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from rlmem.core.ledger import Ledger
from rlmem.core.points import PointLimits
from rlmem.errors import UsageError
from rlmem.frameworks import predict, resolve
from rlmem.model.constants import Constants
from rlmem.process.sampler import TreePeak
from rlmem.programs.cases import Case
from rlmem.programs.launch import Answer, launch, missing_packages, training_python
from rlmem.programs.points import lack, make_point, measure_point, newcomer
from rlmem.runner.child import Outcome
from rlmem.sources import load
from rlmem.sources.target import parse_target
from rlmem.units import GIB, MIB, format_size

CASE = Case(program="swarm_run.py", body={}, packages=(), notes=("said by the case",))
GB16 = 16 * 10**9


def ledger(target: str, *sets: str) -> Ledger:
    return predict(resolve(load(target, sets)), Constants())


def answer(status: str = "ok", *, peak: int = GIB, error: str | None = None, **status_file: Any) -> Answer:
    outcome = Outcome(status=status, returncode=0, wall_s=1.0, peak=TreePeak(pss_bytes=peak))
    if error is not None:
        return Answer(outcome=outcome, body={"error": error}, status=status_file)
    body = {
        "phases": {"update": {"tree": 2 * GIB}, "import": {"tree": 200 * MIB}},
        "components": {"rollout.observations": 72_160_000, "cuda.allocated": 5},
        "versions": {"torch": "2.13.0"},
        "notes": ["said by the program"],
    }
    return Answer(outcome=outcome, body=body if status == "ok" else {}, status=status_file)


def test_the_peak_is_the_larger_of_what_was_sampled_and_what_the_program_saw() -> None:
    point = make_point({"agents": 100}, answer(), ledger("drone-swarm", "agents=100"), CASE, None, {})
    assert point.peak_bytes == 2 * GIB
    assert list(point.phases) == ["import", "update"]
    assert point.note == "said by the case; said by the program"


def test_components_stand_beside_the_plans_and_the_gpus_apart() -> None:
    point = make_point({}, answer(), ledger("drone-swarm", "agents=100"), CASE, None, {})
    assert point.components == point.predicted_components == {"rollout.observations": 72_160_000}
    assert point.vram == {"allocated": 5}


def test_a_point_over_the_cap_says_how_much_more_it_needs_where_and_what_for() -> None:
    over = answer("oom", phase="update", peaks={"import": 5, "build": 6})
    plan = ledger("drone-swarm", "agents=1500")
    point = make_point({}, over, plan, CASE, GB16, {})
    more = format_size(max(peak.expected_bytes for peak in plan.peaks()) - GB16)
    assert point.status == "oom"
    assert point.note == f"needs {more} more in update: learner.activations (by the plan)"
    assert point.phases == {"import": 5, "build": 6}


def test_what_is_still_to_come_is_said_too() -> None:
    text = lack(ledger("drone-swarm", "agents=5000"), "collect", GB16)
    assert text is not None
    assert "more in collect: rollout.graph; " in text
    assert "more in update: learner.activations" in text


def test_a_replay_buffer_that_fills_is_what_collection_lacks_memory_for() -> None:
    assert newcomer(ledger("pidog-sac"), "collect") == "replay.observations[image]"


def test_a_plan_that_fits_the_cap_is_not_blamed() -> None:
    assert lack(ledger("drone-swarm", "agents=10"), "update", GB16) is None
    point = make_point({}, answer("oom", phase="update"), ledger("drone-swarm", "agents=10"), CASE, GB16, {})
    assert point.note.startswith("ran out of memory in update: ")


@pytest.mark.parametrize("error", ["MemoryError: ", "RuntimeError: [enforce fail] can't allocate memory: you tried …"])
def test_a_refused_allocation_is_a_point_out_of_memory(error: str) -> None:
    refused = answer("failed", error=error, phase="update")
    assert make_point({}, refused, ledger("drone-swarm"), CASE, 10**9, {}).status == "oom"


def test_an_exception_is_a_failed_point_with_its_phase_and_last_word() -> None:
    point = make_point(
        {}, answer("failed", error="ValueError: bad\n shape", phase="build"), ledger("drone-swarm"), CASE, None, {}
    )
    assert (point.status, point.note) == ("failed", "failed in build: ValueError: bad shape")


def program(folder: Path, text: str) -> Path:
    path = folder / "some_run.py"
    path.write_text(text, encoding="utf-8")
    return path


def test_a_program_gets_its_case_and_gives_its_answer_in_files(tmp_path: Path) -> None:
    text = "import json, sys\njson.dump({'seen': json.load(open(sys.argv[1]))['n']}, open(sys.argv[2], 'w'))"
    assert launch(program(tmp_path, text), {"n": 3}, sys.executable).body == {"seen": 3}


def test_a_killed_program_has_said_where_it_was(tmp_path: Path) -> None:
    text = (
        "import json, os, signal\n"
        "json.dump({'phase': 'collect', 'peaks': {'import': 7}}, open(os.environ['RLMEM_STATUS'], 'w'))\n"
        "os.kill(os.getpid(), signal.SIGKILL)"
    )
    ended = launch(program(tmp_path, text), {}, sys.executable)
    assert (ended.outcome.status, ended.phase, ended.body) == ("killed", "collect", {})


def test_a_program_over_the_cap_ends(tmp_path: Path) -> None:
    text = "import time\nheld = bytearray(400 << 20)\nheld[::4096] = b'1' * len(held[::4096])\ntime.sleep(60)"
    ended = launch(program(tmp_path, text), {}, sys.executable, cap_bytes=100 * MIB)
    assert ended.outcome.status == "oom"


def test_an_interpreter_without_the_framework_is_named_before_anything_runs() -> None:
    assert missing_packages(sys.executable, ("json", "no_such_package")) == ("no_such_package",)
    with pytest.raises(UsageError, match="this interpreter has no no_such_package; pass --python PATH"):
        training_python(None, ("no_such_package",))
    with pytest.raises(UsageError, match="no such interpreter"):
        training_python("/no/such/python", ())


def test_something_that_is_no_interpreter_is_refused(tmp_path: Path) -> None:
    fake = tmp_path / "python"
    fake.write_text("#!/bin/sh\nexit 3\n", encoding="utf-8")
    fake.chmod(0o755)
    with pytest.raises(UsageError, match="does not answer like a Python interpreter"):
        training_python(str(fake), ("torch",))


def test_an_unknown_target_is_a_usage_error() -> None:
    with pytest.raises(UsageError, match="unknown preset"):
        measure_point(parse_target("drone-swarn"), {}, PointLimits())
