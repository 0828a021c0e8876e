"""Stored runs in a browser: the list and its filter, two side by side, one of them, its report."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from browser.conftest import SCRIPT, Stored, Visits, expect


def rows(page: Any) -> Any:
    return page.locator("#runs tbody tr")


def choose(page: Any, left: str, right: str) -> None:
    page.get_by_label(f"left: {left}").check()
    page.get_by_label(f"right: {right}").check()
    page.get_by_role("button", name="Compare left and right").click()


def test_runs_are_listed_and_filtered_while_one_types(visits: Visits, stored: Stored, shot: Callable) -> None:
    page = visits.open("/runs")
    expect(rows(page)).to_have_count(6)
    for run in stored.ids.values():
        expect(page.get_by_role("link", name=run)).to_be_visible()
    shot(page, "runs")
    page.get_by_label("with").press_sequentially("pidog")
    expect(rows(page)).to_have_count(2)
    expect(page).to_have_url(re.compile("text=pidog"))
    expect(page.locator("#runs .note")).to_contain_text("2 of 6")
    page.get_by_label("with").fill("")
    expect(rows(page)).to_have_count(6)
    page.get_by_label("kind").select_option("run")
    expect(rows(page)).to_have_count(4)
    page.get_by_label("with").fill("nothing has this")
    expect(page.locator("#runs")).to_contain_text("None matches.")
    page.reload()  # the address has the filter
    expect(page.locator("#runs")).to_contain_text("None matches.")
    expect(page.get_by_label("kind")).to_have_value("run")


@pytest.mark.parametrize(("left", "right"), [("plan", "roomy plan"), ("small", "large"), ("training", "small")])
def test_two_runs_of_one_kind_stand_side_by_side(
    visits: Visits, stored: Stored, shot: Callable, left: str, right: str
) -> None:
    page = visits.open("/runs")
    choose(page, stored[left], stored[right])
    expect(page).to_have_url(re.compile(f"/runs/compare.*left={stored[left]}"))
    for run in (stored[left], stored[right]):
        expect(page.get_by_role("link", name=f"run {run}")).to_be_visible()
        expect(page.locator("#peaks .name").filter(has_text=run).first).to_be_visible()
    sizes = [float(words.split()[0]) for words in page.locator("#peaks .size").all_inner_texts()[:2]]
    if left == "small":
        assert sizes[0] < sizes[1]
        expect(page.locator("#peaks .plot .line.left, #peaks .plot .line.right")).to_have_count(2)
    shot(page, f"compare-{left}")
    page.get_by_role("link", name="Swap").click()
    expect(page).to_have_url(re.compile(f"left={stored[right]}&right={stored[left]}"))
    expect(page.locator("#peaks .name").first).to_contain_text(stored[right])


def test_a_plan_is_compared_with_what_was_recorded_line_by_line(visits: Visits, stored: Stored) -> None:
    page = visits.open("/runs")
    choose(page, stored["plan"], stored["small"])
    expect(page.locator("#main")).to_contain_text("left predicted")
    expect(page.locator("#main")).to_contain_text("right measured")


def test_a_recorded_run_has_a_page_and_a_report_to_keep(
    visits: Visits, stored: Stored, shot: Callable, tmp_path: Path
) -> None:
    page = visits.open("/runs")
    page.get_by_role("link", name=stored["training"]).click()
    expect(page.get_by_role("heading", level=1)).to_have_text("short.py")
    expect(page.locator("#components")).to_contain_text("model.replay_buffer")
    expect(page.locator("#phases .plot")).to_be_visible()
    shot(page, "run", full=True)
    with page.expect_download() as found:
        page.get_by_role("link", name="Report").click()
    assert found.value.suggested_filename == f"{stored['training']}.html"
    kept = tmp_path / "kept.html"
    found.value.save_as(kept)
    page.goto(kept.as_uri())
    expect(page.get_by_role("heading", level=1)).to_have_text("short.py")
    expect(page.locator("#components")).to_contain_text("model.replay_buffer")


@pytest.mark.parametrize("path", ["/runs/{}/report.html", "/planner/report.html?of=pidog-sac&ram=10GB"])
def test_the_address_of_a_report_saves_it(visits: Visits, stored: Stored, path: str) -> None:
    answer = visits.context().request.get(visits.url(path.format(stored["training"])))
    assert (answer.status, answer.headers["content-disposition"]) == (200, "attachment")
    assert answer.text().startswith("<!doctype html>")


def test_a_saved_plan_has_a_page(visits: Visits, stored: Stored) -> None:
    page = visits.open(f"/runs/{stored['plan']}")
    expect(page.locator(".verdict")).to_contain_text("does not fit")
    expect(page.get_by_role("link", name="JSON")).to_have_attribute("href", f"/api/runs/{stored['plan']}")


def test_a_run_named_like_markup_is_shown_as_text(visits: Visits, stored: Stored) -> None:
    page = visits.open("/runs")
    expect(rows(page).filter(has_text=stored["script"])).to_contain_text(SCRIPT)
    for path in (f"/runs/{stored['script']}", f"/runs/compare?left={stored['script']}&right={stored['small']}"):
        visits.go(page, path)
        expect(page.locator("main")).to_contain_text(SCRIPT)
        expect(page.locator("body script, img")).to_have_count(0)


def test_a_run_that_is_not_there_is_said(visits: Visits) -> None:
    visits.refuses("/runs/")
    page = visits.open("/runs/ffffffff")
    expect(page.get_by_role("alert")).to_contain_text("ffffffff")
