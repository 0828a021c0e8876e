"""``python -m rlmem.swarm ladder``: rows, what is made of their points, the table, the page; and real points, tiny ones."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from rlmem.app.ladder import ladder_document
from rlmem.cli.swarm import run
from rlmem.errors import UsageError
from rlmem.programs import swarm_ladder as ladder
from rlmem.programs.swarm_ladder import Line, Row, Taken, parse_sizes, rows
from rlmem.report.ladder import check_page, ladder_markdown, ladder_view, rewritten
from rlmem.report.render import render_view
from rlmem.swarm.settings import BY_NAME, RUNGS

MACHINE = {"cores": 2, "ram_bytes": 2**34, "system": "Linux 6 x86_64", "threads": None, "load": 0.0}
PAGE = "# Page\n\n<!-- ladder -->\nold\n<!-- end -->\n\n<!-- other -->\nmine\n<!-- end -->\n"


def taken(agents: int, peak: int | None, *, planned: int = 1_000_000, status: str = "ok", **more: Any) -> Taken:
    return Taken(agents=agents, status=status, planned_bytes=planned, peak_bytes=peak, **more)


def line(*points: Taken, rung: str = "gyro", **more: Any) -> Line:
    return Line(row=Row(rung=BY_NAME[rung], sizes=tuple(point.agents for point in points), **more), points=points)


GOOD = line(
    taken(2_000, 500_000_000, planned=490_000_000, stored_bytes=17_480_000, seconds=2.0, versions={"torch": "2.13.0"}),
    taken(10_000, 580_000_000, planned=562_000_000, stored_bytes=87_400_000, seconds=12.5, phase="collect"),
)
BAD = line(
    taken(200, 2 * 2**30, stored_bytes=144_880_000, seconds=30.0),
    taken(400, None, status="oom", planned=3_000_000, note="needs 2.0 GiB more in update: learner.activations"),
    rung="naive",
)


# --- rows ------------------------------------------------------------------------------------------------------------


def test_every_rung_has_a_row_in_the_order_of_the_ladder() -> None:
    assert [row.rung for row in rows() if not row.variant] == list(RUNGS)


def test_rungs_are_measured_at_two_numbers_of_agents_and_variants_at_one() -> None:
    assert {len(row.sizes) for row in rows() if not row.variant} == {2}
    assert {len(row.sizes) for row in rows() if row.variant} == {1}


def test_two_rungs_are_shown_with_every_window_by_itself_too() -> None:
    assert [row.name for row in rows() if row.variant == "encoding window"] == [
        "stream, encoding window",
        "gyro, encoding window",
    ]


def test_a_row_runs_what_it_says() -> None:
    (plain, window, full) = rows(only=("gyro",))
    assert [(row.settings(64).encoding, row.settings(64).ae_share) for row in (plain, window, full)] == [
        ("sequence", 0.1),
        ("window", 0.1),
        ("sequence", 1.0),
    ]
    assert {row.settings(64).minibatches for row in rows()} == {1}


@pytest.mark.parametrize("sizes", [None, (1, 2), (200, 400), (100_000, 200_000)])
def test_both_points_of_a_row_fly_as_many_agents_at_once(sizes: tuple[int, int] | None) -> None:
    for row in rows(sizes):
        assert row.chunk == 1 or ladder.TOGETHER * row.chunk <= min(row.sizes)
        assert len({row.settings(agents).chunk for agents in row.sizes}) == 1


@pytest.mark.parametrize("text", ["", "5", "5,5", "1,2,3", "0,4", "a,b", "-3,4"])
def test_sizes_that_are_not_two_numbers_are_refused(text: str) -> None:
    with pytest.raises(UsageError, match="--agents"):
        parse_sizes(text)


# --- what is made of the points ---------------------------------------------------------------------------------------


def test_an_agent_costs_what_the_second_point_has_more_than_the_first() -> None:
    assert (GOOD.stored_per_agent, GOOD.planned_per_agent, GOOD.peak_per_agent) == (8_740, 9_000, 10_000)
    assert GOOD.seconds == 12.5


def test_the_error_of_a_row_is_the_largest_of_its_points() -> None:
    assert GOOD.error == pytest.approx(562 / 580 - 1)
    assert GOOD.error is not None and abs(GOOD.error) > abs(GOOD.points[0].error or 0)


def test_what_one_point_cannot_tell_is_unknown() -> None:
    one = line(taken(2_000, 500_000_000, seconds=3.0))
    assert (one.peak_per_agent, one.planned_per_agent, one.stored_per_agent) == (None, None, None)
    assert not BAD.is_ok
    assert (BAD.peak_per_agent, BAD.stored_per_agent, BAD.seconds) == (None, None, None)


# --- the table -------------------------------------------------------------------------------------------------------


def test_the_table_has_the_numbers_and_what_they_were_measured_with() -> None:
    text = ladder_markdown(ladder_document([GOOD], MACHINE, "2026-01-02"))
    assert (
        "| gyro | rates read from the actions instead of stored | 8,740 | 9,000 | 10,000 | collect | 2,000, 10,000 | 12.5 | 1.25 | -3.1% |"
        in text
    )
    assert "Measured on 2026-01-02: 2 cores, 16.0 GiB, Linux 6 x86_64, torch 2.13.0." in text
    assert "chunks of 64 agents" in text


def test_a_point_that_ran_out_of_memory_is_said_and_no_number_stands_for_it() -> None:
    document = ladder_document([BAD], MACHINE, "2026-01-02")
    row = next(text for text in ladder_markdown(document).splitlines() if text.startswith("| naive"))
    assert row.split(" | ")[2:7] == ["unknown", "10,000", "unknown", "unknown", "200, 400"]
    assert "| oom | unknown |" in row
    text = render_view(document, ladder_view, "text", None)
    assert "naive, 400 agents: oom: needs 2.0 GiB more" in text


def test_a_busy_machine_is_said() -> None:
    document = ladder_document([GOOD], MACHINE | {"load": 3.2, "threads": "1"}, "2026-01-02")
    assert "OMP_NUM_THREADS=1; others used the machine meanwhile (load 3.2), times are too long." in ladder_markdown(
        document
    )


def test_a_page_is_changed_between_its_marks_only() -> None:
    page = rewritten(PAGE, ladder_document([GOOD], MACHINE, "2026-01-02"))
    assert page.startswith("# Page\n\n<!-- ladder -->\n| rung |")
    assert page.endswith("\n<!-- end -->\n\n<!-- other -->\nmine\n<!-- end -->\n")
    assert "old" not in page
    assert rewritten(page, ladder_document([GOOD], MACHINE, "2026-01-02")) == page


def test_a_page_without_the_marks_is_refused() -> None:
    with pytest.raises(UsageError, match=r"notes\.md: no line '<!-- ladder -->'"):
        check_page("# Page\n<!-- end -->\n", "notes.md")


# --- the command -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ("--only gyros", "did you mean 'gyro'?"),
        ("--agents 5", "write two different numbers, such as 200,400"),
        ("--agents 0,5", "at least 1"),
        ("--cap 16", "add a unit"),
        ("--timeout 0", "--timeout"),
        ("--write-docs missing.md", "--write-docs missing.md: No such file"),
        ("--write-docs page.md --only gyro", "leave --only out"),
        ("--write-docs empty.md", "no line '<!-- ladder -->'"),
        ("--python no-such-python", "no such interpreter"),
    ],
)
def test_wrong_input_is_one_line_and_nothing_runs(
    arguments: str, expected: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(ladder, "launch", lambda *a, **k: pytest.fail("something was run"))
    (tmp_path / "page.md").write_text(PAGE)
    (tmp_path / "empty.md").write_text("# Page\n")
    assert run(["ladder", *arguments.split()]) == 2
    text = capsys.readouterr().err
    assert expected in text
    assert "Traceback" not in text
    assert (tmp_path / "page.md").read_text() == PAGE


@pytest.fixture
def measured(monkeypatch: pytest.MonkeyPatch) -> Callable[[Line], None]:
    """The command without its processes."""

    def use(found: Line) -> None:
        def measure(_wanted: Sequence[Row], tell: Callable[[str], None], **_options: Any) -> Iterator[Line]:
            tell(found.row.name)
            yield found

        monkeypatch.setattr("rlmem.app.ladder.measure", measure)

    return use


def test_the_command_writes_a_page_and_a_document(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], measured: Callable[[Line], None]
) -> None:
    measured(GOOD)
    (tmp_path / "page.md").write_text(PAGE)
    assert run(["ladder", "--json", "--write-docs", str(tmp_path / "page.md")]) == 0
    said = capsys.readouterr()
    document = json.loads(said.out)
    assert document["schema"] == "rlmem.swarm-ladder/1"
    assert document["rows"][0]["stored_per_agent_bytes"] == 8_740
    assert document["rows"][0]["points"][1]["agents"] == 10_000
    assert "] gyro" in said.err
    assert "| gyro | rates read" in (tmp_path / "page.md").read_text()


def test_a_point_that_failed_is_exit_code_1(
    capsys: pytest.CaptureFixture[str], measured: Callable[[Line], None]
) -> None:
    measured(BAD)
    assert run(["ladder"]) == 1
    assert "oom" in capsys.readouterr().out


# --- for real --------------------------------------------------------------------------------------------------------


@pytest.mark.truth
@pytest.mark.long
@pytest.mark.skipif(find_spec("torch") is None, reason="the 'truth' extra is not installed; 'make test' installs it")
def test_both_ends_of_the_ladder_are_run_and_stored_as_they_say(monkeypatch: pytest.MonkeyPatch) -> None:
    from rlmem.swarm.collect import COLLECTED

    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    monkeypatch.setenv("PYTHONPATH", str(Path(ladder.__file__).parents[2]))
    assert ladder.TOGETHER == COLLECTED
    found = {}
    for name in ("naive", "gyro"):
        row = Row(rung=BY_NAME[name], sizes=(16, 32), encoding="sequence", ae_share=0.1)
        found[name] = ladder.take(row.settings(16), sys.executable)
    assert {point.status for point in found.values()} == {"ok"}
    # 100 windows of 1,804 values, or 990 samples of three 16-bit values; actions and three numbers a step beside either.
    assert [point.stored_bytes for point in found.values()] == [16 * (721_600 + 2_800), 16 * (5_940 + 2_800)]
    for point in found.values():
        assert point.seconds is not None and point.seconds > 0
        assert point.error is not None
        assert point.phase in {"collect", "update"}
        assert point.peak_bytes is not None and point.peak_bytes > (point.stored_bytes or 0)
