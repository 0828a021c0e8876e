"""Reports as files: opened from disk without a network, unfolded by keyboard, saved, printed, selected."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from browser.conftest import Visits, expect, unfold_all

#: Of a page without the data it carries.
MOST_BYTES = 300_000
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
DATA = re.compile(r'<script type="application/json" id="data">(.*?)</script>', re.DOTALL)


@pytest.fixture
def opened(browser: Any, reports: dict[str, Path]) -> Iterator[Callable]:
    """Opens a report where nothing can be fetched, and sees that nothing was wanted."""
    visits, tried, wanted = Visits(browser), [], []

    def see(kind: str) -> Any:
        address = reports[kind].as_uri()
        context = visits.context(offline=True)
        context.on("request", lambda request: tried.append(request.url))
        context.route("**/*", lambda route: route.continue_() if route.request.url == address else route.abort())
        page = context.new_page()
        page.goto(address)
        wanted.append(address)
        return page

    yield see
    visits.close()
    assert not visits.complaints, "\n".join(visits.complaints)
    assert [address for address in tried if not address.startswith("data:")] == wanted


both = pytest.mark.parametrize("kind", ["plan", "recorded"])


@both
def test_a_report_opens_from_disk_and_is_small(
    opened: Callable, reports: dict[str, Path], shot: Callable, kind: str
) -> None:
    page = opened(kind)
    expect(page.get_by_role("heading", level=1)).to_have_text({"plan": "pidog-sac", "recorded": "short.py"}[kind])
    expect(page.locator("#verdict .verdict p").first).to_be_visible()
    shot(page, f"report-{kind}", full=True)
    text = reports[kind].read_text()
    (data,) = DATA.findall(text)
    assert len(text.encode()) - len(data.encode()) < MOST_BYTES


@both
def test_sections_stand_in_the_order_in_which_they_are_read(opened: Callable, kind: str) -> None:
    page = opened(kind)
    assert page.locator("main > section").evaluate_all("all => all.map((each) => each.id)") == ORDER
    links = page.get_by_role("navigation", name="Contents").get_by_role("link")
    assert [link.get_attribute("href") for link in links.all()] == [f"#{name}" for name in ORDER[1:]]


def test_a_component_unfolds_by_keyboard_and_shows_its_formula(opened: Callable) -> None:
    page = opened("plan")
    bar = page.locator("#components details.bar").first
    expect(bar.locator(".formula")).to_be_hidden()
    bar.locator("summary").focus()
    page.keyboard.press("Enter")
    expect(bar.locator(".formula")).to_be_visible()
    expect(bar.locator(".formula")).to_contain_text("×")
    expect(bar.get_by_role("columnheader", name="where it comes from")).to_be_visible()
    page.keyboard.press("Space")
    expect(bar.locator(".formula")).to_be_hidden()


def test_an_owner_of_a_recorded_run_unfolds_by_keyboard(opened: Callable) -> None:
    page = opened("recorded")
    bar = page.locator("#components details.bar").filter(has_text="model.replay_buffer").first
    bar.locator("summary").press("Enter")
    expect(bar.locator(".facts")).to_contain_text("resident")
    expect(bar.locator(".facts")).to_contain_text(re.compile(r"[\d,]+ of 3,000"))


def test_every_bar_is_reached_with_the_tab_key(opened: Callable) -> None:
    page = opened("plan")
    count = page.locator("#components summary").count()
    page.locator("#components summary").first.focus()
    for number in range(count):
        expect(page.locator("#components summary").nth(number)).to_be_focused()
        page.keyboard.press("Tab")


@both
def test_the_json_that_is_saved_is_the_document_inside(opened: Callable, reports: dict[str, Path], kind: str) -> None:
    page = opened(kind)
    with page.expect_download() as found:
        page.get_by_role("button", name="Save the JSON").click()
    assert found.value.suggested_filename.endswith(".json")
    saved = json.loads(found.value.path().read_text())
    (inside,) = DATA.findall(reports[kind].read_text())
    assert saved == json.loads(inside)
    assert saved["schema"] == {"plan": "rlmem.report/2", "recorded": "rlmem.recorded/2"}[kind]


@both
def test_on_paper_nothing_is_folded_away(opened: Callable, kind: str, tmp_path: Path) -> None:
    page = opened(kind)
    assert page.locator("details:not([open])").count() > 0
    page.emulate_media(media="print", color_scheme="dark")
    page.evaluate("() => dispatchEvent(new Event('beforeprint'))")
    expect(page.locator("details:not([open])")).to_have_count(0)
    for part in page.locator("details > :not(summary)").all():
        expect(part).to_be_visible()
    expect(page.locator(".tools")).to_be_hidden()
    background = page.evaluate("() => getComputedStyle(document.body).backgroundColor")
    assert background == "rgb(255, 255, 255)"
    page.evaluate("() => dispatchEvent(new Event('afterprint'))")
    expect(page.locator("details[open]")).to_have_count(0)
    page.evaluate("() => addEventListener('beforeprint', () => { document.body.dataset.printed = 'yes'; })")
    page.pdf(path=tmp_path / "report.pdf")
    assert (tmp_path / "report.pdf").read_bytes().startswith(b"%PDF")
    expect(page.locator("body")).to_have_attribute("data-printed", "yes")
    expect(page.locator("details[open]")).to_have_count(0)


def test_numbers_and_labels_of_charts_are_text_that_can_be_selected(opened: Callable) -> None:
    page = opened("plan")
    unfold_all(page)
    page.keyboard.press("Control+A")
    chosen = page.evaluate("() => getSelection().toString()")
    assert page.locator(".gauge .ends span").first.inner_text() in chosen
    for part in (".tick.across", ".tick.along", ".level", ".mark", ".bar .size", "td.number"):
        for words in page.locator(f"main {part}").all_inner_texts():
            assert words in chosen, part
    assert page.locator("svg text").count() == 0


def test_the_button_turns_a_report_dark(opened: Callable) -> None:
    page = opened("plan")
    page.get_by_role("button", name="Switch to dark").click()
    expect(page.locator("html")).to_have_attribute("data-theme", "dark")
    expect(page.locator("body")).to_have_css("background-color", "rgb(21, 24, 28)")
