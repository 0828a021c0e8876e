"""The document of a sweep, its tables, its plot and its exports."""

from __future__ import annotations

import copy
import csv
import io
import json
from dataclasses import replace
from typing import Any

import jsonschema
import pytest

from rlmem.core.points import Axis, Point, PointOptions, PointProcess, PredictedPeak
from rlmem.documents.contract import from_plain, schema_of, to_json, to_plain
from rlmem.documents.sweep import SweepDocument, in_order
from rlmem.documents.sweep_comparison import PointDifference, compare_sweeps
from rlmem.errors import AnalysisError, UsageError
from rlmem.report import export
from rlmem.report.compare_sweeps import compare_sweeps_view
from rlmem.report.plot import plot
from rlmem.report.render import render_view
from rlmem.report.sweep_view import sweep_view
from rlmem.units import GIB, MIB

NEED = "needs 14.4 GB more in update: stack of observations"


def point(agents: int, **more: Any) -> Point:
    size = GIB + 13 * MIB * agents
    facts: dict[str, Any] = {
        "values": {"agents": agents},
        "status": "ok",
        "peak_bytes": size,
        "phases": {"import": 300 * MIB, "update": size},
        "components": {"rollout.observations": 10 * MIB * agents},
        "predicted_components": {"rollout.observations": 11 * MIB * agents},
        "processes": (
            PointProcess(role="main", hwm_bytes=size, bytes_at_peak=size),
            PointProcess(role="worker", hwm_bytes=MIB, bytes_at_peak=MIB),
        ),
        "versions": {"torch": "2.13.0"},
        "wall_s": 2.0,
        "predicted": PredictedPeak(low=size - MIB, expected=round(size * 1.01), high=2 * size),
    }
    return Point(**{**facts, **more})


def oom(agents: int) -> Point:
    return point(agents, status="oom", peak_bytes=16 * GIB, note=NEED, phases={}, components={})


def document(*points: Point, repeats: int = 1, cap: int | None = 16 * GIB, **how: Any) -> SweepDocument:
    values = tuple(dict.fromkeys(p.values["agents"] for p in points if p.values))
    seen: dict[Any, int] = {}
    kept = []
    for p in points:
        key = p.values.get("agents")
        seen[key] = seen.get(key, -1) + 1
        kept.append(replace(p, repeat=seen[key]))
    about: dict[str, Any] = {"target": "drone-swarm", "status": "ok", **how}
    return SweepDocument(
        rlmem="1",
        run="abcd1234",
        command=("rlmem", "measure", about["target"]),
        started="2026-01-02T03:04:05Z",
        machine={"system": "Linux 6"},
        axes=(Axis(name="agents", values=values),) if values else (),
        repeat=repeats,
        options=PointOptions(cap_bytes=cap, time_limit_s=900.0),
        points=tuple(kept),
        **about,
    )


FULL = document(point(10), point(100), point(1000), oom(5000))


def text(data: SweepDocument, wanted: str = "text") -> str:
    return render_view(data, sweep_view, wanted, None)


def test_the_document_is_the_contract_and_comes_back() -> None:
    plain = json.loads(to_json(FULL))
    jsonschema.validate(plain, schema_of(SweepDocument))
    assert from_plain(SweepDocument, plain, "file") == FULL


def test_a_document_without_what_can_be_made_again_is_read() -> None:
    data = to_plain(FULL)
    del data["rows"], data["fits"]
    for row in data["points"]:
        del row["vram"], row["cgroup_bytes"], row["predicted_components"]
    assert from_plain(SweepDocument, data, "file").rows[0].measured_bytes == GIB + 130 * MIB


def test_rows_and_lines_are_those_of_the_points_whatever_a_file_says() -> None:
    data = {**to_plain(FULL), "rows": [{"measured_bytes": "much"}], "fits": None}
    assert from_plain(SweepDocument, data, "file") == FULL


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"points": 3}, "points: expected array"),
        ({"points": [{}]}, r"points\[0\]\.values: missing"),
        (
            {"points": [{"values": {}, "status": "fine", "peak_bytes": None}]},
            r"points\[0\]\.status: 'fine' is not one of",
        ),
        ({"axes": [{"name": 3, "values": []}]}, r"axes\[0\]\.name: expected string"),
        ({"options": {"cap_bytes": "much"}}, "options.cap_bytes: expected integer or null"),
        ({"schema": "rlmem.sweep/9"}, "schema 'rlmem.sweep/9' is not one this version reads"),
    ],
)
def test_a_document_that_is_not_complete_is_refused(change: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        from_plain(SweepDocument, {**to_plain(FULL), **change}, "file")


@pytest.mark.parametrize("path", ["phases", "values", "components", "versions", "predicted"])
def test_junk_inside_a_point_is_refused(path: str) -> None:
    data = to_plain(FULL)
    data["points"][0][path] = {"low": [], "update": []}
    with pytest.raises(UsageError, match=rf"points\[0\]\.{path}"):
        from_plain(SweepDocument, data, "file")


def test_the_table_has_predicted_beside_measured_and_what_went_wrong() -> None:
    out = text(FULL)
    lines = out.splitlines()
    assert lines[0] == f"1 of 4 points did not end well: oom at agents=5,000 ({NEED})"
    assert "predictions are 1.0% off in the median, +1.0% at worst" in lines[1]
    row = next(line for line in lines if line.split()[:1] == ["1,000"])
    assert "13.7 GiB" in row
    assert "+1.0%" in row
    last = next(line for line in lines if line.split()[:1] == ["5,000"])
    assert "over 16.0 GiB" in last
    assert NEED in last
    assert "rollout.observations" in out
    assert "+10.0%" in out
    assert "worker" in out


def test_the_cost_is_a_line_with_its_interval_and_a_plot() -> None:
    out = text(FULL)
    assert "measured: fixed 1.00 GiB (±0 B) + 13.0 MiB for each of agents (±0 B)" in out
    assert "predicted: fixed 1.01 GiB + 13.1 MiB for each of agents" in out
    assert out.count("●") >= 3
    assert "×" in out


def test_two_points_say_that_there_is_no_interval() -> None:
    out = text(document(point(10), point(100)))
    assert "no interval: a line through 2 points" in out
    assert "±" not in out


def test_a_bend_is_said() -> None:
    out = text(document(*(point(n, peak_bytes=GIB + MIB * n * n) for n in (10, 50, 100, 200))))
    assert "a line is a bad description: one more of agents costs 60.0 MiB at the low end and 300 MiB" in out


def test_repeats_have_a_spread() -> None:
    data = document(point(10), point(10, peak_bytes=GIB), point(10, status="timeout", peak_bytes=None), repeats=3)
    (row,) = data.rows
    assert (row.runs, row.ok_runs, row.status) == (3, 2, "timeout")
    assert (row.least_bytes, row.most_bytes) == (GIB, GIB + 130 * MIB)
    assert "1.00 GiB – 1.13 GiB (11.9%)" in text(data)
    assert "2 of 3" in text(data)


def test_a_note_of_every_row_is_said_once() -> None:
    assert text(document(point(10, note="filled fast"), point(20, note="filled fast"))).count("filled fast") == 1
    assert text(document(point(10, note="filled fast"), oom(20))).count("filled fast") == 1


def test_one_point_is_one_sentence() -> None:
    data = document(point(10, values={}))
    assert text(data).splitlines()[0] == "RAM peak 1.13 GiB measured; predicted 1.14 GiB (+1.0%)"
    assert "Cost of" not in text(data)


def test_a_broken_upper_bound_is_said() -> None:
    low = PredictedPeak(low=1, expected=GIB, high=GIB)
    assert "above its upper bound" in text(document(point(10, values={}, predicted=low)))
    assert "above the upper bound of the prediction: agents=100" in text(document(point(10), point(100, predicted=low)))


def test_nothing_predicted_leaves_the_columns_out() -> None:
    out = text(document(point(10, predicted=None), point(20, predicted=None)))
    assert "error" not in out.split("Where it goes")[0]
    assert "2 points measured" in out


def test_nothing_that_ended_well_still_draws() -> None:
    data = document(oom(10), point(20, status="failed", peak_bytes=None, predicted=None, note="raised ValueError"))
    out = text(data)
    assert "2 of 2 points did not end well" in out
    assert "raised ValueError" in out
    assert data.fits.measured == ()


def test_vram_is_shown_where_there_is_some() -> None:
    assert "VRAM of torch" in text(document(point(10, vram={"reserved": GIB, "process": 2 * GIB})))


def test_an_interrupted_sweep_says_how_far_it_came() -> None:
    data = document(point(10), status="interrupted")
    data = replace(data, axes=(Axis(name="agents", values=(10, 20, 30)),))
    assert "interrupted: 1 of 3 points measured" in text(data)


@pytest.mark.parametrize("wanted", ["text", "markdown", "json"])
def test_drawing_changes_nothing_and_keeps_names(wanted: str) -> None:
    data = document(point(10), oom(20), target="größe/🚁.py")
    before = copy.deepcopy(data)
    assert "größe/🚁.py" in text(data, wanted)
    assert data == before


def test_a_plot_in_markdown_is_a_code_block() -> None:
    out = text(FULL, "markdown")
    block = out.split("```text\n")[1].split("```")[0]
    assert "●" in block


def test_points_are_in_the_order_of_the_axes() -> None:
    axes = (Axis(name="agents", values=(30, 10, 20)),)
    assert [p.values["agents"] for p in in_order(axes, [point(n) for n in (10, 20, 30)])] == [30, 10, 20]


def test_a_plot_puts_marks_where_they_belong() -> None:
    drawn = plot([(0, 0, "a"), (10, 100, "b")], lambda x: 10 * x, x_text=str, y_text=str, width=11, height=5)
    assert drawn[0].endswith("b")
    assert drawn[4].split("┤")[1].startswith("a")
    assert drawn[2].split("┤")[1][5] == "·"
    high = plot([(0, 90, "a"), (10, 100, "b")], lambda x: 90 + x, x_text=str, y_text=str, width=11, height=5)
    assert high[-3].startswith("88.0 ┤")
    assert plot([(1, 1, "a")], lambda x: x, x_text=str, y_text=str) == ()


def test_csv_has_a_row_a_process_and_empty_cells_for_the_unknown() -> None:
    rows = list(csv.DictReader(io.StringIO(export.csv_text(FULL))))
    assert [row["vary.agents"] for row in rows] == ["10", "100", "1000", "5000"]
    assert rows[0]["peak_bytes"] == str(GIB + 130 * MIB)
    assert rows[3]["phase.update_bytes"] == ""
    assert rows[3]["error"] == ""
    assert rows[3]["note"] == NEED


def test_parquet_without_its_library_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> Any:
        raise ImportError(name)

    monkeypatch.setattr(export, "import_module", missing)
    with pytest.raises(AnalysisError, match=r"rlmem\[parquet\]"):
        export.parquet_bytes(FULL)


def test_parquet_holds_the_same_table() -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    table = parquet.read_table(io.BytesIO(export.parquet_bytes(FULL)))
    assert table.column("vary.agents").to_pylist() == [10, 100, 1000, 5000]
    assert table.column("phase.update_bytes").to_pylist()[3] is None


def test_two_sweeps_are_compared_point_by_point() -> None:
    other = document(point(10, versions={"torch": "2.9.0"}), point(100, peak_bytes=GIB, components={"x": 5}), point(7))
    data = compare_sweeps((FULL, other), ("left", "right"))
    assert data.at == {"agents": 100}
    assert data.points[1] == PointDifference(
        values={"agents": 100},
        left_status="ok",
        right_status="ok",
        left_bytes=GIB + 1300 * MIB,
        right_bytes=GIB,
    )
    (ram,) = data.devices
    assert (ram.left_phase, ram.right_phase) == ("update", "update")
    assert {row.component: (row.left_bytes, row.right_bytes) for row in ram.components} == {
        "rollout.observations": (1000 * MIB, None),
        "x": (None, 5),
        "workers": (MIB, MIB),
        "unexplained": (GIB + 299 * MIB, GIB - MIB - 5),
    }
    for wanted in ("text", "markdown", "json"):
        out = render_view(data, compare_sweeps_view, wanted, None)
        assert "oom" in out
    out = render_view(data, compare_sweeps_view, "text", None)
    assert "-1.27 GiB" in out
    assert "Versions that differ" in out
    assert "2.9.0 and 2.13.0" in out


def test_what_two_sweeps_hold_on_a_gpu_is_compared_too() -> None:
    sizes = {"allocated": 3 * GIB, "reserved": 4 * GIB, "process": 5 * GIB}
    left, right = (document(point(10, vram={**sizes, "allocated": n * GIB})) for n in (3, 2))
    data = compare_sweeps((left, right), ("left", "right"))
    assert [device.device for device in data.devices] == ["ram", "vram"]
    vram = {row.component: (row.left_bytes, row.right_bytes) for row in data.devices[1].components}
    assert vram["unexplained"] == (3 * GIB, 2 * GIB)
    assert "VRAM at agents=10" in render_view(data, compare_sweeps_view, "text", None)


def test_sweeps_that_share_nothing_are_still_listed() -> None:
    data = compare_sweeps((document(point(1)), document(point(2))), ("left", "right"))
    assert data.at is None
    assert len(data.points) == 2
    assert "unknown" not in render_view(data, compare_sweeps_view, "text", None)
