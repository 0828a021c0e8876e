"""Text in terminals of 80, 100 and 160 columns: whole columns are left out, and no character is."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from rlmem import Planner, load, make_budget
from rlmem.app.explain_cluster import cluster_document
from rlmem.cli import run
from rlmem.documents.explanation import explanation_document
from rlmem.documents.plan import plan_document
from rlmem.report.cluster_view import cluster_view
from rlmem.report.compare_recorded import compare_recorded_view
from rlmem.report.explain import explain_view
from rlmem.report.layout import lay_out, wrap
from rlmem.report.plan import plan_view
from rlmem.report.plot import plot
from rlmem.report.recorded import recorded_view
from rlmem.report.sweep_view import sweep_view
from rlmem.report.terminal import make_console
from rlmem.report.view import Column, Item, Section, Table, View
from unit.report import test_cluster_explained, test_compare_recorded, test_explain_report, test_sweep_report
from unit.report.widths import check_table, check_view, drawn

LONG = "model.replay_buffer.observations['" + "camera_of_the_left_front_leg_" * 8 + "']"
CHINESE = "模型.回放缓冲区.观察['前方摄像头']" * 3
HUGE = f"{10**40:,}"
#: Commands that print a table without a process being started.
COMMANDS = (
    "plan pidog-sac --ram 30GB",
    "plan pyboy-ppo --ram 32GB --vram 16GB",
    "plan pidog-sac --nodes 4x(64GB,1xA100-80GB)",
    "plan pidog-sac --why replay",
    "plan drone-swarm --set agents=1M --stacks",
    "capacity drone-swarm --vary agents --machines 8GB,16GB,24GB,80GB",
    "capacity pyboy-ppo --vary n_envs=1,2,4,8,16 --machines 8GB,rtx-4090,aws-g5-xlarge",
    "compare pidog-sac pyboy-ppo",
    "compare drone-swarm drone-swarm --set-right history=100",
    "assess pidog-sac --ram 30GB",
    "fit pidog-sac --ram 8GB",
    "fit pyboy-ppo --ram 8GB --vram 4GB",
    "workers pidog-sac-vector --nodes 8x(32GB,16cpu)",
    "rule",
    "rule MEM101",
    "machines",
    "machines --here",
    "presets",
    "runs",
)


def table(*rows: tuple[str, ...], titles: str = "component import build collect update checkpoint") -> Table:
    columns = tuple(Column(title=title, right=index > 0) for index, title in enumerate(titles.split()))
    return Table(title="", columns=columns, rows=rows)


@pytest.mark.parametrize("command", COMMANDS)
def test_no_command_cuts_a_number_in_a_narrow_terminal(
    command: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The fixture of all unit tests looks at the wider ones."""
    monkeypatch.setenv("COLUMNS", "80")
    assert run(command.split(" ")) in (0, 1)
    lines = capsys.readouterr().out.splitlines()
    assert max(cell_len(line) for line in lines) <= 80
    assert not any(re.search(r"\d (Gi|Mi|Ki|M|G|K)$", line) for line in lines)


def views() -> dict[str, View]:
    plan = Planner(make_budget(ram="30GB")).plan(load("pidog-sac"))
    document = plan_document(plan)
    entries = tuple(
        replace(entry, component=f"{(LONG, CHINESE)[number % 2]}{entry.component}")
        for number, entry in enumerate(document.entries)
    )
    hostile = replace(document, entries=entries)
    holding = {"kind": "array", "type": "numpy.ndarray", "nbytes": 10**15, "resident_bytes": 10**15}
    explained = test_explain_report.process(
        holdings=[test_explain_report.Holding(path=path, **holding) for path in (LONG, CHINESE, "a" * 300)]  # type: ignore[arg-type]
    )
    return {
        "plan": plan_view(hostile),
        "measure": sweep_view(test_sweep_report.FULL),
        "explain": explain_view(explanation_document(test_explain_report.TreeExplanation(processes=(explained,) * 3))),
        "explain of a cluster": cluster_view(cluster_document(test_cluster_explained.FOUND)),
        "compare": compare_recorded_view(
            test_compare_recorded.compared(test_compare_recorded.LEFT, test_compare_recorded.RIGHT)
        ),
        "run": recorded_view(test_compare_recorded.LEFT),
    }


@pytest.mark.parametrize("name", list(views()))
def test_names_and_numbers_of_any_length_are_shown_whole(name: str) -> None:
    check_view(views()[name])


def test_columns_are_left_out_by_rank_and_said() -> None:
    sizes = ("123 MiB",) * 5
    ranked = Table(
        title="",
        columns=(
            Column(title="component", right=False),
            Column(title="import", rank=2),
            Column(title="build", rank=1),
            Column(title="update", strong=True),
            Column(title="checkpoint", rank=3),
            Column(title="collect"),
        ),
        rows=(("replay.next_observations[image]", *sizes),),
    )
    shown = [[column.title for column in lay_out(ranked, width).columns] for width in (90, 70, 60, 50, 40, 20)]
    assert shown == [
        ["component", "import", "build", "update", "checkpoint", "collect"],
        ["component", "import", "build", "update", "collect"],
        ["component", "build", "update", "collect"],
        ["component", "update", "collect"],
        ["component", "update", "collect"],
        ["component"],
    ]
    text = drawn(View(title="", verdict=(), sections=(Section(title="s", tables=(ranked,)),)), 60)
    assert "left out at this width: import, checkpoint" in text


def test_a_number_stays_with_its_unit() -> None:
    assert wrap("the rollout keeps 4.22 GiB of images", 22) == ["the rollout keeps", "4.22 GiB of images"]
    assert wrap("it saves 54.8 MiB", 15) == ["it saves", "54.8 MiB"]
    assert wrap("replay.next_observations[image]", 20) == ["replay.next_", "observations[image]"]
    assert wrap(f"  {'x' * 12} y", 8) == ["  xxxxxx", "xxxxxx y"]
    assert wrap("", 8) == [""]


def test_the_saving_stands_with_the_finding() -> None:
    item = Item(lead="MEM101", text="next observations are stored in an array of their own", saves="saves 7.79 GiB")
    text = drawn(View(title="", verdict=(), sections=(Section(title="Findings", items=(item,)),)), 60)
    assert [line.rstrip() for line in text.splitlines()][-2:] == [
        "  MEM101  next observations are stored in an array of their",
        "          own  [saves 7.79 GiB]",
    ]


CELL = st.one_of(
    st.sampled_from(["", "7.89 GiB", "231–261", "12 %", LONG, CHINESE, HUGE, "0 B", "1,234 of 5,678", "👩‍🚀 n"]),
    st.text(st.characters(exclude_categories=["C", "Z"]), max_size=40),
)


@given(
    rows=st.integers(1, 8).flatmap(
        lambda count: st.lists(st.tuples(*(CELL for _ in range(count))), min_size=1, max_size=4)
    ),
    width=st.integers(20, 200),
    data=st.data(),
)
def test_any_table_fits_any_width(rows: list[tuple[str, ...]], width: int, data: st.DataObject) -> None:
    columns = tuple(
        Column(
            title=f"c{index}",
            right=data.draw(st.booleans()),
            strong=data.draw(st.booleans()),
            rank=data.draw(st.integers(0, 3)),
        )
        for index in range(len(rows[0]))
    )
    made = Table(title="", columns=columns, rows=tuple(rows))
    text = drawn(View(title="", verdict=(), sections=(Section(title="s", tables=(made,)),)), width)
    assert max(cell_len(line.rstrip()) for line in text.splitlines()) <= max(width, 24)
    check_table(made, width, text)


def test_tables_are_drawn_in_one_place() -> None:
    home = Path(__file__).parents[3] / "src" / "rlmem"
    assert [path.name for path in home.rglob("*.py") if "rich.table" in path.read_text()] == ["terminal.py"]
    assert make_console.__module__ == "rlmem.report.terminal"


def test_a_picture_that_is_too_wide_is_left_out_whole() -> None:
    figure = plot([(0, 1, "●"), (9, 5, "●")], None, x_text=str, y_text="{:.0f}".format)
    view = View(title="", verdict=(), sections=(Section(title="s", figure=figure),))
    assert figure[-1] in drawn(view, 80)
    assert "●" not in drawn(view, 60) and "left out at this width: the picture" in drawn(view, 60)
