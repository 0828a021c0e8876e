"""The JSON contract and what is drawn from it, for every built-in run."""

from __future__ import annotations

import io
import json
import re
from functools import cache
from typing import Any

import jsonschema
import pytest

from rlmem.app.capacity import capacity_table
from rlmem.app.compare import compare_documents
from rlmem.app.formulas import formulas
from rlmem.budget import make_budget
from rlmem.documents.comparison import ComparisonDocument
from rlmem.documents.contract import from_plain, schema_of, to_json, to_plain
from rlmem.documents.plan import PlanDocument, plan_document
from rlmem.errors import UsageError
from rlmem.planner import ClosedForm, Planner
from rlmem.report.capacity import capacity_view
from rlmem.report.compare import compare_view
from rlmem.report.markdown import render
from rlmem.report.plan import formulas_view, plan_view, process_table
from rlmem.report.render import render_view
from rlmem.report.terminal import draw, make_console
from rlmem.sources.preset import PRESETS, read_preset

ANSI = re.compile(r"\x1b\[")
BUDGETS = ({"ram": "30GB", "vram": "16GB"}, {"ram": "64MB", "vram": "64MB"}, {"machine": "macbook-m1-16gb"})


@cache
def _document(name: str, budget: int) -> str:
    return to_json(plan_document(Planner(make_budget(**BUDGETS[budget])).plan(read_preset(name))))


def document(name: str, budget: int = 0) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(_document(name, budget))
    return found


@pytest.mark.parametrize("budget", range(len(BUDGETS)))
@pytest.mark.parametrize("name", PRESETS)
def test_a_plan_is_valid_by_its_published_schema(name: str, budget: int) -> None:
    jsonschema.Draft202012Validator.check_schema(schema_of(PlanDocument))
    jsonschema.validate(document(name, budget), schema_of(PlanDocument))


def typed(name: str, budget: int = 0) -> PlanDocument:
    return from_plain(PlanDocument, document(name, budget), "plan.json")


def sizes(value: Any, key: str = "") -> list[Any]:
    if isinstance(value, dict):
        return [size for name, part in value.items() for size in sizes(part, name)]
    if isinstance(value, list):
        return [size for part in value for size in sizes(part, key)]
    return [value] if key.endswith(("_bytes", "nbytes")) else []


@pytest.mark.parametrize("name", PRESETS)
def test_every_size_is_a_whole_number_of_bytes(name: str) -> None:
    found = sizes(document(name))
    assert len(found) > 50
    assert all(size is None or type(size) is int for size in found)


@pytest.mark.parametrize("name", PRESETS)
def test_the_entries_of_a_phase_add_up_to_its_peak(name: str) -> None:
    data = document(name)
    for peak in data["peaks"]:
        held = [
            e
            for e in data["entries"]
            if (e["device"], e["phase"]) == (peak["device"], peak["phase"]) and e["residency"] != "reserved"
        ]
        for mine, theirs in (("nbytes", "expected_bytes"), ("high_bytes", "high_bytes")):
            assert sum(e[mine] for e in held) == peak[theirs]
        # Another moment of the phase may have the larger lower bound.
        assert sum(e["low_bytes"] for e in held) <= peak["low_bytes"]
        assert peak["low_bytes"] <= peak["expected_bytes"] <= peak["high_bytes"]


@pytest.mark.parametrize("name", PRESETS)
def test_each_device_has_one_peak_and_it_is_the_largest_phase(name: str) -> None:
    data = document(name)
    for device in {p["device"] for p in data["peaks"]}:
        rows = [p for p in data["peaks"] if p["device"] == device]
        (top,) = [p for p in rows if p["is_peak"]]
        assert top["expected_bytes"] == max(p["expected_bytes"] for p in rows)
        assert rows[0] is top


@pytest.mark.parametrize("name", PRESETS)
def test_every_formula_ends_in_the_bytes_of_its_entry(name: str) -> None:
    for entry in document(name)["entries"]:
        assert entry["formula"].endswith(f"{entry['nbytes']:,} B"), entry["formula"]
        assert all(term["origin"] for term in entry["origin"]), entry["component"]


def test_nothing_fits_in_less_than_an_interpreter_with_torch() -> None:
    assert {document(name, 1)["verdict"] for name in PRESETS} == {"does-not-fit"}


@pytest.mark.parametrize("wanted", ["text", "markdown", "json"])
@pytest.mark.parametrize("budget", range(len(BUDGETS)))
@pytest.mark.parametrize("name", PRESETS)
def test_every_format_draws_every_run_without_colour_codes(name: str, budget: int, wanted: str) -> None:
    plan = typed(name, budget)
    text = render_view(plan, plan_view, wanted, None)
    assert not ANSI.search(text)
    assert plan.target.name in text
    assert plan.summary[0] in text


@pytest.mark.parametrize("name", PRESETS)
def test_the_verdict_comes_before_any_table(name: str) -> None:
    plan = typed(name)
    lines = render_view(plan, plan_view, "text", None).splitlines()
    assert lines[: len(plan.summary)] == list(plan.summary)
    assert lines[len(plan.summary)].startswith(name)
    assert max(len(line) for line in lines) <= 140


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def drawn(stream: io.StringIO) -> str:
    draw(plan_view(typed("pidog-sac")), make_console(stream))
    return stream.getvalue()


def test_a_terminal_gets_colours_and_a_pipe_does_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm-256color")
    assert "\x1b[1;32m" in drawn(Terminal())
    assert not ANSI.search(drawn(io.StringIO()))


def test_no_color_leaves_no_colours_in_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv("NO_COLOR", "1")
    assert not re.search(r"\x1b\[[0-9;]*3[0-9]", drawn(Terminal()))


def test_markdown_tables_have_as_many_cells_as_headings() -> None:
    text = render(plan_view(typed("pyboy-ppo")))
    for block in re.findall(r"(?:^\|.*\n)+", text, re.MULTILINE):
        rows = block.strip().splitlines()
        assert {row.replace("\\|", "").count("|") for row in rows} == {rows[0].count("|")}


def test_a_name_full_of_markup_is_shown_as_it_is() -> None:
    data = document("pidog-sac")
    data["target"]["name"] = "[bold red]a|b[/]"
    assert "[bold red]a|b[/]" in render_view(from_plain(PlanDocument, data, "x"), plan_view, "text", None)


def test_processes_are_listed_only_when_there_are_several() -> None:
    assert process_table(typed("pidog-sac")) is None
    table = process_table(typed("pyboy-ppo"))
    assert table is not None
    assert [row[:2] for row in table.rows] == [("main", "1"), ("workers", "2")]


def test_why_shows_each_component_once_where_it_is_largest() -> None:
    sections = formulas_view(formulas(typed("pidog-sac"), "replay")).sections
    assert len(sections) > 3
    assert len({section.title for section in sections}) == len(sections)
    assert all("reserved" not in section.lines[0] for section in sections)


def test_a_document_reads_back_as_it_was_written() -> None:
    data = document("pidog-sac")
    assert to_plain(from_plain(PlanDocument, data, "x")) == data


def broken(change: str) -> Any:
    data = document("pidog-sac")
    match change:
        case "list":
            return [data]
        case "no schema":
            del data["schema"]
        case "other schema":
            data["schema"] = "rlmem.plan/99"
        case "no entries":
            del data["entries"]
        case "entry without bytes":
            del data["entries"][3]["nbytes"]
        case "text for bytes":
            data["peaks"][0]["low_bytes"] = "many"
        case "true for bytes":
            data["peaks"][0]["low_bytes"] = True
        case "unknown phase":
            data["entries"][0]["phase"] = "lunch"
        case "unknown verdict":
            data["verdict"] = "maybe"
        case "no peak":
            for peak in data["peaks"]:
                peak["is_peak"] = False
        case "target is text":
            data["target"] = "x"
    return data


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("list", "not a document written by rlmem"),
        ("no schema", "not a document written by rlmem"),
        ("other schema", "schema 'rlmem.plan/99' is not one this version reads; it reads rlmem.plan/1"),
        ("no entries", "entries: missing"),
        ("entry without bytes", "entries[3].nbytes: missing"),
        ("text for bytes", "peaks[0].low_bytes: expected integer"),
        ("true for bytes", "peaks[0].low_bytes: expected integer"),
        ("unknown phase", "entries[0].phase: 'lunch' is not one of"),
        ("unknown verdict", "verdict: 'maybe' is not one of"),
        ("no peak", "peaks: no row is marked as the peak"),
        ("target is text", "target: expected object"),
    ],
)
def test_a_broken_document_is_refused_with_the_place(change: str, message: str) -> None:
    with pytest.raises(UsageError) as caught:
        from_plain(PlanDocument, broken(change), "plan.json")
    assert str(caught.value).startswith("plan.json: ")
    assert message in str(caught.value)


def test_a_document_without_its_optional_parts_can_still_be_shown() -> None:
    data = document("pidog-sac")
    for key in ("summary", "schedule", "rlmem"):
        del data[key]
    assert render_view(from_plain(PlanDocument, data, "x"), plan_view, "text", None)


@pytest.mark.parametrize("wanted", ["text", "markdown", "json"])
def test_a_capacity_table_draws_in_every_format(wanted: str) -> None:
    subject = ClosedForm().subject(read_preset("pidog-sac"), make_budget(**BUDGETS[0]))
    data = capacity_table([subject], "buffer_size", (1000, 2000))
    text = render_view(data, capacity_view, wanted, None)
    assert "buffer_size" in text
    assert not ANSI.search(text)
    (cost,) = data.per_unit
    assert cost.bytes is not None and cost.bytes > 2 * (84 * 84 * 3 + 31 * 4)


def test_a_run_compared_with_itself_differs_in_nothing() -> None:
    plan = Planner(make_budget(**BUDGETS[0])).plan(read_preset("pyboy-ppo"))
    data = compare_documents([plan_document(plan)] * 2, ("left", "right"))
    assert isinstance(data, ComparisonDocument)
    assert data.settings == ()
    for device in data.devices:
        assert all(row.left_bytes == row.right_bytes for row in device.components)
        assert sum(row.left_bytes for row in device.components) == device.left_bytes
    assert "left" in render_view(data, compare_view, "text", None)
