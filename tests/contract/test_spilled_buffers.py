"""A budget is held: cold blocks go to a file of their own, and what was stored stays right."""

from __future__ import annotations

import copy
import multiprocessing
import os
import pickle
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from gymnasium import spaces

from contract.compare import add, assert_same_rows, assert_same_sample, fill, reference
from contract.disk import no_file_longer_than
from contract.strategies import CODECS, Plan, box
from contract.streams import Pace
from rlmem.errors import RlmemError
from rlmem.sb3 import CompactReplayBuffer

pytestmark = pytest.mark.truth

#: 3 KiB of noise a step and environment: 12 MB in all, over a budget of 3 MB.
PLAN = Plan(
    observation_space=spaces.Dict({"image": box((3, 32, 32), "uint8"), "vector": box((5,), "float32")}),
    action_space=spaces.Box(-1, 1, (2,), np.float32),
    n_envs=2,
    buffer_size=4000,
    steps=2600,
    seed=4,
    pace=Pace(),
)
BUDGET = 3_000_000


def spilling(folder: Path, codec: str = "none", **options: Any) -> Any:
    return CompactReplayBuffer(**PLAN.common, codec=codec, **{"budget": BUDGET, "spill": folder, **options})


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "spill"
    made.mkdir()
    return made


def emptied(folder: Path) -> None:
    shutil.rmtree(folder)
    folder.mkdir()


@pytest.fixture(scope="module")
def steps() -> list[Any]:
    return list(PLAN.play())


@pytest.mark.parametrize("codec", CODECS)
def test_samples_are_exact_and_the_budget_is_held(codec: str, folder: Path, steps: list[Any]) -> None:
    ours, theirs = spilling(folder, codec), reference(PLAN)
    for number, step in enumerate(steps):
        add(step, ours, theirs)
        if number % 200 == 0:
            assert_same_sample(ours, theirs, 64, seed=number)
            assert ours.nbytes <= BUDGET
    assert ours.nbytes <= BUDGET
    assert_same_rows(ours, theirs)


def test_a_budget_in_words_and_a_folder_as_text(folder: Path, steps: list[Any]) -> None:
    ours, theirs = spilling(folder, budget="3MB", spill=str(folder)), reference(PLAN)
    fill(steps[:1500], ours, theirs)
    assert_same_sample(ours, theirs, 64)
    assert ours.nbytes <= 3_000_000


def test_what_is_spilled_is_said(folder: Path, steps: list[Any]) -> None:
    ours = spilling(folder)
    fill(steps, ours)
    said = str(ours.describe()).lower()
    assert "spill" in said and "budget" in said
    assert any(path.stat().st_size > BUDGET for path in folder.rglob("*") if path.is_file()) or "spill" in said


def test_nothing_is_left_behind(folder: Path, steps: list[Any]) -> None:
    ours = spilling(folder)
    fill(steps[:1500], ours)
    del ours
    assert sum(path.stat().st_size for path in folder.rglob("*") if path.is_file()) < 100_000


@pytest.mark.parametrize(
    "way", [copy.deepcopy, lambda buffer: pickle.loads(pickle.dumps(buffer))], ids=["copied", "pickled"]
)
def test_a_copy_has_a_file_of_its_own(way: Any, folder: Path, steps: list[Any]) -> None:
    ours, theirs, other = spilling(folder), reference(PLAN), reference(PLAN)
    fill(steps[:1400], ours, theirs, other)
    again = way(ours)
    fill(steps[1400:], ours, theirs)
    fill(reversed(steps[:1200]), again, other)
    assert_same_rows(ours, theirs)
    assert_same_rows(again, other)


def test_a_pickle_needs_no_spill_file(folder: Path, steps: list[Any]) -> None:
    ours, theirs = spilling(folder), reference(PLAN)
    fill(steps[:1400], ours, theirs)
    kept = pickle.dumps(ours)
    del ours
    emptied(folder)
    again = pickle.loads(kept)
    assert_same_rows(again, theirs)
    fill(steps[1400:], again, theirs)
    assert_same_sample(again, theirs, 64)


def test_a_saved_file_needs_no_spill_file(folder: Path, tmp_path: Path, steps: list[Any]) -> None:
    ours, theirs = spilling(folder), reference(PLAN)
    fill(steps, ours, theirs)
    ours.save(tmp_path / "buffer")
    del ours
    emptied(folder)
    assert_same_rows(CompactReplayBuffer.load(tmp_path / "buffer"), theirs)


@pytest.mark.parametrize("limit_bytes", [0, 4096, 1_000_000])
def test_a_full_disk_loses_nothing(limit_bytes: int, folder: Path, steps: list[Any]) -> None:
    theirs, ours = reference(PLAN), None
    refused = False
    with no_file_longer_than(limit_bytes):
        try:
            ours = spilling(folder)
            for step in steps:
                ours.add(*step.given())
                theirs.add(*step.given())
        except (RlmemError, OSError):
            refused = True
    assert refused, "more was kept than fits"
    if ours is not None:
        assert ours.size() == theirs.size()
        assert_same_rows(ours, theirs)
        assert_same_sample(ours, theirs, 64)


def test_two_buffers_in_one_folder_do_not_meet(folder: Path, steps: list[Any]) -> None:
    pairs = [(spilling(folder), reference(PLAN)) for _ in range(2)]
    for step, other in zip(steps[:1400], reversed(steps[:1400]), strict=True):
        add(step, *pairs[0])
        add(other, *pairs[1])
    for ours, theirs in pairs:
        assert_same_rows(ours, theirs)


OTHER = """
import sys
sys.path[:0] = sys.argv[2:]
from contract.test_spilled_buffers import PLAN, spilling
from contract.compare import assert_same_rows, fill, reference
from dataclasses import replace
from pathlib import Path
ours, theirs = spilling(Path(sys.argv[1])), reference(PLAN)
fill(replace(PLAN, seed=99, steps=1400).play(), ours, theirs)
assert_same_rows(ours, theirs)
"""


def test_two_processes_in_one_folder_do_not_meet(folder: Path, steps: list[Any]) -> None:
    ours, theirs = spilling(folder), reference(PLAN)
    fill(steps[:1200], ours, theirs)
    tests = Path(__file__).resolve().parents[1]
    child = subprocess.run(
        [sys.executable, "-c", OTHER, str(folder), str(tests)], capture_output=True, text=True, check=False, timeout=200
    )
    # its own file, or a clear refusal: never ours
    assert child.returncode == 0 or "rlmem.errors" in child.stderr, child.stderr[-2000:]
    fill(steps[1200:], ours, theirs)
    assert_same_rows(ours, theirs)


def go_on(ours: Any, theirs: Any, steps: list[Any], verdict: Any) -> None:
    try:
        fill(steps, ours, theirs)
        assert_same_rows(ours, theirs)
        verdict.send("exact")
    except RlmemError as problem:
        verdict.send(f"refused: {problem}")


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_process_cannot_write_into_our_file(folder: Path, steps: list[Any]) -> None:
    ours, theirs = spilling(folder), reference(PLAN)
    fill(steps[:1200], ours, theirs)
    context = multiprocessing.get_context("fork")
    answer, verdict = context.Pipe(duplex=False)
    child = context.Process(target=go_on, args=(ours, theirs, list(reversed(steps)), verdict))
    child.start()
    assert answer.poll(100), "the forked process crashed or hangs"
    child.join()
    assert answer.recv().startswith(("exact", "refused"))
    fill(steps[1200:], ours, theirs)
    assert_same_rows(ours, theirs)


def test_a_budget_that_suffices_spills_nothing(folder: Path) -> None:
    plan = replace(PLAN, steps=200)
    ours, theirs = spilling(folder, budget="1GB"), reference(plan)
    fill(plan.play(), ours, theirs)
    assert sum(path.stat().st_size for path in folder.rglob("*") if path.is_file()) < 100_000
    assert_same_sample(ours, theirs, 64)
