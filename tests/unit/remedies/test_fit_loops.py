"""The line through dry runs, and a script written back: on real plans and real files."""

from __future__ import annotations

import os
import stat
from dataclasses import replace
from pathlib import Path

import pytest

from rlmem.budget import make_budget
from rlmem.core.plan import Plan
from rlmem.errors import AnalysisError, UsageError
from rlmem.lint.reading import read_file
from rlmem.planner import Planner
from rlmem.remedies.base import over
from rlmem.sources import load
from rlmem.sources.target import parse_target
from rlmem.trace.applying import write_edited
from rlmem.trace.drafts import edited_copy
from rlmem.trace.ledger import TracedLedger
from rlmem.trace.loops import Line
from rlmem.trace.target import find_runnable


def at(ram: str, refused_over: int = 10**12) -> tuple[Line, list[int]]:
    """A line over closed forms, which stand in for dry runs; above a size they cannot start."""
    planner, asked = Planner(make_budget(ram=ram)), []

    def plan(value: int) -> Plan | None:
        asked.append(value)
        if value > refused_over:
            return None
        return planner.plan(load("pidog-sac", (f"buffer_size={value}",)))

    return Line(plan, 400_000), asked


def test_the_largest_count_is_found_with_a_handful_of_dry_runs() -> None:
    line, asked = at("8GB")
    line.seen[400_000] = Planner(make_budget(ram="8GB")).plan(load("pidog-sac"))
    value = line.largest()
    assert value is not None
    assert len(asked) <= 4
    assert over(line.seen[value]) <= 0
    assert value >= 160_000  # the closed form's own answer is 170,000


def test_a_dry_run_far_off_the_line_does_not_end_the_search() -> None:
    line, asked = at("8GB")
    usual, first = line.at, []

    def plan(value: int) -> Plan | None:
        """The first value above half way was stopped before its update, so that its upper bound is far up."""
        if value > 150_000 and not first:
            first.append(value)
            asked.append(value)
            return Planner(make_budget(ram="8GB")).plan(load("pidog-sac", ("buffer_size=900000",)))
        return usual(value)

    line.at = plan
    line.seen[400_000] = Planner(make_budget(ram="8GB")).plan(load("pidog-sac"))
    line.first = 100_000
    value = line.largest()
    assert value is not None
    assert value > 100_000
    assert over(line.seen[value]) <= 0


def test_a_script_that_cannot_start_is_begun_small_and_extended() -> None:
    line, asked = at("8GB", refused_over=200_000)
    value = line.largest()
    assert value is not None
    assert 160_000 <= value <= 175_000
    assert asked[0] == 25_000
    whole = line.extended(400_000).top("ram")
    truth = Planner(make_budget(ram="8GB")).plan(load("pidog-sac")).top("ram")
    assert whole is not None
    assert truth is not None
    assert whole.expected_bytes == pytest.approx(truth.expected_bytes, rel=0.01)


def test_a_count_that_cannot_help_is_given_up() -> None:
    line, asked = at("100MB")
    assert line.largest() is None
    assert len(asked) <= 5


def test_a_script_is_written_with_a_backup_and_keeps_its_mode(tmp_path: Path) -> None:
    path = tmp_path / "train.py"
    path.write_bytes(b"a = 1  # caf\xe9\r\n".replace(b"a", b"# -*- coding: latin-1 -*-\r\na", 1))
    path.chmod(0o755)
    before = path.read_bytes()
    text = read_file(path)
    backup = write_edited(path, text, text.text.replace("a = 1", "a = 2"))
    assert backup.name == "train.py.orig"
    assert backup.read_bytes() == before
    assert path.read_bytes() == before.replace(b"a = 1", b"a = 2")
    assert stat.S_IMODE(path.stat().st_mode) == 0o755
    again = write_edited(path, read_file(path), "a = 3\n")
    assert again.name == "train.py.orig1"
    assert backup.read_bytes() == before
    assert sorted(os.listdir(tmp_path)) == ["train.py", "train.py.orig", "train.py.orig1"]


def test_a_file_that_changed_since_it_was_read_is_not_written(tmp_path: Path) -> None:
    path = tmp_path / "train.py"
    path.write_text("a = 1\n")
    text = read_file(path)
    path.write_text("a = 7\n")
    with pytest.raises(AnalysisError, match="was changed since it was read"):
        write_edited(path, text, "a = 2\n")
    assert path.read_text() == "a = 7\n"
    assert os.listdir(tmp_path) == ["train.py"]


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everything")
def test_a_file_that_is_read_only_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "train.py"
    path.write_text("a = 1\n")
    path.chmod(0o444)
    with pytest.raises(UsageError, match="read-only"):
        write_edited(path, read_file(path), "a = 2\n")


def test_an_edited_copy_stands_beside_the_script_and_goes_away(tmp_path: Path) -> None:
    path = tmp_path / "train.py"
    path.write_text("a = 1\n")
    target = replace(find_runnable(parse_target(str(path))), args=("--x",))
    with pytest.raises(KeyboardInterrupt), edited_copy(target, read_file(path), "a = 2\n") as copy:
        assert Path(copy.text).parent == tmp_path
        assert Path(copy.text).read_text() == "a = 2\n"
        assert copy.args == ("--x",)
        raise KeyboardInterrupt
    assert os.listdir(tmp_path) == ["train.py"]


def test_a_compact_buffer_in_a_loop_counts_as_full() -> None:
    """It reserves nothing, so that what a dry run wrote of it says little about what it will hold."""

    def reading(nbytes: int) -> dict[str, object]:
        return {"tree": nbytes, "rss": nbytes, "peak": nbytes, "others": []}

    keys = {
        "observation": {"obs_bytes": 28_224, "stack": 4, "codec": "none", "nbytes": 7_056_000, "resident": 7_056_000}
    }
    store = {"rows": 30_000, "n_envs": 1, "paired": True, "full": False, "index_bytes": 0, "options": {}, "keys": keys}
    facts = {
        "met": "loop",
        "versions": {"torch": "2.13.0"},
        "phases": {name: reading(500_000_000) for name in ("import", "build", "collect", "update")},
        "loop_stores": [store],
    }
    with_store = TracedLedger(facts).ledger()
    held = with_store.only(phase="update", component="replay.observations")
    assert held.nbytes == pytest.approx(30_000 * 7_056, rel=0.03)
    assert with_store.only(phase="update").nbytes == pytest.approx(500_000_000 + 29_000 * 7_056, rel=0.03)
