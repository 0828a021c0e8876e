"""HTML reports: whole, safe, small, and of every kind of run."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from jsonschema import validate

from rlmem import load, make_budget
from rlmem.app.recorded import recorded_document
from rlmem.app.report import recorded_report, report_document
from rlmem.cli import run as rlmem
from rlmem.core.moments import Moment
from rlmem.documents.contract import from_plain, schema_of, to_json, to_plain
from rlmem.documents.moment import moment_part
from rlmem.documents.recorded import PolicyPart, Recording
from rlmem.documents.report import ReportDocument
from rlmem.planner import ClosedForm
from rlmem.report.html.markup import element, text
from rlmem.report.html.page import one_file
from rlmem.report.html.render import render_html
from rlmem.report.html.scale import Scale, count_ticks, size_ticks
from rlmem.report.html.time_parts import thinned
from rlmem.rules import with_findings
from rlmem.runner.store import open_store
from rlmem.sources.preset import PRESETS
from rlmem.sources.target import parse_target
from rlmem.units import GIB

ORDER = [
    "verdict",
    "components",
    "phases",
    "growth",
    "measured",
    "capacity",
    "findings",
    "processes",
    "unexplained",
    "environment",
]
EVIL = "<script>alert(1)</script><img src=x onerror=alert(2)>\"'&]]>"


class Reader(HTMLParser):
    """Tags that were opened, ids, and the data inside."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.words: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.words.append(data)

    @property
    def sections(self) -> list[str | None]:
        return [attributes["id"] for tag, attributes in self.tags if tag == "section"]


def report(target: str, *sets: str, ram: str | None = "10GB", vram: str | None = None) -> ReportDocument:
    subject = with_findings(ClosedForm().subject(load(target, sets), make_budget(ram=ram, vram=vram)))
    return report_document(subject, target=parse_target(target), command=["rlmem", "plan", target])


def embedded(page: str) -> Any:
    return json.loads(re.findall(r'<script type="application/json" id="data">(.*?)</script>', page, re.DOTALL)[0])


@pytest.mark.parametrize("target", PRESETS)
def test_every_preset_has_a_report_in_the_order_in_which_it_is_read(target: str) -> None:
    document = report(target, ram="16GB", vram="8GB")
    page = render_html(document)
    assert Reader(page).sections == ORDER
    assert embedded(page) == to_plain(document)
    assert len(page.encode()) - len(to_json(document)) < 300_000


def test_a_report_asks_for_nothing_from_anywhere() -> None:
    page = render_html(report("pidog-sac"))
    for tag, attributes in Reader(page).tags:
        assert "src" not in attributes, tag
        assert not (attributes.get("href") or "#").startswith(("http", "//")), attributes
    assert "url(" not in page
    assert "default-src 'none'" in page


def test_names_stay_text_wherever_they_come_from() -> None:
    document = to_plain(report("pidog-sac"))
    plan = document["plan"]
    plan["target"]["name"] = plan["target"]["about"] = EVIL
    plan["machine"]["name"] = plan["machine"]["ram_source"] = EVIL
    plan["notes"] = [EVIL]
    for entry in plan["entries"]:
        entry["component"] = entry["formula"] = entry["process"] = EVIL
    document["command"] = ["rlmem", EVIL]
    page = render_html(from_plain(ReportDocument, document, "report.json"))
    read = Reader(page)
    assert [tag for tag, _ in read.tags].count("script") == 2  # the data and our own
    assert "img" not in {tag for tag, _ in read.tags}
    assert EVIL in "".join(read.words)


def test_control_characters_and_lone_surrogates_do_not_break_a_page() -> None:
    page = text(element("p", {"title": "a\x00b"}, "x\x1b[31m \ud800 y"))
    assert page.encode("utf-8")
    assert "\x00" not in page


def test_a_run_without_a_limit_is_drawn_too() -> None:
    document = to_plain(report("pidog-sac"))
    for peak in document["plan"]["peaks"]:
        peak["limit_bytes"] = None
    document["growth"]["limit_bytes"] = document["growth"]["over_limit_at"] = None
    for row in document["capacity"]["rows"]:
        for peak in row["peaks"]:
            peak["limit_bytes"] = None
    document["capacity"] |= {"largest_safe": None, "unlimited": True}
    page = render_html(from_plain(ReportDocument, document, "report.json"))
    assert Reader(page).sections == ORDER


def test_what_could_not_be_planned_changed_says_so() -> None:
    document = replace(report("pidog-sac"), capacity=None, remedies=(), growth=None)
    words = "".join(Reader(render_html(document)).words)
    assert "could only be planned as it is" in words
    assert "Nothing makes the peak smaller" in words


def moments(count: int, **more: Any) -> list[Moment]:
    return [Moment(at_s=float(n), tree_bytes=(n + 1) << 20, rss_bytes=1 << 20, **more) for n in range(count)]


@pytest.mark.parametrize("count", [0, 1, 2, 1000])
def test_a_recorded_run_has_a_report_however_short_it_was(count: int) -> None:
    recording = Recording(target=EVIL, command=("python", EVIL), started="2026-01-01T00:00:00Z")
    document = recorded_report(recorded_document(recording, moments(count, limit_bytes=GIB, limit_name=EVIL)))
    read = Reader(render_html(document))
    assert read.sections == ORDER
    assert [tag for tag, _ in read.tags].count("script") == 2


def test_thinned_moments_keep_the_largest_and_the_last() -> None:
    found = [moment_part(moment) for moment in moments(5000)]
    found[1234] = replace(found[1234], tree_bytes=99 * GIB)
    kept = thinned(found)
    assert len(kept) <= 401
    assert kept[-1] is found[-1]
    assert max(moment.tree_bytes for moment in kept) == 99 * GIB


def test_places_on_an_axis_stay_inside() -> None:
    scale = Scale(low=10, high=20)
    assert [scale.share(value) for value in (0, 10, 15, 20, 99)] == [0, 0, 0.5, 1, 1]
    assert Scale(low=5, high=5).share(7) == 0


@pytest.mark.parametrize("high", [1, 900, 5e5, 7e9, 3e12, 9e15])
def test_an_axis_of_sizes_has_a_few_round_labels(high: float) -> None:
    ticks = size_ticks(high)
    assert 1 <= len(ticks) <= 7
    assert all(at <= high for at, _ in ticks)


@pytest.mark.parametrize("high", [1, 7, 16, 999, 123_456, 10**9])
def test_an_axis_of_counts_has_a_few_round_labels(high: float) -> None:
    assert 1 <= len(count_ticks(0, high)) <= 5


# -- the commands -------------------------------------------------------------------------------------------------------


def test_plan_writes_the_report_beside_what_it_prints(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "plan.html"
    assert rlmem(["plan", "pidog-sac", "--ram", "10GB", "--html", str(path)]) == 1
    said = capsys.readouterr()
    assert "does not fit" in said.out
    assert f"wrote {path}" in said.err
    assert Reader(path.read_text(encoding="utf-8")).sections == ORDER


def test_a_redacted_report_names_no_folder(tmp_path: Path) -> None:
    path, source = tmp_path / "plan.html", tmp_path / "mine.yaml"
    source.write_text("extends: pidog-sac\nn_envs: 2\n", encoding="utf-8")
    assert rlmem(["plan", str(source), "--ram", "30GB", "--html", str(path), "--redact"]) == 0
    page = path.read_text(encoding="utf-8")
    assert str(tmp_path) not in page
    assert embedded(page)["plan"]["target"]["origins"]["n_envs"] == "…/mine.yaml:2"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--redact"], "give --html FILE too"),
        (["--html", "no/such/folder/plan.html"], "no such folder"),
        (["--html", "x.html", "--stacks"], "contradict"),
    ],
)
def test_what_cannot_be_written_is_said_before_the_work(
    words: list[str], said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert rlmem(["plan", "pidog-sac", "--ram", "10GB", *words]) == 2
    assert said in capsys.readouterr().err


def test_assess_writes_the_report_of_a_recorded_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with open_store(write=True) as store:
        run = store.begin("run", "train.py", command=["python", "train.py"], document={"target": "train.py"})
        store.record(run.id, dict(enumerate(moments(10))))
    path = tmp_path / "report.html"
    assert rlmem(["assess", run.id, "--html", str(path)]) == 0
    assert embedded(path.read_text(encoding="utf-8"))["schema"] == "rlmem.recorded/2"


def test_assess_of_a_description_writes_the_same_report_as_plan(tmp_path: Path) -> None:
    path = tmp_path / "report.html"
    assert rlmem(["assess", "pidog-sac", "--ram", "30GB", "--html", str(path)]) == 0
    assert embedded(path.read_text(encoding="utf-8"))["schema"] == "rlmem.report/2"


def test_a_page_may_hold_any_data() -> None:
    data = {"schema": "x", "evil": "</script><!--<script>", "line": "\u2028"}
    assert embedded(one_file("t", "", [], data)) == data


def test_the_data_of_a_report_has_a_schema_and_can_be_shown_again(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data = to_plain(report("pidog-sac"))
    validate(data, schema_of(ReportDocument))
    path = tmp_path / "report.json"
    path.write_text(json.dumps(data), encoding="utf-8")
    assert rlmem(["show", str(path)]) == 0
    assert "does not fit" in capsys.readouterr().out
    path.write_text(json.dumps({**data, "remedies": None}), encoding="utf-8")
    assert rlmem(["show", str(path)]) == 2
    assert "remedies" in capsys.readouterr().err


def test_the_device_that_does_not_fit_stands_in_the_headline() -> None:
    page = render_html(report("pyboy-ppo", ram="30GB", vram="4GB"))
    first, second = re.findall(r'<p class="tone (\w+)"><i[^>]*>.</i>(\w+) ', page)[:2]
    assert (first, second) == (("bad", "VRAM"), ("good", "RAM"))


def test_what_is_still_to_come_is_no_more_than_was_reserved() -> None:
    from rlmem.report.html.curve_parts import growth

    document = report("drone-swarm", "storage=plain", ram="1000GB")
    found = document.growth
    assert found is not None
    (area,) = (each for each in growth(found).iter("path") if each.get("class") == "area to-come")
    heights = [1000 - float(pair.split()[1]) for pair in (area.get("d") or "").strip("MZ").split("L")]
    count = len(found.rows)
    upper, lower = heights[:count], heights[count:][::-1]
    high = max(row.high_bytes for row in found.rows) * 1.15
    reserved = max(top - bottom for top, bottom in zip(upper, lower, strict=True)) / 1000
    assert reserved * high == pytest.approx(found.store_bytes, rel=0.02)


@pytest.mark.parametrize("path", ["train.py", "-"])
def test_a_report_is_not_written_over_its_target(
    path: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("train.py").write_text("print(1)\n")
    assert rlmem(["plan", "./train.py", "--html", path]) == 2
    assert "--html" in capsys.readouterr().err
    assert Path("train.py").read_text() == "print(1)\n"
    assert not Path("-").exists()


def test_a_recorded_run_is_made_again_with_the_limits_it_had() -> None:
    policy = PolicyPart(max_ram_bytes=1_200_000_000, action="stop")
    document = recorded_document(Recording(target="t", command=("python", "t.py"), policy=policy), moments(3))
    words = "".join(Reader(render_html(recorded_report(document))).words)
    assert "rlmem run --max-ram 1200000000B --on-pressure stop -- python t.py" in words
